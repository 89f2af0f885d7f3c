"""The output of a tool: one write per record, to stdout or a file, with --append and --resume."""

from __future__ import annotations

import os
import stat
from _thread import allocate_lock
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec

from agenteval.errors import CannotGoOn, ClosedPipe, UserError
from agenteval.streams import descriptors
from agenteval.streams.jsonl import encode
from agenteval.streams.source import Source
from agenteval.streams.terminal.progress_line import ERASE, another_shows, is_terminal

if TYPE_CHECKING:  # it is imported where the output is a regular file
    from agenteval.streams.watched_file import WatchedFile


class WrittenRecords(msgspec.Struct):
    """The ids in a file, each with the number of its records; those whose last one failed; the agents of them.

    An agent is a name and a digest, with one of its ids.
    """

    ids: dict[str, int] = {}
    failed: set[str] = set()
    agents: dict[tuple[str | None, str], str] = {}


class Output:
    """stdout or a file; each record is written whole, in one write, from any thread."""

    resumable = False  # whether the tool that writes it has --resume

    def __init__(
        self, path: str | None = None, *, append: bool = False, inputs: Sequence[Source] = (), lazy: bool = False
    ) -> None:
        self.path = None if path in (None, "-") else path
        self.written = WrittenRecords()  # what was in it before
        self.replaces_failed = False  # whether closing it removes failed records that have a later one of the same id
        self.absolute = os.path.abspath(path) if path else ""  # starting an agent changes the working directory
        self.name = self.path or "stdout"
        self.encode: Callable[[Any], bytes] = encode  # a tool may have it remove secrets
        self.durable = False  # whether what is written is on the disk when it is closed
        self._append = append
        self._replaces = self._made = False  # whether its content goes at the first write, whether it is a new file
        self._lock = allocate_lock()
        self._file: WatchedFile | None = None  # if it is a regular file
        self._unsynced = False
        self.fd = 1
        self._on_terminal = self.path is None and is_terminal(1)
        _refuse_input_as_output(self.path, inputs)
        if not lazy:
            self.open()

    @classmethod
    def of_file(cls, fd: int, path: str) -> Output:
        """Returns the output to a regular file that is open already."""
        output = cls(path, append=True, lazy=True)
        output.fd, output._file = fd, _watched(fd, output.absolute, path)
        return output

    def open(self) -> None:
        """Opens the file, in directories that it makes if need be.

        Its content is kept until begin(), the first write or close(): an input of the wrong kind, which shows only when
        it is read, must not cost the file that is there.
        """
        if self.path is None or self.fd != 1:
            return
        # O_APPEND: if another program cuts the file short, no hole comes before the next record.
        flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_APPEND
        from agenteval.streams.files import make_directories

        try:
            make_directories(self.path)
            self._made = not os.path.lexists(self.path)
            self.fd = os.open(self.path, flags, 0o666)
        except OSError as error:
            raise UserError(f"{self.path}: {error.strerror}") from None
        if stat.S_ISREG(os.fstat(self.fd).st_mode):  # several tools may write to /dev/null at a time
            self._lock_file()
            self._replaces = not self._append
            self.watch()

    def begin(self) -> None:
        """Removes what was in the file, unless it is appended to: the work begins.

        A tool with --resume calls it before its first record is ready; if it is killed until then, the records of an
        earlier run are not taken for its own.
        """
        if self._replaces and self._file is not None:
            self._replaces = False
            os.ftruncate(self.fd, 0)
            self._file.size = 0

    def abandon(self) -> None:
        """Removes the file if this output has made it and nothing was written."""
        if self._replaces and self._made:
            with suppress(OSError):
                os.unlink(self.absolute)

    def watch(self) -> None:
        """Takes the file as it is now for what it should be."""
        if self.path is not None and stat.S_ISREG(os.fstat(self.fd).st_mode):
            if self._file is not None:
                self._file.close()
            self._file = _watched(self.fd, self.absolute, self.name)

    def write(self, record: Any) -> None:
        """Writes one record as one line."""
        self._write([self.encode(record), b"\n"])

    def write_bytes(self, data: bytes) -> None:
        """Writes all of data; nothing of another thread comes between."""
        self._write([data])

    def _write(self, parts: list[bytes]) -> None:
        with self._lock:
            try:
                if self._file is not None:
                    self.begin()
                    self._file.check()
                if self._on_terminal and another_shows(1):  # an earlier tool of the pipeline
                    parts = [ERASE.encode(), *parts]
                descriptors.write(self.fd, parts)
                if self._file is not None:
                    self._file.size += sum(map(len, parts))
                    self._unsynced = True
            except BrokenPipeError:
                raise ClosedPipe from None
            except OSError as error:
                raise CannotGoOn(f"cannot write to {self.name}: {error.strerror}") from None

    def sync(self) -> None:
        """Brings what was written to the disk, so that a power cut does not cost it; a pipe has no disk."""
        if self._file is None or not self._unsynced:
            return
        with self._lock:
            self._unsynced = False
            with suppress(OSError):
                self._file.check()
        self._file.sync()

    def may_block(self) -> bool:
        """Returns whether a write may have to wait for a reader: that of a pipe or a terminal."""
        mode = os.fstat(self.fd).st_mode
        return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or self.isatty()

    def isatty(self) -> bool:
        """Returns whether it is a terminal."""
        return os.isatty(self.fd)

    def close(self, *, complete: bool = True) -> None:
        """Closes the file; a delayed write error (NFS, quota), and what others did to it, shows only now.

        A file to which nothing was written is empty now, unless the output is not `complete`.
        """
        if self.path is None or self.fd == 1:
            return
        self._lock.acquire(timeout=1)  # until a record that is being written is complete
        problems: list[str] = []
        try:
            if self._file is not None:
                if complete:
                    self.begin()
                problems = self._finish(self._file)
            os.close(self.fd)
        except OSError as error:
            raise CannotGoOn(f"cannot write to {self.name}: {error.strerror}") from None
        if problems:
            raise CannotGoOn("; ".join(problems))

    def _finish(self, file: WatchedFile) -> list[str]:
        """Completes a regular file before it is closed; returns what happened to it."""
        if self.durable:
            file.sync()
        file.final_check()  # after the sync, during which a busy disk leaves others time to remove it
        if self.durable and file.problems:
            file.sync()
        file.close()
        self._unsynced = False
        if self.replaces_failed and not file.problems:
            from agenteval.streams.written import drop_superseded

            drop_superseded(self.absolute)
        return file.problems

    def _lock_file(self) -> None:
        import fcntl

        try:
            fcntl.flock(self.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UserError(f"{self.path}: another tool is writing to it") from None
        except OSError:
            pass  # a file system without locks


def _watched(fd: int, path: str, name: str) -> WatchedFile:
    from agenteval.streams.watched_file import WatchedFile

    return WatchedFile(fd, path, name)


def _refuse_input_as_output(path: str | None, inputs: Sequence[Source]) -> None:
    """Raises UserError if a file is both: its content would be lost, or never end; a device may be both."""
    try:
        target = os.fstat(1) if path is None else os.stat(path)
    except OSError:
        return
    for source in inputs:
        if source.regular and os.path.samestat(target, os.fstat(source.fd)):
            raise UserError(f"{path or source.name}: is the input too; write to another file")


def open_output(
    path: str | None,
    source: Source,
    *,
    append: bool,
    resume: bool,
    retry_failed: bool = False,
    read_only: bool = False,
) -> tuple[Output, set[str]]:
    """Returns the output and, to resume, the ids already in it; a file to be replaced is not touched before open().

    With `retry_failed`, not those whose agent failed. With `read_only` nothing is ever written.
    """
    if not (append or resume):
        output = Output(path, inputs=(source,), lazy=True)
        output.resumable = output.path is not None
        return output, set()
    if path is None or path == "-":
        raise UserError("--append and --resume need -o FILE")
    from agenteval.streams.written import read_written

    # It is locked before it is read: another tool may be writing.
    output = Output(path, append=True, inputs=(source,), lazy=read_only)
    output.resumable = True
    written = WrittenRecords()
    read_written(path, written, repair=not read_only)
    if not read_only:
        output.watch()  # a line that was cut off may have been removed
    if not resume:
        return output, set()
    output.written, output.replaces_failed = written, retry_failed
    return output, written.ids.keys() - written.failed if retry_failed else set(written.ids)
