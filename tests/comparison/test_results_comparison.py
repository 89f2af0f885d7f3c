"""Runs and comparisons: the pure core of ae-compare, by table and by hand."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from agenteval.comparison import figures
from agenteval.comparison.comparison import CompareSettings, head_to_head, weighted_results
from agenteval.comparison.pairing import Scores, by_scores, winner
from agenteval.comparison.preference import PromptRanking, RecordIndex, by_rankings, rank_prompts, read_ranking
from agenteval.comparison.row_table import ComparedRow, RowTable
from agenteval.comparison.rows import (
    NamedRun,
    RowOptions,
    RunRows,
    RunSource,
    compared_row,
    distinct_labels,
    label_runs,
    named_run,
    read_run,
    read_runs,
)
from agenteval.errors import UserError
from agenteval.reports.comparison.markdown import render
from agenteval.reports.forms import ReportContext
from agenteval.streams.console import Console
from agenteval.wire.comparison import PairStatistics
from agenteval.wire.row import RowWithCalls
from agenteval.wire.validation import check
from tests.support.compared import RESULTS, compare_results, result_row

Json = dict[str, Any]

BY_SCORE = by_scores(RESULTS.plain_scores)
WEIGHTED = RESULTS.strategy(CompareSettings("weighted", RESULTS.default_weights))


def row(**fields: Any) -> ComparedRow:
    """The row of a result with these fields."""
    return compared_row(check({"id": "p", **fields}, RowWithCalls))


def run_with(*rows: ComparedRow, label: str = "run") -> RunRows:
    """A run with these rows."""
    return RunRows(label, RowTable({f"p{i}": row for i, row in enumerate(rows)}))


def run_of(label: str, scores: list[float | None]) -> RunRows:
    """A run with one row per score."""
    return run_with(*(result_row(score=score, passed=bool(score and score >= 0.5)) for score in scores), label=label)


def compared_pair(a: RunRows, b: RunRows) -> PairStatistics:
    """The paired analysis of two runs."""
    [found] = compare_results([a, b], CompareSettings("custom")).statistics.pairs
    return found


# --- labels -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("paths", "expected"),
    [
        (["a.jsonl", "b.jsonl"], ["a", "b"]),
        (["x/careful.graded.jsonl", "y/hasty.graded.jsonl"], ["careful", "hasty"]),
        (["careful.graded.jsonl", "hasty.jsonl"], ["careful.graded", "hasty"]),
        (["run.a.jsonl", "run.b.jsonl"], ["run.a", "run.b"]),
        (["a/results.jsonl", "b/results.jsonl"], ["a/results", "b/results"]),
        (["a/x/r.jsonl", "b/x/r.jsonl", "c.jsonl"], ["a/x/r", "b/x/r", "c"]),
        (["./r.jsonl", "/data/r.jsonl"], ["r", "data/r"]),
        (["r.jsonl", "r.jsonl"], ["r", "r#2"]),
        (["-", "v1.2"], ["stdin", "v1.2"]),
        (["a.graded.jsonl", "a.graded.jsonl"], ["a.graded", "a.graded#2"]),
        ([], []),
    ],
)
def test_distinct_labels(paths: list[str], expected: list[str]) -> None:
    assert distinct_labels(paths) == expected


def test_named_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("odd:name.jsonl").touch()
    assert named_run("odd:name.jsonl", labelled=False) == NamedRun(None, "odd:name.jsonl")
    assert named_run("odd:name.jsonl", labelled=True) == NamedRun("odd", "name.jsonl")
    assert named_run("new:b.jsonl", labelled=False) == NamedRun("new", "b.jsonl")
    assert named_run("b.jsonl", labelled=True) == NamedRun(None, "b.jsonl")
    for wrong in (":b.jsonl", "new:"):
        with pytest.raises(UserError, match="LABEL:PATH"):
            named_run(wrong, labelled=True)


def test_two_runs_of_one_label_are_refused() -> None:
    with pytest.raises(UserError, match="also called a"):
        label_runs([NamedRun("a", "x.jsonl"), NamedRun(None, "a.jsonl")])


# --- rows ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"metadata": {"timedOut": True}}, True),
        ({"metadata": {"timedOut": False}}, False),
        ({"errors": ["Prompt timed out after 60 s"]}, True),
        ({"errors": ["exit code 1", "Timeout: 60000 ms"]}, True),
        ({"errors": ["time-out"]}, True),
        ({"error": "TIME OUT"}, True),
        ({"errors": ["this time it ran out of memory"]}, False),
        ({}, False),
    ],
)
def test_timed_out(fields: Json, expected: bool) -> None:
    assert row(**fields).timed_out is expected


@pytest.mark.parametrize(
    ("timing", "expected"),
    [
        ({"total": 5}, 5),
        ({"start": 10, "end": 25}, 15),
        ({"total": 0}, 0),
        ({"total": -1}, None),
        ({"start": 10}, None),
        (None, None),
    ],
)
def test_duration(timing: Json | None, expected: float | None) -> None:
    assert row(timing=timing).duration == expected


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"metadata": {"trajectoryRichness": "minimal"}, "trajectory": [{"type": "thought"}]}, "minimal"),
        ({"metadata": {"trajectoryRichness": ["odd"]}, "trajectory": [{"type": "tool_call"}]}, "full"),
        ({"trajectory": [{"type": "message"}]}, "messages-only"),
        ({"trajectory": []}, "minimal"),
        ({}, "minimal"),
    ],
)
def test_richness(fields: Json, expected: str) -> None:
    assert row(**fields).richness == expected


def test_what_a_failed_grader_left_is_no_score() -> None:
    found = row(score={"pass": False, "score": 0.0, "reasoning": "grader error: exit 1"}, graderError=True)
    assert (found.score, found.passed, found.grader_errors) == (None, 0, 1)


def test_quality_leaves_out_what_is_not_graded() -> None:
    rows = [
        result_row(score=1.0, passed=True),
        result_row(score=0.4),
        result_row(),
        result_row(grader_error=True),
        result_row(grader_error=True),
    ]
    found = figures.quality(run_with(*rows))
    assert (found.n, found.ungraded, found.grader_errors) == (2, 1, 2)
    assert (found.avg_score, found.pass_rate, found.pass_count, found.fail_count) == (0.7, 0.5, 1, 1)


def test_figures_over_nothing_are_null() -> None:
    ungraded = figures.quality(run_with(result_row()))
    assert (ungraded.avg_score, ungraded.pass_rate) == (None, None)
    found = figures.performance(run_with(result_row()))
    assert (found.latency.n, found.latency.mean, found.latency.p50, found.total_duration) == (0, None, None, None)
    assert figures.reliability(run_with()).completion_rate is None
    assert figures.trajectory_info(run_with()).avg_step_count is None


def test_distribution_borders_belong_to_the_upper_fifth() -> None:
    found = json.loads(msgspec.json.encode(figures.distribution([0, 0.19, 0.2, 0.4, 0.6, 0.79, 0.8, 1.0])))
    assert found == {"0.0-0.2": 2, "0.2-0.4": 1, "0.4-0.6": 1, "0.6-0.8": 2, "0.8-1.0": 2}


def test_latency_by_hand() -> None:
    found = figures.latency(run_with(*[ComparedRow(durations=(ms,)) for ms in range(100, 0, -1)]), "durations")
    assert (found.n, found.p50, found.p90, found.p99, found.mean, found.min, found.max) == (
        100,
        51,
        91,
        100,
        50.5,
        1,
        100,
    )


def test_completed_means_output_and_no_errors() -> None:
    rows = [result_row(), result_row(has_output=False), result_row(failed=True), result_row(tool_errors=True)]
    found = figures.reliability(run_with(*rows))
    assert (found.completion_rate, found.tool_errors, found.tool_error_rate) == (0.5, 1, 0.25)


# --- strategies and head to head ----------------------------------------------------------------


def weighted_scores(*rows: ComparedRow, weights: dict[str, float] | None = None) -> list[float | None]:
    """The weighted scores of the rows of one prompt."""
    by_label = {str(i): row for i, row in enumerate(rows)}
    scores, _ = weighted_results(by_label, weights or RESULTS.default_weights)
    return list(scores.values())


def test_weighted_score_as_in_agent_eval_harness() -> None:
    good, bad = result_row(score=0.8, duration=1000), result_row(score=0.5, duration=3000, tool_errors=True)
    assert weighted_scores(good, bad) == pytest.approx([0.8 * 0.5 + 0.3 / 2 + 0.2, 0.5 * 0.5 + 0.3 / 4])


def test_errors_make_a_run_unreliable() -> None:
    assert weighted_scores(
        result_row(score=1, duration=0, failed=True), result_row(score=1, duration=0)
    ) == pytest.approx([0.8, 1])


def test_an_unknown_term_is_left_out_for_all() -> None:
    graded, ungraded = result_row(score=0.1, duration=1000), result_row(duration=1000)
    assert weighted_scores(graded, ungraded) == pytest.approx([(0.3 / 2 + 0.2) / 0.5] * 2)
    timed, untimed = result_row(score=1.0, duration=9000), result_row(score=0.5)
    assert weighted_scores(timed, untimed) == pytest.approx([1.0, (0.25 + 0.2) / 0.7])
    assert weighted_scores(graded, ungraded, weights={"quality": 1, "latency": 0, "reliability": 0}) == [None, None]


@pytest.mark.parametrize(
    ("standing", "expected"),
    [
        ({"a": 1.0, "b": 0.5}, "a"),
        ({"a": 0.5, "b": 1.0, "c": 0.9}, "b"),
        ({"a": 0.3, "b": 0.1 + 0.2}, None),
        ({"a": 1.0, "b": 1.0, "c": 0.0}, None),
        ({"a": 1.0, "b": None}, None),
        ({"a": 1.0, "b": None, "c": 0.0}, "a"),
        ({"a": None, "b": None}, None),
    ],
)
def test_winner(standing: Scores, expected: str | None) -> None:
    assert winner(standing) == expected


def test_a_win_of_c_is_no_tie_of_a_and_b() -> None:
    a, b, c = run_of("a", [0.5, 0.5, 0.2]), run_of("b", [0.4, 0.4, 0.2]), run_of("c", [1.0, 1.0, 1.0])
    found = head_to_head([a, b, c], BY_SCORE)
    assert [(pair.run_a, pair.run_b, pair.n, pair.a_wins, pair.b_wins, pair.ties) for pair in found.pairwise] == [
        ("a", "b", 3, 2, 0, 1),
        ("a", "c", 3, 0, 3, 0),
        ("b", "c", 3, 0, 3, 0),
    ]
    assert [prompt.winner for prompt in found.prompts] == ["c", "c", "c"]


def test_an_ungraded_third_run_changes_nothing_between_two() -> None:
    a, b = (
        RunRows("a", RowTable({"p": result_row(score=1.0, duration=1000)})),
        RunRows("b", RowTable({"p": result_row(score=0.2, duration=1000)})),
    )
    c = RunRows("c", RowTable({"p": result_row(duration=10)}))
    found = head_to_head([a, b, c], WEIGHTED)
    assert found.prompts[0].winner == "c"
    assert [(pair.a_wins, pair.b_wins) for pair in found.pairwise] == [(1, 0), (0, 1), (0, 1)]


def test_pairwise_counts_only_what_both_have_a_score_on() -> None:
    a, b = run_of("a", [1.0, None, 0.5]), run_of("b", [0.0, 1.0])
    [found] = head_to_head([a, b], BY_SCORE).pairwise
    assert (found.n, found.a_wins, found.b_wins, found.ties) == (1, 1, 0, 0)


# --- is it luck ---------------------------------------------------------------------------------


def test_pair_statistics_by_hand() -> None:
    a = run_of("a", [0.9, 0.8, 0.7, 0.2, 0.6, None])
    b = run_of("b", [0.4, 0.8, 0.3, 0.7, 0.1, 0.9])
    pair = compared_pair(a, b)
    assert pair.score
    found = pair.score  # d = .5, 0, .4, -.5, .5: mean .18, sd .4324
    assert (found.n, found.wins, found.losses, found.ties) == (5, 3, 1, 1)
    assert found.mean_difference == pytest.approx(0.18)
    assert found.interval is not None
    assert (found.interval.low, found.interval.high) == pytest.approx((0.18 - 0.53695, 0.18 + 0.53695), abs=1e-4)
    assert (found.interval.n, found.interval.level, found.interval.method) == (5, 0.95, "t")
    assert found.minimum_detectable_difference == pytest.approx(0.8394, abs=1e-4)
    assert pair.mcnemar
    assert (pair.mcnemar.b, pair.mcnemar.c) == (3, 1)
    assert pair.mcnemar.exact_p == pytest.approx(0.625)
    assert pair.mcnemar.p == pair.p == pair.pass_rate.p == pytest.approx(0.625 - 4 / 16)
    assert pair.flips.only_a == ["p0", "p2", "p4"]
    assert pair.flips.only_b == ["p3"]
    assert pair.verdict == found.verdict == "no difference shown"


@pytest.mark.parametrize(
    ("a", "b", "verdict"),
    [
        ([0.9, 0.8, 0.9, 0.7, 0.9, 0.8], [0.1, 0.2, 0.3, 0.1, 0.2, 0.3], "a better"),
        ([0.1, 0.2, 0.3, 0.1, 0.2, 0.3], [0.9, 0.8, 0.9, 0.7, 0.9, 0.8], "b better"),
        ([0.9, 0.1, 0.9, 0.1, 0.9, 0.1], [0.1, 0.9, 0.1, 0.9, 0.2, 0.9], "no difference shown"),
        ([0.5] * 6, [0.5] * 6, "equal on all 6 prompts"),
        ([1.0] * 6, [0.0] * 6, "a better"),
        ([1.0] * 4, [0.0] * 4, "too few prompts to tell"),
        # Four passes more of thirty: McNemar's chi square is significant, but by mid-p it is p = 0.0625.
        ([1.0] * 30, [0.0] * 4 + [1.0] * 26, "no difference shown"),
        ([1.0] * 30, [0.0] * 5 + [1.0] * 25, "a better"),
        # Passes decide, whatever the scores say.
        ([0.51] * 12, [0.49] * 6 + [1.0] * 6, "a better"),
        ([0.9] * 12, [0.6] * 12, "equal on all 12 prompts"),
        ([0.5] * 12, [0.45] * 6 + [0.0] * 6, "a better"),
        ([None, None], [1.0, 1.0], "no prompt is graded in both"),
    ],
)
def test_verdict(a: list[float | None], b: list[float | None], verdict: str) -> None:
    assert compared_pair(run_of("a", a), run_of("b", b)).verdict == verdict


# --- the custom strategy ------------------------------------------------------------------------


def test_comparison_payload() -> None:
    common = {"id": "p", "input": "question", "output": "answer", "trajectory": [], "toolErrors": False}
    grade = {"pass": True, "score": 0.9}
    ours = {**common, "hint": "4", "metadata": {"tag": 1}, "score": grade, "timing": {"total": 1000}}
    failed = {**common, "score": {"pass": False, "score": 0.0}, "graderError": True, "cwd": "/"}
    payload = RESULTS.payload("p", {"a": ours, "b": failed}, {"a": result_row(), "b": result_row()})
    assert {**payload, "runs": None} == {
        "id": "p",
        "input": "question",
        "hint": "4",
        "metadata": {"tag": 1},
        "runs": None,
    }
    seen = {"output": "answer", "trajectory": [], "toolErrors": False}
    assert payload["runs"] == {"a": {**seen, "score": grade, "duration": 1000}, "b": seen}


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        ("exit code 1", "grader error: exit code 1"),
        ({"rankings": []}, "rankings"),
        ({"rankings": [{"run": "a", "rank": "first"}]}, "rank"),
        ({"rankings": [{"run": "z", "rank": 1, "score": 1}]}, "names an unknown run: z"),
        ({}, '"rankings" is missing'),
    ],
)
def test_an_answer_that_is_none(answer: object, error: str) -> None:
    found = read_ranking(answer, ["a", "b"])
    assert found.error is not None
    assert error in found.error
    assert found.ranks == {}


def rank_by_output(payloads: Iterator[Json], answered: Callable[[object], None]) -> None:
    """A comparison grader: the longer output wins; it fails on one prompt, and reads ahead."""
    for payload in list(payloads):
        order = sorted(payload["runs"], key=lambda label: -len(payload["runs"][label]["output"]))
        ranks = [{"run": label, "rank": place, "score": 1 / place} for place, label in enumerate(order, 1)]
        answered("no idea" if payload["id"] == "p1" else {"rankings": ranks, "reasoning": "longer"})


def test_custom_strategy_reads_each_record_when_it_is_wanted(tmp_path: Path) -> None:
    records = [json.dumps({"id": f"p{i}", "output": "x" * 9}) for i in range(3)]
    (tmp_path / "a").write_text("\ufeff" + "\n\n".join(records))  # blank lines and a BOM are no records
    (tmp_path / "b").write_text("\n".join(records).replace("x" * 9, "x"))
    sources = [RunSource(str(tmp_path / name)) for name in "ab"]
    console = Console("test", progress=False)
    found = read_runs(list(zip("ab", sources, strict=True)), console, trials=False, options=RowOptions(), counted=False)
    rankings = rank_prompts(found, sources, RESULTS.payload, rank_by_output, console)
    assert rankings["p0"] == PromptRanking({"a": 1, "b": 2}, {"a": 1.0, "b": 0.5}, "longer", None, {"a": 1, "b": 2})
    match = head_to_head(found, by_rankings(rankings))
    prompts, [pair] = match.prompts, match.pairwise
    assert [prompt.winner for prompt in prompts] == ["a", None, "a"]
    assert (prompts[0].reasoning, prompts[1].grader_error) == ("longer", "grader error: no idea")
    assert (pair.n, pair.a_wins, console.refused) == (2, 2, 1)


def test_equal_ranks_are_a_tie() -> None:
    rankings = {"p0": read_ranking({"rankings": [{"run": r, "rank": 1} for r in "ab"]}, ["a", "b"])}
    two = [run_of("a", [None]), run_of("b", [None])]
    [found] = head_to_head(two, by_rankings(rankings)).pairwise
    assert (found.a_wins, found.b_wins, found.ties) == (0, 0, 1)


def test_a_pipe_can_be_read_twice(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    writer = subprocess.Popen(["sh", "-c", 'printf \'{"id":"p"}\\n\\n{"id":"q"}\\n\' > pipe'], cwd=tmp_path)
    source = RunSource(str(tmp_path / "pipe"))
    source.make_seekable()
    writer.wait()
    rows = read_run("pipe", source, Console("test", progress=False), trials=False, options=RowOptions()).rows
    assert [(id, row.line) for id, row in rows.items()] == [("p", 1), ("q", 3)]
    assert RecordIndex(source).record(3) == {"id": "q"}


# --- markdown ------------------------------------------------------------------------------------


def test_markdown_cuts_long_lists_of_missing_prompts() -> None:
    some, none = run_of("some", [0.5] * 25), run_of("none", [])
    report = RESULTS.compare([some, none], CompareSettings("weighted", RESULTS.default_weights))
    text = b"".join(render(report, ReportContext())).decode()
    assert "lacks 25: p0, " in text
    assert "p19 and 5 more" in text
    assert "**Cannot tell none from some: no prompt is graded in both.**" in text
    assert "| none | – | – | – | – | 0 | 0 | 0 | 0 | 0 | 0 |" in text
