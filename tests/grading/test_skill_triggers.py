"""ae-grader-tools --skill: was the skill loaded where it should be; precision and recall in reports."""

from __future__ import annotations

import json

from agenteval.adapters.skills import skills_used
from tests.support.tool import Record, jsonl, run


def record(id: str, should: bool | None, *calls: Record) -> Record:
    steps = [{"type": "tool_call", "status": "completed", "timestamp": 0, "stepId": id, **call} for call in calls]
    metadata = {} if should is None else {"shouldTrigger": should, "category": "pdf"}
    return {"id": id, "input": "x", "output": "y", "trajectory": steps, "metadata": metadata, "timing": {"total": 1}}


SKILL: Record = {"name": "Skill", "input": {"skill": "pdf"}}
READ: Record = {"name": "command_execution", "input": "cat /ws/.agents/skills/pdf/SKILL.md"}
OTHER: Record = {"name": "Skill", "input": {"skill": "xlsx"}}
RECORDS = [
    record("tool", True, SKILL),
    record("read", True, READ),
    record("missed", True, OTHER),
    record("eager", False, SKILL),
    record("quiet", False),
    record("unmarked", None, OTHER),
]


def test_a_skill_is_loaded_where_it_should_be() -> None:
    graded = run("ae-grade", "-g", "ae-grader-tools --skill pdf --allow-errors", stdin=jsonl(*RECORDS)).expect(0)
    passed = {found["id"]: found["score"]["pass"] for found in graded.records}
    assert passed == {"tool": 1, "read": 1, "missed": 0, "eager": 0, "quiet": 1, "unmarked": 0}
    verdicts = {found["id"]: found["score"] for found in graded.records}
    assert verdicts["eager"]["reasoning"] == "the skill pdf was loaded, and should not be"
    assert verdicts["read"]["outcome"]["skillTriggered"] is True
    assert verdicts["missed"]["outcome"]["skills"] == {"pdf": False}
    shown = run("ae-format", "-f", "markdown", stdin=graded.stdout).expect(0).stdout
    assert "precision 66.7% (2/3), recall 66.7% (2/3)" in shown
    grouped = [{**found, "metadata": {**found["metadata"], "category": found["id"][0]}} for found in graded.records]
    by = run("ae-format", "-f", "markdown", "--by", "category", stdin=jsonl(*grouped)).expect(0).stdout
    assert "| Agents failed | Precision | Recall |" in by, by
    (eager,) = (line for line in by.splitlines() if line.startswith("| e |"))
    assert eager.split(" | ")[-3:] == ["0", "0/1", "– |"], by
    on_terminal = run("ae-format", "-f", "table", "--by", "category", stdin=jsonl(*grouped)).expect(0).stdout
    assert "  PRECISION  RECALL" in on_terminal, on_terminal
    no = run("ae-grader-tools", "--no-skill", "xlsx", "--allow-errors", stdin=jsonl(*RECORDS)).expect(0).records
    assert [verdict["pass"] for verdict in no] == [True, True, False, True, True, False]


def test_checks_of_prompts_say_it_too() -> None:
    records = [
        {**found, "checks": [{"type": "skill-used" if found["metadata"]["shouldTrigger"] else kind, "skill": "pdf"}]}
        for found, kind in zip(RECORDS[:5], ["skill-not-used"] * 5, strict=True)
    ]
    graded = run("ae-grade", "-g", "ae-grader-checks", stdin=jsonl(*records)).expect(0)
    assert graded.records[0]["score"]["outcome"]["skills"] == {"pdf": True}
    shown = run("ae-format", "-f", "table", stdin=graded.stdout).expect(0).stdout
    assert "precision 66.7% (2/3), recall 66.7% (2/3)" in shown


def test_the_metadata_names_the_skills_that_were_loaded() -> None:
    def call(number: int, name: str, given: Record) -> Record:
        return {"type": "tool_use", "id": str(number), "name": name, "input": given}

    calls = [
        call(1, "Skill", {"skill": "team:pdf"}),
        call(2, "Read", {"file_path": "/ws/.claude/skills/xlsx/SKILL.md"}),
        call(3, "Bash", {"command": "cd .claude/skills/docx && cat SKILL.md"}),
        call(4, "Write", {"file_path": "skills/new/SKILL.md", "content": "x"}),
        call(5, "Read", {"file_path": "README.md"}),
        call(6, "Skill", {"skill": "gone"}),
    ]
    failed = {"type": "tool_result", "tool_use_id": "6", "content": "Unknown skill", "is_error": True}
    lines = [
        {"type": "assistant", "message": {"content": calls}},
        {"type": "user", "message": {"content": [failed]}},
        {"type": "result", "subtype": "success", "result": "done", "is_error": False},
    ]
    raw = {"id": "a", "input": "x", "rawLines": [json.dumps(line) for line in lines], "timing": {"start": 0, "end": 1}}
    (result,) = run("ae-extract", "-s", "claude", stdin=jsonl(raw)).expect(0).records
    assert result["metadata"]["skillsUsed"] == ["pdf", "xlsx", "docx"]


def test_the_input_of_a_tool_may_be_nested_deeply() -> None:
    given: object = "cat skills/pdf/SKILL.md"
    for _level in range(5000):
        given = {"a": [given]}
    assert skills_used([{"type": "tool_call", "name": "Bash", "input": given}]) == ["pdf"]


def test_what_cannot_be_meant() -> None:
    done = run("ae-grader-tools", "--skill", "pdf", "--no-skill", "pdf", stdin=jsonl(*RECORDS)).expect(2)
    assert "contradict each other" in done.stderr
