"""ae-gate: thresholds on results and trials; what is not known does not pass."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from agenteval.statistics.samples import pass_exp
from tests.support.tool import Done, Record, jsonl, run, write


def graded(number: int, passed: bool = True, **fields: object) -> Record:
    timing = {"start": 0, "end": 100 * (number + 1), "inputTokens": 90, "outputTokens": 10, "costUsd": 0.5}
    return {
        "id": f"p{number}",
        "output": "x",
        "score": {"pass": passed, "score": 0.7 if passed else 0.2},
        "timing": timing,
        "metadata": {"category": "even" if number % 2 == 0 else "odd"},
        **fields,
    }


RESULTS = [graded(number, number < 8) for number in range(10)]
FAILED = {"id": "f", "output": "", "errors": ["exited with code 1"]}
ERRED = {"id": "e", "output": "x", "graderError": "g: exit 2"}
PASSES = (4, 4, 3, 2)


def trials(id: str, passes: int) -> Record:
    entries = [{"trialNum": number, "output": "", "pass": number <= passes} for number in range(1, 5)]
    return {"id": id, "input": "q", "k": 4, "trials": entries}


TRIALS = [trials(f"t{at}", passes) for at, passes in enumerate(PASSES)]


def gate(*args: object, records: list[Record] | None = None) -> Done:
    return run("ae-gate", *args, stdin=jsonl(*(RESULTS if records is None else records)))


@pytest.mark.parametrize(
    ("condition", "code"),
    [
        ("--min passRate=0.8", 0),
        ("--min passRate=0.81", 1),
        ("--max passRate=0.8", 0),
        ("--min score=0.6", 0),  # (8 * 0.7 + 2 * 0.2) / 10, not quite 0.6 in floats
        ("--min score=0.61", 1),
        ("--max errorRate=0", 0),
        ("--max costUsd=5", 0),
        ("--max costUsd=4.99", 1),
        ("--max tokens=1000", 0),
        ("--max tokens=999", 1),
        ("--max p50=600", 0),
        ("--max p50=599", 1),
        ("--max p90=1s", 0),
        ("--max p90=0.9s", 1),
        ("--max ungraded=0", 0),
        ("--max ungradedRate=0", 0),
        ("--max graderErrors=0", 0),
        ("--min graded=10", 0),
        ("--min graded=11", 1),
        ("--min passExpK=0.1", 1),  # results have no trials
        ("--min passRate=0.5 --max costUsd=1", 1),
    ],
)
def test_conditions_on_results(condition: str, code: int) -> None:
    done = gate(*condition.split()).expect(code, stderr="")
    assert len(done.stdout.splitlines()) == condition.count("--")
    assert ("FAIL" in done.stdout) == bool(code)


def test_a_line_has_figure_limit_and_interval() -> None:
    done = gate("--min", "passRate=0.9", "--max", "errorRate=0.02").expect(1)
    first, second = done.stdout.splitlines()
    assert first.startswith("FAIL  passRate >= 0.9: 0.8 (8 of 10 passed; 95 % interval 0.49")
    assert second.startswith("pass  errorRate <= 0.02: 0 (0 of 10 agents failed; 95 % interval 0 to 0.27")


@pytest.mark.parametrize(
    ("condition", "code"),
    [
        ("--min passRate=0.49", 0),  # Wilson: 0.4902 to 0.9433
        ("--min passRate=0.5", 1),
        ("--max passRate=0.95", 0),
        ("--max passRate=0.9", 1),
        ("--max errorRate=0.2", 1),
        ("--max costUsd=5", 0),  # a total is what it is
        ("--max p90=9999", 1),  # ten values are too few for an interval
    ],
)
def test_confident_takes_the_bound_of_the_interval(condition: str, code: int) -> None:
    gate(*condition.split(), "--confident").expect(code)


def test_failed_agents_and_grader_errors_count() -> None:
    records = [*RESULTS, FAILED, ERRED]
    done = gate("--max", "errorRate=0.05", "--max", "graderErrors=0", "--max", "ungradedRate=0.05", records=records)
    assert [line.partition(":")[2].partition(" (")[0] for line in done.expect(1).stdout.splitlines()] == [
        " 0.0833333",
        " 1",
        " 0.0833333",
    ]
    assert "8 of 11 passed" in gate("--min", "passRate=0.1", records=records).expect(0).stdout


@pytest.mark.parametrize("name", ["costUsd", "tokens", "p90"])
def test_what_is_not_known_does_not_pass(name: str) -> None:
    records = [{key: value for key, value in record.items() if key != "timing"} for record in RESULTS]
    done = gate("--max", f"{name}=1e9", records=records).expect(1)
    assert done.stdout.startswith(f"FAIL  {name} <= 1e+09: not known: ")


@pytest.mark.parametrize("records", [[], [{"id": "a", "output": "x"}], [FAILED], [ERRED]])
@pytest.mark.parametrize("condition", ["--min passRate=0", "--max errors=99"])
def test_nothing_graded_does_not_pass(records: list[Record], condition: str) -> None:
    gate(*condition.split(), records=records).expect(1).says("nothing is graded")


@pytest.mark.parametrize(
    ("args", "says"),
    [
        ("--min pass=0.8", "there is no figure 'pass'; known are passRate, score, errorRate"),
        ("--max passAt0=1", "there is no figure 'passAt0'"),
        ("--min passRate", "write passRate=VALUE"),
        ("--min passRate=", "is not a number"),
        ("--min passRate=nan", "is not a number"),
        ("--max p90=5x", "is not a time"),
        ("", "no condition"),
    ],
)
def test_a_wrong_condition_is_a_usage_error(args: str, says: str) -> None:
    done = gate(*args.split()).expect(2)
    done.says(says)
    assert done.out == b""


def test_trials_are_estimated_without_bias_and_clustered() -> None:
    args = ["--min", "passRate=0.8", "--min", "passExp2=0.7", "--min", "passExpK=0.5", "--min", "passAtK=1"]
    lines = gate(*args, "--min", "passAt5=0", records=TRIALS).expect(1).stdout.splitlines()
    assert lines[0].startswith("pass  passRate >= 0.8: 0.8125 (13 of 16 passed; ")
    two = sum(pass_exp(4, passed, 2) or 0 for passed in PASSES) / 4
    assert f": {two:.6g} (over 4 prompts; " in lines[1]
    assert ": 0.5 (over 4 prompts; " in lines[2] and ": 1 (over 4 prompts; " in lines[3]
    assert lines[4] == "FAIL  passAt5 >= 0: not known: no prompt has 5 graded trials"
    wilson = "0.5699"  # the lower bound if 16 trials were independent
    assert wilson not in lines[0]


def test_by_category() -> None:
    done = gate("--min", "passRate=0.8", "--by", "metadata.category").expect(0)
    assert re.findall(r"passRate >= 0.8(?: \[(\w+)\])?: ([\d.]+)", done.stdout) == [
        ("", "0.8"),
        ("even", "0.8"),
        ("odd", "0.8"),
    ]
    worse = [*RESULTS, graded(10, False)]
    done = gate("--min", "passRate=0.7", "--by", "category", records=worse).expect(1)
    assert "FAIL  passRate >= 0.7 [even]: 0.666667" in done.stdout and "pass  passRate >= 0.7: " in done.stdout


def test_the_job_summary_is_appended(tmp_path: Path) -> None:
    summary = tmp_path / "summary.md"
    summary.write_text("# Job\n")
    file = write(tmp_path / "a|b.jsonl", *RESULTS)
    run("ae-gate", file, "--min", "passRate=0.8", "--summary", summary).expect(0)
    run("ae-gate", file, "--min", "passRate=0.9", "--summary", summary).expect(1)
    text = summary.read_text()
    assert text.startswith("# Job\n### a\\|b.jsonl: gate passed\n")
    assert "| ✅ | `passRate >= 0.8` | 0.8 | 0.49" in text and "| ❌ | `passRate >= 0.9` | 0.8 |" in text
    assert text.count("- **Pass rate**: 8/10 (80.0%)") == 2


def test_a_refused_line_does_not_pass() -> None:
    done = run("ae-gate", "--min", "passRate=0.5", stdin=jsonl(*RESULTS, "{")).expect(1)
    assert done.stdout.startswith("pass  passRate") and "stdin:11: " in done.stderr
