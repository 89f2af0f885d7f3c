"""The worked examples of docs/statistics.md on judges, planning and stopping early, recomputed."""

from __future__ import annotations

import re

import pytest

from agenteval.comparison.plan import make_plan
from agenteval.comparison.preference import PromptRanking, preference_of
from agenteval.review.agreement import (
    JudgedRun,
    LabelledAnswer,
    LabelledVerdicts,
    agreement_of,
    corrected_difference,
    corrected_pass_rate,
)
from agenteval.statistics.intervals import wilson
from agenteval.statistics.paired import sign_test
from agenteval.statistics.power import Question
from agenteval.statistics.sequential import BettingTest
from agenteval.wire.calibration import AgreementTable, VerdictCounts
from tests.support.tool import ROOT

PAGE = " ".join((ROOT / "docs" / "statistics.md").read_text().split())


def example(title: str) -> str:
    """The text from the heading to the end of its example."""
    start = PAGE.index(f"### {title}")
    found = re.search(r"Example.*?(?= ##)", PAGE[start:])
    assert found, title
    return found[0]


def labels() -> LabelledVerdicts:
    found = LabelledVerdicts()
    found.passes = AgreementTable(true_pass=30, false_pass=10)
    found.failures = AgreementTable(false_fail=4, true_fail=36)
    return found


RECORDS = VerdictCounts(passed=800, failed=200)


def test_corrected_pass_rate() -> None:
    found = corrected_pass_rate(labels(), RECORDS)
    assert found.interval is not None
    shown = f"**{found.corrected:.3f}**, 95% interval {found.interval[0]:.3f} to {found.interval[1]:.3f}"
    assert shown in example("Pass rate as a person would grade it")


def test_corrected_difference() -> None:
    new = [LabelledAnswer(f"n{at}", True, at < 20) for at in range(40)]
    old = [LabelledAnswer(f"o{at}", at < 20, at < 20) for at in range(40)]
    ids = [str(at) for at in range(100)]
    verdicts = [VerdictCounts(passed=1) if at < 50 else VerdictCounts(failed=1) for at in range(100)]
    found = corrected_difference(
        JudgedRun(dict.fromkeys(ids, VerdictCounts(passed=1)), new),
        JudgedRun(dict(zip(ids, verdicts, strict=True)), old),
    )
    assert found is not None and found.interval is not None
    low, high = found.interval
    text = example("The difference of two runs as a person would see it")
    assert f"= **{found.corrected:.3f}**, interval **{low:.3f}** to **{high:.3f}**" in text
    assert f"The grader said {found.recorded:.3f}" in text
    low, high = wilson(0.9, 20)
    assert f"**{low * 100:.1f}** to **{high * 100:.1f}** %" in example("How well a person agrees with their own labels")


def test_agreement() -> None:
    found = agreement_of(labels(), RECORDS)
    interval = found.intervals.failure_recall
    assert interval is not None
    text = example("Agreement, precision and recall")
    assert f"**{found.agreement:.3f}**" in text
    assert f"**{found.failure_recall:.3f}**, interval {interval[0]:.3f} to {interval[1]:.3f}" in text
    beyond_chance = example("Cohen's kappa and Gwet's AC1")
    assert f"**{found.kappa:.3f}**" in beyond_chance and f"**{found.ac1:.3f}**" in beyond_chance


def test_preferences() -> None:
    assert f"p = **{sign_test(31, 9):.4f}**" in example("Which run a comparison grader prefers")
    assert f"p = **{sign_test(8, 1):.3f}**" in example("Position bias")


def test_strengths() -> None:
    text = example("Strengths of three runs or more")
    counts = {order: int(count) for order, count in re.findall(r"\b([abc]{3}) (\d+)", text)}
    assert sum(counts.values()) == 30
    rankings = {
        f"{order}{n}": PromptRanking({run: float(place) for place, run in enumerate(order, 1)})
        for order, count in counts.items()
        for n in range(count)
    }
    strengths = preference_of(["a", "b", "c"], rankings).strengths
    assert strengths is not None
    a, b, c = strengths
    assert f"strengths **{a.strength:.2f}**, **{b.strength:.2f}** and **{c.strength:.2f}**" in text
    assert f"{a.interval[0]:.2f} to {a.interval[1]:.2f}" in text


def test_planning() -> None:
    plan = make_plan(Question(0.1, 0.8, 0.8))
    prompts = {option.k: option.prompts for option in plan.options}
    text = example("Prompts needed")
    assert (
        f"B = W = (0.8 · 0.2 + 0.7 · 0.3) / 4 = {plan.variance.within:.4f}, D = {plan.variance.difference:.3f}" in text
    )
    assert f"**{prompts[1]}** prompts" in text and f"with 3 trials **{prompts[3]}** prompts" in text
    assert f"with 10 trials {prompts[10]} " in text and f"fewer than **{plan.least_prompts}** prompts" in text


def test_stopping() -> None:
    test = BettingTest(0.0, -1.0, 1.0)
    values = []
    for _ in range(9):
        test.add(-1.0)
        values.append(test.e_value)
    assert values[-2] < 20 <= values[-1] == pytest.approx(35.6, abs=0.05)
    text = example("Stopping when the answer is known")
    assert f"{values[-2]:.1f} after 8 of them and **{values[-1]:.1f}** after 9" in text
