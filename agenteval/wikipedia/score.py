"""Graded records → evaluation.json in the form of the Wikipedia seed: hit rate, MRR, judge, tokens, one score of all.

Data flow: graded record → a question's figures → means over those that have them. What is missing is null, counts in
no mean, and every mean has its n in `counts`. Field names are the seed's, snake_case.
"""

from collections.abc import Callable, Iterable
from math import fsum
from typing import Any, NamedTuple

import msgspec

from agenteval.errors import BadRecord
from agenteval.wire.evaluation import EvaluationSummary, QuestionCounts, QuestionScore
from agenteval.wire.records import GraderResult, Record
from agenteval.wire.result_view import ResultView, is_grader_error
from agenteval.wire.validation import check

SOURCES, JUDGE = "sources", "judge"
TURNS = "\n"

CountText = Callable[[str, str], int]
"""How many tokens a text is for a model."""


# --- the report ---------------------------------------------------------------------------------


# --- one question -------------------------------------------------------------------------------


class GradedView(ResultView):
    """What is read of a graded record."""

    metadata: dict[str, Any] | None = None
    outcome: dict[str, Any] | None = None


class ScoreWeights(NamedTuple):
    """The exponents of the combined score."""

    alpha: float = 2.0
    beta: float = 0.5
    gamma: float = 1.5


class QuestionTokens(NamedTuple):
    """What a question used up, the judge included; None where nobody knows."""

    total: int | None
    approximate: bool
    positive: bool  # the agent's own, without the judge's


def combined_score(
    hit_rate: float | None, judge: float | None, tokens: int | None, weights: ScoreWeights
) -> float | None:
    """hit_rate^alpha * judge^gamma / (tokens/1000)^beta; None where one is missing or there are no tokens."""
    if hit_rate is None or judge is None or tokens is None or tokens <= 0:
        return None
    try:
        score: float = hit_rate**weights.alpha * judge**weights.gamma / (tokens / 1000) ** weights.beta
    except OverflowError:
        return 0.0  # so many tokens that nothing is left
    return score


def score_question(record: Record, weights: ScoreWeights, count_text: CountText) -> tuple[QuestionScore, str | None]:
    """The figures of a graded record, and the model that judged it; BadRecord where it is none."""
    row = check(record, GradedView)
    sources, judge = verdict_of(row, SOURCES, "hit_rate"), verdict_of(row, JUDGE, "overall_score")
    hit_rate, judge_score = rate_in(sources, SOURCES, "hit_rate"), rate_in(judge, JUDGE, "overall_score")
    tokens = tokens_of(record, row, judge, count_text)
    result = QuestionScore(
        question=told(record, "question") or row.turns(TURNS),
        hit_rate=hit_rate,
        mrr=rate_in(sources, SOURCES, "mrr"),
        judge_score=judge_score,
        num_tokens=tokens.total,
        combined_score=combined_score(hit_rate, judge_score, tokens.total if tokens.positive else None, weights),
        id=row.id,
        failed=bool(row.failures),
        errors=row.failures or None,
        grader_errors=failed_graders(row) or None,
        tokens_approximate=tokens.approximate,
        tokens_not_positive=not tokens.positive,
    )
    return result, judge_model_of(judge)


def told(record: Record, *names: str) -> str | None:
    """The text under the first of these names that has one, at the top level or in the metadata."""
    metadata = record.get("metadata") or {}
    values = (place.get(name) for name in names for place in (record, metadata))
    return next((value for value in values if value and isinstance(value, str)), None)


def verdict_of(row: GradedView, name: str, field: str) -> GraderResult | None:
    """What the grader of that name found, else the one whose outcome has that field; None where it failed."""
    named = (row.scores or {}).get(name)
    every = [named] if named else list((row.scores or {}).values()) or ([row.score] if row.score else [])
    for verdict in every:
        outcome = verdict.outcome or (row.outcome if not row.scores else None) or {}
        if (named or field in outcome) and not is_grader_error(row, verdict):
            return msgspec.structs.replace(verdict, outcome=outcome)
    return None


def failed_graders(row: GradedView) -> list[str]:
    """The names of the graders that failed on a record; `grader` for one without a name."""
    named = [name for name, verdict in (row.scores or {}).items() if is_grader_error(row, verdict)]
    return named or (["grader"] if row.grader_error else [])


