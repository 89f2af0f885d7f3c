"""Trials of a prompt, prompts of a cluster: no interval treats what belongs together as independent."""

from __future__ import annotations

import random
from typing import Any

import pytest

from agenteval.comparison import figures, pairing
from agenteval.comparison.comparison import CompareSettings, Comparison, remarks
from agenteval.comparison.row_table import ComparedRow, RowTable
from agenteval.comparison.rows import RowOptions, RunRows
from agenteval.comparison.run_summary import Grades, TrialPrompts
from agenteval.statistics.intervals import (
    cluster_freedom,
    geometric_ratio_interval,
    percentile_interval,
    prompt_rate_interval,
    ratio_interval,
    score_interval,
    standard_error,
)
from agenteval.wire.differences import ConfidenceInterval
from tests.support.compared import compare_results, compare_trials
from tests.support.tool import Record, jsonl, run


def prompt(passed: int, graded: int, **fields: Any) -> ComparedRow:
    scores = (1.0,) * passed + (0.0,) * (graded - passed)
    rate = passed / graded
    plug_in: dict[str, Any] = {"pass_at_k": 1 - (1 - rate) ** graded, "pass_exp_k": rate**graded}
    return ComparedRow(k=graded, attempts=graded, graded=graded, passed=passed, scores=scores, **plug_in, **fields)


def run_of(label: str, *rows: ComparedRow, clustered: bool = False) -> RunRows:
    return RunRows(label, RowTable({f"p{at}": row for at, row in enumerate(rows)}), clustered=clustered)


def width(found: ConfidenceInterval | None) -> float:
    assert found is not None
    return found.high - found.low


# --- percentiles --------------------------------------------------------------------------------


def test_repeating_trials_makes_no_percentile_surer() -> None:
    times = [float(at) for at in range(1, 31)]
    apart = percentile_interval(times, 0.5)
    repeated = percentile_interval(times * 10, 0.5, [*range(30)] * 10)
    assert width(repeated) >= width(apart)
    assert width(percentile_interval(times * 10, 0.5)) < width(apart) / 2, "as if they were 300 prompts"
    shuffled = random.Random(1).sample(times * 10, 300)
    assert width(percentile_interval(shuffled, 0.5, [*range(30)] * 10)) < width(apart), "trials that differ do count"


def test_p90_needs_29_prompts_however_many_trials() -> None:
    for prompts, known in ((28, False), (60, True)):
        times, clusters = [float(at) for at in range(prompts * 10)], [*range(prompts)] * 10
        assert (percentile_interval(times, 0.9, clusters) is not None) == known
    found = figures.latency(
        run_of("a", *[prompt(1, 1, durations=tuple(range(at, at + 9))) for at in range(20)]), "durations"
    )
    assert found.p50_interval and not found.p90_interval


def test_the_gate_is_not_passed_by_repeating_prompts() -> None:
    def trials(id: str, ms: int, k: int) -> Record:
        entries = [{"trialNum": n, "output": "x", "pass": True, "timing": {"total": ms}} for n in range(k)]
        return {"id": id, "input": "q", "k": k, "trials": entries}

    limits = ["--max", "p50=150", "--min", "passRate=0.9", "--confident"]
    for k in (1, 10):
        records = jsonl(*(trials(f"t{at}", 100 + 10 * at, k) for at in range(8)))
        done = run("ae-gate", *limits, stdin=records).expect(1)
        assert "p50" in done.stdout + done.stderr
    many = jsonl(*(trials(f"t{at}", 100 + at, 3) for at in range(60)))
    run("ae-gate", "--max", "p50=150", "--confident", stdin=many).expect(0)


# --- clusters -----------------------------------------------------------------------------------


def test_ratios_of_clusters_are_no_surer_than_one_value_each() -> None:
    ratios = [1.1, 0.8, 1.4, 0.9, 1.2, 0.7]
    names = [name for name in "abcdef" for _ in range(10)]
    spread = [ratio for ratio in ratios for _ in range(10)]
    ones = [1.0] * 60
    assert width(geometric_ratio_interval(spread, names)) == pytest.approx(width(geometric_ratio_interval(ratios)))
    assert width(ratio_interval(spread, ones, names)) == pytest.approx(width(ratio_interval(ratios, [1.0] * 6)))
    assert width(ratio_interval(spread, ones)) < width(ratio_interval(ratios, [1.0] * 6)) / 2


