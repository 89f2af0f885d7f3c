"""The input of a tool: lines and records from a file or stdin, read as they arrive."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable, Iterator
from typing import Protocol, TypeVar

import msgspec

from agenteval.errors import BadRecord, StrictStop, UserError
from agenteval.streams.jsonl import decode_record
from agenteval.wire.records import Record
from agenteval.wire.validation import T, check

R = TypeVar("R")
CHUNK = 1 << 18
BOM = b"\xef\xbb\xbf"


class Refusals(Protocol):
    """Takes the lines that are refused; the console of a tool is one."""

    strict: bool

    def refuse(self, where: str, why: str) -> None: ...


class Source:
    """A file or stdin, as batches of numbered lines in the pieces in which they arrive."""

    def __init__(self, path: str | None) -> None:
        self.path = None if path in (None, "-") else path
        self.name = self.path or "stdin"
        try:
            self.fd = sys.stdin.fileno() if self.path is None else os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        except (AttributeError, ValueError):
            raise UserError("stdin is closed: give a file") from None
        except OSError as error:
            raise UserError(f"{self.name}: {error.strerror}") from None
        mode = os.fstat(self.fd).st_mode
        if stat.S_ISDIR(mode):
            raise UserError(f"{self.name}: is a directory")
        self.regular = stat.S_ISREG(mode)
        self._start = os.lseek(self.fd, 0, os.SEEK_CUR) if self.regular else 0
        if self.path is None and os.isatty(self.fd):
            raise UserError("no input: give a file, or pipe records into it (--help shows how)")

    def lines(self) -> Iterator[list[tuple[int, bytes]]]:
        """Lists of (line number, line) without blank lines; each list is what one read completed."""
        number = 0
        pieces: list[bytes] = []
        while chunk := self._read():
            parts = chunk.split(b"\n")
            if len(parts) == 1:
                pieces.append(chunk)
                continue
            pieces.append(parts[0])
            parts[0] = b"".join(pieces)
            pieces = [parts.pop()]
            if number == 0 and parts[0].startswith(BOM):
                parts[0] = parts[0][len(BOM) :]
            batch = [(at, line) for at, line in enumerate(parts, number + 1) if line and not line.isspace()]
            number += len(parts)
            if batch:
                yield batch
        last = b"".join(pieces)
        if number == 0 and last.startswith(BOM):
            last = last[len(BOM) :]
        if last.strip():
            yield [(number + 1, last)]

    def rewind(self) -> None:
        """Back to the first line of a regular file, or to where stdin stood when we got it."""
        os.lseek(self.fd, self._start, os.SEEK_SET)

    def _read(self) -> bytes:
        try:
            return os.read(self.fd, CHUNK)
        except OSError as error:
            raise UserError(f"{self.name}: {error.strerror}") from None


def text_lines(source: Source) -> Iterator[str]:
    """The lines of a document, blank ones too."""
    expected = 1
    for batch in source.lines():
        for number, line in batch:
            yield from [""] * (number - expected)
            expected = number + 1
            try:
                yield line.decode().rstrip("\r")
            except UnicodeDecodeError:
                raise UserError(f"{source.name}:{number}: not UTF-8; save it as UTF-8") from None


def read_batches(source: Source, kind: type[T], refusals: Refusals, limit: int) -> Iterator[list[Record]]:
    """Checked records, at most `limit` at a time and never waiting for more once there is one."""
    for batch in source.lines():
        for start in range(0, len(batch), limit):
            records: list[Record] = []
            for number, line in batch[start : start + limit]:
                try:
                    record = decode_record(line)
                    check(record, kind)
                except BadRecord as error:
                    refusals.refuse(f"{source.name}:{number}", str(error))
                    if refusals.strict:
                        if records:
                            yield records
                        raise StrictStop("stopped at the first refused record (--strict)") from None
                else:
                    records.append(record)
            if records:
                yield records


def read_records(source: Source, kind: type[T], refusals: Refusals) -> Iterator[Record]:
    """Checked records one by one; refused lines are reported and passed over."""
    for batch in read_batches(source, kind, refusals, 1 << 30):
        yield from batch


def read_typed(source: Source, kind: type[T], refusals: Refusals) -> Iterator[T]:
    """Only the fields of `kind`, straight from the bytes: the fast way for a tool that passes nothing on."""
    parse = msgspec.json.Decoder(kind).decode
    for batch in source.lines():
        for number, line in batch:
            try:
                yield parse(line)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                try:
                    yield check(decode_record(line), kind)
                except BadRecord as error:
                    _refuse(source, number, error, refusals)


def read_checked(source: Source, accept: Callable[[Record], R], refusals: Refusals) -> Iterator[tuple[Record, R]]:
    """Every record and what `accept` makes of it; one that it answers with BadRecord is refused."""
    for batch in source.lines():
        for number, line in batch:
            try:
                record = decode_record(line)
                accepted = accept(record)
            except BadRecord as error:
                _refuse(source, number, error, refusals)
            else:
                yield record, accepted


def _refuse(source: Source, number: int, error: BadRecord, refusals: Refusals) -> None:
    refusals.refuse(f"{source.name}:{number}", str(error))
    if refusals.strict:
        raise StrictStop("stopped at the first refused record (--strict)") from None