def rate_in(verdict: GraderResult | None, grader: str, field: str) -> float | None:
    """A rate of a grader's outcome, else its score; BadRecord where it is no rate."""
    if verdict is None or field not in (verdict.outcome or {}):
        return None if verdict is None else verdict.score
    value = number_in(verdict, grader, field)
    if value is not None and not 0 <= value <= 1:
        raise BadRecord(f'"{field}" in the outcome of {grader} must be between 0 and 1, got {value}')
    return value


def number_in(verdict: GraderResult | None, grader: str, field: str) -> float | None:
    """A number of a grader's outcome; None where it does not say."""
    value = (verdict.outcome or {}).get(field) if verdict else None
    if isinstance(value, bool) or not isinstance(value, int | float | None):
        raise BadRecord(f'"{field}" in the outcome of {grader} must be a number')
    return None if value is None else float(value)


def tokens_of(record: Record, row: GradedView, judge: GraderResult | None, count_text: CountText) -> QuestionTokens:
    """The agent's tokens and the judge's; where the agent reports none, its question and answer are counted."""
    judged = sum(number_in(judge, JUDGE, field) or 0 for field in ("input_tokens", "output_tokens"))
    reported = row.tokens
    if reported is not None:
        return QuestionTokens(round(reported + judged), approximate=False, positive=reported > 0)
    counted = count_text(f"{row.turns(TURNS)}\n{row.output}", told(record, "model") or "")
    return QuestionTokens(round(counted + judged), approximate=True, positive=counted > 0)


def judge_model_of(judge: GraderResult | None) -> str | None:
    """The model that the judge says it is, several joined by commas."""
    model = (judge.outcome or {}).get("judge_model") if judge else None
    return ", ".join(map(str, model)) if isinstance(model, list) else model if isinstance(model, str) else None


# --- all questions ------------------------------------------------------------------------------


class CommonValue:
    """A text that records carry, as long as all that carry it agree."""

    def __init__(self) -> None:
        self.values: dict[str, None] = {}

    def add(self, value: str | None) -> None:
        """One more record's."""
        if value is not None and len(self.values) < 3:
            self.values[value] = None

    @property
    def value(self) -> str | None:
        """What they agree on; None where nobody says, or two differ."""
        return next(iter(self.values)) if len(self.values) == 1 else None


class Scoring:
    """The figures of every question, as records come in; a few hundred bytes each are kept."""

    def __init__(self, weights: ScoreWeights, count_text: CountText) -> None:
        self.weights, self.count_text = weights, count_text
        self.results: list[QuestionScore] = []
        self.told = {name: CommonValue() for name in ("ground_truth_file", "search_mode", "judge_model", "model")}
        self._seen: set[str] = set()

    def add(self, record: Record) -> QuestionScore:
        """One more question; BadRecord where it is no graded record, or is there already."""
        result, judge_model = score_question(record, self.weights, self.count_text)
        if result.id in self._seen:
            raise BadRecord(f'duplicate id "{result.id}": a question counts once')
        self._seen.add(result.id)
        self.results.append(result)
        for name in ("ground_truth_file", "model"):
            self.told[name].add(told(record, name))
        self.told["search_mode"].add(told(record, "search_mode", "searchMode"))
        self.told["judge_model"].add(judge_model)
        return result

    def summary(self) -> EvaluationSummary:
        """Means over the questions that have a value."""
        hit_rates, mrrs = self._values("hit_rate"), self._values("mrr")
        judged, combined, tokens = (self._values(name) for name in ("judge_score", "combined_score", "num_tokens"))
        return EvaluationSummary(
            avg_hit_rate=mean(hit_rates),
            avg_mrr=mean(mrrs),
            avg_judge_score=mean(judged),
            avg_combined_score=mean(combined),
            best_combined_score=max(combined, default=None),
            avg_num_tokens=mean(tokens),
            total_tokens=round(fsum(tokens)) if tokens else None,
            counts=QuestionCounts(
                hit_rate=len(hit_rates),
                mrr=len(mrrs),
                judge_score=len(judged),
                combined_score=len(combined),
                num_tokens=len(tokens),
                failed=sum(result.failed for result in self.results),
                grader_errors=sum(result.grader_errors is not None for result in self.results),
                tokens_approximate=sum(result.tokens_approximate for result in self.results),
                tokens_not_positive=sum(result.tokens_not_positive for result in self.results),
            ),
        )

    def _values(self, name: str) -> list[float]:
        return [value for result in self.results if (value := getattr(result, name)) is not None]


def mean(values: Iterable[float]) -> float | None:
    """The mean, or None of nothing."""
    known = list(values)
    return fsum(known) / len(known) if known else None
