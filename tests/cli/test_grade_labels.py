"""ae-grade --labels: a person's verdict stands over the graders', and what it overrules is kept."""

from __future__ import annotations

import json
from pathlib import Path

from tests.support.page_records import graded, result, trial
from tests.support.tool import jsonl, run, write

WRONG = {**graded(False, 0.4, "not convinced"), "outcome": {"checks": []}}


def test_a_label_decides_and_can_be_taken_back(tmp_path: Path) -> None:
    records = [
        result("a", score=WRONG, outcome=WRONG["outcome"]),
        result("b", score=graded(True, 0.9)),
        result("c", graderError="judge: timed out"),
        result("d", errors=["crashed"], score=graded(False, 0.0, "agent failed: crashed")),
        result("e", score=graded(True, 1.0)),
        result("f"),
        trial("t", [True, False]),
    ]
    labels = [
        {"id": "a", "pass": True, "note": "right, only short"},
        {"id": "b", "label": "pass"},
        {"id": "c", "pass": False},
        {"id": "d", "pass": True},
        {"id": "e", "pass": False, "outputHash": "0" * 16},
        {"id": "f", "pass": None},
        {"id": "t#2", "pass": True},
        {"id": "gone", "pass": True},
    ]
    file = write(tmp_path / "graded.jsonl", *records)
    done = run("ae-grade", file, "--labels", write(tmp_path / "labels.jsonl", *labels), "-o", tmp_path / "final.jsonl")
    left_out = (
        "1 undecided, 1 for an output that has changed, 1 for an agent that failed, 1 for an id that is "
        "not among the records"
    )
    said = f"ae-grade: 4 of 8 labels used, 3 of them overrule the graders; left out: {left_out}"
    assert done.expect(0).messages == [said]
    final = {record["id"]: record for record in map(json.loads, (tmp_path / "final.jsonl").read_text().splitlines())}
    note = "right, only short"
    assert final["a"]["score"] == {"pass": True, "score": 1.0, "reasoning": note, "outcome": {"checks": []}}
    assert final["a"]["humanVerdict"] == {"pass": True, "note": note, "overrules": graded(False, 0.4, "not convinced")}
    assert final["b"] == records[1] | {"humanVerdict": {"pass": True}}
    assert final["c"]["score"]["pass"] is False and "graderError" not in final["c"]
    assert final["c"]["humanVerdict"]["overrules"] == {"graderError": "judge: timed out"}
    assert [final[id] for id in "def"] == records[3:6]
    assert final["t"]["passRate"] == 1.0 and final["t"]["trials"][1]["humanVerdict"]["overrules"]["pass"] is False

    summary = run("ae-format", "-f", "table", stdin=jsonl(*(final[id] for id in "abc"))).stdout
    assert "By a person    3, of which 2 overrule the graders" in summary
    sources = (file, tmp_path / "final.jsonl")
    reports = [run("ae-calibrate", one, "--labels", tmp_path / "labels.jsonl", "-f", "json").stdout for one in sources]
    assert reports[0] == reports[1] and json.loads(reports[0])["recorded"]["agreement"] < 1  # it is of the grader
    back = run("ae-grade", tmp_path / "final.jsonl", "--labels", write(tmp_path / "none.jsonl")).expect(0)
    assert [json.loads(line) for line in back.stdout.splitlines()][:6] == records[:6]


def test_labels_go_with_graders_and_graders_do_not_see_them(tmp_path: Path) -> None:
    (tmp_path / "g.py").write_text("def grade(r):\n    return {'pass': False, 'reasoning': str(sorted(r))}\n")
    labelled = result("a") | {"humanVerdict": {"pass": True}}
    labels = write(tmp_path / "labels.jsonl", {"id": "a", "pass": True})
    done = run("ae-grade", "-g", tmp_path / "g.py", "--labels", labels, stdin=jsonl(labelled)).expect(0)
    record = json.loads(done.stdout)
    assert record["score"]["pass"] and "humanVerdict" not in record["humanVerdict"]["overrules"]["reasoning"]
    file = write(tmp_path / "graded.jsonl", labelled)
    run("ae-grade", file, "--labels", labels, "--resume", "-o", tmp_path / "o").expect(2).says("grade first")
    run("ae-grade", "--labels", labels, "-j", "2", stdin=jsonl(labelled)).expect(2).says("without -g")
