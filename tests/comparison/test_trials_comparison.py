"""Runs of trials and their comparison: the pure core, by table and by hand."""

from __future__ import annotations

import math
from typing import Any

import pytest

from agenteval.comparison import figures
from agenteval.comparison.comparison import CompareSettings, trials_head_to_head, weighted_trials
from agenteval.comparison.pairing import by_scores
from agenteval.comparison.row_table import ComparedRow, RowTable
from agenteval.comparison.rows import RunRows, compared_row
from agenteval.statistics.intervals import bootstrap_mean_interval, clustered_rate_interval, effective_count
from agenteval.wire.comparison import PairStatistics
from agenteval.wire.row import RowWithCalls
from agenteval.wire.validation import check
from tests.support.compared import TRIALS, compare_trials

Json = dict[str, Any]

BY_PASS_RATE = by_scores(TRIALS.plain_scores)


def row(*entries: Json, k: int | None = None, **fields: Any) -> ComparedRow:
    """The row of a prompt with these trials."""
    record = {"id": "p", "k": k or max(1, len(entries)), "trials": list(entries), **fields}
    return compared_row(check(record, RowWithCalls))


def passing(passed: int, of: int) -> ComparedRow:
    """The row of a prompt with so many passes of so many trials."""
    return row(*({"pass": number < passed} for number in range(of)))


def run_with(*rows: ComparedRow, label: str = "run") -> RunRows:
    """A run with these rows."""
    return RunRows(label, RowTable({f"p{i}": row for i, row in enumerate(rows)}))


def run_of(label: str, *passed: int, of: int = 4) -> RunRows:
    """A run with one prompt for each number of passes."""
    return run_with(*(passing(c, of) for c in passed), label=label)


def compared_pair(a: RunRows, b: RunRows) -> PairStatistics:
    """The paired analysis of two runs."""
    [found] = compare_trials([a, b], CompareSettings("custom")).statistics.pairs
    return found


PASS, FAIL = {"pass": True, "score": 1.0}, {"pass": False, "score": 0.0}
CRASHED = {"errors": ["exit code 1"]}
BROKEN = {"pass": False, "score": 0.0, "graderError": True}


# --- rows ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("entries", "fields", "graded", "passed", "failed", "grader_errors"),
    [
        ([PASS, FAIL, PASS], {}, 3, 2, 0, 0),
        ([PASS, {**CRASHED, "pass": False}], {}, 2, 1, 1, 0),
        ([PASS, CRASHED], {}, 2, 1, 1, 0),  # its pass is not said, but the prompt was graded: it did not pass
        ([{}, CRASHED], {}, 0, 0, 1, 0),  # not graded at all
        ([PASS, BROKEN], {}, 1, 1, 0, 1),
        ([PASS, {**BROKEN, **CRASHED}], {}, 2, 1, 1, 0),  # a failed agent never passes, and needs no grader for that
        ([PASS, {**BROKEN, **CRASHED, "gradedFailed": True}], {}, 1, 1, 0, 1),
        ([PASS, {**PASS, **CRASHED}], {}, 2, 1, 1, 0),
        ([PASS, {**PASS, **CRASHED, "gradedFailed": True}], {}, 2, 2, 0, 0),
        ([BROKEN, BROKEN], {}, 0, 0, 0, 2),
        ([PASS, {}], {}, 1, 1, 0, 0),
        ([{}, {}, {}], {"passRate": 1 / 3}, 3, 1, 0, 0),  # the trials do not say, the record does
        ([], {"passRate": 1.0}, 0, 0, 0, 0),
    ],
)
def test_counts(entries: list[Json], fields: Json, graded: int, passed: int, failed: int, grader_errors: int) -> None:
    found = row(*entries, **fields)
    assert (found.graded, found.passed, found.failed, found.grader_errors) == (graded, passed, failed, grader_errors)
    assert found.attempts == len(entries)


def test_rates_are_worked_out_where_they_are_not_given() -> None:
    found = row(PASS, FAIL, k=3)
    assert (found.pass_rate, found.pass_at_k, found.pass_exp_k) == (0.5, 0.875, 0.125)
    given = row(PASS, FAIL, passAtK=0.6, passExpK=0.2)
    assert (given.pass_at_k, given.pass_exp_k) == (0.6, 0.2)
    assert given.flakiness == pytest.approx(0.4)
    unknown = row({}, {})
    assert (unknown.pass_rate, unknown.pass_at_k, unknown.flakiness) == (None, None, None)


