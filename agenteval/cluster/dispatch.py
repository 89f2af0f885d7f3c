"""Hands records to the filters of a cluster in batches, and writes what comes back.

work_through is the run: the threads of a pool take batches of the input; each gives its batch to the next slot that is
free and yields the answers as they come. Batches grow while they are answered at once, so that quick records do not
wait for the network, and slow ones are spread over all slots. What has no answer when a worker dies goes to others, one
record at a time.
"""

import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from agenteval.cluster.merge import Identified
from agenteval.cluster.slots import Slot, Slots, reason_of
from agenteval.cluster.worker import NOT_FOUND, Answers, FilterAnswer, describe_end
from agenteval.errors import FAILED, OK, USAGE, BadRecord, CannotGoOn, Stopped, UserError
from agenteval.processes.pool import FLUSH_TIME, Pool, exit_at_once_on_signals, raise_on_signals
from agenteval.streams.console import Console, Ending
from agenteval.streams.jsonl import decode_record
from agenteval.streams.output import Output
from agenteval.streams.source import Source, refuse
from agenteval.wire.records import Record
from agenteval.wire.validation import check

LARGEST_BATCH = 256
GROWTH = 4  # every batch is a call over the network, so few on the way to the largest one
QUICK, SLOW = 0.2, 1.0  # seconds for a batch, below which the next one is larger, and above which it is smaller


class Task(NamedTuple):
    """A record on its way."""

    id: str
    line: bytes


class CannotRun(Exception):
    """The filter cannot run on a node, for example because a grader is missing there."""


