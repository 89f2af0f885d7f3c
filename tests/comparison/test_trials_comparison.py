"""Runs of trials and their comparison: the pure core, by table and by hand."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest

from agenteval.comparison import statistics as stats
from agenteval.comparison import trial_rows
from agenteval.comparison.pairing import RunRows, by_scores
from agenteval.comparison.trial_rows import ComparedTrials, TrialRow
from agenteval.comparison.trials import TrialsComparison, head_to_head, pair_statistics
from agenteval.wire.validation import check

Json = dict[str, Any]

TRIALS = TrialsComparison()
BY_PASS_RATE = by_scores(TRIALS.plain_scores)


def row(*entries: Json, k: int | None = None, **fields: Any) -> TrialRow:
    """The row of a prompt with these trials."""
    record = {"id": "p", "k": k or max(1, len(entries)), "trials": list(entries), **fields}
    return TRIALS.row(check(record, ComparedTrials))


def passing(passed: int, of: int) -> TrialRow:
    """The row of a prompt with so many passes of so many trials."""
    return row(*({"pass": number < passed} for number in range(of)))


def run_with(*rows: TrialRow, label: str = "run") -> RunRows[TrialRow]:
    """A run with these rows."""
    return RunRows(label, {f"p{i}": row for i, row in enumerate(rows)})


def run_of(label: str, *passed: int, of: int = 4) -> RunRows[TrialRow]:
    """A run with one prompt for each number of passes."""
    return run_with(*(passing(c, of) for c in passed), label=label)


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
    assert found.trials == len(entries)


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
    found = trial_rows.capability(run_with(*rows))
    assert (found.n, found.ungraded) == (3, 1)
    assert found.pass_at == pytest.approx({"1": (1 / 3 + 1 + 1 / 2) / 3, "2": (2 / 3 + 1 + 1) / 3, "3": 1.0})
    assert found.pass_at_n == {"1": 3, "2": 3, "3": 2}
    steady = trial_rows.trial_reliability(run_with(*rows))
    assert steady.pass_exp == pytest.approx({"1": (1 / 3 + 1 + 1 / 2) / 3, "2": 1 / 3, "3": 0.5})


def test_the_most_flaky_are_few_and_in_order() -> None:
    found = trial_rows.flakiness(run_of("a", *(i % 5 for i in range(30))))
    assert (found.n, found.flaky_prompt_count, len(found.top_flaky_prompts)) == (30, 18, 10)
    assert [prompt.id for prompt in found.top_flaky_prompts[:7]] == ["p2", "p7", "p12", "p17", "p22", "p27", "p1"]


def test_quality_counts_why_a_trial_has_no_score() -> None:
    found = trial_rows.trial_quality([row(PASS, {**CRASHED, "pass": False}, BROKEN, {}), row(FAIL)])
    assert found is not None
    assert (found.n, found.avg_score, found.failed_trials, found.grader_errors, found.ungraded) == (3, 1 / 3, 1, 1, 1)
    assert trial_rows.trial_quality([row({})]) is None


# --- clusters -----------------------------------------------------------------------------------


def test_clustered_interval_by_hand() -> None:
    # Rates 1, .5, 0 of two trials each: mean .5, sd of the means .5, se .5/sqrt(3), t(.975, 2) = 4.302653
    assert stats.clustered_rate([(2, 2), (1, 2), (0, 2)]) == (0.0, 1.0)
    # 30 prompts, every one all or nothing: as wide as 30 single trials, however many there are
    clusters = [(5, 5)] * 15 + [(0, 5)] * 15
    error = math.sqrt(30 * 2.5**2 * 30 / 29) / 150
    assert stats.clustered_rate(clusters) == pytest.approx((0.5 - 2.0452296 * error, 0.5 + 2.0452296 * error))
    assert stats.clustered_rate([(c // 5, n // 5) for c, n in clusters]) == pytest.approx(
        stats.clustered_rate(clusters)
    )


def test_clustered_interval_of_unequal_clusters() -> None:
    clusters = [(3, 4), (1, 2), (0, 3), (1, 1)]
    rate = 5 / 10
    residuals = [3 - 2, 1 - 1, 0 - 1.5, 1 - 0.5]
    error = math.sqrt(sum(r * r for r in residuals) * 4 / 3) / 10
    low, high = stats.clustered_rate(clusters) or (0, 0)
    assert (low, high) == pytest.approx((max(0, rate - 3.1824463 * error), min(1, rate + 3.1824463 * error)))


@pytest.mark.parametrize("rate", [0, 1, 2])
def test_where_nothing_varies_the_interval_is_that_of_the_prompts(rate: int) -> None:
    assert stats.clustered_rate([(rate, 2)] * 10) == stats.wilson(10 * rate / 2, 10)


def test_one_prompt_has_no_interval() -> None:
    assert stats.clustered_rate([(3, 5)]) is None
    assert stats.clustered_rate([]) is None


def test_bootstrap_draws_whole_clusters() -> None:
    clusters = [[1.0] * 50] * 10 + [[0.0] * 50] * 10
    sums, counts = [sum(one) for one in clusters], [len(one) for one in clusters]
    [whole] = stats.bootstrap_intervals([stats.Clusters(sums, counts)], 2000, 1)
    [single] = stats.bootstrap_intervals([[value for one in clusters for value in one]], 2000, 1)
    assert whole == pytest.approx((0.5 - 1.96 * math.sqrt(0.25 / 20), 0.5 + 1.96 * math.sqrt(0.25 / 20)), abs=0.05)
    assert single is not None and whole is not None
    assert single[1] - single[0] < (whole[1] - whole[0]) / 5


def test_bootstrap_of_unequal_clusters_is_of_the_mean_over_all() -> None:
    sums, counts = [10.0, 0.0] * 50, [10, 1] * 50
    [interval] = stats.bootstrap_intervals([stats.Clusters(sums, counts)], 1000, 1)
    assert interval is not None
    assert interval[0] < 10 / 11 < interval[1]


def test_clustered_intervals_hold_what_they_promise() -> None:
    """Of 300 runs of 40 prompts with 5 like-minded trials each, about 95 % have the true rate in their interval."""
    rng = random.Random(1)
    inside = naive = 0
    for _ in range(300):
        rates = [rng.choice((0.05, 0.95)) for _ in range(40)]
        clusters = [(sum(rng.random() < rate for _ in range(5)), 5) for rate in rates]
        low, high = stats.clustered_rate(clusters) or (1, 0)
        inside += low <= 0.5 <= high
        low, high = stats.wilson(sum(c for c, _ in clusters), 200)
        naive += low <= 0.5 <= high
    assert 0.91 < inside / 300 < 0.98
    assert naive / 300 < 0.75


# --- strategies and head to head ----------------------------------------------------------------


def test_weighted_as_in_agent_eval_harness() -> None:
    a = passing(2, 4)
    at, exp = 1 - 0.5**4, 0.5**4
    scores = TRIALS.weighted_scores({"a": a, "b": row({}, {}, {}, {})}, TRIALS.default_weights)
    assert scores == {"a": pytest.approx(0.4 * at + 0.4 * exp + 0.2 * (1 - at + exp)), "b": None}


def test_a_win_of_c_is_no_tie_of_a_and_b() -> None:
    runs = [run_of("a", 2, 2, 1), run_of("b", 1, 1, 1), run_of("c", 4, 4, 4)]
    wins, prompts = head_to_head(runs, BY_PASS_RATE)
    for pairs in (wins.capability, wins.reliability, wins.overall):
        assert [(pair.run_a, pair.run_b, pair.n, pair.a_wins, pair.b_wins, pair.ties) for pair in pairs] == [
            ("a", "b", 3, 2, 0, 1),
            ("a", "c", 3, 0, 3, 0),
            ("b", "c", 3, 0, 3, 0),
        ]
    assert [prompt.winner for prompt in prompts] == ["c", "c", "c"]


def test_a_third_run_of_smaller_k_changes_nothing_between_two() -> None:
    a, b = RunRows("a", {"p": passing(1, 5)}), RunRows("b", {"p": row(PASS, *[FAIL] * 4, passAtK=0.9)})
    c = RunRows("c", {"p": passing(0, 1)})
    wins, [prompt] = head_to_head([a, b, c], BY_PASS_RATE)
    assert wins.capability[0].b_wins == 1, "what the file says, at the k both have"
    assert (prompt.k, prompt.pass_at_k) == (1, {"a": pytest.approx(0.2), "b": pytest.approx(0.2), "c": 0.0})


# --- is it luck ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("a", "b", "verdict"),
    [
        ([4, 3, 4, 2, 4, 3], [1, 0, 1, 1, 2, 0], "a better"),
        ([1, 0, 1, 1, 2, 0], [4, 3, 4, 2, 4, 3], "b better"),
        ([2, 3, 1, 4, 0, 2], [3, 2, 2, 3, 1, 1], "no difference shown"),
        ([4] * 5, [0] * 5, "too few prompts to tell"),
        ([4] * 30, [0] * 5 + [4] * 25, "no difference shown"),
        ([], [], "no prompt is graded in both"),
    ],
)
def test_verdict(a: list[int], b: list[int], verdict: str) -> None:
    assert pair_statistics(run_of("a", *a), run_of("b", *b)).verdict == verdict


def test_trials_of_a_prompt_are_not_so_many_prompts() -> None:
    """Two hundred trials of five prompts show nothing: five prompts are five."""
    a, b = run_of("a", *[40] * 5, of=40), run_of("b", *[0] * 5, of=40)
    assert pair_statistics(a, b).verdict == "too few prompts to tell"


def test_unequal_numbers_of_trials_are_paired_by_prompt() -> None:
    a = RunRows("a", {"p": passing(2, 4), "q": passing(1, 1), "r": passing(1, 2), "s": row({})})
    b = RunRows("b", {"p": passing(1, 2), "q": passing(1, 5), "r": row({}), "s": passing(1, 1)})
    found = pair_statistics(a, b)
    assert (found.n, found.score) == (2, None)
    assert found.mean_difference == pytest.approx(0.4)
