"""Conditions on figures, whether they hold, and the lines that say so."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from agenteval.reports.figures import UNKNOWN
from agenteval.reports.gate.figures import Figure, RunFigures
from agenteval.reports.markup import inline, table
from agenteval.reports.run_summary import grade_facts, run_facts
from agenteval.streams.text import one_line

PASS, FAIL = "pass", "FAIL"
NAME_SHOWN = 60
ROUNDING = 1e-9  # a mean of ten scores of 0.7 is 0.6999999999999998


class Threshold(NamedTuple):
    """A figure, and the least or most that it may be."""

    name: str
    limit: float
    least: bool

    @property
    def text(self) -> str:
        """The condition as the user would write it."""
        return f"{self.name} {'>=' if self.least else '<='} {self.limit:g}"


class Checked(NamedTuple):
    """A condition, the figure it is on, and whether it holds; `group` is a category, "" for the whole run."""

    group: str
    condition: Threshold
    figure: Figure
    holds: bool
    bound: float | None = None  # of the interval, if that is what is compared

    @property
    def value(self) -> str:
        """The figure as text."""
        return UNKNOWN if self.figure.value is None else f"{self.figure.value:.6g}"


def check_all(run: RunFigures, conditions: Sequence[Threshold], *, confident: bool, group: str = "") -> list[Checked]:
    """Whether each condition holds; one on a figure that is not known does not."""
    return [_check(run.figure(condition.name), condition, confident, group) for condition in conditions]


def _check(figure: Figure, condition: Threshold, confident: bool, group: str) -> Checked:
    value, bound = figure.value, None
    if value is None:
        return Checked(group, condition, figure, False)
    if confident and figure.estimate:
        if figure.interval is None:
            return Checked(group, condition, figure._replace(over=f"{figure.over}, too few for an interval"), False)
        value = bound = figure.interval[0 if condition.least else 1]
    slack = ROUNDING * max(1.0, abs(condition.limit))
    holds = value >= condition.limit - slack if condition.least else value <= condition.limit + slack
    return Checked(group, condition, figure, holds, bound)


# --- as text ------------------------------------------------------------------------------------


def line(checked: Checked) -> str:
    """One condition on one line."""
    figure, condition = checked.figure, checked.condition
    group = f" [{one_line(checked.group, NAME_SHOWN)[:NAME_SHOWN]}]" if checked.group else ""
    if figure.value is None:
        return f"{FAIL}  {condition.text}{group}: not known: {figure.over}"
    text = f"{PASS if checked.holds else FAIL}  {condition.text}{group}: {checked.value} ({figure.over}"
    if figure.interval is not None:
        low, high = figure.interval
        text += f"; 95 % interval {low:.6g} to {high:.6g}"
    if checked.bound is not None:
        text += f", {'lower' if condition.least else 'upper'} bound counts"
    return text + ")"


def job_summary(run: RunFigures, checks: Sequence[Checked], title: str, passed: bool) -> str:
    """The outcome as markdown, for the summary of a CI job."""
    rows = [
        [
            "✅" if found.holds else "❌",
            f"`{found.condition.text}`" + (f" ({inline(found.group)})" if found.group else ""),
            found.value,
            "" if found.figure.interval is None else " to ".join(f"{end:.6g}" for end in found.figure.interval),
            inline(found.figure.over),
        ]
        for found in checks
    ]
    heading = f"### {inline(title)}: gate {'passed' if passed else 'not passed'}"
    facts = [f"- **{name}**: {inline(value)}" for name, value in grade_facts(run.summary) + run_facts(run.summary)]
    header = ["", "Condition", "Value", "95% interval", "Over"]
    return "\n".join([heading, "", *table(header, rows, names=2), "", *facts, "", ""])
