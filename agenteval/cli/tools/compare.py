"""ae-compare: results or trials of two runs or more → a comparison report."""

import math
import os
import time
from collections.abc import Mapping, Sequence
from typing import Any

import click

from agenteval.cli.options import (
    NumberRange,
    grader_options,
    number_in,
    output_option,
    progress_option,
    seed_option,
    strict_grading_option,
)
from agenteval.cli.report_options import form_option, refuse_ignored
from agenteval.cli.tool import tool
from agenteval.comparison.comparison import CompareSettings, Comparison, remarks
from agenteval.comparison.pairing import missing_prompts, prompt_ids, without_changed_inputs
from agenteval.comparison.preference import rank_prompts
from agenteval.comparison.preference import remarks as preference_remarks
from agenteval.comparison.rows import RowOptions, RunRows, RunSource, find_format, label_runs, named_runs, read_runs
from agenteval.comparison.verdicts import GateSettings, gate_reasons, summary_line
from agenteval.errors import FAILED, OK, UserError
from agenteval.grading.run import comparison_grader
from agenteval.reports.forms import ReportForms
from agenteval.streams.console import Console
from agenteval.streams.output import Output
from agenteval.streams.redaction import Redactor
from agenteval.streams.rows import KeyUse
from agenteval.streams.text import counted, first_few, whole_number
from agenteval.wire.comparison import StrategyName

NAME = "ae-compare"
EXIT_1 = (
    "finished, but some lines were refused, graders erred, or the gate (--fail-if-worse, --require-proof) does not hold"
)
FORMS = ReportForms("comparison")
ITERATIONS = 1000
FEWEST_ITERATIONS = 100
CHANGED_SHOWN = 5


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
    weight = number_in(text)
    if not 0 <= weight < math.inf:
        raise UserError(f"{name} must be a number from 0 up, got {text}")
    return weight


def read_iterations(environment: Mapping[str, str]) -> int:
    """How many resamples COMPARE_BOOTSTRAP_ITERATIONS asks for."""
    text = environment.get("COMPARE_BOOTSTRAP_ITERATIONS") or str(ITERATIONS)
    number = whole_number(text)
    if number is None or number < FEWEST_ITERATIONS:
        raise UserError(
            f"COMPARE_BOOTSTRAP_ITERATIONS must be a whole number of at least {FEWEST_ITERATIONS}, got {text}"
        )
    return number


def read_settings(
    strategy: StrategyName, comparison: Comparison, environment: Mapping[str, str], seed: int
) -> CompareSettings:
    """The settings of the strategy; variables that it does not use are not read, so they cannot be wrong."""
    if strategy == "weighted":
        return CompareSettings(strategy, weights=read_weights(environment, comparison.default_weights))
    if strategy == "statistical":
        return CompareSettings(strategy, iterations=read_iterations(environment), seed=seed)
    return CompareSettings(strategy)


def choose_strategy(strategy: StrategyName | None, grader: str | None, one_order: bool) -> StrategyName:
    """The strategy asked for; custom if there is only a grader."""
    if strategy == "custom" and not grader:
        raise UserError("--strategy custom needs a comparison grader: -g GRADER")
    if one_order and not grader:
        raise UserError("--one-order is about a comparison grader: leave it out, or add -g GRADER")
    if grader and strategy not in (None, "custom"):
        raise UserError(f"a comparison grader (-g) has no part in --strategy {strategy}; use --strategy custom")
    return "custom" if grader else strategy or "weighted"


# --- the work -----------------------------------------------------------------------------------


def page_wishes(runs: Sequence[RunRows], sources: Sequence[RunSource], by: str, console: Console) -> dict[str, Any]:
    """What a page needs besides the report: the records, read again when they are written."""
    from agenteval.reports.comparison.html import prompt_lines

    source = ", ".join(source.name for source in sources)
    return {"prompts": prompt_lines(runs, sources), "by": by, "source": source, "say": console.say}


