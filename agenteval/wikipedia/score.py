"""Graded records → the figures of an evaluation: hit rate, MRR, judge score, tokens and one combined score.

Data flow: graded record → the figures of a question → means → which success criteria they meet. A missing value is
null and left out of the mean, and every mean has its n in `counts`. Field names are snake_case, those of the reference
evaluation of a Wikipedia agent.
"""

import os
import re
from collections.abc import Callable, Iterable
from math import fsum, isfinite
from typing import Any, NamedTuple

import msgspec

from agenteval.errors import BadRecord, UserError, similar
from agenteval.statistics.samples import mean
from agenteval.streams.jsonl import read_json
from agenteval.streams.rows import row_of
from agenteval.wire.evaluation import CriterionResult, EvaluationSummary, QuestionCounts, QuestionScore
from agenteval.wire.records import LARGEST, GraderResult, Record
from agenteval.wire.row import Attempt, Row

SOURCES, JUDGE = "sources", "judge"
FIGURES = ("hit_rate", "mrr", "judge_score", "combined_score")
MEANS = (*FIGURES, "num_tokens")
FLAGS = ("failed", "grader_errors", "tokens_approximate", "tokens_not_positive", "tokens_missing")
TURNS = "\n"
MOST_SHOWN = 3  # different values of a field, in a message

CountText = Callable[[str, str], int]
"""Counts the tokens of a text for a model."""


# --- one question -------------------------------------------------------------------------------


class ScoreWeights(NamedTuple):
    """The exponents of the combined score."""

    alpha: float = 2.0
    beta: float = 0.5
    gamma: float = 1.5


class ScoreRules(NamedTuple):
    """How a question is scored: the exponents, how to count tokens, and whether the judge's are included."""

    weights: ScoreWeights
    count_text: CountText
    judge_tokens: bool = True


class QuestionTokens(NamedTuple):
    """The tokens used for a question, including the judge's; None if part of them is not known."""

    total: int | None
    approximate: bool = False
    positive: bool = True  # the agent's, without the judge's
    missing: bool = False  # the agent or the judge reported only part


def combined_score(
    hit_rate: float | None, judge: float | None, tokens: int | None, weights: ScoreWeights
) -> float | None:
    """Returns hit_rate^alpha * judge^gamma / (tokens/1000)^beta; None if a value is missing or there are no tokens."""
    if hit_rate is None or judge is None or tokens is None or tokens <= 0:
        return None
    try:
        score: float = hit_rate**weights.alpha * judge**weights.gamma / (tokens / 1000) ** weights.beta
    except OverflowError:
        return 0.0  # too many tokens for a float
    return score


def score_answer(record: Record, row: Row, attempt: Attempt, rules: ScoreRules) -> tuple[QuestionScore, str | None]:
    """Returns the figures of a graded answer, and the model that judged it; raises BadRecord if they are invalid."""
    sources, judge = verdict_of(attempt, SOURCES, "hit_rate"), verdict_of(attempt, JUDGE, "overall_score")
    hit_rate, judge_score = rate_in(sources, SOURCES, "hit_rate"), rate_in(judge, JUDGE, "overall_score")
    mrr, tokens = rate_in(sources, SOURCES, "mrr"), tokens_of(record, row.turns(TURNS), attempt, judge, rules)
    combined = combined_score(hit_rate, judge_score, tokens.total if tokens.positive else None, rules.weights)
    if attempt.agent_failed:
        hit_rate = mrr = judge_score = combined = 0.0
    result = QuestionScore(
        question=text_field(record, "question") or row.turns(TURNS),
        hit_rate=hit_rate,
        mrr=mrr,
        judge_score=judge_score,
        num_tokens=tokens.total,
        combined_score=combined,
        id=row.name_of(attempt),
        failed=bool(attempt.failures),
        errors=attempt.failures or None,
        grader_errors=failed_graders(attempt) or None,
        tokens_approximate=tokens.approximate,
        tokens_not_positive=not tokens.positive,
        tokens_missing=tokens.missing,
        negative_duration=attempt.timing.clock_set_back,
    )
    return result, judge_model_of(judge)


def text_field(record: Record, *names: str) -> str | None:
    """Returns the first of these fields that has a text, at the top level or in the metadata."""
    metadata = record.get("metadata") or {}
    values = (place.get(name) for name in names for place in (record, metadata))
    return next((value for value in values if value and isinstance(value, str)), None)


