"""ae-grade: results → graded results."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from agenteval.command import (
    append_options,
    grader_options,
    input_argument,
    output_option,
    progress_option,
    strict_option,
    tool,
)
from agenteval.console import Console
from agenteval.errors import FAILED, OK, StrictStop, UserError
from agenteval.grading import (
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
from agenteval.lightclick import click
from agenteval.loop import Job, Outbox
from agenteval.pool import Pool
from agenteval.processes import Processes
from agenteval.records import Gradable, Record
from agenteval.stream import Source, open_output, read_batches, read_records
from agenteval.supervision import run_jobs, supervise

READ_AHEAD = 64  # records a stream grader is handed at once


class Grading:
    """Applies the graders to batches of records and keeps count of the failures."""

    def __init__(self, specs: list[GraderSpec], graders: list[Grader], processes: Processes, console: Console) -> None:
        self.graders, self.processes, self.console = graders, processes, console
        self.keep_each = len(specs) > 1 or specs[0].named
        self.errors = 0

    def __call__(self, worker: int, records: list[Record]) -> Iterator[Record]:
        """The graded records; all graders but the last have seen the whole batch before the first comes out."""
        inputs = [grader_input(record) for record in records]
        *first, last = self.graders
        earlier = [list(grader.verdicts(worker, inputs)) for grader in first]
        for number, verdict in enumerate(last.verdicts(worker, inputs)):
            if self.processes.stopping:
                return  # ended by us: --resume will grade it
            verdicts = [*(seen[number] for seen in earlier), verdict]
            named = dict(zip((grader.name for grader in self.graders), verdicts, strict=True))
            self._report(records[number], named)
            yield with_verdicts(records[number], named, keep_each=self.keep_each)

    def job(self, record: Record) -> Job[Record | None]:
        """The graded record, where every grader is a process per record."""
        data = grader_input(record)
        named: dict[str, Verdict] = {}
        for grader in self.graders:
            assert isinstance(grader, CommandGrader)
            named[grader.name] = yield from grader.job(data)
        if self.processes.stopping:
            return None
        self._report(record, named)
        return with_verdicts(record, named, keep_each=self.keep_each)

    def finish(self) -> None:
        """Everything is graded."""
        for grader in self.graders:
            grader.finish()

    def _report(self, record: Record, verdicts: dict[str, Verdict]) -> None:
        for name, verdict in verdicts.items():
            if isinstance(verdict, Failure):
                self.errors += 1
                self.console.say(f"{record['id']}: grader {name}: {verdict.reason}")


def _specs(texts: tuple[str, ...], stream: bool) -> list[GraderSpec]:
    specs = [parse_grader(text, stream=stream) for text in texts]
    names = [spec.name for spec in specs]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise UserError(f'two graders are called "{twice}"; tell them apart with -g NAME=GRADER')
    return specs


@tool("ae-grade")
@input_argument("RESULTS")
@click.option("-g", "--grader", "graders", multiple=True, required=True, metavar="[NAME=]GRADER", help="Repeatable.")
@grader_options
@output_option
@append_options
@strict_option
@progress_option
def main(
    path: str | None,
    graders: tuple[str, ...],
    stream: bool,
    concurrency: int,
    timeout: float,
    output: str | None,
    append: bool,
    resume: bool,
    strict: bool,
    progress: bool | None,
    debug: bool,
) -> int:
    """Apply one or more graders to results.

    RESULTS is JSONL with `id` and `output` (or stdin). GRADER is an executable (grader input on stdin,
    result on stdout), a Python file with a `grade` function, package.module:function, a .js, .mjs or
    .ts module that exports `grade`, or one of the suite's own (ae-grader-hint), with arguments if
    quoted. A result is {"pass": true, "score": 1.0, "reasoning": "…"}; with several graders each is
    kept in `scores`, and `score` is pass = all, score = mean. Order is kept.

    Examples:
      ae-grade results.jsonl -g ae-grader-hint -o graded.jsonl
      ae-grade results.jsonl -g ./grader.py -g style=./style.sh -j 4 -o graded.jsonl --resume
      ae-extract raw.jsonl -s claude | ae-grade --stream -g ./loop.rb | ae-format -f table

    A grader that crashes, times out or prints nonsense costs only that record: `graderError` is true
    there, it is reported, and the exit code is 1.
    """
    console = Console("ae-grade", progress=progress, strict=strict, output=output)
    specs = _specs(graders, stream)
    source = Source(path)
    target, done = open_output(output, source, append=append, resume=resume)
    streams = any(spec.streams for spec in specs)
    processes = Processes(concurrency * len(specs) if streams else concurrency)
    try:
        grading = Grading(specs, open_graders(specs, processes, timeout=timeout), processes, console)
        target.open()
    except UserError:
        processes.close()
        raise
    console.begin(None, "records")
    if streams:
        workers = max(1, processes.concurrency // len(specs))
        batches = read_batches(source, Gradable, console, _batch_size(grading.graders, workers))
        pool = Pool(grading, lambda record: _emit(record, target.write, console), workers=workers, ordered=True)
        supervise(
            lambda watch: pool.run(_undone(batches, done), watch), processes, target, console, finish=grading.finish
        )
    else:
        outbox = Outbox(target.write, blocks=target.may_block())
        records = (record for record in read_records(source, Gradable, console) if record["id"] not in done)
        run_jobs(
            (grading.job(record) for record in records),
            lambda record: _emit(record, outbox.put, console),
            processes,
            outbox,
            source=source,
            output=target,
            console=console,
            ordered=True,
        )
    return FAILED if console.refused or grading.errors else OK


def _emit(record: Record, write: Callable[[Record], None], console: Console) -> None:
    write(record)
    console.advance(failed=not record["score"]["pass"], label=record["id"])
    if console.strict and record.get("graderError"):
        raise StrictStop("stopped at the first grader error (--strict)")


def _batch_size(graders: list[Grader], concurrency: int) -> int:
    """How many records a worker takes at once: few enough that no worker is left without."""
    if not all(grader.streams for grader in graders):
        return 1
    return READ_AHEAD if concurrency == 1 else max(1, READ_AHEAD // (4 * concurrency))


def _undone(batches: Iterator[list[Record]], done: set[str]) -> Iterator[list[Record]]:
    for batch in batches:
        if left := [record for record in batch if record["id"] not in done]:
            yield left
