"""A schema that takes nothing from what the agents print is noticed while they run, and others are named."""

from __future__ import annotations

import select
from pathlib import Path
from typing import Any

import pytest

from agenteval.adapters.schema_file import SchemaFit, matching_schemas
from tests.support.tool import jsonl, run, write
from tests.support.transcripts import TRANSCRIPTS, adapter_name, compiled_once, recorded
from tests.support.watching import PATIENCE, Running

UNREAD: dict[str, Any] = {"rawLines": ['{"kind": "other"}']}
EMPTY: dict[str, Any] = {"output": "", "trajectory": []}
RECORD = {"id": "a", "input": "x", "timing": {"start": 0, "end": 1, "total": 1}}


@pytest.fixture(autouse=True)
def _compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agenteval.adapters.schema_file.load_adapter", compiled_once)


@pytest.mark.parametrize(
    "agent", ["claude", "cline", "codex", "copilot", "gemini", "gptme", "miniswe", "opencode", "pi"]
)
def test_the_schema_of_an_agent_is_found_by_its_lines(agent: str) -> None:
    assert matching_schemas([recorded(agent, "success")])[0] == adapter_name(agent)


def test_text_is_named_only_for_lines_that_are_no_json() -> None:
    assert matching_schemas([["Paris.", "It is in France."]]) == ["text"]
    assert matching_schemas([['{"kind": "other"}']]) == []


@pytest.mark.parametrize(
    ("records", "warned_after"),
    [
        ([(UNREAD, EMPTY)] * 5, 3),
        ([(UNREAD, EMPTY)] * 2, "the end"),
        ([(UNREAD, EMPTY)] * 2 + [(UNREAD, {**EMPTY, "output": "yes"})], None),
        ([(UNREAD, {**EMPTY, "trajectory": [{}]})] + [(UNREAD, EMPTY)] * 4, None),
        ([(UNREAD, {**EMPTY, "errors": ["what the schema found"]})] + [(UNREAD, EMPTY)] * 4, None),
        ([({"rawLines": ["", " "]}, EMPTY)] * 4, None),
        ([({"rawLines": []}, EMPTY)] * 2 + [(UNREAD, EMPTY)] * 4, 5),
        ([({**UNREAD, "errors": ["exited with 1"]}, {**EMPTY, "errors": ["exited with 1"]})] * 4, None),
    ],
)
def test_one_warning_after_the_first_records(
    records: list[tuple[dict[str, Any], dict[str, Any]]], warned_after: int | str | None
) -> None:
    said: list[str] = []
    fit, seen = SchemaFit("claude", said.append), None
    for number, (raw, result) in enumerate(records, 1):
        fit.add(raw, result)
        seen = seen or (number if said else None)
    fit.finish()
    assert (seen or ("the end" if said else None)) == warned_after
    assert len(said) <= 1 and all("the schema claude matches nothing" in line for line in said)


def wait_for_warning(tool: Running) -> str:
    """Returns the first line on stderr of a tool that is still running."""
    assert select.select([tool.stderr], [], [], PATIENCE)[0], "no warning during the run"
    assert tool.process.poll() is None
    return tool.stderr.readline().decode()


def test_extract_warns_during_the_run(tmp_path: Path) -> None:
    with Running("ae-extract", "-s", "codex", cwd=tmp_path) as tool:
        tool.feed(*[{**RECORD, "rawLines": recorded("claude", "success")}] * 3)
        line = wait_for_warning(tool)
    assert "the first 3 records" in line and "--explain" in line and "match them: claude" in line, line


@pytest.mark.parametrize("tool", ["ae-capture", "ae-trials"])
def test_capture_and_trials_warn_during_the_run(tool: str, tmp_path: Path) -> None:
    options = ["-k", 3] if tool == "ae-trials" else []
    agent = f"cat {TRANSCRIPTS / 'claude-success.jsonl'}"
    with Running(tool, *options, "--shell", agent, "--extract", "codex", cwd=tmp_path) as running:
        running.feed(*({"id": f"p{n}", "input": "x"} for n in range(3)))
        line = wait_for_warning(running)
        assert "the schema codex matches nothing" in line and "match them: claude" in line, line
        assert running.end().err == b"", "one warning only"


def test_a_schema_that_fits_gives_no_warning(tmp_path: Path) -> None:
    write(tmp_path / "prompts", jsonl({"id": "a", "input": "x"}))
    run("ae-capture", "prompts", "--simple", "echo {}", cwd=tmp_path).expect(0, stderr="")
