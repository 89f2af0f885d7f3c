"""ae-format, run as a real process."""

from __future__ import annotations

import csv
import fcntl
import io
import json
import os
import pty
import select
import struct
import subprocess
import termios
from pathlib import Path
from typing import IO, Any

import pytest

TOOL = str(Path(__file__).parent.parent.parent / "bin" / "ae-format")
PASS = {"pass": True, "score": 1.0, "reasoning": "good"}
BIG = 1234567890123456789012345678901234567890


def lines_of(*records: dict[str, Any]) -> bytes:
    return b"".join(json.dumps({"id": "a", "output": "o", **record}).encode() + b"\n" for record in records)


def run(*args: str, stdin: bytes = b"", code: int = 0, **env: str) -> subprocess.CompletedProcess[bytes]:
    clean = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "NO_COLOR")}
    done = subprocess.run([TOOL, *args], input=stdin, capture_output=True, env={**clean, **env}, timeout=30)
    assert done.returncode == code, (args, done.returncode, done.stdout, done.stderr)
    return done


def rows_of(content: bytes) -> list[list[str]]:
    return list(csv.reader(io.StringIO(content.decode(), newline=""), strict=True))


# --- jsonl ----------------------------------------------------------------------------------------


def test_jsonl_keeps_every_field_in_its_place() -> None:
    line = b'{"z":[1.0,null],"id":"a","big":%d,"output":"o","trajectory":[{"x":1}],"input":"i","y":{}}\n' % BIG
    assert run(stdin=line).stdout == line
    assert run("--style", "jsonl", stdin=line.replace(b":", b": ")).stdout == line


def test_jsonl_streams() -> None:
    assert first_line_of_two("-f", "jsonl") == b'{"id":"a","output":"o"}\n'


# --- csv ------------------------------------------------------------------------------------------


def test_csv_reads_back_as_it_was(tmp_path: Path) -> None:
    nasty = 'a "quoted", line\r\nand\nanother\r end'
    source = tmp_path / "results.jsonl"
    source.write_bytes(
        lines_of({"id": "1", "input": ["x", "y"], "output": nasty, "hint": "", "score": PASS}, {"id": "2"})
    )
    content = run("--format", "csv", str(source)).stdout
    assert rows_of(content) == [
        ["id", "input", "hint", "output", "tool_errors", "duration_ms", "pass", "score", "reasoning"],
        ["1", "x | y", "", nasty, "", "", "true", "1.0", "good"],
        ["2", "", "", "o", "", "", "", "", ""],
    ]


def test_csv_has_graded_columns_when_any_record_of_the_file_is(tmp_path: Path) -> None:
    plain, mixed = tmp_path / "plain", tmp_path / "mixed"
    plain.write_bytes(lines_of({"score": None}, {}))
    mixed.write_bytes(lines_of({}, {}, {"score": PASS}))
    assert [len(row) for row in rows_of(run("-f", "csv", str(plain)).stdout)] == [6, 6, 6]
    assert [len(row) for row in rows_of(run("-f", "csv", str(mixed)).stdout)] == [9, 9, 9, 9]
    assert rows_of(run("-f", "csv", stdin=plain.read_bytes()).stdout)[0][6:] == ["pass", "score", "reasoning"]


def test_csv_streams() -> None:
    header, row = first_line_of_two("-f", "csv", lines=2).splitlines()
    assert header.startswith(b"id,input,")
    assert row == b'"a",,,"o",,,,,'


def first_line_of_two(*args: str, lines: int = 1) -> bytes:
    """What is out while the second record is still to come."""
    with subprocess.Popen([TOOL, *args], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as tool:
        assert tool.stdin is not None
        assert tool.stdout is not None
        tool.stdin.write(lines_of({}))
        tool.stdin.flush()
        out = b""
        while out.count(b"\n") < lines:
            assert select.select([tool.stdout], [], [], 10)[0], "nothing came before the end of the input"
            out += os.read(tool.stdout.fileno(), 1 << 16)
    return out


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads peak memory from /proc")
def test_csv_of_100_000_records_stays_small() -> None:
    record = lines_of({"input": "i" * 40, "trajectory": [{"type": "message", "content": "x" * 60}], "score": PASS})
    with subprocess.Popen([TOOL, "-f", "csv"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as tool:
        assert tool.stdin is not None
        assert tool.stdout is not None
        for _ in range(100):
            tool.stdin.write(record * 1000)
            tool.stdin.flush()
            read_lines(tool.stdout, 1000)
        status = Path(f"/proc/{tool.pid}/status").read_text()
    peak = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))
    assert peak < 40_000, f"{peak} kB"


def read_lines(stream: IO[bytes], count: int) -> None:
    for _ in range(count):
        assert stream.readline()


# --- markdown and table ---------------------------------------------------------------------------

MIXED = lines_of({"id": "one", "score": PASS}, {"id": "two", "errors": ["boom"]}, {"id": "three"})


@pytest.mark.parametrize("style", ["markdown", "table"])
def test_a_file_and_a_pipe_give_the_same_report(style: str, tmp_path: Path) -> None:
    source = tmp_path / "results.jsonl"
    source.write_bytes(MIXED + b"bad\n")
    from_file, from_pipe = run("-f", style, str(source), code=1), run("-f", style, stdin=MIXED + b"bad\n", code=1)
    assert without_date(from_file.stdout) == without_date(from_pipe.stdout)
    assert from_file.stderr.decode() == f"ae-format: {source}:4: not JSON: Expecting value at column 1\n"
    assert from_pipe.stderr.startswith(b"ae-format: stdin:4: ")


def without_date(report: bytes) -> list[bytes]:
    return [line for line in report.splitlines() if not line.startswith(b"Generated: ")]


def test_markdown_summary_comes_first() -> None:
    text = run("-f", "markdown", stdin=MIXED).stdout.decode()
    assert "Records**: 3 (1 passed, 2 ungraded)\n- **Pass rate**: 1/1 (100.0%), 95% interval 20.7% to 100.0%" in text
    assert text.index("## Summary") < text.index("## Results") < text.index("### one") < text.index("### three")


def test_table_off_a_terminal_is_plain_and_100_wide() -> None:
    text = run("-f", "table", stdin=lines_of({"output": "x" * 500})).stdout.decode()
    assert "\x1b" not in text
    assert max(map(len, text.splitlines())) == 100


def on_a_terminal(columns: int, *args: str, stdin: bytes, **env: str) -> str:
    """What a person sees who runs the tool in a window that wide."""
    main, window = pty.openpty()
    fcntl.ioctl(window, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    clean = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "NO_COLOR")}
    with subprocess.Popen(
        [TOOL, *args], stdin=subprocess.PIPE, stdout=window, env={**clean, "TERM": "xterm", **env}
    ) as tool:
        os.close(window)
        assert tool.stdin is not None
        tool.stdin.write(stdin)
        tool.stdin.close()
        seen = b""
        try:
            while piece := os.read(main, 1 << 16):
                seen += piece
        except OSError:
            pass  # the other end of a terminal is gone
    os.close(main)
    return seen.decode().replace("\r\n", "\n")


