"""The html page in a real browser: what it shows, how it is searched, opened, printed and read aloud."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.reports.conftest import Open
from tests.support.page_records import every_status, graded, result, trial, with_sub_agents
from tests.support.tool import run, write

ALL = ["first", "second", "third", "fourth", "fifth", "sixth"]


STEP_HEADS = """steps => steps.map(step => {
    const parts = [step.querySelector('.step-number'), ...step.querySelector('summary').children];
    return parts.map(part => part.textContent).join(' ');
})"""


def make_page(folder: Path, records: list[Any], *options: str) -> Path:
    """Writes the page of these records with ae-format."""
    run(
        "ae-format",
        write(folder / "records.jsonl", *records),
        "-f",
        "html",
        "-o",
        folder / "page.html",
        *options,
        cwd=folder,
    )
    return folder / "page.html"


@pytest.fixture(scope="module")
def results_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_page(tmp_path_factory.mktemp("results"), every_status())


@pytest.fixture(scope="module")
def trials_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    trials = [
        trial("steady", [True] * 3),
        trial("shaky", [True, False, True]),
        trial("broken", [None] * 3),
        trial("wrong", [False] * 3),
    ]
    return make_page(tmp_path_factory.mktemp("trials"), trials)


# --- overview -----------------------------------------------------------------------------------


def test_the_top_has_what_was_run_and_the_figures_of_the_other_reports(results_page: Path, opened: Open) -> None:
    page = opened(results_page).go()
    assert page.locator("h1").text_content() == "robot, model-1"
    top = page.locator("#top").inner_text()
    assert "model-1" in top and "2023-11-14 22:13:20 UTC" in top and "agenteval " in top
    tiles = dict(
        zip(page.locator(".tile h2").all_text_contents(), page.locator(".tile .value").all_text_contents(), strict=True)
    )
    markdown = run("ae-format", results_page.parent / "records.jsonl", "-f", "markdown").stdout
    assert tiles["Pass rate"] == "50.0%" and "(50.0%)" in markdown
    assert (tiles["Agents failed"], tiles["Ungraded"], tiles["Tokens"], tiles["Cost"]) == ("1", "2", "5,000", "$1.25")
    assert tiles["Latency p50 / p90"] == "2.00 s / 1m 30s"
    note = page.locator(".tile .note").first.text_content()
    assert note == "2 of 4 passed; 95% interval 15.0% to 85.0%" and "95% interval 15.0% to 85.0%" in markdown
    assert page.locator("#plots h2").all_text_contents() == [
        "Pass rate by category",
        "Pass rate by grader",
        "Scores",
        "Latency",
        "Tokens",
    ]
    assert page.locator("#plots .rate-name").first.text_content() == "api"


def test_by_groups_by_any_field_below_metadata(tmp_path: Path, opened: Open) -> None:
    records = [
        result(str(at), score=graded(at > 0, 1.0), metadata={"job": {"size": size}})
        for at, size in enumerate([1, 2, 2])
    ]
    shown = opened(make_page(tmp_path, records, "--by", "metadata.job.size"))
    page = shown.go("#job.size=2")
    assert page.locator("#plots h2").first.text_content() == "Pass rate by job.size"
    shown.wait_for_ids(["1", "2"])
    page.locator("button.rate-name", has_text="1").click()
    shown.wait_for_ids(["0"])
    assert shown.fragment() == "#job.size=1"


# --- table --------------------------------------------------------------------------------------


FILTERS = [
    ("", ALL),
    ("#status=fail", ["second"]),
    ("#status=pass", ["first", "sixth"]),
    ("#status=error", ["third"]),
    ("#status=ungraded", ["fifth"]),
    ("#status=grader-error", ["fourth"]),
    ("#status=fail,error", ["second", "third"]),
    ("#category=api", ["second", "fifth"]),
    ("#status=fail&category=api&q=convinced", ["second"]),
    ("#status=fail&category=ui", []),
    ("#q=NEEDLE", ["sixth"]),
    ("#q=the%20is%20needle", ["sixth"]),
    ("#q=exited", ["third"]),
    ("#tool=Edit&status=pass", ["first", "sixth"]),
    ("#tool=Nothing", []),
    ("#q=line%20150", []),
    ("#q=line%20150&deep=1&status=pass", ["first", "sixth"]),
    ("#sort=-duration&category=api", ["fifth", "second"]),
    ("#sort=id", sorted(ALL)),
]


def test_the_address_has_the_filter(results_page: Path, opened: Open) -> None:
    shown = opened(results_page)
    page = shown.go("#status=fail&category=api&q=convinced")
    shown.wait_for_ids(["second"])
    for fragment, ids in FILTERS:
        page.evaluate("hash => { location.hash = hash }", fragment)
        shown.wait_for_ids(ids)


def test_controls_filter_and_write_the_address(results_page: Path, opened: Open) -> None:
    shown = opened(results_page)
    page = shown.go()
    page.get_by_role("button", name="Fail 1").click()
    shown.wait_for_ids(["second"])
    assert shown.fragment() == "#status=fail"
    assert "1 of 6 records" in page.locator("#count").inner_text()
    page.get_by_role("button", name="Clear").click()
    shown.wait_for_ids(ALL)
    page.get_by_label("category").select_option(label="api (2)")
    page.get_by_label("Tool").select_option(label="Bash (1)")
    shown.wait_for_ids(["second"])
    assert shown.fragment() == "#category=api&tool=Bash"
    page.get_by_role("button", name="Clear").click()
    page.get_by_role("button", name="Score").click()
    shown.wait_for_ids(["sixth", "first", "second", "third", "fourth", "fifth"])
    assert page.get_by_role("columnheader", name="Score").get_attribute("aria-sort") == "descending"
    page.get_by_role("button", name="Score").click()
    shown.wait_for_ids(["third", "second", "first", "sixth", "fourth", "fifth"])


def with_checks(id: str, judge: float, checks: dict[str, bool], **fields: Any) -> Any:
    """Returns a result of two graders; one of them has checks."""
    outcome = {"checks": [{"name": name, "pass": passed, "reason": "seen"} for name, passed in checks.items()]}
    found = {
        "tests": graded(all(checks.values()), float(all(checks.values()))) | {"outcome": outcome},
        "judge": graded(judge > 0.5, judge),
    }
    return result(id, score=graded(all(one["pass"] for one in found.values()), judge), scores=found, **fields)


def test_graders_and_checks_have_columns_and_filters(tmp_path: Path, opened: Open) -> None:
    records = [
        with_checks("a", 0.9, {"says why": True, "-cheap": True}),
        with_checks("b", 0.2, {"says why": True, "-cheap": False}),
        with_checks("c", 0.8, {"says why": False, "-cheap": True}),
        with_checks("d", 0.3, {"says why": False}, metadata={"category": "api"}),
        result("e", errors=["it crashed"]),
    ]
    shown = opened(make_page(tmp_path, records), viewport={"width": 1440, "height": 900}, accept_downloads=True)
    page = shown.go()
    heads = page.locator("table.rows th").all_text_contents()
    assert heads[1:3] == ["Id", "Prompt"] and heads[5:9] == ["tests", "judge", "says why", "-cheap"]
    cells = page.locator("table.rows tbody tr").nth(1).locator("td").all_text_contents()
    assert cells[2] == "What is b?" and cells[5:9] == ["✗Fail", "✗Fail 0.20", "✓Pass", "✗Fail"]
    assert heads[-1].startswith("Answer") and page.locator("th").last.bounding_box()["width"] >= 190

    page.get_by_role("button", name="Graders and checks").click()
    page.get_by_label("grader judge").select_option(label="judge: ✗ does not pass (2)")
    shown.wait_for_ids(["b", "d"])
    chips = page.locator(".chip").all_inner_texts()
    assert [" ".join(text.split()) for text in chips] == ["✗ Fail 2", "! Agent failed 0", "✓ Pass 0"]
    assert "ui (1)" in page.get_by_label("category").inner_text()
    page.get_by_label("check says why").select_option(label="says why: ✓ passes (1)")
    shown.wait_for_ids(["b"])
    assert shown.fragment() == "#grader.judge=fail&check.says%20why=pass"
    with page.expect_download() as downloading:
        page.get_by_role("button", name="Download").click()
    saved = Path(downloading.value.path()).read_text()
    assert downloading.value.suggested_filename == "robot-model-1.jsonl" and json.loads(saved) == records[1]
    page.evaluate("location.hash = '#check.-cheap=none&category=ui'")
    shown.wait_for_ids(["e"])
    page.evaluate("location.hash = '#grader.judge=pass&category=api'")
    page.get_by_text("No record matches this filter.").wait_for()
    page.get_by_role("button", name="Clear the filter").click()
    shown.wait_for_ids(["a", "b", "c", "d", "e"])
    page.get_by_role("button", name="judge", exact=True).last.click()
    shown.wait_for_ids(["a", "c", "d", "b", "e"])
    assert shown.fragment() == "#sort=-grader.judge"
    page.locator(".card button", has_text="judge").click()
    shown.wait_for_ids(["d", "b"])
    page.get_by_text("Columns").click()
    page.get_by_label("check: says why").last.uncheck()
    assert "says why" not in page.locator("table.rows th").all_text_contents()
    assert page.locator(".all-same").all_text_contents() == ["all 5: 2.00 s", "all 5: 1,000"]
    shown.changed = True  # the choice of columns is stored


def test_the_keyboard(results_page: Path, opened: Open) -> None:
    shown = opened(results_page)
    page = shown.go()
    for key in ("j", "j", "j", "k"):
        page.keyboard.press(key)
    assert page.evaluate("document.activeElement.textContent") == "second"
    page.keyboard.press("Enter")
    page.wait_for_selector(".record-body")
    assert shown.fragment() == "#id=second"
    page.keyboard.press("j")
    page.wait_for_selector("#record-title bdi:text-is('third')")
    page.keyboard.press("Escape")
    page.wait_for_selector("#record", state="hidden")
    assert page.evaluate("document.activeElement.textContent") == "third"
    page.keyboard.press("/")
    page.keyboard.type("needle")
    shown.wait_for_ids(["sixth"])
    assert shown.fragment() == "#q=needle"
    page.keyboard.press("Enter")
    page.keyboard.press("Enter")
    page.wait_for_selector("#record-title bdi:text-is('sixth')")
    assert shown.fragment() == "#q=needle&id=sixth"
    page.keyboard.press("Escape")
    page.keyboard.press("Escape")
    shown.wait_for_ids(ALL)
    page.keyboard.press("?")
    page.get_by_role("dialog", name="Keyboard").wait_for()
    page.keyboard.press("Escape")
    page.get_by_role("dialog", name="Keyboard").wait_for(state="hidden")


def test_only_rows_on_the_screen_are_elements(tmp_path: Path, opened: Open) -> None:
    records = [
        {"id": f"r{at:04}", "output": f"answer {at}", "metadata": {"category": str(at % 7)}} for at in range(3000)
    ]
    shown = opened(make_page(tmp_path, records))
    page = shown.go()
    assert page.locator("table.rows").get_attribute("aria-rowcount") == "3001"
    assert 10 < page.locator("table.rows tbody tr").count() < 100
    page.evaluate("scrollTo(0, document.body.scrollHeight)")
    page.wait_for_selector("a.id bdi:text-is('r2999')")
    assert page.locator("table.rows tbody tr").count() < 100
    last = page.locator("tr", has=page.locator("a.id bdi:text-is('r2999')"))
    assert last.get_attribute("aria-rowindex") == "3001"
    last.click()
    page.wait_for_selector(".record-body >> text=answer 2999")
    page.evaluate("location.hash = '#id=r1500'")
    page.wait_for_selector(".record-body >> text=answer 1500")


# --- a record -----------------------------------------------------------------------------------


def test_a_link_opens_a_record(results_page: Path, opened: Open) -> None:
    shown = opened(results_page)
    for fragment in ["#id=second", "#second", "#status=fail&id=second"]:
        page = shown.go(fragment)
        page.wait_for_selector(".record-body")
        assert page.locator("#record-title").text_content() == "second"


def test_an_unknown_id_is_named(results_page: Path, opened: Open) -> None:
    page = opened(results_page).go("#id=missing")
    page.wait_for_selector("#record .notice")
    assert "missing" in page.locator("#record .notice").inner_text()


def test_a_record_has_its_verdicts_and_every_step(results_page: Path, opened: Open) -> None:
    page = opened(results_page).go("#id=second")
    page.wait_for_selector(".record-body")
    verdicts = page.locator(".verdict").all_inner_texts()
    assert [("Pass" in text, "Fail" in text) for text in verdicts] == [(False, True), (True, False), (False, True)]
    assert "judge was not convinced" in verdicts[2] and "0.200" in verdicts[2]
    heads = [" ".join(text.split()) for text in page.locator(".step").evaluate_all(STEP_HEADS)]
    assert heads == [
        "1 Thought thinking about second +0 ms 100 ms",
        "2 Bash ls -la +200 ms 1.00 s",
        "3 Edit app.py failed +1.30 s 500 ms",
        "4 Plan 1 item +1.80 s 50 ms",
        '5 Message {"answer": [1, 2]} +1.85 s 150 ms',
    ]
    assert page.locator(".legend").inner_text().split("\n") == [
        "Tool",
        "Tool that failed",
        "Thought",
        "Message",
        "Plan",
    ]
    bash, edit, message = (page.locator(".step").nth(at) for at in (1, 2, 4))
    assert "step failed" in (edit.get_attribute("class") or "")
    assert edit.locator(".diff-removed").all_text_contents() == ["-b"]
    assert edit.locator(".diff-added").all_text_contents() == ["+B"]
    assert message.locator("pre").inner_text() == '{\n  "answer": [\n    1,\n    2\n  ]\n}'
    assert '"command": "ls -la"' in bash.locator("pre").first.inner_text()
    assert "line 14" in bash.inner_text() and "line 15" not in bash.inner_text()
    bash.get_by_role("button", name="Show all").click()
    assert "line 200" in bash.inner_text()
    widths = page.evaluate(
        "Array.from(document.querySelectorAll('.step .track .span'), bar => bar.getBoundingClientRect().width)"
    )
    assert widths[1] == pytest.approx(2 * widths[2], rel=0.05)  # 1000 ms and 500 ms


def test_the_raw_record_is_copied_as_it_is(tmp_path: Path, opened: Open) -> None:
    line = '{"id": "a", "output": "", "big": 12345678901234567890123, "half": 1.50, "empty": {}, "list": [ ]}'
    shown = opened(make_page(tmp_path, [line]))
    shown.context.grant_permissions(["clipboard-read", "clipboard-write"])
    shown.changed = True
    # The button says so for 1.5 s; here until the test has looked.
    later = "const later = window.setTimeout; window.setTimeout = (work, ms) => ms === 1500 ? 0 : later(work, ms);"
    shown.page.add_init_script(later)
    page = shown.go("#a")
    page.get_by_role("button", name="Copy JSON").click()
    page.get_by_role("button", name="Copied").wait_for()
    assert page.evaluate("navigator.clipboard.readText()") == line
    page.get_by_text("Raw JSON").click()
    page.wait_for_selector(".raw pre")
    shown_json = page.locator(".raw pre").inner_text()
    assert '"big": 12345678901234567890123,\n  "half": 1.50,\n  "empty": {},\n  "list": []' in shown_json
    assert json.loads(shown_json) == json.loads(line)


def test_steps_of_a_sub_agent_are_marked_in_the_timeline(tmp_path: Path, opened: Open) -> None:
    page = opened(make_page(tmp_path, [with_sub_agents()])).go("#id=nested")
    page.wait_for_selector(".record-body")
    heads = [" ".join(text.split()[1:4]) for text in page.locator(".step").evaluate_all(STEP_HEADS)]
    assert heads[:4] == ["Message I delegate.", "Task find it", "Sub-agent: Thought sub", "Sub-agent: Task +4"]
    assert page.locator(".step.nested").count() == 5


def test_turns_are_marked_in_the_timeline(tmp_path: Path, opened: Open) -> None:
    record = result("a", input=["first question", "second question"])
    record["metadata"]["turnSteps"] = [2, 3]
    page = opened(make_page(tmp_path, [record])).go("#a")
    page.wait_for_selector(".record-body")
    items = page.locator(".steps > li").evaluate_all("items => items.map(item => item.className)")
    assert [name.split()[0] for name in items] == ["turn", "step", "step", "turn", "step", "step", "step"]
    assert "second question" in page.locator(".turn").nth(1).inner_text()


PICTURE = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
ANSWER = """## What changed

