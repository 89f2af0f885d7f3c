"""The html page of ae-history in a real browser: names of versions, empty columns, what the lines mean."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.tool import run, write

DAY, WORSE_FROM, PROMPTS = 86_400_000, 5, 40
NAMES = """() => [...document.querySelectorAll('svg g > text')].map((one) => one.getBoundingClientRect())
  .filter((at) => at.y < document.querySelector('.grid').getBoundingClientRect().y).map((at) => [at.left, at.right])"""


def history_page(folder: Path, runs: int, **fields: Any) -> Path:
    """Writes runs of which the fifth and all later ones are worse, each with its own version if it has a metadata."""
    (folder / "runs").mkdir()
    for at in range(1, runs + 1):
        start = 1_767_225_600_000 + at * DAY
        more = dict(fields)
        if "metadata" in fields:
            version = f"2.1.{at}" if at < runs else "3.0.0-experimental"
            more["metadata"] = {**fields["metadata"], "runId": f"r{at}", "agentVersion": version}
            more["timing"] = {"start": start, "end": start + 1500}
        records = []
        for prompt in range(PROMPTS):
            passed = prompt < PROMPTS * (0.9 if at < WORSE_FROM else 0.4)
            score = {"pass": passed, "score": float(passed)}
            records.append({"id": f"p{prompt}", "input": "q", "output": "x", "score": score, **more})
        write(folder / "runs" / f"{at:02}.jsonl", *records)
    run("ae-history", folder / "runs", "-o", folder / "page.html").expect(0)
    return folder / "page.html"


@pytest.mark.parametrize("width", [500, 1440])
def test_versions_do_not_overlap_or_leave_the_picture(width: int, tmp_path: Path, browser: Any) -> None:
    page = browser.new_page(viewport={"width": width, "height": 1000})
    page.goto(history_page(tmp_path, 30, metadata={"agent": "claude"}).as_uri())
    names = page.evaluate(NAMES)
    picture = page.locator("svg").bounding_box()
    assert len(names) > 5 and names[-1][1] <= picture["x"] + picture["width"]
    assert all(right < left for (_, right), (left, _) in zip(names, names[1:], strict=False))
    assert page.locator("line.version").count() == 29
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    note = page.inner_text(".card .dim >> nth=0")
    assert "Dashed: the pass rate before and after a change. Dotted: a change of agent, model or version." in note
    page.close()


def test_columns_that_no_run_has_are_left_out(tmp_path: Path, browser: Any) -> None:
    page = browser.new_page()
    page.goto(history_page(tmp_path, 8).as_uri())
    titles = ["#", "Run", "Prompts", "Pass rate", "95% interval", "Change"]
    assert page.locator("th").all_inner_texts() == ["Mark", *titles]
    assert page.locator("tbody tr").nth(4).locator("td").all_inner_texts()[:3] == ["▼", "5", "05"]
    assert "Dotted" not in page.inner_text("main")
    markdown = run("ae-history", tmp_path / "runs", "-f", "markdown").expect(0).stdout
    assert f"|  | {' | '.join(titles)} |\n| --- | --- | --- | ---: |" in markdown
    page.close()


def test_a_history_of_nothing(tmp_path: Path) -> None:
    (tmp_path / "empty.jsonl").write_text("")
    for form in ("html", "markdown"):
        text = run("ae-history", tmp_path / "empty.jsonl", "-f", form).expect(0).stdout
        assert "No run is graded." in text and "Runs" not in text
