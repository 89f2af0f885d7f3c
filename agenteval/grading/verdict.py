"""What graders answer: checked, combined and added to the record."""

from __future__ import annotations

from typing import Any, NamedTuple

from agenteval.errors import BadRecord
from agenteval.streams.jsonl import decode
from agenteval.wire.records import Record
from agenteval.wire.validation import check

VERDICT_FIELDS = ("score", "scores", "outcome", "graderError")


class Failure(NamedTuple):
    """Why a grader could not grade a record."""

    reason: str


Verdict = Record | Failure


def read_answer(answer: bytes, kind: type) -> Verdict:
    """Returns a grader's answer, checked; anything but a proper result is a Failure."""
    if not answer.strip():
        return Failure("it printed nothing")
    try:
        result = decode(answer)
    except BadRecord as error:
        shown = " ".join(answer[:100].decode("utf-8", "replace").split())
        return Failure(f"its answer is {error}: {shown}")
    if error_text := error_in(result):
        return Failure(error_text)
    try:
        check(result, kind)
    except BadRecord as error:
        return Failure(f"its answer is no grader result: {error}")
    return result  # type: ignore[no-any-return]


def error_in(answer: Any) -> str | None:
    """Returns the text of an answer of the form `{"error": …}`; None for any other answer."""
    error = answer.get("error") if isinstance(answer, dict) and "pass" not in answer else None
    return error if isinstance(error, str) else None


def ungraded(record: Record) -> Record:
    """Returns the record without what graders have added to it."""
    return {field: value for field, value in record.items() if field not in VERDICT_FIELDS}


def with_verdicts(record: Record, verdicts: dict[str, Verdict], *, keep_each: bool) -> Record:
    """Returns the record with `score`, and with `scores` if graders are distinguished by name."""
    results = {name: _as_result(verdict) for name, verdict in verdicts.items()}
    graded = {field: value for field, value in record.items() if field not in ("graderError", "outcome")}
    if keep_each:
        results = {**(record.get("scores") or {}), **results}
        graded["scores"] = results
    graded["score"] = combine(list(results.values()))
    if "outcome" in graded["score"]:
        graded["outcome"] = graded["score"]["outcome"]
    if any(result.get("graderError") for result in results.values()):
        graded["graderError"] = True
    return graded


def _as_result(verdict: Verdict) -> Record:
    if isinstance(verdict, Failure):
        return {"pass": False, "score": 0.0, "reasoning": f"grader error: {verdict.reason}", "graderError": True}
    return verdict


def combine(results: list[Record]) -> Record:
    """Returns one score for several: pass if all pass, the mean of the scores; a single one stays as it is."""
    if len(results) == 1:
        return {field: value for field, value in results[0].items() if field != "graderError"}
    reasons = [result["reasoning"] for result in results if not result["pass"] and result.get("reasoning")]
    combined: Record = {
        "pass": all(result["pass"] for result in results),
        "score": sum(result["score"] for result in results) / len(results),
    }
    return combined | ({"reasoning": "; ".join(reasons)} if reasons else {})