def say_missing(runs: Sequence[RunRows], console: Console) -> None:
    """Reports in one line which runs lack prompts that another has."""
    missing = missing_prompts(runs)
    if missing:
        lacks = ", ".join(f"{label} lacks {len(ids)}" for label, ids in missing.items())
        left_out = len(set().union(*missing.values()))
        total = len(prompt_ids(runs))
        console.say(f"{left_out} of {total} prompts are not in every run: {lacks} (meta.missing names them)")
    for run in runs:
        if run.changed:
            console.say(
                f"{run.label}: {counted(len(run.changed), 'prompt')} with another input than before left out: "
                f"{first_few(run.changed, CHANGED_SHOWN)} (--ignore-input compares them all the same)"
            )


@tool(NAME, exit_status={1: EXIT_1})
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
@form_option(FORMS, "table on a terminal, json elsewhere")
@output_option
@click.option(
    "--input-format", type=click.Choice(["auto", "capture", "trials"]), default="auto", help="What the files hold."
)
@seed_option("bootstrap")
@click.option("--by", metavar="KEY", help="Key below metadata: a breakdown by it.  [default: category]")
@click.option("--cluster-by", metavar="KEY", help="Key below metadata: prompts that share its value belong together.")
@click.option("--ignore-input", is_flag=True, help="Compare prompts of one id although their input differs.")
@click.option("--fail-if-worse", is_flag=True, help="Exit 1 if a run is shown to be worse than the first.")
@click.option("--require-proof", is_flag=True, help="Exit 1 also if a run is not shown to be at most --margin worse.")
@click.option(
    "--margin",
    metavar="D",
    type=NumberRange(0, 1),
    default=0.05,
    help="How much lower a pass rate may be and still count as no worse.",
)
@click.option(
    "--min-compared",
    metavar="SHARE",
    type=NumberRange(0, 1),
    default=0.9,
    help="Share of the first run's graded prompts that must be compared, else the gate exits 1.",
)
@progress_option
@strict_grading_option
def main(
    paths: tuple[str, ...],
    labelled: tuple[str, ...],
    strategy: StrategyName | None,
    grader: str | None,
    one_order: bool,
    no_redact: bool,
    form: str | None,
    output: str | None,
    input_format: str,
    seed: int,
    by: str | None,
    cluster_by: str | None,
    ignore_input: bool,
    fail_if_worse: bool,
    require_proof: bool,
    margin: float,
    min_compared: float,
    progress: bool | None,
    strict: bool,
    debug: bool,
    **grading: Any,
) -> int:
    """Compare runs of the same prompts: which one is better, and is it luck.

    Each RUN is a file of results (ae-capture, ae-grade) or of trials (ae-trials), or - for stdin; the
    first record shows which, and all must be of one kind. Records are joined by `id`; a prompt whose
    `input` has changed is reported and left out. The report has a verdict in sentences for every two
    runs: passes first, then scores, then time, tokens and cost, each with its 95 % interval and over
    the prompts that both have. With three runs or more, verdicts are adjusted for the number of tests
    (Holm). Then the figures of each run with their intervals, by category, and who won which prompt.
    Records without a grade, or whose grader erred, are counted but are in no mean.

    Of trials: pass rate, pass@k and pass^k, unbiased, over the prompts that have so many trials. The
    trials of a prompt are a cluster: they count as one prompt, not as k. An agent that failed has not
    passed. docs/statistics.md explains every figure.

    The gate, for CI: --fail-if-worse exits 1 if the pass rate of a run (of trials also pass^k, at the
    smaller k) is shown to be lower than that of the first run: the upper bound of the difference is
    below 0. --require-proof also exits 1 unless it is shown to be at most --margin lower. Either exits
    1 if less than --min-compared of the first run's graded prompts are graded in both.

    A run has the name of its file unless it is given as LABEL:PATH.

    Forms:
      {forms}

    On a terminal the form is table: better, worse or cannot tell, both pass rates, by how much, how
    sure, how many prompts would settle it, tokens and cost, and the prompts that changed sides. With
    -o FILE the verdict is one line on stderr.

    Strategies, by which a prompt is won:
      weighted     results: score, speed and freedom from errors, weighted by COMPARE_QUALITY (0.5),
                   COMPARE_LATENCY (0.3) and COMPARE_RELIABILITY (0.2); headToHead.quality has the wins by grade alone;
                   trials: passAtK, passExpK and 1 - flakiness, weighted by COMPARE_CAPABILITY (0.4),
                   COMPARE_RELIABILITY (0.4) and COMPARE_CONSISTENCY (0.2)
      statistical  results: score; trials: pass rate. Adds the bootstrap interval of the mean latency,
                   prompts resampled (COMPARE_BOOTSTRAP_ITERATIONS, 1000)
      custom       a comparison grader (-g). It gets {id, input, hint, metadata, runs: {LABEL: RUN}},
                   where RUN is {output, trajectory, score, duration, toolErrors} or, of trials,
                   {passRate, passAtK, passExpK, k, trials}, and answers
                   {rankings: [{run, rank, score}], reasoning}. Each prompt is asked twice, the second time
                   with the runs in reverse order (--one-order turns that off): an answer that depends on
                   the order is a tie, and the report has how often. Wins get a sign test, adjusted by Holm,
                   and three runs or more Bradley-Terry strengths

    Examples:
      ae-compare careful.jsonl hasty.jsonl
      ae-compare careful.jsonl hasty.jsonl -o report.md
      ae-compare baseline.jsonl now.jsonl -o report.html  # what flipped, with both trajectories
      ae-compare --run old:a/results.jsonl --run new:b/results.jsonl -s statistical --seed 7
      ae-compare a.jsonl b.jsonl -g ./judge.py -j 4 -o report.md
      ae-compare baseline.jsonl now.jsonl --fail-if-worse --by difficulty -o report.md
      ae-compare a.jsonl b.jsonl c.jsonl | jq -r '.statistics.pairs[] | [.runA, .runB, .verdict] | @tsv'
    """
    strategy = choose_strategy(strategy, grader, one_order)
    files = label_runs(named_runs(paths, labelled))
    console = Console(NAME, progress=progress, strict=strict, output=output)
    form = FORMS.choose(form, output, "table" if output in (None, "-") and os.isatty(1) else "json")
    refuse_ignored(form, {"--by": by is not None}, {"--by": ("html", "json", "markdown")})
    sources = [RunSource(path) for _, path in files]
    for source in sources if form == "html" or grader else ():
        source.make_seekable()  # records are read again
    out = Output(output, inputs=sources, lazy=True)
    console.redact = redact = Redactor(None if no_redact else os.environ)
    grading |= {"redact": redact, "trace": console.say if debug else None}
    ask = comparison_grader(grader, **grading) if grader else None
    keys = {"--by": by, "--cluster-by": cluster_by}
    uses = [KeyUse(option, key) for option, key in keys.items() if key]
    by = by or "category"
    options, trials = RowOptions(by, cluster_by), find_format(sources, input_format) == "trials"
    comparison = Comparison(trials=trials, options=options)
    settings = read_settings(strategy, comparison, os.environ, seed)._replace(margin=margin)
    opened = [(label, source) for (label, _), source in zip(files, sources, strict=True)]
    runs = read_runs(opened, console, trials=trials, options=options, counted=ask is None, uses=uses)
    runs = runs if ignore_input else without_changed_inputs(runs)
    out.open()
    say_missing(runs, console)
    rankings = rank_prompts(runs, sources, comparison.payload, ask, console, reverse=not one_order) if ask else None
    report = comparison.compare(runs, settings, rankings, time.time())
    for remark in [*remarks(report), *(preference_remarks(report.preference) if report.preference else ())]:
        console.say(remark)
    console.finish()
    wishes = page_wishes(runs, sources, by, console) if form == "html" else {}
    FORMS.write(form, report, out, **wishes)
    if out.path is not None:
        console.say(summary_line(report))
    gated = fail_if_worse or require_proof
    reasons = gate_reasons(report, GateSettings(require_proof, margin, min_compared)) if gated else []
    reasons += [complaint for use in uses if (complaint := use.complaint())]
    for reason in reasons:
        console.say(reason)
    return FAILED if console.refused or reasons else OK
