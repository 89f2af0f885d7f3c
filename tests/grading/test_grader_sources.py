"""ae-grader-sources as the process it is."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.tool import Record, jsonl, run


def graded(record: Record, *options: str) -> Record:
    (answer,) = run("ae-grader-sources", *options, stdin=jsonl(record)).expect(0, stderr="").records
    return answer


def answering(*titles: str, **more: Any) -> Record:
    """A record of the Wikipedia agent that cites these titles."""
    final = {"answer": "x", "confidence": 0.5, "sources_used": titles, "reasoning": "y"}
    return {"id": "a", "input": "?", "output": json.dumps(final), "trajectory": [], **more}


def test_outcome_has_every_figure() -> None:
    answer = graded(answering("Marketing", "Nudge_theory", expected_sources=["Nudge theory", "Loss aversion"]))
    assert answer == {
        "pass": True,
        "score": 0.5,
        "reasoning": 'found "Nudge theory" at rank 2 among 2 sources; did not find "Loss aversion"',
        "outcome": {
            "hit_rate": 1.0,
            "mrr": 0.5,
            "precision": 0.5,
            "recall": 0.5,
            "ndcg": pytest.approx(0.38685, abs=1e-5),
            "found": ["Nudge theory"],
            "expected": ["Nudge theory", "Loss aversion"],
            "sources": ["Marketing", "Nudge_theory"],
            "ranks": {"Nudge theory": 2, "Loss aversion": None},
            "k": None,
        },
    }


@pytest.mark.parametrize(
    "options, titles, passes, score",
    [
        ("", ["X", "A"], True, 0.5),
        ("", ["X"], False, 0),
        ("", [], False, 0),
        ("--k 1", ["X", "A"], False, 0),
        ("--k 1", ["B", "X"], True, 1),
        ("--min-recall 1", ["A", "X"], False, 1),
        ("--min-recall 1", ["A", "B"], True, 1),
        ("--min-recall 0.5", ["X", "B"], True, 0.5),
        ("--min-recall 0", ["X"], False, 0),
        ("--from trajectory", ["A"], False, 0),
    ],
)
def test_pass_is_a_hit_and_score_the_reciprocal_rank(
    options: str, titles: list[str], passes: bool, score: float
) -> None:
    answer = graded(answering(*titles, expected_sources=["A", "B"]), *options.split())
    assert (answer["pass"], answer["score"]) == (passes, score), answer
    assert answer["outcome"]["mrr"] == score


def test_recall_too_low_is_said() -> None:
    answer = graded(answering("A", metadata={"expected_sources": ["A", "B"]}), "--min-recall", "0.8")
    assert answer["reasoning"].endswith('did not find "B"; recall 0.50 is below 0.8'), answer


def test_the_redirect_that_the_agent_met_counts() -> None:
    step = {"type": "tool_call", "name": "wikipedia_get_page", "status": "completed"}
    read = [{**step, "input": {"title": "Nudging"}, "output": '{"title": "Nudge theory", "text": "…"}'}]
    record = answering("Nudging", expected_sources=["Nudge theory"])
    assert not graded(record)["pass"]
    assert graded({**record, "trajectory": read})["pass"]
    assert graded({**record, "trajectory": read}, "--from", "trajectory")["outcome"]["sources"] == ["Nudge theory"]
    assert not graded({**record, "trajectory": read}, "--from", "trajectory", "--page-tool", "other")["pass"]


def test_nothing_expected_is_an_error_not_a_pass() -> None:
    records = [answering("A"), answering("A", expected_sources=[]), answering("A", expected_sources="A")]
    records += [answering("A", expected_sources=7), {"id": "e", "expected_sources": "A", "trajectory": 7}]
    done = run("ae-grader-sources", stdin=jsonl(*records)).expect(1, stderr="")
    lost, none, good, wrong, odd = done.records
    assert "no expected sources" in lost["error"] and lost == none
    assert good["pass"]
    assert wrong == {"error": '"expected_sources" must be a list of titles'}
    assert set(odd) == {"error"}


def test_pass_rate_and_average_score_are_the_seeds_figures() -> None:
    """Over a file, the pass rate is the hit rate and the average score the MRR."""
    cited = [["A"], ["X", "A"], ["X"], ["X", "Y", "Z", "A"]]
    records = [{**answering(*titles, expected_sources=["A"]), "id": str(n)} for n, titles in enumerate(cited)]
    done = run("ae-grade", "-g", "ae-grader-sources", stdin=jsonl(*records)).expect(0, stderr="")
    assert [record["score"]["pass"] for record in done.records] == [True, True, False, True]
    assert [record["outcome"]["mrr"] for record in done.records] == [1, 0.5, 0, 0.25]


@pytest.mark.parametrize("options", ["--k 0", "--min-recall 1.5", "--min-recall nan", "--from nowhere"])
def test_options_that_make_no_sense(options: str) -> None:
    run("ae-grader-sources", *options.split(), stdin="").expect(2).says(options.split()[0])


def test_many_and_hostile_titles_do_not_flood_the_reasoning() -> None:
    wanted = [f"\x1b[2J{number}{'x' * 500}" for number in range(50)]
    answer = graded(answering("A", expected_sources=wanted))
    assert len(answer["reasoning"]) < 600 and "\x1b" not in answer["reasoning"]
    assert "and 45 more" in answer["reasoning"]
