"""The row: results and trials read alike, and the rule that a failed agent never passes."""

import json
from typing import Any

import pytest

from agenteval.errors import BadRecord
from agenteval.streams.rows import groups_at, parse_row, value_at
from agenteval.wire.row import (
    ERROR,
    FAIL,
    FLAKY,
    GRADER_ERROR,
    PASS,
    UNGRADED,
    Row,
    RowWithCalls,
    RowWithSteps,
)

GOOD = {"pass": True, "score": 1.0}


def row(**fields: Any) -> RowWithSteps:
    """The row of a record with these fields."""
    return parse_row(json.dumps({"id": "p", **fields}).encode(), RowWithSteps)


def trials(*entries: dict[str, Any], **fields: Any) -> RowWithSteps:
    """The row of a record with these trials."""
    return row(k=len(entries), trials=list(entries), **fields)


def test_a_result_is_a_prompt_with_one_attempt() -> None:
    found = row(input="q", output="a", score=GOOD, timing={"start": 5, "end": 25, "inputTokens": 3, "outputTokens": 4})
    (attempt,) = found.attempts
    assert (found.k, found.is_trials, found.name_of(attempt)) == (1, False, "p")
    assert (found.passed, found.graded, found.pass_rate, found.status) == (1, 1, 1.0, PASS)
    assert (attempt.number, attempt.output, attempt.duration, attempt.tokens, attempt.passed) == (1, "a", 20, 7, True)


def test_trials_are_attempts_named_by_their_number() -> None:
    found = trials({"trialNum": 4, "output": "x", "pass": True, "duration": 9}, {"pass": False, "score": 0.2})
    assert [found.name_of(attempt) for attempt in found.attempts] == ["p#4", "p#2"]
    assert (found.k, found.passed, found.graded, found.pass_rate, found.status) == (2, 1, 2, 0.5, FLAKY)
    first, second = found.attempts
    assert (first.duration, first.given_score, first.grade and first.grade.score) == (9, None, 1.0)
    assert (second.output, second.given_score, second.status) == ("", 0.2, FAIL)


@pytest.mark.parametrize("failure", [{"errors": ["died"]}, {"error": "died"}])
def test_a_failed_agent_never_passes(failure: dict[str, Any]) -> None:
    for found in (row(output="", score=GOOD, scores={"g": GOOD}, **failure), trials({**GOOD, **failure}, passAtK=1.0)):
        (attempt,) = found.attempts
        assert (attempt.status, attempt.passed, attempt.scores, found.passed, found.graded) == (
            ERROR,
            False,
            None,
            0,
            1,
        )
        assert attempt.score is not None
        assert (attempt.score.score, attempt.score.reasoning) == (0.0, "agent failed: died")
        assert (found.status, found.pass_at_k) == (ERROR, None)
    graded = row(output="", score=GOOD, gradedFailed=True, **failure)
    assert (graded.status, graded.failed, graded.attempts[0].failures) == (PASS, 0, ["died"])


def test_a_grader_error_is_no_verdict_in_the_forms_of_all_versions() -> None:
    new, old = (
        row(output="", graderError="g: broken"),
        row(output="", graderError=True, score={"pass": False, "score": 0}),
    )
    assert (new.status, new.graded, new.attempts[0].why_not_graded) == (GRADER_ERROR, 0, "g: broken")
    assert (old.status, old.attempts[0].grade, old.attempts[0].why_not_graded) == (GRADER_ERROR, None, "grader error")
    assert row(output="").status == UNGRADED
    assert (trials({}, {}, passRate=0.5).passes, trials({}, {}).passes) == ((1, 2), (0, 0))


def test_fields_of_the_users_own_do_not_change_what_a_record_is() -> None:
    for own in ({"trials": 7}, {"trials": [1, 2]}, {"k": "many"}, {"passRate": "high"}):
        assert not row(output="a", **own).is_trials
    assert trials(GOOD, output=5, score="good").passes == (1, 1)
    with pytest.raises(BadRecord, match=r'"trials\[0\].score" must be'):
        trials({"pass": True, "score": 7})
    with pytest.raises(BadRecord, match='"output" is missing'):
        row(input="q")


def test_each_depth_has_what_it_names_of_the_trajectory() -> None:
    line = b'{"id": "p", "output": "", "trajectory": [{"type": "tool_call", "name": "ls", "input": {"a": 1}}]}'
    assert parse_row(line, Row).attempts[0].trajectory is None
    outline = parse_row(line, RowWithCalls).attempts[0].trajectory
    assert outline is not None
    assert (outline[0].name, hasattr(outline[0], "input")) == ("ls", False)
    steps = parse_row(line, RowWithSteps).attempts[0].trajectory
    assert steps is not None
    assert steps[0].input == {"a": 1}


def test_a_metadata_key_is_read_in_one_way() -> None:
    notes = {"category": ["ui", "db", "ui", None], "a": {"b": 3}, "x.y": "dotted", "empty": " "}
    assert groups_at(notes, "category") == groups_at(notes, "metadata.category") == ["ui", "db"]
    assert (groups_at(notes, "a.b"), value_at(notes, "x.y"), groups_at(notes, "empty")) == (["3"], "dotted", [])
    assert (value_at(notes, "a.b.c"), value_at(None, "a"), groups_at(notes, "none")) == (None, None, [])
    line = b'{"id": "p", "output": "", "lang": {"name": "de"}, "metadata": {"category": "ui"}}'
    assert groups_at(parse_row(line, Row, keys=["lang.name"]).metadata, "lang.name") == ["de"]
    assert parse_row(line, Row, keys=["category"]).metadata == {"category": "ui"}
