"""ae-score as the process it is: evaluation.json, the other forms, criteria and the exit code."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.support.tool import Record, jsonl, run, write

SUMMARY = {
    "avg_hit_rate",
    "avg_mrr",
    "avg_judge_score",
    "avg_combined_score",
    "best_combined_score",
    "avg_num_tokens",
    "total_tokens",
}


def question(id: str, hit_rate: float, mrr: float, judged: float, tokens: int = 2500, **more: Any) -> Record:
    """A record that three graders have seen, as the recipe in examples/wikipedia makes them."""
    judge = {"overall_score": judged, "judge_model": "offline", "input_tokens": 0, "output_tokens": 0}
    outcomes: Record = {"tools": {"calls": {}}, "sources": {"hit_rate": hit_rate, "mrr": mrr}, "judge": judge}
    return {
        "id": id,
        "input": f"What of {id}?",
        "output": "x",
        "trajectory": [],
        "metadata": {"agent": "wikiagent", "model": "offline", "search_mode": "evaluation"},
        "timing": {"start": 0, "end": 1, "inputTokens": tokens - 100, "outputTokens": 100},
        "score": {"pass": True, "score": 0.5},
        "scores": {name: {"pass": True, "score": 0.5, "outcome": outcome} for name, outcome in outcomes.items()},
        **more,
    }


GOOD = [question("a", 1, 1, 0.85), question("b", 1, 0.5, 1.0, 1000), question("c", 0, 0, 0.5, 1500)]


def evaluated(*args: object, records: list[Record] = GOOD, code: int = 0, says: str = "") -> Record:
    done = run("ae-score", *args, stdin=jsonl(*records)).expect(code)
    assert says in done.stderr and (says or not done.stderr), done
    found: Record = json.loads(done.stdout)
    return found


def test_evaluation_has_the_seeds_form() -> None:
    found = evaluated("--meta", "ground_truth_file=ground_truth.json", "--meta", "run=7")
    assert list(found) == ["timestamp", "num_questions", "summary", "metadata", "results"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", found["timestamp"])
    assert found["num_questions"] == 3
    combined = [0.4956309110618505, 1.0, 0.0]
    assert {name: found["summary"][name] for name in SUMMARY} == {
        "avg_hit_rate": pytest.approx(2 / 3),
        "avg_mrr": 0.5,
        "avg_judge_score": pytest.approx(2.35 / 3),
        "avg_combined_score": pytest.approx(sum(combined) / 3),
        "best_combined_score": 1.0,
        "avg_num_tokens": pytest.approx(5000 / 3),
        "total_tokens": 5000,
    }
    assert found["metadata"] == {
        "ground_truth_file": "ground_truth.json",
        "search_mode": "evaluation",
        "judge_model": "offline",
        "model": "offline",
        "alpha": 2.0,
        "beta": 0.5,
        "gamma": 1.5,
        "run": "7",
    }
    assert found["results"][0] == {
        "question": "What of a?",
        "hit_rate": 1.0,
        "mrr": 1.0,
        "judge_score": 0.85,
        "num_tokens": 2500,
        "combined_score": combined[0],
        "id": "a",
        "failed": False,
    }


def test_exponents() -> None:
    found = evaluated("--alpha", "1", "--beta", "0", "--gamma", "2")
    assert [result["combined_score"] for result in found["results"]] == [pytest.approx(0.7225), 1.0, 0.0]
    assert [found["metadata"][name] for name in ("alpha", "beta", "gamma")] == [1, 0, 2]


@pytest.mark.parametrize(
    "args",
    ["--alpha -1", "--beta nan", "--gamma 11", "--min speed=1", "--min hit_rate", "--meta x", "--meta alpha=1"]
    + ["--criteria missing.json", "-f csv"],
)
def test_options_that_make_no_sense(args: str, tmp_path: Path) -> None:
    (tmp_path / "out.json").write_text("precious")
    done = run("ae-score", *args.split(), "-o", "out.json", stdin=jsonl(*GOOD), cwd=tmp_path).expect(2)
    done.says(args.split()[0] if "missing" not in args else "missing.json")
    assert (tmp_path / "out.json").read_text() == "precious"


# --- what is missing ----------------------------------------------------------------------------


def test_a_failed_question_counts_and_is_seen() -> None:
    failed = question("d", 0, 0, 0, errors=["timed out after 60 s"])
    found = evaluated(records=[*GOOD, failed], says="the agent failed on 1 of 4 questions (d)")
    assert found["num_questions"] == 4 and found["summary"]["avg_hit_rate"] == 0.5
    assert found["summary"]["counts"]["failed"] == 1
    assert found["results"][3]["failed"] and found["results"][3]["errors"] == ["timed out after 60 s"]


def test_a_grader_error_is_no_zero() -> None:
    broken = question("d", 1, 1, 1, graderError=True)
    broken["scores"]["judge"] = {"pass": False, "score": 0, "reasoning": "grader error: 429", "graderError": True}
    found = evaluated(records=[*GOOD, broken], says="a grader erred on 1 of 4 questions (d)")
    assert found["results"][3]["judge_score"] is None and found["results"][3]["grader_errors"] == ["judge"]
    counts = found["summary"]["counts"]
    assert (counts["judge_score"], counts["combined_score"], counts["hit_rate"]) == (3, 3, 4)
    assert found["summary"]["avg_judge_score"] == pytest.approx(2.35 / 3)


def test_no_tokens_above_zero_is_said() -> None:
    found = evaluated(records=[*GOOD, question("d", 1, 1, 1, tokens=0)], says="not above 0 on 1 of 4 questions (d)")
    assert found["results"][3]["combined_score"] is None
    assert found["summary"]["counts"]["combined_score"] == 3


def test_tokens_that_the_agent_does_not_report_are_counted() -> None:
    silent = question("d", 1, 1, 1, timing={"start": 0, "end": 1}, input="How many tokens are in this question?")
    found = evaluated(records=[silent], says="no tokens reported for 1 of 1 questions (d)")
    (result,) = found["results"]
    assert result["tokens_approximate"] and 5 <= result["num_tokens"] <= 20
    assert result["combined_score"] == pytest.approx((result["num_tokens"] / 1000) ** -0.5)


def test_a_missing_token_count_is_not_zero() -> None:
    half = question("d", 1, 1, 1, timing={"start": 0, "end": 1, "inputTokens": 900})
    found = evaluated(records=[*GOOD, half], says="only part of the tokens is reported for 1 of 4 questions (d)")
    assert (found["results"][3]["num_tokens"], found["results"][3]["combined_score"]) == (None, None)
    summary = found["summary"]
    assert (summary["avg_num_tokens"], summary["total_tokens"]) == (pytest.approx(5000 / 3), 5000)
    counts = summary["counts"]
    assert (counts["num_tokens"], counts["combined_score"], counts["tokens_missing"]) == (3, 3, 1)


@pytest.mark.parametrize("timing", [{"total": -5}, {"start": 10, "end": 5}])
def test_a_negative_duration_is_reported(timing: Record) -> None:
    back = question("d", 1, 1, 1, timing={"inputTokens": 900, "outputTokens": 100, **timing})
    found = evaluated(records=[*GOOD, back], says="the duration is negative on 1 of 4 questions (d)")
    assert found["results"][3]["negative_duration"] and found["summary"]["counts"]["negative_durations"] == 1


def test_results_that_nobody_graded_say_what_to_do() -> None:
    plain = {name: value for name, value in GOOD[0].items() if name not in ("score", "scores")}
    found = evaluated(records=[plain], says="ae-grade -g sources=ae-grader-sources")
    assert found["summary"]["avg_hit_rate"] is None and found["results"][0]["combined_score"] is None


def test_records_that_disagree_are_told(tmp_path: Path) -> None:
    other = question("d", 1, 1, 1, metadata={"search_mode": "research"})
    found = evaluated(records=[*GOOD, other], says="the records disagree on search_mode (evaluation, research")
    assert found["metadata"]["search_mode"] is None
    assert evaluated("--meta", "search_mode=both", records=[*GOOD, other])["metadata"]["search_mode"] == "both"


def test_what_is_refused_costs_only_itself(tmp_path: Path) -> None:
    bad = question("bad", 7, 1, 1)
    write(tmp_path / "graded.jsonl", GOOD[0], "{broken", GOOD[0], bad, GOOD[1])
    done = run("ae-score", "graded.jsonl", cwd=tmp_path).expect(1)
    assert [result["id"] for result in json.loads(done.stdout)["results"]] == ["a", "b"]
    assert [line.partition(": ")[2][:16] for line in done.messages] == [f"graded.jsonl:{n}: " for n in (2, 3, 4)], done
    strict = run("ae-score", "graded.jsonl", "--strict", cwd=tmp_path).expect(1)
    assert strict.out == b"", strict


# --- criteria -----------------------------------------------------------------------------------


def test_criteria_that_are_met() -> None:
    args = ("--min", "hit_rate=0.6", "--min", "avg_mrr=0.5", "--min", "best_combined_score=1")
    done = run("ae-score", *args, stdin=jsonl(*GOOD)).expect(0)
    assert [line.partition(": ")[2] for line in done.messages] == [
        "met: avg_hit_rate 0.667 >= 0.6, over 3 of 3 questions",
        "met: avg_mrr 0.500 >= 0.5, over 3 of 3 questions",
        "met: best_combined_score 1.000 >= 1, over 3 of 3 questions",
    ]
    assert [each["met"] for each in json.loads(done.stdout)["criteria"]] == [True] * 3


def test_criteria_that_are_not_met() -> None:
    done = run("ae-score", "--criteria", "minimum", stdin=jsonl(*GOOD)).expect(1)
    found = json.loads(done.stdout)
    assert [(each["name"], each["met"]) for each in found["criteria"]] == [
        ("avg_hit_rate", False),
        ("avg_mrr", False),
        ("avg_judge_score", True),
    ]
    assert [line.split(": ")[1] for line in done.messages] == ["not met", "not met", "met"]
    assert len(found["results"]) == 3, "the evaluation is there all the same"


def test_criteria_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "criteria.json").write_text('{"avg_mrr": 0.5, "hit_rate": 0.6}')
    found = run("ae-score", "--criteria", "criteria.json", stdin=jsonl(*GOOD), cwd=tmp_path).expect(1)
    assert [(each["operator"], each["met"]) for each in json.loads(found.stdout)["criteria"]] == [
        (">", False),
        (">", True),
    ]


@pytest.mark.parametrize("text", ['{"speed": 1}', '{"mrr": "x"}', '{"mrr": null}', "[]", "{", '{"mrr": true}'])
def test_criteria_of_a_file_that_are_none(text: str, tmp_path: Path) -> None:
    (tmp_path / "criteria.json").write_text(text)
    run("ae-score", "--criteria", "criteria.json", stdin="", cwd=tmp_path).expect(2).says("criteria.json: ")


def test_a_value_that_nobody_has_meets_nothing() -> None:
    done = run("ae-score", "--min", "judge_score=0", stdin="").expect(1)
    assert json.loads(done.stdout)["criteria"][0]["value"] is None
    assert "not met: avg_judge_score unknown >= 0, over 0 of 0 questions" in done.stderr


# --- other forms --------------------------------------------------------------------------------


def test_markdown_where_the_file_ends_so(tmp_path: Path) -> None:
    failed = question("d", 0, 0, 0, errors=["no | net"])
    run("ae-score", "-o", "evaluation.md", stdin=jsonl(*GOOD, failed), cwd=tmp_path).expect(0)
    text = (tmp_path / "evaluation.md").read_text()
    assert text.startswith("# Evaluation\n\n- Questions: 4\n")
    assert "| Hit rate | 0.500 | 4 |" in text
    assert "- the agent failed on 1 of 4 questions (d)" in text
    assert "| What of d? (agent failed: no \\| net) | 0.000 |" in text
    widths = {line.count(" | ") for line in text.split("## Questions\n\n")[1].replace("\\|", "").splitlines() if line}
    assert widths == {5}, "every row has every cell"


@pytest.mark.parametrize("columns", [60, 200])
def test_table_fits_the_terminal(columns: int) -> None:
    long = question("d", 1, 1, 1, input="Why " * 200 + "\x1b[2J")
    done = run("ae-score", "-f", "table", stdin=jsonl(*GOOD, long), env={"COLUMNS": str(columns)}).expect(0, stderr="")
    head, _, rows = done.stdout.partition("\n\n")
    assert "Hit rate             0.750 over 4" in head
    lines = rows.splitlines()
    assert lines[0].split() == ["HIT", "MRR", "JUDGE", "TOKENS", "COMBINED", "QUESTION"]
    assert len(lines) == 5 and max(map(len, lines)) == columns, done
    assert "\x1b" not in done.stdout


def test_every_form_takes_nothing() -> None:
    for form, shown in (
        ("json", '"num_questions": 0'),
        ("table", "Questions            0\n"),
        ("markdown", "Questions: 0\n"),
    ):
        assert shown in run("ae-score", "-f", form, stdin="").expect(0, stderr="").stdout


# --- the whole way ------------------------------------------------------------------------------


def test_from_results_to_the_evaluation(tmp_path: Path) -> None:
    """What the suite's own graders say, as ae-grade writes it down, is what is scored."""
    cited = [["Nudge theory"], ["Marketing", "Nudge theory"], ["Marketing"]]
    results = [
        {
            "id": f"q{number}",
            "input": f"question {number}",
            "output": json.dumps({"answer": "x", "sources_used": titles}),
            "trajectory": [],
            "expected_sources": ["Nudge theory"],
            "timing": {"start": 0, "end": 1, "inputTokens": 900, "outputTokens": 100},
        }
        for number, titles in enumerate(cited)
    ]
    (tmp_path / "judge.py").write_text(
        "def grade(record):\n    return {'pass': True, 'score': 1, 'outcome': {'overall_score': 0.25}}\n"
    )
    write(tmp_path / "results.jsonl", *results)
    graders = ("-g", "sources=ae-grader-sources", "-g", "tools=ae-grader-tools", "-g", "judge=judge.py")
    graded = run("ae-grade", "results.jsonl", *graders, cwd=tmp_path).expect(0, stderr="")
    found = json.loads(run("ae-score", stdin=graded.out).expect(0, stderr="").stdout)
    assert [result["hit_rate"] for result in found["results"]] == [1, 1, 0]
    assert [result["mrr"] for result in found["results"]] == [1, 0.5, 0]
    assert [result["combined_score"] for result in found["results"]] == [0.125, 0.125, 0]
    alone = run("ae-grade", "results.jsonl", "-g", "ae-grader-sources", cwd=tmp_path).expect(0)
    summary = json.loads(run("ae-score", stdin=alone.out).expect(0).stdout)["summary"]
    assert (summary["avg_hit_rate"], summary["avg_mrr"]) == (pytest.approx(2 / 3), 0.5)