def test_a_third_of_one_trial_is_not_flaky() -> None:
    assert row(PASS, FAIL, FAIL, k=1).flakiness == 0.0


def test_durations() -> None:
    entries: list[Json] = [
        {"duration": 5},
        {"duration": -1},
        {"timing": {"start": 10, "end": 25}},
        {"timing": {"total": 7}},
        {},
    ]
    assert row(*entries).durations == (5.0, 15.0, 7.0)


# --- one run ------------------------------------------------------------------------------------


def test_unbiased_means_by_hand() -> None:
    rows = [passing(1, 3), passing(3, 3), passing(1, 2), row({})]
    found = figures.capability(run_with(*rows))
    assert (found.n, found.ungraded) == (3, 1)
    assert found.pass_at == pytest.approx({"1": (1 / 3 + 1 + 1 / 2) / 3, "2": (2 / 3 + 1 + 1) / 3, "3": 1.0})
    assert found.pass_at_n == {"1": 3, "2": 3, "3": 2}
    steady = figures.trial_reliability(run_with(*rows))
    assert steady.pass_exp == pytest.approx({"1": (1 / 3 + 1 + 1 / 2) / 3, "2": 1 / 3, "3": 0.5})


def test_the_most_flaky_are_few_and_in_order() -> None:
    found = figures.flakiness(run_of("a", *(i % 5 for i in range(30))))
    assert (found.n, found.flaky_prompt_count, len(found.top_flaky_prompts)) == (30, 18, 10)
    assert [prompt.id for prompt in found.top_flaky_prompts[:7]] == ["p2", "p7", "p12", "p17", "p22", "p27", "p1"]


def test_quality_counts_why_a_trial_has_no_score() -> None:
    found = figures.trial_quality(run_with(row(PASS, {**CRASHED, "pass": False}, BROKEN, {}), row(FAIL)))
    assert found is not None
    assert (found.n, found.avg_score, found.failed_trials, found.grader_errors, found.ungraded) == (3, 1 / 4, 1, 1, 1)
    assert figures.trial_quality(run_with(row({}))) is None


# --- clusters -----------------------------------------------------------------------------------


def test_clustered_interval_by_hand() -> None:
    # Four prompts: 3 of 4, 1 of 2, 0 of 3, 1 of 1. Rate .5, residuals 1, 0, -1.5, .5; binomial variance 10 * .25.
    # Without one of them the rate changes by its residual over the other trials.
    between, binomial = 100 * 3 / 4 * ((1 / 6) ** 2 + (1.5 / 7) ** 2 + (0.5 / 9) ** 2), 2.5
    effective = 10 / ((between + 0.5 * 10 / 4) / (binomial + 0.5))
    assert effective_count([3, 1, 0, 1], [4, 2, 3, 1]) == pytest.approx(effective)
    t = 4.3026527  # 10² / (16 + 4 + 9 + 1) = 3.3 clusters
    reach = t / (1 + t * t / effective) * math.sqrt(0.25 / effective + t * t / (4 * effective**2))
    found = clustered_rate_interval([3, 1, 0, 1], [4, 2, 3, 1])
    assert found is not None
    assert (found.low, found.high) == pytest.approx((0.5 - reach, 0.5 + reach))
    assert (found.n, found.method) == (10, "wilson, effective n")


def test_one_prompt_tells_little() -> None:
    found = clustered_rate_interval([5], [5])
    assert found is not None
    assert (found.low, found.high) == pytest.approx((0.2065, 1.0), abs=1e-4)


def test_bootstrap_draws_whole_clusters() -> None:
    clusters = [[1.0] * 50] * 10 + [[0.0] * 50] * 10
    whole = bootstrap_mean_interval(clusters, 2000, 1)
    single = bootstrap_mean_interval([[value] for one in clusters for value in one], 2000, 1)
    assert whole is not None
    assert single is not None
    assert single.high - single.low < (whole.high - whole.low) / 4
    assert whole.low < 0.35
    assert whole.high > 0.65


