"""Records in and out: this module alone touches stdin, stdout and the JSON library.

Input is read in chunks as they arrive and split into lines, so that whatever has come is handed on at
once and a whole chunk costs one system call. Output is one write per record. msgspec does the JSON: it
is as fast as orjson and, unlike it, keeps integers of any length as they are.
"""

from __future__ import annotations

import fcntl
import os
import stat
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol, TypeVar

import msgspec

from agenteval.errors import BadRecord, CannotGoOn, ClosedPipe, StrictStop, UserError
from agenteval.wire.records import Record, T, check

R = TypeVar("R")

CHUNK = 1 << 18
BOM = b"\xef\xbb\xbf"

_decode = msgspec.json.Decoder().decode
_encoder = msgspec.json.Encoder()
encode = _encoder.encode


class Refusals(Protocol):
    """Takes the lines that are refused; the console of a tool is one."""

    strict: bool

    def refuse(self, where: str, why: str) -> None: ...


# --- JSON -------------------------------------------------------------------------------------


def decode(line: bytes | str) -> Any:
    """The JSON value of a line; BadRecord tells a person what is wrong with it."""
    try:
        return _decode(line)
    except RecursionError:
        raise BadRecord("not JSON that can be read: nested too deeply") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadRecord(_why_not_json(line, error)) from None


def decode_record(line: bytes) -> Record:
    """The JSON object of a line."""
    record = decode(line)
    if not isinstance(record, dict):
        raise BadRecord(f"a record must be a JSON object, got {_kind(record)}")
    return record


def read_json(path: str) -> Any:
    """The JSON value that a small file of the user's holds; UserError where it cannot be read or is none."""
    try:
        with open(path, "rb") as file:
            return decode(file.read())
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}") from None
    except BadRecord as error:
        raise UserError(f"{path}: {error}") from None


def _why_not_json(line: bytes | str, error: Exception) -> str:
    import json  # its messages say where and why

    try:
        text = line.decode() if isinstance(line, bytes) else line
    except UnicodeDecodeError as bad:
        return f"not UTF-8: byte 0x{bad.object[bad.start]:02x} at position {bad.start + 1}"
    try:
        json.loads(text)
    except json.JSONDecodeError as bad:
        return f"not JSON: {bad.msg.removesuffix(' at')} at column {bad.pos + 1}"
    except (RecursionError, ValueError):
        return "not JSON that can be read: nested too deeply or a number too long"
    if any("\ud800" <= char <= "\udfff" for char in json.dumps(json.loads(text), ensure_ascii=False)):
        return "not JSON that can be read: half of a surrogate pair (\\ud800 to \\udfff) stands alone"
    return f"not JSON: {error}"


def _kind(value: Any) -> str:
    kinds = {list: "a list", str: "a string", bool: "a boolean", int: "a number", float: "a number"}
    return kinds.get(type(value), "null")


# --- input ------------------------------------------------------------------------------------


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


# --- output -----------------------------------------------------------------------------------


class Output:
    """stdout or a file; each record leaves whole, in one write, from whatever thread."""

    resumable = False  # whether the tool that writes it has --resume

    def __init__(
        self, path: str | None = None, *, append: bool = False, inputs: Sequence[Source] = (), lazy: bool = False
    ) -> None:
        self.path = None if path in (None, "-") else path
        self.name = self.path or "stdout"
        self._append = append
        self._lock = threading.Lock()
        self.fd = 1
        _refuse_input_as_output(self.path, inputs)
        if not lazy:
            self.open()

    def open(self) -> None:
        """Open the file, emptying it unless we append; called once nothing can go wrong before the first record."""
        if self.path is None or self.fd != 1:
            return
        flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | (os.O_APPEND if self._append else 0)
        try:
            self.fd = os.open(self.path, flags, 0o666)
        except OSError as error:
            raise UserError(f"{self.path}: {error.strerror}") from None
        if stat.S_ISREG(os.fstat(self.fd).st_mode):  # many may write to /dev/null at a time
            self._lock_file()
            if not self._append:
                os.ftruncate(self.fd, 0)

    def write(self, record: Any) -> None:
        """One record, one line."""
        self._write([encode(record), b"\n"])

    def write_bytes(self, data: bytes) -> None:
        """All of data, unbroken by what other threads write."""
        self._write([data])

    def _write(self, parts: list[bytes]) -> None:
        with self._lock:
            try:
                written = os.writev(self.fd, parts)  # in one call, without a copy of a record that may be large
                if written < sum(map(len, parts)):
                    rest = memoryview(b"".join(parts))[written:]
                    while rest:
                        rest = rest[os.write(self.fd, rest) :]
            except BrokenPipeError:
                raise ClosedPipe from None
            except OSError as error:
                raise CannotGoOn(f"cannot write to {self.name}: {error.strerror}") from None

    def may_block(self) -> bool:
        """Whether a write may have to wait for a reader: a pipe or a terminal, not a file."""
        mode = os.fstat(self.fd).st_mode
        return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or self.isatty()

    def isatty(self) -> bool:
        """Whether a person is looking."""
        return os.isatty(self.fd)

    def close(self) -> None:
        """The last bytes are the file system's now; a delayed write error (NFS, quota) still shows."""
        if self.path is None or self.fd == 1:
            return
        self._lock.acquire(timeout=1)  # a record that is being written is written whole
        try:
            os.close(self.fd)
        except OSError as error:
            raise CannotGoOn(f"cannot write to {self.name}: {error.strerror}") from None

    def _lock_file(self) -> None:
        try:
            fcntl.flock(self.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UserError(f"{self.path}: another tool is writing to it") from None
        except OSError:
            pass  # a file system without locks: nothing to hold on to


def _refuse_input_as_output(path: str | None, inputs: Sequence[Source]) -> None:
    """A file that is read and written at once is lost, or never ends; a terminal or /dev/null may be both."""
    try:
        target = os.fstat(1) if path is None else os.stat(path)
    except OSError:
        return
    for source in inputs:
        if source.regular and os.path.samestat(target, os.fstat(source.fd)):
            raise UserError(f"{path or source.name}: is the input too; write to another file")


def open_output(path: str | None, source: Source, *, append: bool, resume: bool) -> tuple[Output, set[str]]:
    """The output and, to resume, the ids already in it; a file to be replaced is left alone until it is opened."""
    if not (append or resume):
        output = Output(path, inputs=(source,), lazy=True)
        output.resumable = output.path is not None
        return output, set()
    if path is None or path == "-":
        raise UserError("--append and --resume need -o FILE")
    output = Output(path, append=True, inputs=(source,))  # locked first: nobody else may be writing to it
    output.resumable = True
    ids = written_ids(path)
    return output, ids if resume else set()


class _Identified(msgspec.Struct):
    id: str


def written_ids(path: str) -> set[str]:
    """The ids in an output file; a last line that a crash cut off is removed, so that writing can go on."""
    if not os.path.isfile(path):
        return set()  # a pipe or a device has no past
    parse = msgspec.json.Decoder(_Identified).decode
    ids: set[str] = set()
    good_until = 0
    with open(path, "r+b") as file:
        for number, line in enumerate(file, 1):
            whole = line.endswith(b"\n")
            try:
                if line.strip():
                    ids.add(parse(line).id)
            except (msgspec.DecodeError, UnicodeDecodeError):
                if whole:
                    raise UserError(f"{path}:{number}: not a record; mend or remove that line first") from None
                file.truncate(good_until)
                break
            good_until += len(line)
            if not whole:
                file.seek(0, os.SEEK_END)
                file.write(b"\n")
                break
    return ids
