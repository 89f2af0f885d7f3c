"""The documentation agrees with the code: generated pages, tutorials, CONTRIBUTING.md."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import tomllib
from pathlib import Path

import pytest

from docs.build import pages
from docs.pictures import PICTURES, sources_digest, stamp_of
from tests.agent_rig.catalogue import AGENTS
from tests.agent_rig.scenarios import SCENARIOS
from tests.agent_rig.table import INTRO, VARIANTS
from tests.support.tool import ROOT, Done, jsonl, run, script, write
from tests.support.worked_examples import CONTRIBUTING, changes, new_files


def test_the_pages_are_up_to_date() -> None:
    def help_of(name: str) -> str:
        return run(name, "--help", env={"PATH": os.defpath}).expect(0, stderr="").stdout

    for page, text in pages(help_of):
        assert page.read_text() == text, f"{page}: out of date; run `make docs`"


def test_every_picture_is_made_from_an_example(tmp_path: Path) -> None:
    """`make docs` takes them again when the page has changed; none was drawn by hand."""
    assert {path.name for path in ROOT.glob("docs/*.png")} == set(PICTURES)
    for name in PICTURES:
        stamp = stamp_of(ROOT / "docs" / name)
        assert stamp and re.fullmatch(r"[0-9a-f]{64}", stamp), f"{name}: run make docs where Chromium is installed"
        (tmp_path / name).write_bytes((ROOT / "docs" / name).read_bytes().replace(b"sources\0", b"another\0"))
        assert stamp_of(tmp_path / name) is None
    assert re.fullmatch(r"[0-9a-f]{64}", sources_digest())


def test_the_page_of_tested_agents_explains_the_scenarios_of_today() -> None:
    """docs/agents.md holds measured results; its introduction and its columns come from the code."""
    page = (ROOT / "docs" / "agents.md").read_text()
    assert page.startswith(INTRO), "change docs/agents.md together with INTRO, or run make test-agents"
    names = list(SCENARIOS)
    for part in (names[: names.index(VARIANTS)], names[names.index(VARIANTS) :]):
        assert f"| agent | version | {' | '.join(part)} | run on |" in page
    assert set(re.findall(r"^\| (\S+) \| \d+\.", page, re.MULTILINE)) == set(AGENTS)


def test_an_adapter_in_ten_minutes(tmp_path: Path) -> None:
    """Runs every shell block of docs/adapters.md, one after the other, in an empty directory."""
    page = (ROOT / "docs" / "adapters.md").read_text()
    fenced = re.findall(r"^```(\w*)\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    blocks = [text for language, text in fenced if language == "sh"]
    shown = [text for language, text in fenced if language == ""]
    assert (len(blocks), len(shown)) == (6, 3)
    if shutil.which("jq") is None:
        pytest.skip("jq is not on PATH")
    made, seen, started, ruled, resumed, kept = [
        run("/bin/sh", "-e", "-c", block, cwd=tmp_path).expect(0) for block in blocks
    ]
    assert all(done.stderr == "" for done in (made, seen, started, ruled, kept))
    assert made.stdout == "" and seen.stdout.count("\n") == 7
    first, last = shown[0].split("     …\n")
    assert started.stdout.startswith(first) and started.stdout.endswith(last), started
    assert ruled.stdout == shown[1]
    assert resumed.stdout.replace(str(tmp_path), "/tmp/demo") == shown[2], resumed
    assert kept.stdout.startswith("same\n        1 of 7 lines matched no rule") and "1 passed" in kept.stdout, kept


def test_the_table_of_adapters_names_fields_that_exist() -> None:
    """It named `exitReasons` long after that field had become `errorReasons`."""
    table = (ROOT / "docs" / "adapters.md").read_text().partition("## When it does not fit")[2]
    fields = re.findall(r"^\| `(\w+)`", (ROOT / "docs" / "wire-format.md").read_text(), re.MULTILINE)
    named = re.findall(r'"([a-z]\w+)":', table)
    assert len(named) > 10 and set(named) <= set(fields), sorted(set(named) - set(fields))


# --- the pages that are written by hand -----------------------------------------------------------

PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/*/README.md")]


def test_the_readme_is_short() -> None:
    lines = (ROOT / "README.md").read_text().splitlines()
    assert len(lines) <= 150, "move what is long to a page in docs/"
    assert [line for line in lines if len(line) > 120] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    prose = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    targets = re.findall(r"\]\(([^)\s]+)\)", prose)
    for target in targets:
        if "://" in target:
            continue
        path, _, anchor = target.partition("#")
        linked = (page.parent / path).resolve() if path else page
        assert linked.exists(), f"{target}: no such file"
        assert not anchor or anchor in anchors(linked), f"{target}: no such heading"


def anchors(page: Path) -> set[str]:
    """Returns what links to headings are called, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def links(page: Path) -> set[Path]:
    """Returns the files and folders that a page links to."""
    found = (target.partition("#")[0] for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()))
    return {(page.parent / path).resolve() for path in found if path and "://" not in path}


