"""Hands records to the workers of a cluster, one at a time each, and writes what comes back.

work_through is the run: a thread reads the input as tasks; the main thread gives each task to an idle slot, takes its
answer, writes it, and gives the task of a worker that died to another one. What the cluster is, a Slot hides
(ray_cluster.py).
"""

import os
import queue
import re
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from typing import Any, Protocol

from agenteval.cluster.merge import Identified
from agenteval.cluster.worker import NOT_FOUND, FilterAnswer
from agenteval.errors import FAILED, OK, USAGE, BadRecord, CannotGoOn, Stopped, UserError
from agenteval.processes.shutdown import exit_at_once_on_signals, raise_on_signals
from agenteval.streams.console import Console, Ending
from agenteval.streams.digests import prompt_digest
from agenteval.streams.jsonl import decode_record
from agenteval.streams.output import Output, WrittenRecords
from agenteval.streams.source import Source, refuse
from agenteval.wire.records import Record
from agenteval.wire.validation import check

HELD_BACK = 1000  # finished records that wait for an earlier one (--keep-order)
PATIENCE = 60.0  # seconds without any worker, after which the tool says that it waits
MOST_NOTICES = 1000  # different messages of filters that are remembered, so that each is shown once


class Slot(Protocol):
    """A worker on a node of the cluster; a future that raises says that it is dead."""

    def prepare(self) -> Future[Any]: ...

    def process(self, record_id: str, line: bytes) -> Future[Any]: ...

    def finish(self) -> Future[Any]: ...

    def kill(self) -> None: ...


class Task:
    """A record on its way, with its place in the input and how often its worker has died."""

    def __init__(self, number: int, record_id: str, line: bytes) -> None:
        self.number, self.id, self.line = number, record_id, line
        self.deaths = 0


