"""ae-compare as a real process."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from agenteval.wire.comparison import ComparisonReport
from tests.support.subset import assert_contains
from tests.support.tool import PASSES, Done, python_script, run, script, write

Json = dict[str, Any]


def ae_compare(*args: object, **options: Any) -> Done:
    return run("ae-compare", *args, **options)


def compared(*args: object, cwd: Path, code: int = 0, stdin: str = "", env: dict[str, str] | None = None) -> Json:
    """The report the tool prints."""
    done = ae_compare(*args, cwd=cwd, stdin=stdin, env=env)
    assert done.code == code, f"{args}\n{done.stdout}\n{done.stderr}"
    found: Json = json.loads(done.stdout)
    return found


def result(id: str, score: float | None = None, total: float | None = 1000, **more: Any) -> Json:
    """A result as ae-grade writes it; ungraded without a score."""
    record: Json = {"id": id, "input": "question", "output": "answer", "trajectory": [], "toolErrors": False}
    if total is not None:
        record["timing"] = {"start": 0, "end": total, "total": total}
    if score is not None:
        record["score"] = {"pass": score >= 0.5, "score": score, "reasoning": "because"}
    return {**record, **more}


# --- parity with agent-eval-harness -------------------------------------------------------------

# What @plaited/agent-eval-harness 0.12.2 prints for the runs below (`compare left.jsonl right.jsonl`).
HARNESS_REPORT = """
{"quality": {
  "left": {"type": "run", "avgScore": 0.37333333333333335, "passRate": 0.3333333333333333, "passCount": 2,
    "failCount": 4, "scoreDistribution": {"0.0-0.2": 2, "0.2-0.4": 2, "0.4-0.6": 0, "0.6-0.8": 2, "0.8-1.0": 0}},
  "right": {"type": "run", "avgScore": 0.49500000000000005, "passRate": 0.5, "passCount": 3,
    "failCount": 3, "scoreDistribution": {"0.0-0.2": 1, "0.2-0.4": 1, "0.4-0.6": 2, "0.6-0.8": 1, "0.8-1.0": 1}}},
"performance": {
  "left": {
    "latency": {"p50": 2481, "p90": 4562, "p99": 4562, "mean": 2273.8333333333335, "min": 400, "max": 4562},
    "firstResponse": {"p50": 827, "p90": 1520, "p99": 1520, "mean": 757.5, "min": 133, "max": 1520},
    "totalDuration": 13643},
  "right": {
    "latency": {"p50": 3186, "p90": 4862, "p99": 4862, "mean": 2983.5, "min": 1105, "max": 4862},
    "firstResponse": {"p50": 1062, "p90": 1620, "p99": 1620, "mean": 994.1666666666666, "min": 368, "max": 1620},
    "totalDuration": 17901}},
"reliability": {
  "left": {"type": "run", "toolErrors": 1, "toolErrorRate": 0.16666666666666666, "timeouts": 0, "timeoutRate": 0,
    "completionRate": 1},
  "right": {"type": "run", "toolErrors": 1, "toolErrorRate": 0.16666666666666666, "timeouts": 0, "timeoutRate": 0,
    "completionRate": 1}},
"trajectoryInfo": {
  "left": {"richness": "messages-only", "avgStepCount": 2},
  "right": {"richness": "messages-only", "avgStepCount": 2}},
"headToHead": {"pairwise": [{"runA": "left", "runB": "right", "aWins": 2, "bWins": 4, "ties": 0}]}}
"""
HARNESS_SCORES = {
    "p0": (0.4585073779795687, 0.5616674629718108),
    "p1": (0.5839374325782093, 0.8175178147268409),
    "p2": (0.2961821315713875, 0.21471337579617833),
    "p3": (0.40928571428571425, 0.6419367991845056),
    "p4": (0.6494605232692754, 0.2711770726714432),
    "p5": (0.39404825737265414, 0.4843440888653795),
}


def harness_result(i: int, salt: int) -> Json:
    """A record that agent-eval-harness accepts."""
    score, total = (i * 37 + salt * 29) % 101 / 100, 100 + (i * 7919 + salt * 1543) % 5000
    times = {"start": 1, "end": 1 + total, "sessionCreation": 1, "firstResponse": total // 3}
    step = {"type": "message", "content": "answer", "timestamp": 1}
    more = {"metadata": {"trajectoryRichness": "messages-only"}, "toolErrors": (i + salt) % 4 == 0}
    graded = result(f"p{i}", score, timing={**times, "total": total}, trajectory=[step] * (i % 3 + 1))
    return {**graded, **more}


def test_figures_of_agent_eval_harness(tmp_path: Path) -> None:
    for salt, label in enumerate(("left", "right"), 1):
        write(tmp_path / f"{label}.jsonl", *(harness_result(i, salt) for i in range(6)))
    found = compared("left.jsonl", "right.jsonl", cwd=tmp_path)
    assert_contains(found, json.loads(HARNESS_REPORT))
    assert_contains(found["meta"], {"runs": ["left", "right"], "promptCount": 6, "promptsWithAllRuns": 6})
    assert [prompt["id"] for prompt in found["headToHead"]["prompts"]] == list(HARNESS_SCORES)
    for prompt in found["headToHead"]["prompts"]:
        left, right = HARNESS_SCORES[prompt["id"]]
        assert prompt["scores"] == pytest.approx({"left": left, "right": right}, rel=1e-12)
        assert prompt["winner"] == ("left" if left > right else "right")
        assert set(prompt) <= {"id", "winner", "qualityWinner", "scores", "latencies", "hadErrors"}


# --- the tool -----------------------------------------------------------------------------------


@pytest.fixture
def three(tmp_path: Path) -> Path:
    """A folder with three runs of ten prompts; b lacks two, c has an ungraded one and a grader error."""
    write(tmp_path / "a.jsonl", *(result(f"p{i}", 0.9 - i / 100) for i in range(10)))
    write(tmp_path / "b.jsonl", *(result(f"p{i}", 0.1 + i / 50) for i in range(8)))
    c = [result(f"p{i}", 0.5) for i in range(8)]
    write(tmp_path / "c.jsonl", *c, result("p8"), result("p9", 0.0, graderError=True))
    return tmp_path


def test_report_of_three_runs(three: Path) -> None:
    done = ae_compare("a.jsonl", "b.jsonl", "c.jsonl", "-s", "statistical", cwd=three)
    report = msgspec.json.decode(done.stdout, type=ComparisonReport)
    assert done.code == 0
    lacks = "2 of 10 prompts are not in every run: b lacks 2 (-f json lists them in meta.missing)"
    assert done.stderr == f"ae-compare: {lacks}\n"
    assert (report.meta.prompt_count, report.meta.prompts_with_all_runs) == (10, 8)
    assert report.meta.missing == {"b": ["p8", "p9"]}
    quality = report.quality["c"]
    assert (quality.n, quality.ungraded, quality.grader_errors, quality.avg_score) == (8, 1, 1, 0.5)
    assert [(p.run_a, p.run_b, p.n, p.a_wins, p.b_wins) for p in report.head_to_head.pairwise] == [
        ("a", "b", 8, 8, 0),
        ("a", "c", 8, 8, 0),
        ("b", "c", 8, 0, 8),
    ]
    assert [pair.verdict for pair in report.statistics.pairs] == ["a better", "equal on all 8 prompts", "c better"]
    last = report.head_to_head.prompts[-1]
    assert (last.id, last.winner) == ("p9", None)
    assert last.scores == {"a": pytest.approx(0.81), "c": None}
    for pair in report.statistics.pairs:
        assert pair.interval is not None
        assert pair.pass_rate.interval is not None
    assert msgspec.json.format(msgspec.json.encode(report), indent=2).decode() + "\n" == done.stdout


def test_same_input_and_seed_same_bytes(three: Path) -> None:
    def lines(seed: int) -> list[str]:
        out = ae_compare("a.jsonl", "c.jsonl", "-s", "statistical", "--seed", seed, cwd=three).stdout
        return [line for line in out.splitlines() if "generatedAt" not in line]

    assert lines(1) == lines(1)
    assert lines(1) != lines(2)


def test_markdown(three: Path) -> None:
    done = ae_compare("a.jsonl", "b.jsonl", "-o", "report.md", cwd=three)
    assert (done.code, done.stdout) == (0, "")
    text = (three / "report.md").read_text()
    assert "**b is worse than a.**\n\n- Pass rate: 100.0% → 0.0%, -100.0 points (95% interval -100.0 to " in text
    assert "\n- Score: 0.865 → 0.170, -69.5 points (95% interval -" in text
    assert "| a | 100.0% | 72.2% to 100.0% | 0.855 | 0.740 to 0.924 | 10 | 0 | 0 | 10 | 0 | 0 |" in text
    assert "- **b** lacks 2: p8, p9" in text
    assert ae_compare("a.jsonl", "b.jsonl", "-f", "json", "-o", "x.md", cwd=three).code == 0
    assert (three / "x.md").read_text().startswith("{")


def test_markdown_cells_cannot_break_out(tmp_path: Path) -> None:
    records = [result("a|b\nc", 1.0), result("fine", 0.0)]
    write(tmp_path / "x.jsonl", *records)
    write(tmp_path / "y.jsonl", result("a|b\nc", 0.0), result("fine", 0.0))
    text = ae_compare("x.jsonl", "one|two:y.jsonl", "-f", "markdown", cwd=tmp_path).stdout
    assert "a\\|b<br>c" in text
    assert "one\\|two" in text
    tables = [line.replace("\\|", "") for line in text.splitlines() if line.startswith("|")]
    assert all(line.endswith("|") for line in tables)
    assert {line.count("|") for line in tables if "fine" in line or "Prompt" in line} == {5}


def test_ungraded_runs_are_compared_by_what_is_known(tmp_path: Path) -> None:
    write(tmp_path / "fast.jsonl", result("p", total=100))
    write(tmp_path / "slow.jsonl", result("p", total=9000))
    report = compared("fast.jsonl", "slow.jsonl", cwd=tmp_path)
    assert report["headToHead"]["prompts"][0]["winner"] == "fast"
    assert report["quality"]["fast"]["avgScore"] is None
    assert report["quality"]["fast"]["ungraded"] == 1
    assert report["statistics"]["pairs"][0]["interval"] is None


def test_bad_lines_and_duplicates_cost_only_themselves(three: Path) -> None:
    with open(three / "a.jsonl", "a") as file:
        file.write('\n{"id": "broken"\n' + json.dumps(result("p0", 0.0)) + '\n{"id": "p", "score": 0.5}\n')
    done = ae_compare("a.jsonl", "c.jsonl", cwd=three)
    assert done.code == 1
    assert json.loads(done.stdout)["quality"]["a"]["n"] == 10
    one, two, three_ = done.stderr.splitlines()
    assert one.startswith("ae-compare: a.jsonl:12: not JSON:")
    assert two == 'ae-compare: a.jsonl:13: duplicate "id" p0; the first one counts'
    assert three_.startswith('ae-compare: a.jsonl:14: "score" must be an object')
    strict = ae_compare("a.jsonl", "c.jsonl", "--strict", cwd=three)
    assert (strict.code, strict.stdout) == (1, "")


def test_stdin_is_one_of_the_runs(three: Path) -> None:
    text = (three / "a.jsonl").read_text()
    report = compared("-", "c.jsonl", cwd=three, stdin=text)
    assert report["meta"]["runs"] == ["stdin", "c"]
    assert compared("--run", "new:-", "c.jsonl", cwd=three, stdin=text)["meta"]["runs"] == ["c", "new"]


@pytest.mark.parametrize(
    ("args", "env", "said"),
    [
        (["a.jsonl"], {}, "give two or more runs"),
        (["a.jsonl", "nowhere.jsonl"], {}, "nowhere.jsonl: No such file"),
        (["a.jsonl", "."], {}, "is a directory"),
        (["-", "-"], {}, "only one run"),
        (["a.jsonl", "b.jsonl", "-s", "custom"], {}, "-g GRADER"),
        (["a.jsonl", "b.jsonl", "-s", "weighted", "-g", "x"], {}, "--strategy custom"),
        (
            ["a.jsonl", "b.jsonl", "--input-format", "trials"],
            {},
            "a.jsonl: contains results, and --input-format trials",
        ),
        (["trials.jsonl", "--run", "b:trials.jsonl", "--input-format", "capture"], {}, "expects results"),
        (["a.jsonl", "trials.jsonl"], {}, "trials.jsonl: contains trials, and a.jsonl contains results"),
        (["trials.jsonl", "empty.jsonl", "a.jsonl"], {}, "a.jsonl: contains results, and trials.jsonl contains trials"),
        (["a.jsonl", "b.jsonl", "-o", "b.jsonl", "-f", "json"], {}, "is also the input"),
        (["a.jsonl", "b.jsonl"], {"COMPARE_QUALITY": "much"}, "COMPARE_QUALITY must be a number"),
        (["a.jsonl", "b.jsonl"], {"COMPARE_LATENCY": "nan"}, "COMPARE_LATENCY must be a number"),
        (
            ["a.jsonl", "b.jsonl"],
            dict.fromkeys(("COMPARE_QUALITY", "COMPARE_LATENCY", "COMPARE_RELIABILITY"), "0"),
            "all 0",
        ),
        (["a.jsonl", "b.jsonl", "-s", "statistical"], {"COMPARE_BOOTSTRAP_ITERATIONS": "99"}, "at least 100"),
        (["a.jsonl", "b.jsonl", "-s", "statistical"], {"COMPARE_BOOTSTRAP_ITERATIONS": "1e3"}, "at least 100"),
    ],
)
def test_usage_errors(three: Path, args: list[str], env: dict[str, str], said: str) -> None:
    write(three / "empty.jsonl")
    write(three / "trials.jsonl", {"id": "p0", "input": "q", "k": 1, "trials": [{"trialNum": 1, "output": "x"}]})
    done = ae_compare(*args, cwd=three, env=env)
    assert (done.code, done.stdout, done.stderr.count("\n")) == (2, "", 1), done.stderr
    assert done.stderr.startswith("ae-compare: ")
    assert said in done.stderr


def test_a_race_is_won_by_the_faster_run(tmp_path: Path) -> None:
    for label, total in {"slow": 9000, "fast": 10}.items():
        timing = {"start": 0, "end": total, "total": total}
        score = {"pass": True, "score": 1.0 if label == "slow" else 0.5}
        write(tmp_path / f"{label}.jsonl", {"id": "a", "input": "q", "output": "x", "timing": timing, "score": score})
    weights = {"COMPARE_QUALITY": "0", "COMPARE_LATENCY": "1"}
    found = compared("slow.jsonl", "fast.jsonl", cwd=tmp_path, env=weights)["headToHead"]
    assert_contains(found["pairwise"][0], {"aWins": 0, "bWins": 1, "ties": 0})
    assert_contains(found["quality"][0], {"aWins": 1, "bWins": 0, "ties": 0})
    assert (found["prompts"][0]["winner"], found["prompts"][0]["qualityWinner"]) == ("fast", "slow")


def test_weights_from_the_environment(three: Path) -> None:
    report = compared("a.jsonl", "c.jsonl", cwd=three, env={"COMPARE_LATENCY": "0", "COMPARE_RELIABILITY": "0"})
    assert report["meta"]["weights"] == {"quality": 0.5, "latency": 0.0, "reliability": 0.0}
    assert report["headToHead"]["prompts"][0]["scores"] == pytest.approx({"a": 0.45, "c": 0.25})


def test_a_trial_among_results_is_refused_where_results_are_promised(three: Path) -> None:
    write(three / "t.jsonl", result("p0", 1.0), {"id": "p1", "k": 1, "trials": []})
    done = ae_compare("a.jsonl", "t.jsonl", "--input-format", "capture", cwd=three)
    assert done.code == 1
    assert "t.jsonl:2: this is a trial, and results are expected here" in done.stderr


def test_progress_is_a_line_per_run(three: Path) -> None:
    done = ae_compare("a.jsonl", "c.jsonl", "--progress", cwd=three)
    assert done.stderr.splitlines() == ["ae-compare: [1/2] a: 10 results", "ae-compare: [2/2] c: 10 results"]


def test_empty_runs(tmp_path: Path) -> None:
    write(tmp_path / "a.jsonl")
    write(tmp_path / "b.jsonl")
    report = compared("a.jsonl", "b.jsonl", "-s", "statistical", cwd=tmp_path)
    assert report["meta"]["promptCount"] == 0
    assert report["reliability"]["a"]["completionRate"] is None
    assert report["headToHead"] == {
        "prompts": [],
        "pairwise": [{"runA": "a", "runB": "b", "n": 0, "aWins": 0, "bWins": 0, "ties": 0}],
        "quality": [{"runA": "a", "runB": "b", "n": 0, "aWins": 0, "bWins": 0, "ties": 0}],
    }


# --- the custom strategy ------------------------------------------------------------------------

JUDGE = """
def grade(asked):
    if asked["id"] == "p1":
        raise ValueError("no idea")
    order = sorted(asked["runs"], key=lambda label: -asked["runs"][label]["score"]["score"])
    ranks = [{"run": label, "rank": place, "score": 1 / place} for place, label in enumerate(order, 1)]
    return {"rankings": ranks, "reasoning": asked["input"]}
