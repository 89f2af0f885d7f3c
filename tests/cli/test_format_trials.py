"""ae-format on trials, by category, and csv for programs."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path

import pytest

from agenteval.statistics.samples import pass_at, pass_exp
from tests.support.tool import Record, jsonl, run, write


def entry(number: int, passed: bool | None, **fields: object) -> Record:
    verdict = {} if passed is None else {"pass": passed, "score": float(passed), "reasoning": f"because {passed}"}
    return {"trialNum": number, "output": f"answer {number}", "duration": 10 * number, **verdict, **fields}


TRIALS: list[Record] = [
    {
        "id": f"p{at}",
        "input": "q",
        "k": 4,
        "metadata": {"category": "even" if at % 2 == 0 else "odd"},
        "trials": [entry(number, number <= at) for number in range(1, 5)],
    }
    for at in range(5)
]


def rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text, newline="")))


@pytest.mark.parametrize("piped", [False, True])
def test_csv_has_a_row_per_trial_with_the_rate_of_its_prompt(piped: bool, tmp_path: Path) -> None:
    file = write(tmp_path / "in.jsonl", *TRIALS)
    done = run("ae-format", "-f", "csv", *([] if piped else [file]), stdin=file if piped else None).expect(0, stderr="")
    found = rows(done.stdout)
    assert [row["id"] for row in found] == [f"p{at}#{number}" for at in range(5) for number in range(1, 5)]
    assert {(row["id"][:2], row["passRate"]) for row in found} == {(f"p{at}", repr(at / 4)) for at in range(5)}
    assert found[4] == {
        "id": "p1#1",
        "input": "q",
        "hint": "",
        "output": "answer 1",
        "tool_errors": "",
        "duration_ms": "10",
        "pass": "true",
        "score": "1.0",
        "reasoning": "because True",
        "passRate": "0.25",
        **dict.fromkeys(("model", "tokens", "cost_usd", "label"), ""),
        "status": "pass",
        "category": "odd",
    }


def test_csv_of_results_has_no_such_column() -> None:
    done = run("ae-format", "-f", "csv", stdin=jsonl({"id": "a", "output": "x"})).expect(0)
    assert "passRate" not in done.stdout


def test_a_trial_whose_agent_failed_has_not_passed(tmp_path: Path) -> None:
    failed = {"trialNum": 2, "output": "", "errors": ["exited with code 3"]}
    broken = {"trialNum": 3, "output": "", "graderError": "g: exit 1"}
    record = {"id": "a", "input": "q", "k": 3, "trials": [entry(1, True), failed, broken]}
    found = rows(run("ae-format", "-f", "csv", stdin=jsonl(record)).expect(0).stdout)
    assert [row["pass"] for row in found] == ["true", "false", ""]
    assert {row["passRate"] for row in found} == {"0.5"}
    assert found[1]["reasoning"] == "agent failed: exited with code 3" and found[2]["reasoning"] == "g: exit 1"


@pytest.mark.parametrize("form", ["table", "markdown"])
@pytest.mark.parametrize("piped", [False, True])
def test_summaries_of_trials_rest_on_prompts(form: str, piped: bool, tmp_path: Path) -> None:
    file = write(tmp_path / "in.jsonl", *TRIALS)
    args = ["-f", form, *([] if piped else [file])]
    text = run("ae-format", *args, stdin=file if piped else None).expect(0, stderr="").stdout.replace("*", "")
    at, every = ([f(4, passes, 4) or 0 for passes in range(5)] for f in (pass_at, pass_exp))
    assert re.search(r"Prompts:? +5\n", text) and "20 (10 passed, 10 did not pass)" in text
    assert re.search(rf"pass@4:? +{sum(at) / 5:.1%}, 95% interval \S+ to \S+ over 5 prompts", text), text
    assert re.search(rf"pass\^4:? +{sum(every) / 5:.1%}, 95% interval", text), text
    assert re.search(r"pass@1:? +50.0%, 95% interval", text)
    naive = "29.9% to 70.1%"  # Wilson's interval of 10 in 20 independent trials
    assert naive not in text
    assert "p2#3" in text.replace("\\#", "#").replace("\u2060", "")


@pytest.mark.parametrize("key", ["category", "metadata.category"])
@pytest.mark.parametrize("form", ["table", "markdown"])
def test_by_category(form: str, key: str, tmp_path: Path) -> None:
    def result(at: int, group: object, passed: bool) -> Record:
        score = {"pass": passed, "score": float(passed)}
        return {"id": f"r{at}", "output": "x", "metadata": {"category": group}, "score": score}

    evil = "\x1b[2J|ui"
    records = [result(at, "math" if at < 6 else evil, at % 3 > 0) for at in range(9)]
    file = write(tmp_path / "in.jsonl", *records, {"id": "none", "output": "x"})
    text = run("ae-format", "-f", form, "--by", key, file).expect(0, stderr="").stdout
    assert re.search(r"math\W+4/6\W+66\.7%", text), text
    assert re.search(r"ui\W+2/3\W+66\.7%", text) and "\x1b" not in text
    assert re.search(r"\(none\)\W+0/0 of 1", text)
    assert re.search(r"math\W+4/6\W+66\.7%", run("ae-format", "-f", form, file).expect(0).stdout), "not asked for"
    nested = run("ae-format", "-f", form, "--by", "no.such", file).expect(1)
    nested.says("--by no.such: no record has this key in its metadata; the keys are category")
    assert re.search(r"\(none\)\W+6/9", nested.stdout), nested


def test_trials_by_category(tmp_path: Path) -> None:
    file = write(tmp_path / "in.jsonl", *TRIALS)
    text = run("ae-format", "-f", "table", "--by", "category", file).expect(0).stdout
    assert re.search(r"even +6/12 +50\.0% ", text) and re.search(r"odd +4/8 +50\.0% ", text)


def test_raw_csv_is_for_programs(tmp_path: Path) -> None:
    nasty = '=1+1,"quoted"\r\n\x00\x1b[2J tail\ttab'
    record = {"id": "-a", "input": ["@x", "y"], "output": nasty, "score": {"pass": True, "score": 0.5}}
    file = write(tmp_path / "in.jsonl", record)
    done = run("ae-format", "-f", "csv", "--raw-csv", file).expect(0, stderr="")
    header, row = csv.reader(io.StringIO(done.out.decode(), newline=""))
    assert (row[0], row[1], row[3]) == ("-a", "@x | y", nasty)
    assert done.out.startswith(b"id,input,hint,output,tool_errors,duration_ms,pass,score,reasoning,status,")
    assert done.out.endswith(b'0.5,,"pass",,,,,\n') and done.out.count(b"\r") == 1
    safe = run("ae-format", "-f", "csv", file).expect(0)
    assert b'"\'-a"' in safe.out and safe.out.endswith(b"\r\n") and b"\x1b" not in safe.out


def test_jsonl_and_html_take_trials_as_they_are(tmp_path: Path) -> None:
    file = write(tmp_path / "in.jsonl", *TRIALS)
    assert run("ae-format", file).expect(0).records == TRIALS
    bad = {**TRIALS[0], "trials": [{"trialNum": 1, "output": 7}]}
    done = run("ae-format", stdin=jsonl(TRIALS[0], bad, TRIALS[1])).expect(1)
    assert len(done.records) == 2 and "stdin:2: " in done.stderr


def test_ae_trials_ends_with_its_rates(tmp_path: Path) -> None:
    agent = 'case "$PROMPT" in yes) echo yes;; *) echo no;; esac'
    prompts = jsonl(*({"id": f"p{at}", "input": "yes" if at else "no", "hint": "yes"} for at in range(4)))
    args = ["-k", "3", "--shell", agent, "-g", "ae-grader-hint"]
    done = run("ae-trials", *args, stdin=prompts, cwd=tmp_path).expect(0)
    rates = r"pass@1 75.0% \(\S+ to \S+\), pass@3 75.0% \(\S+ to \S+\), pass\^3 75.0% \(\S+ to \S+\)"
    assert re.fullmatch(rf"ae-trials: {rates}; 95% intervals, 4 prompts with 3 trials each\n", done.stderr), done
    run("ae-trials", "-k", "2", "--shell", agent, stdin=prompts, cwd=tmp_path).expect(0, stderr="")


def test_dpo_says_why_there_is_no_pair(tmp_path: Path) -> None:
    """The same answer passed once and once not: 0 bytes were written without a word."""
    trials = [{"trialNum": n, "output": "same", "pass": n == 1, "score": 1.0} for n in (1, 2)]
    same = {"id": "a", "input": "x", "k": 2, "trials": trials}
    done = run("ae-format", "-f", "dpo", stdin=jsonl(same), cwd=tmp_path).expect(0)
    assert done.stdout == "" and "1 whose answers are the same" in done.stderr
    passing = {**same, "trials": [{**trial, "pass": True} for trial in trials]}
    done = run("ae-format", "-f", "dpo", stdin=jsonl(passing), cwd=tmp_path).expect(0)
    done.says("no prompt has both an answer that passed and one that did not")
