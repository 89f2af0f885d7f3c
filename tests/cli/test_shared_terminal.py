"""The tools of a pipeline share a terminal: one line of progress, and only whole lines stay on the screen."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agenteval.streams.console import fit_progress
from tests.support.tool import clean_env, kill_all, script, write

pyte = pytest.importorskip("pyte", reason="pyte emulates the terminal: pip install -e '.[references]'")

TOOL = re.compile(r"ae-(run|extract|grade|format): ")
AGENT = """sleep 0.05; [ "$PROMPT" = 3 ] && exit 1; echo "$PROMPT" """
PATIENCE = 30.0


class Screen:
    """A shell on a terminal, whose screen is emulated as it is drawn."""

    def __init__(self, line: str, cwd: Path, columns: int) -> None:
        self.screen = pyte.Screen(columns, 60)
        self.stream = pyte.ByteStream(self.screen)
        self.columns = columns
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 60, columns, 0, 0))
        self.process = subprocess.Popen(
            ["setsid", "--ctty", "sh", "-c", line],
            cwd=cwd,
            env=clean_env(cwd, {"TERM": "xterm"}),
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
        )
        os.close(slave)

    def lines(self) -> list[str]:
        """Returns what is on the screen; a line that the terminal has wrapped is one line."""
        found: list[str] = []
        wrapped = False
        for row in self.screen.display[: self.screen.cursor.y + 1]:
            if wrapped and row.strip() and not TOOL.match(row):
                found[-1] += row
            else:
                found.append(row)
            wrapped = len(row.rstrip()) >= self.columns - 1  # the last character may be a space
        return [line.rstrip() for line in found]

    def feed(self) -> Iterator[list[str]]:
        """Yields the screen after each piece of output, until no process has the terminal open any more."""
        end = time.monotonic() + PATIENCE
        while select.select([self.master], [], [], max(0.0, end - time.monotonic()))[0]:
            try:
                piece = os.read(self.master, 1 << 16)
            except OSError:  # EIO
                return
            self.stream.feed(piece)
            yield self.lines()
        raise AssertionError(f"the pipeline hangs: {self.lines()}")

    def rest(self) -> list[str]:
        """Returns the lines that stay; the cursor is at the beginning of an empty one below them."""
        for _shown in self.feed():
            pass
        *lines, last = self.lines()
        assert (last, self.screen.cursor.x) == ("", 0), [*lines, last]
        return lines


@contextmanager
def on_screen(line: str, cwd: Path, columns: int = 80) -> Iterator[Screen]:
    """Runs a pipeline; kills what is left of it."""
    screen = Screen(line, cwd, columns)
    try:
        yield screen
    finally:
        kill_all(screen.process)
        os.close(screen.master)


def prepare(tmp_path: Path, agent: str = AGENT) -> str:
    """Writes prompts and a grader that errs once; returns the beginning of the pipeline."""
    write(tmp_path / "prompts.jsonl", *({"id": f"p{n}", "input": str(n)} for n in range(8)))
    script(
        tmp_path / "grader",
        """grep -q '"id":"p5"' && exit 3; echo '{"pass": true, "score": 1}'""",
    )
    script(tmp_path / "agent", agent)
    return "ae-run prompts.jsonl --workspace-dir ws --shell ../../agent | ae-extract -s text | ae-grade -g ./grader"


@pytest.mark.parametrize("columns", [80, 40])
def test_one_line_of_progress_and_whole_lines_stay(columns: int, tmp_path: Path) -> None:
    line = prepare(tmp_path) + " | ae-format -o report.md"
    with on_screen(line, tmp_path, columns) as screen:
        for shown in screen.feed():
            drawn = [text for text in shown if "prompts  " in text or "records  " in text or "█" in text]
            assert len(drawn) <= 1 and drawn in ([], shown[-1:]), shown
            assert all(TOOL.match(text) and len(TOOL.findall(text)) == 1 for text in shown if text), shown
        lines = screen.rest()
    assert sorted(re.sub(r"\d+:\d\d(?=,|$)", "T", text) for text in lines) == [
        "ae-extract: 8 records in T",
        "ae-format: 8 records in T",
        "ae-grade: 8 records in T, 1 agent failed, 1 grader error",
        "ae-grade: p5: grader grader: exited with code 3",
        "ae-run: 1 of 8 agents failed: the agent exited with code 1",
        "ae-run: 8 prompts in T, 1 agent failed",
    ]


def test_records_on_the_same_terminal_stay_whole(tmp_path: Path) -> None:
    with on_screen(prepare(tmp_path) + " | ae-summarize", tmp_path) as screen:
        lines = screen.rest()
    records = [text for text in lines if text.startswith('{"id":"p') and text.endswith("}")]
    assert len(records) == 8 and all(TOOL.match(text) for text in set(lines) - set(records)), lines


@pytest.mark.parametrize("times", [1, 2])
def test_an_interrupt_leaves_a_clean_screen(times: int, tmp_path: Path) -> None:
    stubborn = "trap '' INT TERM; " if times == 2 else ""
    line = prepare(tmp_path, f'[ "$PROMPT" = 4 ] || exit 0; {stubborn}sleep 60') + " | ae-format -o report.md"
    with on_screen(line, tmp_path) as screen:
        for shown in screen.feed():
            if "4/8 prompts" in shown[-1]:  # drawn again, although no agent ends
                break
        os.write(screen.master, b"\x03" * times)
        lines = screen.rest()
    assert all(TOOL.match(text) and "█" not in text and "^C" not in text for text in lines), lines
    assert times == 2 or "ae-run: stopped by SIGINT after 4 prompts" in lines, lines


@pytest.mark.parametrize("width", [200, 79, 60, 39, 20])
def test_the_text_of_progress_comes_before_its_bar(width: int) -> None:
    parts = ["12/200 prompts", "3.1/s", "2 agents failed", "", "0:42 left"]
    line = fit_progress("ae-capture", 0.5, parts, width)
    assert len(line) <= width and line.startswith("ae-capture: ")
    assert ("█" in line) is (width > 70)
    assert ("12/200 prompts" in line and ("0:42 left" in line or line.endswith("…"))) is (width > 30)
