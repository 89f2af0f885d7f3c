"""The figures of an evaluation: one question's, the means of all, and what is demanded of them."""

from __future__ import annotations

from typing import Any

import pytest

from agenteval.errors import BadRecord, UserError
from agenteval.streams.rows import row_of
from agenteval.wikipedia.score import (
    ScoreRules,
    ScoreWeights,
    Scoring,
    check_criteria,
    combined_score,
    load_criteria,
    parse_minimum,
    score_answer,
)
from agenteval.wire.evaluation import QuestionScore
from agenteval.wire.row import Row

Outcome = dict[str, Any]


def count_letters(text: str, model: str) -> int:
    """A stand-in for a tokenizer: a token a letter, and the model's name in the count."""
    return len(text.replace("\n", "")) + 1000 * len(model)


def verdict(score: float = 1.0, **outcome: Any) -> Outcome:
    return {"pass": True, "score": score, "outcome": outcome}


def record(id: str = "a", *, tokens: tuple[float, float] | None = (2000, 500), **more: Any) -> dict[str, Any]:
    timing = {} if tokens is None else {"timing": {"inputTokens": tokens[0], "outputTokens": tokens[1]}}
    return {"id": id, "input": "why", "output": "so", **timing, **more}


def graded(sources: Outcome | None = None, judge: Outcome | None = None, **more: Any) -> dict[str, Any]:
    verdicts = {"sources": sources, "judge": judge}
    return record(scores={name: value for name, value in verdicts.items() if value}, **more)


def scored(given: dict[str, Any]) -> QuestionScore:
    row = row_of(given, Row)
    return score_answer(given, row, row.attempts[0], ScoreRules(ScoreWeights(), count_letters))[0]


# --- the combined score -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "hit_rate, judged, tokens, weights, score",
    [
        (1.0, 0.85, 2500, ScoreWeights(), 0.4956309110618505),  # the reference's sample says 1.42, its formula this
        (1.0, 1.0, 1000, ScoreWeights(), 1.0),
        (1.0, 1.0, 250, ScoreWeights(), 2.0),
        (1.0, 1.0, 4000, ScoreWeights(), 0.5),
        (0.5, 1.0, 1000, ScoreWeights(), 0.25),
        (0.5, 1.0, 1000, ScoreWeights(alpha=1), 0.5),
        (1.0, 0.25, 1000, ScoreWeights(), 0.125),
        (1.0, 0.25, 1000, ScoreWeights(gamma=0), 1.0),
        (1.0, 1.0, 4000, ScoreWeights(beta=1), 0.25),
        (1.0, 1.0, 10**9, ScoreWeights(beta=0), 1.0),
        (0.0, 1.0, 1000, ScoreWeights(), 0.0),
        (0.0, 0.0, 1000, ScoreWeights(0, 0, 0), 1.0),
        (1.0, 0.0, 1, ScoreWeights(), 0.0),
        (1.0, 1.0, 10**300, ScoreWeights(beta=10), 0.0),
        (1.0, 1.0, 1, ScoreWeights(beta=10), 1e30),
        (1.0, 1.0, 0, ScoreWeights(), None),
        (1.0, 1.0, -5, ScoreWeights(), None),
        (1.0, 1.0, None, ScoreWeights(), None),
        (None, 1.0, 1000, ScoreWeights(), None),
        (1.0, None, 1000, ScoreWeights(), None),
    ],
)
def test_combined_score(
    hit_rate: float | None, judged: float | None, tokens: int | None, weights: ScoreWeights, score: float | None
) -> None:
    found = combined_score(hit_rate, judged, tokens, weights)
    assert found is None if score is None else found == pytest.approx(score)


# --- one question -------------------------------------------------------------------------------

HIT = {"hit_rate": 1, "mrr": 0.5}

FIGURES = [
    # record: hit rate, mrr, judge
    (graded(verdict(0.3, **HIT), verdict(0.4, overall_score=0.8)), (1, 0.5, 0.8)),
    (graded(verdict(0.3), verdict(0.4)), (0.3, 0.3, 0.4)),
    (graded(verdict(0.3, hit_rate=None, mrr=None), verdict(0.4, overall_score=None)), (None, None, None)),
    (graded(None, verdict(0.4)), (None, None, 0.4)),
    (graded(verdict(1, **HIT), None), (1, 0.5, None)),
    (record(), (None, None, None)),
    (record(score={"pass": True, "score": 0.7}), (None, None, None)),
    (record(score=verdict(0.7, **HIT)), (1, 0.5, None)),
    (record(score={"pass": True, "score": 0.7}, outcome=HIT), (1, 0.5, None)),
    (record(score=verdict(0.7, overall_score=0.9)), (None, None, 0.9)),
    (record(scores={"mine": verdict(0.7, **HIT), "llm": verdict(0.7, overall_score=0.9)}), (1, 0.5, 0.9)),
    (record(scores={"sources": verdict(0.2), "mine": verdict(0.7, **HIT)}), (0.2, 0.2, None)),
]


