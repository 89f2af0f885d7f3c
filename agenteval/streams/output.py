"""The output of a tool: stdout or a file; each record is written in a single write, from any thread.

open_output() reads what a file already has, for --append and --resume; Output writes to it; OutputFile notices what
other programs do to the file meanwhile, so that no record is lost; Syncer brings it to the disk. A record that --resume
replaces stays in the file until the new one is there, and is removed when the file is closed. guarded() and
write_record() turn an unexpected error in the work on one record into an error of that record.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import count
from typing import Any, TypeVar

import msgspec

from agenteval.errors import CannotGoOn, ClosedPipe, UserError, WorkspaceError
from agenteval.streams.console import ERASE, Console, another_shows, is_terminal
from agenteval.streams.files import NEW, PIPE_PATIENCE, create_file, lines_of, make_directories, open_regular, write_all
from agenteval.streams.jsonl import decode_record, encode
from agenteval.streams.source import BOM, Source
from agenteval.streams.text import for_terminal
from agenteval.wire.records import Record

PIECE = 1 << 20  # bytes that are copied at a time
SYNC_INTERVAL = 1.0  # seconds between two syncs: the most that a power cut may cost


UNFINISHED = ".unfinished"  # suffix of the journal beside an output


class PlannedLine(msgspec.Struct, forbid_unknown_fields=True):
    """The first line of a journal: how many records the output has when the run has finished."""

    planned: int


def planned_records(path: str) -> int | None:
    """Returns how many records a file will have when the run that writes it has finished; None if that is unknown."""
    with suppress(OSError, StopIteration, msgspec.DecodeError, UnicodeDecodeError):
        return msgspec.json.decode(next(lines_of(path + UNFINISHED))[1], type=PlannedLine).planned
    return None


def is_being_written(path: str) -> bool:
    """Returns whether a tool of the suite is writing to a file."""
    fd = open_regular(path, follow=True)
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as error:
        return isinstance(error, BlockingIOError)  # else a file system without locks
    finally:
        os.close(fd)
    return False


class WrittenRecord(msgspec.Struct, gc=False):
    """Where a record is in the file, and the digests that tell whether it still answers the same question."""

    id: str
    offset: int
    size: int
    prompt: str | None  # digests, None in files of earlier versions and other harnesses
    fields: str | None
    graders: dict[str, str] | None
    failed: bool
    grader_error: bool
    run_id: str | None
    k: int | None  # of trials


class WrittenRecords(msgspec.Struct):
    """The records in a file: the last of each id, the number for each id, and the agents.

    An agent is a name and a digest, with one of its ids. `run_id` is that of the last record.
    """

    ids: dict[str, int] = {}
    records: dict[str, WrittenRecord] = {}
    agents: dict[tuple[str | None, str], str] = {}
    run_id: str | None = None


def open_output(path: str | None, source: Source, *, append: bool, resume: bool, read_only: bool = False) -> Output:
    """Returns the output, to resume with what is `written` already; a file to be replaced is not touched before open().

    With `read_only` nothing is ever written.
    """
    if not (append or resume):
        output = Output(path, inputs=(source,), lazy=True)
        output.resumable = output.path is not None
        return output
    if path is None or path == "-":
        raise UserError("--append and --resume need -o FILE")
    # It is locked before it is read: another tool may be writing.
    output = Output(path, append=True, inputs=(source,), lazy=read_only)
    output.resumable = True
    written = read_written(path, repair=not read_only)
    output.remember_size()
    if resume:
        output.written, output.resumed = written, True
    return output


def refuse_to_replace(path: str | None) -> None:
    """Raises UserError if a file has content and no option says what to do with it."""
    if path is not None and os.path.isfile(path) and os.path.getsize(path) and not _is_device(path):
        with open(path, "rb") as file:
            if not file.read(1 << 16).lstrip().startswith((b"{", BOM)):
                raise UserError(f"{path}: is not a file of records; write to another file (--overwrite replaces it)")
        raise UserError(
            f"{path}: already contains records; --resume continues the run, --append adds to them, --overwrite "
            f"replaces them"
        )


class Output:
    """stdout or a file; each record is written in a single write, from any thread."""

    resumable = False  # whether the tool that writes it has --resume

    def __init__(
        self, path: str | None = None, *, append: bool = False, inputs: Sequence[Source] = (), lazy: bool = False
    ) -> None:
        self.path = None if path in (None, "-") else path
        self.written = WrittenRecords()  # what was in it before
        self.resumed = False  # whether close() removes records that were replaced, and sets the file's time
        self.replaced: set[int] = set()  # offsets of records that have a replacement; close() removes them
        self.order: dict[str, int] | None = None  # id → position, if close() must sort the records
        self.absolute = os.path.abspath(path) if path else ""  # starting an agent changes the working directory
        self.name = self.path or "stdout"
        self.encode: Callable[[Any], bytes] = encode  # a tool may have it remove secrets
        self.durable = False  # whether what is written is on the disk when it is closed
        self.before_first: Callable[[], None] | None = None  # called once, before the first byte
        self.fd = 1
        self._append = append
        self._made = False  # whether this output has created the file
        self._replaces = False  # whether the first write removes what is in the file
        self._file: OutputFile | None = None  # if it is a regular file
        self._unsynced = False
        self._lock = threading.Lock()
        self._on_terminal = self.path is None and is_terminal(1)
        _refuse_input_as_output(self.path, inputs)
        if self.path is None and stat.S_ISREG(os.fstat(1).st_mode):
            with suppress(OSError):  # several tools may append to one file
                fcntl.flock(1, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not lazy:
            self.open()

    @classmethod
    def of_file(cls, fd: int, path: str) -> Output:
        """Returns the output to a regular file that is open already, for reading and writing."""
        output = cls(path, append=True, lazy=True)
        output.fd, output._file = fd, OutputFile(fd, output.absolute, path)
        return output

    def keeps_offsets(self, end: int) -> bool:
        """Whether the records before this offset have not moved, in this file or in the one that replaced it."""
        return self._file is None or (self._file.keeps_offsets and end <= self._file.intact)

    @property
    def own_end(self) -> int:
        """Where the content of a regular file ends that is its own; what another program has appended comes later."""
        return self._file.own[-1][1] if self._file is not None else sys.maxsize

    @property
    def place(self) -> str:
        """Where the records are: another file if this one was removed, or another program wrote into it."""
        return self._file.path if self._file is not None else self.absolute

    def open(self) -> None:
        """Opens the file, and creates directories that are missing.

        Its content is kept until begin(), the first write or close(), so that an input of the wrong kind, found when it
        is read, does not cost an existing file.
        """
        if self.path is None or self.fd != 1:
            return
        try:
            make_directories(self.path)
            self._made = not os.path.lexists(self.path)
            self.fd = open_to_append(self.path)
        except OSError as error:
            meant = {
                errno.ENXIO: "is a named pipe that nothing reads from",
                errno.EISDIR: "is a directory; name a file in it",
            }
            raise UserError(f"{self.path}: {meant.get(error.errno or 0, error.strerror)}") from None
        if stat.S_ISREG(os.fstat(self.fd).st_mode) and not _is_device(self.path):
            self._lock_file()
            self._replaces = not self._append
            self._file = OutputFile(self.fd, self.absolute, self.name)

    def begin(self) -> None:
        """Removes the content of the file, unless the output appends, because the work begins.

        A tool with --resume calls it before its first record is ready, so that if it is killed before that, records of
        an earlier run are not taken for its own.
        """
        if self._replaces and self._file is not None:
            self._replaces = False
            os.ftruncate(self.fd, 0)
            self.remember_size()

    def abandon(self) -> None:
        """Removes the file if this output has created it and nothing was written."""
        if self._replaces and self._made:
            with suppress(OSError):
                os.unlink(self.absolute)

    def remember_size(self) -> None:
        """Treats all present content of the file as this output's own."""
        if self._file is not None:
            self._file.own_all()

    def write(self, record: Any) -> None:
        """Writes one record as one line."""
        self._write([self.encode(record), b"\n"])

    def write_bytes(self, data: bytes) -> int:
        """Writes all of data without interruption by another thread; returns its place in a regular file."""
        return self._write([data])

    def _write(self, parts: list[bytes]) -> int:
        with self._lock:
            if self.before_first is not None:
                self.before_first()
                self.before_first = None
            try:
                if self._file is not None:
                    self.begin()
                    self._unsynced = True
                    return self._file.append(parts)
                if self._on_terminal:
                    parts = [for_terminal(b"".join(parts).decode("utf-8", "replace")).encode()]
                    if another_shows(1):  # an earlier tool in the pipeline
                        parts.insert(0, ERASE.encode())
                write_all(self.fd, parts)
                return 0
            except BrokenPipeError:
                raise ClosedPipe from None
            except OSError as error:
                raise CannotGoOn(f"cannot write to {self.name}: {error.strerror}") from None

    def records(self) -> Iterator[Record]:
        """Yields the records that are in the file."""
        if self.path is not None and os.path.isfile(self.absolute):
            yield from (decode_record(line) for _, line in lines_of(self.absolute, follow=True) if line.strip())

    def sync(self) -> None:
        """Syncs a regular file, so that a power cut does not cost what was written."""
        if self._file is None or not self._unsynced:
            return
        with self._lock:
            self._unsynced = False
            with suppress(OSError):
                self._file.check()
        self._file.sync()

    def may_block(self) -> bool:
        """Returns whether a write may wait for a reader: on a pipe or a terminal."""
        mode = os.fstat(self.fd).st_mode
        return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or self.isatty()

    def isatty(self) -> bool:
        """Returns whether it is a terminal."""
        return os.isatty(self.fd)

    def close(self, *, complete: bool = True) -> None:
        """Closes the file; delayed write errors (NFS, quota) and changes by other programs are found only now.

        A file to which nothing was written is emptied, unless the output is not `complete`.
        """
        if self.path is None or self.fd == 1:
            return
        whole = self._lock.acquire(timeout=1)  # until a record that is being written is complete
        problems: list[str] = []
        try:
            if self._file is not None:
                if complete:
                    self.begin()
                problems = self._finish(self._file, whole=whole)
            os.close(self.fd)
        except OSError as error:
            raise CannotGoOn(f"cannot write to {self.name}: {error.strerror}") from None
        if problems:
            raise CannotGoOn("; ".join(problems))

    def _finish(self, file: OutputFile, *, whole: bool) -> list[str]:
        """Completes a regular file before it is closed; returns what happened to it."""
        if self.durable:
            file.sync()
        if whole:
            file.final_check()  # after the sync, which takes long on a busy disk: it may be removed meanwhile
        if self.durable and file.problems:
            file.sync()
        self._unsynced = False
        if self.resumed and file.keeps_offsets:
            drop_superseded(file.path, self.replaced, self.order)
            os.utime(file.path)  # even if nothing was left to do: make compares times
        return file.problems

    def _lock_file(self) -> None:
        try:
            fcntl.flock(self.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UserError(f"{self.path}: another tool is writing to it") from None
        except OSError:
            pass  # a file system without locks


def open_to_append(path: str) -> int:
    """Opens a file in append mode, so that no hole precedes the next record if another program truncates it.

    A regular file is also opened for reading, to recover its records after another program has removed it. Raises
    OSError for a named pipe that nothing reads from.
    """
    flags, give_up_at = os.O_CREAT | os.O_CLOEXEC | os.O_APPEND | os.O_NONBLOCK | os.O_NOCTTY, None
    if os.path.isfile(path) or not os.path.exists(path):
        with suppress(PermissionError):
            return os.open(path, flags | os.O_RDWR, 0o666)
    while True:
        try:
            return os.open(path, flags | os.O_WRONLY, 0o666)  # write_all() waits until it can be written to
        except OSError as error:
            give_up_at = give_up_at or time.monotonic() + PIPE_PATIENCE
            if error.errno != errno.ENXIO or time.monotonic() >= give_up_at:
                raise
        time.sleep(0.05)


def _is_device(path: str) -> bool:
    """Whether a path names a device or, through /dev/stdout or /dev/fd, a file that another program opened."""
    path, left = os.path.abspath(path), 40
    while not path.startswith(("/dev/", "/proc/")) and os.path.islink(path) and left:
        path, left = os.path.normpath(os.path.join(os.path.dirname(path), os.readlink(path))), left - 1
    return path.startswith(("/dev/", "/proc/")) and not path.startswith("/dev/shm/")


def _refuse_input_as_output(path: str | None, inputs: Sequence[Source]) -> None:
    """Raises UserError if a file that is not a device is input and output: its content would be lost, or never end."""
    try:
        target = os.fstat(1) if path is None else os.stat(path)
    except OSError:
        return
    for source in inputs:
        if source.regular and os.path.samestat(target, os.fstat(source.fd)):
            raise UserError(f"{path or source.name}: is also the input; write to another file")


# --- a file that other programs touch -----------------------------------------------------------


class OutputFile:
    """A regular file that is being written; `problems` are lines for the user about what happened to it.

    `own` are the parts of it (start and end) that were there at first or were written by this process; everything else
    comes from another program, such as an agent. The caller serializes the calls.
    """

    def __init__(self, fd: int, path: str, name: str) -> None:
        self.fd, self.path, self.name = fd, path, name
        self.problems: list[str] = []
        self._named = False  # whether its name is on the disk
        self.keeps_offsets = True  # whether the original content has not moved, also in a new file
        self.intact = sys.maxsize  # the offset up to which all content is complete, not only its own
        self.own_all()

    def own_all(self) -> None:
        """Treats all present content of the file as its own."""
        self.size = os.fstat(self.fd).st_size
        self.own = [(0, self.size)]

    def append(self, parts: list[bytes]) -> int:
        """Writes all parts at the end of the file and returns where; removes them if a full disk cuts them off."""
        self.check()
        try:
            write_all(self.fd, parts)
        except OSError:
            with suppress(OSError):
                os.ftruncate(self.fd, self.size)
            raise
        end = os.lseek(self.fd, 0, os.SEEK_CUR)  # another program may have appended to it, before or after
        start = end - sum(map(len, parts))
        if start == self.own[-1][1]:
            start = self.own.pop()[0]
        self.own.append((start, end))
        self.size = os.fstat(self.fd).st_size
        return end - sum(map(len, parts))

    def check(self) -> None:
        """Moves the records to a new file if this one was removed; notes if it was truncated."""
        status = os.fstat(self.fd)
        if status.st_nlink == 0:
            self._note(f"was removed or replaced during the run: its records are in {self._move(self.path)}")
        elif status.st_size < self.size:
            self._note("was truncated by another program: records are missing; --resume runs their prompts again")
            if status.st_size and os.pread(self.fd, 1, status.st_size - 1) != b"\n":
                os.write(self.fd, b"\n")  # the next record must not be joined to a truncated line
            self.keeps_offsets = False
            self.own_all()
        self.size = os.fstat(self.fd).st_size

    def final_check(self) -> None:
        """Like check(); also moves the records if the path names another file or none, or others wrote into this."""
        self.check()
        try:
            kept = os.path.samestat(os.fstat(self.fd), os.stat(self.path))
        except OSError:
            kept = False
        if not kept:
            self._note(f"was removed or replaced during the run: its records are in {self._move(self.path)}")
        elif sum(end - start for start, end in self.own) < self.size:
            own = self._move(f"{self.path}.recovered")
            self._note(f"was written to by another program during the run: what this run has written is in {own}")

    def _move(self, path: str) -> str:
        """Copies its own records to a new file, at that path if it is free; continues there and returns its path."""
        new = -1
        for number in count(1):
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with suppress(FileExistsError):
                new = os.open(path, NEW, stat.S_IMODE(os.fstat(self.fd).st_mode))
                break
            path = f"{self.path}.recovered" + (f".{number}" if number > 1 else "")
        for start, end in self.own:
            while piece := os.pread(self.fd, min(PIECE, end - start), start):
                write_all(new, [piece])
                start += len(piece)
        os.dup2(new, self.fd, inheritable=False)
        os.close(new)
        self.intact = min(self.intact, self.own[0][1])
        self.path, self._named = path, False
        self.own_all()
        return path

    def _note(self, problem: str) -> None:
        line = f"{self.name} {problem}"
        if line not in self.problems:
            self.problems.append(line)

    def sync(self) -> None:
        """Syncs the file; ignores the error of a file system that cannot."""
        with suppress(OSError):
            copy = os.dup(self.fd)  # the file may be closed meanwhile
            try:
                os.fdatasync(copy) if hasattr(os, "fdatasync") else os.fsync(copy)
            finally:
                os.close(copy)
        if not self._named:
            self._named = True
            with suppress(OSError):
                folder = os.open(os.path.dirname(self.path), os.O_RDONLY | os.O_CLOEXEC)
                try:
                    os.fsync(folder)  # the name of a new file is stored there
                finally:
                    os.close(folder)


class Syncer:
    """Calls functions that sync a file every second, in a thread: a busy disk does not hold up agents."""

    def __init__(self, syncs: Sequence[Callable[[], None]]) -> None:
        self._syncs = syncs
        self._stopped = threading.Event()
        threading.Thread(target=self._serve, daemon=True).start()

    def stop(self) -> None:
        """Makes the thread end; the files sync themselves when they are closed."""
        self._stopped.set()

    def _serve(self) -> None:
        while not self._stopped.wait(SYNC_INTERVAL):
            for sync in self._syncs:
                sync()


# --- what an output file already has ------------------------------------------------------------


class _Metadata(msgspec.Struct, rename="camel"):
    agent: str | None = None
    agent_digest: str | None = None
    prompt_digest: str | None = None
    fields_digest: str | None = None
    grader_digests: dict[str, str] | None = None
    run_id: str | None = None


class _Entry(msgspec.Struct, rename="camel"):
    errors: list[Any] | None = None
    grader_error: str | bool | None = None


class _Identified(msgspec.Struct):
    id: str


class _Line(_Entry, rename="camel", kw_only=True):
    id: str
    error: str | None = None
    metadata: _Metadata | None = None
    k: int | None = None
    trials: list[_Entry] | None = None

    def failed(self) -> bool:
        """Whether the agent failed, in any trial if there are several."""
        return bool(self.error or any(one.errors for one in (self, *(self.trials or ()))))


_parse_line = msgspec.json.Decoder(_Line).decode
_parse_id = msgspec.json.Decoder(_Identified).decode


def _parse(line: bytes) -> _Line:
    """Returns the fields of a record that are needed; only the id if the record is of another kind."""
    try:
        return _parse_line(line)
    except msgspec.ValidationError:
        return _Line(id=_parse_id(line).id)


def has_failed(line: bytes) -> bool:
    """Returns whether the agent of a record failed, in any trial if there are several."""
    return _parse(line).failed()


def read_written(path: str, *, repair: bool = True) -> WrittenRecords:
    """Returns the records in an output file; `repair` removes a last line that a crash cut off."""
    written = WrittenRecords()
    if not os.path.isfile(path):
        return written  # a pipe or a device
    for number, (offset, line) in enumerate(lines_of(path, follow=True), 1):
        whole = line.endswith(b"\n")
        try:
            if line.strip():
                _note(_parse(line), offset, len(line), written)
        except (msgspec.DecodeError, UnicodeDecodeError):
            if whole:
                raise UserError(f"{path}:{number}: not a record; fix or remove that line first") from None
            if repair:
                os.truncate(path, offset)
        else:
            if repair and not whole:
                with open(path, "ab") as file:
                    file.write(b"\n")
    return written


def _written(line: _Line, offset: int, size: int) -> WrittenRecord:
    of_run = line.metadata or _Metadata()
    return WrittenRecord(
        line.id,
        offset,
        size,
        of_run.prompt_digest,
        of_run.fields_digest,
        of_run.grader_digests,
        line.failed(),
        any(one.grader_error for one in (line, *(line.trials or ()))),
        of_run.run_id,
        line.k if line.trials is not None else None,
    )


def _note(line: _Line, offset: int, size: int, written: WrittenRecords) -> None:
    written.ids[line.id] = written.ids.get(line.id, 0) + 1
    written.records[line.id] = _written(line, offset, size)
    if line.metadata and line.metadata.agent_digest:
        written.agents.setdefault((line.metadata.agent, line.metadata.agent_digest), line.id)
    written.run_id = written.records[line.id].run_id or written.run_id


def drop_superseded(path: str, replaced: Collection[int], order: dict[str, int] | None = None) -> None:
    """Removes the records that were replaced by a later one; sorts the others if an `order` is given.

    These are the records at the offsets `replaced` and, after a run that was killed, those that it had replaced.
    """
    records = [
        _written(_parse(line), offset, len(line)) for offset, line in lines_of(path, follow=True) if line.strip()
    ]
    last = {record.id: record for record in records}
    kept = [one for one in records if one.offset not in replaced and not _is_superseded(one, last[one.id])]
    if order is not None:
        kept.sort(key=lambda record: order.get(record.id, len(order)))
    if kept != records:
        rewrite(path, [(record.offset, record.size) for record in kept])


def _is_superseded(record: WrittenRecord, last: WrittenRecord) -> bool:
    """Whether the last record of its id has replaced it; a record added by --append replaces none."""
    same_run = record is not last and record.run_id == last.run_id
    return same_run and (record.run_id is not None or record.failed)


def rewrite(path: str, lines: Iterable[tuple[int, int]]) -> None:
    """Atomically replaces a file by one with these of its lines (offset and size), in this order.

    The old file stays unchanged until the whole new one is on the disk.
    """
    path = os.path.realpath(path)
    new = f"{path}.new"
    with os.fdopen(open_regular(path), "rb") as source, os.fdopen(create_file(new), "wb") as target:
        try:
            os.fchmod(target.fileno(), stat.S_IMODE(os.fstat(source.fileno()).st_mode))
            target.writelines(os.pread(source.fileno(), size, offset) for offset, size in lines)
            target.flush()
            os.fsync(target.fileno())
        except OSError:
            os.unlink(new)  # leave nothing on a full disk
            raise
    os.replace(new, path)


# --- unexpected errors --------------------------------------------------------------------------
# Every tool works on a record inside `guarded`, and writes it with `write_record`: an unexpected exception becomes the
# record's error. An error of the tool itself (a wrong option, a full disk, a closed pipe) is not caught.

T = TypeVar("T")
R = TypeVar("R")

NOT_OF_THE_RECORD = (UserError, ClosedPipe, WorkspaceError)
EMPTY: dict[str, object] = {"input": "", "output": "", "trajectory": [], "rawLines": [], "lineTimes": [], "trials": []}


def guarded(item: T, work: Callable[[T], R], failed: Callable[[T, Exception], R]) -> R:
    """Returns the result of the work on an item; after an exception, `failed` of the item and the error."""
    try:
        return work(item)
    except NOT_OF_THE_RECORD:
        raise
    except Exception as error:
        return failed(item, error)


def write_record(target: Output, record: Record, console: Console) -> None:
    """Writes a record; leaves out fields that cannot be encoded and adds an error that names them."""
    try:
        target.write(record)
    except NOT_OF_THE_RECORD:
        raise
    except Exception as error:
        target.write(without_unwritable(record, console.fault(str(record["id"]), error)))


def without_unwritable(record: Record, reason: str) -> Record:
    """Returns the record without the fields that cannot be encoded, and with the reason among its errors."""
    kept = {name: value for name, value in record.items() if _is_writable({name: value})}
    empty = {name: EMPTY[name] for name in record if name not in kept and name in EMPTY}
    lost = ", ".join(name for name in record if name not in kept)
    errors = [*(kept.get("errors") or ()), f"cannot be written: {lost} ({reason})"]
    return {**kept, **empty, "errors": errors}


def _is_writable(value: object) -> bool:
    try:
        encode(value)
    except Exception:
        return False
    return True
