"""Success criteria for an evaluation: the named sets minimum and target, a file, or single minima."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from math import isfinite
from typing import Any, NamedTuple

from agenteval.errors import UserError
from agenteval.streams.jsonl import read_json
from agenteval.wire.evaluation import CriterionResult, EvaluationSummary

# The criteria of the reference evaluation of a Wikipedia agent.
NAMED = {
    "minimum": {"avg_hit_rate": 0.80, "avg_mrr": 0.70, "avg_judge_score": 0.75},
    "target": {"avg_hit_rate": 0.90, "avg_mrr": 0.85, "avg_judge_score": 0.85, "avg_combined_score": 1.20},
}
MEANS = ("hit_rate", "mrr", "judge_score", "combined_score")
COUNTED_AS = {f"avg_{name}": name for name in MEANS} | {"best_combined_score": "combined_score"}
OPERATORS: dict[str, Callable[[Any, Any], bool]] = {">": operator.gt, ">=": operator.ge}


class Criterion(NamedTuple):
    """A field of the summary, and how it must compare with a minimum."""

    name: str
    operator: str
    minimum: float


def load_criteria(text: str) -> list[Criterion]:
    """Returns the criteria of that name, else those of a JSON file; each value must be greater than its minimum."""
    minima = NAMED.get(text)
    if minima is None:
        minima = read_json(text)
        if not isinstance(minima, dict):
            raise UserError(f'{text}: criteria are a JSON object such as {{"avg_hit_rate": 0.8}}')
    return [Criterion(field_named(name, text), ">", limit(value, f"{text}: {name}")) for name, value in minima.items()]


def parse_minimum(text: str) -> Criterion:
    """Parses NAME=VALUE: the value must be at least that."""
    name, equals, value = text.partition("=")
    try:
        number = float(value)
    except ValueError:
        equals = ""
    if not equals:
        raise UserError(f"--min {text}: write NAME=VALUE, such as hit_rate=0.8")
    return Criterion(field_named(name.strip(), "--min"), ">=", limit(number, f"--min {name}"))


def field_named(name: str, where: str) -> str:
    """Returns the field of the summary for a name with or without avg_."""
    field = name if name in COUNTED_AS else f"avg_{name}"
    if field not in COUNTED_AS:
        raise UserError(
            f'{where}: there is no figure "{name}"; the figures are {", ".join((*MEANS, "best_combined_score"))}'
        )
    return field


def limit(value: object, where: str) -> float:
    """Returns the minimum as a number; raises UserError if it is none."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
        raise UserError(f"{where}: the minimum must be a number, got {value}")
    return float(value)


def check_criteria(criteria: Iterable[Criterion], summary: EvaluationSummary) -> list[CriterionResult]:
    """Checks each criterion against the summary; a missing value meets none."""
    results = []
    for name, sign, minimum in criteria:
        value = getattr(summary, name)
        met = value is not None and OPERATORS[sign](value, minimum)
        n = getattr(summary.counts, COUNTED_AS[name])
        results.append(CriterionResult(name=name, operator=sign, minimum=minimum, value=value, n=n, met=met))
    return results


def in_words(result: CriterionResult, questions: int) -> str:
    """Returns a line such as `not met: avg_mrr 0.650 > 0.7, over 20 of 20 questions`."""
    value = "unknown" if result.value is None else f"{result.value:.3f}"
    claim = f"{result.name} {value} {result.operator} {result.minimum:g}"
    return f"{'met' if result.met else 'not met'}: {claim}, over {result.n} of {questions} questions"