def test_bootstrap_is_as_skewed_as_the_values_and_depends_on_the_seed_alone() -> None:
    values = [[float(2**i)] for i in range(12)]
    found = bootstrap_mean_interval(values, 1000, 1)
    assert found is not None
    centre = sum(value for [value] in values) / 12
    assert found.high - centre > 2 * (centre - found.low)
    assert found == bootstrap_mean_interval(values, 1000, 1) != bootstrap_mean_interval(values, 1000, 2)


def test_bootstrap_of_too_little() -> None:
    assert bootstrap_mean_interval([], 100, 0) is None
    assert bootstrap_mean_interval([[1.0], []], 100, 0) is None
    assert bootstrap_mean_interval([[1.1], [1.1], [1.1, 1.1]], 100, 0) is None


# --- strategies and head to head ----------------------------------------------------------------


def test_weighted_as_in_agent_eval_harness() -> None:
    a = passing(2, 4)
    at, exp = 1 - 0.5**4, 0.5**4
    scores = weighted_trials({"a": a, "b": row({}, {}, {}, {})}, TRIALS.default_weights)
    assert scores == {"a": pytest.approx(0.4 * at + 0.4 * exp + 0.2 * (1 - at + exp)), "b": None}


def test_a_win_of_c_is_no_tie_of_a_and_b() -> None:
    runs = [run_of("a", 2, 2, 1), run_of("b", 1, 1, 1), run_of("c", 4, 4, 4)]
    wins, prompts = trials_head_to_head(runs, BY_PASS_RATE)
    for pairs in (wins.capability, wins.reliability, wins.overall):
        assert [(pair.run_a, pair.run_b, pair.n, pair.a_wins, pair.b_wins, pair.ties) for pair in pairs] == [
            ("a", "b", 3, 2, 0, 1),
            ("a", "c", 3, 0, 3, 0),
            ("b", "c", 3, 0, 3, 0),
        ]
    assert [prompt.winner for prompt in prompts] == ["c", "c", "c"]


def test_a_third_run_of_smaller_k_changes_nothing_between_two() -> None:
    a, b = (
        RunRows("a", RowTable({"p": passing(1, 5)})),
        RunRows("b", RowTable({"p": row(PASS, *[FAIL] * 4, passAtK=0.9)})),
    )
    c = RunRows("c", RowTable({"p": passing(0, 1)}))
    wins, [prompt] = trials_head_to_head([a, b, c], BY_PASS_RATE)
    assert wins.capability[0].b_wins == 1, "what the file says, at the k both have"
    assert (prompt.k, prompt.pass_at_k) == (1, {"a": pytest.approx(0.2), "b": pytest.approx(0.2), "c": 0.0})


# --- is it luck ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("a", "b", "verdict"),
    [
        ([4, 3, 4, 2, 4, 3], [1, 0, 1, 1, 2, 0], "a better"),
        ([1, 0, 1, 1, 2, 0], [4, 3, 4, 2, 4, 3], "b better"),
        ([2, 3, 1, 4, 0, 2], [3, 2, 2, 3, 1, 1], "no difference shown"),
        ([4] * 4, [0] * 4, "too few prompts to tell"),
        ([4] * 30, [0] * 4 + [4] * 26, "no difference shown"),
        ([4] * 30, [0] * 5 + [4] * 25, "a better"),
        ([], [], "no prompt is graded in both"),
    ],
)
def test_verdict(a: list[int], b: list[int], verdict: str) -> None:
    assert compared_pair(run_of("a", *a), run_of("b", *b)).verdict == verdict


def test_trials_of_a_prompt_are_not_so_many_prompts() -> None:
    """Four hundred trials of four prompts show nothing: four prompts are four."""
    a, b = run_of("a", *[100] * 4, of=100), run_of("b", *[0] * 4, of=100)
    assert compared_pair(a, b).verdict == "too few prompts to tell"


def test_unequal_numbers_of_trials_are_paired_by_prompt() -> None:
    a = RunRows("a", RowTable({"p": passing(2, 4), "q": passing(1, 1), "r": passing(1, 2), "s": row({})}))
    b = RunRows("b", RowTable({"p": passing(1, 2), "q": passing(1, 5), "r": row({}), "s": passing(1, 1)}))
    found = compared_pair(a, b)
    assert (found.n, found.score) == (2, None)
    assert found.mean_difference == pytest.approx(0.4)
