"""Every tool's stdin: arbitrary bytes, arbitrary JSON, records that are nearly valid."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz.checks import LONG, examples, expect_sound
from tests.fuzz.server import ToolServer
from tests.fuzz.strategies import SAMPLES, as_line, inputs_of
from tests.support.tool import ROOT, TOOLS, run

AGENT = ("-j", "4", "-t", "20s", "--simple", "echo {}")
GRADERS = ("-g", "hint=ae-grader-hint", "-g", "ae-grader-tools --require n", "-g", "sources=ae-grader-sources")
FORMS = sorted(path.stem for path in (ROOT / "agenteval/reports/results").glob("[a-z]*.py"))
BINARY = {"parquet", "inspect"}  # need -o
SCHEMAS = sorted(path.stem for path in (ROOT / "agenteval/adapters/schemas").glob("*.json"))
FOREIGN = ["atif", "inspect", "otlp", "promptfoo"]
NOT_READERS = {
    "ae",
    "ae-adapters",
    "ae-headless",
    "ae-ray",
    "ae-schemas",
    "ae-wikiagent",
    "ae-sandbox",
    "ae-prompts",
}  # ae-headless: test_acp.py


class Invocation(NamedTuple):
    """A tool with arguments, the kind of records it reads, and how it may end."""

    tool: str
    args: tuple[str, ...] = ()
    kind: str = "result"
    lines: bool = True  # whether it writes records
    file: str | None = None  # a second input, of the same kind
    slow: bool = False  # starts processes
    costly: bool = False  # only in `make fuzz`

    @property
    def name(self) -> str:
        """Returns the command line."""
        return " ".join((self.tool, *self.args))


def text(tool: str, *args: str, kind: str = "result", file: str | None = None, costly: bool = False) -> Invocation:
    """Returns one that writes a report."""
    return Invocation(tool, args, kind, lines=False, file=file, costly=costly)


INVOCATIONS = [
    Invocation("ae-run", AGENT, "prompt", slow=True),
    Invocation("ae-run", ("--dry-run", *AGENT), "prompt"),
    Invocation("ae-capture", (*AGENT, *GRADERS[:2]), "prompt", slow=True, costly=True),
    Invocation("ae-trials", ("-k", "2", *AGENT, *GRADERS[:2]), "prompt", slow=True),
    *(Invocation("ae-extract", ("-s", name), "raw", costly=name not in ("text", "claude")) for name in SCHEMAS),
    text("ae-extract", "-s", "claude", "--explain", kind="raw"),
    Invocation("ae-grade", (*GRADERS, "--grade-failed"), slow=True),
    Invocation("ae-validate-refs", GRADERS[:2], "prompt", slow=True),
    *(Invocation("ae-format", ("-f", form, *(("-o", "report") if form in BINARY else ())), "any", form in JSONL)
      for JSONL in [{"jsonl", "sft", "dpo", "atif", "otlp"}] for form in FORMS),
    text("ae-format", "-f", "dpo", "--against", "other", kind="any", file="other"),
    text("ae-show", kind="any"),
    text("ae-show", "--failed", "--full", "-", "a", "a#1", kind="any"),
    text("ae-gate", "--min", "passRate=0.5", "--max", "p90=30s", "--confident", "--by", "category", kind="any"),
    text("ae-gate", "--min", "passExpK=0.5", "--max", "costUsd=1", kind="trial"),
    text("ae-compare", "-", "other", file="other"),
    text("ae-compare", "-", "other", "-s", "statistical", "-f", "markdown", file="other"),
    text("ae-compare", "-", "other", "-f", "json", kind="trial", file="other"),
    text("ae-compare", "-", "other", "-f", "html", kind="any", file="other"),
    Invocation("ae-summarize", (), "any"),
    text("ae-summarize", "--markdown", kind="any"),
    text("ae-score"),
    text("ae-score", "-f", "table", "--criteria", "minimum", costly=True),
    text("ae-calibrate", "--all", "--labels", "other", file="other"),
    text("ae-calibrate", "--all", "-f", "json"),
    text("ae-calibrate", "--read"),
    text("ae-balance", kind="prompt"),
    Invocation("ae-merge", (), "any"),
    Invocation("ae-merge", ("--prompts", "other", "--prefer", "ok"), "any", file="other"),
    text("ae-plan", "-f", "json", costly=True),
    text("ae-plan", "-", "other", kind="trial", file="other"),
    Invocation("ae-grader-hint"),
    Invocation("ae-grader-checks", kind="checked", slow=True),
    text("ae-history", "-f", "json", "-", kind="any"),
    text("ae-history", "-f", "html", "-", "other", kind="any", file="other"),
    text("ae-history", "-f", "table", "-", "other", kind="trial", file="other"),
    Invocation("ae-grader-sources"),
    Invocation("ae-grader-tools", ("--require", "n", "--max-calls", "3")),
    Invocation("ae-grader-git", slow=True),
    Invocation("ae-grader-judge", ("--offline",), slow=True, costly=True),
    *(Invocation("ae-import", (name,), "any") for name in FOREIGN),
]  # fmt: skip


def test_every_tool_that_reads_is_here() -> None:
    assert {one.tool for one in INVOCATIONS} | NOT_READERS == set(TOOLS)


@pytest.mark.parametrize("one", [pytest.param(one, id=one.name) for one in INVOCATIONS if LONG or not one.costly])
def test_stdin(one: Invocation, tools: ToolServer) -> None:
    @examples(short=1 if one.slow else 2, long=25 if one.slow else 120)
    @given(inputs_of(one.kind), inputs_of(one.kind) if one.file else st.just(b""))
    def try_it(stdin: bytes, other: bytes) -> None:
        if one.file:
            (tools.folder / one.file).write_bytes(other)
        done = tools.run(one.tool, *one.args, stdin=stdin)
        expect_sound(done, stdin, lines=one.lines)

    try_it()


@pytest.mark.parametrize("tool", ["ae-run", "ae-format"])
def test_a_fork_is_as_good_as_a_process(tool: str, tools: ToolServer) -> None:
    """The server saves the start of the interpreter, and nothing else: the same input, the same end."""
    one = next(one for one in INVOCATIONS if one.tool == tool)
    stdin = b"\n".join([*map(as_line, SAMPLES["any"]), b"{", b"\xff", b"[]"])
    (tools.folder / "other").write_bytes(stdin)
    forked, real = tools.run(tool, *one.args, stdin=stdin), run(tool, *one.args, stdin=stdin, cwd=tools.folder)
    assert (forked.code, forked.err.count(b"\n")) == (real.code, real.err.count(b"\n")), (forked, real)
    assert forked.out.count(b"\n") == real.out.count(b"\n")
