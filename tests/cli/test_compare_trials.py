"""ae-compare on trials, as a real process."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from agenteval.wire.comparison import TrialsComparisonReport
from tests.support.subset import assert_contains
from tests.support.tool import Done, python_script, run, write

Json = dict[str, Any]


def trials(id: str, *passes: bool | None, k: int | None = None, **more: Any) -> Json:
    """A record of ae-trials, without its rates: True or False is a graded trial, None an ungraded one."""
    entries: list[Json] = []
    for number, passed in enumerate(passes, 1):
        entry: Json = {"trialNum": number, "output": "x", "trajectory": [], "duration": 100 * number}
        entries.append(entry if passed is None else {**entry, "pass": passed, "score": 1.0 if passed else 0.0})
    return {"id": id, "input": "question", "k": k or len(passes), "trials": entries, **more}


def first(id: str, passed: int, of: int = 4) -> Json:
    """A record whose first trials pass."""
    return trials(id, *(number < passed for number in range(of)))


def compared(*args: object, cwd: Path, code: int = 0, **how: Any) -> TrialsComparisonReport:
    """The report the tool prints, which is what its types say."""
    done = run("ae-compare", *args, cwd=cwd, **how).expect(code)
    return msgspec.json.decode(done.out, type=TrialsComparisonReport)


@pytest.fixture
def two(tmp_path: Path) -> Path:
    """A folder with two runs of eight prompts of four trials: good passes two trials more of each than bad."""
    write(tmp_path / "good.jsonl", *(first(f"p{i}", 2 + i % 3) for i in range(8)))
    write(tmp_path / "bad.jsonl", *(first(f"p{i}", i % 3) for i in range(8)))
    return tmp_path


# --- parity with agent-eval-harness -------------------------------------------------------------

# What @plaited/agent-eval-harness 0.12.2 prints for the runs below (`compare left.jsonl right.jsonl`).
HARNESS_REPORT = """
{"meta": {"runs": ["left", "right"], "promptCount": 6, "trialsPerPrompt": 5, "inputFormat": "trials"},
"capability": {
  "left": {"avgPassAtK": 0.8760533333333332, "medianPassAtK": 0.98976, "p25PassAtK": 0.6723199999999999,
    "p75PassAtK": 0.99968},
  "right": {"avgPassAtK": 0.7622933333333334, "medianPassAtK": 0.98976, "p25PassAtK": 0.6723199999999999,
    "p75PassAtK": 0.98976}},
"reliability": {
  "left": {"type": "trial", "avgPassExpK": 0.23605333333333334, "medianPassExpK": 0.07775999999999998,
    "p25PassExpK": 0.0003200000000000001, "p75PassExpK": 0.3276800000000001},
  "right": {"type": "trial", "avgPassExpK": 0.08229333333333334, "medianPassExpK": 0.07775999999999998,
    "p25PassExpK": 0.0003200000000000001, "p75PassExpK": 0.07775999999999998}},
"flakiness": {
  "left": {"avgFlakiness": 0.64, "medianFlakiness": 0.6719999999999999, "flakyPromptCount": 5, "topFlakyPrompts": [
    {"id": "p1", "flakiness": 0.912}, {"id": "p2", "flakiness": 0.912}, {"id": "p0", "flakiness": 0.6719999999999999},
    {"id": "p3", "flakiness": 0.6719999999999999}, {"id": "p4", "flakiness": 0.6719999999999999}]},
  "right": {"avgFlakiness": 0.68, "medianFlakiness": 0.912, "flakyPromptCount": 5, "topFlakyPrompts": [
    {"id": "p0", "flakiness": 0.912}, {"id": "p1", "flakiness": 0.912}, {"id": "p5", "flakiness": 0.912},
    {"id": "p2", "flakiness": 0.6719999999999999}, {"id": "p4", "flakiness": 0.6719999999999999}]}},
"quality": {
  "left": {"type": "trial", "avgScore": 0.49233333333333323, "medianScore": 0.51, "p25Score": 0.24, "p75Score": 0.75},
  "right": {"type": "trial", "avgScore": 0.513, "medianScore": 0.53, "p25Score": 0.26, "p75Score": 0.76}},
"performance": {
  "left": {"latency": {"p50": 2366, "p90": 4435, "p99": 4574, "mean": 2371.5, "min": 146, "max": 4574},
    "totalDuration": 71145},
  "right": {"latency": {"p50": 2920, "p90": 4874, "p99": 5013, "mean": 2747.8333333333335, "min": 140, "max": 5013},
    "totalDuration": 82435}},
"headToHead": {
  "capability": [{"runA": "left", "runB": "right", "aWins": 5, "bWins": 1, "ties": 0}],
  "reliability": [{"runA": "left", "runB": "right", "aWins": 5, "bWins": 1, "ties": 0}],
  "overall": [{"runA": "left", "runB": "right", "aWins": 5, "bWins": 1, "ties": 0}]},
"perPrompt": [
  {"id": "p0", "capabilityWinner": "left", "reliabilityWinner": "left",
    "passAtK": {"left": 0.99968, "right": 0.98976},
    "passExpK": {"left": 0.3276800000000001, "right": 0.07775999999999998},
    "flakiness": {"left": 0.6719999999999999, "right": 0.912}},
  {"id": "p1", "passAtK": {"left": 0.98976, "right": 0.9222400000000001}},
  {"id": "p2", "passAtK": {"left": 0.9222400000000001, "right": 0.6723199999999999}},
  {"id": "p3", "passAtK": {"left": 0.6723199999999999, "right": 0},
    "flakiness": {"left": 0.6719999999999999, "right": 0}},
  {"id": "p4", "capabilityWinner": "right", "reliabilityWinner": "right",
    "passAtK": {"left": 0.6723199999999999, "right": 0.99968}},
  {"id": "p5", "passAtK": {"left": 1, "right": 0.98976}, "flakiness": {"left": 0, "right": 0.912}}]}
