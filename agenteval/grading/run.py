"""Graders over records: record → grader input → each grader's verdict → record with `score`.

GraderSet grades records, of an agent that has just ended or from a file. GraderRun is the run of ae-grade,
ae-validate-refs and ae-calibrate over existing records: `-j` at a time and in order. comparison_grader lets a grader
compare the runs of ae-compare.
"""

import os
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from msgspec.structs import replace

from agenteval.errors import BadRecord, StrictStop, UserError
from agenteval.grading.graders import Grader, GraderSpec, grader_digests, named_graders, open_graders
from agenteval.grading.verdict import (
    GraderError,
    Verdict,
    answers_in,
    ending_of,
    failed_agent,
    has_failed,
    ungraded,
    with_graded,
    with_verdicts,
    without,
)
from agenteval.processes.pool import Pool, run_pool
from agenteval.processes.supervisor import ProcessSupervisor
from agenteval.streams.console import Console, Ending, describe_fault
from agenteval.streams.jsonl import encode
from agenteval.streams.output import NOT_OF_THE_RECORD, Output, write_record
from agenteval.streams.redaction import Redactor
from agenteval.wire.comparison import ComparisonAnswer
from agenteval.wire.records import GRADER_FIELDS, VERDICT_FIELDS, Record

READ_AHEAD = 64  # records that a stream grader is sent at once
BATCH_SECONDS = 0.05  # the time that the records of a batch should take together
WORST_FIRST = (Ending.GRADER_ERROR, Ending.AGENT_FAILED, Ending.NOT_PASSED)  # of the trials of a prompt
NOT_FOR_GRADERS = frozenset((*VERDICT_FIELDS, "rawLines", "lineTimes", "turns"))

