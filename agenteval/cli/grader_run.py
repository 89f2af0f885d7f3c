"""Graders over records that are there already: what ae-grade, ae-validate-refs, ae-calibrate and ae-compare share."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from agenteval.cli.executables import own_tools
from agenteval.errors import StrictStop, UserError
from agenteval.grading.apply import GraderSet
from agenteval.grading.graders import open_graders
from agenteval.grading.spec import GraderSpec, grader_specs
from agenteval.grading.verdict import GraderError, ending_of
from agenteval.processes.pool import Pool
from agenteval.processes.shutdown import run_pool
from agenteval.processes.supervisor import ProcessSupervisor
from agenteval.streams.console import Console
from agenteval.streams.guard import write_record
from agenteval.streams.jsonl import encode
from agenteval.streams.output import Output
from agenteval.streams.redaction import Redactor
from agenteval.wire.records import Record

if TYPE_CHECKING:
    from agenteval.comparison.ranking import Ask

Batches = Callable[[int], Iterator[list[Record]]]
"""Records, at most so many at a time."""
Finish = Callable[[Record], Record | None]
"""Takes a graded record; returns what is written of it, None for nothing."""


def named_graders(texts: Iterable[str], *, stream: bool) -> list[GraderSpec]:
    """Returns the graders that -g named; raises UserError if one is none or two have the same name."""
    return grader_specs(texts, stream=stream, bundled=own_tools("graders"))


class GraderRun:
    """One tool's run of graders over its records."""

    def __init__(
        self,
        output: Output,
        console: Console,
        grader: Iterable[str],
        stream: bool,
        concurrency: int,
        timeout: float,
        no_redact: bool,
        grade_failed: bool = False,
        debug: bool = False,
    ) -> None:
        specs = named_graders(grader, stream=stream)
        self.output, self.console = output, console
        redact = Redactor({} if no_redact else os.environ)
        console.redact, output.encode = redact, redact.line
        each = len(specs) if any(spec.streams for spec in specs) else 1  # processes that one worker may have running
        self.processes = ProcessSupervisor(concurrency * each)
        self.workers = max(1, self.processes.concurrency // each)
        try:
            self.graders = GraderSet(
                specs,
                self.processes,
                console.say,
                timeout=timeout,
                redact=redact.value,
                grade_failed=grade_failed,
                trace=console.say if debug else None,
                spare=self.workers > 1,
            )
            output.open()  # after the graders are loaded: a wrong one must not cost the file that is there
        except UserError:
            self.processes.close()
            raise

    def __call__(self, batches: Batches, finish: Finish, *, regular: bool) -> bool:
        """Grades every record and writes, in order, what `finish` makes of it; returns whether all could be graded.

        `regular` says that the records come from a regular file. The output is left open.
        """

        def emit(graded: Record) -> None:
            record = finish(graded)
            if record is not None:
                write_record(self.output, record, self.console)
            self.console.advance(graded["id"], ending_of(graded, graded=True))
            if self.console.strict and graded.get("graderError"):
                raise StrictStop("stopped at the first grader error (--strict)")

        pool = Pool(self.graders.grade, emit, workers=self.workers, ordered=True)
        items = batches(self.graders.most_at_once())
        run_pool(pool, self._begun(items), self.processes, self.output, self.console, self.graders.finish)
        return not self.graders.erred

    def _begun(self, items: Iterator[list[Record]]) -> Iterator[list[Record]]:
        """Yields the records, as many at a time as a worker should take.

        When there are some, the first are of the right kind: only now the file that is there is replaced.
        """
        for batch in items:
            self.output.begin()
            while batch:
                size = self.graders.batch_size(self.workers)
                yield batch[:size]
                batch = batch[size:]


# --- comparison graders ------------------------------------------------------------------------


def comparison_grader(
    text: str,
    *,
    stream: bool,
    concurrency: int,
    timeout: float,
    redact: Redactor,
    trace: Callable[[str], None] | None = None,
) -> Ask:
    """Loads the grader; returns a function that asks it. `trace` takes each line that it prints on stderr."""
    from agenteval.wire.comparison import ComparisonAnswer

    specs = named_graders([text], stream=stream)
    processes = ProcessSupervisor(concurrency)
    try:
        [grader] = open_graders(specs, processes, timeout=timeout, kind=ComparisonAnswer, trace=trace)
    except UserError:
        processes.close()
        raise

    def work(payload: Record) -> Iterator[object]:
        for verdict in grader.verdicts([encode(payload)]):
            yield redact.value(verdict.reason if isinstance(verdict, GraderError) else verdict)

    def ask(payloads: Iterator[Record], answered: Callable[[object], None]) -> None:
        try:
            Pool(work, answered, workers=processes.concurrency, ordered=True).run(payloads)
            grader.finish()
        finally:
            processes.close()

    return ask
