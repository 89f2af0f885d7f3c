"""ae-format --follow: the page of a run that goes on, with real runs, signals and a real browser."""

from __future__ import annotations

import fcntl
import json
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.reports.conftest import Open
from tests.support.tool import kill_all, run, script, start, write
from tests.support.watching import until

LOADED = "document.documentElement.dataset.ready === 'all'"


@pytest.fixture
def following(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    with start("ae-format", "results.jsonl", "--follow", "-o", "out/page.html", cwd=tmp_path) as process:
        yield process
        kill_all(process)


def shown(folder: Path) -> tuple[int, str]:
    """How many records the page has, and what it says of the run; (-1, "") as long as there is no page."""
    page = folder / "out" / "page.html"
    if not page.exists():
        return -1, ""
    text = page.read_text()
    assert text.endswith("</html>\n"), "not whole"
    [data] = re.findall(r'<script type="application/json" id="overview">(.*)</script>', text)
    overview: dict[str, Any] = json.loads(data)
    return overview["records"], (overview["running"] or {}).get("text", "")


def until_shown(folder: Path, records: int, says: str) -> None:
    until(lambda: shown(folder) == (records, says), f"{records} records, {says!r}, not {shown(folder)}")


def test_a_run_from_before_its_start_to_its_end(tmp_path: Path, following: subprocess.Popen[bytes]) -> None:
    until_shown(tmp_path, 0, "running, 0 so far")
    prompts = write(tmp_path / "prompts.jsonl", *({"id": f"p{at}", "input": f"{at}", "hint": "p"} for at in range(3)))
    agent = script(tmp_path / "agent", f'while [ ! -e {tmp_path}/go-$1 ]; do sleep 0.02; done; echo "p$1"')
    args = ("--simple", f"{agent} {{}}", "-g", "ae-grader-hint", "-j", "3", "-o", "results.jsonl")
    with start("ae-capture", prompts, *args, cwd=tmp_path) as capture:
        try:
            until_shown(tmp_path, 0, "running, 0 of 3")
            (tmp_path / "go-1").touch()
            until_shown(tmp_path, 1, "running, 1 of 3")
        finally:
            (tmp_path / "go-0").touch()
            (tmp_path / "go-1").touch()
            (tmp_path / "go-2").touch()
    assert capture.returncode == 0
    assert following.wait(60) == 0
    assert shown(tmp_path) == (3, "")
    assert sorted(path.name for path in tmp_path.glob("**/*.new")) == []
    assert not (tmp_path / "results.jsonl.unfinished").exists()


def test_ctrl_c_leaves_a_whole_page(tmp_path: Path, following: subprocess.Popen[bytes]) -> None:
    with open(tmp_path / "results.jsonl", "wb") as redirected:
        tool = start("ae-format", "-f", "jsonl", stdout=redirected, cwd=tmp_path)
    with tool:
        assert tool.stdin is not None
        tool.stdin.write(b'{"id":"a","output":"x"}\n')
        tool.stdin.flush()
        until_shown(tmp_path, 1, "running, 1 so far")
        # Which it says when it knows how long its first page took: it writes a last one only if that was quick.
        assert following.stderr is not None and b"following results.jsonl" in following.stderr.readline()
        following.send_signal(signal.SIGINT)
        assert following.wait(60) == 130
        assert shown(tmp_path) == (1, "not finished: 1 so far")
        assert list((tmp_path / "out").iterdir()) == [tmp_path / "out" / "page.html"]


def test_a_file_that_is_cut_short_and_lines_that_are_not_whole(
    tmp_path: Path, following: subprocess.Popen[bytes]
) -> None:
    with open(tmp_path / "results.jsonl", "ab", buffering=0) as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.write(b'{"id":"a","output":"x"}\nbad\n{"id":"b","output":"x"}\n{"id":"c","out')
        until_shown(tmp_path, 2, "running, 2 so far")
        file.write(b'put":"x"}\n')
        until_shown(tmp_path, 3, "running, 3 so far")
        file.truncate(0)
        until_shown(tmp_path, 0, "running, 0 so far")
        file.write(b'bad\n{"id":"new","output":"x"}\n')
        until_shown(tmp_path, 1, "running, 1 so far")
        os.rename(tmp_path / "results.jsonl", tmp_path / "old.jsonl")
        until_shown(tmp_path, 0, "running, 0 so far")
        write(tmp_path / "results.jsonl", {"id": "d", "output": "x"}, {"id": "e", "output": "x"})
    assert following.wait(60) == 1, "lines were refused"
    assert shown(tmp_path) == (2, "")
    assert following.stderr is not None
    lines = re.findall(r"results.jsonl:\d", following.stderr.read().decode())
    assert lines == ["results.jsonl:2", "results.jsonl:1"], "each is reported once in each file"


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["--follow", "-o", "p.html"], "--follow needs a file of results"),
        (["in.jsonl", "--follow", "-f", "html"], "and -o PAGE.html"),
        (["in.jsonl", "--follow", "-f", "csv", "-o", "p.csv"], "--follow has no effect with -f csv"),
        (["in.jsonl", "--follow", "-f", "html", "-o", "in.jsonl"], "is also the input"),
        (["in.jsonl", "--follow", "-f", "html", "-o", "/dev/null"], "needs regular files"),
        (["raw.jsonl", "--follow", "-o", "p.html"], "contains raw records"),
    ],
)
def test_what_cannot_be_followed(args: list[str], says: str, tmp_path: Path) -> None:
    write(tmp_path / "in.jsonl", {"id": "a", "output": "x"})
    write(tmp_path / "raw.jsonl", {"id": "a", "input": "x", "rawLines": []})
    run("ae-format", *args, cwd=tmp_path).expect(2).says(says)
    assert (tmp_path / "in.jsonl").read_text().startswith('{"id"') and not (tmp_path / "p.html").exists()