"""


def harness_trials(i: int, salt: int, *, rates: bool) -> Json:
    """A record as agent-eval-harness writes it."""
    border = (i * 17 + salt * 23) % 100 / 100
    entries = [
        {
            "trialNum": number,
            "output": "answer",
            "trajectory": [],
            "duration": 100 + (i * 7919 + salt * 1543 + number * 977) % 5000,
            "pass": (score := (i * 37 + salt * 29 + number * 41) % 101 / 100) >= border,
            "score": score,
        }
        for number in range(1, 6)
    ]
    p = sum(bool(entry["pass"]) for entry in entries) / 5
    given = {"passRate": p, "passAtK": 1 - (1 - p) ** 5, "passExpK": p**5}
    return {"id": f"p{i}", "input": "question", "k": 5, **(given if rates else {}), "trials": entries}


@pytest.mark.parametrize("rates", [True, False], ids=["rates given", "rates computed"])
def test_figures_of_agent_eval_harness(tmp_path: Path, rates: bool) -> None:
    for salt, label in enumerate(("left", "right"), 1):
        write(tmp_path / f"{label}.jsonl", *(harness_trials(i, salt, rates=rates) for i in range(6)))
    done = run("ae-compare", "left.jsonl", "right.jsonl", cwd=tmp_path).expect(0, stderr="")
    assert_contains(json.loads(done.stdout), json.loads(HARNESS_REPORT))


# --- the report ---------------------------------------------------------------------------------


def test_the_report_says_who_is_better_and_over_how_many(two: Path) -> None:
    report = compared("good.jsonl", "bad.jsonl", cwd=two)
    [pair] = report.statistics.pairs
    assert (pair.verdict, pair.better, pair.n, pair.mean_difference) == ("good better", "good", 8, 0.5)
    assert pair.score is not None and pair.score.verdict == "good better"
    found = report.statistics.runs["good"]
    assert (found.prompts, found.trials, found.graded_trials, found.passed_trials) == (8, 32, 32, 23)
    assert found.interval is not None and found.interval.low < 23 / 32 < found.interval.high
    assert report.capability["good"].pass_at_n == {"1": 8, "2": 8, "3": 8, "4": 8}
    assert report.capability["good"].pass_at["1"] == report.reliability["good"].pass_exp["1"] == 23 / 32
    assert [prompt.id for prompt in report.flakiness["good"].top_flaky_prompts] == ["p0", "p3", "p6", "p1", "p4", "p7"]
    assert (report.meta.trials_per_prompt, report.meta.mixed_k, report.meta.input_format) == (4, None, "trials")


def test_statistical_adds_intervals_that_depend_on_the_seed_alone(two: Path) -> None:
    def report(seed: int) -> TrialsComparisonReport:
        found = compared("good.jsonl", "bad.jsonl", "-s", "statistical", "--seed", seed, cwd=two)
        found.meta.generated_at = ""
        return found

    one = report(1)
    assert one == report(1) != report(2)
    assert one.capability["good"].confidence_intervals and one.reliability["bad"].confidence_intervals
    assert one.quality and one.quality["good"].confidence_intervals and one.performance["good"].confidence_intervals
    assert one.per_prompt[0].scores == one.per_prompt[0].pass_rate == {"good": 0.5, "bad": 0.0}
    assert (one.meta.bootstrap_iterations, one.meta.seed) == (1000, 1)


def test_weights_from_the_environment(two: Path) -> None:
    env = {"COMPARE_CAPABILITY": "0", "COMPARE_RELIABILITY": "0", "COMPARE_CONSISTENCY": "2"}
    report = compared("good.jsonl", "bad.jsonl", cwd=two, env=env)
    assert report.meta.weights == {"capability": 0.0, "reliability": 0.0, "consistency": 2.0}
    assert report.per_prompt[0].scores == {"good": pytest.approx(2 * (1 - (1 - 2 * 0.5**4))), "bad": 2.0}
    assert (report.per_prompt[0].winner, report.per_prompt[0].capability_winner) == ("bad", "good")
    all_zero = run("ae-compare", "good.jsonl", "bad.jsonl", cwd=two, env={**env, "COMPARE_CONSISTENCY": "0"}).expect(2)
    all_zero.says("COMPARE_CAPABILITY, COMPARE_RELIABILITY, COMPARE_CONSISTENCY are all 0")


def test_ungraded_trials_are_compared_by_what_is_known(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write(tmp_path / f"{name}.jsonl", trials("p", None, None))
    done = run("ae-compare", "a.jsonl", "b.jsonl", "-s", "statistical", cwd=tmp_path).expect(0)
    advice = "no record is graded; grade the run with ae-grade"
    assert done.messages == [f"ae-compare: {name}: {advice}" for name in ("a", "b")]
    assert "quality" not in json.loads(done.stdout)
    report = msgspec.json.decode(done.out, type=TrialsComparisonReport)
    found = report.capability["a"]
    assert (found.n, found.ungraded, found.avg_pass_at_k, found.pass_at) == (0, 1, None, {})
    assert report.statistics.runs["a"].pass_rate is None
    assert report.statistics.pairs[0].verdict == "no prompt is graded in both"
    assert report.performance["a"].latency.mean == 150
    assert report.per_prompt[0].winner is None
    assert report.head_to_head.overall[0].n == 0
    assert (
        "no prompt is graded in both" in run("ae-compare", "a.jsonl", "b.jsonl", "-f", "markdown", cwd=tmp_path).stdout
    )


def test_failures_and_grader_errors_are_counted_apart(tmp_path: Path) -> None:
    entries = [
        {"trialNum": 1, "output": "x", "pass": True, "score": 0.8},
        {"trialNum": 2, "output": "", "pass": False, "errors": ["exit code 1"]},
        {"trialNum": 3, "output": "x", "pass": False, "score": 0.0, "graderError": True},
    ]
    for name in ("a", "b"):
        write(tmp_path / f"{name}.jsonl", {"id": "p", "input": "q", "k": 3, "trials": entries})
    report = compared("a.jsonl", "b.jsonl", cwd=tmp_path)
    found = report.statistics.runs["a"]
    assert (found.trials, found.graded_trials, found.passed_trials, found.pass_rate) == (3, 2, 1, 0.5)
    assert (found.failed_trials, found.grader_errors, found.ungraded_trials, found.incomplete) == (1, 1, 0, 0)
    assert report.quality is not None
    quality = report.quality["a"]
    assert (quality.n, quality.avg_score, quality.failed_trials, quality.grader_errors) == (2, 0.4, 1, 1)
    assert quality.ungraded == 0
    assert report.capability["a"].pass_at == {"1": 0.5, "2": 1.0}, "of two graded trials nothing is known for three"


def test_missing_prompts_are_named(two: Path) -> None:
    write(two / "few.jsonl", first("p0", 2), first("new", 2))
    done = run("ae-compare", "good.jsonl", "few.jsonl", cwd=two).expect(0)
    assert done.says("8 of 9 prompts are not in every run: good lacks 1, few lacks 7")
    report = msgspec.json.decode(done.out, type=TrialsComparisonReport)
    assert report.meta.missing["good"] == ["new"]
    assert [prompt.id for prompt in report.per_prompt] == ["p0"]
    assert report.statistics.pairs[0].verdict == "too few prompts to tell"


def test_mixed_k_is_said_and_a_prompt_is_won_at_the_smaller(tmp_path: Path) -> None:
    write(tmp_path / "five.jsonl", trials("p", True, True, False, False, False))
    write(tmp_path / "two.jsonl", trials("p", True, False))
    done = run("ae-compare", "five.jsonl", "two.jsonl", cwd=tmp_path).expect(0)
    assert done.says("k differs (five 5, two 2)", "smallest k")
    report = msgspec.json.decode(done.out, type=TrialsComparisonReport)
    assert (report.meta.trials_per_prompt, report.meta.mixed_k) == (2, {"five": {"5": 1}, "two": {"2": 1}})
    [prompt] = report.per_prompt
    assert (prompt.k, prompt.pass_at_k) == (2, {"five": pytest.approx(0.64), "two": 0.75})
    assert prompt.capability_winner == prompt.reliability_winner == prompt.winner == "two"
    assert report.capability["five"].avg_pass_at_k == pytest.approx(1 - 0.6**5), "its own k"
    text = run("ae-compare", "five.jsonl", "two.jsonl", "-f", "markdown", cwd=tmp_path).stdout
    assert "- Trials: k differs (five 5, two 2)" in text


def test_trials_that_are_not_k_in_number_are_said(two: Path) -> None:
    write(two / "cut.jsonl", first("p0", 2), trials("p1", True, False, k=4))
    done = run("ae-compare", "cut.jsonl", "good.jsonl", "--no-progress", cwd=two).expect(0)
    assert "ae-compare: cut: 1 of 2 prompts do not have k trials; those they have are counted" in done.messages
    assert json.loads(done.stdout)["statistics"]["runs"]["cut"]["incomplete"] == 1


# --- markdown -----------------------------------------------------------------------------------


def test_markdown_has_the_verdict_first_and_names_the_flaky(two: Path) -> None:
    run("ae-compare", "good.jsonl", "bad.jsonl", "-o", "report.md", "-s", "statistical", cwd=two).expect(0).says(
        "bad is worse"
    )
    text = (two / "report.md").read_text()
    assert text.startswith("# Trials Comparison Report\n")
    titles = [line for line in text.splitlines() if line.startswith("## ")]
    assert titles[0] == "## Verdict"
    assert "**bad is worse than good.**\n\n- Pass rate: 71.9% → 21.9%, -50.0 points (95% interval " in text
    assert "- Trials: 4 per prompt" in text
    assert "| good | p0 | 50.0% |" in text
    assert "| good | 4 | 1.000 | " in text
    assert "passAtK" not in text and "passExpK" not in text
    tables = [line for line in text.splitlines() if line.startswith("|")]
    widths = {line.count("|") for line in tables if line.startswith(("| good | bad |", "| A | B |"))}
    assert len(tables) > 30 and widths == {7, 15}


def test_markdown_cells_cannot_break_out(tmp_path: Path) -> None:
    write(tmp_path / "x.jsonl", trials("a|b\nc", True, False))
    write(tmp_path / "y.jsonl", trials("a|b\nc", False, False))
    text = run("ae-compare", "x.jsonl", "one|two:y.jsonl", "-f", "markdown", cwd=tmp_path).stdout
    assert "a\\|b<br>c" in text and "one\\|two" in text
    assert "a|b" not in text and "one|two" not in text


# --- the custom strategy ------------------------------------------------------------------------

JUDGE = """
import json, sys
asked = json.load(sys.stdin)
assert set(asked) == {"id", "input", "hint", "runs"}, asked
for seen in asked["runs"].values():
    assert set(seen) == {"passRate", "passAtK", "passExpK", "k", "trials"}, seen
    assert seen["trials"][0]["trialNum"] == 1 and seen["k"] == 4
