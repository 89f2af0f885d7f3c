"""Hands records to the workers of a cluster, one at a time each, and writes what comes back.

work_through is the run: the threads of a pool take the records of the input; each gives its record to the next slot
that is ready, waits for the answer, and gives the record of a worker that died to another one. What the cluster is, a
Slot hides (ray_cluster.py).
"""

import os
import queue
import re
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from typing import Any, NamedTuple, Protocol

from agenteval.cluster.merge import Identified
from agenteval.cluster.worker import NOT_FOUND
from agenteval.errors import FAILED, OK, USAGE, BadRecord, CannotGoOn, Stopped, UserError
from agenteval.processes.pool import FLUSH_TIME, Pool, exit_at_once_on_signals, raise_on_signals
from agenteval.streams.console import Console, Ending
from agenteval.streams.digests import prompt_digest
from agenteval.streams.jsonl import decode_record
from agenteval.streams.output import Output, WrittenRecords
from agenteval.streams.source import Source, refuse
from agenteval.wire.records import Record
from agenteval.wire.validation import check

PATIENCE = 60.0  # seconds without any worker, after which the tool reports that it waits
MOST_NOTICES = 1000  # different messages of filters that are remembered, so that each is shown once


class Slot(Protocol):
    """A worker on a node of the cluster; a future that raises says that it is dead."""

    def prepare(self) -> Future[Any]: ...

    def process(self, record_id: str, line: bytes) -> Future[Any]: ...

    def finish(self) -> Future[Any]: ...

    def kill(self) -> None: ...


class Task(NamedTuple):
    """A record on its way."""

    id: str
    line: bytes


class Dispatcher:
    """Which slots there are, and what becomes of each record."""

    def __init__(
        self,
        open_slot: Callable[[], Slot],
        slots: int,
        retries: int,
        write: Callable[[bytes], object],
        give_up: Callable[[Task, str], bytes],
        console: Console,
        keep_order: bool = False,
    ) -> None:
        self._open_slot, self._slots, self._retries = open_slot, slots, retries
        self._write, self._give_up, self._console = write, give_up, console
        self._pool = Pool(self._work, self._emit, workers=slots, ordered=keep_order)
        self._ready: queue.SimpleQueue[tuple[Slot, Future[Any]]] = queue.SimpleQueue()  # each with its last answer
        self._lock = threading.Lock()  # of what follows
        self._all: set[Slot] = set()
        self._failed_starts = 0
        self._has_started = False
        self._notices: set[str] = set()
        self.failed = False  # whether a filter has reported a problem by its exit code, or a record was given up

    def run(self, tasks: Iterable[Task], watch: int | None = None) -> None:
        """Works through the tasks, until the reader of the pipe `watch` closes it; stop() must follow if it raises."""
        for _ in range(self._slots):
            self._start_slot()
        self._pool.run(iter(tasks), watch)
        self._finish()

    def stop(self) -> None:
        """Kills all workers, with their filters and agents; what is being written is written to its end."""
        self._pool.flush(FLUSH_TIME)
        with self._lock:
            for slot in self._all:
                slot.kill()

    # --- slots ---

    def _start_slot(self) -> None:
        slot = self._open_slot()
        with self._lock:
            self._all.add(slot)
        slot.prepare().add_done_callback(lambda done: self._ready.put((slot, done)))

    def _next_slot(self) -> Slot:
        """Returns a slot that waits for a record; opens another for each that could not start."""
        while True:
            slot, last = self._next_ready()
            error = last.exception()
            with self._lock:
                self._has_started = self._has_started or error is None
                self._failed_starts = 0 if error is None else self._failed_starts + 1
                if self._failed_starts > 3 * self._slots:
                    raise CannotGoOn(f"no worker can be started: {_reason(error)}")
            if error is None:
                return slot
            self._replace(slot)

    def _next_ready(self) -> tuple[Slot, Future[Any]]:
        """Returns the next slot that is ready; reports once that there is none before a worker has started."""
        try:
            return self._ready.get(timeout=None if self._has_started else PATIENCE)
        except queue.Empty:
            with self._lock:
                is_first, self._has_started = not self._has_started, True
        if is_first:
            self._console.say(
                f"no worker has started after {PATIENCE:g} s: the cluster has no room for one, or its nodes cannot"
                " start any (`ray status` shows which); waiting"
            )
        return self._ready.get()

    def _replace(self, slot: Slot) -> None:
        """Opens a slot for one whose worker has died; the scheduler decides where."""
        with self._lock:
            self._all.discard(slot)
        slot.kill()
        self._start_slot()

    def _finish(self) -> None:
        """Ends the filters, and takes over what they have to report."""
        futures = []
        while not self._ready.empty():
            slot, last = self._ready.get()
            if last.exception() is None:
                futures.append(slot.finish())
        for future in futures:
            try:
                answer = future.result()
            except Exception:
                continue  # its records are all written
            self._relay(answer.messages, "")
            self.failed |= bool(answer.code)
        self.stop()

    # --- one record, in the thread of a worker of the pool ---

    def _work(self, task: Task) -> Iterator[tuple[str, bytes]]:
        """Has slots try the record until one answers; yields its id and line, nothing if the filter refuses it."""
        tries = self._retries + 1
        for _try in range(tries):
            slot = self._next_slot()
            try:
                future = slot.process(task.id, task.line)
                answer = future.result()
            except Exception as error:
                reason = _reason(error)
                self._replace(slot)
                continue
            self._ready.put((slot, future))
            self._relay(answer.messages, task.id)
            if answer.line is not None:
                self.failed |= bool(answer.code)
                yield task.id, answer.line
                return
            if answer.code in (USAGE, NOT_FOUND):
                raise UserError(f"the command cannot run: {next(reversed(answer.messages), 'it says nothing')}")
            if answer.refused:
                self._console.refused += 1  # its message has been passed on
                return
            code = answer.code or 0
            how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"exited with code {code}"
            reason = f"the filter {how}"
        self.failed = True
        times = f"{tries} times" if tries > 1 else "once"
        self._console.say(f"{task.id}: given up, its worker died {times}: {reason}")
        yield task.id, self._give_up(task, f"its worker died {times}, last: {reason}")

    def _emit(self, answer: tuple[str, bytes]) -> None:
        record_id, line = answer
        self._write(line + b"\n")
        self._console.advance(record_id, Ending.AGENT_FAILED if b'"errors":' in line else None)

    def _relay(self, messages: list[str], record_id: str) -> None:
        """Passes messages of a filter on, each once; its line numbers mean nothing here: the id takes their place."""
        for message in messages:
            text = re.sub(r"\bstdin:\d+\b", record_id or "stdin", message)
            with self._lock:
                is_new = text not in self._notices and len(self._notices) < MOST_NOTICES
                if is_new:
                    self._notices.add(text)
            if is_new:
                self._console.say(text)


