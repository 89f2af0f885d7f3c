"""The input of a tool: lines and records from a file or stdin, as they arrive.

A Source reads chunks and splits them into lines, which it passes on at once. The read_ functions decode and check the
lines, and report those that are refused; if the first line shows that the whole file is of another kind, they report
that once, with the tool that reads it.
"""

import os
import re
import shlex
import stat
import sys
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import chain
from typing import Any, Protocol, TypeVar

from agenteval.errors import BadRecord, UserError, describe_system_error, similar_files
from agenteval.streams.files import LONGEST_LINE, is_null, open_given, read_first, read_ready
from agenteval.streams.jsonl import LONG_LINE, decode, decode_record
from agenteval.wire.records import Record
from agenteval.wire.validation import T, check

R = TypeVar("R")
CHUNK = 1 << 16
BOM = b"\xef\xbb\xbf"


class Refusals(Protocol):
    """Reports refused lines, as a Console does; refuse() raises StrictStop if strict."""

    strict: bool
    max_line: int  # bytes of a line of other programs' files

    def refuse(self, where: str, why: str) -> None: ...


class Source:
    """A file or stdin, as batches of numbered lines."""

    def __init__(self, path: str | None, *, max_line: int = LONGEST_LINE, opened: int | None = None) -> None:
        """Opens the file, or stdin; reads the descriptor `opened` instead if it is given."""
        self.path = None if path in (None, "-") else path
        self.name = self.path or ("stdin" if opened is None else "the command line")
        try:
            if opened is not None:
                self.fd = opened
            else:
                self.fd = sys.stdin.fileno() if self.path is None else open_given(self.path)
        except (AttributeError, ValueError):
            raise UserError("stdin is closed: give a file") from None
        except OSError as error:
            raise UserError(f"{self.name}: {_advice(error, self.name)}") from None
        mode = os.fstat(self.fd).st_mode
        if stat.S_ISDIR(mode):
            raise UserError(f"{self.name}: is a directory; name a file of records")
        if stat.S_ISBLK(mode) or (stat.S_ISCHR(mode) and not os.isatty(self.fd) and not is_null(self.fd)):
            raise UserError(f"{self.name}: is a device")
        self.regular = stat.S_ISREG(mode)
        self._start = os.lseek(self.fd, 0, os.SEEK_CUR) if self.regular else 0
        self.first_line: int | None = None  # its number: lines before it are blank
        self._ahead: list[bytes] = []  # chunks that first_text() has read
        self.max_line = max_line
        self.end: int | None = None  # where to stop in a regular file that grows
        self._read_some = read_first  # then read_ready
        if self.path is None and os.isatty(self.fd):
            raise UserError("no input: give a file, or pipe records into it (see --help)")

    def lines(self) -> Iterator[list[tuple[int, bytes]]]:
        """Yields lists of (line number, line) without blank lines: the lines that one read completed.

        LONG_LINE replaces a line that is too long; decode() refuses it.
        """
        number = size = 0
        begun: list[bytes] = []  # the pieces of a line that has not ended yet
        chunk = b"\n"
        while chunk:
            chunk = self._read()
            *lines, rest = (chunk or b"\n").split(b"\n")  # the last line may lack its end
            if lines:
                long = size + len(lines[0]) > self.max_line
                lines[0] = LONG_LINE if long else b"".join([*begun, lines[0]])
                begun, size = [], 0
                if number == 0:
                    lines[0] = lines[0].removeprefix(BOM)
                if batch := [(at, line) for at, line in enumerate(lines, number + 1) if line and not line.isspace()]:
                    self.first_line = self.first_line or batch[0][0]
                    yield batch
                number += len(lines)
            size += len(rest)
            if size <= self.max_line:
                begun.append(rest)
            elif size > LONGEST_LINE:
                raise UserError(f"{self.name}:{number + 1}: the line has more than {LONGEST_LINE:,} bytes")

    def first_text(self) -> bytes:
        """Returns the first line that is not blank, which lines() still yields; b"" if there is none."""
        while not (line := b"".join(self._ahead).lstrip().partition(b"\n"))[1]:
            self._ahead.append(self._chunk())
            if not self._ahead[-1]:
                break
        return line[0]

    def rewind(self) -> None:
        """Returns to the first line of a regular file, or to the original position of a redirected stdin."""
        os.lseek(self.fd, self._start, os.SEEK_SET)
        self._ahead.clear()

    def _read(self) -> bytes:
        return self._ahead.pop(0) if self._ahead else self._chunk()

    def _chunk(self) -> bytes:
        try:
            size = CHUNK if self.end is None else min(CHUNK, self.end - os.lseek(self.fd, 0, os.SEEK_CUR))
            data = self._read_some(self.fd, size) if size > 0 else b""
            self._read_some = read_ready
            return data
        except OSError as error:
            raise UserError(f"{self.name}: {error.strerror}") from None