if asked["id"] == "p1":
    sys.exit("no idea")
order = sorted(asked["runs"], key=lambda label: asked["runs"][label]["passRate"])
ranks = [{"run": label, "rank": place, "score": 1 / place} for place, label in enumerate(order, 1)]
print(json.dumps({"rankings": ranks, "reasoning": "the worse the better"}))
"""


@pytest.mark.parametrize("path", ["good.jsonl", "-"])
def test_a_comparison_grader(two: Path, path: str) -> None:
    records = [{**first(f"p{i}", 3), "hint": "h"} for i in range(3)]
    text = write(two / "good.jsonl", *records).read_text()
    write(two / "bad.jsonl", *({**first(f"p{i}", 1), "hint": "h"} for i in range(3)))
    python_script(two / "judge", JUDGE)
    done = run("ae-compare", f"good:{path}", "bad.jsonl", "-g", "./judge", cwd=two, stdin=text).expect(1)
    assert done.says("p1: grader error", "no idea")
    report = msgspec.json.decode(done.out, type=TrialsComparisonReport)
    assert (report.meta.strategy, report.meta.grader_errors) == ("custom", 1)
    assert [prompt.winner for prompt in report.per_prompt] == ["bad", None, "bad"]
    assert report.per_prompt[0].reasoning == "the worse the better"
    assert report.per_prompt[1].grader_error is not None
    [overall], [capability] = report.head_to_head.overall, report.head_to_head.capability
    assert (overall.n, overall.b_wins, capability.n, capability.a_wins) == (2, 2, 3, 3)


# --- input --------------------------------------------------------------------------------------


def test_trials_from_a_pipe_are_recognised(two: Path) -> None:
    text = "\n{not json\n" + (two / "good.jsonl").read_text()
    done = run("ae-compare", "-", "bad.jsonl", cwd=two, stdin=text).expect(1)
    assert done.says("stdin:2: not JSON")
    report = msgspec.json.decode(done.out, type=TrialsComparisonReport)
    assert report.statistics.runs["stdin"].prompts == 8


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ({"id": "p9", "output": "a result"}, '"k" is missing: trials are expected here'),
        ({"id": "p9", "k": 3}, '"trials" is missing: trials are expected here'),
        ({"id": "p9", "k": 0, "trials": []}, '"k" must be'),
        ({"id": "p9", "k": 1, "trials": [{"pass": "yes"}]}, '"trials[0].pass" must be'),
        ({"id": "p9", "k": 1, "trials": [{"pass": True, "score": 7}]}, "got 7"),
        ({"id": "p9", "k": 1, "trials": [], "passAtK": 2}, '"passAtK" must be'),
        ({"id": "p0", "k": 1, "trials": []}, 'duplicate "id" p0'),
    ],
)
def test_a_bad_record_costs_itself(two: Path, line: Json, said: str) -> None:
    with (two / "good.jsonl").open("a") as file:
        file.write(json.dumps(line) + "\n")
    done = run("ae-compare", "good.jsonl", "bad.jsonl", cwd=two).expect(1)
    assert done.says("good.jsonl:9: ", said)
    assert json.loads(done.stdout)["statistics"]["runs"]["good"]["prompts"] == 8
    run("ae-compare", "good.jsonl", "bad.jsonl", "--strict", cwd=two).expect(1)


def test_empty_files_are_trials_where_that_is_promised(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write(tmp_path / f"{name}.jsonl")
    args = ("a.jsonl", "b.jsonl", "--input-format", "trials", "-s", "statistical")
    report = compared(*args, cwd=tmp_path)
    assert (report.meta.trials_per_prompt, report.per_prompt, report.quality) == (None, [], None)
    assert run("ae-compare", *args, "-f", "markdown", cwd=tmp_path).expect(0).stdout.startswith("# Trials")


def test_no_trials_at_all_in_a_record(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write(tmp_path / f"{name}.jsonl", {"id": "p", "input": "q", "k": 10**6, "trials": [], "passRate": 0.5})
    done: Done = run("ae-compare", "a.jsonl", "b.jsonl", cwd=tmp_path).expect(0)
    assert json.loads(done.stdout)["statistics"]["runs"]["a"]["gradedTrials"] == 0


# --- a criterion --------------------------------------------------------------------------------


def many(*passed: int) -> list[Json]:
    return [first(f"p{number}", count) for number, count in enumerate(passed)]


FALLS: dict[str, tuple[list[int], list[int], list[str]]] = {
    "the same": ([4] * 8, [4] * 8, []),
    "better": ([2] * 8, [4] * 8, []),
    "one prompt less reliable": ([4] * 8, [4] * 7 + [3], []),
    "worse everywhere": (
        [4] * 8,
        [1, 2] * 4,
        ["now is worse than before: pass rate 100.0% → 37.5%, -62.5 points (95% interval "],
    ),
    "a new prompt that is hard": ([4] * 8, [4] * 8 + [0], []),
}


@pytest.mark.parametrize("name", FALLS)
def test_fail_if_worse(name: str, tmp_path: Path) -> None:
    before, now, said = FALLS[name]
    write(tmp_path / "before.jsonl", *many(*before))
    write(tmp_path / "now.jsonl", *many(*now))
    args = ("before.jsonl", "now.jsonl", "-o", "report.md")
    done = run("ae-compare", *args, "--fail-if-worse", cwd=tmp_path).expect(1 if said else 0)
    told = [line for line in done.messages if not re.search("prompts are not in every run|[(]pass rate", line)]
    assert len(told) == len(said), done
    assert all(part in line for part, line in zip(said, told, strict=True)), done
    run("ae-compare", *args, cwd=tmp_path).expect(0)
    assert (tmp_path / "report.md").read_text().startswith("# "), "the report is written all the same"
