"""The html page of ae-compare in a real browser: verdict, forest plot, flips first, records side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import msgspec
import pytest

from agenteval.reports.comparison.html import prompt_status
from tests.reports.conftest import Open
from tests.reports.test_page_safety import assert_untouched
from tests.support.page_records import HOSTILE, graded, hostile, result, trial
from tests.support.tool import read, run, write

BEFORE = [True, True, True, False, False, True]
NOW = [True, False, True, True, False, True]
SVG = "{http://www.w3.org/2000/svg}"


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
    page.locator(".tile a").first.click()
    shown.wait_for_ids(pair["flips"]["onlyA"])
    assert shown.fragment() == "#status=worse" and page.locator(".chip.worse .count").inner_text() == "1"
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
    page = opened(tmp_path / "page.html").go("#id=p0&a=a&b=c")
    page.wait_for_selector(".run-column >> nth=2")
    assert page.locator(".run-column").nth(1).locator("summary .status").all_inner_texts() == ["✓ Pass", "✗ Fail"]
    assert page.locator(".run-column").nth(0).locator(".step").count() == 5  # the first trial is open
    assert page.locator(".places tbody th").all_inner_texts() == ["a", "b", "stdin"]
    assert page.locator(".pair-tiles h2").count() == 2


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
    ("sides", "status"),
    [
        ("10", "worse"),
        ("01", "fixed"),
        ("11", "both-pass"),
        ("00", "both-fail"),
        ("1-", "not-compared"),
        ("101", "some-pass"),
        ("10-", "some-pass"),  # a third run whose grader erred hides nothing
        ("1-1", "all-pass"),
        ("000", "none-pass"),
        ("1--", "not-compared"),
    ],
)
def test_how_a_prompt_stands(sides: str, status: str) -> None:
    assert prompt_status(sides) == status


# --- three runs or more ---------------------------------------------------------------------------

NAMES = [
    "claude-opus-4.5 with the house instructions and two skills",
    "glm-4.7",
    "codex gpt-5.2-codex-max high",
    "gemini-flash",
    "qwen3-coder-30b-a3b-instruct-fp8",
    "haiku",
]


def alternatives(folder: Path, runs: int, prompts: int = 120) -> list[object]:
    """Writes runs with long names, costs, agents that failed and graders that erred; returns them as arguments."""
    args: list[object] = []
    for at in range(runs):
        label = NAMES[at] if at < len(NAMES) else f"another agent with a long name, number {at}"
        rows = []
        for number in range(prompts):
            passed = (number * 37) % prompts < prompts * (0.9 - 0.08 * at)
            cost = {
                "total": 1000 * (1 + at),
                "costUsd": 0.5 / (1 + at % 4) ** 2,
                "inputTokens": 900,
                "outputTokens": 100,
            }
            verdict: dict[str, Any] = {"score": graded(passed, float(passed))}
            if (number + at) % 40 == 0:
                verdict = {"graderError": "judge: timed out"}
            elif (number + at) % 41 == 0:
                verdict = {"score": graded(False, 0.0), "errors": ["robot exited with 1"]}
            rows.append(result(f"p{number:03}", timing=cost, metadata={"category": "ab"[number % 2]}, **verdict))
        file = write(folder / f"{at}.jsonl", *rows)
        args += ["--run", f"{label}:{file}"]
    return args


CUT = """() => [...document.querySelectorAll('#top *, #plots *')].filter((one) => one.clientWidth
  && one.scrollWidth > one.clientWidth + 1 && !one.closest('.hidden-text')).map((one) => one.outerHTML.slice(0, 120))"""
OUTSIDE = """() => { const box = document.querySelector('.front-plot').getBoundingClientRect();
  return [...document.querySelectorAll('.front-plot text')].filter((one) => { const at = one.getBoundingClientRect();
    return at.left < box.left - 1 || at.right > box.right + 1 || at.top < box.top - 1 || at.bottom > box.bottom + 1; })
    .map((one) => one.textContent); }"""


@pytest.fixture(scope="module")
def six(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("six")
    args = alternatives(folder, 6)
    for form in ("html", "json"):
        assert run("ae-compare", *args, "-o", folder / f"page.{form}", cwd=folder).code == 0
    return folder / "page.html"


def test_six_runs_on_two_screens(six: Path, opened: Open) -> None:
    shown = opened(six, viewport={"width": 1440, "height": 900})
    page = shown.go()
    report = msgspec.json.decode((six.parent / "page.json").read_bytes())
    ranking = report["ranking"]
    order = [one["run"] for one in ranking["runs"]]
    parts = ("places", "front", "matrix", "prompts-strip")
    bottom = {name: page.locator(f"section.{name}").bounding_box() for name in parts}
    ends = {name: box["y"] + box["height"] for name, box in bottom.items()}
    assert ends["places"] <= 900 and ends["front"] <= 900 and ends["matrix"] <= 1800 and ends["prompts-strip"] <= 1800
    assert page.evaluate(CUT) == [] and page.evaluate(OUTSIDE) == []
    assert page.locator(".places tbody th").all_inner_texts() == order
    assert page.locator(".places .outcome").inner_text() == f"{ranking['headline']}."
    first = page.locator(".places tbody tr").first.locator("td.number").all_inner_texts()
    one = ranking["runs"][0]
    interval = f"{one['interval']['low']:.1%} to {one['interval']['high']:.1%}"
    assert first[:3] == [f"{one['value']:.1%}", interval, str(one["n"])]
    assert first[3] == f"${one['cost']:.4f}" and first[5] == f"${one['costOfPass']:.4f}"
    assert page.locator(".front-plot .point.front").count() == len(ranking["front"]["runs"])
    pairs = {(pair["runA"], pair["runB"]): pair for pair in report["statistics"]["pairs"]}
    cells = page.locator(".matrix tbody td")
    for at, (row, column) in enumerate((row, column) for row in order for column in order):
        if row == column:
            continue
        pair = pairs.get((row, column)) or pairs[column, row]
        difference = pair["meanDifference"] if (row, column) in pairs else pair["change"]
        assert cells.nth(at).inner_text() == f"{difference * 100:+z.1f}"
        tone = "" if "better" not in pair else "gain" if pair["better"] == row else "loss"
        assert (cells.nth(at).get_attribute("class") or "") == tone
    text = page.inner_text("body")
    assert "onger passes" not in text and "Now passes" not in text and "Passed before" not in text
    assert_untouched(shown)


def test_tiles_chips_and_filters_count_alike(six: Path, opened: Open) -> None:
    shown = opened(six, viewport={"width": 1440, "height": 900})
    page = shown.go()
    report = msgspec.json.decode((six.parent / "page.json").read_bytes())
    counts = {}
    for chip in page.locator(".chips .chip").all():
        chip.click()
        counts[chip.inner_text().split("\n")[0]] = chip.locator(".count").inner_text()
        assert page.locator("#count").inner_text().split(" ")[0] == chip.locator(".count").inner_text()
        chip.click()
    assert sum(map(int, counts.values())) == 120 and len(counts) == 3
    for pair in report["statistics"]["pairs"][:6]:
        page.evaluate("hash => { location.hash = hash; }", f"#a={pair['runA']}&b={pair['runB']}")
        page.wait_for_function(
            "name => document.querySelector('#pair h2 + .outcome')?.textContent.includes(name)", arg=pair["runB"]
        )
        links = page.locator(".pair-tiles a")
        assert links.all_inner_texts() == [str(len(pair["flips"][side])) for side in ("onlyA", "onlyB")]
        for at, side in enumerate(("onlyA", "onlyB")):
            links.nth(at).click()
            page.wait_for_function(
                "ids => document.documentElement.dataset.listed === String(ids.length)"
                " && [...document.querySelectorAll('table.rows a.id')].every(a => ids.includes(a.textContent))",
                arg=pair["flips"][side],
            )
            assert page.evaluate("document.getElementById('list').getBoundingClientRect().top") < 900


def test_the_strip_opens_prompts_by_mouse_and_keyboard(six: Path, opened: Open) -> None:
    shown = opened(six, viewport={"width": 1440, "height": 900})
    page = shown.go()
    prompts = msgspec.json.decode((six.parent / "page.json").read_bytes())["ranking"]["prompts"]
    strip = page.locator(".strip-cells")
    strip.focus()
    page.keyboard.press("End")
    page.keyboard.press("ArrowLeft")
    assert strip.get_attribute("aria-valuenow") == "119"
    assert strip.get_attribute("aria-valuetext").startswith(f"{prompts[118]['id']}: ")
    page.keyboard.press("Enter")
    page.wait_for_selector(".run-column >> nth=5")
    assert page.locator("#record-title").inner_text() == prompts[118]["id"]
    page.keyboard.press("Escape")
    box = strip.bounding_box()
    strip.click(position={"x": box["width"] * 0.5 / 120, "y": 9})
    page.wait_for_function("id => document.getElementById('record-title')?.textContent === id", arg=prompts[0]["id"])
    fails = [run for run, status in prompts[0]["statuses"].items() if status == "fail"]
    assert f"does not pass in {', '.join(run for run in fails)}" in page.locator(".strip-note").inner_text()
    assert shown.fragment() == f"#id={prompts[0]['id']}"


@pytest.mark.parametrize(("runs", "scheme", "width"), [(3, "light", 400), (6, "dark", 1440), (12, "light", 1440)])
def test_rankings_pass_axe(runs: int, scheme: str, width: int, six: Path, tmp_path: Path, opened: Open) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="the extra references has it").Axe()
    file = six
    if runs != 6:
        file = tmp_path / "page.html"
        assert run("ae-compare", *alternatives(tmp_path, runs, 40), "-o", file, cwd=tmp_path).code == 0
    page = opened(file, viewport={"width": width, "height": 900}, color_scheme=scheme).go()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert width < 1000 or page.evaluate(CUT) == []
    found = axe.run(page).response["violations"]
    assert [(item["id"], item["nodes"][0]["html"]) for item in found] == []


LEAVING = """() => {
  const [, , width, height] = document.documentElement.getAttribute('viewBox').split(' ').map(Number);
  return [...document.querySelectorAll('text')].filter((one) => { const at = one.getBoundingClientRect();
    return at.left < 0 || at.right > width || at.top < 0 || at.bottom > height; }).map((one) => one.textContent); }"""


@pytest.mark.parametrize("runs", [2, 6, 12])
def test_one_picture(runs: int, tmp_path: Path, browser: Any) -> None:
    args = alternatives(tmp_path, runs, 40)
    args[1] = str(args[1]).replace(NAMES[0], "a </text><script>window.pwned = 1</script> & \x1b[31mb")
    done = run("ae-compare", *args, "-f", "svg", cwd=tmp_path).expect(0)
    picture = ElementTree.fromstring(done.stdout)
    texts = [text for one in picture.iter(f"{SVG}text") if (text := one.text)]
    whole = "".join("".join(one.itertext()) for one in picture.iter(f"{SVG}text"))
    assert f"{runs} runs, 40 prompts" in texts and "$0.5000" in texts and NAMES[1] in texts
    assert "</text><script>" in whole.replace(" ", "") or "<script>" in whole
    assert (
        not list(picture.iter(f"{SVG}script"))
        and "\x1b" not in done.stdout
        and "http" not in done.stdout.partition(">")[2]
    )
    assert len(list(picture.iter(f"{SVG}circle"))) == runs and (len(list(picture.iter(f"{SVG}path"))) > 0) == (runs > 2)
    file = tmp_path / "ranking.svg"
    file.write_text(done.stdout)
    page = browser.new_page(viewport={"width": 1000, "height": 1200})
    page.goto(file.as_uri())
    assert page.evaluate(LEAVING) == [] and page.evaluate("window.pwned") is None
    page.close()


def test_long_names_leave_room_on_a_narrow_screen(tmp_path: Path, opened: Open) -> None:
    args = alternatives(tmp_path, 2, 40)
    run("ae-compare", *args, "-o", tmp_path / "page.html", cwd=tmp_path).expect(0)
    page = opened(tmp_path / "page.html", viewport={"width": 400, "height": 900}).go()
    first = page.locator("table.rows tbody tr").first
    name = first.locator(".column-winner")
    assert name.inner_text().startswith(NAMES[0][:20]) and name.bounding_box()["width"] <= 120
    assert first.locator(".column-id").bounding_box()["width"] > 60
    heads = page.locator("section[class='card full'] thead th")
    assert heads.all_inner_texts()[:2] == ["Run", "Pass rate"] and heads.nth(1).bounding_box()["x"] < 300


# --- what no run has ------------------------------------------------------------------------------


def bare_runs(folder: Path, **timing: float) -> list[Path]:
    """Writes three runs without a category, each passing fewer prompts, with nothing measured but the timing given."""
    more = {"timing": timing} if timing else {}
    return [
        write(
            folder / f"{name}.jsonl",
            *(
                {"id": f"p{at}", "input": "q", "output": "x", "score": graded(at < least, float(at < least)), **more}
                for at in range(20)
            ),
        )
        for name, least in (("a", 20), ("b", 10), ("c", 0))
    ]


def test_nothing_is_explained_that_no_run_has(tmp_path: Path, opened: Open) -> None:
    runs = bare_runs(tmp_path)
    for form in ("table", "markdown", "svg"):
        text = run("ae-compare", *runs, "-f", form, cwd=tmp_path).expect(0).stdout
        assert not [word for word in ("Cost", "Latency", "Pareto", "estimated") if word in text], form
    run("ae-compare", *runs, "-o", tmp_path / "page.html", cwd=tmp_path).expect(0)
    page = opened(tmp_path / "page.html").go()
    assert page.locator(".front").count() == 0
    assert (
        page.inner_text(".places .note") == "Rank: the range that the verdicts leave open, adjusted for 3 pairs (Holm)."
    )
    heads = page.locator("table.rows th").all_inner_texts()
    assert heads == ["Status", "Id", "Each run, best first", "Answer, or why it did not pass"]
    same = write(tmp_path / "same.jsonl", *read(runs[0]))
    run("ae-compare", runs[0], same, "-o", tmp_path / "page.html", cwd=tmp_path).expect(0)
    page.reload()
    page.wait_for_selector("html[data-ready=all]", state="attached")
    heads = page.locator("table.rows th").all_inner_texts()
    assert heads == ["Status", "Id", "a", "same", "Answer, or why it did not pass"]  # no prompt was won


def test_the_front_of_a_single_run_and_ratios_of_time_alone(tmp_path: Path, opened: Open) -> None:
    runs = bare_runs(tmp_path, total=1000)
    run("ae-compare", *runs, "-o", tmp_path / "page.html", cwd=tmp_path).expect(0)
    page = opened(tmp_path / "page.html").go()
    assert page.inner_text(".front h2") == "Quality and time" and page.locator(".front .point.front").count() == 1
    assert "Filled: the Pareto front" in page.inner_text(".front .note")
    assert "Time of b, as a multiple" in page.locator("#pair h2").all_inner_texts()
    page = opened(tmp_path / "page.html", viewport={"width": 1440, "height": 900}).go("#a=a&b=c")
    scale = page.locator("#pair .forest-scale").first.locator("span").all_inner_texts()
    assert scale == ["−100 worse", "0", "+100 better"]
    picture = run("ae-compare", *runs, "-f", "svg", cwd=tmp_path).expect(0).stdout
    assert "Quality and time; filled: the Pareto front" in picture


def test_the_cost_is_explained_where_it_is_shown(tmp_path: Path) -> None:
    runs = bare_runs(tmp_path, costUsd=0.01)
    explained = "Cost: mean per prompt"
    for form in ("table", "markdown"):
        assert explained in run("ae-compare", *runs, "-f", form, cwd=tmp_path).stdout
    narrow = run("ae-compare", *runs, "-f", "table", cwd=tmp_path, env={"COLUMNS": "26"}).expect(0).stdout
    assert "COST" not in narrow and explained not in narrow
