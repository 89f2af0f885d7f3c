"""How many prompts and trials show a difference: the variances, the formula, and simulated comparisons."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path

import pytest

from agenteval.comparison.plan import make_plan
from agenteval.statistics.paired import compare_paired
from agenteval.statistics.power import (
    Goal,
    Passes,
    Pilot,
    Question,
    detectable,
    prompts_needed,
    variance_between,
    variance_within,
)
from bench.simulations.plan_check import Case, planned_prompts, share_shown
from tests.support.tool import Record, run, write


def pilot(*counts: tuple[int, int]) -> Pilot:
    return {str(n): Passes(*count) for n, count in enumerate(counts)}


def drawn(prompts: int, k: int, seed: int) -> tuple[Pilot, Pilot]:
    """Two runs; the rates of prompts are uniform, and those of the second run lower by up to 0.2."""
    draw = random.Random(seed)
    runs: tuple[dict[str, Passes], dict[str, Passes]] = ({}, {})
    for n in range(prompts):
        rate = draw.random()
        for at, p in enumerate((rate, max(0.0, rate - draw.choice((0.0, 0.2))))):
            runs[at][str(n)] = Passes(sum(draw.random() < p for _ in range(k)), k)
    return runs


# --- variances ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("found", "within", "between"),
    [
        (pilot((1, 1), (0, 1)), None, None),
        (pilot((2, 2), (0, 2)), 0.0, 0.5),
        (pilot((1, 2), (1, 2)), 0.5, 0.0),  # 2 / 1 * 1/4 each, and less spread than noise
        (pilot((3, 4), (1, 4)), 4 / 3 * 3 / 16, 0.125 - 0.25 / 4),
    ],
)
def test_variances_by_hand(found: Pilot, within: float | None, between: float | None) -> None:
    assert variance_within(found) == (None if within is None else pytest.approx(within))
    assert variance_between(found) == (None if between is None else pytest.approx(between))


def test_variances_of_a_large_pilot_are_the_true_ones() -> None:
    """Uniform rates: the variance between prompts is 1/12, within a prompt 1/6; of the differences about 0.1²."""
    first, second = drawn(4000, 3, seed=1)
    assert variance_between(first) == pytest.approx(1 / 12, abs=0.006)
    assert variance_within(first) == pytest.approx(1 / 6, abs=0.006)
    plan = make_plan(Question(0.05, 0.8), [first, second])
    assert plan.variance.difference == pytest.approx(0.009, abs=0.006)
    assert (plan.variance.share_source, plan.variance.correlation_source) == ("measured", "measured")
    alone = make_plan(Question(0.05, 0.8), [first])
    assert (alone.variance.share_source, alone.variance.correlation_source) == ("measured", "assumed")


# --- how many -----------------------------------------------------------------------------------


def test_prompts_by_the_t_test() -> None:
    """Half a standard deviation, 80%: 34 prompts, as any textbook of power analysis says (33.4)."""
    assert prompts_needed(0.05, 0.01, Goal()) == pytest.approx(34, abs=6), "the null's variance has the square, too"
    found = prompts_needed(0.05, 0.2, Goal(0.9))
    assert found == pytest.approx((1.959964 * 0.2**0.5 + 1.281552 * 0.1975**0.5) ** 2 / 0.05**2 + 1.92, abs=1)
    assert detectable(1000, lambda x: 0.2 + x * x, Goal()) == pytest.approx(2.802 * (0.2 / 998) ** 0.5, rel=0.01)
    assert detectable(2, lambda _x: 1.0, Goal()) is None


def test_what_so_many_prompts_show_by_signs() -> None:
    """q = (flips + 1) / (n + 2), x = (1.96 √(q + x) + 0.84 √(q + x - x²)) / √n, and at least 5 flips."""
    for n, flips in ((100, 4), (40, 12), (300, 60)):
        x = compare_paired([1.0] * (flips // 2) + [-1.0] * (flips - flips // 2) + [0.0] * (n - flips)).detectable
        q = (flips + 1) / (n + 2)
        assert x is not None
        assert x == pytest.approx((1.959964 * (q + x) ** 0.5 + 0.841621 * (q + x - x * x) ** 0.5) / n**0.5)
    assert compare_paired([0.0] * 1000).detectable == pytest.approx(0.0087, abs=1e-4), "from no flip at all, too"
    assert detectable(1000, lambda _x: 0.0, Goal(flip=1.0)) == pytest.approx(5 / 1000)
    stricter = compare_paired([1.0, -1.0] * 5 + [0.0] * 90, level=0.995).detectable
    assert stricter is not None and stricter > (compare_paired([1.0, -1.0] * 5 + [0.0] * 90).detectable or 0)


def test_the_same_pilots_show_the_same_in_both_tools() -> None:
    first = pilot(*[(1, 1)] * 30, *[(0, 1)] * 10, *[(1, 1)] * 60)
    second = pilot(*[(1, 1)] * 20, *[(0, 1)] * 5, *[(1, 1)] * 65, *[(0, 1)] * 10)
    plan = make_plan(Question(0.05, 0.8), [first, second], available=100)
    seen = compare_paired([first[id].rate - second[id].rate for id in first])
    assert plan.options[0].detectable == pytest.approx(seen.detectable)
    assert [option.k for option in plan.options] == [1], "one trial tells nothing about more"
    assert (plan.variance.share_source, plan.variance.correlation_source) == ("assumed", "assumed")
    low, high = plan.options[0].prompts_range or (0, 0)
    assert low < plan.options[0].prompts < high
    asked = make_plan(Question(0.05, 0.8), [first, second], trials=3)
    assert [option.k for option in asked.options] == [1, 3]
    assert "is assumed" in asked.advice[1] and "nothing about more trials" in plan.advice[1]


def test_for_the_same_number_of_runs_prompts_tell_more_than_trials() -> None:
    plan = make_plan(Question(0.05, 0.8, 0.8), trials=4)
    assert [option.k for option in plan.options] == [1, 2, 3, 4, 5, 10]
    runs = [option.runs for option in plan.options]
    assert runs == sorted(runs) and runs[0] < runs[-1]
    assert plan.least_prompts < plan.options[-1].prompts < plan.options[0].prompts
    assert any("More prompts, not more trials" in line for line in plan.advice)
    equal = make_plan(Question(0.05, 0.8, 0.8, share_between=0.0))
    assert equal.least_prompts < 10, "prompts that do not differ can be replaced by trials"


@pytest.mark.parametrize("case", [Case(0.8, 0.2, 0.5, 0.8, 1), Case(0.6, 0.2, 0.4, 0.7, 4)])
def test_the_planned_number_shows_the_difference(case: Case) -> None:
    assert 0.68 < share_shown(case, planned_prompts(case), 200, seed=7) < 0.91  # 0.8, give or take 4 deviations


# --- the tool -----------------------------------------------------------------------------------


def trial(id: str, *passes: bool | None) -> Record:
    entries = [{"trialNum": n, "output": "x", "pass": passed} for n, passed in enumerate(passes, 1)]
    return {"id": id, "input": "?", "k": len(passes), "trials": entries}


def test_from_assumed_rates() -> None:
    done = run("ae-plan", "--pass-rate", "0.8", "--detect", "0.1", "-k", "3").expect(0, stderr="")
    assert "run 85 prompts with 3 trials each: 255 runs of each agent." in " ".join(done.stdout.split())
    assert "More prompts, not more trials: 180 prompts with 1 trial" in " ".join(done.stdout.split())


def test_from_pilots(tmp_path: Path) -> None:
    passes = [(True, True), (True, False), (False, False), (None, True)]
    write(tmp_path / "old.jsonl", *(trial(f"p{n}", *given) for n, given in enumerate(passes)))
    failed = {"trialNum": 1, "output": "", "pass": True, "errors": ["timed out"]}
    rest = [{"id": "p9", "input": "?", "k": 1, "trials": [failed]}, trial("p0", True), {"id": "p1", "input": 1}]
    write(tmp_path / "new.jsonl", trial("p0", True, True), trial("p2", False, False), *rest)
    done = run("ae-plan", "old.jsonl", "new.jsonl", "-f", "json", cwd=tmp_path).expect(1)
    found = json.loads(done.stdout)
    assert found["rate"] == pytest.approx((1 + 0.5 + 0 + 1) / 4) and found["rateSource"] == "measured"
    first, second = found["pilots"]
    assert (first["prompts"], first["trials"], second["prompts"], second["trials"]) == (4, 7, 3, 5)
    assert second["passRate"] == pytest.approx(1 / 3), "a trial whose agent failed did not pass"
    assert "new.jsonl:4: " in done.stderr and "duplicate" in done.stderr
    assert found["available"] == 4 and "detectable" not in found["options"][0], "4 prompts show nothing"
    assert found["options"][0]["promptsRange"][0] < found["options"][0]["prompts"]


def test_results_as_a_pilot(tmp_path: Path) -> None:
    score = [{"score": {"pass": n % 4 > 0, "score": 1}} for n in range(40)]
    write(tmp_path / "r.jsonl", *({"id": str(n), "output": "x", **given} for n, given in enumerate(score)))
    found = json.loads(run("ae-plan", "r.jsonl", "-f", "json", cwd=tmp_path).expect(0, stderr="").stdout)
    assert found["rate"] == 0.75 and found["variance"]["shareSource"] == "assumed"
    own: dict[str, object] = {"pass": [], "trials": True}  # fields of the user's own
    write(tmp_path / "r.jsonl", *({"id": str(n), "output": "x", **own, **given} for n, given in enumerate(score)))
    assert json.loads(run("ae-plan", "r.jsonl", "-f", "json", cwd=tmp_path).expect(0, stderr="").stdout)["rate"] == 0.75
    assert math.isclose(found["variance"]["between"] + found["variance"]["within"], (0.1875 + 0.7 * 0.3) / 2)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ([], "stdin: no record is graded; grade them with ae-grade, or give --pass-rate"),
        (["--pass-rate", "0.5", "--detect", "0.6"], "smaller --detect"),
        (["empty", "--pass-rate", "0.5"], "no record is graded"),
        (["empty", "empty", "empty"], "at most two"),
        (["--pass-rate", "2"], "--pass-rate"),
    ],
)
def test_what_cannot_be_planned(args: list[str], message: str, tmp_path: Path) -> None:
    write(tmp_path / "empty", {"id": "a", "input": "?", "output": "x"})
    done = run("ae-plan", *args, cwd=tmp_path).expect(2)
    assert message in done.stderr and done.stdout == ""