def verdict_of(attempt: Attempt, name: str, field: str) -> GraderResult | None:
    """Returns the result of the grader of that name, else of the one whose outcome has that field; None if it erred."""
    scores = attempt.recorded_scores or {}  # also those of a failed agent: the judge's tokens were paid for
    named = scores.get(name)
    every = [named] if named else list(scores.values()) or ([attempt.score] if attempt.score else [])
    for verdict in every:
        outcome = verdict.outcome or (attempt.outcome if not scores else None) or {}
        if (named or field in outcome) and not attempt.is_grader_error(verdict):
            return msgspec.structs.replace(verdict, outcome=outcome)
    return None


def failed_graders(attempt: Attempt) -> list[str]:
    """Returns the names of the graders that erred on a record; `grader` for one without a name."""
    named = [name for name, verdict in (attempt.recorded_scores or {}).items() if attempt.is_grader_error(verdict)]
    if isinstance(attempt.grader_error, str):
        named = re.findall(r"(?:^|; )([A-Za-z][\w-]*): ", attempt.grader_error)
    return named or (["grader"] if attempt.grader_error else [])


def rate_in(verdict: GraderResult | None, grader: str, field: str) -> float | None:
    """Returns a rate from a grader's outcome, else its score; raises BadRecord if it is not from 0 to 1."""
    if verdict is None or field not in (verdict.outcome or {}):
        return None if verdict is None else verdict.score
    value = number_in(verdict, grader, field)
    if value is not None and not 0 <= value <= 1:
        raise BadRecord(f'"{field}" in the outcome of {grader} must be between 0 and 1, got {value}')
    return value


def number_in(verdict: GraderResult | None, grader: str, field: str) -> float | None:
    """Returns a number from a grader's outcome; None if it is missing."""
    value = (verdict.outcome or {}).get(field) if verdict else None
    if isinstance(value, bool) or not isinstance(value, int | float | None) or abs(value or 0) > LARGEST:
        raise BadRecord(f'"{field}" in the outcome of {grader} must be a number, at most 2^53')
    return None if value is None else float(value)


def tokens_of(
    record: Record, question: str, attempt: Attempt, judge: GraderResult | None, rules: ScoreRules
) -> QuestionTokens:
    """Returns the tokens of agent and judge; if the agent reports none, question and answer are counted."""
    judged, reported = judge_tokens(judge) if rules.judge_tokens else 0.0, attempt.tokens
    if judged is None or (reported is None and attempt.timing.reports_tokens):
        return QuestionTokens(None, missing=True)
    if reported is None:
        counted = rules.count_text(f"{question}\n{attempt.output}", text_field(record, "model") or "")
        return QuestionTokens(round(counted + judged), approximate=True, positive=counted > 0)
    if reported < 0:
        return QuestionTokens(None, positive=False)
    return QuestionTokens(round(reported + judged), positive=reported > 0)


def judge_tokens(judge: GraderResult | None) -> float | None:
    """Returns the tokens that the judge reports; None if it names its model and a count is missing or negative."""
    counts = [number_in(judge, JUDGE, field) for field in ("input_tokens", "output_tokens")]
    known = [count for count in counts if count is not None and count >= 0]
    return fsum(known) if len(known) == len(counts) or judge_model_of(judge) is None else None


def judge_model_of(judge: GraderResult | None) -> str | None:
    """Returns the model that judged, several joined by commas; None if the outcome has none."""
    model = (judge.outcome or {}).get("judge_model") if judge else None
    return ", ".join(map(str, model)) if isinstance(model, list) else model if isinstance(model, str) else None


# --- all questions ------------------------------------------------------------------------------


class Scoring:
    """Collects the figures of all questions, a few hundred bytes each."""

    def __init__(self, rules: ScoreRules) -> None:
        self.rules = rules
        self.results: list[QuestionScore] = []
        self.metadata: dict[str, dict[str, None]] = {
            name: {} for name in ("ground_truth_file", "search_mode", "judge_model", "model")
        }
        """The distinct values in the records, in input order."""
        self._seen: set[str] = set()

    def add(self, record: Record) -> list[QuestionScore]:
        """Adds a question, or one per trial; raises BadRecord if the record is invalid, or its id was added before."""
        row = row_of(record, Row)
        if row.id in self._seen:
            raise BadRecord(f'duplicate id "{row.id}": a question counts once')
        scored = [score_answer(record, row, attempt, self.rules) for attempt in row.attempts]
        self._seen.add(row.id)
        results = [result for result, _ in scored]
        self.results += results
        found = {name: [text_field(record, name)] for name in ("ground_truth_file", "model")}
        found |= {"search_mode": [text_field(record, "search_mode", "searchMode")]}
        found |= {"judge_model": [judge_model for _, judge_model in scored]}
        for name, values in found.items():
            for value in values:
                if value is not None and len(self.metadata[name]) < MOST_SHOWN:
                    self.metadata[name][value] = None
        return results

    def agreed(self, name: str) -> str | None:
        """Returns the metadata of that name if all records that have it agree, else None."""
        return next(iter(self.metadata[name])) if len(self.metadata[name]) == 1 else None

    def summary(self) -> EvaluationSummary:
        """Returns the means over the questions that have a value."""
        values = {name: [found for one in self.results if (found := getattr(one, name)) is not None] for name in MEANS}
        counts = {name: len(found) for name, found in values.items()}
        flags = {name: sum(bool(getattr(one, name)) for one in self.results) for name in FLAGS}
        means: dict[str, Any] = {f"avg_{name}": mean(found) for name, found in values.items()}
        tokens, set_back = values["num_tokens"], sum(one.negative_duration for one in self.results)
        return EvaluationSummary(
            **means,
            best_combined_score=max(values["combined_score"], default=None),
            total_tokens=round(fsum(tokens)) if tokens else None,
            counts=QuestionCounts(**counts, **flags, negative_durations=set_back),
        )


