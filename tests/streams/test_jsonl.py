"""Input and output of records through real descriptors: lines, JSON, batches, output files."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agenteval.errors import BadRecord, CannotGoOn, ClosedPipe, StrictStop, UserError
from agenteval.grading.verdict import check_gradable
from agenteval.streams.jsonl import decode, decode_record, encode
from agenteval.streams.output import Output, WrittenRecords, open_output, read_written
from agenteval.streams.source import CHUNK, Source, read_batches, read_records
from agenteval.streams.text import whole_number
from agenteval.wire.records import Gradable


class Refused:
    """Collects refused lines; raises StrictStop as a Console does."""

    max_line = 1 << 20

    def __init__(self, *, strict: bool = False) -> None:
        self.strict = strict
        self.refused: list[tuple[str, str]] = []

    def refuse(self, where: str, why: str) -> None:
        self.refused.append((where, why))
        if self.strict:
            raise StrictStop


def lines_of(path: Path) -> list[tuple[int, bytes]]:
    return [line for batch in Source(str(path)).lines() for line in batch]


def source(path: Path, content: bytes) -> Source:
    path.write_bytes(content)
    return Source(str(path))


GOOD = [f'{{"id":"{name}","output":"{name}"}}' for name in "abcd"]


# --- JSON ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text, value",
    [
        ("1234567890123456789012345678901234567890", 1234567890123456789012345678901234567890),
        ("-1234567890123456789012345678901234567890", -1234567890123456789012345678901234567890),
        ('"\\u0000"', "\0"),
        ('"\\ud83d\\ude00"', "\U0001f600"),
        (' {"b": 1, "a": 2} \r', {"b": 1, "a": 2}),
        ("1.0", 1.0),
        ("1E5", 100000.0),
    ],
)
def test_decode(text: str, value: Any) -> None:
    assert decode(text) == value
    assert decode(text.encode()) == value


@pytest.mark.parametrize(
    "line, says",
    [
        (b"", "not JSON: Expecting value at column 1"),
        (b"{", "not JSON: Expecting property name enclosed in double quotes at column 2"),
        (b"{}}", "not JSON: Extra data at column 3"),
        (b'{"a":"\xff"}', "not UTF-8: byte 0xff at position 7"),
        (b'"\\ud800"', "half of a surrogate pair"),
        (b"[" * 100_000, "nested too deeply"),
        (b"1e400", "out of range"),
        (b"1" * 5000, "a number is too long"),
        (b"NaN", "not JSON"),
        (b"Infinity", "not JSON"),
        (b"'single'", "not JSON"),
        (b"\xef\xbb\xbf{}", "not JSON"),
    ],
)
def test_decode_says_what_is_wrong(line: bytes, says: str) -> None:
    with pytest.raises(BadRecord) as caught:
        decode(line)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 200


@pytest.mark.parametrize(
    "line, kind", [("[]", "a list"), ('"x"', "a string"), ("1", "a number"), ("true", "a boolean"), ("null", "null")]
)
def test_a_record_is_an_object(line: str, kind: str) -> None:
    with pytest.raises(BadRecord, match=f"must be a JSON object, got {kind}"):
        decode_record(line.encode())


@settings(max_examples=60, deadline=None)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=12,
    )
)
def test_what_is_encoded_is_one_line_and_comes_back(value: Any) -> None:
    line = encode(value)
    assert b"\n" not in line
    back = decode(line)
    assert back == value
    if isinstance(value, dict):
        assert list(back) == list(value)


BEYOND = [10**40, -(10**40), 2**64, 2**64 - 1, -(2**63) - 1, 1e30, [[[[[10**40]]]]], {"a": {"b": 2**64}}]


@pytest.mark.parametrize("value", BEYOND)
def test_numbers_stay_exact(value: Any) -> None:
    line = json.dumps({"own": value}).encode()
    assert repr(decode(line)) == repr(decode(encode(decode(line)))) == repr({"own": value})


# --- lines --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "content, lines",
    [
        (b"", []),
        (b"\n\n \n\t\r\n", []),
        (b"a", [(1, b"a")]),
        (b"a\n", [(1, b"a")]),
        (b"a\nb", [(1, b"a"), (2, b"b")]),
        (b"\n\na\n\nb\n", [(3, b"a"), (5, b"b")]),
        (b"a\r\nb\r\n", [(1, b"a\r"), (2, b"b\r")]),
        (b"\xef\xbb\xbfa\nb\n", [(1, b"a"), (2, b"b")]),
        (b"\xef\xbb\xbfa", [(1, b"a")]),
        (b"\xef\xbb\xbf", []),
        (b"\xef\xbb\xbf\na", [(2, b"a")]),
        (b"a\n\xef\xbb\xbfb\n", [(1, b"a"), (2, b"\xef\xbb\xbfb")]),
        (b"a\x0bb\x85c\xe2\x80\xa8d\n", [(1, b"a\x0bb\x85c\xe2\x80\xa8d")]),
        (b"a\0b\n", [(1, b"a\0b")]),
    ],
)
def test_lines(content: bytes, lines: list[tuple[int, bytes]], tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    assert lines_of(path) == lines


@settings(max_examples=40, deadline=None)
@given(st.lists(st.binary(max_size=12), max_size=8), st.lists(st.integers(1, 7), min_size=1, max_size=5))
def test_lines_are_the_same_in_whatever_pieces_they_come(parts: list[bytes], sizes: list[int]) -> None:
    content = b"\n".join(parts)
    reading, writing = os.pipe()

    def feed() -> None:
        rest, turn = content, 0
        while rest:
            size = sizes[turn % len(sizes)]
            os.write(writing, rest[:size])
            rest, turn = rest[size:], turn + 1
        os.close(writing)

    thread = threading.Thread(target=feed)
    thread.start()
    try:
        found = [line for batch in Source(f"/dev/fd/{reading}").lines() for line in batch]
    finally:
        thread.join()
        os.close(reading)
    expected = content.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    assert found == [(number, line) for number, line in enumerate(expected, 1) if line.strip()]


def test_line_longer_than_a_chunk(tmp_path: Path) -> None:
    long = b"x" * (3 * CHUNK + 7)
    assert lines_of_bytes(tmp_path, b"a\n" + long + b"\nb") == [(1, b"a"), (2, long), (3, b"b")]


def lines_of_bytes(tmp_path: Path, content: bytes) -> list[tuple[int, bytes]]:
    path = tmp_path / "file"
    path.write_bytes(content)
    return lines_of(path)


def test_a_line_is_handed_on_when_it_is_there(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.write(writing, b"first\nsec")
    lines = Source(f"/dev/fd/{reading}").lines()
    assert next(lines) == [(1, b"first")]
    os.write(writing, b"ond\nthird\n")
    assert next(lines) == [(2, b"second"), (3, b"third")]
    os.close(writing)
    assert list(lines) == []
    os.close(reading)


def test_rewind(tmp_path: Path) -> None:
    again = source(tmp_path / "file", b"\xef\xbb\xbfa\nb\n")
    assert list(again.lines()) == [[(1, b"a"), (2, b"b")]]
    again.rewind()
    assert list(again.lines()) == [[(1, b"a"), (2, b"b")]]


@pytest.mark.parametrize(
    "name, says",
    [("missing", "missing: No such file or directory"), (".", ".: is a directory"), ("file/x", "Not a dir")],
)
def test_source_that_cannot_be_read(name: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match=says):
        Source(name)


# --- records ------------------------------------------------------------------------------------

MIXED = "\n".join([GOOD[0], "{broken", GOOD[1], '{"id":"x"}', GOOD[2], GOOD[3]]).encode()
GOOD_4 = "\n".join(GOOD).encode() + b"\n"


def test_read_records_reports_and_goes_on(tmp_path: Path) -> None:
    refusals = Refused()
    records = list(read_records(source(tmp_path / "in.jsonl", MIXED), Gradable, refusals))
    assert [record["id"] for record in records] == ["a", "b", "c", "d"]
    assert [where for where, _ in refusals.refused] == [f"{tmp_path}/in.jsonl:2", f"{tmp_path}/in.jsonl:4"]


def test_read_batches_keeps_to_the_limit(tmp_path: Path) -> None:
    batches = list(read_batches(source(tmp_path / "in.jsonl", MIXED), check_gradable, Refused(), 2))
    assert [[record["id"] for record in batch] for batch in batches] == [["a"], ["b"], ["c"], ["d"]]
    assert max(len(batch) for batch in read_batches(source(tmp_path / "g", GOOD_4), check_gradable, Refused(), 3)) == 3


@pytest.mark.parametrize("limit", [1, 3, 100])
def test_strict_hands_on_what_was_good_before(limit: int, tmp_path: Path) -> None:
    refusals = Refused(strict=True)
    seen = []
    with pytest.raises(StrictStop):
        for batch in read_batches(source(tmp_path / "in.jsonl", MIXED), check_gradable, refusals, limit):
            seen += [record["id"] for record in batch]
    assert seen == ["a"] and len(refusals.refused) == 1


# --- output -------------------------------------------------------------------------------------


def test_output_is_emptied_when_opened_and_not_before(tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    path.write_text("before\n")
    output = Output(str(path), lazy=True)
    assert path.read_text() == "before\n"
    output.open()
    output.write({"b": 1, "a": "é\n"})
    output.close()
    assert path.read_bytes() == '{"b":1,"a":"é\\n"}\n'.encode()


def test_output_of_many_threads_is_whole_lines(tmp_path: Path) -> None:
    output = Output(str(tmp_path / "out.jsonl"))
    records = [{"thread": thread, "text": "x" * 20_000} for thread in range(8)]

    def write_ten(record: dict[str, Any]) -> None:
        for _ in range(10):
            output.write(record)

    threads = [threading.Thread(target=write_ten, args=(record,)) for record in records]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    output.close()
    lines = (tmp_path / "out.jsonl").read_bytes().splitlines()
    assert sorted(decode(line)["thread"] for line in lines) == sorted(list(range(8)) * 10)


def test_output_that_is_the_input(tmp_path: Path) -> None:
    path = tmp_path / "same.jsonl"
    path.write_text("precious\n")
    (tmp_path / "link").symlink_to(path)
    for name in (path, tmp_path / "link", tmp_path / "." / "same.jsonl"):
        with pytest.raises(UserError, match="is also the input"):
            Output(str(name), inputs=(Source("/dev/null"), Source(str(path))))
    assert path.read_text() == "precious\n"
    Output("/dev/null", inputs=(Source("/dev/null"),)).close()


def test_output_that_another_tool_writes(tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    first = Output(str(path), append=True)
    first.write({"id": "a"})
    with pytest.raises(UserError, match="another tool is writing to it"):
        Output(str(path))
    first.close()
    assert path.read_text() == '{"id":"a"}\n', "the second one has not emptied it"
    Output(str(path)).close()


def test_a_device_is_not_locked() -> None:
    """Two tools may write to /dev/null at the same time."""
    first, second = Output("/dev/null"), Output("/dev/null")
    for output in (first, second):
        output.write({"id": "a"})
        output.close()


def test_output_on_a_full_disk_and_a_closed_pipe() -> None:
    full = Output("/dev/full")
    with pytest.raises(CannotGoOn, match="No space left on device"):
        full.write({"id": "a"})
    full.close()
    reading, writing = os.pipe()
    os.close(reading)
    broken = Output("/dev/null")
    os.dup2(writing, broken.fd)  # a pipe without a reader cannot be opened by name
    with pytest.raises(ClosedPipe):
        broken.write({"id": "a"})
    broken.close()
    os.close(writing)


# --- going on after a crash ---------------------------------------------------------------------


def written_in(path: Path) -> WrittenRecords:
    """Returns what an output file has, after repairing it."""
    return read_written(str(path))


@pytest.mark.parametrize(
    "content, ids, left",
    [
        ("", set(), ""),
        ('{"id":"a"}\n{"id":"b"}\n', {"a", "b"}, '{"id":"a"}\n{"id":"b"}\n'),
        ('{"id":"a"}\n{"id":"b","inp', {"a"}, '{"id":"a"}\n'),
        ('{"id":"a"}\n{"id":"b"}', {"a", "b"}, '{"id":"a"}\n{"id":"b"}\n'),
        ('{"id":"a"}\n\n{"id":"b"}\n', {"a", "b"}, '{"id":"a"}\n\n{"id":"b"}\n'),
        ('{"id":"a', set(), ""),
        ('{"id":"a"}\n{', {"a"}, '{"id":"a"}\n'),
        ('{"id":"ä"}\n{"id":"é', {"ä"}, '{"id":"ä"}\n'),
    ],
)
def test_read_written_mends_the_last_line(content: str, ids: set[str], left: str, tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    path.write_text(content)
    assert set(written_in(path).ids) == ids
    assert path.read_text() == left


def test_read_written_cuts_inside_a_character(tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    path.write_bytes(b'{"id":"a"}\n{"id":"\xc3')
    assert set(written_in(path).ids) == {"a"}
    assert path.read_bytes() == b'{"id":"a"}\n'


def test_read_written_refuses_a_file_that_is_something_else(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text('{"id":"a"}\nMy notes\nof today\n')
    with pytest.raises(UserError, match="notes.txt:2: not a record"):
        written_in(path)
    assert path.read_text() == '{"id":"a"}\nMy notes\nof today\n'


def test_read_written_of_nothing(tmp_path: Path) -> None:
    assert set(written_in(tmp_path / "missing").ids) == set()
    assert set(written_in(Path("/dev/null")).ids) == set()


def test_open_output(tmp_path: Path) -> None:
    path = str(tmp_path / "out.jsonl")
    empty = Source("/dev/null")
    Path(path).write_text('{"id":"a"}\n{"id":"b","cut')
    for flags in ({"append": True, "resume": False}, {"append": False, "resume": True}):
        for target in (None, "-"):
            with pytest.raises(UserError, match="need -o FILE"):
                open_output(target, empty, **flags)
    output = open_output(path, empty, append=False, resume=True)
    output.write({"id": "c"})
    output.close()
    assert output.written.ids == {"a": 1}
    output = open_output(path, empty, append=True, resume=False)
    output.write({"id": "d"})
    output.close()
    assert output.written.ids == {}
    assert Path(path).read_text() == '{"id":"a"}\n{"id":"c"}\n{"id":"d"}\n'


@pytest.mark.parametrize("path", ["new/out", "a/b/c/out", "there/out", "/there/../new/out"])
def test_the_directories_of_an_output_are_made(path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("there").mkdir()
    target = f"{tmp_path}{path}" if path.startswith("/") else path
    output = Output(target)
    output.write({"id": "a"})
    output.close()
    assert Path(target).read_text() == '{"id":"a"}\n'


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("file/out", "file is not a directory"),
        ("file/new/dir/out", "file is not a directory"),
        ("there/file/out", "there/file is not a directory"),
        ("nowhere/out", "nowhere is not a directory"),
        ("nowhere/new/out", "nowhere is not a directory"),
        ("there", "is a directory; name a file in it"),
        ("there/", "is a directory; name a file in it"),
        (f"{'x' * 300}/out", "File name too long"),
    ],
)
def test_an_output_that_cannot_be_made(path: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("there").mkdir()
    Path("file").touch()
    Path("there/file").touch()
    Path("nowhere").symlink_to("missing")
    with pytest.raises(UserError) as refused:
        Output(path)
    assert str(refused.value) == f"{path}: {why}"
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["file", "nowhere", "there"]


def test_reading_does_not_wait_for_a_full_chunk() -> None:
    """From a pipe that stays open, a line is read at once, not after CHUNK bytes or a timeout."""
    reading, writing = os.pipe()
    os.write(writing, (GOOD[0] + "\n").encode())
    first = next(read_records(Source(f"/dev/fd/{reading}"), Gradable, Refused()))  # would hang
    assert first["id"] == "a"
    os.close(writing)
    os.close(reading)


LONG, OTHER = "9" * 20, ("", "-1", "²", "٣", "1 ", "9" * 21, "9" * 5000)


@pytest.mark.parametrize(
    ("text", "number"), [("0", 0), ("007", 7), (LONG, int(LONG)), *((text, None) for text in OTHER)]
)
def test_whole_numbers(text: str, number: int | None) -> None:
    assert whole_number(text) == number