def test_the_page_loads_itself_again_with_its_view(tmp_path: Path, opened: Open) -> None:
    """It does not while somebody types or reads a record; the last page does not any more."""
    os.makedirs(tmp_path / "out")
    records = [{"id": f"r{at}", "output": "x", "score": {"pass": at % 2 == 0, "score": 0}} for at in range(100)]
    with open(write(tmp_path / "results.jsonl", *records), "rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with start("ae-format", "results.jsonl", "--follow", "-o", "out/page.html", cwd=tmp_path) as process:
            until_shown(tmp_path, 100, "running, 100 so far")
            process.send_signal(signal.SIGKILL)  # the page stays as it is
    tab = opened(tmp_path / "out" / "page.html")
    tab.changed = True
    tab.page.add_init_script("window.setInterval = (work) => { window.timer = work; };")  # the test is the clock
    page = tab.go("#status=fail")
    assert page.get_by_text("running, 100 so far").is_visible()
    record = "document.getElementById('record')"
    for begin, begun in (
        ("document.querySelector('input').focus()", "document.activeElement.matches('input')"),
        ("location.hash = '#id=r1&status=fail'", f"!{record}.hidden"),
    ):
        page.evaluate(f"() => {{ {begin}; window.mark = 1; }}")
        page.wait_for_function(f"() => {begun}")
        page.evaluate("() => new Promise((done) => { window.timer(); setTimeout(done, 200); })")
        assert page.evaluate("window.mark") == 1
    page.keyboard.press("Escape")
    page.evaluate("() => { document.activeElement.blur(); scrollTo(0, 300); }")
    with page.expect_navigation():
        page.evaluate("() => { window.timer(); }")
    page.wait_for_function(f"() => {LOADED} && !window.mark && scrollY === 300 && location.hash === '#status=fail'")
    run("ae-format", "results.jsonl", "--follow", "-o", "out/page.html", cwd=tmp_path).expect(0)
    with page.expect_navigation():
        page.evaluate("() => { window.timer(); }")
    page.wait_for_function(f"() => {LOADED} && !window.timer")
    assert page.get_by_text("running,").count() == 0 and tab.messages == []
