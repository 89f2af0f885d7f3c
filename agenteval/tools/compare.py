"""ae-compare: results of two runs or more → a comparison report."""

from __future__ import annotations

import math
import os
import time
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from agenteval.command import grader_options, output_option, progress_option, strict_option, tool
from agenteval.comparison import (
    Ask,
    Ranked,
    Strategy,
    Weights,
    add_bootstrap,
    by_grader_score,
    by_rankings,
    compare,
    comparison_payload,
    custom_rankings,
    missing_prompts,
    prompt_ids,
    shared_prompts,
    weighted,
)
from agenteval.console import Console
from agenteval.errors import FAILED, OK, StrictStop, UserError
from agenteval.lightclick import click
from agenteval.records import Record
from agenteval.reports import ComparisonAnswer, ComparisonReport, ReportMeta, StrategyName
from agenteval.runs import ResultFacts, Run, boil_down, label_runs, named_run
from agenteval.stream import BOM, Output, Source, decode_record, encode, read_typed

NAME = "ae-compare"
MARKDOWN = (".md", ".markdown")
ITERATIONS = 1000
FEWEST_ITERATIONS = 100


# --- reading ------------------------------------------------------------------------------------


class NumberedSource(Source):
    """A source that knows the number of the line it handed out last."""

    number = 0

    def lines(self) -> Iterator[list[tuple[int, bytes]]]:
        """One line at a time."""
        for batch in super().lines():
            for numbered in batch:
                self.number = numbered[0]
                yield [numbered]

    def make_seekable(self) -> None:
        """Where the input is a pipe: read it from a copy that has no name and goes with the process."""
        if self.regular:
            return
        import shutil
        import tempfile

        with open(self.fd, "rb", closefd=False) as pipe, tempfile.TemporaryFile() as spool:
            shutil.copyfileobj(pipe, spool)
            spool.flush()
            self.fd, self.regular = os.dup(spool.fileno()), True
        self.rewind()


def read_run(label: str, source: NumberedSource, console: Console, input_format: str) -> Run:
    """The results of one file; a line that cannot be used is reported and passed over."""
    run = Run(label, {})
    for facts in read_typed(source, ResultFacts, console):
        if facts.is_trial():
            if input_format == "auto":
                raise UserError(f"{source.name}:{source.number}: holds trials; results are expected here")
            _refuse(console, source, "a trial, where a result is expected")
        elif facts.id in run.rows:
            _refuse(console, source, f'"id" {facts.id} is there twice; the first one counts')
        else:
            run.rows[facts.id] = boil_down(facts, source.number)
    return run


def read_runs(
    files: Sequence[tuple[str, str]],
    sources: Sequence[NumberedSource],
    console: Console,
    input_format: str,
    *,
    seekable: bool,
) -> list[Run]:
    """All runs, one after the other."""
    if not seekable:  # else the prompts, which take longer, are what is counted
        console.begin(len(files), "runs")
    runs = []
    for (label, _), source in zip(files, sources, strict=True):
        if seekable:
            source.make_seekable()
        runs.append(read_run(label, source, console, input_format))
        if not seekable:
            console.advance(label=f"{label}: {len(runs[-1].rows)} results")
    return runs


def _refuse(console: Console, source: NumberedSource, why: str) -> None:
    console.refuse(f"{source.name}:{source.number}", why)
    if console.strict:
        raise StrictStop("stopped at the first refused record (--strict)")


class Shelf:
    """A file of records, each read again when it is wanted: only line offsets are kept in memory."""

    def __init__(self, source: NumberedSource) -> None:
        self._fd = source.fd
        self._offsets = array("q", [0])
        source.rewind()
        with open(self._fd, "rb", closefd=False) as file:
            for line in file:
                self._offsets.append(self._offsets[-1] + len(line))

    def record(self, number: int) -> Record:
        """The record on that line, from 1."""
        start, end = self._offsets[number - 1 : number + 1]
        return decode_record(os.pread(self._fd, end - start, start).removeprefix(BOM))


# --- settings -----------------------------------------------------------------------------------


def read_weights(environment: Mapping[str, str]) -> Weights:
    """The weights from COMPARE_QUALITY, COMPARE_LATENCY and COMPARE_RELIABILITY."""
    weights = Weights(
        **{
            term: _weight(environment, f"COMPARE_{term.upper()}", default)
            for term, default in Weights()._asdict().items()
        }
    )
    if not sum(weights) > 0:
        raise UserError("COMPARE_QUALITY, COMPARE_LATENCY and COMPARE_RELIABILITY are all 0: one must count")
    return weights


def _weight(environment: Mapping[str, str], name: str, default: float) -> float:
    text = environment.get(name) or str(default)
    try:
        weight = float(text)
    except ValueError:
        weight = math.nan
    if not 0 <= weight < math.inf:
        raise UserError(f"{name} must be a number from 0 up, got {text}")
    return weight


