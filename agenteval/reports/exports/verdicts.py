"""The verdict on an answer, as the exports write it."""

from __future__ import annotations

import msgspec

from agenteval.reports.exports.answers import ExportedAnswer
from agenteval.wire.records import Record


def verdict(answer: ExportedAnswer) -> Record:
    """The status, and what is known of pass, score, reasoning, each grader's verdict and a grader's error."""
    result = answer.result
    fields: Record = {"status": answer.status}
    if result.grade is not None:
        fields |= {"pass": result.grade.pass_, "score": result.grade.score}
    if result.score is not None and result.score.reasoning:
        fields["reasoning"] = result.score.reasoning
    if result.scores:
        fields["scores"] = msgspec.to_builtins(result.scores)
    if result.why_not_graded is not None:
        fields["grader_error"] = result.why_not_graded
    return fields
