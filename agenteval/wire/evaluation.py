"""The evaluation report of ae-score, as it stands on the wire."""

import msgspec

from agenteval.wire.records import Count, Id, Rate


class Snake(msgspec.Struct, omit_defaults=True, kw_only=True):
    """snake_case on the wire, as the Wikipedia seed has it."""


class QuestionScore(Snake):
    """What one question came to; null is a value that nobody measured."""

    question: str
    """What was asked; turns joined by newlines."""
    hit_rate: Rate | None
    """1 where at least one expected source was found, else 0."""
    mrr: Rate | None
    """1 / rank of the first expected source, 0 where there is none."""
    judge_score: Rate | None
    """The judge's overall score."""
    num_tokens: int | None
    """Tokens of the agent, in and out, and of the judge."""
    combined_score: float | None
    """hit_rate^alpha * judge_score^gamma / (num_tokens/1000)^beta; null where one is missing or there are no tokens."""
    id: Id
    """The prompt's id."""
    failed: bool
    """Whether the agent failed; the figures are those that graders gave what there was."""
    errors: list[str] | None = None
    """What went wrong with the agent; not there when nothing did."""
    grader_errors: list[str] | None = None
    """Graders that failed on it, whose values are null; not there when none did."""
    tokens_approximate: bool = False
    """The agent reported no tokens: the question and the answer were counted instead."""
    tokens_not_positive: bool = False
    """The agent reported 0 tokens or fewer: there is no combined score."""


class QuestionCounts(Snake):
    """Over how many questions each mean is, and what is out of the ordinary."""

    hit_rate: Count
    """Questions with a hit rate."""
    mrr: Count
    """Questions with a reciprocal rank."""
    judge_score: Count
    """Questions with a judge's score."""
    combined_score: Count
    """Questions with a combined score."""
    num_tokens: Count
    """Questions whose tokens are known, or counted."""
    failed: Count
    """Questions on which the agent failed."""
    grader_errors: Count
    """Questions on which a grader failed."""
    tokens_approximate: Count
    """Questions whose tokens were counted, because the agent reported none."""
    tokens_not_positive: Count
    """Questions for which the agent reported 0 tokens or fewer: they have no combined score."""


class EvaluationSummary(Snake):
    """Means over the questions that have a value; null where none has one."""

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
    """Over how many questions each mean is."""


class EvaluationMetadata(Snake):
    """What was evaluated and how; null is what the records do not say, or do not agree on. More of the user's own."""

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


class CriterionResult(Snake):
    """Something that was demanded of the summary, and whether it is so."""

    name: str
    """The field of the summary."""
    operator: str
    """The value must be > or >= the minimum."""
    minimum: float
    """What is demanded."""
    value: float | None
    """What the summary has."""
    n: Count
    """Over how many questions the value is."""
    met: bool
    """Whether the value is as demanded; a value that nobody measured is not."""


class Evaluation(Snake, kw_only=True):
    """A whole evaluation: means, what was evaluated, and a result per question."""

    timestamp: str
    """When it was made, in UTC."""
    num_questions: Count
    """How many questions there are, failed ones included."""
    summary: EvaluationSummary
    """What it all comes to."""
    metadata: EvaluationMetadata
    """What was evaluated and how."""
    criteria: list[CriterionResult] | None = None
    """What was demanded, and whether it is so; not there when nothing was."""
    results: list[QuestionScore]
    """The questions, in the order of the input."""
