"""ae-extract of many records: bad lines cost only themselves, a closed pipe ends it, memory stays flat."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.tool import run
from tests.support.watching import Running, until

SECRET = "sk-secret-value-0123456789"
EVENT = {"type": "assistant", "message": {"role": "assistant", "content": [{"type": "text", "text": "word " * 200}]}}
END = {"type": "result", "subtype": "success", "is_error": False, "result": "done", "session_id": "s"}


def raw(number: int, **fields: Any) -> str:
    lines = [json.dumps(event) for event in (EVENT, EVENT, EVENT, END)]
    timing = {"start": 1, "end": 2, "total": 1}
    return json.dumps({"id": f"r{number}", "input": "x", "rawLines": lines, "timing": timing, **fields})


def large(path: Path, lines: dict[int, str] | None = None, count: int = 5_000) -> Path:
    """Writes raw records, 3.6 kB each, some lines replaced by others."""
    usual = raw(0)
    with path.open("w") as file:
        for number in range(count):
            file.write((lines or {}).get(number, usual.replace('"r0"', f'"r{number}"', 1)))
            file.write("\n")
    return path


ODD = {
    9: "not JSON",
    200: "",
    201: '{"id": "no lines"}',
    250: raw(250, metadata={"big": 2**70, "small": 1e-300}, errors=["failed"], output=SECRET),
    333: raw(333).replace("word", "\\\\ud800", 1),
    499: "[1]",
}


@pytest.mark.parametrize("options", [[], ["--keep-raw"], ["--strict"], ["-j", "2"]], ids="".join)
def test_bad_lines_cost_only_themselves(tmp_path: Path, options: list[str]) -> None:
    path = large(tmp_path / "raw.jsonl", ODD, count=500)
    done = run("ae-extract", path, "-s", "claude", *options, env={"MY_API_KEY": SECRET}).expect(1)
    assert done.messages[0] == f"ae-extract: {path}:10: not JSON: Expecting value at column 1"
    assert SECRET not in done.stdout
    if "--strict" in options:
        assert done.ids == [f"r{number}" for number in range(9)]
        return
    assert len(done.records) == 496
    assert all(("rawLines" in record) == ("--keep-raw" in options) for record in done.records)
    odd = done.records[done.ids.index("r250")]
    assert odd["metadata"]["big"] == 2**70 and odd["metadata"]["small"] == 1e-300 and odd["errors"] == ["failed"]
    assert done.records[done.ids.index("r333")]["trajectory"][0]["content"].startswith("\ufffd")


def test_a_schema_that_takes_nothing_is_reported_once(tmp_path: Path) -> None:
    done = run("ae-extract", large(tmp_path / "raw.jsonl", count=50), "-s", "codex").expect(0)
    assert len(done.records) == 50 and done.stderr.count("matches nothing") == 1


def test_a_closed_pipe_ends_it_quietly(tmp_path: Path) -> None:
    path = large(tmp_path / "raw.jsonl")
    with Running("ae-extract", path, "-s", "claude", cwd=tmp_path) as tool:
        assert tool.stdout.readline()
        tool.stdout.close()
        assert tool.process.wait(60) == 0


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_memory_does_not_grow_with_the_input(tmp_path: Path) -> None:
    usual = f"{raw(0)}\n".encode()
    with Running("ae-extract", "-s", "claude", "-o", "results.jsonl", cwd=tmp_path) as tool:
        for _ in range(150):  # 54 MB
            tool.stdin.write(usual * 100)
        tool.stdin.flush()
        results = tmp_path / "results.jsonl"
        size = until(lambda: first_line(results), "a result")
        until(lambda: results.stat().st_size == 15_000 * size, "all results")
        status = Path(f"/proc/{tool.pid}/status").read_text()  # while it waits for more
    assert int(re.findall(r"VmHWM:\s+(\d+)", status)[0]) < 40 << 10


def first_line(path: Path) -> int:
    """Returns the length of the first line of a file in bytes, 0 if there is none yet."""
    if not path.exists():
        return 0
    with path.open("rb") as file:
        return len(file.readline())