def test_a_terminal_gets_colours_unless_told_otherwise(tmp_path: Path) -> None:
    assert "\x1b[32mpass" in on_a_terminal(80, "-f", "table", stdin=MIXED)
    assert "\x1b" not in on_a_terminal(80, "-f", "table", stdin=MIXED, NO_COLOR="1")
    assert on_a_terminal(80, "-f", "table", "-o", str(tmp_path / "out"), stdin=MIXED) == ""
    assert b"\x1b" not in (tmp_path / "out").read_bytes()


@pytest.mark.parametrize("columns", [30, 80, 140])
def test_table_fits_the_window(columns: int) -> None:
    records = lines_of({"id": "i" * 99, "output": "x" * 500, "timing": {"total": 1, "inputTokens": 1}, "score": PASS})
    shown = on_a_terminal(columns, "-f", "table", stdin=records, NO_COLOR="1").rstrip().split("\n\n")[1]
    assert max(map(len, shown.splitlines())) <= columns


def test_an_output_cannot_drive_the_terminal() -> None:
    evil = "\x1b[2J\x1b]0;pwned\x07\x9b31m\r\b"
    records = lines_of({"id": evil, "output": evil, "errors": [evil], "scores": {evil: PASS, "b": PASS}, "score": PASS})
    for style in ("table", "markdown"):
        shown = on_a_terminal(80, "-f", style, stdin=records, NO_COLOR="1")
        assert not set("\x1b\x07\x9b\r\b") & set(shown), (style, shown)


# --- manners --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("style", "expected"),
    [
        ("jsonl", b""),
        ("csv", b"id,input,hint,output,tool_errors,duration_ms,pass,score,reasoning\r\n"),
        ("table", b"Records  0\n"),
        ("markdown", b"- **Records**: 0\n"),
    ],
)
def test_empty_input(style: str, expected: bytes) -> None:
    done = run("-f", style, stdin=b"\n \n")
    assert done.stdout.endswith(expected) or expected in done.stdout
    assert done.stderr == b""


@pytest.mark.parametrize("style", ["jsonl", "csv", "markdown", "table"])
def test_a_bad_line_costs_only_itself(style: str) -> None:
    bad = lines_of({"id": "one"}) + b'{"id":"two"}\n[]\n' + lines_of({"id": "three"})
    done = run("-f", style, stdin=bad, code=1)
    assert done.stderr.decode().splitlines() == [
        'ae-format: stdin:2: "output" is missing',
        "ae-format: stdin:3: a record must be a JSON object, got a list",
    ]
    assert b"one" in done.stdout
    assert b"three" in done.stdout


def test_strict_stops_at_the_first() -> None:
    done = run("-f", "csv", "--strict", stdin=lines_of({"id": "one"}) + b"bad\n" + lines_of({"id": "three"}), code=1)
    assert [row[0] for row in rows_of(done.stdout)] == ["id", "one"]


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["/nowhere"], "ae-format: /nowhere: No such file or directory\n"),
        (["/"], "ae-format: /: is a directory\n"),
        (["-f", "xml"], "ae-format: Invalid value for "),
    ],
)
def test_usage_errors(args: list[str], message: str) -> None:
    done = run(*args, code=2)
    assert done.stdout == b""
    assert done.stderr.decode().startswith(message)


@pytest.mark.parametrize("style", ["jsonl", "csv", "markdown", "table"])
def test_a_closed_pipe_is_no_error(style: str) -> None:
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run([TOOL, "-f", style], input=MIXED, stdout=write, stderr=subprocess.PIPE, timeout=30)
    os.close(write)
    assert (done.returncode, done.stderr) == (0, b"")


def test_progress_lines_on_request() -> None:
    done = run("-f", "csv", "--progress", stdin=MIXED)
    assert done.stderr.decode().splitlines()[0] == "ae-format: [1] one"


def test_only_the_form_asked_for_is_loaded() -> None:
    done = run("-f", "csv", stdin=MIXED, PYTHONVERBOSE="1")
    assert b"agenteval.reports.results.csv_" in done.stderr
    for name in (b"report.table", b"report.markdown", b"report.summary", b"import 'shutil'", b"import 'numpy'"):
        assert name not in done.stderr