"""


@pytest.mark.parametrize("first", ["a.jsonl", "-"])
def test_a_comparison_grader(three: Path, first: str) -> None:
    (three / "judge.py").write_text(JUDGE)
    text = (three / "a.jsonl").read_text()
    done = ae_compare(first, "b.jsonl", "-g", "judge.py", "-j", 2, cwd=three, stdin=text)
    assert done.code == 1
    assert "ae-compare: p1: grader error: ValueError: no idea" in done.stderr
    report = json.loads(done.stdout)
    assert (report["meta"]["strategy"], report["meta"]["graderErrors"]) == ("custom", 1)
    won, lost, *_ = report["headToHead"]["prompts"]
    label = report["meta"]["runs"][0]
    assert (won["winner"], won["reasoning"], won["scores"]) == (label, "question", {label: 1.0, "b": 0.5})
    assert (lost["winner"], lost["scores"]) == (None, {label: None, "b": None})
    assert lost["graderError"].startswith("grader error: ValueError")
    assert report["headToHead"]["pairwise"][0]["aWins"] == 7
    assert report["statistics"]["pairs"][0]["n"] == 8


LONGEST = """
def grade(asked):
    order = sorted(asked["runs"], key=lambda label: -len(asked["runs"][label]["output"]))
    return {"rankings": [{"run": label, "rank": place} for place, label in enumerate(order, 1)]}
