"""ae-history: runs apart by runId, in the order of time, and when the pass rate changed."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from tests.support.browser import running_browser
from tests.support.tool import Done, Record, jsonl, run, write

DAY, RUNS, PROMPTS, WORSE_FROM = 86_400_000, 8, 80, 5


def result(at: int, prompt: int, passed: bool, **fields: Any) -> Record:
    start = 1_767_225_600_000 + at * DAY + prompt
    metadata = {"runId": f"run-{at}", "agent": "claude", "agentVersion": "2.1" if at >= WORSE_FROM else "2.0"}
    return {
        "id": f"<b>p{prompt}",
        "input": f"question {prompt}",
        "output": "x",
        "metadata": metadata,
        "timing": {"start": start, "end": start + 1500, "inputTokens": 90, "outputTokens": 10, "costUsd": 0.01},
        "score": {"pass": passed, "score": float(passed)},
        **fields,
    }


def history_records() -> list[list[Record]]:
    """The records of each run; from the sixth on, the last 30 prompts mostly fail."""
    draw = random.Random(5)
    return [
        [
            result(at, prompt, draw.random() < (0.1 if at >= WORSE_FROM and prompt >= PROMPTS - 30 else 0.9))
            for prompt in range(PROMPTS)
        ]
        for at in range(RUNS)
    ]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder whose file names are not in the order of time; one file holds two runs, one holds prompts."""
    folder = tmp_path_factory.mktemp("runs")
    every = history_records()
    (folder / "below").mkdir()
    write(folder / "a.jsonl", *every[7], *every[0])
    for at in range(1, 7):
        write(folder / "below" / f"{9 - at}.jsonl", *every[at])
    write(folder / "prompts.jsonl", {"id": "p", "input": "q"})
    return folder


def history(*args: object, code: int = 0, **more: Any) -> tuple[Record, Done]:
    done = run("ae-history", *args, **more)
    assert done.code == code, done.stderr
    return json.loads(done.stdout), done


def test_runs_are_ordered_by_time_and_a_change_is_shown_where_it_is(folder: Path) -> None:
    report, done = history(folder)
    assert [one["runId"] for one in report["runs"]] == [f"run-{at}" for at in range(RUNS)]
    assert [one["file"].rpartition("/")[2] for one in report["runs"]][:2] == ["a.jsonl", "8.jsonl"]
    assert "left out" in done.stderr and "prompts.jsonl" in done.stderr
    [change] = report["changes"]
    assert (change["number"], change["before"], change["after"]) == (WORSE_FROM + 1, [1, 5], [6, 8])
    assert change["adjustedP"] < 0.05 and change["difference"] < -0.2
    assert len({*change["lost"]} & {f"<b>p{prompt}" for prompt in range(50, 80)}) > 25 and len(change["lost"]) < 30
    first, at_change = report["runs"][0], report["runs"][WORSE_FROM]
    assert "change" not in first and at_change["marks"] == ["version 2.0 → 2.1"]
    assert (at_change["shared"], at_change["p50"], at_change["tokens"]) == (PROMPTS, 1500, 100 * PROMPTS)
    assert at_change["cost"] == pytest.approx(0.8) and at_change["change"] < -0.2
    low, high = at_change["interval"]["low"], at_change["interval"]["high"]
    assert low < at_change["passRate"] < high


def test_forms(folder: Path, tmp_path: Path) -> None:
    table = run("ae-history", folder, "-f", "table").stdout
    assert "▼ Run 6" in table and "version 2.0 → 2.1" in table and "█" in table and "All runs: agent claude." in table
    assert all(len(line) <= 100 for line in table.splitlines())
    markdown = run("ae-history", folder, "-f", "markdown").stdout
    assert "**▼ Run 6**" in markdown and "&lt;b&gt;p" in markdown and markdown.count("\n|") == RUNS + 2
    page = tmp_path / "history.html"
    run("ae-history", folder, "-o", page)
    text = page.read_text()
    assert "<script" not in text and "<b>" not in text and text.count("<circle") == RUNS
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="the extra references has it").Axe()
    with running_browser() as browser:
        for scheme in ("light", "dark"):
            opened = browser.new_context(color_scheme=scheme).new_page()
            opened.goto(page.as_uri())
            assert axe.run(opened).response["violations"] == []


def test_the_gate_is_that_of_ae_compare(folder: Path, tmp_path: Path) -> None:
    every = history_records()
    _, same = history(folder, "--fail-if-worse")
    assert not [line for line in same.stderr.splitlines() if "worse" in line]
    report, worse = history(folder, "--fail-if-worse", "--baseline", "run-2", code=1)
    old, new = write(tmp_path / "old.jsonl", *every[2]), write(tmp_path / "new.jsonl", *every[7])
    compared = run("ae-compare", old, new, "--fail-if-worse").stderr
    figures = report["reasons"][0].partition(": ")[2]
    assert figures and figures in compared and report["reasons"][0] in worse.stderr
    report, _ = history(folder, "--fail-if-worse", "--baseline", old, code=1)
    assert report["baseline"] == "old" and report["reasons"][0].endswith(figures)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("--baseline", "1"), "add --fail-if-worse"),
        (("--fail-if-worse", "--baseline", "none"), "neither a file nor a run"),
        (("--fail-if-worse", "--baseline", "8"), "the last run itself"),
    ],
)
def test_what_cannot_be_meant_is_refused(args: tuple[str, ...], message: str, folder: Path) -> None:
    done = run("ae-history", folder, *args)
    assert done.code == 2 and message in done.stderr


def test_files_without_ids_and_times_changed_inputs_and_trials(tmp_path: Path) -> None:
    bare = [{"id": f"p{at}", "input": "q", "output": "x", "score": {"pass": True, "score": 1}} for at in range(6)]
    for name in ("2.jsonl", "1.jsonl"):
        write(tmp_path / name, *bare)
    write(tmp_path / "3.jsonl", *(one | {"input": "another"} for one in bare[:2]), *bare[2:], bare[3])
    report, done = history(tmp_path)
    assert [one["name"] for one in report["runs"]] == ["1", "2", "3"] and "order of their files" in done.stderr
    assert [one.get("shared") for one in report["runs"]] == [None, 6, 4]
    assert "3.jsonl: 1 duplicate record of the same run: each prompt counts once" in done.stderr
    entries = [{"trialNum": at, "output": "", "pass": at == 1} for at in (1, 2)]
    trials = [{"id": f"p{at}", "input": "q", "k": 2, "trials": entries, "metadata": {"runId": "r"}} for at in range(5)]
    report, _ = history(stdin=jsonl(*trials))
    assert [(one["runId"], one["passRate"]) for one in report["runs"]] == [("r", 0.5)]
    assert report["summary"] == "1 run, pass rate 50.0%", "one run has no change"
    write(tmp_path / "4.jsonl", *trials)
    assert "a history needs one kind" in run("ae-history", tmp_path).stderr
