"""A set of graders, applied to records: record → grader input → each grader's verdict → record with `score`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

from msgspec.structs import replace

from agenteval.grading.graders import CommandGrader, Grader, open_graders
from agenteval.grading.spec import GraderSpec
from agenteval.grading.verdict import GraderError, Verdict, failed_agent, has_failed, ungraded, with_verdicts
from agenteval.processes.supervisor import ProcessSupervisor
from agenteval.streams.console import describe_fault
from agenteval.streams.guard import NOT_OF_THE_RECORD
from agenteval.streams.jsonl import encode
from agenteval.wire.records import GRADER_FIELDS, VERDICT_FIELDS, Record

READ_AHEAD = 64  # records that a stream grader is sent at once
BATCH_SECONDS = 0.05  # that records should take which a worker takes at once
NOT_FOR_GRADERS = frozenset((*VERDICT_FIELDS, "rawLines", "lineTimes", "turns"))


def grader_input(record: Record) -> bytes:
    """Returns what a grader gets to see of a record."""
    given = {field: record[field] for field in GRADER_FIELDS if field in record} | record
    for field in NOT_FOR_GRADERS.intersection(given):
        del given[field]
    return encode(given)


class GraderSet:
    """The graders of a run.

    `report` takes a line for each record that one of them could not grade, `trace` each line that they print on stderr.
    """

    def __init__(
        self,
        specs: list[GraderSpec],
        processes: ProcessSupervisor,
        report: Callable[[str], None],
        *,
        timeout: float,
        redact: Callable[[Any], Any] = lambda verdict: verdict,
        grade_failed: bool = False,
        trace: Callable[[str], None] | None = None,
        spare: bool = False,
    ) -> None:
        self.graders = open_graders(specs, processes, timeout=timeout, trace=trace, spare=spare)
        self.processes, self.report, self.redact = processes, report, redact
        self.commands = [grader for grader in self.graders if isinstance(grader, CommandGrader)]
        self.any_stream = len(self.commands) < len(specs)
        self.all_stream = not self.commands
        self.all_hosted = all(spec.hosted for spec in specs)
        self._seconds_each: float | None = None  # that a record took last
        self.keep_each = len(specs) > 1 or specs[0].named
        self.grade_failed = grade_failed
        self.erred = False  # whether a grader could not grade some record

    def grade(self, records: list[Record]) -> Iterator[Record]:
        """Returns the records graded; fewer if the tool is stopping, for then a grader's error is not its own.

        A record whose agent failed is shown to no grader, unless `grade_failed`.
        """
        return self._grade_together(records) if self.any_stream else self._grade_each(records)

    def _grade_each(self, records: list[Record]) -> Iterator[Record]:
        """Returns the records graded, one after the other."""
        for record in records:
            if not self.grade_failed and has_failed(record):
                yield failed_agent(record)
                continue
            data = _encoded(record)
            found = [self._verdict_of(grader, data) for grader in self.commands]
            if self.processes.stopping:
                return
            yield self._graded(record, found)

    def _verdict_of(self, grader: CommandGrader, data: bytes | GraderError) -> Verdict:
        """Returns the verdict on a grader input; an unexpected error on the way is an error of the grader."""
        if isinstance(data, GraderError):
            return data
        try:
            return grader.verdict(data)
        except NOT_OF_THE_RECORD:
            raise
        except Exception as error:
            return GraderError(describe_fault(error))

    def _grade_together(self, records: list[Record]) -> Iterator[Record]:
        """Returns the records graded; all graders but the last see all of them before the first one comes out."""
        began = time.monotonic()
        inputs = [None if self._is_failure(record) else _encoded(record) for record in records]
        shown = [data for data in inputs if isinstance(data, bytes)]
        *first, last = self.graders
        earlier: list[list[Verdict]] = [[] for _ in shown]
        for grader in first:
            answers = _each(grader, shown)
            for verdicts in earlier:
                verdicts.append(next(answers))
            next(answers, None)  # lets the grader see that all its answers were taken
        last_answers = _each(last, shown)
        before = iter(earlier)
        for record, data in zip(records, inputs, strict=True):
            if data is None:
                yield failed_agent(record)
                continue
            if isinstance(data, bytes):
                found = [*next(before), next(last_answers)]
            else:
                found = [data] * len(self.graders)
            if self.processes.stopping:
                return
            yield self._graded(record, found)
        next(last_answers, None)
        if shown:
            self._seconds_each = (time.monotonic() - began) / len(shown)

    def _is_failure(self, record: Record) -> bool:
        return not self.grade_failed and has_failed(record)

    def batch_size(self, workers: int) -> int:
        """Returns how many records a worker should take next: few enough that each worker gets some.

        Functions of Python and JavaScript get as many as take some time together: quick ones do not wait for the next
        records, and with slow ones no worker is left with many when the others have none.
        """
        if not self.all_stream:
            return 1
        if workers == 1:
            return READ_AHEAD
        if not self.all_hosted:  # a judge has several requests in flight, however long they take
            return max(1, READ_AHEAD // (4 * workers))
        if self._seconds_each is None:
            return 1
        return max(1, min(READ_AHEAD, int(BATCH_SECONDS / self._seconds_each)))

    def most_at_once(self) -> int:
        """Returns how many records it makes sense to read ahead."""
        return READ_AHEAD if self.all_stream else 1

    def finish(self) -> None:
        """Lets the graders exit: everything is graded."""
        for grader in self.graders:
            grader.finish()

    def _ungradable(self, record: Record, error: Exception) -> Record:
        self.erred = True
        reason = describe_fault(error)
        self.report(f"{record['id']}: {reason}")
        return ungraded(record) | {"graderError": reason}

    def _graded(self, record: Record, verdicts: list[Verdict]) -> Record:
        """Returns the record with its verdicts; an unexpected error on the way is a grader error."""
        try:
            return self._with_verdicts(record, verdicts)
        except NOT_OF_THE_RECORD:
            raise
        except Exception as error:
            return self._ungradable(record, error)

    def _with_verdicts(self, record: Record, verdicts: list[Verdict]) -> Record:
        named: dict[str, Verdict] = {}
        for grader, verdict in zip(self.graders, verdicts, strict=True):
            if isinstance(verdict, GraderError):
                self.erred = True
                named[grader.name] = error = replace(verdict, reason=self.redact(verdict.reason))
                if not error.reported:
                    self.report(f"{record['id']}: grader {grader.name}: {error.reason}")
            else:
                named[grader.name] = self.redact(verdict)
        return with_verdicts(record, named, keep_each=self.keep_each)


def _encoded(record: Record) -> bytes | GraderError:
    try:
        return grader_input(record)
    except NOT_OF_THE_RECORD:
        raise
    except Exception as error:
        return GraderError(describe_fault(error))


def _each(grader: Grader, inputs: list[bytes]) -> Iterator[Verdict]:
    """Yields a verdict per input; an unexpected error of the grader costs the records that it has not graded yet."""
    given = 0
    try:
        for verdict in grader.verdicts(inputs):
            given += 1
            yield verdict
    except NOT_OF_THE_RECORD:
        raise
    except Exception as error:
        yield from [GraderError(describe_fault(error))] * (len(inputs) - given)
