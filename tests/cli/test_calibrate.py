"""ae-calibrate as a person uses it: draw, tick, read back, hold the grader against the labels."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from agenteval.review.calibration import Labels, Reservoir, check_label
from tests.support.tool import BIN, PASSES, Done, Record, jsonl, peak_memory, read, run, script, write

FAIL = {"pass": False, "score": 0.25, "reasoning": "misses the hint"}
PASS = {"pass": True, "score": 1.0}
BROKEN = {"pass": False, "score": 0.0, "reasoning": "grader error: exit 1"}


def result(name: str, score: Record | None = FAIL, **fields: Any) -> Record:
    record = {"id": name, "input": f"question {name}", "output": f"answer {name}", "hint": "Paris", **fields}
    return record if score is None else {**record, "score": score}


def calibrate(*args: object, stdin: str | None = None, cwd: Path) -> Done:
    return run("ae-calibrate", *args, stdin=stdin, cwd=cwd)


def listed(text: str) -> list[str]:
    """The ids in the headings of a document, without those that are asked once more."""
    return re.findall(r"^### \d+\. (.*)$", text.partition("## Once more")[0], re.MULTILINE)


def report(*args: object, cwd: Path) -> Any:
    return json.loads(calibrate(*args, "-f", "json", cwd=cwd).expect(0).stdout)


def tick(document: str, ticks: dict[str, str]) -> str:
    """The document with a box ticked in the sections of these ids."""
    sections = re.split(r"(?=^### )", document, flags=re.MULTILINE)
    assert set(ticks) <= set(listed(document)), "every id to tick is in the document"
    for at, text in enumerate(sections):
        for name in listed(text):
            if name in ticks:
                before, box, after = text.rpartition(f"- [ ] **{ticks[name]}**")
                assert box, text
                sections[at] = f"{before}- [x] **{ticks[name]}**{after}"
    return "".join(sections)


# --- drawing --------------------------------------------------------------------------------------


def test_failures_are_drawn_and_the_rest_counted(tmp_path: Path) -> None:
    records = [result("f1"), result("ok", PASS), result("none", None), result("f2")]
    records.append(result("broken", BROKEN, graderError=True))
    text = calibrate(stdin=jsonl(*records), cwd=tmp_path).expect(0, stderr="").stdout
    assert listed(text) == ["f1", "f2"]
    assert "- **Records**: 5 (1 passed, 2 did not pass, 1 ungraded, 1 grader error)\n" in text
    assert "- **To review**: all 2 failures\n" in text
    everything = calibrate("--all", stdin=jsonl(*records), cwd=tmp_path).expect(0, stderr="").stdout
    assert listed(everything) == ["f1", "ok", "f2"]


def test_ten_by_default_and_the_same_seed_draws_the_same(tmp_path: Path) -> None:
    file = write(tmp_path / "graded.jsonl", *(result(f"f{number:03}") for number in range(200)))
    first = calibrate(file, cwd=tmp_path).expect(0, stderr="")
    assert len(listed(first.stdout)) == 10
    assert "10 of 200 failures, sampled at random (seed 0)" in first.stdout
    assert calibrate(stdin=file.read_text(), cwd=tmp_path).out == first.out, "a pipe draws the same"
    assert listed(first.stdout) == sorted(listed(first.stdout)), "in the order of the input"
    other = calibrate(file, "--seed", 1, cwd=tmp_path).stdout
    assert listed(other) != listed(first.stdout)
    assert len(listed(calibrate(file, "-s", 3, cwd=tmp_path).stdout)) == 3
    assert listed(calibrate(file, "--sample", 0, cwd=tmp_path).stdout) == []
    assert len(listed(calibrate(file, "--sample", 1000, cwd=tmp_path).stdout)) == 200


def test_every_record_has_the_same_chance() -> None:
    drawn: Counter[int] = Counter()
    for seed in range(2000):
        reservoir: Reservoir[int] = Reservoir(3, seed)
        for number in range(12):
            reservoir.offer(number)
        sample = reservoir.drawn()
        assert sample == sorted(set(sample)) and len(sample) == 3
        drawn.update(sample)
    assert min(drawn.values()) > 420 and max(drawn.values()) < 580, drawn  # 500 each, give or take 4 deviations


def test_memory_does_not_grow_with_the_input(tmp_path: Path) -> None:
    line = jsonl(result("x", output="y" * 20_000)).encode()

    def peak(count: int) -> int:
        (tmp_path / "in.jsonl").write_bytes(line * count)
        return peak_memory(BIN / "ae-calibrate", "in.jsonl", cwd=tmp_path)

    assert peak(3000) < peak(100) + 8_000, "60 MB of records"


def test_a_record_as_a_reviewer_sees_it(tmp_path: Path) -> None:
    steps = [
        {"type": "thought", "content": "hm"},
        {"type": "tool_call", "name": "Search", "status": "completed", "input": {"q": "x"}},
        {"type": "tool_call", "name": "Fetch", "status": "failed"},
        {"type": "message", "content": "done"},
    ]
    record = result(
        "a",
        input=["first turn", "second\nturn"],
        output="x" * 5000 + "THE END",
        reference="It is Paris.",
        metadata={"category": "geo", "agent": "claude", "timedOut": True},
        errors=["timed out after 5 s"],
        gradedFailed=True,
        trajectory=steps * 20,
    )
    text = calibrate("--show-verdicts", stdin=jsonl(record), cwd=tmp_path).expect(0, stderr="").stdout
    for part in (
        "**Metadata**: category: geo\n",
        "**Input, turn 1**: first turn\n",
        "**Input, turn 2**:\n\n```text\nsecond\nturn\n```\n",
        "**Hint**: Paris\n",
        "**Reference**: It is Paris.\n",
        "**Output** (5,007 characters):\n",
        "[… 1,007 characters left out …]",
        "THE END\n```\n",
        "❌ **Error**: timed out after 5 s\n",
        "**Trajectory**: 20 thoughts, 40 tool calls, 20 messages (calls: 20 failed)\n",
        '  2 tool_call Search [completed] {"q":"x"}\n  3 tool_call Fetch [failed]\n',
        "[… 69 steps left out …]",
        "**Verdict**: ❌ 0.250 (FAIL)\n",
        "**Reasoning**: misses the hint\n",
        "- [ ] **pass**: the answer is right, a grader bug\n- [ ] **fail**: the answer is wrong, a valid failure\n",
    ):
        assert part in text, part


def test_a_pass_is_reviewed_in_other_words(tmp_path: Path) -> None:
    text = calibrate("--all", "--show-verdicts", stdin=jsonl(result("a", PASS)), cwd=tmp_path).expect(0).stdout
    assert (
        "- [ ] **pass**: the answer is right, a valid pass\n- [ ] **fail**: the answer is wrong, a grader bug" in text
    )


def test_the_person_is_blind_and_is_asked_a_tenth_twice(tmp_path: Path) -> None:
    file = write(tmp_path / "graded.jsonl", *(result(f"f{n}", PASS if n % 3 else FAIL) for n in range(20)))
    calibrate(file, "--all", "-s", 20, "-o", "sheet.md", cwd=tmp_path).expect(0)
    text = (tmp_path / "sheet.md").read_text()
    for record in text.split("### ")[1:]:
        shown, folded = record.split("<details>")
        assert "**ambiguous**" in shown and "PASS" not in shown and "FAIL" not in shown and "grader bug" not in shown
        assert "**Verdict**: " in folded and folded.rstrip().startswith("<summary>")
    again = text.partition("## Once more (2)")[2]
    assert text.count("### ") == 22 and again.count("again") == 3
    # Ticked: everything passes, but one of the two that are asked once more.
    before, marker, after = text.rpartition("- [ ] **fail**")
    ticked = before.replace("- [ ] **pass**", "- [x] **pass**", 21) + marker.replace("[ ]", "[x]") + after
    (tmp_path / "ticked.md").write_text(ticked)
    calibrate("--read", "ticked.md", "-o", "labels.jsonl", cwd=tmp_path).expect(0)
    labels = read(tmp_path / "labels.jsonl")
    assert [label.get("again") for label in labels] == [None] * 20 + [True] * 2
    found = report(file, "--labels", "labels.jsonl", cwd=tmp_path)
    assert found["selfAgreement"]["n"] == 2 and found["selfAgreement"]["same"] == 1
    assert found["labels"]["total"] == 20
    text = calibrate(file, "--labels", "labels.jsonl", cwd=tmp_path).expect(0).stdout
    assert "- **Judged twice**: 1 of 2 the same (50.0%, 95% interval 9.5% to 90.5%)" in text


def test_the_difference_from_a_baseline_as_a_person_would_see_it(tmp_path: Path) -> None:
    """A grader that passes every answer of the new agent, of which half are wrong, and fails half of the old ones."""
    for name, passed in (("new", 100), ("old", 50)):
        write(tmp_path / f"{name}.jsonl", *(result(f"p{n}", PASS if n < passed else FAIL) for n in range(100)))
    write(tmp_path / "new-labels.jsonl", *({"id": f"p{n}", "pass": n % 2 == 0} for n in range(40)))
    write(tmp_path / "old-labels.jsonl", *({"id": f"p{n}", "pass": n < 50} for n in range(30, 70)))
    args = [
        "new.jsonl",
        "--labels",
        "new-labels.jsonl",
        "--baseline",
        "old.jsonl",
        "--baseline-labels",
        "old-labels.jsonl",
    ]
    found = report(*args, cwd=tmp_path)["difference"]
    assert (found["n"], found["recorded"]) == (100, 0.5) and found["corrected"] == pytest.approx(0.0)
    low, high = found["interval"]
    assert -0.3 < low < 0 < high < 0.3
    text = calibrate(*args, cwd=tmp_path).expect(0).stdout
    assert (
        "the run differs from the baseline by +50.0 points on 100 prompts that both have. **By a person's "
        "verdicts it would be" in text
    )
    write(tmp_path / "old-labels.jsonl", {"id": "p1", "pass": True})
    assert report(*args, cwd=tmp_path)["difference"]["corrected"] is None, "no failure of the baseline has a label"
    calibrate(*args[:5], cwd=tmp_path).expect(2).says("--baseline needs labels for both runs")


def test_nothing_to_review(tmp_path: Path) -> None:
    done = calibrate(stdin=jsonl(result("a", PASS)), cwd=tmp_path).expect(0, stderr="")
    assert "- **To review**: 0 failures\n" in done.stdout and "How to review" not in done.stdout
    calibrate(stdin=jsonl(result("a", None)), cwd=tmp_path).expect(0).says("none of the 1 records has a verdict")


# --- a second grader ------------------------------------------------------------------------------


@pytest.fixture
def second(tmp_path: Path) -> Path:
    """A grader that passes answers with an even number, and breaks at 5."""
    (tmp_path / "even.py").write_text(
        "def grade(record):\n"
        "    assert 'score' not in record and 'scores' not in record\n"
        "    number = int(record['output'].split()[-1])\n"
        "    if number == 5:\n"
        "        raise ValueError('five')\n"
        "    return {'pass': number % 2 == 0, 'score': 1 - number % 2, 'reasoning': f'saw {number}'}\n"
    )
    return tmp_path


def test_both_verdicts_side_by_side(second: Path) -> None:
    records = [result(str(n), scores={"old": FAIL, "other": FAIL}) for n in (1, 2, 3, 4)] + [result("6", PASS)]
    done = calibrate("-g", "even.py", stdin=jsonl(*records), cwd=second).expect(0, stderr="")
    assert "Of the 4 sampled failures, 2 (50.0%) got a different verdict from even.\n" in done.stdout
    assert "| fail | 2 | 2 |\n" in done.stdout
    assert listed(done.stdout) == ["2", "4", "1", "3"], "those that differ come first"
    first = done.stdout.partition("### 1. 2")[2].partition("### 2.")[0]
    assert "| **recorded** | ❌ 0.250 (FAIL) | misses the hint |\n" in first
    assert "| **second grader** | ✅ 1.000 (PASS) | saw 2 |\n" in first
    assert "- [ ] **pass**: the answer is right\n" in first, "graders that differ: nobody knows yet whose bug it is"


def test_a_second_grader_that_breaks(second: Path) -> None:
    done = calibrate("-g", "even.py", stdin=jsonl(*(result(str(n)) for n in (4, 5, 7))), cwd=second).expect(1)
    done.says("5: grader even: ValueError: five")
    assert "Of the 2 sampled failures, 1 (50.0%)" in done.stdout and "1 more could not be graded." in done.stdout
    assert "| **second grader** | ⚠️ grader error |" in done.stdout


def test_several_graders_any_kind_in_parallel(second: Path) -> None:
    script(second / "yes", PASSES)
    records = jsonl(*(result(str(n), scores={"old": FAIL}) for n in range(100, 140)))
    args = ("-g", "even.py", "-g", "mine=./yes", "-j", 4, "-s", 20, "-f", "json")
    found = json.loads(calibrate(*args, stdin=records, cwd=second).expect(0, stderr="").stdout)
    assert found["changes"]["graders"] == ["even", "mine"] and found["changes"]["n"] == 20
    assert len(found["items"]) == 20
    for entry in found["items"]:
        assert entry["rescored"]["pass"] == (int(entry["id"]) % 2 == 0), entry


# --- labels ---------------------------------------------------------------------------------------


def graded(tmp_path: Path, verdicts: dict[str, bool]) -> Path:
    records = (result(name, PASS if passed else FAIL) for name, passed in verdicts.items())
    return write(tmp_path / "graded.jsonl", *records)


def test_agreement_by_hand(tmp_path: Path) -> None:
    """20 both pass, 5 only the grader, 10 only the person, 15 both fail: kappa 0.4."""
    grader = [True] * 25 + [False] * 25
    human = [True] * 20 + [False] * 5 + [True] * 10 + [False] * 15
    file = graded(tmp_path, {f"r{n}": passed for n, passed in enumerate(grader)})
    labels = write(tmp_path / "labels.jsonl", *({"id": f"r{n}", "pass": passed} for n, passed in enumerate(human)))
    found = report(file, "--labels", labels, cwd=tmp_path)["recorded"]
    assert found.pop("interval") == pytest.approx([0.5625, 0.8090], abs=1e-4)
    assert found.pop("intervals")["failureRecall"] == pytest.approx([0.5324, 0.8877], abs=1e-4)
    assert found == {
        "n": 50,
        "scope": "all",
        "agreement": 0.7,
        "ac1": pytest.approx(0.41 / 1.01),  # by chance 2 * 0.55 * 0.45
        "kappa": pytest.approx(0.4),
        "humanPassRate": 0.6,
        "graderPassRate": 0.5,
        "precision": 0.8,
        "recall": pytest.approx(2 / 3),
        "failurePrecision": 0.6,
        "failureRecall": 0.75,
        "table": {"truePass": 20, "falsePass": 5, "falseFail": 10, "trueFail": 15},
    }
    text = calibrate(file, "--labels", labels, cwd=tmp_path).expect(0, stderr="").stdout
    assert "## Disagreements with the labels (15)" in text
    assert listed(text) == [f"r{n}" for n in (*range(20, 25), *range(25, 35))]
    assert "| Cohen's kappa (0: chance, 1: perfect) | 0.400 |" in text
    assert "| pass | 20 | 5 |\n| fail | 10 | 15 |\n" in text


def test_what_so_few_labels_cannot_tell_is_a_dash_and_null(tmp_path: Path) -> None:
    file = graded(tmp_path, {"a": False, "b": False})
    labels = write(tmp_path / "labels.jsonl", {"id": "a", "pass": False}, {"id": "b", "pass": False})
    found = report(file, "--labels", labels, cwd=tmp_path)["recorded"]
    assert (found["kappa"], found["precision"], found["recall"], found["failurePrecision"]) == (None, None, None, 1.0)
    text = calibrate(file, "--labels", labels, cwd=tmp_path).expect(0).stdout
    assert "| Cohen's kappa (0: chance, 1: perfect) | – |" in text
    assert "All labelled records are recorded as failures" in text and "`--all`" in text
    none = calibrate(file, "--labels", write(tmp_path / "none.jsonl"), cwd=tmp_path).expect(0, stderr="").stdout
    assert "| Agreement | – |" in none and "| Labelled records (n) | 0 |" in none


def test_forms_of_a_label(tmp_path: Path) -> None:
    file = graded(tmp_path, dict.fromkeys("abcd", False))
    labels = write(
        tmp_path / "labels.jsonl",
        {"id": "a", "pass": True},
        {"id": "b", "label": "PASS", "who": "me"},
        {"id": "c", "label": "fail", "pass": False},
        {"id": "d", "label": "ambiguous"},
    )
    found = report(file, "--labels", labels, cwd=tmp_path)
    assert found["recorded"]["table"] == {"truePass": 0, "falsePass": 0, "falseFail": 2, "trueFail": 1}
    assert (found["labels"]["used"], found["labels"]["ambiguous"]) == (3, 1)
    assert "- **Ambiguous tasks**: d\n" in calibrate(file, "--labels", labels, cwd=tmp_path).stdout


@pytest.mark.parametrize(
    ("label", "why"),
    [
        ({"id": "a"}, '"pass" is missing'),
        ({"pass": True}, '"id" is missing'),
        ({"id": "", "pass": True}, '"id" must be a string that is not empty'),
        ({"id": "a", "pass": "yes"}, '"pass" must be true or false'),
        ({"id": "a", "pass": 1}, '"pass" must be true or false'),
        ({"id": "a", "label": "good"}, '"label" must be pass, fail or ambiguous, got "good"'),
        ({"id": "a", "label": "pass", "pass": False}, "contradict"),
        ("[]", "must be a JSON object"),
    ],
)
def test_a_bad_label_is_refused_and_the_others_count(label: object, why: str, tmp_path: Path) -> None:
    file = graded(tmp_path, {"a": True, "b": True})
    write(tmp_path / "labels.jsonl", label, {"id": "b", "pass": True})
    done = calibrate(file, "--labels", "labels.jsonl", "-f", "json", cwd=tmp_path).expect(1)
    assert done.says("labels.jsonl:1: ", why) and json.loads(done.stdout)["recorded"]["n"] == 1
    strict = calibrate(file, "--labels", "labels.jsonl", "--strict", cwd=tmp_path).expect(1)
    assert strict.out == b""


def test_labels_that_are_left_out_are_said(tmp_path: Path) -> None:
    records = [result("a"), result("ungraded", None), result("broken", BROKEN, graderError=True), result("other")]
    file = write(tmp_path / "graded.jsonl", *records)
    labels = write(
        tmp_path / "labels.jsonl",
        {"id": "a", "pass": True},
        *({"id": name, "pass": True} for name in ("ungraded", "broken", "x1", "x2", "a")),
        {"id": "other", "pass": True, "outputHash": "0" * 16},
        {"id": "a", "pass": False},
    )
    done = calibrate(file, "--labels", labels, "-f", "json", cwd=tmp_path).expect(0)
    said = "\n".join(done.messages)
    assert "1 label is contradicted by a later one for the same id: the last one counts" in said
    assert "2 labels are for an id that is not among the records: x1, x2" in said
    assert "1 label is for an output that has changed, and left out" in said
    assert "2 labels are for a record without a verdict, and left out" in said
    found = json.loads(done.stdout)
    assert found["labels"] == {"total": 6, "used": 1, "ambiguous": 0, "stale": 1, "ungraded": 2, "unknown": 2}
    assert found["recorded"]["table"]["trueFail"] == 1, "the last label counts"
    assert [entry["id"] for entry in found["items"]] == ["other"], "without a label that holds, it can be drawn"


def test_one_label_is_not_for_two_records(tmp_path: Path) -> None:
    file = write(tmp_path / "graded.jsonl", result("a"), result("b"), result("a", PASS), result("b", PASS))
    labels = write(tmp_path / "labels.jsonl", {"id": "a", "pass": True})
    done = calibrate(file, "--labels", labels, cwd=tmp_path).expect(1)
    done.says("graded.jsonl:3: ", 'duplicate id "a"')


def test_a_label_with_a_hash_finds_its_record_among_several_runs(tmp_path: Path) -> None:
    """Runs of the same prompts in one file: the label is for the output that the person saw."""
    runs = [result("a", output="first"), result("a", PASS, output="second")]
    write(tmp_path / "second.jsonl", runs[1])
    document = calibrate("second.jsonl", "--all", cwd=tmp_path).expect(0).stdout
    (tmp_path / "doc.md").write_text(tick(document, {"a": "fail"}))
    calibrate("--read", "doc.md", "-o", "labels.jsonl", cwd=tmp_path).expect(0, stderr="")
    file = write(tmp_path / "graded.jsonl", *runs)
    found = report(file, "--labels", "labels.jsonl", cwd=tmp_path)
    assert found["recorded"]["table"] == {"truePass": 0, "falsePass": 1, "falseFail": 0, "trueFail": 0}


def test_both_graders_against_the_labels(second: Path) -> None:
    file = graded(second, {"2": False, "4": True, "3": True, "7": False, "8": False})
    labels = write(
        second / "l.jsonl", *({"id": n, "pass": p} for n, p in zip("2437", (True, True, False, True), strict=True))
    )
    found = report(file, "--labels", labels, "-g", "even.py", cwd=second)
    # Each label of a pass stands for 2 / 2 records, each of a failure for 3 / 2.
    assert (found["recorded"]["agreement"], found["rescored"]["agreement"]) == (1 / 5, 3.5 / 5)
    assert found["recorded"]["n"] == found["rescored"]["n"] == 4
    assert (found["changes"]["n"], found["changes"]["sampled"], found["changes"]["differ"]) == (5, 1, 3)
    assert [entry["why"] for entry in found["items"]] == ["label", "label", "label", "rescored"]
    text = calibrate(file, "--labels", labels, "-g", "even.py", cwd=second).expect(0, stderr="").stdout
    assert re.search(r"\| Agreement \| 20.0% \| \S+ to \S+ \| 4 \| 70.0% \| \S+ to \S+ \| 4 \|", text), text
    assert "Of the 4 labelled records and 1 sampled failure, 3 (60.0%) got a different verdict from even." in text
    assert "| **human** | ✅ PASS |" in text


@pytest.mark.parametrize(
    ("args", "code", "said"),
    [
        (["--min-agreement", "0.5"], 0, None),
        (["--min-agreement", "0.76"], 1, "agreement is 0.750 over 4 labelled records: --min-agreement 0.76 is not met"),
        (["--min-kappa", "0.5"], 0, None),
        (["--min-kappa", "0.6", "--min-agreement", "0.7"], 1, "kappa is 0.500 over 4"),
        (["--min-kappa", "-1", "-g", "no.py"], 0, None),
        (["--min-kappa", "0.1", "-g", "no.py"], 1, "kappa is 0.000 over 4"),
    ],
)
def test_criteria(args: list[str], code: int, said: str | None, tmp_path: Path) -> None:
    (tmp_path / "no.py").write_text("def grade(record):\n    return {'pass': False, 'score': 0}\n")
    file = graded(tmp_path, {"a": True, "b": True, "c": False, "d": False})
    labels = write(tmp_path / "l.jsonl", *({"id": n, "pass": n in "a"} for n in "abcd"))
    done = calibrate(file, "--labels", labels, *args, cwd=tmp_path).expect(code)
    assert done.says(said) if said else done.stderr == ""


def test_an_undefined_kappa_meets_nothing(tmp_path: Path) -> None:
    labels = write(tmp_path / "l.jsonl", {"id": "a", "pass": True})
    args = (graded(tmp_path, {"a": True}), "--labels", labels, "--min-kappa", "-1")
    calibrate(*args, cwd=tmp_path).expect(1).says("kappa is undefined over 1 labelled records")


# --- the whole loop -------------------------------------------------------------------------------

ODD_IDS = ['quo"te', "`tick`", "a --> b", "new\nline", "ünï \U0001f600", "# *x* | [y](z)", "<!-- ae-calibrate end -->"]


def test_draw_tick_read_and_hold_against(tmp_path: Path) -> None:
    evil = '- [x] **pass**\n<!-- ae-calibrate {"id":"evil"} -->\n- [x] pass\n<!-- ae-calibrate end -->\n```\n'
    records = [result(name, PASS if at % 2 else FAIL, output=evil + name) for at, name in enumerate(ODD_IDS)]
    file = write(tmp_path / "graded.jsonl", *records)
    calibrate(file, "--all", "-o", "calibration.md", cwd=tmp_path).expect(0, stderr="")
    document = (tmp_path / "calibration.md").read_text()
    sections = re.split(r"(?=^### )", document, flags=re.MULTILINE)
    words = ["pass", "fail", "ambiguous", "pass", "fail", "pass"]
    for at, word in enumerate(words, 1):
        before, box, after = sections[at].rpartition(f"- [ ] **{word}**")
        sections[at] = f"{before}- [X] **{word}**{after.replace('Note:', f'Note: because {at}')}"
        assert box
    (tmp_path / "calibration.md").write_bytes("".join(sections).replace("\n", "\r\n").encode())

    done = calibrate("--read", "calibration.md", "-o", "labels.jsonl", cwd=tmp_path).expect(0)
    done.says("1 of 7 records have no tick and were left out")
    labels = read(tmp_path / "labels.jsonl")
    assert [(label["id"], label["pass"]) for label in labels] == list(
        zip(ODD_IDS[:6], [True, False, None, True, False, True], strict=True)
    )
    assert [label["note"] for label in labels] == [f"because {at}" for at in range(1, 7)]

    found = json.loads(
        calibrate(file, "--labels", "labels.jsonl", "--all", "-f", "json", cwd=tmp_path).expect(0).stdout
    )
    assert found["labels"] == {"total": 6, "used": 5, "ambiguous": 1, "stale": 0, "ungraded": 0, "unknown": 0}
    assert found["recorded"]["table"] == {"truePass": 2, "falsePass": 1, "falseFail": 1, "trueFail": 1}
    assert [(entry["id"], entry["why"]) for entry in found["items"]] == [
        (ODD_IDS[0], "label"),
        (ODD_IDS[1], "label"),
        (ODD_IDS[6], "sample"),
    ]

    second = calibrate(file, "--labels", "labels.jsonl", "--all", cwd=tmp_path).expect(0, stderr="").stdout
    again = calibrate("--read", stdin=second, cwd=tmp_path).expect(0)
    assert again.records == labels[:2], "labels and notes stand in the next document too"


def test_ticks_are_not_overwritten(tmp_path: Path) -> None:
    file = graded(tmp_path, {"a": False, "b": False})
    calibrate(file, "-o", "doc.md", cwd=tmp_path).expect(0)
    calibrate(file, "-o", "doc.md", cwd=tmp_path).expect(0, stderr="")
    ticked = tick((tmp_path / "doc.md").read_text(), {"a": "fail", "b": "pass"})
    (tmp_path / "doc.md").write_text(ticked)
    calibrate(file, "-o", "doc.md", cwd=tmp_path).expect(2).says(
        "doc.md: contains 2 ticks not saved as labels yet", "--read"
    )
    assert (tmp_path / "doc.md").read_text() == ticked
    calibrate("--read", "doc.md", "-o", "labels.jsonl", cwd=tmp_path).expect(0)
    calibrate(file, "--labels", "labels.jsonl", "-o", "doc.md", cwd=tmp_path).expect(0, stderr="")
    calibrate(file, "--labels", "labels.jsonl", "-o", "doc.md", cwd=tmp_path).expect(0, stderr="")


def test_read_names_mistakes_by_their_line(tmp_path: Path) -> None:
    document = calibrate(stdin=jsonl(result("a"), result("b"), result("c")), cwd=tmp_path).stdout
    both = tick(tick(document, {"a": "pass", "b": "fail", "c": "fail"}), {"b": "pass"})
    (tmp_path / "doc.md").write_text(both)
    done = calibrate("--read", "doc.md", cwd=tmp_path).expect(1)
    assert done.ids == ["a", "c"]
    line = int(done.says('"b": pass and fail are ticked; tick one').split(":")[2])
    assert both.splitlines()[line - 1].startswith('<!-- ae-calibrate {"id":"b"')
    strict = calibrate("--read", "doc.md", "--strict", cwd=tmp_path).expect(1)
    assert strict.ids == ["a"]


@pytest.mark.parametrize(
    ("content", "code", "said"),
    [
        (b"", 0, None),
        (b"\n\n", 0, None),
        (b"# Grader calibration\n\nnothing drawn\n", 0, None),
        (b'{"id":"a","output":"x"}\n', 2, "contains no boxes to read; is it a document written by ae-calibrate?"),
        (b"# Grader calibration\n\n\xff\xfe\n", 2, "doc.md:3: not UTF-8"),
        ("\ufeff# Grader calibration\n".encode("utf-16"), 2, "doc.md:1: not UTF-8"),
        (b"\0\x01\x02" * 1000, 2, "contains no boxes to read"),
    ],
)
def test_read_of_something_else(content: bytes, code: int, said: str | None, tmp_path: Path) -> None:
    (tmp_path / "doc.md").write_bytes(content)
    (tmp_path / "out.jsonl").write_text("kept")
    done = calibrate("--read", "doc.md", "-o", "out.jsonl", cwd=tmp_path).expect(code)
    assert done.says(said) if said else done.stderr == ""
    assert (tmp_path / "out.jsonl").read_text() == ("kept" if code else "")


# --- usage ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--read", "-g", "x"], "--read only turns a document into labels"),
        (["--read", "--labels", "x"], "--read only turns a document into labels"),
        (["--read", "--sample", "3"], "--read only turns a document into labels"),
        (["--min-kappa", "0.5"], "need --labels"),
        (["--min-agreement", "1.5", "--labels", "x"], "--min-agreement"),
        (["--sample", "-1"], "--sample"),
        (["--labels", "-"], "cannot both be stdin"),
        (["--labels", "missing.jsonl"], "missing.jsonl: No such file"),
        (["-g", "no-such-grader"], "no-such-grader"),
        (["-f", "csv"], "csv"),
    ],
)
def test_usage_errors(args: list[str], said: str, tmp_path: Path) -> None:
    done = calibrate(*args, stdin=jsonl(result("a")), cwd=tmp_path).expect(2)
    assert done.says(said) and done.out == b""


def test_json_by_extension_and_labels_from_stdin(tmp_path: Path) -> None:
    file = graded(tmp_path, {"a": True})
    calibrate(file, "--labels", "-", "-o", "c.JSON", stdin=jsonl({"id": "a", "pass": True}), cwd=tmp_path).expect(0)
    assert json.loads((tmp_path / "c.JSON").read_text())["recorded"]["agreement"] == 1
    calibrate(file, "-o", "c.json", "-f", "markdown", cwd=tmp_path).expect(0)
    assert (tmp_path / "c.json").read_text().startswith("# Grader calibration\n")


def test_the_label_file_is_no_output(tmp_path: Path) -> None:
    labels = write(tmp_path / "l.jsonl", {"id": "a", "pass": True})
    before = labels.read_bytes()
    file = graded(tmp_path, {"a": True})
    calibrate(file, "--labels", labels, "-o", labels, "-f", "json", cwd=tmp_path).expect(2).says("is also the input")
    assert labels.read_bytes() == before


# --- pure parts -----------------------------------------------------------------------------------


def test_labels_keep_the_last_word() -> None:
    labels = Labels()
    for passed in (True, True, False, False, None):
        labels.add(check_label({"id": "a", "pass": passed}))
    assert labels["a"].verdict is None and labels.changed == 2 and len(labels) == 1


def test_labels_of_failures_alone_claim_no_recall(tmp_path: Path) -> None:
    """The default sample is of failures: what it shows is how many of them are right, not how many were missed."""
    file = graded(tmp_path, {**{f"p{n}": True for n in range(80)}, **{f"f{n}": False for n in range(20)}})
    labels = write(tmp_path / "labels.jsonl", *({"id": f"f{n}", "pass": n == 0} for n in range(10)))
    found = report(file, "--labels", labels, cwd=tmp_path)
    assert found["recorded"]["scope"] == "failures" and found["recorded"]["failurePrecision"] == 0.9
    unknown = ("failureRecall", "recall", "precision", "kappa", "ac1", "humanPassRate")
    assert {found["recorded"][name] for name in unknown} == {None}
    assert found["passRate"]["corrected"] is None and found["passRate"]["recorded"] == 0.8
    text = calibrate(file, "--labels", labels, cwd=tmp_path).expect(0, stderr="").stdout
    assert "| Recall of failures | – | – | – |" in text and "no recorded pass has a label" in text
    more = write(tmp_path / "more.jsonl", *read(labels), *({"id": f"p{n}", "pass": n > 4} for n in range(20)))
    found = report(file, "--labels", more, cwd=tmp_path)
    assert found["recorded"]["failureRecall"] == pytest.approx(0.2 * 0.9 / (0.2 * 0.9 + 0.8 * 0.25)), "not 9 / 14"
    assert found["passRate"]["corrected"] == pytest.approx(0.8 * 0.75 + 0.2 * 0.1)
    assert found["passRate"]["interval"][0] < 0.62 < found["passRate"]["interval"][1]
    text = calibrate(file, "--labels", more, cwd=tmp_path).expect(0, stderr="").stdout
    assert "The grader passed 80.0% of 100 records. **A person would pass 62.0%** (95% interval" in text


# --- trials ---------------------------------------------------------------------------------------


def test_the_trials_of_a_prompt_are_reviewed_one_by_one(tmp_path: Path) -> None:
    """A trial is drawn, ticked, labelled and graded again as a record named ID#N."""
    answers = [{"trialNum": n, "output": text, **FAIL} for n, text in enumerate(("Paris", "Rome", "In Paris"), 1)]
    trials = {"id": "a", "input": "question a", "hint": "Paris", "k": 3, "trials": answers, "passRate": 0.0}
    write(tmp_path / "trials.jsonl", trials)
    calibrate("trials.jsonl", "-o", "review.md", cwd=tmp_path).expect(0)
    document = (tmp_path / "review.md").read_text()
    names = listed(document)
    assert [name.replace("\u2060", "") for name in names] == ["a\\#1", "a\\#2", "a\\#3"]
    (tmp_path / "ticked.md").write_text(tick(document, {names[0]: "pass", names[1]: "fail"}))
    calibrate("--read", "ticked.md", "-o", "labels.jsonl", cwd=tmp_path).expect(0)
    assert [(label["id"], label["pass"]) for label in read(tmp_path / "labels.jsonl")] == [
        ("a#1", True),
        ("a#2", False),
    ]
    found = report("trials.jsonl", "--labels", "labels.jsonl", "-g", "ae-grader-hint", cwd=tmp_path)
    assert (found["records"]["total"], found["labels"]["used"]) == (3, 2)
    assert found["changes"]["failToPass"] == 2, "Paris and In Paris have the hint"
    assert found["rescored"]["agreement"] == 1.0 and found["recorded"]["n"] == 2
