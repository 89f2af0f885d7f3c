"""ae-format, run as a real process."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import select
import subprocess
import zlib
from base64 import b64decode
from pathlib import Path
from typing import IO, Any

import pytest

from tests.support.tool import BIN, Done, on_terminal, run, write
from tests.support.watching import PATIENCE

PASS = {"pass": True, "score": 1.0, "reasoning": "good"}
BIG = 1234567890123456789012345678901234567890


def lines_of(*records: dict[str, Any]) -> bytes:
    return b"".join(json.dumps({"id": "a", "output": "o", **record}).encode() + b"\n" for record in records)


def ae_format(*args: object, stdin: bytes = b"", code: int = 0, **env: str) -> Done:
    return run("ae-format", *args, stdin=stdin, env=env).expect(code)


def rows_of(content: bytes) -> list[list[str]]:
    return list(csv.reader(io.StringIO(content.decode(), newline=""), strict=True))


# --- jsonl ----------------------------------------------------------------------------------------


def test_jsonl_keeps_every_field_in_its_place() -> None:
    line = b'{"z":[1.0,null],"id":"a","big":%d,"output":"o","trajectory":[{"x":1}],"input":"i","y":{}}\n' % BIG
    assert ae_format(stdin=line).out == line
    assert ae_format("--style", "jsonl", stdin=line.replace(b":", b": ")).out == line


def test_jsonl_streams() -> None:
    assert first_line_of_two("-f", "jsonl") == b'{"id":"a","output":"o"}\n'


@pytest.mark.parametrize("form", ["jsonl", "csv", "markdown", "table"])
def test_a_number_too_large_for_a_float_costs_its_record_only(form: str) -> None:
    records = lines_of({"id": "big", "timing": {"total": 10**400}}, {"id": "other", "timing": {"inputTokens": 7}})
    done = ae_format("-f", form, stdin=records, code=1)
    assert "other" in done.stdout
    assert done.stderr.startswith('ae-format: stdin:1: "timing.total" must be ')


# --- csv ------------------------------------------------------------------------------------------


FACTS = ["status", "category", "model", "tokens", "cost_usd", "label"]


def test_csv_reads_back_as_it_was(tmp_path: Path) -> None:
    facts: dict[str, Any] = {"timing": {"inputTokens": 10, "outputTokens": 2, "costUsd": 0.5}}
    facts["metadata"] = {"category": ["ui", "ux"], "model": "m", "label": "night"}
    nasty = 'a "quoted", line\r\nand\nanother\r end'
    source = tmp_path / "results.jsonl"
    source.write_bytes(
        lines_of({"id": "1", "input": ["x", "y"], "output": nasty, "hint": "", "score": PASS}, {"id": "2", **facts})
    )
    content = ae_format("--format", "csv", str(source)).out
    assert rows_of(content) == [
        ["id", "input", "hint", "output", "tool_errors", "duration_ms", "pass", "score", "reasoning", *FACTS],
        ["1", "x | y", "", nasty, "", "", "true", "1.0", "good", "pass", "", "", "", "", ""],
        ["2", "", "", "o", "", "", "", "", "", "ungraded", "ui, ux", "m", "12", "0.5", "night"],
    ]


def test_csv_has_graded_columns_when_any_record_of_the_file_is(tmp_path: Path) -> None:
    plain, mixed = tmp_path / "plain", tmp_path / "mixed"
    plain.write_bytes(lines_of({"score": None}, {}))
    mixed.write_bytes(lines_of({}, {}, {"score": PASS}))
    assert [len(row) for row in rows_of(ae_format("-f", "csv", str(plain)).out)] == [12] * 3
    assert [len(row) for row in rows_of(ae_format("-f", "csv", str(mixed)).out)] == [15] * 4
    assert rows_of(ae_format("-f", "csv", stdin=plain.read_bytes()).out)[0][6:9] == ["pass", "score", "reasoning"]


def test_csv_streams() -> None:
    header, row = first_line_of_two("-f", "csv", lines=2).splitlines()
    assert header.startswith(b"id,input,")
    assert row == b'"a",,,"o",,,,,,"ungraded",,,,,'


def first_line_of_two(*args: str, lines: int = 1) -> bytes:
    """What is out while the second record is still to come."""
    with subprocess.Popen([BIN / "ae-format", *args], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as tool:
        assert tool.stdin is not None
        assert tool.stdout is not None
        tool.stdin.write(lines_of({}))
        tool.stdin.flush()
        out = b""
        while out.count(b"\n") < lines:
            assert select.select([tool.stdout], [], [], PATIENCE)[0], "nothing came before the end of the input"
            out += os.read(tool.stdout.fileno(), 1 << 16)
    return out


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads peak memory from /proc")
def test_csv_of_100_000_records_stays_small() -> None:
    record = lines_of({"input": "i" * 40, "trajectory": [{"type": "message", "content": "x" * 60}], "score": PASS})
    with subprocess.Popen([BIN / "ae-format", "-f", "csv"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as tool:
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
    from_file, from_pipe = (
        ae_format("-f", style, str(source), code=1),
        ae_format("-f", style, stdin=MIXED + b"bad\n", code=1),
    )
    assert without_date(from_file.out) == without_date(from_pipe.out)
    assert from_file.stderr == f"ae-format: {source}:4: not JSON: Expecting value at column 1\n"
    assert from_pipe.err.startswith(b"ae-format: stdin:4: ")


def without_date(report: bytes) -> list[bytes]:
    return [line for line in report.splitlines() if not line.startswith(b"Generated: ")]


def test_markdown_summary_comes_first() -> None:
    text = ae_format("-f", "markdown", stdin=MIXED).stdout
    assert (
        "Records**: 3 (1 passed, 1 agent failed, 1 ungraded)\n- **Pass rate**: 1/2 (50.0%), 95% interval 9.5% to 90.5%"
        in text
    )
    assert text.index("## Summary") < text.index("## Results") < text.index("### two") < text.index("### three")
    assert "1 record that passed is not listed; `--all` lists every record." in text and "### one" not in text
    every = ae_format("-f", "markdown", "--all", stdin=MIXED).stdout
    assert every.index("### one") < every.index("### two") and "not listed" not in every


def test_table_off_a_terminal_is_plain_and_100_wide() -> None:
    text = ae_format("-f", "table", stdin=lines_of({"output": "x" * 500})).stdout
    assert "\x1b" not in text
    assert max(map(len, text.splitlines())) == 100


def on_a_terminal(tmp_path: Path, columns: int, *args: object, stdin: bytes, **env: str) -> str:
    """Returns what `ae-format ARGS` shows in a window of that width."""
    (tmp_path / "shown.jsonl").write_bytes(stdin)
    return on_terminal(
        "ae-format", "shown.jsonl", *args, "--no-progress", cwd=tmp_path, env=env, columns=columns
    ).stdout


def test_a_terminal_gets_colours_unless_told_otherwise(tmp_path: Path) -> None:
    assert "\x1b[32mpass" in on_a_terminal(tmp_path, 80, "-f", "table", stdin=MIXED)
    assert "\x1b" not in on_a_terminal(tmp_path, 80, "-f", "table", stdin=MIXED, NO_COLOR="1")
    assert on_a_terminal(tmp_path, 80, "-f", "table", "-o", str(tmp_path / "out"), stdin=MIXED) == ""
    assert b"\x1b" not in (tmp_path / "out").read_bytes()


@pytest.mark.parametrize("columns", [30, 80, 140])
def test_table_fits_the_window(columns: int, tmp_path: Path) -> None:
    records = lines_of({"id": "i" * 99, "output": "x" * 500, "timing": {"total": 1, "inputTokens": 1}, "score": PASS})
    shown = on_a_terminal(tmp_path, columns, "-f", "table", stdin=records, NO_COLOR="1").rstrip().split("\n\n")[1]
    assert max(map(len, shown.splitlines())) <= columns


def test_an_output_cannot_drive_the_terminal(tmp_path: Path) -> None:
    evil = "\x1b[2J\x1b]0;pwned\x07\x9b31m\r\b"
    records = lines_of({"id": evil, "output": evil, "errors": [evil], "scores": {evil: PASS, "b": PASS}, "score": PASS})
    for style in ("table", "markdown"):
        shown = on_a_terminal(tmp_path, 80, "-f", style, stdin=records, NO_COLOR="1")
        assert not set("\x1b\x07\x9b\r\b") & set(shown), (style, shown)


# --- manners --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("style", "expected"),
    [
        ("jsonl", b""),
        ("csv", b"id,input,hint,output,tool_errors,duration_ms,pass,score,reasoning,status,category,model,tokens,"),
        ("table", b"Records  0\n"),
        ("markdown", b"- **Records**: 0\n"),
    ],
)
def test_empty_input(style: str, expected: bytes) -> None:
    done = ae_format("-f", style, stdin=b"\n \n").expect(0, stderr="")
    assert expected in done.out if expected else done.out == b"", done


@pytest.mark.parametrize("style", ["jsonl", "csv", "markdown", "table"])
def test_a_bad_line_costs_only_itself(style: str) -> None:
    bad = lines_of({"id": "one"}) + b'{"id":"two"}\n[]\n' + lines_of({"id": "three"})
    done = ae_format("-f", style, stdin=bad, code=1)
    assert done.stderr.splitlines() == [
        'ae-format: stdin:2: "output" is missing',
        "ae-format: stdin:3: a record must be a JSON object, got a list",
    ]
    assert b"one" in done.out
    assert b"three" in done.out


def test_strict_stops_at_the_first() -> None:
    done = ae_format(
        "-f", "csv", "--strict", stdin=lines_of({"id": "one"}) + b"bad\n" + lines_of({"id": "three"}), code=1
    )
    assert [row[0] for row in rows_of(done.out)] == ["id", "one"]


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["/nowhere"], "ae-format: /nowhere: No such file or directory\n"),
        (["/"], "ae-format: /: is a directory; name a file of records\n"),
        (["-f", "xml"], "ae-format: Invalid value for "),
    ],
)
def test_usage_errors(args: list[str], message: str) -> None:
    done = ae_format(*args, code=2)
    assert done.out == b""
    assert done.stderr.startswith(message)


@pytest.mark.parametrize("style", ["jsonl", "csv", "markdown", "table"])
def test_a_closed_pipe_is_no_error(style: str) -> None:
    read, write = os.pipe()
    os.close(read)
    run("ae-format", "-f", style, stdin=MIXED, stdout=write).expect(0, stderr="")
    os.close(write)


def test_progress_lines_on_request() -> None:
    done = ae_format("-f", "csv", "--progress", stdin=MIXED)
    assert done.stderr.splitlines()[0] == "ae-format: [1] one"


def test_only_the_form_asked_for_is_loaded() -> None:
    done = ae_format("-f", "csv", stdin=MIXED, PYTHONVERBOSE="1")
    assert set(re.findall(r"import 'agenteval\.reports\.results\.(\w+)'", done.stderr)) == {"csv"}
    assert set(re.findall(r"import '(numpy|pyarrow)'", done.stderr)) == set()


def test_only_what_did_not_pass_is_listed(tmp_path: Path) -> None:
    verdicts: dict[str, Any] = {
        "good": {"score": {"pass": True, "score": 1}},
        "bad": {"score": {"pass": False, "score": 0}},
    }
    verdicts |= {"broken": {"errors": ["exited with code 1"]}, "open": {}}
    path = write(
        tmp_path / "in.jsonl", *({"id": id, "input": "q", "output": id} | more for id, more in verdicts.items())
    )
    for form in ("table", "markdown", "csv", "jsonl"):
        shown = run("ae-format", path, "-f", form, "--failed").expect(0).stdout
        assert [id for id in verdicts if re.search(rf"\b{id}\b", shown)] == ["bad", "broken"], shown
    assert (
        "4 (1 passed, 1 did not pass, 1 agent failed, 1 ungraded)"
        in run("ae-format", path, "-f", "table", "--status", "ungraded").stdout
    )
    run("ae-format", path, "-f", "html", "--failed", "-o", tmp_path / "page.html").expect(0)
    assert '"listed":2' in (tmp_path / "page.html").read_text()
    run("ae-format", path, "--status", "bad").expect(2)
    run("ae-format", path, "-f", "junit", "--failed").expect(2)
    run("ae-format", path, "-f", "markdown", "--failed", "--all").expect(2).says("--all lists every record")


def measured(id: str, score: float | None, time: int | None, cost: float | None, **more: Any) -> dict[str, Any]:
    grade = {} if score is None else {"score": {"pass": score > 0.5, "score": score, "reasoning": f"got {score}"}}
    timing = {"total": time, "costUsd": cost}
    known = {name: value for name, value in timing.items() if value is not None}
    return {"id": id, "input": "q", "output": id, "timing": known, **grade, **more}


SORTED = [
    measured("aa", 0.7, 300, 0.2),
    measured("bb", None, None, None),
    measured("cc", 0.1, 900, 0.1),
    measured("dd", 1.0, 20, 0.3),
    measured("ee", None, 500, None, errors=["crashed"]),
]
ORDERS = {"score": "ee cc aa dd bb", "time": "cc ee aa dd bb", "cost": "dd aa cc bb ee"}


@pytest.mark.parametrize("sort", ORDERS)
def test_sorted(sort: str, tmp_path: Path) -> None:
    path = write(tmp_path / "in.jsonl", *SORTED[:2], "no record", *SORTED[2:])
    order = ORDERS[sort].split()
    for form in ("table", "csv", "jsonl", "markdown"):
        every = ["--all"] if form == "markdown" else []
        from_file = run("ae-format", path, "-f", form, "--sort", sort, *every).expect(1)
        from_pipe = run("ae-format", "-f", form, "--sort", sort, *every, stdin=path.read_bytes()).expect(1)
        assert from_file.stderr.partition(":3:")[2] == from_pipe.stderr.partition(":3:")[2] != ""
        ids = re.compile(r'(?m)^(?:### |[-\w]+ +|[{]"id":"|")(aa|bb|cc|dd|ee)\b')
        assert ids.findall(from_file.stdout) == order, from_file
        assert without_date(from_pipe.out) == without_date(from_file.out)
    run("ae-format", path, "--sort", sort, "-o", tmp_path / "page.html").expect(1)
    assert rows_of_page(tmp_path / "page.html") == order


def rows_of_page(page: Path) -> list[str]:
    found = re.findall(r'data-rows="[^"]*">([^<]*)<', page.read_text())
    return [json.loads(line)[0] for block in found for line in zlib.decompress(b64decode(block)).splitlines()]


def test_groups_in_place_of_records(tmp_path: Path) -> None:
    checks = {
        "checks": [{"name": "has z", "pass": False, "reason": "no"}, {"name": "has a", "pass": True, "reason": ""}]
    }
    failed = {"pass": False, "score": 0.5, "reasoning": "1/2 checks", "outcome": checks}
    records = [
        *(measured(f"late-{at}", None, 1, None, errors=[f"timed out after {at} s"]) for at in range(9)),
        *({**measured(f"checks-{at}", None, 1, None, metadata={"category": "ui"}), "score": failed} for at in range(2)),
        measured("good", 1.0, 1, None),
        measured("same", 0.2, 1, None),
    ]
    path = write(tmp_path / "in.jsonl", *records)
    text = run("ae-format", path, "-f", "table", "--group-by", "reason").expect(0, stderr="").stdout
    assert text.split("RECORDS\n")[1].splitlines() == [
        "    9  timed out after # s  late-0, late-1, late-2, late-3, late-4 and 4 more",
        "    2  has z                checks-0, checks-1",
        "    1  got 0.2              same",
    ]
    text = run("ae-format", path, "-f", "markdown", "--group-by", "reason", "--status", "error").expect(0).stdout
    assert "| timed out after \\# s | late-0, late-1, late-2, late-3, late-4 and 4 more | 9 |" in text
    assert "has z" not in text and "### " not in text
    text = run("ae-format", path, "-f", "table", "--group-by", "category", "--failed").expect(0).stdout
    assert re.search(r"(?m)^ +2  ui +checks-0, checks-1$", text) and "good" not in text
    run("ae-format", path, "-f", "table", "--group-by", "categry").expect(1).says("--group-by category?")
    for wrong in (["--sort", "time"], ["--by", "category"]):
        run("ae-format", path, "-f", "table", "--group-by", "category", *wrong).expect(2)


@pytest.mark.parametrize("form", ["table", "markdown"])
def test_by_two_keys(form: str, tmp_path: Path) -> None:
    metadata = [
        {"category": "legal", "level": "hard"},
        {"category": "legal"},
        {"category": ["legal", "tax"], "level": 1},
    ]
    records = [measured(f"r{at}", 1.0, 1, None, metadata=found) for at, found in enumerate(metadata)]
    records += [measured("bare", 0.0, 1, None), measured("top", 0.0, 1, None, level=7)]
    path = write(tmp_path / "in.jsonl", *records)
    text = run("ae-format", path, "-f", form, "--by", "category,metadata.level").expect(0, stderr="").stdout
    groups = {"legal × hard": "1/1", "legal × (none)": "1/1", "legal × 1": "1/1", "tax × 1": "1/1", "(none)": "0/1"}
    groups |= {"(none) × 7": "0/1"}
    for name, passed in groups.items():
        assert re.search(rf"(?m)^(\| )?{re.escape(name)}( \|)? +{passed}\b", text), (name, text)
    assert "category × level" in text.lower()
    wrong = run("ae-format", path, "-f", form, "--by", "category,levl").expect(1)
    wrong.says("--by levl: no record has this key in its metadata: --by level?")