# --- success criteria -----------------------------------------------------------------------------

# The criteria of the reference evaluation of a Wikipedia agent.
NAMED = {
    "minimum": {"avg_hit_rate": 0.80, "avg_mrr": 0.70, "avg_judge_score": 0.75},
    "target": {"avg_hit_rate": 0.90, "avg_mrr": 0.85, "avg_judge_score": 0.85, "avg_combined_score": 1.20},
}
COUNTED_AS = {f"avg_{name}": name for name in FIGURES} | {"best_combined_score": "combined_score"}
RATES = ("avg_hit_rate", "avg_mrr", "avg_judge_score")


class Criterion(NamedTuple):
    """A field of the summary, and how it must compare with a minimum."""

    name: str
    operator: str
    minimum: float


def load_criteria(text: str) -> list[Criterion]:
    """Returns the criteria of that name, else those of a JSON file; each value must be greater than its minimum."""
    minima = NAMED.get(text)
    if minima is None:
        if not os.path.exists(text) and (close := similar(text, NAMED)):
            raise UserError(f"--criteria {text}: no such file; did you mean {', '.join(close)}?")
        minima = read_json(text)
        if not isinstance(minima, dict):
            raise UserError(f'{text}: criteria must be a JSON object such as {{"avg_hit_rate": 0.8}}')
    return [criterion(name, ">", value, text) for name, value in minima.items()]


def parse_minimum(text: str) -> Criterion:
    """Parses NAME=VALUE: the value must be at least that."""
    name, equals, value = text.partition("=")
    try:
        number = float(value)
    except ValueError:
        equals = ""
    if not equals:
        raise UserError(f"--min {text}: write NAME=VALUE, such as hit_rate=0.8")
    return criterion(name.strip(), ">=", number, "--min")


def criterion(name: str, operator: str, minimum: object, where: str) -> Criterion:
    """Returns the criterion; raises UserError if there is no such figure, or if it can never be met."""
    field = name if name in COUNTED_AS else f"avg_{name}"
    if field not in COUNTED_AS:
        figures = ", ".join((*FIGURES, "best_combined_score"))
        raise UserError(f'{where}: there is no figure "{name}"; the figures are {figures}')
    if isinstance(minimum, bool) or not isinstance(minimum, int | float) or not isfinite(minimum):
        raise UserError(f"{where}: {name}: the minimum must be a number, got {minimum}")
    if field in RATES and minimum > 1:
        meant = f": write {minimum / 100:g}" if minimum <= 100 else ""
        raise UserError(f"{where}: {name} is between 0 and 1, got {minimum:g}{meant}")
    return Criterion(field, operator, float(minimum))


def check_criteria(criteria: Iterable[Criterion], summary: EvaluationSummary) -> list[CriterionResult]:
    """Checks each criterion against the summary; a missing value does not meet it."""
    results = []
    for name, sign, minimum in criteria:
        value = getattr(summary, name)
        met = value is not None and (value > minimum or (sign == ">=" and value == minimum))
        n = getattr(summary.counts, COUNTED_AS[name])
        results.append(CriterionResult(name=name, operator=sign, minimum=minimum, value=value, n=n, met=met))
    return results


def in_words(result: CriterionResult, questions: int) -> str:
    """Returns a line such as `not met: avg_mrr 0.650 > 0.7, over 20 of 20 questions`."""
    value = "unknown" if result.value is None else f"{result.value:.3f}"
    claim = f"{result.name} {value} {result.operator} {result.minimum:g}"
    return f"{'met' if result.met else 'not met'}: {claim}, over {result.n} of {questions} questions"
