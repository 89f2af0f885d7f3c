"""The evaluation report of ae-score, as it is written."""

import msgspec

from agenteval.wire.records import Count, Id, Rate


class SnakeCase(msgspec.Struct, omit_defaults=True, kw_only=True):
    """Fields in snake_case, as in the reference evaluation of a Wikipedia agent."""


class QuestionScore(SnakeCase):
    """The figures of one question; null is a missing value."""

    question: str
    """The question; turns joined by newlines."""
    hit_rate: Rate | None
    """1 if at least one expected source was found, else 0."""
    mrr: Rate | None
    """1 / rank of the first expected source, 0 if there is none."""
    judge_score: Rate | None
    """The judge's overall score."""
    num_tokens: int | None
    """Input and output tokens of the agent and the judge; null if part of them is unknown."""
    combined_score: float | None
    """hit_rate^alpha * judge_score^gamma / (num_tokens/1000)^beta; null without a value or tokens."""
    id: Id
    """The prompt's id; for a trial, `ID#N`."""
    failed: bool
    """Whether the agent failed; the figures are those that the graders gave its output."""
    errors: list[str] | None = None
    """The errors of the agent; omitted if there are none."""
    grader_errors: list[str] | None = None
    """Graders that erred, whose values are null; omitted if none did."""
    tokens_approximate: bool = False
    """The agent reported no tokens: the question and the answer were counted instead."""
    tokens_not_positive: bool = False
    """The agent reported 0 tokens or fewer: there is no combined score."""
    tokens_missing: bool = False
    """The agent or the judge reported only part of its tokens: their number is not known."""
    negative_duration: bool = False
    """The record's duration is negative: its clock was set back while the agent ran."""


class QuestionCounts(SnakeCase):
    """The number of questions behind each mean, and of those with a problem."""

    hit_rate: Count
    """Questions with a hit rate."""
    mrr: Count
    """Questions with a reciprocal rank."""
    judge_score: Count
    """Questions with a judge's score."""
    combined_score: Count
    """Questions with a combined score."""
    num_tokens: Count
    """Questions whose tokens are reported or counted."""
    failed: Count
    """Questions on which the agent failed."""
    grader_errors: Count
    """Questions on which a grader erred."""
    tokens_approximate: Count
    """Questions whose tokens were counted, because the agent reported none."""
    tokens_not_positive: Count
    """Questions for which the agent reported 0 tokens or fewer: they have no combined score."""
    tokens_missing: Count
    """Questions for which the agent or the judge reported only part of its tokens: num_tokens is null."""
    negative_durations: Count
    """Questions whose duration is negative."""


class EvaluationSummary(SnakeCase):
    """Means over the questions that have a value; null if none has."""

    avg_hit_rate: Rate | None
    """Share of the questions for which an expected source was found."""
    avg_mrr: Rate | None
    """Mean reciprocal rank of the first expected source."""
    avg_judge_score: Rate | None
    """Mean of the judge's scores."""
    avg_combined_score: float | None
    """Mean of the combined scores."""
    best_combined_score: float | None
    """The combined score of the best question."""
    avg_num_tokens: float | None
    """Mean tokens of a question."""
    total_tokens: int | None
    """Tokens of all questions."""
    counts: QuestionCounts
    """The number of questions behind each mean."""


class EvaluationMetadata(SnakeCase):
    """What was evaluated and how; null if the records have no value or disagree. The user may add more."""

    ground_truth_file: str | None
    """File of the questions and their expected sources."""
    search_mode: str | None
    """How much the agent was asked to search."""
    judge_model: str | None
    """Model that judged."""
    model: str | None
    """Model that answered."""
    alpha: float
    """Exponent of the hit rate."""
    beta: float
    """Exponent of the tokens, in thousands."""
    gamma: float
    """Exponent of the judge's score."""


class CriterionResult(SnakeCase):
    """A criterion for the summary, and whether it is met."""

    name: str
    """The field of the summary."""
    operator: str
    """The value must be > or >= the minimum."""
    minimum: float
    """The minimum."""
    value: float | None
    """The value in the summary."""
    n: Count
    """The number of questions behind the value."""
    met: bool
    """Whether the value meets the minimum; a missing value does not."""


class Evaluation(SnakeCase, kw_only=True):
    """A whole evaluation: means, what was evaluated, and a result for each question."""

    timestamp: str
    """When it was made, in UTC."""
    num_questions: Count
    """The number of questions, including those on which the agent failed."""
    summary: EvaluationSummary
    """Means over all questions."""
    metadata: EvaluationMetadata
    """What was evaluated and how."""
    criteria: list[CriterionResult] | None = None
    """The criteria and whether they are met; omitted if there are none."""
    results: list[QuestionScore]
    """The questions, in the order of the input."""