@pytest.mark.parametrize("given, figures", FIGURES)
def test_figures_of_a_question(given: dict[str, Any], figures: tuple[float | None, ...]) -> None:
    found = scored(given)
    assert (found.hit_rate, found.mrr, found.judge_score) == figures


TOKENS = [
    # record: tokens, what is true of them
    (graded(), (2500, "")),
    (graded(judge=verdict()), (2500, "")),  # a judge that is no model has no tokens
    (graded(judge=verdict(input_tokens=40, output_tokens=2)), (2542, "")),
    (graded(judge=verdict(input_tokens=40)), (2540, "")),
    (graded(judge=verdict(input_tokens=40, judge_model="m")), (None, "missing")),
    (graded(judge=verdict(input_tokens=None, output_tokens=2, judge_model="m")), (None, "missing")),
    (graded(judge=verdict(input_tokens=-40, output_tokens=2, judge_model="m")), (None, "missing")),
    (graded(judge=verdict(judge_model="m")), (None, "missing")),
    (record(timing={"inputTokens": 7}), (None, "missing")),
    (record(timing={"inputTokens": None, "outputTokens": 7}), (None, "missing")),
    (graded(tokens=(0, 0), judge=verdict(input_tokens=40, output_tokens=0)), (40, "not_positive")),
    (graded(tokens=(-5, 0)), (None, "not_positive")),
    (graded(tokens=None, judge=verdict(input_tokens=40, output_tokens=0)), (45, "approximate")),
    (graded(tokens=None, judge=verdict(input_tokens=40, judge_model="m")), (None, "missing")),
    (graded(tokens=None, input=["ab", "c"], metadata={"model": "m"}), (1005, "approximate")),
    (graded(tokens=None, model="mm"), (2005, "approximate")),
    (graded(tokens=None, input="", output=""), (0, "approximate not_positive")),
]


@pytest.mark.parametrize("given, figures", TOKENS)
def test_tokens_of_a_question(given: dict[str, Any], figures: tuple[int, str]) -> None:
    found = scored(given)
    marks = [name for name in ("approximate", "missing", "not_positive") if getattr(found, f"tokens_{name}")]
    assert (found.num_tokens, " ".join(marks)) == figures


def test_tokens_of_the_judge_alone_are_no_tokens_to_divide_by() -> None:
    found = scored(graded(verdict(1), verdict(1, input_tokens=10, output_tokens=0), tokens=(0, 0)))
    assert (found.num_tokens, found.combined_score) == (10, None)


@pytest.mark.parametrize(
    "more, question",
    [
        ({}, "why"),
        ({"input": ["one", "two"]}, "one\ntwo"),
        ({"question": "Q?"}, "Q?"),
        ({"metadata": {"question": "Q?"}}, "Q?"),
        ({"question": 7}, "why"),
    ],
)
def test_question(more: dict[str, Any], question: str) -> None:
    assert scored(record(**more)).question == question


def test_a_failed_question_counts_as_0_unless_its_answer_was_graded_on_request() -> None:
    verdicts = graded(verdict(0.5, hit_rate=0.5, mrr=0), verdict(0.1), errors=["timed out"])
    found = scored(verdicts)
    assert (found.failed, found.errors) == (True, ["timed out"])
    assert (found.hit_rate, found.judge_score, found.combined_score) == (0, 0, 0)
    wanted = scored({**verdicts, "gradedFailed": True})
    assert (wanted.failed, wanted.hit_rate, wanted.judge_score) == (True, 0.5, 0.1)
    assert scored(record(error="old form")).errors == ["old form"]
    assert not scored(graded(verdict(0))).failed


def test_a_grader_that_failed_has_no_value() -> None:
    broken = {"pass": False, "score": 0, "reasoning": "grader error: no answer", "graderError": True}
    found = scored(graded(verdict(1, **HIT), broken, graderError=True))
    assert (found.hit_rate, found.judge_score, found.combined_score) == (1, None, None)
    assert found.grader_errors == ["judge"]
    alone = scored(record(score={**broken, "outcome": HIT}, graderError=True))
    assert (alone.hit_rate, alone.grader_errors) == (None, ["grader"])


@pytest.mark.parametrize(
    "given, says",
    [
        (graded(verdict(hit_rate=7)), '"hit_rate" in the outcome of sources must be between 0 and 1, got 7'),
        (graded(verdict(hit_rate=1, mrr=-0.5)), '"mrr" in the outcome of sources must be between 0 and 1'),
        (graded(verdict(hit_rate="high")), '"hit_rate" in the outcome of sources must be a number'),
        (graded(verdict(hit_rate=True)), '"hit_rate" in the outcome of sources must be a number'),
        (graded(judge=verdict(input_tokens="9")), '"input_tokens" in the outcome of judge must be a number'),
        ({"id": "a"}, '"output" is missing'),
        (record(scores={"sources": {"pass": True, "score": 2}}), "score"),
        (record(timing={"inputTokens": "9"}), "inputTokens"),
    ],
)
def test_refused(given: dict[str, Any], says: str) -> None:
    with pytest.raises(BadRecord) as caught:
        scored(given)
    assert says in str(caught.value)


