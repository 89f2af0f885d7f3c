"""ae-gate: thresholds on results and trials; what is not known does not pass."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from agenteval.statistics.samples import pass_exp
from tests.support.tool import Done, Record, jsonl, on_terminal, run, write


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
    assert first.startswith("FAIL  passRate 0.8 ≥ 0.9 (8 of 10 passed, all graded; 95% interval 0.49")
    assert second.startswith("pass  errorRate 0 ≤ 0.02 (0 of 10 agents failed; 95% interval 0 to 0.27")


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
    first, *lines = done.expect(1).stdout.splitlines()
    assert first == "FAIL  gradedRate 0.917 ≥ 0.95 (11 of 12 graded: 1 grader error)"
    assert [line.split()[2] for line in lines] == ["0.0833", "1", "0.0833"]
    args = ["--min", "passRate=0.1", "--min-graded", "0.9"]
    assert "8 of 11 passed, 11 of 12 graded: 1 grader error;" in gate(*args, records=records).expect(0).stdout


@pytest.mark.parametrize("name", ["costUsd", "tokens", "p90"])
def test_what_is_not_known_does_not_pass(name: str) -> None:
    records = [{key: value for key, value in record.items() if key != "timing"} for record in RESULTS]
    done = gate("--max", f"{name}=1e9", records=records).expect(1)
    assert re.match(rf"FAIL  {name} ≤ (\$?1,000,000,000|1,000,000 s): unknown \(", done.stdout)


@pytest.mark.parametrize("records", [[], [{"id": "a", "output": "x"}], [FAILED], [ERRED]])
@pytest.mark.parametrize("condition", ["--min passRate=0", "--max errors=99"])
def test_nothing_graded_does_not_pass(records: list[Record], condition: str) -> None:
    gate(*condition.split(), records=records).expect(1).says("nothing is graded")


@pytest.mark.parametrize(
    ("args", "says"),
    [
        ("--min pass=0.8", "there is no figure 'pass'; did you mean pass"),
        ("--max pass@0=1", "there is no figure 'pass@0'"),
        ("--min passAt2=0.5", "there is no figure 'passAt2': write pass@2=0.5"),
        ("--min passExp3=0.5", "write pass^3=0.5"),
        ("--min passRate=80", "passRate is between 0 and 1: write passRate=0.8"),
        ("--max errorRate=2.5", "write errorRate=0.025"),
        ("--min pass^K=60", "write pass^K=0.6"),
        ("--min score=-1", "score is between 0 and 1"),
        ("--min passRate=0.8 --min-graded 95", "write 0.95"),
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
    args = ["--min", "passRate=0.8", "--min", "pass^2=0.7", "--min", "pass^K=0.5", "--min", "pass@K=1"]
    lines = gate(*args, "--min", "pass@5=0", records=TRIALS).expect(1).stdout.splitlines()
    assert lines[0].startswith("pass  passRate 0.812 ≥ 0.8 (13 of 16 passed, all graded; ")
    two = sum(pass_exp(4, passed, 2) or 0 for passed in PASSES) / 4
    assert f" {two:.3g} ≥ 0.7 (over 4 prompts, all graded; " in lines[1]
    assert " 0.5 ≥ 0.5 (over 4 prompts, " in lines[2] and " 1 ≥ 1 (over 4 prompts, " in lines[3]
    assert lines[4] == "FAIL  pass@5 ≥ 0: unknown (no prompt has 5 graded trials)"
    wilson = "0.5699"  # the lower bound if 16 trials were independent
    assert wilson not in lines[0]


def value(line: str) -> float:
    return float(line.split()[2])


def test_a_figure_is_called_what_the_record_calls_it() -> None:
    records = [{**trials(f"t{passes}", passes), "passAtK": 0.25, "passExpK": 0.125} for passes in (1, 2, 3)]
    lines = gate("--min", "passAtK=0", "--min", "passExpK=0", records=records).expect(0).stdout.splitlines()
    assert [value(line) for line in lines] == [0.25, 0.125]


def test_without_the_fields_the_plug_in_values_are_computed() -> None:
    args = ["--min", "passAtK=0", "--min", "passExpK=0", "--min", "pass^K=0"]
    at, exp, unbiased = map(value, gate(*args, records=TRIALS).expect(0).stdout.splitlines())
    rates = [passes / 4 for passes in PASSES]
    assert at == pytest.approx(sum(1 - (1 - rate) ** 4 for rate in rates) / 4, abs=5e-4)
    assert exp == pytest.approx(sum(rate**4 for rate in rates) / 4, abs=5e-4)
    assert unbiased == 0.5


# --- what is not known cannot pass --------------------------------------------------------------

UNGRADED = [{"id": f"u{number}", "output": "x"} for number in range(4)]
GRADER_ERRORS = [{**ERRED, "id": f"e{number}"} for number in range(3)]


@pytest.mark.parametrize("confident", [[], ["--confident"]])
@pytest.mark.parametrize("condition", ["passRate=0.2", "score=0.1"])
def test_answers_that_are_not_graded_do_not_leave_the_denominator_in_silence(
    condition: str, confident: list[str]
) -> None:
    records = [*(graded(number) for number in range(3)), *UNGRADED, *GRADER_ERRORS]
    first, second = gate("--min", condition, *confident, records=records).expect(1).stdout.splitlines()
    missing = "3 of 10 graded: 4 ungraded, 3 grader errors"
    assert first == f"FAIL  gradedRate 0.3 ≥ 0.95 ({missing})"
    assert second.startswith("FAIL  ") and missing in second
    done = gate("--min", condition, *confident, "--min-graded", "0.3", records=records).expect(0)
    assert done.stdout.startswith("pass  ") and missing in done.stdout


def test_what_is_missing_fails_a_gate_on_cost_too() -> None:
    records = [*RESULTS, ERRED]
    lines = gate("--max", "costUsd=5", records=records).expect(1).stdout.splitlines()
    assert [line.partition(" (")[0] for line in lines] == ["FAIL  gradedRate 0.909 ≥ 0.95", "pass  costUsd $5 ≤ $5"]


def test_one_in_twenty_may_be_missing() -> None:
    records = [graded(number) for number in range(19)]
    assert (
        "19 of 20 graded: 1 ungraded" in gate("--min", "passRate=1", records=[*records, UNGRADED[0]]).expect(0).stdout
    )
    gate("--min", "passRate=1", "--min-graded", "1", records=[*records, UNGRADED[0]]).expect(1)


def test_a_prompt_without_trials_changes_no_interval() -> None:
    trials = [{"trialNum": 1, "output": "x", "trajectory": [], "duration": 1, "pass": True, "score": 1.0}]
    trials.append({"trialNum": 2, "output": "", "trajectory": [], "duration": 1, "errors": ["exit 1"]})
    given = [{"id": name, "input": "q", "k": 2, "trials": trials} for name in "ab"]
    empty = {"id": "empty", "input": "q", "k": 2, "trials": []}
    for records in (given[:1], given):
        without, with_it = (
            run("ae-gate", "--max", "errorRate=1", stdin=jsonl(*some)).expect(0).stdout
            for some in (records, [*records, empty])
        )
        assert "agents failed; 95% interval" in without and with_it == without


def test_trials_that_are_not_graded_do_not_pass() -> None:
    records = [trials(f"t{at}", 4) for at in range(4)]
    for entry in records[0]["trials"][:2]:
        del entry["pass"]
        entry["graderError"] = "g: exit 2"
    lines = gate("--min", "passRate=0.9", "--min", "pass^K=0.9", records=records).expect(1).stdout.splitlines()
    assert lines[0] == "FAIL  gradedRate 0.875 ≥ 0.95 (14 of 16 graded: 2 grader errors)"
    assert all(line.startswith("FAIL") for line in lines)
    assert "over 3 of 4 prompts with 4 graded trials" in lines[2]


def test_a_category_that_is_not_graded_does_not_pass() -> None:
    records = [*(graded(number) for number in range(40)), {**graded(41), "metadata": {"category": "rare"}}, UNGRADED[0]]
    records[-1]["metadata"] = {"category": "rare"}
    done = gate("--min", "passRate=0.9", "--by", "category", records=records).expect(1)
    assert "FAIL  [rare] gradedRate 0.5 ≥ 0.95 (1 of 2 graded: 1 ungraded)" in done.stdout
    assert done.stdout.startswith("pass  passRate 1 ≥ 0.9 (")


@pytest.mark.parametrize(
    ("key", "says"),
    [
        ("categry", "--by categry: no record has this key in its metadata: --by category?"),
        ("metadata.colour", "--by metadata.colour: no record has this key in its metadata; the keys are category"),
    ],
)
def test_a_key_that_no_record_has_does_not_pass(key: str, says: str) -> None:
    done = gate("--min", "passRate=0.5", "--by", key).expect(1)
    done.says(says)
    assert len(done.stdout.splitlines()) == 1


def test_by_category() -> None:
    done = gate("--min", "passRate=0.8", "--by", "metadata.category").expect(0)
    assert re.findall(r"(?:\[(\w+)\] )?passRate ([\d.]+) ≥ 0.8", done.stdout) == [
        ("", "0.8"),
        ("even", "0.8"),
        ("odd", "0.8"),
    ]
    worse = [*RESULTS, graded(10, False)]
    done = gate("--min", "passRate=0.7", "--by", "category", records=worse).expect(1)
    assert "FAIL  [even] passRate 0.667 ≥ 0.7" in done.stdout and "pass  passRate 0.727 ≥ 0.7 (" in done.stdout


def test_a_category_fails_only_where_that_is_shown() -> None:
    """Of twenty categories of three prompts some are below by chance; one that never passes is not."""
    passed = [number % 7 != 0 for number in range(60)]
    records = [graded(n, ok, metadata={"category": [f"c{n // 3}", "all"]}) for n, ok in enumerate(passed)]
    plain = gate("--min", "passRate=0.8", "--by", "category", records=records).expect(1)
    assert plain.stdout.count("FAIL") > 5
    shown = gate("--min", "passRate=0.8", "--by", "category", "--shown", records=records).expect(0)
    assert shown.stdout.count("pass  ") == 22, "the whole run, twenty categories, and the one that all are in"
    assert re.search(
        r"\[c0\] passRate 0.667 .*95% interval .*, adjusted for 21 categories, upper bound counts\)", shown.stdout
    )
    never = [
        graded(n, ok or n < 60, metadata={"category": f"c{n // 12}"}) for n, ok in enumerate([*passed, *[False] * 12])
    ]
    done = gate("--min", "passRate=0.8", "--by", "category", "--shown", records=never).expect(1)
    assert [line[:29] for line in done.stdout.splitlines() if line.startswith("FAIL")] == [
        "FAIL  [c5] passRate 0 ≥ 0.8 ("
    ]
    both = gate("--min", "passRate=0.8", "--confident", "--shown").expect(2)
    assert "give one of them" in both.stderr


def test_the_job_summary_is_appended(tmp_path: Path) -> None:
    summary = tmp_path / "summary.md"
    summary.write_text("# Job\n")
    file = write(tmp_path / "a|b.jsonl", *RESULTS)
    run("ae-gate", file, "--min", "passRate=0.8", "--summary", summary).expect(0)
    run("ae-gate", file, "--min", "passRate=0.9", "--summary", summary).expect(1)
    text = summary.read_text()
    assert text.startswith("# Job\n### a\\|b.jsonl: gate passed\n")
    assert "| ✅ | `passRate ≥ 0.8` | 0.8 | 0.49" in text and "| ❌ | `passRate ≥ 0.9` | 0.8 |" in text
    assert text.count("- **Pass rate**: 8/10 (80.0%)") == 2


def test_a_refused_line_does_not_pass() -> None:
    done = run("ae-gate", "--min", "passRate=0.5", stdin=jsonl(*RESULTS, "{")).expect(1)
    assert done.stdout.startswith("pass  passRate") and "stdin:11: " in done.stderr


def test_records_with_one_id_are_reported(tmp_path: Path) -> None:
    graded = {"id": "a", "output": "x", "score": {"pass": True, "score": 1.0}}
    file = write(tmp_path / "graded.jsonl", graded, graded, graded | {"id": "b"})
    done = run("ae-gate", file.name, "--min", "passRate=0.5", cwd=tmp_path).expect(0)
    done.says("graded.jsonl: 1 record with the id of an earlier one: a; all are counted")


def test_units_and_as_many_digits_as_tell_the_figure_from_its_limit() -> None:
    records = [graded(number, timing={"total": 27_640 + number, "costUsd": 2.00004}) for number in range(10)]
    limits = ["p50=30s", "p50=27.6s", "p90=90s", "costUsd=20", "costUsd=1000", "tokens=5", "errors=2"]
    args = [word for limit in limits for word in ("--max", limit)]
    lines = gate(*args, records=records).expect(1).stdout.splitlines()
    assert [line.partition(" (")[0] for line in lines] == [
        "pass  p50 27.6 s ≤ 30 s",
        "FAIL  p50 27.64 s ≤ 27.6 s",
        "pass  p90 27.6 s ≤ 1m 30s",
        "FAIL  costUsd $20.0004 ≤ $20",
        "pass  costUsd $20 ≤ $1,000",
        "FAIL  tokens ≤ 5: unknown",
        "pass  errors 0 ≤ 2",
    ]


def test_on_a_terminal(tmp_path: Path) -> None:
    write(tmp_path / "in.jsonl", *RESULTS)
    args = ("in.jsonl", "--min", "passRate=0.9", "--max", "errors=2")
    wide = on_terminal("ae-gate", *args, cwd=tmp_path, columns=120).stdout.splitlines()
    assert wide[0].startswith("\x1b[31mFAIL\x1b[0m  passRate 0.8 ≥ 0.9 \x1b[2m(8 of 10") and len(wide) == 2
    assert wide[1].startswith("\x1b[32mpass\x1b[0m  errors 0 ≤ 2")
    narrow = on_terminal("ae-gate", *args, cwd=tmp_path, columns=44, env={"NO_COLOR": "1"}).stdout
    assert narrow.splitlines() == [
        "FAIL  passRate 0.8 ≥ 0.9",
        "      8 of 10 passed, all graded; 95%",
        "      interval 0.49 to 0.943",
        "pass  errors 0 ≤ 2 (of 10 records)",
    ]
