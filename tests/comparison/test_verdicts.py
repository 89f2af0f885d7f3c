"""Verdicts, ties and adjusted tests of a whole report, in process."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from agenteval.comparison.comparison import CompareSettings
from agenteval.comparison.rows import RunRows
from agenteval.comparison.verdicts import GateSettings, gate_reasons
from agenteval.wire.comparison import ComparisonReport
from tests.support.compared import RESULTS, compare_results, compare_trials, result_row, trials_row

WEIGHTED = CompareSettings("weighted", RESULTS.default_weights)


def results(label: str, scores: list[float], **fields: Any) -> RunRows:
    rows = [result_row(score=score, passed=score >= 0.5, **fields) for score in scores]
    return RunRows(label, {f"p{number}": row for number, row in enumerate(rows)})


def trials(label: str, *passed: int, k: int) -> RunRows:
    rows = [trials_row(c, k) for c in passed]
    return RunRows(label, {f"p{number}": row for number, row in enumerate(rows)})


def compare(*runs: RunRows) -> ComparisonReport:
    return compare_results(runs, WEIGHTED)


def test_passes_come_first_and_scores_have_a_sentence_of_their_own() -> None:
    """100 % against 77.5 % passed with p = .004 is not "no difference shown", whatever the scores say."""
    a, b = results("a", [0.6] * 40), results("b", [0.63] * 31 + [0.49] * 9)
    [pair] = compare(a, b).statistics.pairs
    assert (pair.pass_rate.better, pair.better, pair.verdict) == ("a", "a", "a better")
    assert pair.mcnemar and pair.mcnemar.p == pytest.approx(2**-9)
    assert pair.sentences[0].startswith(
        "b passes less often than a: a 100.0%, then b 77.5% of 40 prompts graded in both;"
    )
    assert pair.sentences[1].startswith("No difference shown in scores: mean 0.600, then 0.599 on 40 prompts; ")


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
        widths = walk(msgspec.to_builtins(compare(results("a", [1.0] * n, **same), results("b", [1.0] * n, **same))))
        assert len(widths) >= 8
        assert min(widths) > 1 / (4 * n)


def test_pass_exp_is_over_the_prompts_with_so_many_trials() -> None:
    short = trials("b", 4, 4, 3, k=4)
    short.rows["p2"] = msgspec.structs.replace(short.rows["p2"], graded=2, passed=2)
    report = compare_trials([trials("a", 4, 3, 4, k=4), short], CompareSettings("custom"))
    assert report.reliability["b"].pass_exp_n == {"1": 3, "2": 3, "3": 2, "4": 2}
    every = report.statistics.pairs[0].pass_exp
    assert every is not None
    assert (every.k, every.n, every.mean_a, every.mean_b) == (4, 2, 0.5, 1.0)


def test_an_unchanged_agent_with_one_failure_more_is_no_alarm() -> None:
    before, now = trials("before", *[5] * 100, k=5), trials("now", *[5] * 99, 4, k=5)
    report = compare_trials([before, now], CompareSettings("custom"))
    assert gate_reasons(report, GateSettings()) == []
    assert len(gate_reasons(report, GateSettings(proof=True, margin=0.001))) == 2
    worse = compare_trials([before, trials("now", *[5] * 80, *[3] * 20, k=5)], CompareSettings("custom"))
    reasons = gate_reasons(worse, GateSettings())
    assert [reason.partition(":")[2].partition(" on ")[0] for reason in reasons] == [
        " pass rate 92.0% against 100.0%",
        " pass^5 80.0% against 100.0%",
    ]