def test_one_large_cluster_leaves_few_degrees_of_freedom() -> None:
    assert (cluster_freedom([5] * 12), cluster_freedom([60, *[5] * 11])) == (11, 2)
    error, df = standard_error([0.1, 0.3, 0.2, 0.4, 0.9], ["a", "a", "a", "a", "b"])
    assert df == 1 and error == pytest.approx((0.5 * (0.52**2 + 0.13**2)) ** 0.5)  # 0.38, without a 0.9, without b 0.25


def test_clusters_reach_time_tokens_and_cost() -> None:
    def of(label: str, factor: float, clustered: bool) -> RunRows:
        draw = random.Random(label)
        levels = [draw.lognormvariate(0, 1) for _ in range(12)]
        values = [(level * factor * (1.3 if at % 3 else 0.8),) for at, level in enumerate(levels) for _ in range(10)]
        rows = [
            prompt(1, 1, durations=value, token_values=value, cost_values=value, cluster=f"c{at // 10}")
            for at, value in enumerate(values)
        ]
        return run_of(label, *rows, clustered=clustered)

    plain, by_cluster = ([of("a", 1.0, clustered), of("b", 1.5, clustered)] for clustered in (False, True))
    for name in ("latency", "tokens", "cost"):
        apart, together = (
            getattr(pairing.resources(a, b, pairing.amounts([a, b])), name).interval for a, b in (plain, by_cluster)
        )
        assert width(together) > 1.2 * width(apart)
    for field in ("durations", "token_values"):
        apart, together = (figures.latency(runs[0], field).p50_interval for runs in (plain, by_cluster))
        assert together is None or width(together) > width(apart)
    options = RowOptions(cluster_by="metadata.doc")
    report = Comparison(trials=False, options=options).compare(by_cluster, CompareSettings("custom"))
    assert any(line.startswith("only 1") and "clusters: intervals are wide" in line for line in remarks(report))


# --- unequal numbers of trials ------------------------------------------------------------------


def test_a_ratio_of_times_does_not_depend_on_how_many_trials_there_are() -> None:
    """One trial of 1 s or of 9 s, against both of them in each prompt: on average they take as long."""
    once = [prompt(1, 1, durations=(1.0 if at % 2 else 9.0,)) for at in range(20)]
    runs = run_of("a", *once), run_of("b", *[prompt(2, 2, durations=(1.0, 9.0))] * 20)
    found = pairing.resources(*runs, pairing.amounts(runs)).latency
    assert found is not None and found.ratio == pytest.approx(1.0) and (found.mean_a, found.mean_b) == (5.0, 5.0)


def test_a_pass_rate_is_the_mean_of_the_prompts_rates() -> None:
    """Simpson's paradox: b passes more often on both kinds of prompts, and less often over all trials."""
    easy, hard = (9, 10), (1, 2)
    a = run_of("a", *[prompt(*easy)] * 10, *[prompt(*hard)] * 10)
    b = run_of("b", *[prompt(2, 2)] * 10, *[prompt(6, 10)] * 10)
    report = compare_trials([a, b], CompareSettings("custom"))
    runs, [pair] = report.statistics.runs, report.statistics.pairs
    assert (runs["a"].pass_rate, runs["b"].pass_rate) == pytest.approx((0.7, 0.8))
    assert pair.mean_difference == pytest.approx(0.7 - 0.8)
    assert runs["a"].passed_trials / runs["a"].graded_trials > runs["b"].passed_trials / runs["b"].graded_trials
    found = runs["a"].interval
    assert found is not None and found.low < 0.7 < found.high
    assert figures.category_run(a).pass_rate == pytest.approx(0.7)