"""
FIRST = """
def grade(asked):
    return {"rankings": [{"run": label, "rank": place} for place, label in enumerate(asked["runs"], 1)]}
"""


@pytest.fixture
def ungraded(tmp_path: Path) -> Path:
    """Three runs that nobody graded; the answers of c are the longest."""
    for length, name in enumerate(("a", "b", "c"), 1):
        write(tmp_path / f"{name}.jsonl", *({"id": str(n), "input": "?", "output": "x" * length} for n in range(12)))
    (tmp_path / "longest.py").write_text(LONGEST)
    (tmp_path / "first.py").write_text(FIRST)
    return tmp_path


def test_a_judge_says_who_wins_where_nothing_is_graded(ungraded: Path) -> None:
    found = compared("a.jsonl", "b.jsonl", "-g", "longest.py", cwd=ungraded)["preference"]
    (pair,) = found["pairs"]
    assert (pair["aWins"], pair["bWins"], pair["better"], pair["verdict"]) == (0, 12, "b", "b wins")
    assert pair["p"] == pytest.approx(2 / 2**12) and found["orders"] == 2
    assert found["positionBias"]["consistent"] == 12 and "strengths" not in found
    report = ae_compare("a.jsonl", "b.jsonl", "-g", "longest.py", "-f", "markdown", cwd=ungraded).expect(0).stdout
    assert "the comparison grader prefers b: b on 12, a on 0 of 12 prompts, 0 ties (sign test, p 0.00049)." in report


def test_a_preference_is_the_verdict_and_the_gate_where_nothing_is_graded(ungraded: Path) -> None:
    (pair,) = compared("b.jsonl", "a.jsonl", "-g", "longest.py", cwd=ungraded)["statistics"]["pairs"]
    assert (pair["better"], pair["verdict"]) == ("b", "b better")
    assert pair["sentences"][0].startswith("Preferred: the comparison grader prefers b: b on 12, a on 0 of 12 prompts")
    worse = ae_compare("b.jsonl", "a.jsonl", "-g", "longest.py", "--fail-if-worse", cwd=ungraded).expect(1)
    assert "ae-compare: a is worse than b: the comparison grader prefers b" in worse.stderr
    for judge, proof, code in (("longest.py", False, 0), ("first.py", False, 0), ("first.py", True, 1)):
        args = ("a.jsonl", "b.jsonl", "-g", judge, "--fail-if-worse", *(["--require-proof"] if proof else []))
        ae_compare(*args, cwd=ungraded).expect(code)


def test_a_preference_for_a_place_is_a_tie(ungraded: Path) -> None:
    done = ae_compare("a.jsonl", "b.jsonl", "-g", "first.py", cwd=ungraded).expect(0)
    assert "biased by position: on 12 of 12 pairs it preferred the run shown first" in done.stderr
    report = json.loads(done.stdout)
    assert report["preference"]["pairs"][0]["ties"] == 12 and report["headToHead"]["pairwise"][0]["ties"] == 12
    assert report["preference"]["positionBias"]["firstPreferred"] == 12
    once = compared("a.jsonl", "b.jsonl", "-g", "first.py", "--one-order", cwd=ungraded)["preference"]
    assert (once["orders"], once["pairs"][0]["better"]) == (1, None) and "positionBias" not in once
    assert 0 < once["pairs"][0]["aWins"] < 12, "which run is shown first changes with the prompt"


def test_three_judged_runs_have_strengths(ungraded: Path) -> None:
    found = compared("a.jsonl", "b.jsonl", "c.jsonl", "-g", "longest.py", cwd=ungraded)["preference"]
    assert [row["run"] for row in found["strengths"]] == ["c", "b", "a"]
    assert [row["winRate"] for row in found["strengths"]] == [1.0, 0.5, 0.0]
    assert [pair["better"] for pair in found["pairs"]] == ["b", "c", "c"]
    assert all(pair["adjustedP"] == pytest.approx(3 * 2 / 2**12) for pair in found["pairs"])


def test_an_executable_comparison_grader_that_answers_nonsense(three: Path) -> None:
    script(three / "judge.sh", PASSES)
    done = ae_compare("a.jsonl", "c.jsonl", "-g", "./judge.sh", cwd=three)
    assert done.code == 1
    assert done.stderr.count("grader error") == 10
    assert '"rankings" is missing' in done.stderr
    strict = ae_compare("a.jsonl", "c.jsonl", "-g", "./judge.sh", "--strict", "-o", "out.json", cwd=three)
    assert (strict.code, strict.stderr.count("grader error")) == (1, 1)


def test_a_comparison_grader_that_is_not_there(three: Path) -> None:
    done = ae_compare("a.jsonl", "b.jsonl", "-g", "./nowhere", cwd=three)
    assert (done.code, done.stdout, done.stderr.count("\n")) == (2, "", 1)


def test_fail_if_worse_than_the_first(tmp_path: Path) -> None:
    runs = {"good": [1.0] * 12, "bad": [0.1, 0.4, 0.2] * 4, "once": [1.0] * 11 + [0.0]}
    for name, scores in runs.items():
        write(tmp_path / name, *(result(str(number), score) for number, score in enumerate(scores)))
    done = ae_compare("good", "bad", "--fail-if-worse", cwd=tmp_path)
    assert done.code == 1
    assert done.stderr == (
        "ae-compare: bad is worse than good: pass rate 100.0% → 0.0%, -100.0 points (95% interval -100.0 to -51.5), "
        "p 0.00024, 12 prompts\n"
    )
    assert json.loads(done.stdout)["statistics"]["pairs"][0]["better"] == "good"
    for args in (("bad", "good"), ("good", "once"), ("good", "--run", "copy:good")):
        done = ae_compare(*args, "--fail-if-worse", cwd=tmp_path)
        assert (done.code, done.stderr) == (0, ""), args


def test_the_median_is_the_one_of_ae_format(tmp_path: Path) -> None:
    """Durations that are missing, 0, negative or only to be had from start and end count alike in both tools."""
    timings: list[Json] = [
        {"total": 40},
        {"total": 0},
        {"total": -5000},  # the clock was set back: not known
        {"start": 90_000, "end": 10},
        {"start": 10, "end": 90_010},
        {"total": 25.5, "start": 0, "end": 9},
        {"start": 7},
        {"total": None},
        {},
        {"total": 1500},
    ]
    records = [{"id": f"p{i}", "output": "o", "timing": timing} for i, timing in enumerate(timings)]
    path = write(tmp_path / "awkward.jsonl", *records, {"id": "untimed", "output": "o"})
    latency = compared("--run", f"a:{path}", "--run", f"b:{path}", cwd=tmp_path)["performance"]["a"]["latency"]
    assert (latency["n"], latency["p50"], latency["p90"]) == (5, 40, 90_000)
    assert (
        "- **Duration**: p50 40 ms, p90 1m 30s, p99 1m 30s, over 5\n"
        in run("ae-format", "-f", "markdown", path).expect(0).stdout
    )


@pytest.mark.parametrize("field", ["total", "start", "firstResponse", "inputTokens"])
def test_a_number_too_large_for_a_float_is_refused(field: str, tmp_path: Path) -> None:
    huge = {"id": "huge", "output": "o", "timing": {field: 10**400}}
    path = write(tmp_path / "a.jsonl", huge, result("p", 1.0))
    done = ae_compare(path, path, cwd=tmp_path)
    assert (done.code, json.loads(done.stdout)["meta"]["promptCount"]) == (1, 1)
    assert f'a.jsonl:1: "timing.{field}"' in done.stderr


def test_debug_shows_what_the_grader_prints(tmp_path: Path) -> None:
    """As ae-grade does."""
    answer = "print(json.dumps({'rankings': [{'run': run, 'rank': 1, 'score': 1} for run in asked['runs']]}))"
    text = "import json, sys\nasked = json.load(sys.stdin)\nprint('on stderr', file=sys.stderr)\n"
    python_script(tmp_path / "noisy", text + answer)
    for name in ("a", "b"):
        write(tmp_path / f"{name}.jsonl", {"id": "1", "input": "x", "output": name, "trajectory": [], "timing": {}})
    args = ["a.jsonl", "b.jsonl", "-g", "./noisy", "--one-order", "-o", "out.json"]
    assert "ae-compare: grader noisy: on stderr" in run("ae-compare", *args, "--debug", cwd=tmp_path).messages
    assert "on stderr" not in run("ae-compare", *args, cwd=tmp_path).stderr