def test_every_page_is_two_clicks_from_the_readme() -> None:
    index = ROOT / "docs" / "README.md"
    first = links(ROOT / "README.md")
    assert index in first or index.parent in first
    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *(page.parent for page in ROOT.glob("examples/*/README.md"))]
    reached = {ROOT / "README.md", index} | first | links(index)
    assert [str(page.relative_to(ROOT)) for page in sorted(pages) if page not in reached] == []


def test_the_page_on_installing_has_every_extra() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    page = (ROOT / "docs" / "install.md").read_text()
    rows = set(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE))
    assert rows == set(project["optional-dependencies"]), "the table of extras in docs/install.md"


def test_security_names_what_an_installation_needs() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    needed = {re.split("[><=~]", dependency)[0] for dependency in project["dependencies"]}
    section = (ROOT / "SECURITY.md").read_text().partition("## What an install runs")[2]
    (named,) = re.findall(r"`pip install \.` needs (.*?)\. All have wheels", section, re.DOTALL)
    assert set(re.findall(r"`([^`]+)`", named)) == needed


# --- CONTRIBUTING.md ----------------------------------------------------------------------------

PROSE = re.sub(r"^```.*?^```$", "", CONTRIBUTING, flags=re.DOTALL | re.MULTILINE)


def test_every_path_in_contributing_exists() -> None:
    named = {
        word for word in re.findall(r"`([\w./-]+)`", PROSE) if "/" in word or Path(word).suffix in (".md", ".toml")
    }
    linked = set(re.findall(r"\]\(([\w./-]+)\)", PROSE))
    assert len(named) > 30 and linked
    places = (ROOT, ROOT / "agenteval")  # two tables leave agenteval/ out
    assert [path for path in sorted(named | linked) if not any((place / path).exists() for place in places)] == []


def test_contributing_names_functions_that_exist() -> None:
    """`name` in prose next to a module: a function, class or constant that some module or test has."""
    source = "\n".join(path.read_text() for folder in ("agenteval", "tests") for path in (ROOT / folder).rglob("*.py"))
    names = set(re.findall(r"`([a-z]+_[a-z_]+|[A-Z][a-z]+[A-Za-z]*|[A-Z_]{4,})`", PROSE))
    assert [name for name in sorted(names) if not re.search(rf"\b{name}\b", source)] == []