class Dispatcher:
    """Which slot has which record, what waits, and what is written."""

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
        self._write, self._give_up, self._console, self._keep_order = write, give_up, console, keep_order
        self._events: queue.SimpleQueue[tuple[str, Any]] = queue.SimpleQueue()
        self._room = threading.Semaphore(slots)  # records that have been read and not yet given to a slot
        self._all: set[Slot] = set()
        self._idle: list[Slot] = []
        self._busy: dict[Slot, Task | None] = {}  # None: it is starting or finishing
        self._waiting: deque[Task] = deque()
        self._again: deque[Task] = deque()
        self._held: dict[int, tuple[str, bytes | None]] = {}
        self._next = 0  # the number of the record to be written next, if order is kept
        self._input_ended = False
        self._failed_starts = 0
        self._has_started = False
        self._notices: set[str] = set()
        self.failed = False  # whether a filter has reported a problem by its exit code, or a record was given up

    def run(self, tasks: Iterable[Task]) -> None:
        """Works through the tasks; stop() must be called if it raises."""
        threading.Thread(target=self._read, args=(tasks,), daemon=True).start()
        for _ in range(self._slots):
            self._start_slot()
        while not (self._input_ended and not self._waiting and not self._again and not any(self._busy.values())):
            self._handle(*self._next_event())
            self._assign()
        self._finish()

    def _next_event(self) -> tuple[str, Any]:
        """Returns what happens next; says once that nothing does before a worker has started."""
        if not self._has_started:
            try:
                return self._events.get(timeout=PATIENCE)
            except queue.Empty:
                self._has_started = True
                self._console.say(
                    f"no worker has started after {PATIENCE:g} s: the cluster has no room for one, or its nodes cannot"
                    " start any (`ray status` shows which); waiting"
                )
        return self._events.get()

    def stop(self) -> None:
        """Kills all workers, with their filters and agents."""
        for slot in self._all:
            slot.kill()

    # --- input and slots ---

    def _read(self, tasks: Iterable[Task]) -> None:
        try:
            for task in tasks:
                self._room.acquire()
                self._events.put(("task", task))
        except BaseException as error:
            self._events.put(("error", error))
        self._events.put(("end of input", None))

    def _start_slot(self) -> None:
        slot = self._open_slot()
        self._all.add(slot)
        self._busy[slot] = None
        self._watch(slot, slot.prepare())

    def _watch(self, slot: Slot, future: Future[Any]) -> None:
        future.add_done_callback(lambda done: self._events.put(("done", (slot, done))))

    def _assign(self) -> None:
        while self._idle and (self._again or self._waiting):
            if self._again:
                task = self._again.popleft()
            elif self._keep_order and self._waiting[0].number - self._next > HELD_BACK + self._slots:
                return
            else:
                task = self._waiting.popleft()
                self._room.release()
            slot = self._idle.pop()
            self._busy[slot] = task
            self._watch(slot, slot.process(task.id, task.line))

    def _finish(self) -> None:
        """Ends the filters, and takes over what they have to report."""
        futures = [slot.finish() for slot in self._idle]
        for future in futures:
            try:
                answer = future.result()
            except Exception:
                continue  # its records are all written
            self._relay(answer.messages, "")
            self.failed |= bool(answer.code)
        self.stop()

    # --- what comes back ---

    def _handle(self, event: str, value: Any) -> None:
        if event == "error":
            raise value
        if event == "task":
            self._waiting.append(value)
        elif event == "end of input":
            self._input_ended = True
        else:
            self._handle_slot(*value)

    def _handle_slot(self, slot: Slot, future: Future[Any]) -> None:
        task = self._busy.pop(slot)
        try:
            answer = future.result()
        except Exception as error:
            reason = next(iter(str(error).splitlines()), "") or type(error).__name__
            self._replace(slot, reason, started=task is not None)
            if task is not None:
                self._count_death(task, reason)
            return
        self._failed_starts, self._has_started = 0, True
        self._idle.append(slot)
        if task is not None:
            self._take(task, answer)

    def _replace(self, slot: Slot, reason: str, *, started: bool) -> None:
        """Opens a slot for one whose worker has died; the scheduler decides where."""
        self._all.discard(slot)
        slot.kill()
        self._failed_starts += not started
        if self._failed_starts > 3 * self._slots:
            raise CannotGoOn(f"no worker can be started: {reason}")
        self._start_slot()

    def _take(self, task: Task, answer: FilterAnswer) -> None:
        self._relay(answer.messages, task.id)
        if answer.line is not None:
            self.failed |= bool(answer.code)
            self._put(task, answer.line)
        elif answer.code in (USAGE, NOT_FOUND):
            last = next(reversed(answer.messages), "it says nothing")
            raise UserError(f"the command cannot run: {last}")
        elif answer.refused:
            self._console.refused += 1  # its message has been passed on
            self._put(task, None)
        else:
            code = answer.code or 0
            how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"exited with code {code}"
            self._count_death(task, f"the filter {how}")

    def _count_death(self, task: Task, reason: str) -> None:
        """Has another worker try; a record that has cost too many gets `errors`."""
        task.deaths += 1
        if task.deaths <= self._retries:
            self._again.append(task)
            return
        self.failed = True
        times = f"{task.deaths} times" if task.deaths > 1 else "once"
        self._console.say(f"{task.id}: given up, its worker died {times}: {reason}")
        self._put(task, self._give_up(task, f"its worker died {times}, last: {reason}"))

    def _put(self, task: Task, line: bytes | None) -> None:
        """Writes a record, in its turn if order is kept; None stands for a record that was refused."""
        if not self._keep_order:
            self._emit(task.id, line)
            return
        self._held[task.number] = task.id, line
        while self._next in self._held:
            self._emit(*self._held.pop(self._next))
            self._next += 1

    def _emit(self, record_id: str, line: bytes | None) -> None:
        if line is not None:
            self._write(line + b"\n")
            self._console.advance(record_id, Ending.AGENT_FAILED if b'"errors":' in line else None)

    def _relay(self, messages: list[str], record_id: str) -> None:
        """Passes messages of a filter on, each once; its line numbers mean nothing here: the id takes their place."""
        for message in messages:
            text = re.sub(r"\bstdin:\d+\b", record_id or "stdin", message)
            if text not in self._notices and len(self._notices) < MOST_NOTICES:
                self._notices.add(text)
                self._console.say(text)


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
        dispatcher.run(read_tasks(source, target.written, console))
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
    number = 0
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
                yield Task(number, record_id, line.strip())
                number += 1


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
