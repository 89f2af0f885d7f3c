"""What a tool writes, the next one reads: from prompts and agents of any kind to every report and export."""

from __future__ import annotations

import re
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz.checks import LONG, examples, expect_sound
from tests.fuzz.server import Run, ToolServer
from tests.fuzz.strategies import as_line, json_values, keys, mutated, text
from tests.support.tool import Record, script
from tests.test_odd_values import EVENTS

READERS: list[tuple[str, ...]] = [
    ("ae-summarize",),
    ("ae-summarize", "--markdown"),
    ("ae-compare", "-", "same"),
    ("ae-compare", "-", "same", "-f", "markdown"),
    ("ae-gate", "--min", "passRate=0.5"),
    ("ae-show", "--full"),
    ("ae-merge",),
    *([("ae-plan",)] if LONG else []),  # these two take longest
    *(("ae-format", "-f", form) for form in ("jsonl", "csv", "markdown", "table", "junit", "sft", "html")),
]
OF_RESULTS: list[tuple[str, ...]] = [("ae-calibrate", "--all"), ("ae-grade", "-g", "ae-grader-hint")]
OF_RESULTS += [("ae-score",)] if LONG else []
EXPORTS = {"atif": "atif", "otlp": "otlp"}  # form of ae-format → format of ae-import
A_LINE = re.compile(rb"^ae-[a-z-]+: \S+:\d+: ", re.MULTILINE)  # a message about a line of the input
RESERVED = {"id", "input", "does", "timeout", "rawLines"}

events = st.lists(st.one_of(st.sampled_from(EVENTS), mutated(st.sampled_from(EVENTS))), max_size=5)
printed = st.one_of(
    events.map(lambda found: b"\n".join(map(as_line, found))), st.binary(max_size=60), text.map(str.encode)
)


@st.composite
def prompts(draw: st.DrawFn) -> list[Record]:
    """Returns prompts with fields of the user's own, some of which other stages use."""
    found = []
    for name in draw(st.lists(text.filter(bool), min_size=1, max_size=4, unique=True)):
        own = draw(st.dictionaries(keys.filter(lambda key: key not in RESERVED), json_values, max_size=3))
        found.append({**own, "id": name, "input": draw(st.one_of(text, st.lists(text, min_size=1, max_size=2)))})
    return found


def read(tools: ToolServer, args: tuple[str, ...], given_lines: bytes, *, lines: bool = False) -> Run:
    """Runs a tool on what another one has written, and asserts that it refuses no line of it."""
    done = expect_sound(tools.run(*args, stdin=given_lines), given_lines, lines=lines)
    if done.code == 2 and b"no record is graded" in done.err:  # ae-plan has nothing to plan by
        return done
    assert done.code in (0, 1) and not A_LINE.search(done.err), f"a line is refused{done}\n{given_lines[:3000]!r}"
    return done


def accepted(tools: ToolServer, found: list[Any]) -> tuple[bytes, list[str]]:
    """Returns the prompts that ae-run would run, and their ids: the others are refused, and no part of the chain."""
    stdin = b"".join(as_line(prompt) + b"\n" for prompt in found)
    dry = tools.run("ae-run", "--dry-run", "--simple", "true {}", stdin=stdin)
    expect_sound(dry, stdin)
    ids = [record["id"] for record in dry.records]
    lines = [as_line(prompt) for prompt in found if prompt["id"] in ids]
    return b"".join(line + b"\n" for line in lines), ids


@examples(short=1, long=60)
@given(prompts(), printed, st.sampled_from(["claude", "text", "gemini"]))
def test_results(tools: ToolServer, found: list[Any], output: bytes, schema: str) -> None:
    stdin, ids = accepted(tools, found)
    if not ids:
        return
    (tools.folder / "output").write_bytes(output)
    agent = script(tools.folder / "agent", f"cat {tools.folder}/output")
    run = read(tools, ("ae-run", "-j", "2", "--keep-order", "--simple", f"{agent} {{}}"), stdin, lines=True)
    results = read(tools, ("ae-extract", "-s", schema), run.out, lines=True)
    graded = read(tools, ("ae-grade", "-g", "h=ae-grader-hint", "-g", "t=ae-grader-tools"), results.out, lines=True)
    assert run.ids == results.ids == graded.ids == ids, (run, results, graded)
    (tools.folder / "same").write_bytes(graded.out)
    for reader in READERS + OF_RESULTS:
        read(tools, reader, graded.out)
    for form, format in EXPORTS.items():
        exported = read(tools, ("ae-format", "-f", form), graded.out, lines=True)
        read(tools, ("ae-summarize",), read(tools, ("ae-import", format), exported.out, lines=True).out)


@examples(short=1, long=40)
@given(prompts(), printed)
def test_trials(tools: ToolServer, found: list[Any], output: bytes) -> None:
    stdin, ids = accepted(tools, found)
    if not ids:
        return
    (tools.folder / "output").write_bytes(output)
    agent = script(tools.folder / "agent", f"cat {tools.folder}/output")
    args = ("ae-trials", "-j", "2", "-k", "2", "--keep-order", "--simple", f"{agent} {{}}", "-g", "ae-grader-hint")
    trials = read(tools, args, stdin, lines=True)
    assert trials.ids == ids, trials
    (tools.folder / "same").write_bytes(trials.out)
    for reader in READERS:
        read(tools, reader, trials.out)