def _reason(error: BaseException | None) -> str:
    return next(iter(str(error).splitlines()), "") or type(error).__name__


# --- the run over the records -------------------------------------------------------------------


def work_through(dispatcher: Dispatcher, source: Source, target: Output, console: Console) -> int:
    """Works through the input; on a signal or an error, kills every worker before that is reported."""
    raise_on_signals()  # Ray has set handlers of its own
    target.open()
    target.begin()
    total = None  # of a stream
    if source.regular:
        total = max(0, sum(map(len, source.lines())) - len(target.written.ids))
        source.rewind()
    console.begin(total, "records")
    try:
        dispatcher.run(read_tasks(source, target.written, console), None if target.path else target.fd)
    except (Stopped, Exception) as reason:
        exit_at_once_on_signals()  # the cluster ends the workers of a driver that is gone
        dispatcher.stop()
        console.finish()
        if isinstance(reason, Stopped):
            go_on = "; run it again with --resume to go on" if target.path else ""
            console.say(f"stopped by {signal.Signals(reason.signum).name} after {console.count()}{go_on}")
        elif type(reason) is UserError and console.done:
            raise CannotGoOn(str(reason)) from None
        raise
    console.finish()
    target.close()
    return FAILED if dispatcher.failed or console.refused else OK


def read_tasks(source: Source, written: WrittenRecords, console: Console) -> Iterator[Task]:
    """Yields the records that are not done, or were asked something else; an id that was there before is refused."""
    seen: set[int] = set()
    for batch in source.lines():
        for at, line in batch:
            try:
                record = decode_record(line)
                record_id = check(record, Identified).id
                if (mark := hash(record_id)) in seen:
                    raise BadRecord(f'duplicate id "{record_id}"')
            except BadRecord as error:
                refuse(source, at, line, error, console)
                continue
            seen.add(mark)
            done = written.records.get(record_id)
            if done is None or done.prompt not in (None, prompt_digest(record)):
                yield Task(record_id, line.strip())


def failed_record(record: Record, reason: str, command: Sequence[str]) -> Record:
    """Returns the record of a prompt that was given up, in the form that the filter writes."""
    name = os.path.basename(command[0])
    now = int(time.time() * 1000)
    timing = {"timing": {"start": now, "end": now, "total": 0}}
    empty = {"output": "", "trajectory": []}
    errors = {"errors": [reason]}
    if name == "ae-run":
        return {**record, "rawLines": [], "lineTimes": [], "turns": [], **timing, "timedOut": False, **errors}
    if name == "ae-trials":
        trial = {"trialNum": 1, **empty, "duration": 0, **errors}
        return {**record, "k": 1, "trials": [trial], "metadata": record.get("metadata") or {}}
    if name in ("ae-capture", "ae-extract"):
        kept = {field: value for field, value in record.items() if field not in ("rawLines", "lineTimes", "turns")}
        metadata = {**(record.get("metadata") or {}), "trajectoryRichness": "minimal"}
        return {**kept, **empty, "metadata": metadata, **timing, "toolErrors": False, **errors}
    return {**record, **errors}
