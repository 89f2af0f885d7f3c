"""The ranking of three runs or more: order, places, the front of quality and cost, and prompts, the hardest first."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agenteval.comparison.ranking import beats, information
from agenteval.comparison.verdicts import ranking_headline
from agenteval.wire.comparison import Front, RankedRun
from tests.support.tool import Record, run, write


def record(id: str, passed: bool | None, cost: float | None = None, **fields: Any) -> Record:
    """A result; None is one whose grader erred."""
    timing = {"total": 1000, **({} if cost is None else {"costUsd": cost})}
    verdict: Record = (
        {"graderError": "it broke"} if passed is None else {"score": {"pass": passed, "score": float(passed)}}
    )
    return {"id": id, "input": "x", "output": "y", "timing": timing, **verdict, **fields}


def write_run(path: Path, passes: str, cost: float | None = None) -> Path:
    """A run with a letter per prompt: p passes, f does not, g grader error, a agent failed, space missing."""
    rows = []
    for at, letter in enumerate(passes):
        if letter == "a":
            rows.append(record(f"p{at}", False, cost, errors=["it crashed"]))
        elif letter != " ":
            rows.append(record(f"p{at}", {"p": True, "f": False, "g": None}[letter], cost))
    return write(path, *rows)


def compared(*args: object, cwd: Path) -> Record:
    done = run("ae-compare", *args, cwd=cwd)
    assert done.code in (0, 1), done.stderr
    report: Record = json.loads(done.stdout)
    return report


@pytest.fixture
def four(tmp_path: Path) -> Path:
    write_run(tmp_path / "low.jsonl", "f" * 19 + "p", 0.01)
    write_run(tmp_path / "best.jsonl", "p" * 18 + "ff", 0.5)
    write_run(tmp_path / "dear.jsonl", "p" * 15 + "fgaf ", 0.9)
    write_run(tmp_path / "good.jsonl", "p" * 16 + "ffff", 0.2)
    return tmp_path


def test_order_places_and_front(four: Path) -> None:
    report = compared("low.jsonl", "best.jsonl", "dear.jsonl", "good.jsonl", cwd=four)
    ranking = report["ranking"]
    assert [(one["run"], one["rank"]) for one in ranking["runs"]] == [
        ("best", [1, 3]),
        ("dear", [1, 3]),
        ("good", [1, 3]),
        ("low", [4, 4]),
    ]
    first = ranking["runs"][0]
    assert (first["value"], first["n"], first["p50"], first["cost"]) == (0.9, 20, 1000, 0.5)
    assert first["interval"] == report["statistics"]["runs"]["best"]["interval"]
    assert first["costOfPass"] == pytest.approx(10 / 18) and not first["costEstimated"]
    assert ranking["front"]["against"] == "cost" and ranking["front"]["runs"] == ["low", "good", "best"]
    assert ranking["measure"] == "Pass rate"
    assert ranking["headline"] == (
        "best, dear and good lead: none is shown to be better than another of them; low is last; "
        "dear is no better and no cheaper than some other run"
    )
    assert "ranking" not in compared("low.jsonl", "best.jsonl", cwd=four)


def test_prompts_are_those_of_all_runs_the_hardest_first(four: Path) -> None:
    prompts = compared("low.jsonl", "best.jsonl", "dear.jsonl", "good.jsonl", cwd=four)["ranking"]["prompts"]
    assert len(prompts) == 20
    rates = [prompt["passRate"] for prompt in prompts]
    assert rates == sorted(rates)
    found = {prompt["id"]: prompt for prompt in prompts}
    assert found["p16"]["statuses"] == {"best": "pass", "dear": "grader-error", "good": "fail", "low": "fail"}
    assert found["p17"]["statuses"]["dear"] == "error" and found["p19"]["statuses"]["dear"] == "missing"
    assert found["p16"]["passRate"] == pytest.approx(1 / 3) and "rates" not in found["p16"]
    assert found["p0"]["information"] == pytest.approx(4 * 0.25 * 0.75)


def test_a_pair_does_not_depend_on_a_third_run(tmp_path: Path) -> None:
    write_run(tmp_path / "a.jsonl", "p" * 12 + "f" * 8)
    write_run(tmp_path / "b.jsonl", "f" * 6 + "p" * 14)
    write_run(tmp_path / "c.jsonl", "g" * 10 + " " * 5 + "ppppp")
    alone = compared("a.jsonl", "b.jsonl", cwd=tmp_path)["statistics"]["pairs"][0]
    among = compared("a.jsonl", "b.jsonl", "c.jsonl", cwd=tmp_path)["statistics"]["pairs"][0]
    assert among["flips"] == alone["flips"] and len(alone["flips"]["onlyA"]) == 6
    same = ("n", "meanA", "meanB", "change", "p")
    assert [among[field] for field in same] == [alone[field] for field in same]


def trials(id: str, passes: int, k: int = 3) -> Record:
    entries = [{"trialNum": at + 1, "output": "", "pass": at < passes, "score": at / 4} for at in range(k)]
    return {"id": id, "input": "x", "k": k, "trials": entries}


@pytest.mark.parametrize(("on", "measure", "order"), [("passes", "Pass rate", "abc"), ("pass^3", "pass^3", "bca")])
def test_the_measure_that_decides_ranks(on: str, measure: str, order: str, tmp_path: Path) -> None:
    passes = {"a": [2] * 10, "b": [3] * 6 + [0] * 4, "c": [0] * 10}
    for name, counts in passes.items():
        write(tmp_path / f"{name}.jsonl", *(trials(f"p{at}", count) for at, count in enumerate(counts)))
    ranking = compared("c.jsonl", "a.jsonl", "b.jsonl", "--on", on, cwd=tmp_path)["ranking"]
    assert ranking["measure"] == measure and [one["run"] for one in ranking["runs"]] == list(order)
    assert ranking["runs"][0]["value"] == pytest.approx({"passes": 2 / 3, "pass^3": 0.6}[on])
    first = ranking["prompts"][0]
    assert first["statuses"]["a"] == "flaky" and first["rates"] == pytest.approx({"a": 2 / 3, "b": 0.0, "c": 0.0})
    assert ranking["front"] is None


def test_without_grades_the_comparison_grader_ranks(tmp_path: Path) -> None:
    for name in "abc":
        write(tmp_path / f"{name}.jsonl", *({"id": f"p{at}", "input": "x", "output": name} for at in range(12)))
    grader = tmp_path / "grader.py"
    grader.write_text(
        "def grade(prompt):\n"
        "    order = sorted(prompt['runs'], reverse=True)\n"
        "    return {'rankings': [{'run': run, 'rank': at} for at, run in enumerate(order, 1)]}\n"
    )
    report = compared("a.jsonl", "b.jsonl", "c.jsonl", "-g", grader, cwd=tmp_path)
    assert [(one["run"], one["rank"]) for one in report["ranking"]["runs"]] == [
        ("c", [1, 1]),
        ("b", [2, 2]),
        ("a", [3, 3]),
    ]
    assert report["ranking"]["headline"] == "c is shown to be better than every other run; a is last"
    table = (
        run("ae-compare", "a.jsonl", "b.jsonl", "c.jsonl", "-g", grader, "-f", "table", cwd=tmp_path).expect(0).stdout
    )
    assert "–*" in table and "hardest" not in table


def ranked(name: str, rank: tuple[int, int]) -> RankedRun:
    return RankedRun(name, rank, 0.5, None, 10, None, False, None, None)


@pytest.mark.parametrize(
    ("ranks", "headline"),
    [
        ({"a": (1, 3), "b": (1, 3), "c": (1, 3)}, "no run is shown to be better than another"),
        ({"a": (1, 1), "b": (2, 3), "c": (2, 3)}, "a is shown to be better than every other run"),
        (
            {"a": (1, 2), "b": (2, 3), "c": (2, 3), "d": (2, 4)},
            "a leads: no other run is shown to be better, and it is shown to be better than 2 of 3",
        ),
    ],
)
def test_headlines(ranks: dict[str, tuple[int, int]], headline: str) -> None:
    assert ranking_headline([ranked(name, rank) for name, rank in ranks.items()], None) == headline


def test_who_beats_whom() -> None:
    values, takes = {"a": 0.5, "b": 0.5, "c": 0.6}, {"a": 1.0, "b": 1.0, "c": 2.0}
    assert not beats("a", "b", values, takes) and not beats("c", "a", values, takes)
    assert beats("a", "b", values, takes | {"b": 1.1}) and beats("c", "a", values, takes | {"c": 1.0})
    front = Front(against="tokens", amounts={"a": 1.0, "b": 2.0}, runs=["a"])
    assert ranking_headline([ranked("a", (1, 2)), ranked("b", (1, 2))], front).endswith(
        "; b is no better and no cheaper in tokens than some other run"
    )


def test_information() -> None:
    assert information([1.0, 0.0]) == 1.0 and information([1.0, 1.0]) == 0.0 and information([1.0]) is None