def read_iterations(environment: Mapping[str, str]) -> int:
    """How many resamples COMPARE_BOOTSTRAP_ITERATIONS asks for."""
    text = environment.get("COMPARE_BOOTSTRAP_ITERATIONS") or str(ITERATIONS)
    if not (text.isascii() and text.isdigit() and int(text) >= FEWEST_ITERATIONS):
        raise UserError(
            f"COMPARE_BOOTSTRAP_ITERATIONS must be a whole number of at least {FEWEST_ITERATIONS}, got {text}"
        )
    return int(text)


class Settings(NamedTuple):
    """What the strategy goes by; None where it has no part in it."""

    weights: Weights | None = None
    iterations: int | None = None
    seed: int | None = None


def read_settings(strategy: str, environment: Mapping[str, str], seed: int) -> Settings:
    """Only what this strategy uses is looked at, so that nothing else can be wrong."""
    if strategy == "weighted":
        return Settings(weights=read_weights(environment))
    if strategy == "statistical":
        return Settings(iterations=read_iterations(environment), seed=seed)
    return Settings()


def choose_strategy(strategy: StrategyName | None, grader: str | None) -> StrategyName:
    """The strategy asked for; a grader alone asks for custom."""
    if strategy == "custom" and not grader:
        raise UserError("--strategy custom needs a comparison grader: -g GRADER")
    if grader and strategy not in (None, "custom"):
        raise UserError(f"a comparison grader (-g) has no part in --strategy {strategy}; use --strategy custom")
    return "custom" if grader else strategy or "weighted"


def choose_format(form: str | None, output: str | None) -> str:
    """The form asked for, else what the extension of the output says, else json."""
    return form or ("markdown" if output and output.lower().endswith(MARKDOWN) else "json")


# --- the work -----------------------------------------------------------------------------------


def comparison_grader(text: str, *, stream: bool, concurrency: int, timeout: float) -> Ask:
    """The grader, loaded, as a function from payloads to answers."""
    from agenteval.grading import Failure, open_graders, parse_grader
    from agenteval.pool import Pool
    from agenteval.processes import Processes

    spec = parse_grader(text, stream=stream)
    processes = Processes(concurrency)
    try:
        [grader] = open_graders([spec], processes, timeout=timeout, kind=ComparisonAnswer)
    except UserError:
        processes.close()
        raise

    def work(worker: int, payload: Record) -> Iterator[object]:
        for verdict in grader.verdicts(worker, [encode(payload)]):
            yield verdict.reason if isinstance(verdict, Failure) else verdict

    def ask(payloads: Iterator[Record], answered: Callable[[object], None]) -> None:
        try:
            Pool(work, answered, workers=processes.concurrency, ordered=True).run(payloads)
            grader.finish()
        finally:
            processes.close()

    return ask


def ask_about(runs: Sequence[Run], sources: Sequence[NumberedSource], ask: Ask, console: Console) -> dict[str, Ranked]:
    """Every shared prompt put to the comparison grader; failures are said and counted."""
    shelves = {run.label: Shelf(source) for run, source in zip(runs, sources, strict=True)}
    payloads = (
        comparison_payload(id, {label: shelves[label].record(row.line) for label, row in rows.items()})
        for id, rows in shared_prompts(runs)
    )
    rankings: dict[str, Ranked] = {}

    def emit(id: str, ranked: Ranked) -> None:
        rankings[id] = ranked
        console.advance(failed=ranked.error is not None, label=id)
        if ranked.error is not None:
            console.refuse(id, ranked.error)
            if console.strict:
                raise StrictStop("stopped at the first failure of the grader (--strict)")

    console.begin(sum(1 for _ in shared_prompts(runs)))
    custom_rankings(payloads, ask, emit)
    return rankings


def make_strategy(name: str, settings: Settings, rankings: Mapping[str, Ranked]) -> Strategy:
    """How that strategy sees a prompt."""
    if settings.weights:
        return weighted(settings.weights)
    return by_rankings(rankings) if name == "custom" else by_grader_score()


def describe(runs: Sequence[Run], strategy: StrategyName, settings: Settings, now: float) -> ReportMeta:
    """The report's meta: what was compared, and all that is needed to do it again."""
    ids = prompt_ids(runs)
    return ReportMeta(
        generated_at=time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now)) + f".{int(now % 1 * 1000):03}Z",
        runs=[run.label for run in runs],
        prompt_count=len(ids),
        prompts_with_all_runs=sum(all(id in run.rows for run in runs) for id in ids),
        missing=missing_prompts(runs),
        strategy=strategy,
        weights=settings.weights._asdict() if settings.weights else None,
        bootstrap_iterations=settings.iterations,
        seed=settings.seed,
    )


