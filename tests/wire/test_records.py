"""The wire types: what is accepted, and in which words the rest is refused."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from agenteval.errors import BadRecord
from agenteval.wire.records import GRADER_FIELDS, Gradable, GraderResult, Prompt, Raw, Result, Step, TrialEntry
from agenteval.wire.validation import check, explain

PROMPT = {"id": "a", "input": "x"}
RAW = {**PROMPT, "rawLines": ["x"], "timing": {"start": 1, "end": 2}}
RESULT = {"id": "a", "output": "x"}
GRADE = {"pass": True, "score": 1.0}


@pytest.mark.parametrize(
    "kind, record",
    [
        (Prompt, PROMPT),
        (Prompt, {**PROMPT, "input": ["x", "y"]}),
        (Prompt, {**PROMPT, "input": ""}),
        (Prompt, {**PROMPT, "hint": None, "reference": None, "metadata": None, "timeout": None}),
        (Prompt, {**PROMPT, "timeout": 1, "metadata": {"any": [1]}, "unknown": {"x": 1}}),
        (Prompt, {**PROMPT, "output": 3, "rawLines": "not a prompt's field"}),
        (Raw, RAW),
        (Raw, {**RAW, "rawLines": []}),
        (Raw, {**RAW, "error": "as agent-eval-harness writes it"}),
        (Raw, {**RAW, "turns": [{"lines": 0, "exitCode": None, "signal": "SIGKILL", "timedOut": True, "total": 3}]}),
        (Gradable, RESULT),
        (Gradable, {**RESULT, "input": ["x"], "trajectory": [], "toolErrors": False}),
        (Result, RESULT),
        (Result, {**RESULT, "score": GRADE, "scores": {"one": GRADE}, "graderError": True}),
        (Result, {**RESULT, "trajectory": [{"type": "tool_call", "name": "Read", "status": "odd", "input": 1}]}),
        (GraderResult, GRADE),
        (GraderResult, {"pass": False, "score": 0}),
        (GraderResult, {**GRADE, "reasoning": "r", "outcome": {"any": 1}, "unknown": 1}),
        (Step, {"type": "plan", "entries": [{"any": 1}]}),
    ],
)
def test_accepted(kind: type[msgspec.Struct], record: dict[str, Any]) -> None:
    assert isinstance(check(record, kind), kind)


@pytest.mark.parametrize(
    "kind, record, says",
    [
        (Prompt, {"input": "x"}, '"id" is missing'),
        (Prompt, {"id": "a"}, '"input" is missing'),
        (Prompt, {**PROMPT, "id": 3}, '"id" must be a string, got an integer'),
        (Prompt, {**PROMPT, "id": None}, '"id" must be a string, got null'),
        (Prompt, {**PROMPT, "id": ""}, '"id" must be a string that is not empty'),
        (Prompt, {**PROMPT, "input": None}, '"input" must be a string or a list, got null'),
        (Prompt, {**PROMPT, "input": []}, '"input" must be a list that is not empty'),
        (Prompt, {**PROMPT, "input": ["x", None]}, '"input[1]" must be a string, got null'),
        (Prompt, {**PROMPT, "hint": 3}, '"hint" must be a string or null, got an integer'),
        (Prompt, {**PROMPT, "metadata": []}, '"metadata" must be an object or null, got a list'),
        (Prompt, {**PROMPT, "timeout": True}, '"timeout" must be a number or null, got true or false'),
        (Raw, {**RAW, "rawLines": "x"}, '"rawLines" must be a list, got a string'),
        (Raw, {**RAW, "rawLines": [1]}, '"rawLines[0]" must be a string, got an integer'),
        (Raw, {**RAW, "timing": {"start": 1}}, '"timing.end" is missing'),
        (Raw, {**RAW, "timing": {"start": "1", "end": 2}}, '"timing.start" must be a number, got a string'),
        (Raw, {**RAW, "turns": [{"lines": 1}, {}]}, '"turns[1].lines" is missing'),
        (Gradable, {"id": "a"}, '"output" is missing'),
        (Gradable, {**RESULT, "output": None}, '"output" must be a string, got null'),
        (GraderResult, {"score": 1}, '"pass" is missing'),
        (GraderResult, {"pass": 1, "score": 1}, '"pass" must be true or false, got an integer'),
        (GraderResult, {"pass": "true", "score": 1}, '"pass" must be true or false, got a string'),
        (GraderResult, {"pass": True}, '"score" is missing'),
        (GraderResult, {"pass": True, "score": "1"}, '"score" must be a number, got a string'),
        (GraderResult, {"pass": True, "score": None}, '"score" must be a number, got null'),
        (GraderResult, {**GRADE, "outcome": "done"}, '"outcome" must be an object or null, got a string'),
        (GraderResult, [1], "a record must be an object, got a list"),
        (GraderResult, "yes", "a record must be an object, got a string"),
    ],
)
def test_refused_in_words_of_this_suite(kind: type[msgspec.Struct], record: Any, says: str) -> None:
    with pytest.raises(BadRecord) as caught:
        check(record, kind)
    assert str(caught.value) == says


@pytest.mark.parametrize("score", [-0.1, 1.0001, 7, float("inf"), 10**40])
def test_score_is_between_0_and_1(score: float) -> None:
    with pytest.raises(BadRecord, match='"score" must be '):
        check({"pass": True, "score": score}, GraderResult)


@pytest.mark.parametrize("score", [float("nan")])
def test_score_that_is_no_number(score: float) -> None:
    """NaN is neither below nor above anything, so that a bound alone lets it through."""
    with pytest.raises(BadRecord):
        check({"pass": True, "score": score}, GraderResult)


def test_explain_leaves_no_backtick_and_no_path_language() -> None:
    for message in (
        "Expected `int | null`, got `str` - at `$.a.b[0]`",
        "Object missing required field `id`",
        "Expected `str` of length >= 1 - at `$.id`",
        "Expected `float` <= 1.0 - at `$.score`",
        "Invalid enum value 'song' - at `$.type`",
        "something quite different",
    ):
        assert "`" not in explain(message) and "$." not in explain(message), explain(message)


def test_grader_fields_are_fields_of_a_result_or_a_trial() -> None:
    fields = {field.encode_name for kind in (Result, TrialEntry) for field in msgspec.structs.fields(kind)}
    assert set(GRADER_FIELDS) <= fields


@pytest.mark.parametrize("kind", [Prompt, Raw, Gradable, Result, GraderResult, Step])
def test_every_type_can_be_exported_as_json_schema(kind: type[msgspec.Struct]) -> None:
    exported = msgspec.json.schema(kind)
    names = {name for part in exported["$defs"].values() for name in part.get("properties", {})}
    assert not [name for name in names if "_" in name.strip("_")], "camelCase on the wire"
