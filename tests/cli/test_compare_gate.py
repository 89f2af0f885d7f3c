"""The gate of ae-compare, and what it takes for comparable: real processes, exit codes and the line that says why."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.tool import run, write

Json = dict[str, Any]


def graded(number: int, passed: bool, **fields: Any) -> Json:
    """A result with a grade."""
    grade = {"pass": passed, "score": float(passed)}
    return {"id": f"p{number}", "input": f"q{number}", "output": "x", "score": grade, **fields}


def results(*passed: bool, **fields: Any) -> list[Json]:
    return [graded(number, one, **fields) for number, one in enumerate(passed)]


BASELINE = results(*[True] * 36, *[False] * 4)
UNGRADED = [{key: value for key, value in record.items() if key != "score"} for record in BASELINE]

NOT_COMPARABLE: dict[str, tuple[list[Json], list[Json], str]] = {
    "empty": (BASELINE, [], "now cannot be compared with before: no prompt is graded in both"),
    "ungraded": (BASELINE, UNGRADED, "now cannot be compared with before: no prompt is graded in both"),
    "graders erred": (
        BASELINE,
        [{**record, "graderError": "judge: 500"} for record in UNGRADED],
        "now cannot be compared with before: no prompt is graded in both",
    ),
    "other prompts": (
        BASELINE,
        [{**record, "id": f"other-{record['id']}"} for record in BASELINE],
        "now cannot be compared with before: no prompt is graded in both",
    ),
    "a few": (
        BASELINE[:4],
        BASELINE[:4],
        "now cannot be compared with before: 4 prompts cannot show a difference, even if all change; 5 are needed",
    ),
    "no baseline": ([], BASELINE, "now cannot be compared with before: no prompt of before is graded"),
}


@pytest.mark.parametrize("name", NOT_COMPARABLE)
def test_the_gate_does_not_fail_open(name: str, tmp_path: Path) -> None:
    before, now, reason = NOT_COMPARABLE[name]
    write(tmp_path / "before.jsonl", *before)
    write(tmp_path / "now.jsonl", *now)
    done = run("ae-compare", "before.jsonl", "now.jsonl", "--fail-if-worse", cwd=tmp_path).expect(1)
    assert done.messages[-1].endswith(reason), done
    assert json.loads(done.stdout)["meta"]["runs"] == ["before", "now"], "the report is written all the same"


def test_less_may_be_compared_if_the_user_says_so(tmp_path: Path) -> None:
    write(tmp_path / "before.jsonl", *BASELINE)
    write(tmp_path / "now.jsonl", *BASELINE[:30])
    args = ("before.jsonl", "now.jsonl", "--fail-if-worse", "--missing", "skip", "-o", "report.json")
    run("ae-compare", *args, "--min-compared", "0.75", cwd=tmp_path).expect(0)
    done = run("ae-compare", *args, cwd=tmp_path).expect(1)
    assert done.messages[-1].endswith(
        "only 30 of the 40 prompts graded in before are graded in both (75.0%, and --min-compared requires 90%)"
    )


def test_proof_is_asked_for_with_a_margin(tmp_path: Path) -> None:
    write(tmp_path / "before.jsonl", *BASELINE)
    write(tmp_path / "now.jsonl", *BASELINE)
    args = ("before.jsonl", "now.jsonl", "-o", "report.json")
    run("ae-compare", *args, "--fail-if-worse", cwd=tmp_path).expect(0).says("now and before: equal on all 40 prompts")
    done = run("ae-compare", *args, "--require-proof", cwd=tmp_path).expect(1)
    _, reason = done.messages
    assert "now is not shown to be at most 5 points worse than before: pass rate 90.0% → 90.0%, +0.0 points" in reason
    assert reason.endswith("(95% interval -8.8 to +8.8), p 1, 40 prompts")
    run("ae-compare", *args, "--require-proof", "--margin", "0.1", cwd=tmp_path).expect(0)
    [pair] = json.loads((tmp_path / "report.json").read_text())["statistics"]["pairs"]
    assert "Margin: now is shown to be at most 10 points worse." in pair["sentences"]


def test_a_report_does_not_call_missing_prompts_graded(tmp_path: Path) -> None:
    write(tmp_path / "before.jsonl", *BASELINE)
    write(tmp_path / "now.jsonl", *BASELINE[:38])
    args = ("before.jsonl", "now.jsonl", "-f", "table")
    assert "now against before, 38 prompts graded in both" in run("ae-compare", *args, cwd=tmp_path).stdout
    shown = run("ae-compare", *args, "--fail-if-worse", cwd=tmp_path).stdout
    assert "now against before, 40 prompts, missing ones included" in shown


def test_the_measure_that_is_named_decides_headline_and_gate(tmp_path: Path) -> None:
    write(tmp_path / "before.jsonl", *(graded(i, True, score={"pass": True, "score": 0.9}) for i in range(40)))
    write(tmp_path / "now.jsonl", *(graded(i, True, score={"pass": True, "score": 0.6 + i / 400}) for i in range(40)))
    args = ("before.jsonl", "now.jsonl", "--fail-if-worse")
    done = run("ae-compare", *args, cwd=tmp_path).expect(0, stderr="")
    [pair] = json.loads(done.stdout)["statistics"]["pairs"]
    assert (pair["better"], pair["verdict"]) == (None, "equal on all 40 prompts")
    assert pair["score"]["better"] == "before", "reported beside it"
    assert pair["sentences"][1].startswith("Score: 0.900 → 0.649, -25.1 points (95% interval ")
    assert run("ae-compare", *args, "-f", "table", cwd=tmp_path).expect(0).stdout.startswith("EQUAL  now and before")
    done = run("ae-compare", *args, "--on", "score", cwd=tmp_path).expect(1)
    assert done.messages[-1].startswith("ae-compare: now is worse than before: score 0.900 → 0.649, -25.1 points")
    [pair] = json.loads(done.stdout)["statistics"]["pairs"]
    assert (pair["better"], pair["meanA"], pair["change"]) == ("before", pytest.approx(0.9), pytest.approx(-0.25125))
    assert pair["changeInterval"] == [-pair["interval"]["high"], -pair["interval"]["low"]]
    for form, headline in (
        ("table", "WORSE  now is worse than before."),
        ("markdown", "**now is worse than before.**"),
    ):
        assert headline in run("ae-compare", *args, "--on", "score", "-f", form, cwd=tmp_path).expect(1).stdout


def test_an_option_without_effect_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "a.jsonl", *BASELINE)
    for option, value, needs in (
        ("--min-compared", "0.5", "--fail-if-worse"),
        ("--seed", "7", "-s statistical"),
        ("-j", "2", "-g GRADER"),
        ("-t", "5s", "-g GRADER"),
        ("--stream", "", "-g GRADER"),
        ("--margin-exp", "0.1", "--on 'pass^K'"),
    ):
        args = ("a.jsonl", "b:a.jsonl", option, *([value] if value else []))
        done = run("ae-compare", *args, cwd=tmp_path).expect(2)
        assert f"has no effect without {needs}" in done.stderr, option
    for on, message in (
        ("pass^K", "needs trials (ae-trials)"),
        ("speed", "is not a measure; choose passes, score, pass^K"),
    ):
        assert message in run("ae-compare", "a.jsonl", "b:a.jsonl", "--on", on, cwd=tmp_path).expect(2).stderr


def test_the_same_id_with_another_input_is_another_prompt(tmp_path: Path) -> None:
    now = [{**record, "input": "changed"} if record["id"] in ("p1", "p7") else record for record in BASELINE]
    write(tmp_path / "before.jsonl", *BASELINE)
    write(tmp_path / "now.jsonl", *now)
    done = run("ae-compare", "before.jsonl", "now.jsonl", cwd=tmp_path).expect(0)
    assert "now: left out 2 prompts with a different input: p1, p7 (--ignore-input" in done.stderr
    assert len(done.messages) == 1
    report = json.loads(done.stdout)
    assert report["meta"]["changedInput"] == {"now": ["p1", "p7"]}
    assert report["meta"]["missing"] == {}
    assert report["statistics"]["pairs"][0]["n"] == 38
    done = run("ae-compare", "before.jsonl", "now.jsonl", "--ignore-input", cwd=tmp_path).expect(0, stderr="")
    assert json.loads(done.stdout)["statistics"]["pairs"][0]["n"] == 40


def test_one_turn_is_the_same_input_as_a_string_or_a_list(tmp_path: Path) -> None:
    write(tmp_path / "before.jsonl", *BASELINE)
    write(tmp_path / "now.jsonl", *({**record, "input": [record["input"]]} for record in BASELINE))
    run("ae-compare", "before.jsonl", "now.jsonl", cwd=tmp_path).expect(0, stderr="")


def test_categories_and_clusters_by_any_key(tmp_path: Path) -> None:
    def records(*fail: int) -> list[Json]:
        notes = [{"task": {"repo": f"r{i // 4}"}, "category": "ui" if i % 2 else "api"} for i in range(40)]
        return [graded(i, i not in fail, metadata=note) for i, note in enumerate(notes)]

    write(tmp_path / "a.jsonl", *records())
    write(tmp_path / "b.jsonl", *records(1, 3, 5, 7))
    plain = json.loads(run("ae-compare", "a.jsonl", "b.jsonl", cwd=tmp_path).expect(0).stdout)
    assert plain["meta"]["by"] == "category"
    assert list(plain["byCategory"]) == ["api", "ui"]
    interface = plain["byCategory"]["ui"]
    assert (interface["runs"]["b"]["n"], interface["runs"]["b"]["passRate"]) == (20, 0.8)
    assert interface["runs"]["b"]["interval"]["method"] == "wilson"
    assert interface["pairs"][0]["adjustedP"] == 2 * interface["pairs"][0]["p"] == pytest.approx(2 * 0.0625)
    args = ("a.jsonl", "b.jsonl", "--by", "metadata.task.repo", "--cluster-by", "task.repo")
    grouped = json.loads(run("ae-compare", *args, cwd=tmp_path).expect(0).stdout)
    assert (grouped["meta"]["by"], grouped["meta"]["clusterBy"]) == ("task.repo", "task.repo")
    assert len(grouped["byCategory"]) == 10
    alone, together = (found["statistics"]["pairs"][0]["passRate"]["interval"] for found in (plain, grouped))
    assert together["high"] - together["low"] > alone["high"] - alone["low"]
    markdown = run("ae-compare", *args[:2], "-f", "markdown", cwd=tmp_path).expect(0).stdout
    assert "## By category" in markdown and "| ui | b | 80.0% |" in markdown


def test_tokens_and_cost_are_compared_and_estimates_say_so(tmp_path: Path) -> None:
    def records(scale: float, **more: float) -> list[Json]:
        used = [{"inputTokens": 900 + 10 * i, "outputTokens": round(100 * scale) + i % 3} for i in range(20)]
        return [
            graded(i, True, timing={**one, **more}, metadata={"model": "gpt-4o-mini"}) for i, one in enumerate(used)
        ]

    write(tmp_path / "a.jsonl", *records(1.0, costUsd=0.001))
    write(tmp_path / "b.jsonl", *records(2.0))
    report = json.loads(run("ae-compare", "a.jsonl", "b.jsonl", cwd=tmp_path).expect(0).stdout)
    assert report["usage"]["a"]["cost"]["total"] == pytest.approx(0.02)
    assert "estimated" not in report["usage"]["a"]["cost"]
    pytest.importorskip("genai_prices", reason="the extra prices")
    assert report["usage"]["b"]["cost"]["estimated"] == 20
    tokens = report["statistics"]["pairs"][0]["resources"]["tokens"]
    assert tokens["n"] == 20
    assert tokens["ratio"] == pytest.approx((995 + 101) / (995 + 201), abs=0.01)
    assert tokens["interval"]["low"] < tokens["ratio"] < tokens["interval"]["high"]
    assert "estimated at list prices" in report["statistics"]["pairs"][0]["sentences"][-1]
    markdown = run("ae-compare", "a.jsonl", "b.jsonl", "-f", "markdown", cwd=tmp_path).expect(0).stdout
    assert "Estimated costs are tokens times the model's list price" in markdown


def test_trials_of_unequal_k_are_gated_at_the_smaller_one(tmp_path: Path) -> None:
    def records(k: int, fails: int) -> list[Json]:
        entries = [
            [{"trialNum": j + 1, "output": "", "pass": (i + j) % k >= fails} for j in range(k)] for i in range(30)
        ]
        return [{"id": f"p{i}", "input": "q", "k": k, "trials": trials} for i, trials in enumerate(entries)]

    write(tmp_path / "a.jsonl", *records(5, 1))
    write(tmp_path / "b.jsonl", *records(10, 2))
    done = run("ae-compare", "a.jsonl", "b.jsonl", "--fail-if-worse", cwd=tmp_path).expect(0)
    [pair] = json.loads(done.stdout)["statistics"]["pairs"]
    every = pair["passExp"]
    # Of 5 trials 4 pass always: pass^5 is 0. Of 10 trials 8 pass: C(8, 5) / C(10, 5) = 2/9.
    assert (every["k"], every["n"], every["meanA"], every["meanB"]) == (5, 30, 0.0, pytest.approx(2 / 9))
    assert (pair["meanA"], pair["meanB"]) == (pytest.approx(0.8), pytest.approx(0.8))