Some **bold**, *lean* and `code`, [a link](https://example.org/x) and <b>no tag</b>.

1. first
   - inner
2. second

| name | n |
|---|---:|
| x | 1 |

```python
a = "# no heading"
```
> quoted
"""


def test_a_long_trajectory_folds_and_a_step_has_an_address(tmp_path: Path, opened: Open) -> None:
    """Markdown, pictures, the outline and what a search has found are looked at on the same page."""
    calls: list[Any] = [
        {
            "type": "tool_call",
            "name": "Bash",
            "status": "completed",
            "input": {"command": f"run {n}"},
            "output": f"out {n}",
        }
        for n in range(1, 300)
    ]
    shot = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PICTURE}}
    outside = [
        {"type": "image", "url": "http://127.0.0.1:9/a.png"},
        {"type": "image", "data": "PHN2Zz4=", "mimeType": "image/svg+xml"},
    ]
    calls[9] |= {"output": [{"type": "text", "text": 'a needle, said "here"'}, shot, *outside]}
    calls[19] |= {"status": "failed"}
    record = result("long", output=ANSWER, trajectory=[*calls, {"type": "message", "content": "שלום"}])
    shown = opened(make_page(tmp_path, [record, result("other")]))
    page = shown.go("#id=long")
    page.wait_for_selector(".record-body")

    prose = page.locator(".prose").nth(1)
    assert prose.locator("strong").inner_text() == "bold" and prose.locator("em").inner_text() == "lean"
    assert prose.locator(".md-heading-2").inner_text() == "What changed"
    assert prose.locator("ol > li").count() == 2 and prose.locator("ol > li > ul > li").inner_text() == "inner"
    assert (
        prose.locator("td.number").inner_text() == "1"
        and prose.locator("pre.code").inner_text() == 'a = "# no heading"'
    )
    assert "a link (https://example.org/x) and <b>no tag</b>" in prose.inner_text()
    assert page.locator(".prose a, .prose h1, .prose h2, .prose b").count() == 0
    page.keyboard.press("r")
    assert prose.inner_text() == ANSWER and prose.locator("strong").count() == 0
    page.keyboard.press("r")

    steps, bodies = page.locator(".step"), page.locator(".step-body")
    assert (steps.count(), bodies.count()) == (200, 1)  # of the first, only the one that failed is unfolded
    steps.nth(3).locator("summary").click()
    assert "out 4" in steps.nth(3).locator(".step-body").inner_text()  # waits: the body is made after the click
    page.locator(".outline a", has_text="run 10").first.click()
    page.wait_for_selector(".step.target img")
    assert shown.fragment() == "#id=long&step=10" and page.locator("img").count() == 1
    assert page.locator("img").evaluate("image => image.decode().then(() => image.naturalWidth)") == 1
    page.evaluate("location.hash = '#id=long&step=300'")
    page.wait_for_selector("[data-step='300'].target .prose")
    assert page.locator("[data-step='300'] .prose").evaluate("text => getComputedStyle(text).direction") == "rtl"
    page.get_by_role("button", name="Unfold all steps").click()
    page.wait_for_function("document.querySelectorAll('.step-body').length === 300")

    page.evaluate("""location.hash = '#q=needle%20said%20"here"&deep=1'""")
    shown.wait_for_ids(["long"])
    preview = page.locator("td.column-preview").inner_text()
    assert preview.startswith('in step 10: Bash completed run 10 text a needle, said "here" image http://127.0.0.1:9/a')
    page.locator("a.id").click()
    page.locator(".hits a", has_text="step 10").click()
    page.wait_for_selector("[data-step='10'].target")
    page.wait_for_function("CSS.highlights.get('hits-in-record')?.size >= 3")
    assert shown.messages == []


def test_the_outline_has_the_text_of_a_step_without_its_marks(tmp_path: Path, opened: Open) -> None:
    said = {
        "## What I did": "What I did",
        "> quoted, **bold** and *lean*": "quoted, bold and lean",
        "see `a.py`": "see a.py",
        "1,234 * 5,678 > 5 in C#": "1,234 * 5,678 > 5 in C#",
    }
    steps = [{"type": "message", "content": content} for content in said]
    page = opened(make_page(tmp_path, [result("marks", trajectory=steps)])).go("#id=marks")
    page.wait_for_selector(".record-body")
    titles = page.locator(".outline-step").evaluate_all("links => links.map(link => link.title)")
    assert titles == list(said.values())


# --- labels -------------------------------------------------------------------------------------


def test_a_person_labels_without_seeing_the_verdict(tmp_path: Path, opened: Open) -> None:
    records = [result(id, score=graded(id == "a", 0.5, f"the reason of {id}")) for id in ("a", "b", "c")]
    given = write(tmp_path / "given.jsonl", {"id": "c", "pass": True, "note": "given"}, {"id": "x", "pass": True})
    file = write(tmp_path / "graded.jsonl", *records)
    made = run("ae-format", file, "--labels", given, "-o", tmp_path / "page.html")
    assert made.messages == ["ae-format: labels not shown on the page: 1 for an id that is not among the records"]
    run("ae-format", file, "-f", "csv", "--labels", given).expect(2).says("--labels has no effect with -f csv")
    shown = opened(tmp_path / "page.html", accept_downloads=True)
    shown.changed = True  # labels are stored
    page = shown.go("#label=disagree")
    shown.wait_for_ids(["c"])
    page.get_by_role("button", name="Clear").click()
    page.get_by_role("button", name="Label records").click()
    page.wait_for_selector("#record-title bdi:text-is('a')")
    panel, body = page.locator("#record"), page.locator("body")
    panel.get_by_text("It is a.").wait_for()
    assert "the reason of" not in body.inner_text() and "0.500" not in body.inner_text()
    assert not panel.locator(".status").first.is_visible() and not page.locator("#tiles").is_visible()
    page.keyboard.press("p")
    panel.get_by_text("The grader agrees.").wait_for()
    assert "the reason of a" in panel.inner_text() and panel.locator(".status").first.is_visible()
    page.keyboard.press("j")
    page.wait_for_selector("#record-title bdi:text-is('b')")
    panel.get_by_text("The verdict is hidden until you decide.").wait_for()
    panel.get_by_label("Note").fill("it is right")
    panel.get_by_role("button", name="Pass").click()
    panel.get_by_text("The grader says fail.").wait_for()

    page = shown.go("#id=b")  # the labels are still there
    page.wait_for_selector(".label-bar")
    assert page.get_by_label("Note").input_value() == "it is right"
    page.keyboard.press("Escape")
    with page.expect_download() as downloading:
        page.get_by_role("button", name="Download 3 labels").click()
    assert downloading.value.suggested_filename == "labels.jsonl"
    downloading.value.save_as(tmp_path / "labels.jsonl")
    done = run("ae-calibrate", file, "--labels", tmp_path / "labels.jsonl", "-f", "json").expect(0)
    counts = json.loads(done.stdout)["labels"]
    assert (counts["used"], counts["stale"], counts["unknown"]) == (3, 0, 0)
    run("ae-grade", file, "--labels", tmp_path / "labels.jsonl", "-o", tmp_path / "final.jsonl").expect(0)
    final = [json.loads(line) for line in (tmp_path / "final.jsonl").read_text().splitlines()]
    page = opened(make_page(tmp_path, final), locale="en-GB").go("#id=b")
    page.wait_for_selector(".verdict.human")
    verdict = page.locator(".verdict.human").inner_text()
    assert "overrules the graders" in verdict and "the reason of b" in verdict and "it is right" in verdict


# --- trials -------------------------------------------------------------------------------------


def test_trials_side_by_side(trials_page: Path, opened: Open) -> None:
    shown = opened(trials_page)
    page = shown.go("#status=flaky")
    shown.wait_for_ids(["shaky"])
    tiles = dict(
        zip(page.locator(".tile h2").all_text_contents(), page.locator(".tile .value").all_text_contents(), strict=True)
    )
    assert (tiles["Pass rate"], tiles["pass@3"], tiles["pass^3"], tiles["Flaky prompts"]) == (
        "41.7%",
        "50.0%",
        "25.0%",
        "1",
    )
    assert "Flaky 2/3" in page.locator("table.rows tbody").inner_text()
    rows = page.locator(".heatmap li")
    assert [text.split() for text in rows.all_inner_texts()] == [
        ["shaky", "2/3"], ["broken", "0/3"], ["wrong", "0/3"], ["steady", "3/3"]
    ]  # fmt: skip
    marks = rows.first.locator(".mark").evaluate_all("marks => marks.map(mark => mark.title)")
    assert marks == ["trial 1: Pass", "trial 2: Fail", "trial 3: Pass"]
    page.locator("a.id").click()
    page.wait_for_selector(".side-by-side")
    columns = page.locator(".run-column")
    assert [" ".join(text.split()) for text in columns.locator("h3.run-title").all_inner_texts()] == [
        "Trial 1 ✓ Pass",
        "Trial 2 ✗ Fail",
        "Trial 3 ✓ Pass",
    ]
    boxes = [columns.nth(at).bounding_box() for at in range(3)]
    assert len({box["y"] for box in boxes}) == 1 and boxes[0]["x"] < boxes[1]["x"] < boxes[2]["x"]
    assert "reason 2" in columns.nth(1).inner_text() and columns.nth(2).locator(".step").count() == 5
    page.evaluate("location.hash = '#id=shaky&trial=2&step=3'")
    page.wait_for_selector("[data-trial='2'] [data-step='3'].target")


# --- every screen -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("of", "fragment", "scheme", "width"),
    [
        ("results", "", "light", 400),
        ("results", "#id=second", "dark", 1280),
        ("trials", "", "dark", 1280),
        ("trials", "#id=shaky", "light", 400),
    ],
)
def test_nothing_is_cut_off_and_axe_finds_nothing(
    of: str, fragment: str, scheme: str, width: int, results_page: Path, trials_page: Path, opened: Open
) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="the extra references has it").Axe()
    path = results_page if of == "results" else trials_page
    page = opened(path, viewport={"width": width, "height": 800}, color_scheme=scheme).go(fragment)
    if fragment:
        page.wait_for_selector(".record-body")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    found = axe.run(page).response["violations"]
    assert [(item["id"], item["nodes"][0]["html"]) for item in found] == []


def test_the_theme_can_be_chosen(results_page: Path, opened: Open) -> None:
    shown = opened(results_page)
    shown.changed = True  # the choice is stored
    page = shown.go()
    seen = set()
    for _ in range(3):
        page.get_by_role("button", name="Theme").click()
        seen.add(
            (
                page.locator("html").get_attribute("data-theme"),
                page.evaluate("getComputedStyle(document.body).backgroundColor"),
            )
        )
    assert len(seen) == 3 and len({color for _, color in seen}) == 2


def test_print_has_every_row(tmp_path: Path, opened: Open) -> None:
    shown = opened(make_page(tmp_path, [{"id": f"r{at}", "output": "x"} for at in range(300)]))
    page = shown.go()
    page.evaluate(
        "addEventListener('beforeprint', () => { window.printed = document.querySelectorAll('a.id').length })"
    )
    pdf = page.pdf(format="A4")
    assert pdf.startswith(b"%PDF") and page.evaluate("window.printed") == 300
    assert page.locator("table.rows tbody tr").count() < 100  # and the table is short again
    if shutil.which("pdftotext"):
        (tmp_path / "page.pdf").write_bytes(pdf)
        text = subprocess.check_output(["pdftotext", "-layout", tmp_path / "page.pdf", "-"], text=True)
        heads = ["Answer, or why" in one for one in text.split("\f")[:-1]]
        assert len(heads) > 3 and all(heads), "every page has the head of the table"


def test_print_of_a_record_has_all_of_it(results_page: Path, opened: Open) -> None:
    page = opened(results_page).go("#id=second")
    page.wait_for_selector(".record-body")
    page.evaluate(
        "addEventListener('beforeprint', () => { window.text = document.getElementById('record').innerText })"
    )
    page.pdf(format="A4")
    printed = page.evaluate("window.text")
    assert "line 200" in printed and '"inputTokens": 900' in printed