class Dispatcher:
    """What becomes of each record."""

    def __init__(
        self,
        slots: Slots,
        retries: int,
        write: Callable[[bytes], object],
        give_up: Callable[[Task, str], bytes],
        console: Console,
        keep_order: bool = False,
    ) -> None:
        self._slots, self._retries = slots, retries
        self._write, self._give_up, self._console = write, give_up, console
        self._pool = Pool(self._work, self._emit, workers=slots.count, ordered=keep_order)
        self._size = 1  # of the next batch
        self.failed = False  # whether a filter has reported a problem by its exit code, or a record was given up

    def run(self, tasks: Iterable[Task], watch: int | None = None) -> None:
        """Works through the tasks, until the reader of the pipe `watch` closes it; stop() must follow if it raises."""
        self._slots.start()
        self._pool.run(self._batches(iter(tasks)), watch)
        self.failed |= not self._slots.finish()

    def stop(self) -> None:
        """Kills all workers, with their filters; what is being written is written to its end."""
        self._pool.flush(FLUSH_TIME)
        self._slots.stop()

    def _batches(self, tasks: Iterator[Task]) -> Iterator[list[Task]]:
        while batch := list(islice(tasks, self._size)):
            yield batch

    # --- one batch, in the thread of a worker of the pool ---

    def _work(self, batch: list[Task]) -> Iterator[tuple[str, bytes]]:
        """Yields the id and line of each record that a filter answers, in their order."""
        found: dict[int, FilterAnswer] = {}
        following, death = 0, ""
        slot = self._slots.take()
        begun = time.monotonic()  # a slot that started late says nothing about the records
        try:
            for answers in self._answers(slot, batch):
                found |= answers.found
                # A record without an answer is tried again, which needs a slot: this one is given back before.
                while following in found and found[following].code is None:
                    yield from self._settle(batch[following], found[following])
                    following += 1
            self._slots.give_back(slot)
        except UserError:
            raise
        except CannotRun:
            pass
        except Exception as error:
            death = self._death_of(slot, error)
        for number in range(following, len(batch)):  # a worker has died, or the filter on it, or it cannot run there
            yield from self._settle(batch[number], found.get(number), death)
        self._adapt(len(batch), time.monotonic() - begun)

    def _answers(self, slot: Slot, batch: Sequence[Task]) -> Iterator[Answers]:
        """Yields the answers to a batch as they come; CannotRun if the node gets no more records."""
        answers: Answers = self._slots.call(slot, "send", batch).result()
        left = len(batch)
        while True:
            if any(one.code in (USAGE, NOT_FOUND) for one in answers.found.values()):
                reason = next(reversed(answers.messages), "it printed nothing")
                self._slots.exclude(self._slots.node_of(slot), f"the command cannot run: {reason}")
                raise CannotRun
            self._slots.relay(answers.messages)
            yield answers
            left -= len(answers.found)
            if left <= 0:
                return
            answers = self._slots.call(slot, "collect").result()

    def _settle(self, task: Task, answer: FilterAnswer | None, death: str = "") -> Iterator[tuple[str, bytes]]:
        """Yields the record; has other workers try it, one after the other, if that of its batch has died."""
        tries = 0
        while True:
            if answer is not None and answer.line is not None:
                yield task.id, answer.line
                return
            if answer is not None:
                if answer.refused:
                    tool, _, reason = answer.refused.partition(": ")
                    self._console.refuse(tool, reason)
                    return
                death = f"the filter {describe_end(answer.code)}"
            tries += bool(death)
            if tries > self._retries:
                break
            answer, death = self._try_again(task)
        self.failed = True
        times = f"{tries} times" if tries > 1 else "once"
        self._console.say(f"{task.id}: given up, because its worker died {times}: {death}")
        yield task.id, self._give_up(task, f"its worker died {times}, last: {death}")

    def _try_again(self, task: Task) -> tuple[FilterAnswer | None, str]:
        """Has another worker try a single record; returns its answer, or how it died; neither if it cannot run it."""
        slot = self._slots.take()
        try:
            answers = list(self._answers(slot, [task]))
        except UserError:
            raise
        except CannotRun:
            return None, ""
        except Exception as error:
            return None, self._death_of(slot, error)
        self._slots.give_back(slot)
        return next((found for one in answers for found in one.found.values()), None), ""

    def _death_of(self, slot: Slot, error: Exception) -> str:
        """Returns why a worker has died, and replaces it; "" if its node was excluded: the records are not at fault."""
        self._slots.replace(slot)
        return "" if self._slots.is_excluded(self._slots.node_of(slot)) else reason_of(error)

    def _adapt(self, size: int, seconds: float) -> None:
        if seconds < QUICK and size >= self._size:
            self._size = min(LARGEST_BATCH, self._size * GROWTH)
        elif seconds > SLOW:
            self._size = max(1, self._size // 2)

    def _emit(self, answer: tuple[str, bytes]) -> None:
        record_id, line = answer
        self._write(line + b"\n")
        self._console.advance(record_id, Ending.AGENT_FAILED if b'"errors":' in line else None)


# --- the run over the records -------------------------------------------------------------------


def work_through(
    dispatcher: Dispatcher, source: Source, target: Output, console: Console, wants: Callable[[Record], bool]
) -> int:
    """Works through the input but for records that the filter would leave out, or that are kept from an earlier run.

    On a signal or an error, kills every worker before that is reported.
    """
    raise_on_signals()  # Ray has set handlers of its own
    target.open()
    target.begin()
    total = None  # of a stream
    if source.regular:
        total = sum(map(len, source.lines()))
        source.rewind()
    console.begin(total, "records")
    try:
        dispatcher.run(read_tasks(source, console, wants), None if target.path else target.fd)
    except (Stopped, Exception) as reason:
        exit_at_once_on_signals()  # the cluster ends the workers of a driver that is gone
        dispatcher.stop()
        console.finish()
        if isinstance(reason, Stopped):
            go_on = "; run it again with --resume to continue" if target.path else ""
            console.say(f"stopped by {signal.Signals(reason.signum).name} after {console.count()}{go_on}")
        elif type(reason) is UserError and console.done:
            raise CannotGoOn(str(reason)) from None
        raise
    console.finish()
    target.close()
    return FAILED if dispatcher.failed or console.refused else OK


def read_tasks(source: Source, console: Console, wants: Callable[[Record], bool]) -> Iterator[Task]:
    """Yields the records that are wanted; an id that was there before is refused."""
    seen: set[int] = set()
    for batch in source.lines():
        for at, line in batch:
            try:
                record = decode_record(line)
                record_id = check(record, Identified).id
                if (mark := hash(record_id)) in seen:
                    raise BadRecord(f'duplicate id "{record_id}"')
                seen.add(mark)
                wanted = wants(record)
            except BadRecord as error:
                refuse(source, at, line, error, console)
                continue
            if wanted:
                yield Task(record_id, line.strip())


def failed_record(record: Record, reason: str, command: Sequence[str]) -> Record:
    """Returns the record of a prompt that was given up, in the form that the filter writes."""
    name = os.path.basename(command[0])
    now = int(time.time() * 1000)
    timing = {"timing": {"start": now, "end": now, "total": 0}}
    empty = {"output": "", "trajectory": []}
    errors = {"errors": [reason]}
    if name == "ae-extract":
        kept = {field: value for field, value in record.items() if field not in ("rawLines", "lineTimes", "turns")}
        metadata = {**(record.get("metadata") or {}), "trajectoryRichness": "minimal"}
        return {**kept, **empty, "metadata": metadata, **timing, "toolErrors": False, **errors}
    return {**record, **errors}