def test_pass_rates_of_equally_many_trials_have_the_interval_of_clusters() -> None:
    found = prompt_rate_interval([3, 1, 0, 4], [4, 4, 4, 4])
    assert found is not None and (found.n, found.method) == (16, "wilson, effective n")
    plain = prompt_rate_interval([1, 0, 1], [1, 1, 1])
    assert plain is not None and (plain.n, plain.method) == (3, "wilson")


@pytest.mark.parametrize("passes", [(3, 3), (0, 0), (3, 2, 1, 0, 3, 3)])
def test_pass_at_1_is_the_pass_rate_with_its_interval(passes: tuple[int, ...]) -> None:
    run = run_of("a", *(prompt(passed, 3) for passed in passes))
    grades, trials = Grades(), TrialPrompts()
    for passed in passes:
        grades.add(passed, [1.0] * passed + [0.0] * (3 - passed))
        trials.add_alike(3, 3, passed, 1)
    assert figures.capability(run).pass_at_intervals["1"] == figures.pass_interval(run)
    assert figures.trial_reliability(run).pass_exp_intervals["1"] == figures.pass_interval(run)
    for sign in "@^":
        found = trials.estimate(sign, 1)
        assert found is not None
        assert found.value == pytest.approx(grades.rate) and found.interval == grades.interval


def test_pass_exp_over_some_of_the_prompts_has_no_interval() -> None:
    rows = [*[prompt(5, 5)] * 12, *[prompt(1, 2)] * 8]
    report = compare_trials([run_of("a", *rows), run_of("b", *rows)], CompareSettings("custom"))
    reliability = report.reliability["a"]
    assert set(reliability.pass_exp_intervals) == {"1", "2"} and reliability.pass_exp["5"] == 1
    assert any("pass^5 are over 12 of 20 prompts, those with 5 graded trials" in line for line in remarks(report))


def test_the_seeds_estimate_has_its_own_interval() -> None:
    a = run_of("a", *[prompt(2, 3)] * 20, *[prompt(3, 3)] * 2)
    found = figures.trial_reliability(a)
    low, high = (found.confidence_intervals or {})["avgPassExpK"] or (1, 0)
    assert low < (found.avg_pass_exp_k or 0) < high
    assert found.pass_exp_intervals["3"].low < 2 / 22 < found.pass_exp_intervals["3"].high < (found.avg_pass_exp_k or 0)


# --- scores, timeouts, graders ------------------------------------------------------------------


def test_scores_near_one_leave_room_below() -> None:
    found = score_interval([1.0] * 28 + [0.75, 0.5])
    assert found is not None and found.method == "wilson, effective n"
    assert found.low < 0.92 and 0.975 < found.high < 1
    middle = score_interval([0.6, 0.7, 0.8, 0.7, 0.65, 0.75] * 10)
    assert middle is not None and width(middle) < 0.05, "scores that vary little are worth more than passes"


def test_a_mean_latency_says_how_many_timeouts_it_rests_on() -> None:
    late = [prompt(1, 1, durations=(ms,), timed_out=ms > 100) for ms in (1.0, 2.0, 3.0, 2.5, 900.0)]
    both = [run_of(label, *late) for label in "ab"]
    report = compare_results(both, CompareSettings("statistical", iterations=200, seed=1))
    assert "a: the mean latency includes 1 timeout" in remarks(report)
    few = [run_of(label, *late[:2]) for label in "ab"]
    intervals = compare_results(few, CompareSettings("statistical", iterations=200, seed=1)).performance["a"]
    assert intervals.confidence_intervals and intervals.confidence_intervals.latency_mean is None


def test_rates_of_each_grader_count_prompts_not_trials() -> None:
    def trials(id: int) -> Record:
        grade = {"pass": id % 2 == 0, "score": 0.5}
        entry = {"output": "x", "pass": True, "score": 0.5, "scores": {"a": grade, "b": grade}}
        return {"id": str(id), "input": "q", "k": 10, "trials": [{"trialNum": n, **entry} for n in range(10)]}

    for form in ("table", "markdown", "html"):
        text = run("ae-format", "-f", form, stdin=jsonl(*map(trials, range(10)))).expect(0).stdout
        assert "40.4%" not in text, "Wilson's lower bound of 50 of 100"
        assert "2" in text and ("50/100" in text or form == "html")