# --- trials ---------------------------------------------------------------------------------------


def test_each_trial_is_a_question_of_its_own() -> None:
    made = [question("x", 1, 1, 1.0, 1000), question("x", 0, 0, 0.5, 3000)]
    fields = ("output", "timing", "scores")
    trials = [
        {"trialNum": n, **{field: one[field] for field in fields}, "pass": True, "score": 0.5}
        for n, one in enumerate(made, 1)
    ]
    record = {"id": "x", "input": "What of x?", "k": 2, "trials": trials, "metadata": made[0]["metadata"]}
    found = evaluated("--criteria", "minimum", records=[record], code=1, says="avg_hit_rate 0.500")
    assert [one["id"] for one in found["results"]] == ["x#1", "x#2"]
    assert (found["num_questions"], found["summary"]["avg_hit_rate"]) == (2, 0.5)
    assert [one["num_tokens"] for one in found["results"]] == [1000, 3000]
    assert found["metadata"]["search_mode"] == "evaluation" and found["metadata"]["judge_model"] == "offline"


def test_no_judge_tokens_counts_only_the_agents() -> None:
    record = question("x", 1, 1, 1.0, 1000)
    record["scores"]["judge"]["outcome"] |= {"input_tokens": 2900, "output_tokens": 100}
    with_judge, without = evaluated(records=[record]), evaluated("--no-judge-tokens", records=[record])
    assert [found["results"][0]["num_tokens"] for found in (with_judge, without)] == [4000, 1000]
    assert [found["results"][0]["combined_score"] for found in (with_judge, without)] == [0.5, 1.0]
