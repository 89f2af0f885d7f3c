"""Text of agents in every tool that shows it: nothing moves the cursor of a terminal, reorders a line or links."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest

from tests.support.tool import jsonl, on_terminal, run

BIDI = "\u202e\u2066\u200f"
HOSTILE = f"\x1b]0;owned\x07\x1b[2Jtext\rcover \x9b31m{BIDI} @everyone see #1 https://evil.example/x www.evil.example"
CATEGORY = {"category": HOSTILE}
RESULT = {
    "id": HOSTILE,
    "input": HOSTILE,
    "output": HOSTILE,
    "hint": "x",
    "metadata": {"agent": HOSTILE, **CATEGORY},
    "trajectory": [{"type": "message", "content": HOSTILE}, {"type": "tool_call", "name": HOSTILE, "input": HOSTILE}],
    "timing": {"total": 1},
    "errors": [HOSTILE],
    "score": {"pass": False, "score": 0.0, "reasoning": HOSTILE},
}
RAW = {"id": "a", "input": HOSTILE, "rawLines": [HOSTILE], "timing": {"start": 0, "end": 1, "total": 1}}
TOOLS: dict[str, list[str]] = {
    "ae-format": ["-f", "table", "results.jsonl"],
    "ae-format jsonl": ["-f", "jsonl", "results.jsonl"],
    "ae-format markdown": ["-f", "markdown", "results.jsonl"],
    "ae-format csv": ["-f", "csv", "results.jsonl"],
    "ae-format junit": ["-f", "junit", "results.jsonl"],
    "ae-show": ["results.jsonl"],
    "ae-summarize": ["results.jsonl"],
    "ae-summarize markdown": ["--markdown", "results.jsonl"],
    "ae-compare": ["results.jsonl", "other.jsonl"],
    "ae-compare markdown": ["results.jsonl", "other.jsonl", "-f", "markdown"],
    "ae-gate": ["results.jsonl", "--min", "passRate=0", "--by", "category"],
    "ae-plan": ["pilot\x1b[2J.jsonl", "--detect", "0.1"],
    "ae-balance": ["results.jsonl"],
    "ae-calibrate": ["results.jsonl"],
    "ae-score": ["results.jsonl"],
    "ae-merge": ["results.jsonl"],
    "ae-extract": ["-s", "text", "raw.jsonl"],
    "ae-extract --explain": ["-s", "text", "raw.jsonl", "--explain"],
    "ae-run --dry-run": ["--simple", "echo {}", "prompts.jsonl", "--dry-run"],
    "ae-run": ["--simple", "echo {}", "prompts.jsonl"],
}
_CONTROL = r"[\x00-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]"
SHOWS = re.compile(rf"\x1b(?!\[[0-9;]*[mK])|{_CONTROL}|\r(?!\n)")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a folder with a file of each kind."""
    path = tmp_path_factory.mktemp("hostile")
    for name in ("results.jsonl", "other.jsonl", "pilot\x1b[2J.jsonl"):
        (path / name).write_text(jsonl(RESULT, {**RESULT, "id": "plain"}))
    (path / "raw.jsonl").write_text(jsonl(RAW))
    (path / "prompts.jsonl").write_text(jsonl({"id": "a", "input": HOSTILE}))
    return path


@pytest.mark.parametrize("case", TOOLS)
def test_nothing_controls_the_terminal(case: str, folder: Path) -> None:
    done = on_terminal(case.split()[0], *TOOLS[case], cwd=folder, env={"PAGER": "cat"})
    assert done.code in (0, 1), done
    shown = done.stdout.replace("\r\x1b[K", "")
    assert SHOWS.search(shown) is None, repr(SHOWS.search(shown))


@pytest.mark.parametrize("form", ["markdown", "csv", "junit"])
def test_nothing_is_live_in_a_report(form: str, folder: Path) -> None:
    text = run("ae-format", "-f", form, "results.jsonl", cwd=folder).expect(0).stdout
    assert re.search(rf"{_CONTROL}|\x1b", text) is None
    if form == "markdown":
        prose = re.sub(r"(?ms)^(`{3,}).*?^\1$", "", text)
        assert "evil.example" in prose
        assert not re.search(r"@\w|#\d|://|www\.", prose), prose


@pytest.mark.parametrize("form", ["csv", "table", "markdown"])
def test_progress_ends_before_the_first_byte_of_a_report(form: str, folder: Path) -> None:
    """Behind a pipe, `less` or `head` may show the report on the same terminal."""
    shown = on_terminal("/bin/sh", "-c", f"ae-format results.jsonl -f {form} | cat", cwd=folder).out
    begin = shown.index({"csv": b"id,input", "table": b"Records", "markdown": b"# "}[form])
    assert b"\x1b[K" not in shown[begin:] and b"ae-format: " not in shown[begin:], shown


ODD = os.fsdecode(b"\xff\xfe")  # as a file may be called
FORMS = {
    "ae-format": ["table", "csv", "markdown", "jsonl", "html", "junit"],
    "ae-compare": ["table", "json", "markdown", "html", "svg"],
    "ae-history": ["table", "json", "markdown", "html"],
    "ae-plan": ["text", "json"],
}


@pytest.mark.skipif(sys.platform == "darwin", reason="names are UTF-8 there")
@pytest.mark.parametrize("tool", FORMS)
def test_a_file_name_that_is_not_utf_8(tool: str, tmp_path: Path) -> None:
    """It is shown in each form; it ended ae-compare, ae-history, ae-plan and the page of ae-format."""
    files = [f"{ODD}1.jsonl", f"{ODD}2.jsonl"]
    for name in files:
        (tmp_path / name).write_text(jsonl(RESULT, {**RESULT, "id": "plain"}))
    for form in FORMS[tool]:
        given = files if tool in ("ae-compare", "ae-history") else files[:1]
        more = ["--detect", "0.1"] if tool == "ae-plan" else []
        done = run(tool, *given, "-f", form, *more, cwd=tmp_path)
        assert done.code in (0, 1) and "internal error" not in done.stderr, done
        assert done.out.decode().strip(), "what is printed is UTF-8"


@pytest.mark.skipif(sys.platform == "darwin", reason="names are UTF-8 there")
def test_arguments_that_are_not_utf_8(tmp_path: Path) -> None:
    """A label, a command and a directory with such bytes are in the records, and cost none."""
    (tmp_path / "p.jsonl").write_text(jsonl({"id": "a", "input": "x"}))
    options = ["--simple", f"echo {ODD} {{}}", "--label", ODD, "--workspace-dir", ODD]
    (record,) = run("ae-capture", "p.jsonl", *options, cwd=tmp_path).expect(0, stderr="").records
    assert record["metadata"]["label"] == r"\udcff\udcfe" and "errors" not in record
