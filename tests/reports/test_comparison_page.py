"""The html page of ae-compare in a real browser: verdict, forest plot, flips first, records side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from agenteval.reports.comparison.html import FlippedIds, flip_status
from tests.reports.conftest import Open
from tests.reports.test_page_safety import assert_untouched
from tests.support.page_records import HOSTILE, graded, hostile, result, trial
from tests.support.tool import read, run, write

BEFORE = [True, True, True, False, False, True]
NOW = [True, False, True, True, False, True]


def run_file(path: Path, passes: list[bool], **fields: Any) -> Path:
    """Writes a run with a result for each verdict, in two categories."""
    rows = [
        result(
            f"p{at}", score=graded(passed, float(passed), f"why {at}"), metadata={"category": "ab"[at % 2]}, **fields
        )
        for at, passed in enumerate(passes)
    ]
    return write(path, *rows)


@pytest.fixture(scope="module")
def comparison(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("comparison")
    old, new = run_file(folder / "old.jsonl", BEFORE), run_file(folder / "new.jsonl", NOW, output="the new answer")
    extra = '{"id": "alone", "output": "only here"}\n'
    new.write_text(new.read_text() + extra)
    done = run("ae-compare", old, new, "-o", folder / "page.html", cwd=folder)
    assert done.code == 0, done
    run("ae-compare", old, new, "-o", folder / "report.json", cwd=folder)
    return folder / "page.html"


def test_flips_come_first_and_the_figures_are_those_of_the_report(comparison: Path, opened: Open) -> None:
    shown = opened(comparison)
    page = shown.go()
    assert shown.ids() == ["p1", "p3", "p0", "p2", "p4", "p5", "alone"]
    statuses = page.locator("td.column-status").all_inner_texts()
    assert [text.split(" ", 1)[1] for text in statuses[:3]] == ["No longer passes", "Now passes", "Passes"]
    assert statuses[-1].endswith("Not compared")
    report = msgspec.json.decode((comparison.parent / "report.json").read_bytes())
    [pair] = report["statistics"]["pairs"]
    assert page.locator(".sentences li").all_text_contents() == pair["sentences"]
    first = page.locator(".forest-row").first
    low, high = -pair["passRate"]["interval"]["high"], -pair["passRate"]["interval"]["low"]
    assert (
        " ".join(first.inner_text().split())
        == f"Pass rate +0.0 points {low * 100:+.1f} points to {high * 100:+.1f} points"
    )
    names = page.locator(".forest .forest-name").all_text_contents()
    assert names[:4] == ["Pass rate", "Score", "a", "b"] and {"Time", "Tokens", "Cost"} <= set(names)
    assert page.locator("table.plain tbody tr").count() == 2
    tiles = page.locator(".tile .value").all_text_contents()
    assert tiles == ["66.7%", "66.7%", "1", "1"]
    assert_untouched(shown)


def test_a_prompt_opens_with_both_runs_side_by_side(comparison: Path, opened: Open) -> None:
    shown = opened(comparison)
    page = shown.go("#status=worse")
    shown.wait_for_ids(["p1"])
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_selector(".run-column >> nth=1")
    titles = [" ".join(text.split()) for text in page.locator(".run-title").all_inner_texts()]
    assert titles == ["old ✓ Pass", "new ✗ Fail"]
    columns = page.locator(".run-column")
    assert columns.nth(0).locator(".step").count() == columns.nth(1).locator(".step").count() == 5
    assert "It is p1." in columns.nth(0).inner_text() and "the new answer" in columns.nth(1).inner_text()
    assert len({columns.nth(at).bounding_box()["y"] for at in (0, 1)}) == 1
    page.evaluate("location.hash = '#category=b&status=both-pass'")
    shown.wait_for_ids(["p5"])


@pytest.mark.parametrize(("scheme", "width"), [("light", 400), ("dark", 1280)])
def test_the_comparison_passes_axe(scheme: str, width: int, comparison: Path, opened: Open) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="the extra references has it").Axe()
    page = opened(comparison, viewport={"width": width, "height": 800}, color_scheme=scheme).go()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    found = axe.run(page).response["violations"]
    assert [(item["id"], item["nodes"][0]["html"]) for item in found] == []


def test_three_runs_of_trials_from_a_pipe(tmp_path: Path, opened: Open) -> None:
    passes = {"a": [True, True], "b": [True, False], "c": [False, False]}
    files = [
        write(tmp_path / f"{name}.jsonl", *(trial(f"p{at}", list(passes[name])) for at in range(4))) for name in passes
    ]
    run(
        "ae-compare",
        *files[:2],
        "-",
        "-f",
        "html",
        "-o",
        tmp_path / "page.html",
        stdin=files[2].read_bytes(),
        cwd=tmp_path,
    )
    page = opened(tmp_path / "page.html").go("#p0")
    page.wait_for_selector(".run-column >> nth=2")
    assert page.locator(".run-column").nth(1).locator("summary .status").all_inner_texts() == ["✓ Pass", "✗ Fail"]
    assert page.locator(".run-column").nth(0).locator(".step").count() == 5  # the first trial is open
    assert page.locator(".outcome").count() == 3


def test_hostile_names_and_records(tmp_path: Path, opened: Open) -> None:
    file = write(tmp_path / "r.jsonl", *(hostile(text) for text in HOSTILE))
    other = write(tmp_path / "s.jsonl", *read(file))
    label = "</script><script>window.pwned = 1<"
    run(
        "ae-compare",
        "--run",
        f"{label}:{file}",
        "--run",
        f"__proto__:{other}",
        "-o",
        tmp_path / "page.html",
        cwd=tmp_path,
    )
    shown = opened(tmp_path / "page.html")
    page = shown.go("#id=__proto__")
    page.wait_for_selector(".run-column >> nth=1")
    assert page.locator(".run-title").all_inner_texts()[1].startswith("__proto__")
    assert label in page.locator("h1").inner_text()
    assert_untouched(shown)


@pytest.mark.parametrize(
    ("statuses", "gained", "lost", "status"),
    [
        (["pass", "fail"], False, True, "worse"),
        (["fail", "pass"], True, False, "fixed"),
        (["pass", "fail", "pass"], True, True, "mixed"),
        (["pass", "pass"], False, False, "both-pass"),
        (["fail", "error"], False, False, "both-fail"),
        (["pass", "flaky"], False, False, "both-pass"),
        (["pass", "ungraded"], False, False, "not-compared"),
        (["pass"], False, False, "not-compared"),
    ],
)
def test_how_a_prompt_changed(statuses: list[str], gained: bool, lost: bool, status: str) -> None:
    assert flip_status(statuses, gained, lost) == status


def test_the_order_of_prompts() -> None:
    flips = FlippedIds(lost=frozenset({"c", "d"}), gained=frozenset({"b", "d"}))
    assert flips.first(["a", "b", "c", "d", "e"]) == ["d", "c", "b", "a", "e"]
