"""ae-compare: results or trials of two runs or more → a comparison report."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from agenteval.cli.options import (
    grader_options,
    output_option,
    progress_option,
    seed_option,
    strict_option,
)
from agenteval.cli.report_options import form_option
from agenteval.cli.startup import click
from agenteval.cli.tool import tool
from agenteval.comparison.comparison import CompareSettings, Comparison
from agenteval.comparison.input_files import RunSource, find_format, read_runs
from agenteval.comparison.pairing import RunRows, missing_prompts, prompt_ids
from agenteval.comparison.preference.preference import remarks as preference_remarks
from agenteval.comparison.ranking import Ask, rank_prompts
from agenteval.comparison.run_names import label_runs, named_run
from agenteval.errors import FAILED, OK, UserError
from agenteval.reports.forms import ReportForms
from agenteval.streams.console import Console
from agenteval.streams.jsonl import encode
from agenteval.streams.output import Output
from agenteval.streams.redaction import Redactor
from agenteval.wire.comparison import ComparisonAnswer, StrategyName
from agenteval.wire.records import Record

NAME = "ae-compare"
FORMS = ReportForms("comparison")
ITERATIONS = 1000
FEWEST_ITERATIONS = 100


# --- settings -----------------------------------------------------------------------------------


def read_weights(environment: Mapping[str, str], defaults: Mapping[str, float]) -> dict[str, float]:
    """The weight of each term: COMPARE_ and its name in the environment, else the default."""
    names = {term: f"COMPARE_{term.upper()}" for term in defaults}
    weights = {term: _weight(environment, name, defaults[term]) for term, name in names.items()}
    if not sum(weights.values()) > 0:
        raise UserError(f"{', '.join(names.values())} are all 0: one must count")
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


def read_settings(
    strategy: StrategyName, comparison: Comparison[Any], environment: Mapping[str, str], seed: int
) -> CompareSettings:
    """The settings of the strategy; variables that it does not use are not read, so they cannot be wrong."""
    if strategy == "weighted":
        return CompareSettings(strategy, weights=read_weights(environment, comparison.default_weights))
    if strategy == "statistical":
        return CompareSettings(strategy, iterations=read_iterations(environment), seed=seed)
    return CompareSettings(strategy)


def choose_strategy(strategy: StrategyName | None, grader: str | None) -> StrategyName:
    """The strategy asked for; custom if there is only a grader."""
    if strategy == "custom" and not grader:
        raise UserError("--strategy custom needs a comparison grader: -g GRADER")
    if grader and strategy not in (None, "custom"):
        raise UserError(f"a comparison grader (-g) has no part in --strategy {strategy}; use --strategy custom")
    return "custom" if grader else strategy or "weighted"


def comparison_of(input_format: str) -> Comparison[Any]:
    """The comparison of that kind of record; the other kind is not imported."""
    if input_format == "trials":
        from agenteval.comparison.trials import TrialsComparison

        return TrialsComparison()
    from agenteval.comparison.results import ResultsComparison

    return ResultsComparison()


# --- the work -----------------------------------------------------------------------------------


def comparison_grader(text: str, *, stream: bool, concurrency: int, timeout: float, redact: Redactor) -> Ask:
    """Loads the grader; returns a function that asks it."""
    from agenteval.cli.grader_run import named_graders
    from agenteval.grading.graders import open_graders
    from agenteval.grading.verdict import GraderError
    from agenteval.processes.supervisor import ProcessSupervisor
    from agenteval.processes.worker_pool import Pool

    specs = named_graders([text], stream=stream)
    processes = ProcessSupervisor(concurrency)
    try:
        [grader] = open_graders(specs, processes, timeout=timeout, kind=ComparisonAnswer)
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


def say_missing(runs: Sequence[RunRows[Any]], console: Console) -> None:
    """Reports in one line which runs lack prompts that another has."""
    missing = missing_prompts(runs)
    if missing:
        lacks = ", ".join(f"{label} lacks {len(ids)}" for label, ids in missing.items())
        left_out = len(set().union(*missing.values()))
        total = len(prompt_ids(runs))
        console.say(f"{left_out} of {total} prompts are not in every run: {lacks} (meta.missing names them)")


@tool(NAME)
@click.argument("paths", metavar="RUN...", nargs=-1)
@click.option("--run", "labelled", metavar="LABEL:PATH", multiple=True, help="One more run, with this name.")
@click.option(
    "-s",
    "--strategy",
    type=click.Choice(["weighted", "statistical", "custom"]),
    help="How a prompt is won.  [default: weighted, or custom with -g]",
)
@click.option("-g", "--grader", metavar="GRADER", help="Comparison grader of the custom strategy.")
@click.option("--one-order", is_flag=True, help="Ask the comparison grader once per prompt, not in both orders.")
@grader_options
@form_option(FORMS, "json")
@output_option
@click.option(
    "--input-format", type=click.Choice(["auto", "capture", "trials"]), default="auto", help="What the files hold."
)
@seed_option("bootstrap")
@click.option(
    "--fail-if-worse",
    is_flag=True,
    help="Exit 1 if a run is shown to be worse than the first or, of trials, its pass^k is lower.",
)
@progress_option
@strict_option
def main(
    paths: tuple[str, ...],
    labelled: tuple[str, ...],
    strategy: StrategyName | None,
    grader: str | None,
    one_order: bool,
    stream: bool,
    concurrency: int,
    timeout: float,
    no_redact: bool,
    form: str | None,
    output: str | None,
    input_format: str,
    seed: int,
    fail_if_worse: bool,
    progress: bool | None,
    strict: bool,
    debug: bool,
) -> int:
    """Compare runs of the same prompts: which one is better, and is it luck.

    Each RUN is a file of results (ae-capture, ae-grade) or of trials (ae-trials), or - for stdin; the
    first record shows which, and all must be of one kind. Records are joined by `id`. The report has
    the figures of each run, who won which prompt, and for every two runs the paired difference with
    its 95 % interval, the smallest difference that this many prompts would show, and a verdict in
    words. Records without a grade, or whose grader erred, are counted but are in no mean.

    Of results: quality, latency, reliability; the difference of scores, and McNemar's exact test.
    Of trials: capability (passAtK), reliability (passExpK), flakiness with the most flaky prompts,
    quality, latency; the difference of pass rates and of scores. The trials of a prompt are a cluster:
    they count as one prompt, not as k. A trial whose agent failed counts as not passed.

    A run has the name of its file unless it is given as LABEL:PATH.

    Strategies, by which a prompt is won:
      weighted     results: score, speed and freedom from errors, weighted by COMPARE_QUALITY (0.5),
                   COMPARE_LATENCY (0.3) and COMPARE_RELIABILITY (0.2);
                   trials: passAtK, passExpK and 1 - flakiness, weighted by COMPARE_CAPABILITY (0.4),
                   COMPARE_RELIABILITY (0.4) and COMPARE_CONSISTENCY (0.2)
      statistical  results: score; trials: pass rate. Adds bootstrap intervals that resample prompts
                   (COMPARE_BOOTSTRAP_ITERATIONS, 1000)
      custom       a comparison grader (-g). It gets {id, input, hint, metadata, runs: {LABEL: RUN}},
                   where RUN is {output, trajectory, score, duration, toolErrors} or, of trials,
                   {passRate, passAtK, passExpK, k, trials}, and answers
                   {rankings: [{run, rank, score}], reasoning}. Each prompt is asked twice, the second time
                   with the runs in reverse order (--one-order turns that off): an answer that depends on
                   the order is a tie, and the report has how often. Wins get a sign test, adjusted by Holm,
                   and three runs or more Bradley-Terry strengths

    Examples:
      ae-compare careful.jsonl hasty.jsonl -o report.md
      ae-compare old-trials.jsonl new-trials.jsonl -o report.md
      ae-compare --run old:a/results.jsonl --run new:b/results.jsonl -s statistical --seed 7
      ae-compare a.jsonl b.jsonl -g ./judge.py -j 4 -o report.md
      ae-compare baseline.jsonl now.jsonl --fail-if-worse -o report.md
      ae-compare a.jsonl b.jsonl c.jsonl | jq -r '.statistics.pairs[] | [.runA, .runB, .verdict] | @tsv'
    """
    strategy = choose_strategy(strategy, grader)
    named = [named_run(text, labelled=False) for text in paths] + [named_run(text, labelled=True) for text in labelled]
    files = label_runs(named)
    console = Console(NAME, progress=progress, strict=strict, output=output)
    sources = [RunSource(path) for _, path in files]
    out = Output(output, inputs=sources, lazy=True)
    console.redact = redact = Redactor({} if no_redact else os.environ)
    ask = None
    if grader:
        ask = comparison_grader(grader, stream=stream, concurrency=concurrency, timeout=timeout, redact=redact)
    if ask:
        for source in sources:
            source.make_seekable()
    comparison = comparison_of(find_format(sources, input_format))
    settings = read_settings(strategy, comparison, os.environ, seed)
    runs = read_runs([label for label, _ in files], sources, console, comparison, counted=ask is None)
    out.open()
    say_missing(runs, console)
    rankings = rank_prompts(runs, sources, comparison.payload, ask, console, reverse=not one_order) if ask else None
    report = comparison.compare(runs, settings, rankings, time.time())
    for remark in [*comparison.remarks(report), *(preference_remarks(report.preference) if rankings else ())]:
        console.say(remark)
    console.finish()
    FORMS.write(FORMS.choose(form, output, "json"), report, out)
    worse = comparison.worse(report) if fail_if_worse else []
    for line in worse:
        console.say(line)
    return FAILED if console.refused or worse else OK
