"""The output of a tool: one write per record, to stdout or a file, with --append and --resume."""

from __future__ import annotations

import fcntl
import os
import stat
import threading
from collections.abc import Sequence
from typing import Any

import msgspec

from agenteval.errors import CannotGoOn, ClosedPipe, UserError
from agenteval.streams.jsonl import encode
from agenteval.streams.source import Source


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
