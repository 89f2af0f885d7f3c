"""--warm-up: the first agent finishes before others start."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.agents.test_acp import AGENT
from tests.support.tool import jsonl, meeting, run

PROMPTS = [{"id": name, "input": name} for name in "abcd"]
# Fails if the HOME is being set up by another one; sets it up otherwise, which takes a while.
SETS_UP = """
if [ -e ready ]; then exit 0; fi
mkdir begun 2>/dev/null || { echo "table already exists" >&2; exit 1; }
sleep 0.3; touch ready
"""


def failed(tmp_path: Path, *options: object, tool: str = "ae-run", prompts: Any = PROMPTS) -> list[str]:
    """Returns the errors of a run, -j 4."""
    done = run(tool, "-j", "4", *options, stdin=jsonl(*prompts), cwd=tmp_path).expect(0)
    return [
        error for record in done.records for one in record.get("trials", [record]) for error in one.get("errors", ())
    ]


def schema(tmp_path: Path, **fields: Any) -> Path:
    path = tmp_path / "mine.json"
    base = {"version": 1, "name": "mine", "sessionMode": "iterative", "prompt": {"flag": ""}, "outputMode": "text"}
    path.write_text(json.dumps({**base, "command": ["sh", "-c", SETS_UP, "sh"], **fields}))
    return path


@pytest.mark.parametrize("tool", ["ae-run", "ae-capture"])
def test_the_first_sets_up_what_the_others_need(tool: str, tmp_path: Path) -> None:
    assert failed(tmp_path, "--warm-up", "--shell", SETS_UP, tool=tool) == []


def test_trials(tmp_path: Path) -> None:
    more = ["-k", "2", "--workspace-dir", tmp_path / "ws"]
    assert failed(tmp_path, "--warm-up", *more, "--shell", f"cd {tmp_path}; {SETS_UP}", tool="ae-trials") == []


def test_the_schema_asks_for_it_and_the_user_decides(tmp_path: Path) -> None:
    assert failed(tmp_path, "-s", schema(tmp_path, warmUp=True)) == []
    side_by_side = schema(tmp_path, warmUp=True, command=["sh", "-c", meeting(4, tmp_path), "sh"])
    assert failed(tmp_path, "-s", side_by_side, "--no-warm-up") == [], "the first would wait for the others for ever"


@pytest.mark.parametrize("first", ["exit 3", "sleep 30"])
def test_a_first_agent_that_fails_or_hangs(first: str, tmp_path: Path) -> None:
    """The others start all the same, and side by side: they wait for each other."""
    line = f'if [ "$PROMPT" = a ]; then {first}; fi; {meeting(3, tmp_path)}'
    prompts = [{**prompt, "timeout": 1000} if prompt["id"] == "a" else prompt for prompt in PROMPTS]
    (error,) = failed(tmp_path, "--warm-up", "--shell", line, prompts=prompts)
    assert "code 3" in error or "timeout" in error


def test_what_an_earlier_run_has_done_is_no_warm_up(tmp_path: Path) -> None:
    done = jsonl({"id": "a", "input": "a", "rawLines": [], "timing": {"start": 0, "end": 0}})
    (tmp_path / "raw.jsonl").write_text(done)
    more = ["-o", tmp_path / "raw.jsonl", "--resume", "--force"]
    assert failed(tmp_path, "--warm-up", *more, "--shell", SETS_UP) == []
    assert len((tmp_path / "raw.jsonl").read_text().splitlines()) == 4
    errors = [line for line in (tmp_path / "raw.jsonl").read_text().splitlines() if '"errors"' in line]
    assert errors == []


@pytest.mark.parametrize("options", [["-j", "1"], ["--shard", "1/2"], ["--keep-order"]])
def test_with_other_options(options: list[str], tmp_path: Path) -> None:
    assert failed(tmp_path, "--warm-up", *options, "--shell", SETS_UP) == []


def test_a_failed_start_is_retried(tmp_path: Path) -> None:
    """No output and a race, or nothing, on stderr; an ACP agent that cannot open a session; but no missing login."""
    again = "[ -e again ] && exit 0; touch again; "
    for problem in ("exit 1", "echo 'Failed query: CREATE TABLE x' >&2; exit 1", "kill -9 $$"):
        (tmp_path / "again").unlink(missing_ok=True)
        assert failed(tmp_path, "--retries", "1", "--shell", again + problem, prompts=PROMPTS[:1]) == [], problem
    assert failed(tmp_path, "--retries", "1", "--shell", "echo printed; exit 1", prompts=PROMPTS[:1]) != []
    for code, attempts in ((-32603, 2), (-32000, None)):
        start = json.dumps(["new_error", {"code": code, "message": "no such table: sessions"}])
        done = run("ae-run", "--retries", "1", "--", *AGENT, start, stdin=jsonl(PROMPTS[0]), cwd=tmp_path).expect(0)
        assert done.records[0].get("attempts") == attempts, done.records
