"""Adapter schemas: transcripts that were changed, read by the schemas that ship; schemas that were changed."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenteval.adapters.reader import Adapter, result_of
from agenteval.adapters.schema_file import parse_headless
from agenteval.errors import BadRecord, UserError
from agenteval.streams.jsonl import encode
from tests.fuzz.checks import examples, expect_sound, some
from tests.fuzz.server import ToolServer
from tests.fuzz.strategies import as_line, broken_lines, json_values, mutated
from tests.support.tool import ROOT, Record

SCHEMAS = {path.stem: path for path in sorted((ROOT / "agenteval/adapters/schemas").glob("*.json"))}
TRANSCRIPTS = ROOT / "tests/data/transcripts"
SCHEMA = "schema.json"
SAMPLE = 40  # lines of a transcript


def transcripts(name: str) -> list[list[str]]:
    """Returns the lines of each recorded transcript of an agent; for those that have none, of claude."""
    if name == "acp":
        files = sorted((ROOT / "tests/data/acp").glob("*.jsonl"))
    else:
        files = sorted(path for path in TRANSCRIPTS.iterdir() if path.name.partition("-")[0] == name.partition("-")[0])
    files = [path for path in files if path.suffix in (".jsonl", ".txt")] or [TRANSCRIPTS / "claude-success.jsonl"]
    return [path.read_text("utf-8", "replace").splitlines()[:SAMPLE] for path in files]


def event_of(line: str) -> Any:
    """Returns the event on a line, or the line itself."""
    try:
        return json.loads(line)
    except ValueError:
        return line


@st.composite
def changed(draw: st.DrawFn, found: list[list[str]]) -> list[str]:
    """Returns a transcript in which a few lines were changed, repeated, left out or moved."""
    lines = list(draw(st.sampled_from(found)))
    for _ in range(draw(st.integers(1, 4))):
        if not lines:
            break
        at = draw(st.integers(0, len(lines) - 1))
        kind = draw(st.sampled_from(["change", "change", "change", "break", "drop", "repeat", "other"]))
        event = event_of(lines[at])
        if kind == "change":
            lines[at] = as_line(draw(mutated(st.just(event)))).decode()
        elif kind == "break":
            lines[at] = draw(broken_lines(st.just(event))).decode("utf-8", "replace")
        elif kind == "drop":
            del lines[at]
        elif kind == "repeat":
            lines.insert(draw(st.integers(0, len(lines))), lines[at])
        else:
            lines[at] = as_line(draw(json_values)).decode()
    return lines


def raw_of(name: str, lines: list[str]) -> Record:
    """Returns a raw record with these lines."""
    times = list(range(len(lines)))
    return {"id": name, "input": "x", "rawLines": lines, "lineTimes": times, "timing": {"start": 1, "end": 2}}


@pytest.mark.parametrize("name", some(list(SCHEMAS), ["claude", "text"]))
def test_transcripts(name: str, tools: ToolServer) -> None:
    """Whatever an agent prints, its record is extracted; `ae-extract` loses none."""
    found = transcripts(name)

    @examples(short=2, long=60)
    @given(st.lists(changed(found), min_size=1, max_size=5))
    def try_it(several: list[list[str]]) -> None:
        stdin = b"".join(as_line(raw_of(f"r{at}", lines)) + b"\n" for at, lines in enumerate(several))
        done = expect_sound(tools.run("ae-extract", "-s", name, stdin=stdin), stdin)
        assert done.ids == [f"r{at}" for at in range(len(several))], done

    try_it()


@pytest.mark.parametrize("name", some(list(SCHEMAS), ["claude", "codex", "acp", "gptme"]))
def test_schemas(name: str) -> None:
    """A schema that was changed is refused with a message, or reads transcripts without an error."""
    schema = json.loads(SCHEMAS[name].read_text())
    lines = transcripts(name)[0]

    @examples(short=8, long=250)
    @given(st.one_of(mutated(st.just(schema)).map(as_line), broken_lines(st.just(schema)), json_values.map(as_line)))
    def try_it(data: bytes) -> None:
        try:
            adapter = Adapter(parse_headless(data, SCHEMA), SCHEMA)
        except UserError as error:
            assert "\n" not in str(error), str(error)
            return
        try:
            encode(result_of(raw_of("r", lines), adapter))
        except BadRecord as error:
            assert "\n" not in str(error), str(error)

    try_it()


@st.composite
def schema_files(draw: st.DrawFn) -> tuple[str, bytes]:
    """Returns the name of a schema and its file, changed or broken."""
    name = draw(st.sampled_from(sorted(SCHEMAS)))
    schema = json.loads(SCHEMAS[name].read_text())
    return name, draw(st.one_of(mutated(st.just(schema)).map(as_line), broken_lines(st.just(schema))))


@examples(short=2, long=150)
@given(schema_files())
def test_schema_files(tools: ToolServer, file: tuple[str, bytes]) -> None:
    """The same with a file and the tools: `ae-extract`, and `ae-run` without starting anything."""
    name, content = file
    (tools.folder / SCHEMA).write_bytes(content)
    raw = as_line(raw_of("r", transcripts(name)[0]))
    expect_sound(tools.run("ae-extract", "-s", SCHEMA, stdin=raw), content)
    expect_sound(tools.run("ae-run", "--dry-run", "-s", SCHEMA, stdin=b'{"id":"a","input":"x"}'), content)
