"""Records through graders: what ae-grade, ae-validate-refs, ae-calibrate, ae-capture and ae-trials share.

Data flow: records → grader inputs → each grader's verdict, from a process per record (a job of the loop) or from a
long-lived process (threads of a pool) → records with `score`, in their order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from agenteval.errors import StrictStop, UserError
from agenteval.grading.graders import (
    CommandGrader,
    Failure,
    Grader,
    GraderSpec,
    Verdict,
    grader_input,
    open_graders,
    parse_grader,
    with_verdicts,
)
from agenteval.processes.loop import Call, Job, Outbox
from agenteval.processes.shutdown import run_jobs, supervise
from agenteval.processes.supervisor import ProcessSupervisor
from agenteval.processes.worker_pool import Pool
from agenteval.streams.console import Console
from agenteval.streams.output import Output
from agenteval.streams.source import Source
from agenteval.wire.records import Record

READ_AHEAD = 64  # records a stream grader is handed at once
VERDICT_FIELDS = ("score", "scores", "outcome", "graderError")

Batches = Callable[[int], Iterator[list[Record]]]
"""Records, at most so many at a time."""
Finish = Callable[[Record], Record | None]
"""What is written of a graded record; None for nothing."""


def grader_specs(texts: tuple[str, ...], *, stream: bool) -> list[GraderSpec]:
    """The graders that the user named; UserError where one is no grader or two have one name."""
    specs = [parse_grader(text, stream=stream) for text in texts]
    names = [spec.name for spec in specs]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise UserError(f'two graders are called "{twice}"; tell them apart with -g NAME=GRADER')
    return specs


def unjudged(record: Record) -> Record:
    """The record as it was before anybody graded it."""
    return {field: value for field, value in record.items() if field not in VERDICT_FIELDS}


class Grading:
    """Applies graders to records and keeps count of the failures."""

    def __init__(
        self, specs: list[GraderSpec], processes: ProcessSupervisor, console: Console, *, timeout: float
    ) -> None:
        self.graders: list[Grader] = open_graders(specs, processes, timeout=timeout)
        self.processes, self.console = processes, console
        self.keep_each = len(specs) > 1 or specs[0].named
        self.streams = any(grader.streams for grader in self.graders)
        self.errors = 0
        self._idle: list[int] = []  # workers of stream graders that no job is using
        self._workers = 0

    def __call__(self, worker: int, records: list[Record]) -> Iterator[Record]:
        """The graded records; all graders but the last have seen the whole batch before the first comes out."""
        inputs = [grader_input(record) for record in records]
        *first, last = self.graders
        earlier = [list(grader.verdicts(worker, inputs)) for grader in first]
        for number, verdict in enumerate(last.verdicts(worker, inputs)):
            if self.processes.stopping:
                return  # ended by us: --resume will grade it
            verdicts = [*(seen[number] for seen in earlier), verdict]
            yield self._graded(records[number], verdicts)

    def job(self, record: Record) -> Job[Record | None]:
        """The graded record, as a job of a loop."""
        data = grader_input(record)
        verdicts: list[Verdict] = []
        for grader in self.graders:
            verdict = yield from self._verdict(grader, data)
            verdicts.append(verdict)
        return None if self.processes.stopping else self._graded(record, verdicts)

    def finish(self) -> None:
        """Everything is graded."""
        for grader in self.graders:
            grader.finish()

    def _verdict(self, grader: Grader, data: bytes) -> Job[Verdict]:
        if isinstance(grader, CommandGrader):
            return (yield from grader.job(data))
        if not self._idle:
            self._idle.append(self._workers)
            self._workers += 1
        worker = self._idle.pop()
        verdict: Verdict = yield Call(partial(_ask, grader, worker, data))
        self._idle.append(worker)
        return verdict

    def _graded(self, record: Record, verdicts: list[Verdict]) -> Record:
        named = dict(zip((grader.name for grader in self.graders), verdicts, strict=True))
        for name, verdict in named.items():
            if isinstance(verdict, Failure):
                self.errors += 1
                self.console.say(f"{record['id']}: grader {name}: {verdict.reason}")
        return with_verdicts(record, named, keep_each=self.keep_each)


def _ask(grader: Grader, worker: int, data: bytes) -> Verdict:
    [verdict] = grader.verdicts(worker, [data])
    return verdict


class GraderRun:
    """One tool's run of graders over records that are there already."""

    def __init__(
        self,
        texts: tuple[str, ...],
        output: Output,
        console: Console,
        *,
        stream: bool,
        concurrency: int,
        timeout: float,
    ) -> None:
        specs = grader_specs(texts, stream=stream)
        streams = any(spec.streams for spec in specs)
        self.output, self.console = output, console
        self.processes = ProcessSupervisor(concurrency * len(specs) if streams else concurrency)
        self.workers = max(1, self.processes.concurrency // len(specs)) if streams else self.processes.concurrency
        try:
            self.grading = Grading(specs, self.processes, console, timeout=timeout)
            output.open()  # not before the graders are loaded: a wrong one must not cost the file that is there
        except UserError:
            self.processes.close()
            raise

    @property
    def errors(self) -> int:
        """How many times a grader could not grade."""
        return self.grading.errors

    def __call__(self, batches: Batches, source: Source, finish: Finish) -> None:
        """Grade every record, in order, and write what `finish` makes of it; the output is left open."""
        output = self.output
        if self.grading.streams:
            pool = Pool(self.grading, partial(self._emit, output.write, finish), workers=self.workers, ordered=True)
            supervise(
                lambda watch: pool.run(batches(self._batch_size()), watch),
                self.processes,
                output,
                self.console,
                finish=self.grading.finish,
            )
            return
        outbox = Outbox(output.write, blocks=output.may_block())
        run_jobs(
            (self.grading.job(record) for batch in batches(1 << 30) for record in batch),
            partial(self._emit, outbox.put, finish),
            self.processes,
            outbox,
            workers=self.workers,
            source=source,
            output=output,
            console=self.console,
            ordered=True,
        )

    def _emit(self, write: Callable[[Record], None], finish: Finish, graded: Record) -> None:
        record = finish(graded)
        if record is not None:
            write(record)
        self.console.advance(failed=not graded["score"]["pass"], label=graded["id"])
        if self.console.strict and graded.get("graderError"):
            raise StrictStop("stopped at the first grader error (--strict)")

    def _batch_size(self) -> int:
        """How many records a worker takes at once: few enough that no worker is left without."""
        if not all(grader.streams for grader in self.grading.graders):
            return 1
        return READ_AHEAD if self.workers == 1 else max(1, READ_AHEAD // (4 * self.workers))