def _advice(error: OSError, name: str) -> str:
    """Returns what is wrong with a file that cannot be opened, and what was probably meant."""
    if not isinstance(error, FileNotFoundError):
        return str(error.strerror)
    if re.search(r"\s.*\s|[?!]$", name) and "/" not in name:  # a prompt, not the name of a file
        return f"{error.strerror}; to give the prompt itself, use -p {shlex.quote(name)}"
    close = similar_files(name)
    return f"{error.strerror}; did you mean {', '.join(close)}?" if close else str(error.strerror)


def text_lines(source: Source) -> Iterator[str]:
    """Yields the lines of a text file, blank ones too."""
    expected = 1
    for batch in source.lines():
        for number, line in batch:
            yield from [""] * (number - expected)
            expected = number + 1
            try:
                yield line.decode().rstrip("\r")
            except UnicodeDecodeError:
                raise UserError(f"{source.name}:{number}: not UTF-8; save it as UTF-8") from None


def refuse(source: Source, number: int, line: bytes, error: BadRecord, refusals: Refusals) -> None:
    """Reports a refused line; raises UserError if it is the first one and the file is of another kind."""
    if number == source.first_line and (found := other_kind(line, str(error), source.name)):
        raise UserError(f"{source.name}: {found}")
    refusals.refuse(f"{source.name}:{number}", str(error))


def read_batches(
    source: Source, check: Callable[[Record], object], refusals: Refusals, limit: int
) -> Iterator[list[Record]]:
    """Yields the records that pass a check, at most `limit` at a time, without waiting for more once there is one."""
    for batch in source.lines():
        records: list[Record] = []
        for count, (number, line) in enumerate(batch, 1):
            try:
                record = decode_record(line)
                check(record)
            except BadRecord as error:
                if refusals.strict and records:
                    yield records
                refuse(source, number, line, error, refusals)
            else:
                records.append(record)
            if count % limit == 0 and records:
                yield records
                records = []
        if records:
            yield records


def read_records(source: Source, kind: type[T], refusals: Refusals) -> Iterator[Record]:
    """Yields checked records one by one."""
    return (record for record, _ in read_checked(source, lambda record: check(record, kind), refusals))


def read_checked(source: Source, accept: Callable[[Record], R], refusals: Refusals) -> Iterator[tuple[Record, R]]:
    """Yields every record with what `accept` returns for it; refuses a record for which it raises BadRecord."""
    for number, line in chain.from_iterable(source.lines()):
        try:
            record = decode_record(line)
            accepted = accept(record)
        except BadRecord as error:
            refuse(source, number, line, error, refusals)
        else:
            yield record, accepted


# --- files of another kind ---------------------------------------------------------------------

ARRAY = "contains a JSON array, not one record per line; convert it with jq -c '.[]' {file}"
CSV = "looks like CSV, not like one JSON object per line; turn it into prompts with ae-prompts csv {file}"
EXPORTED = "looks like CSV from ae-format, which no tool reads back; give the JSONL file that it was made from"
YAML = (
    "contains YAML, not one JSON object per line; turn a promptfoo suite into prompts with "
    "ae-prompts promptfoo {file}, or convert a list of prompts with yq -o json -I 0 '.[]' {file}"
)
TEXT = (
    "contains text, not one JSON object per line; if each line is a prompt, convert it with "
    "jq -Rc '{{id: \"\\(input_line_number)\", input: .}}' {file}"
)
UTF_16 = "is UTF-16, not UTF-8; convert it with iconv -f UTF-16 -t UTF-8 {file}"
COMPRESSED = "is compressed; read it with {command} {file} | …"
PRETTY = "contains JSON that spans several lines, not one record per line; convert it with jq -c . {file}"
RAW = "contains raw records from ae-run; turn them into results with ae-extract"
TRIALS = "contains trials from ae-trials; ae-grade, ae-format, ae-gate and ae-compare read them"
RESULTS = "contains results from ae-capture or ae-extract; ae-grade, ae-format and ae-compare read them"
PROMPTS = "contains prompts; run them with ae-run, ae-capture or ae-trials"
COMPRESSORS = {
    b"\x1f\x8b": "gzip -dc",
    b"BZh": "bzip2 -dc",
    b"\xfd7zXZ": "xz -dc",
    b"\x28\xb5\x2f\xfd": "zstd -dc",
    b"PK\x03\x04": "unzip -p",
}
NAMED = rb"(?=.*\b(?:id|input|prompt|question|output)\b)"  # a column that records have, by one of its usual names
HEADER = rb"(?i)" + NAMED + rb'"?[a-z_][\w .-]*"?(?:[,;\t]"?[a-z_][\w .-]*"?)+'
EXPORT = rb"id,input,hint,output,tool_errors,duration_ms\b.*"  # the header of ae-format -f csv
MISSING = r'"(output|rawLines|input|trials|k)" is missing'
OF_ANOTHER_KIND = f"{MISSING}|not JSON|not UTF-8|a record must be a JSON object"