Batches = Callable[[int], Iterator[list[Record]]]
"""Yields lists of records, each with at most that many."""
Finish = Callable[[Record], Record | None]
"""Takes a graded record; returns what to write, None for nothing."""
Ask = Callable[[Iterator[Record], Callable[[object], None]], None]
"""Passes a comparison grader's answer to each payload to a function; a grader's error is a text."""


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
        redact: Callable[[Any], Any] = lambda verdict: verdict,
        grade_failed: bool = False,
        trace: Callable[[str], None] | None = None,
    ) -> None:
        self.digests = grader_digests(specs, grade_failed=grade_failed)
        self.graders = open_graders(specs, processes, trace=trace)
        self.processes, self.report, self.redact = processes, report, redact
        self.all_stream = all(spec.streams for spec in specs)
        self.all_hosted = all(spec.hosted for spec in specs)
        self.keep_each = keeps_each(specs)
        self.counting = {spec.name: spec.counting for spec in specs}
        self.grade_failed = grade_failed
        self.erred = False  # whether a grader could not grade some record
        self._seconds_each: float | None = None  # the time per record of the last batch
        self._checks_places = not all(spec.bundled for spec in specs)  # the suite's own graders do that themselves

    def grade(self, records: list[Record]) -> Iterator[Record]:
        """Yields the graded records; fewer if the tool is stopping, because graders are then terminated, too.

        A record of an agent that failed is not passed to any grader, unless `grade_failed`. All graders but the last
        have answered for all records before the first record is yielded.
        """
        began = time.monotonic()
        for record in records:
            self._check_place(record)
        inputs = [None if has_failed(record) and not self.grade_failed else _encoded(record) for record in records]
        gradable = [data for data in inputs if isinstance(data, bytes)]
        *first, last = self.graders
        earlier = [list(_verdicts(grader, gradable)) for grader in first]
        answers = zip(_verdicts(last, gradable), *earlier, strict=False)
        for record, data in zip(records, inputs, strict=True):
            if data is None:
                yield self._with_digests(failed_agent(record))
                continue
            latest, *before = next(answers) if isinstance(data, bytes) else [data] * len(self.graders)
            if self.processes.stopping:
                return
            yield self._with_digests(self._graded(record, [*before, latest]))
        next(answers, None)  # tells the last grader that all its answers were taken
        if gradable:
            self._seconds_each = (time.monotonic() - began) / len(gradable)

    def _check_place(self, record: Record) -> None:
        """Reports the first record whose workspace is gone or belongs to another run: graders may look at its files."""
        metadata = record.get("metadata")
        if self._checks_places and isinstance(metadata, dict) and metadata.get("workspaceDir"):
            from agenteval.grading.workspace import directory_of

            try:
                directory_of(record)
            except BadRecord as error:
                self._checks_places = False
                self.report(f"{_name_of(record)}: {error}; a grader that looks at files may judge the wrong ones")

    def _graded(self, record: Record, verdicts: list[Verdict]) -> Record:
        """Returns the record with its verdicts; an unexpected error becomes a grader error."""
        try:
            named = {
                grader.name: self._checked(record, grader.name, verdict)
                for grader, verdict in zip(self.graders, verdicts, strict=True)
            }
            return with_verdicts(record, named, keep_each=self.keep_each, counting=self.counting)
        except NOT_OF_THE_RECORD:
            raise
        except Exception as error:
            self.erred = True
            reason = describe_fault(error)
            self.report(f"{_name_of(record)}: {reason}")
            return ungraded(record) | {"graderError": reason}

    def _with_digests(self, record: Record) -> Record:
        """Returns the graded record with the digests of its graders."""
        metadata = record.get("metadata") or {}
        earlier = metadata.get("graderDigests") if self.keep_each else None
        return record | {"metadata": {**metadata, "graderDigests": {**(earlier or {}), **self.digests}}}

    def _checked(self, record: Record, name: str, verdict: Verdict) -> Verdict:
        """Returns the verdict without secrets; reports it if it is an error."""
        if not isinstance(verdict, GraderError):
            return self.redact(verdict)  # type: ignore[no-any-return]
        self.erred = self.erred or not self.counting[name].get("informational")
        error = replace(verdict, reason=self.redact(verdict.reason))
        if not error.reported:
            self.report(f"{_name_of(record)}: grader {name}: {error.reason}")
        return error

    def batch_size(self, workers: int) -> int:
        """Returns how many records a worker should take next: few enough that each worker gets some.

        Python and JavaScript functions get as many as take some time together, so that quick ones do not wait for the
        next records, and no worker still has many slow ones when the others have finished.
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

    def finish(self) -> None:
        """Lets the graders exit after the last record."""
        for grader in self.graders:
            grader.finish()


def keeps_each(specs: list[GraderSpec]) -> bool:
    """Returns whether the verdict of each grader is kept in `scores`, beside those of other graders before."""
    return len(specs) > 1 or specs[0].named or specs[0].informational


def _name_of(record: Record) -> str:
    """Returns the name of an answer in messages: the prompt's id, `ID#N` for a trial."""
    number = record.get("trialNum")
    return record["id"] if number is None else f"{record['id']}#{number}"


def grader_input(record: Record) -> bytes:
    """Returns the grader input: the part of a record that graders get."""
    given = without({field: record[field] for field in GRADER_FIELDS if field in record} | record, NOT_FOR_GRADERS)
    if isinstance(given.get("metadata"), dict):
        given["metadata"] = without(given["metadata"], ("graderDigests",))
    return encode(given)


def _encoded(record: Record) -> bytes | GraderError:
    try:
        return grader_input(record)
    except NOT_OF_THE_RECORD:
        raise
    except Exception as error:
        return GraderError(describe_fault(error))


def _verdicts(grader: Grader, inputs: list[bytes]) -> Iterator[Verdict]:
    """Yields a verdict per input; after an unexpected error, an error for each that is left."""
    given = 0
    try:
        for verdict in grader.verdicts(inputs):
            given += 1
            yield verdict
    except NOT_OF_THE_RECORD:
        raise
    except Exception as error:
        yield from [GraderError(describe_fault(error))] * (len(inputs) - given)


# --- the run over records -----------------------------------------------------------------------


