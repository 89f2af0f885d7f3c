"""Verdicts, ties and adjusted tests of a whole report, in process."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest

from agenteval.comparison.comparison import CompareSettings, remarks
from agenteval.comparison.row_table import RowTable, replaced
from agenteval.comparison.rows import RunRows
from agenteval.comparison.verdicts import GateSettings, dropped, gate_reasons
from agenteval.reports.comparison import table
from agenteval.reports.forms import ReportContext
from agenteval.statistics.sequential import largest_e_value, place, sequential_test
from agenteval.wire.comparison import ComparisonReport
from tests.support.compared import RESULTS, compare_results, compare_trials, result_row, trials_row

WEIGHTED = CompareSettings("weighted", RESULTS.default_weights)


def results(label: str, scores: list[float], **fields: Any) -> RunRows:
    rows = [result_row(score=score, passed=score >= 0.5, **fields) for score in scores]
    return RunRows(label, RowTable({f"p{number}": row for number, row in enumerate(rows)}))


def trials(label: str, *passed: int, k: int) -> RunRows:
    rows = [trials_row(c, k) for c in passed]
    return RunRows(label, RowTable({f"p{number}": row for number, row in enumerate(rows)}))


def compare(*runs: RunRows) -> ComparisonReport:
    return compare_results(runs, WEIGHTED)


def test_passes_decide_and_scores_have_a_sentence_of_their_own() -> None:
    """100% against 77.5% passed with p = .004 is not "no difference shown", whatever the scores say."""
    a, b = results("a", [0.6] * 40), results("b", [0.63] * 31 + [0.49] * 9)
    [pair] = compare(a, b).statistics.pairs
    assert (pair.pass_rate.better, pair.better, pair.verdict) == ("a", "a", "a better")
    assert pair.mcnemar and pair.mcnemar.p == pytest.approx(2**-9)
    assert pair.sentences[0] == "Pass rate: 100.0% → 77.5%, -22.5 points (95% interval -37.5 to -11.8), p 0.002."
    assert pair.sentences[1].startswith("Score: 0.600 → 0.599, -0.1 points (95% interval -")


def test_milliseconds_win_prompts_by_weight_but_not_by_grade() -> None:
    report = compare(results("a", [1.0] * 14, duration=10.0), results("b", [1.0] * 14, duration=9000.0))
    [pairwise], [quality] = report.head_to_head.pairwise, report.head_to_head.quality or []
    assert (pairwise.a_wins, pairwise.b_wins, pairwise.ties) == (14, 0, 0)
    assert (quality.a_wins, quality.b_wins, quality.ties) == (0, 0, 14)
    prompt = report.head_to_head.prompts[0]
    assert (prompt.winner, prompt.quality_winner) == ("a", None)
    assert (prompt.scores["a"] or 0) > (prompt.scores["b"] or 0), "the weighted score stays in the report"


def test_several_runs_are_adjusted_for_each_other() -> None:
    base, worse = [1.0] * 20, [0.0] * 6 + [1.0] * 14  # mid-p 2 * 2**-6 / 2 = 0.0156 alone
    alone = compare(results("a", base), results("b", worse)).statistics.pairs[0]
    assert alone.better == "a"
    assert alone.adjusted_p == pytest.approx(0.015625)
    runs = [results(label, base) for label in ("a", "c", "d", "e")]
    pairs = compare(runs[0], results("b", worse), *runs[1:]).statistics.pairs
    assert {pair.better for pair in pairs} == {None}
    assert pairs[0].pass_rate.adjusted_p == pytest.approx(10 * 0.015625)


def test_scores_of_zero_and_one_are_tested_once() -> None:
    five = [0.2] * 5 + [0.9] * 25
    [pair] = compare(results("a", [0.9] * 30), results("b", five)).statistics.pairs
    assert pair.pass_rate.p == pair.pass_rate.adjusted_p == pair.adjusted_p == pytest.approx(0.03125)


def test_no_interval_of_a_report_has_width_zero() -> None:
    def walk(value: Any) -> list[float]:
        if isinstance(value, dict):
            own = [value["high"] - value["low"]] if {"low", "high", "method"} <= value.keys() else []
            return own + [width for part in value.values() for width in walk(part)]
        return [width for part in value for width in walk(part)] if isinstance(value, list) else []

    for n in (1, 2, 5, 30):
        same = {"duration": 1000.0, "token_values": (10.0,), "cost_values": (0.1,), "categories": ("x",)}
        widths = walk(
            msgspec.to_builtins(
                compare(results("a", [1.0] * n, **same), results("b", [1.0] * n, **same)), enc_hook=list
            )
        )
        assert len(widths) >= 8
        assert min(widths) > 1 / (4 * n)


def test_pass_exp_is_over_the_prompts_with_so_many_trials() -> None:
    short = trials("b", 4, 4, 3, k=4)
    short.rows["p2"] = replaced(short.rows["p2"], graded=2, passed=2)
    report = compare_trials([trials("a", 4, 3, 4, k=4), short], CompareSettings("custom"))
    assert report.reliability["b"].pass_exp_n == {"1": 3, "2": 3, "3": 2, "4": 2}
    every = report.statistics.pairs[0].pass_exp
    assert every is not None
    assert (every.k, every.n, every.mean_a, every.mean_b) == (4, 2, 0.5, 1.0)


def test_an_unchanged_agent_with_one_failure_more_is_no_alarm() -> None:
    before, now = trials("before", *[5] * 100, k=5), trials("now", *[5] * 99, 4, k=5)
    report = compare_trials([before, now], CompareSettings("custom"))
    assert gate_reasons(report, GateSettings()) == []
    strict = compare_trials([before, now], CompareSettings("custom", margin=0.001))
    assert len(gate_reasons(strict, GateSettings(proof=True))) == 1
    worse = [before, trials("now", *[5] * 80, *[3] * 20, k=5)]
    for on, figures in (("passes", "pass rate 100.0% → 92.0%"), ("pass^K", "pass^5 100.0% → 80.0%")):
        [reason] = gate_reasons(compare_trials(worse, CompareSettings("custom", on=on)), GateSettings())
        assert reason.startswith(f"now is worse than before: {figures}, ")


# --- one decision -------------------------------------------------------------------------------


def drawn(label: str, draw: random.Random, shift: float) -> RunRows:
    """Rubric scores in steps of a quarter, which pass from a half up; some prompts are missing, some ungraded."""
    rows = {}
    for number in range(30):
        level = min(1.0, max(0.0, round(4 * draw.gauss(0.6 + shift, 0.3)) / 4))
        if draw.random() > 0.05:
            rows[f"p{number}"] = result_row(score=level if draw.random() > 0.02 else None, passed=level >= 0.5)
    return RunRows(label, RowTable(rows))


def test_intervals_are_adjusted_where_verdicts_are() -> None:
    """Of eight runs, 28 pairs: an interval that excludes 0 beside "no difference shown" would be a contradiction."""
    draw = random.Random(3)
    runs = [drawn(f"r{number}", draw, 0.0) for number in range(8)]
    pairs = compare(*runs).statistics.pairs
    assert {pair.better for pair in pairs} == {None}
    assert all(pair.interval and pair.interval.low <= 0 <= pair.interval.high for pair in pairs)
    assert any((pair.p or 1) < 0.05 for pair in pairs), "without the adjustment one would be shown"
    assert {round(pair.interval.level, 4) for pair in pairs if pair.interval} == {round(1 - 0.05 / 28, 4)}
    assert all(pair.sentences[0].endswith(" adjusted.") for pair in pairs)


def test_places_are_those_that_the_verdicts_leave_open() -> None:
    runs = [results("a", [1.0] * 30), results("b", [1.0] * 29 + [0.0]), results("c", [0.0] * 30)]
    report = compare(*runs)
    assert {label: found.rank for label, found in report.statistics.runs.items()} == {
        "a": (1, 2),
        "b": (1, 2),
        "c": (3, 3),
    }
    assert compare(*runs[:2]).statistics.runs["a"].rank is None


def test_a_prompt_that_a_run_lacks_is_not_passed_in_a_gate() -> None:
    """An agent that dies without a record on 20% of prompts."""
    before, now = results("before", [1.0] * 40), results("now", [1.0] * 40)
    for number in range(8):
        del now.rows[f"p{number}"]
    [pair] = compare(before, now).statistics.pairs
    assert (pair.better, pair.n) == (None, 32)
    report = compare_results([before, now], WEIGHTED._replace(missing_fail=True))
    [pair] = report.statistics.pairs
    assert (pair.better, pair.n, pair.mean_b, len(pair.flips.only_a)) == ("before", 40, 0.8, 8)
    assert "Missing: 8 prompts that now lacks count as not passed." in pair.sentences
    assert report.meta.counted_as_failed == {"now": [f"p{number}" for number in range(8)]}
    assert report.statistics.runs["now"].graded_prompts == 32, "the run itself is what its file has"


def test_what_a_pass_costs_and_which_prompts_tell_nothing() -> None:
    a = results("a", [1.0] * 10 + [0.0] * 10, cost_values=(0.5,))
    b = results("b", [1.0] * 5 + [0.0] * 15, cost_values=(0.5,))
    report = compare_results([a, b], WEIGHTED._replace(prompts=True))
    assert report.usage and (report.usage["a"].cost_of_pass, report.usage["b"].cost_of_pass) == (1.0, 2.0)
    found = report.prompts
    assert found and len(found.always_pass) == 5 and len(found.never_pass) == 10
    assert [(one.id, one.pass_rate, one.information) for one in found.prompts] == [
        (f"p{number}", 0.5, 1.0) for number in range(5, 10)
    ]
    assert dropped(found).startswith("Consider dropping 15 prompts that cannot tell the runs apart (never ")
    text = b"".join(table.render(report, ReportContext())).decode()
    assert "Consider dropping 15 prompts" in text and "COST OF A PASS" in text


@pytest.mark.parametrize(
    ("passes", "margin", "better", "reason"),
    [
        (False, None, "before", "now is worse than before: "),
        (True, 0.3, None, ""),
        (True, None, None, "now cannot be compared with before: only 24 of the 80 prompts"),  # broken off
    ],
)
def test_a_run_that_was_stopped_is_judged_by_its_rule(
    passes: bool, margin: float | None, better: str | None, reason: str
) -> None:
    before = results("before", [1.0] * 80)
    first = sorted(before.rows, key=place)[:24]
    rows = {id: result_row(score=float(passes), passed=passes) for id in first}
    now = RunRows("now", RowTable(rows), has_stop_rule=True, stop_margin=margin)
    report = compare_results([before, now], WEIGHTED._replace(missing_fail=True))
    [pair] = report.statistics.pairs
    assert (pair.n, pair.better, pair.stopped) == (24, better, not passes or margin is not None)
    assert ("Stopped: early: the direction is known, but the size is overstated." in pair.sentences) == (not passes)
    assert pair.interval and pair.interval.method == "betting"
    reasons = gate_reasons(report, GateSettings())
    assert [found[: len(reason)] for found in reasons] == ([reason] if reason else [])
    assert any("stopped early" in remark for remark in remarks(report)) == (not passes)


def test_the_interval_of_a_stopped_run_is_what_its_test_does_not_reject() -> None:
    found = sequential_test([-1.0] * 9 + [0.0] * 4)
    assert found.p == pytest.approx(1 / largest_e_value([-1.0] * 9 + [0.0] * 4, 0.0))
    assert found.interval and found.interval.high < 0
    assert sequential_test([-1.0] * 5).p == 1.0, "five prompts end no run"
