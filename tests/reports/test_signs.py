"""A difference has one sign in every form that people read: the later run minus the earlier one."""

from __future__ import annotations

import pytest

from agenteval.comparison.comparison import CompareSettings
from agenteval.comparison.row_table import RowTable
from agenteval.comparison.rows import RunRows
from agenteval.comparison.verdicts import GateSettings, gate_reasons, summary_line
from agenteval.reports.comparison import markdown, table
from agenteval.reports.comparison.html import difference_bar
from agenteval.reports.forms import ReportContext
from agenteval.wire.comparison import ComparisonReport
from tests.support.compared import RESULTS, compare_results, result_row


def compared(*passes: tuple[str, int]) -> ComparisonReport:
    """A report of runs that pass so many of 40 prompts."""
    runs = [
        RunRows(label, RowTable({f"p{n}": result_row(score=float(n < count), passed=n < count) for n in range(40)}))
        for label, count in passes
    ]
    return compare_results(runs, CompareSettings("weighted", weights=RESULTS.default_weights))


@pytest.mark.parametrize(("later", "points", "standing"), [(20, "-30.0", "worse"), (40, "+20.0", "better")])
def test_every_form_has_the_same_sign(later: int, points: str, standing: str) -> None:
    report = compared(("old", 32), ("new", later))
    rates = report.statistics.pairs[0].pass_rate
    assert rates.interval is not None
    assert (rates.mean_difference or 0) * float(points) < 0, "the JSON has A minus B"
    low, high = f"{-rates.interval.high * 100:+.1f}", f"{-rates.interval.low * 100:+.1f}"
    words = f"{points} points (95% interval {low} to {high})"
    assert words in report.statistics.pairs[0].sentences[0]
    assert words in summary_line(report)
    for reason in gate_reasons(report, GateSettings()):
        assert words in reason
    context = ReportContext()
    terminal = b"".join(table.render(report, context)).decode()
    assert " ".join(terminal.split()).count(words) == 2, "of passes and of scores"
    text = b"".join(markdown.render(report, context)).decode()
    value = f"{points} points"
    assert f"new is {standing} than old" in text and f"new is {standing} than old" in terminal
    [header] = (line for line in text.splitlines() if line.startswith("| A | B | Of |"))
    [cells] = (line for line in text.splitlines() if line.startswith("| old | new | pass rate |"))
    assert cells.split("|")[header.split("|").index(" B - A ")].strip() == value
    bar = difference_bar("Pass rate", "", rates)
    assert bar["shown"] == value and f"{value} " in cells
    assert [f"{bound * 100:+.1f}" for bound in bar["interval"]] == [low, high]


def test_a_tiny_p_value_is_never_zero() -> None:
    report = compared(("old", 40), ("new", 0))
    assert report.statistics.pairs[0].pass_rate.p == pytest.approx(2**-40)
    assert "p < 0.0001" in report.statistics.pairs[0].sentences[0]
