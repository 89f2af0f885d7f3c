"""Suites and results that other programs have really written, mutated: what is wrong costs its case, and no more."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenteval.adapters.foreign.formats import FOREIGN
from agenteval.suites.formats import FORMATS
from tests.fuzz.checks import examples, expect_sound
from tests.fuzz.server import ToolServer
from tests.support.mutants import ODD, mutated_lines
from tests.support.tool import ROOT, run
from tests.test_odd_values import RESULT

DATA = ROOT / "tests/data"
EVALS = DATA / "suites/claude-evals/aggregate-result.json"
CSV = 'id,input,hint,contains,tags\na,"one, two",x,yes,"[1]"\nb,"over\nlines",,no,\n,third,,,\n'
# What a text format has of its own, in the place of a value or a line.
ODD_TEXT = [
    b"&a [*a]",
    b"*missing",
    b"!!python/object:os.system x",
    b"2026-13-40",
    b"2026-11-18T00:00:00Z",
    b"0x1F",
    b".inf",
    b"1e999",
    b"? {a: [b]}",
    b"<<: {x: 1}",
    b"- " * 2000,
    b"[" * 2000,
    b"\xff\xfe",
    b"\0",
    b'"""',
    b"---",
    b"[[x]]",
    b'"' + b'a"",' * 300,
]


class Source(NamedTuple):
    """Files that a command reads: where they come from, and the path it is given, below their folder."""

    command: tuple[str, ...]
    files: Path | str  # a folder or a file; a text is the file's content
    path: str = "."

    def place(self, folder: Path) -> list[Path]:
        """Copies them into a folder; returns those that are text or data."""
        shutil.rmtree(folder, ignore_errors=True)
        if isinstance(self.files, Path) and self.files.is_dir():
            shutil.copytree(self.files, folder)
        else:
            folder.mkdir()
            content = self.files if isinstance(self.files, str) else None
            target = folder / self.path
            target.write_text(content) if content is not None else shutil.copy(self.files, target)
        return sorted(path for path in folder.rglob("*") if path.is_file())


def spans() -> str:
    """Returns a trace as ae-format exports it."""
    return run("ae-format", "-f", "otlp", stdin=json.dumps(RESULT) + "\n").expect(0).stdout


SOURCES = {
    "csv": Source(("ae-prompts", "csv"), CSV, "suite.csv"),
    "claude-evals": Source(("ae-prompts", "claude-evals"), DATA / "suites/claude-evals"),
    "skill-creator": Source(("ae-prompts", "skill-creator"), DATA / "suites/skill-creator"),
    "harbor": Source(("ae-prompts", "harbor"), DATA / "suites/harbor"),
    "promptfoo": Source(("ae-prompts", "promptfoo"), DATA / "suites/promptfoo", "promptfooconfig.yaml"),
    "inspect": Source(("ae-prompts", "inspect"), DATA / "suites/inspect", "answers.json"),
    "inspect jsonl": Source(("ae-prompts", "inspect"), DATA / "suites/inspect", "questions.jsonl"),
    "import atif": Source(
        ("ae-import", "atif"), DATA / "suites/harbor-job/hello__right/agent/trajectory.json", "log.json"
    ),
    "import claude-evals": Source(("ae-import", "claude-evals"), EVALS, "a.json"),
    "import harbor": Source(("ae-import", "harbor"), DATA / "suites/harbor-job"),
    "import inspect": Source(("ae-import", "inspect"), DATA / "foreign/inspect.json", "log.json"),
    "import inspect zip": Source(("ae-import", "inspect"), DATA / "foreign/inspect.eval", "log.eval"),
    "import otlp": Source(("ae-import", "otlp"), "", "spans.json"),
    "import promptfoo": Source(("ae-import", "promptfoo"), DATA / "foreign/promptfoo.json", "log.json"),
}  # fmt: skip


def test_every_format_is_here() -> None:
    assert {one.command[1] for one in SOURCES.values() if one.command[0] == "ae-prompts"} == set(FORMATS)
    assert {one.command[1] for one in SOURCES.values() if one.command[0] == "ae-import"} == set(FOREIGN)


def changes(data: bytes, rng: random.Random) -> Iterator[bytes]:
    """Yields a file as it may be after an accident or an attack."""
    if rng.random() < 0.3:
        lines = data.split(b"\n")
        at = rng.randrange(len(lines))
        before, colon, _value = lines[at].partition(rng.choice([b":", b"=", b","]))
        lines[at] = (
            rng.choice([before + colon, b""])
            + b" "
            + rng.choice([*ODD_TEXT, *(json.dumps(odd).encode() for odd in ODD)])
        )
        yield b"\n".join(lines)
    else:
        yield mutated_lines(data, rng)


@pytest.mark.parametrize("name", SOURCES)
def test_mutated_files(name: str, tools: ToolServer) -> None:
    source = SOURCES[name]
    if name == "import otlp":
        source = source._replace(files=spans())
    folder = tools.folder / name.replace(" ", "-")
    files = source.place(folder)
    whole = {file: file.read_bytes() for file in files}

    @examples(3, 300)
    @given(st.integers(0, 1 << 32))
    def check(seed: int) -> None:
        rng = random.Random(seed)
        victim = rng.choice(files)
        for content in changes(whole[victim], rng):
            victim.write_bytes(content)
            try:
                expect_sound(tools.run(*source.command, folder / source.path), content)
            finally:
                victim.write_bytes(whole[victim])

    check()