# --- all questions ------------------------------------------------------------------------------


def scoring(*records: dict[str, Any]) -> Scoring:
    made = Scoring(ScoreRules(ScoreWeights(), count_letters))
    for number, given in enumerate(records):
        made.add({**given, "id": str(number)})
    return made


def test_means_are_over_those_that_have_a_value() -> None:
    summary = scoring(
        graded(verdict(1, hit_rate=1, mrr=1), verdict(overall_score=1), tokens=(1000, 0)),
        graded(verdict(0, hit_rate=0, mrr=0), tokens=(0, 0)),
        graded(None, verdict(overall_score=0.25), tokens=(3000, 0), errors=["x"], gradedFailed=True),
        record(tokens=None),
    ).summary()
    assert (summary.avg_hit_rate, summary.avg_mrr, summary.avg_judge_score) == (0.5, 0.5, 0.625)
    assert (summary.avg_combined_score, summary.best_combined_score) == (1, 1)
    assert (summary.avg_num_tokens, summary.total_tokens) == (4005 / 4, 4005)
    counts = summary.counts
    assert (counts.hit_rate, counts.mrr, counts.judge_score, counts.combined_score, counts.num_tokens) == (
        2,
        2,
        2,
        1,
        4,
    )
    assert (counts.failed, counts.grader_errors, counts.tokens_approximate, counts.tokens_not_positive) == (1, 0, 1, 1)


def test_nothing_has_no_mean() -> None:
    summary = scoring().summary()
    assert {getattr(summary, name) for name in summary.__struct_fields__ if name != "counts"} == {None}
    assert {getattr(summary.counts, name) for name in summary.counts.__struct_fields__} == {0}


def test_many_small_numbers_add_up() -> None:
    """0.1 ten times is 1 to a mean, whatever it is to a sum."""
    summary = scoring(*[graded(verdict(0.1))] * 10).summary()
    assert summary.avg_hit_rate == 0.1


def test_a_question_counts_once() -> None:
    made = scoring(record())
    with pytest.raises(BadRecord, match='duplicate id "0"'):
        made.add(record("0"))
    assert len(made.results) == 1


def test_metadata_is_what_the_records_agree_on() -> None:
    judged = verdict(judge_model="gpt-4o-mini")
    first = graded(judge=judged, metadata={"search_mode": "evaluation", "model": "offline"})
    second = graded(judge=verdict(judge_model="gpt-4o-mini"), searchMode="evaluation", model="other")
    made = scoring(first, second, record())
    assert {name: made.agreed(name) for name in made.metadata} == {
        "ground_truth_file": None,
        "search_mode": "evaluation",
        "judge_model": "gpt-4o-mini",
        "model": None,
    }


# --- criteria -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "criterion, hit_rate, met",
    [
        ("minimum", 0.8, [False]),  # > in the reference evaluation
        ("minimum", 0.81, [True]),
        ("--min hit_rate=0.8", 0.8, [True]),
        ("--min avg_hit_rate=0.8", 0.79, [False]),
        ("--min hit_rate=1", 1.0, [True]),
        ("--min hit_rate=0", None, [False]),
    ],
)
def test_criteria(criterion: str, hit_rate: float | None, met: list[bool]) -> None:
    wanted = [parse_minimum(criterion[6:])] if criterion.startswith("--min") else load_criteria(criterion)[:1]
    summary = scoring(graded(verdict(hit_rate)) if hit_rate is not None else record()).summary()
    results = check_criteria(wanted, summary)
    assert [result.met for result in results] == met
    assert (results[0].name, results[0].value) == ("avg_hit_rate", hit_rate)
    assert results[0].n == (hit_rate is not None)


def test_the_seeds_criteria() -> None:
    minimum = [(each.name, each.operator, each.minimum) for each in load_criteria("minimum")]
    assert minimum == [("avg_hit_rate", ">", 0.8), ("avg_mrr", ">", 0.7), ("avg_judge_score", ">", 0.75)]
    assert [each.minimum for each in load_criteria("target")] == [0.9, 0.85, 0.85, 1.2]


@pytest.mark.parametrize("text", ["hit_rate", "hit_rate=", "hit_rate=x", "speed=1", "=1", "hit_rate=nan", "mrr=inf"])
def test_minimum_that_is_none(text: str) -> None:
    with pytest.raises(UserError, match="--min"):
        parse_minimum(text)


def test_mean_is_exact_for_what_a_criterion_is_held_against() -> None:
    summary = scoring(*[graded(verdict(1))] * 4, graded(verdict(0))).summary()
    assert summary.avg_hit_rate == 0.8