class GraderRun:
    """One tool's run of graders over its records."""

    def __init__(
        self,
        output: Output,
        console: Console,
        grader: Iterable[str],
        concurrency: int,
        no_redact: bool,
        grade_failed: bool = False,
        debug: bool = False,
        **settings: Any,
    ) -> None:
        specs = named_graders(grader, **settings)
        self.output, self.console = output, console
        self.redact = redact = Redactor(None if no_redact else os.environ)
        console.redact, output.encode = redact, redact.line
        each = len(specs) if any(spec.streams for spec in specs) else 1  # processes that one worker may have running
        self.processes = ProcessSupervisor(concurrency * each)
        self.workers = self.processes.workers(concurrency, each, console.say)
        try:
            self.graders = GraderSet(
                specs,
                self.processes,
                console.say,
                redact=redact.value,
                grade_failed=grade_failed,
                trace=console.say if debug else None,
            )
            output.open()  # after the graders are loaded, so that a wrong one does not cost the existing file
        except UserError:
            self.processes.close()
            raise

    def __call__(self, batches: Batches, finish: Finish) -> bool:
        """Grades every record and writes what `finish` returns for it, in order; returns whether all could be graded.

        Workers take answers: a result is one, trials are one each, and their record is written after the last one. The
        output is left open.
        """
        waiting: deque[tuple[Record, int]] = deque()  # records being graded, with their number of answers
        graded: list[Record] = []  # the answers of the first of them

        def emit(answer: Record) -> None:
            graded.append(answer)
            record, answers = waiting[0]
            if len(graded) < answers:
                return
            waiting.popleft()
            endings = {ending_of(one, graded=True) for one in graded}
            written = finish(with_graded(record, graded))
            graded.clear()
            if written is not None:
                write_record(self.output, written, self.console)
            self.console.advance(record["id"], next((ending for ending in WORST_FIRST if ending in endings), None))
            if self.console.strict and Ending.GRADER_ERROR in endings:
                raise StrictStop("stopped at the first grader error (--strict)")

        pool = Pool(self.graders.grade, emit, workers=self.workers, ordered=True)
        items = self._answers(batches(READ_AHEAD if self.graders.all_stream else 1), waiting)
        run_pool(pool, items, self.processes, self.output, self.console, self.graders.finish)
        return not self.graders.erred

    def _answers(self, items: Iterator[list[Record]], waiting: deque[tuple[Record, int]]) -> Iterator[list[Record]]:
        """Yields the answers of the records, as many at a time as a worker should take.

        An existing output file is replaced only now, after the first records were found to be of the right kind.
        """
        for batch in items:
            self.output.begin()
            answers: list[Record] = []
            for record in batch:
                found = answers_in(record)
                waiting.append((record, len(found)))
                answers += found
            while answers:
                size = self.graders.batch_size(self.workers)
                yield answers[:size]
                answers = answers[size:]


# --- comparison graders ------------------------------------------------------------------------


def comparison_grader(
    text: str,
    *,
    stream: bool,
    concurrency: int,
    timeout: float,
    redact: Redactor,
    say: Callable[[str], None],
    trace: Callable[[str], None] | None = None,
) -> Ask:
    """Loads the grader; returns a function that asks it.

    `say` takes a line if fewer can be asked at a time than wanted, `trace` each line that the grader prints on stderr.
    """
    specs = named_graders([text], stream=stream, timeout=timeout)
    processes = ProcessSupervisor(concurrency)
    workers = processes.workers(concurrency, 1, say)
    try:
        [grader] = open_graders(specs, processes, kind=ComparisonAnswer, trace=trace)
    except UserError:
        processes.close()
        raise

    def work(payload: Record) -> Iterator[object]:
        for verdict in grader.verdicts([encode(payload)]):
            yield redact.value(verdict.reason if isinstance(verdict, GraderError) else verdict)

    def ask(payloads: Iterator[Record], answered: Callable[[object], None]) -> None:
        try:
            Pool(work, answered, workers=workers, ordered=True).run(payloads)
            grader.finish()
        finally:
            processes.close()

    return ask
