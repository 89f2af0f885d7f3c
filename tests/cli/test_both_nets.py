"""One redactor in every tool that writes text of agents, graders and sessions: values of variables, and patterns."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.tool import jsonl, run, script

VALUE, TOKEN = "correct-horse-battery", "ghp_" + "Ab3dEf6hIj9lMn2pQr5tUv8xYz1bCd4fGh7j"
TEXT = f"{VALUE} {TOKEN}"
RESULT = {"id": "a", "input": "i", "output": TEXT, "trajectory": [], "metadata": {}, "timing": {"total": 1}}
RAW = {"id": "a", "input": "i", "rawLines": [TEXT], "timing": {"start": 0, "end": 1, "total": 1}}
SESSION = [
    {"type": "user", "sessionId": "s", "message": {"role": "user", "content": "hello"}},
    {"type": "assistant", "sessionId": "s", "message": {"content": [{"type": "text", "text": TEXT}]}},
]
SAYS = f"cat > /dev/null; echo '{json.dumps({'pass': True, 'score': 1, 'reasoning': TEXT})}'"


@pytest.mark.parametrize(
    "tool",
    ["ae-run", "ae-capture", "ae-trials", "ae-extract", "ae-grade", "ae-import", "ae-validate-refs"],
)
def test_neither_net_has_a_hole(tool: str, tmp_path: Path) -> None:
    grader, agent = script(tmp_path / "grader", SAYS), script(tmp_path / "agent", f"echo '{TEXT}'; echo '{TEXT}' >&2")
    (tmp_path / "session.jsonl").write_text(jsonl(*SESSION))
    special: dict[str, list[object]] = {
        "ae-extract": ["-s", "text"],
        "ae-grade": ["-g", grader],
        "ae-import": ["claude", "session.jsonl"],
        "ae-validate-refs": ["-g", grader],
        "ae-trials": ["--simple", f"{agent} {{}}", "-k", "1"],
    }
    arguments = special.get(tool, ["--simple", f"{agent} {{}}"])
    given = {"ae-extract": RAW, "ae-grade": RESULT}.get(tool, {"id": "a", "input": "i", "reference": "r"})
    for options in ([], ["--no-redact"]):
        done = run(tool, *arguments, *options, stdin=jsonl(given), cwd=tmp_path, env={"MY_TOKEN": VALUE}).expect(0)
        assert (VALUE in done.stdout) == (TOKEN in done.stdout) == bool(options), done
        assert options or {"[redacted:MY_TOKEN]", "[redacted:GITHUB_TOKEN]"} <= set(
            done.stdout.replace('"', " ").split()
        )