@pytest.fixture(scope="module")
def extended(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the package with the worked examples of CONTRIBUTING.md added."""
    folder = tmp_path_factory.mktemp("extended")
    shutil.copytree(ROOT / "agenteval", folder / "agenteval")
    for path, text in new_files().items():
        assert not (ROOT / path).exists()
        (folder / path).write_text(text)
    return folder


def call(extended: Path, module: str, *args: str, stdin: str = "") -> Done:
    """Runs a tool of the extended package."""
    code = f"import sys; sys.argv[0] = 'ae'; from agenteval.cli.{module} import main; main()"
    return run(sys.executable, "-c", code, *args, stdin=stdin, env={"PYTHONPATH": str(extended)})


RESULTS = jsonl(
    {"id": "a", "output": "one two three", "score": {"pass": False, "score": 0.5}},
    {"id": "b", "output": "one", "score": {"pass": True, "score": 1.0}},
)


def test_the_worked_example_of_a_tool(extended: Path) -> None:
    done = call(extended, "tools.lengths", stdin=RESULTS + "no record\n").expect(1)
    assert done.records == [{"id": "a", "words": 3}, {"id": "b", "words": 1}]
    assert done.stderr.startswith("ae-lengths: stdin:3: not JSON")
    assert "Examples:\n  ae-lengths results.jsonl\n" in call(extended, "tools.lengths", "--help").expect(0).stdout


def test_the_worked_example_of_a_grader(extended: Path) -> None:
    done = call(extended, "graders.short", "--words", "2", stdin=RESULTS).expect(0, stderr="")
    assert [(verdict["pass"], verdict["reasoning"]) for verdict in done.records] == [
        (False, "3 words, 2 allowed"),
        (True, "1 words, 2 allowed"),
    ]
    assert done.records[0]["score"] == pytest.approx(2 / 3)


def test_the_worked_example_of_a_report_form(extended: Path) -> None:
    assert call(extended, "tools.format", "-f", "ids", stdin=RESULTS).expect(0, stderr="").stdout == "a\n"
    assert re.search(r"^  ids +the id of each record", call(extended, "tools.format", "--help").stdout, re.MULTILINE)


def test_the_worked_example_of_a_statistic(extended: Path, tmp_path: Path) -> None:
    for path, before, after in changes():
        text = (extended / path).read_text()
        places = text.count(before)
        assert places == 1, f"{path} has {places} times:\n{before}"
        (extended / path).write_text(text.replace(before, after))
    paths = [str(write(tmp_path / name, *map(json.loads, RESULTS.splitlines()))) for name in ("one", "two")]
    report = json.loads(call(extended, "tools.compare", *paths, "-f", "json").expect(0, stderr="").stdout)
    assert report["quality"]["one"]["medianScore"] == 1.0
    markdown = call(extended, "tools.compare", *paths, "-f", "markdown").expect(0, stderr="").stdout
    assert re.search(r"^\| Run .*\| Median \|.*\n.*\n\| one .*\| 1\.000 \|", markdown, re.MULTILINE), markdown


TRACED_CAPTURE = """
import os, sys, threading
visited = set()

def note(frame, event, arg):
    file = frame.f_code.co_filename
    if event == "call" and frame.f_code.co_name != "<module>" and PACKAGE in file:
        visited.add(file.partition(PACKAGE)[2])

def leave(code):
    with open("visited", "w") as file:
        file.write("\\n".join(sorted(visited)))
    exit_now(code)

PACKAGE = os.sep + "agenteval" + os.sep
sys.argv[0] = "ae-capture"
from agenteval.cli.tools.capture import main
exit_now, os._exit = os._exit, leave
threading.setprofile(note)  # of workers: the main thread only waits
main()
"""


def test_a_prompt_visits_the_modules_that_contributing_names(tmp_path: Path) -> None:
    prompts = write(tmp_path / "prompts.jsonl", jsonl({"id": "a", "input": "hello", "hint": "hello"}))
    agent = script(tmp_path / "agent", """echo '{"type": "answer", "text": "hello"}'""")
    event = {"match": {"path": "$.type", "value": "answer"}, "emitAs": "message", "extract": {"content": "$.text"}}
    result = {"matchPath": "$.type", "matchValue": "answer", "contentPath": "$.text"}
    started = {"version": 1, "name": "echo", "command": [str(agent)], "sessionMode": "stream", "prompt": {"flag": ""}}
    schema = write(tmp_path / "schema.json", json.dumps({**started, "outputEvents": [event], "result": result}))
    options = ["-s", schema, "-g", "ae-grader-hint", "-o", "results.jsonl"]
    run(sys.executable, "-c", TRACED_CAPTURE, prompts, *options, cwd=tmp_path).expect(0)
    assert json.loads((tmp_path / "results.jsonl").read_text())["score"]["pass"]
    way = (ROOT / "CONTRIBUTING.md").read_text().partition("## How the data flows")[2].partition("Without further")[0]
    named = re.findall(r"`(\w+/[\w/]+\.py)`", way)
    assert {*named} == {*(tmp_path / "visited").read_text().split()}
    in_table = re.findall(r"`(\w+/[\w/]+\.py)`", way.partition("They use these modules")[0])
    assert len(in_table) == len({*in_table}) == 15