def say_missing(meta: ReportMeta, console: Console) -> None:
    """One line on stderr where some run lacks prompts that another has."""
    if meta.missing:
        lacks = ", ".join(f"{label} lacks {len(ids)}" for label, ids in meta.missing.items())
        left_out = meta.prompt_count - meta.prompts_with_all_runs
        console.say(
            f"{left_out} of {meta.prompt_count} prompts are not in every run: {lacks} (meta.missing names them)"
        )


def render(report: ComparisonReport, form: str) -> bytes:
    """The report as it is written."""
    if form == "json":
        return msgspec.json.format(encode(report), indent=2) + b"\n"
    from agenteval.report.comparison import markdown

    return markdown(report).encode()


@tool(NAME)
@click.argument("paths", metavar="RUN...", nargs=-1)
@click.option("--run", "labelled", metavar="LABEL:PATH", multiple=True, help="One more run, with a name of its own.")
@click.option(
    "-s",
    "--strategy",
    type=click.Choice(["weighted", "statistical", "custom"]),
    help="How a prompt is won.  [default: weighted; custom with -g]",
)
@click.option("-g", "--grader", metavar="GRADER", help="Comparison grader of the custom strategy.")
@grader_options
@click.option(
    "-f",
    "--format",
    "form",
    type=click.Choice(["json", "markdown"]),
    help="[default: json; markdown where -o ends in .md]",
)
@output_option
@click.option(
    "--input-format", type=click.Choice(["auto", "capture", "trials"]), default="auto", help="What the files hold."
)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Seed of the bootstrap.")
@progress_option
@strict_option
def main(
    paths: tuple[str, ...],
    labelled: tuple[str, ...],
    strategy: StrategyName | None,
    grader: str | None,
    stream: bool,
    concurrency: int,
    timeout: float,
    form: str | None,
    output: str | None,
    input_format: str,
    seed: int,
    progress: bool | None,
    strict: bool,
    debug: bool,
) -> int:
    """Compare runs of the same prompts: which one is better, and is it luck.

    Each RUN is a file of results (ae-capture, ae-grade), or - for stdin; results are joined by `id`. The
    report holds each run's quality, latency and reliability, who won which prompt, and for every two
    runs the paired difference of their scores with a 95 % interval, McNemar's exact test, the smallest
    difference that so many prompts could have shown, and a verdict in words. A record that was not
    graded, or whose grader failed, is counted but has no part in any mean.

    A run is called by its file's name unless it is given as LABEL:PATH.

    Strategies, which say who wins a prompt:
      weighted     score, speed and freedom from errors; weights from COMPARE_QUALITY (0.5),
                   COMPARE_LATENCY (0.3) and COMPARE_RELIABILITY (0.2)
      statistical  the grader's score; adds bootstrap intervals (COMPARE_BOOTSTRAP_ITERATIONS, 1000)
      custom       a comparison grader (-g), given {id, input, hint, metadata, runs: {LABEL: {output,
                   trajectory, score, duration, toolErrors}}}, answers {rankings: [{run, rank, score}],
                   reasoning}

    Examples:
      ae-compare careful.jsonl hasty.jsonl -o report.md
      ae-compare --run old:a/results.jsonl --run new:b/results.jsonl -s statistical --seed 7
      ae-compare a.jsonl b.jsonl -g ./judge.py -j 4 -o report.md
      ae-compare a.jsonl b.jsonl c.jsonl | jq -r '.statistics.pairs[] | [.runA, .runB, .verdict] | @tsv'
    """
    strategy = choose_strategy(strategy, grader)
    if input_format == "trials":
        raise UserError("--input-format trials: trials are not compared yet; results are expected")
    named = [named_run(text, labelled=False) for text in paths] + [named_run(text, labelled=True) for text in labelled]
    files = label_runs(named)
    console = Console(NAME, progress=progress, strict=strict, output=output)
    settings = read_settings(strategy, os.environ, seed)
    sources = [NumberedSource(path) for _, path in files]
    out = Output(output, inputs=sources, lazy=True)
    ask = comparison_grader(grader, stream=stream, concurrency=concurrency, timeout=timeout) if grader else None
    runs = read_runs(files, sources, console, input_format, seekable=ask is not None)
    out.open()
    meta = describe(runs, strategy, settings, time.time())
    say_missing(meta, console)
    rankings = ask_about(runs, sources, ask, console) if ask else {}
    if ask:
        meta.grader_errors = sum(ranked.error is not None for ranked in rankings.values())
    report = compare(runs, make_strategy(strategy, settings, rankings), meta)
    if settings.iterations is not None:
        add_bootstrap(report, runs, settings.iterations, seed)
    console.finish()
    out.write_bytes(render(report, choose_format(form, output)))
    out.close()
    return FAILED if console.refused else OK