def other_kind(line: bytes, why: str, name: str) -> str | None:
    """Returns the kind of a file, by its first line and why it was refused; None if it may be of the right kind."""
    if not re.match(OF_ANOTHER_KIND, why):
        return None
    text = line.strip()
    file = name if name != "stdin" else ""
    if command := next((command for magic, command in COMPRESSORS.items() if line.startswith(magic)), None):
        return COMPRESSED.format(command=command, file=file).replace("  ", " ")
    if line.startswith((BOM_UTF16_LE, BOM_UTF16_BE)):
        return UTF_16.format(file=file).rstrip()
    try:
        record = decode(text)
    except BadRecord:
        if re.fullmatch(EXPORT, text):
            return EXPORTED
        form = PRETTY if text == b"{" else ARRAY if text == b"[" or text.startswith(b"[{") else None
        form = form or (CSV if re.fullmatch(HEADER, text) else None)
        form = form or (YAML if name.endswith((".yaml", ".yml")) and not text.startswith(b"{") else None)
        form = form or (TEXT if name.endswith((".txt", ".md")) and not text.startswith(b"{") else None)
        return form and form.format(file=file).replace("  ", " ")
    if isinstance(record, list):
        return ARRAY.format(file=file).replace("  ", " ") if record and isinstance(record[0], dict) else None
    return kind_of(record)


def kind_of(record: object) -> str | None:
    """Returns what kind of record it is, and which tools read it; None for an unknown kind."""
    if not isinstance(record, dict) or not isinstance(record.get("id"), str):
        return None
    if isinstance(record.get("trials"), list) and "k" in record:
        return TRIALS
    if isinstance(record.get("output"), str) and isinstance(record.get("trajectory"), list):
        return RESULTS  # with --keep-raw it has rawLines, too
    if isinstance(record.get("rawLines"), list):
        return RAW
    return PROMPTS if "input" in record and "output" not in record else None


# --- files of other programs -------------------------------------------------------------------


@contextmanager
def opened(path: str, max_line: int = LONGEST_LINE) -> Iterator[Source]:
    """Opens a file or stdin (-) to read, and closes it."""
    source = Source(path, max_line=max_line)
    try:
        yield source
    finally:
        if source.path is not None:
            os.close(source.fd)


def read_objects(path: str, refusals: Refusals) -> Iterator[dict[str, Any]]:
    """Yields the objects of a file: one per line, or one that is the whole file; refuses other lines."""
    with opened(path, refusals.max_line) as source:
        batches = source.lines()
        first = next(batches, [])
        if first and _goes_on(first[0][1]):
            lines, size = [], 0
            for number, line in chain(first, chain.from_iterable(batches)):
                lines.append((number, line))
                size += len(line)
                if size > refusals.max_line:
                    raise UserError(f"{path}: a JSON document of more than {refusals.max_line:,} bytes (--max-line)")
            if (document := _document(lines)) is not None:
                yield document
                return
            batches, first = iter(()), lines
        for batch in chain([first], batches):
            yield from _objects(batch, source.name, refusals)


def _objects(batch: list[tuple[int, bytes]], name: str, refusals: Refusals) -> Iterator[dict[str, Any]]:
    for number, line in batch:
        try:
            value = decode(line)
            if type(value) is not dict:
                raise BadRecord("not a JSON object")
        except BadRecord as error:
            refusals.refuse(f"{name}:{number}", str(error))
        else:
            yield value


def _goes_on(line: bytes) -> bool:
    """Returns whether a line is the beginning of a JSON value that spans lines."""
    return line.rstrip().endswith((b"{", b"[", b",")) and line.lstrip().startswith((b"{", b"["))


def _document(lines: list[tuple[int, bytes]]) -> dict[str, Any] | None:
    """Returns the JSON object that all lines form, with a list as its `items`; None if they are not JSON."""
    with suppress(BadRecord):
        value = decode(b"\n".join(line for _, line in lines))
        return value if type(value) is dict else {"items": value}
    return None


def report_unreadable(path: str, error: Exception, refusals: Refusals) -> None:
    """Reports a file that cannot be opened or read."""
    refusals.refuse(path, (describe_system_error(error) or str(error)).removeprefix(f"{path}: "))
