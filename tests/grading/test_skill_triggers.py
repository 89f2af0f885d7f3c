"""ae-grader-tools --skill: was the skill loaded where it should be; precision and recall in reports."""

from __future__ import annotations

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
    no = run("ae-grader-tools", "--no-skill", "xlsx", "--allow-errors", stdin=jsonl(*RECORDS)).expect(0).records
    assert [verdict["pass"] for verdict in no] == [True, True, False, True, True, False]


def test_what_cannot_be_meant() -> None:
    done = run("ae-grader-tools", "--skill", "pdf", "--no-skill", "pdf", stdin=jsonl(*RECORDS)).expect(2)
    assert "which of them" in done.stderr
