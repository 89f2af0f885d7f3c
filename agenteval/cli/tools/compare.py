"""ae-compare: results or trials of two runs or more → a comparison report."""

import math
import os
import time
from collections.abc import Mapping, Sequence
from typing import Any

import click
from click.core import ParameterSource

from agenteval.cli.options import (
    NumberRange,
    Parsed,
    grader_options,
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
from agenteval.streams.text import counted, first_few, number_in, whole_number
from agenteval.wire.comparison import StrategyName

NAME = "ae-compare"
EXIT_1 = (
    "finished, but some lines were refused, graders erred, the gate (--fail-if-worse, --require-proof) failed, or no "
    "record has the key given with --by"
)
FORMS = ReportForms("comparison")
BRIEF = ("table", "svg")  # show no categories, and not which run won which prompt
ITERATIONS = 1000
FEWEST_ITERATIONS = 100
CHANGED_SHOWN = 5


# --- settings -----------------------------------------------------------------------------------


def read_weights(environment: Mapping[str, str], defaults: Mapping[str, float]) -> dict[str, float]:
    """Returns the weight of each term, from COMPARE_TERM in the environment, else the default."""
    names = {term: f"COMPARE_{term.upper()}" for term in defaults}
    weights = {term: _weight(environment, name, defaults[term]) for term, name in names.items()}
    if not sum(weights.values()) > 0:
        raise UserError(f"{', '.join(names.values())} are all 0: at least one must be above 0")
    return weights


def _weight(environment: Mapping[str, str], name: str, default: float) -> float:
    text = environment.get(name) or str(default)
    weight = number_in(text)
    if not 0 <= weight < math.inf:
        raise UserError(f"{name} must be a number, 0 or more, got {text}")
    return weight


def read_iterations(environment: Mapping[str, str]) -> int:
    """Returns the number of resamples in COMPARE_BOOTSTRAP_ITERATIONS, else the default."""
    text = environment.get("COMPARE_BOOTSTRAP_ITERATIONS") or str(ITERATIONS)
    number = whole_number(text)
    if number is None or number < FEWEST_ITERATIONS:
        raise UserError(
            f"COMPARE_BOOTSTRAP_ITERATIONS must be a whole number of at least {FEWEST_ITERATIONS}, got {text}"
        )
    return number


def parse_measure(text: str) -> str:
    """Returns the measure of --on; raises ValueError, which lists the measures, for anything else."""
    exponent = text.removeprefix("pass^")
    if text in ("passes", "score") or (exponent != text and (exponent == "K" or whole_number(exponent))):
        return text
    raise ValueError(f"{text!r} is not a measure; choose passes, score, pass^K, or pass^ with a number of trials")


def refuse_idle(idle: Mapping[str, str]) -> None:
    """Raises UserError for an option on the command line that has no effect without another; `idle` names both."""
    context = click.get_current_context()
    for param in context.command.params:
        name = param.name or ""
        if name in idle and context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            raise UserError(f"{param.opts[-1]} has no effect without {idle[name]}: leave it out, or add {idle[name]}")


def read_settings(
    strategy: StrategyName, comparison: Comparison, environment: Mapping[str, str], seed: int
) -> CompareSettings:
    """Returns the settings of the strategy; variables that it does not use are not read, so they may be invalid."""
    if strategy == "weighted":
        return CompareSettings(strategy, weights=read_weights(environment, comparison.default_weights))
    if strategy == "statistical":
        return CompareSettings(strategy, iterations=read_iterations(environment), seed=seed)
    return CompareSettings(strategy)


def choose_strategy(strategy: StrategyName | None, grader: str | None, one_order: bool) -> StrategyName:
    """Returns the strategy that was asked for; custom if only a grader is given."""
    if strategy == "custom" and not grader:
        raise UserError("--strategy custom needs a comparison grader: -g GRADER")
    if one_order and not grader:
        raise UserError("--one-order needs a comparison grader: leave it out, or add -g GRADER")
    if grader and strategy not in (None, "custom"):
        raise UserError(f"--strategy {strategy} does not use a comparison grader (-g); use --strategy custom")
    return "custom" if grader else strategy or "weighted"


def chosen_pair(files: Sequence[tuple[str, str]], pair: tuple[str, str]) -> list[tuple[str, str]]:
    """Returns the two runs that --pair names by label or path, in its order."""
    found = []
    for asked in pair:
        run = next((one for one in files if one[0] == asked), None) or next(
            (one for one in files if one[1] == asked), None
        )
        if run is None:
            raise UserError(f"--pair {asked}: no such run; the runs are {', '.join(label for label, _ in files)}")
        found.append(run)
    if found[0] == found[1]:
        raise UserError(f"--pair: {pair[0]} and {pair[1]} are the same run; name two")
    return found


# --- the work -----------------------------------------------------------------------------------


def page_wishes(runs: Sequence[RunRows], sources: Sequence[RunSource], by: str, console: Console) -> dict[str, Any]:
    """Returns what a page needs besides the report: the records, which are read again when they are written."""
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
        console.say(f"{left_out} of {total} prompts are not in every run: {lacks} (-f json lists them in meta.missing)")
    for run in runs:
        if run.changed:
            console.say(
                f"{run.label}: left out {counted(len(run.changed), 'prompt')} with a different input: "
                f"{first_few(run.changed, CHANGED_SHOWN)} (--ignore-input compares them anyway)"
            )


@tool(NAME, exit_status={1: EXIT_1})
@click.argument("paths", metavar="RUN...", nargs=-1)
@click.option(
    "--run",
    "labelled",
    metavar="LABEL:PATH",
    multiple=True,
    help="Add the run in PATH under the name LABEL; repeatable.",
)
@click.option(
    "--pair",
    metavar="A B",
    nargs=2,
    help="Compare only these two of the runs, by name or path, as if no others were given.",
)
@click.option(
    "-s",
    "--strategy",
    type=click.Choice(["weighted", "statistical", "custom"]),
    help="How to decide which run wins a prompt.  [default: weighted, or custom with -g]",
)
@click.option("-g", "--grader", metavar="GRADER", help="Comparison grader for the custom strategy.")
@click.option("--one-order", is_flag=True, help="Ask the comparison grader once per prompt, not in both orders.")
@grader_options
@form_option(FORMS, "json")
@output_option
@click.option(
    "--input-format", type=click.Choice(["auto", "capture", "trials"]), default="auto", help="What the files contain."
)
@seed_option("bootstrap")
@click.option("--by", metavar="KEY[,KEY]", help="Break the figures down by this metadata key.  [default: category]")
@click.option("--cluster-by", metavar="KEY", help="Metadata key: prompts with the same value are a cluster.")
@click.option("--ignore-input", is_flag=True, help="Compare prompts with the same id even if their input differs.")
@click.option(
    "--on",
    metavar="MEASURE",
    type=Parsed("measure", parse_measure),
    default="passes",
    help="What decides the headline and the gate: passes, score, pass^K, or pass^ with a number of trials.",
)
@click.option("--fail-if-worse", is_flag=True, help="Exit 1 if the headline says that a run is worse than the first.")
@click.option("--require-proof", is_flag=True, help="Also exit 1 if a run is not shown to be at most --margin worse.")
@click.option(
    "--margin",
    metavar="D",
    type=NumberRange(0, 1),
    default=0.05,
    help="How much lower a pass rate or score may be and still count as no worse.",
)
@click.option(
    "--margin-exp", metavar="D", type=NumberRange(0, 1), default=0.1, help="The same for pass^k, with --on pass^K."
)
@click.option(
    "--missing",
    type=click.Choice(["fail", "skip"]),
    help="Count a prompt that another run lacks as not passed, or leave it out.  [default: fail in a gate]",
)
@click.option(
    "--min-compared",
    metavar="SHARE",
    type=NumberRange(0, 1),
    default=0.9,
    help="Share of the first run's graded prompts that must be comparable, or the gate exits 1.",
)
@click.option("--prompts", is_flag=True, help="Also list which prompts separate the runs, and which reveal nothing.")
@progress_option
@strict_grading_option
def main(
    paths: tuple[str, ...],
    labelled: tuple[str, ...],
    pair: tuple[str, str] | None,
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
    on: str,
    fail_if_worse: bool,
    require_proof: bool,
    margin: float,
    margin_exp: float,
    missing: str | None,
    min_compared: float,
    prompts: bool,
    progress: bool | None,
    strict: bool,
    debug: bool,
    **grading: Any,
) -> int:
    """Compare runs of the same prompts: which one is better, and could it be chance?

    Each RUN is a file of results (ae-capture, ae-grade) or of trials (ae-trials), or - for stdin; the first record
    shows which, and all must be of the same kind. Records are joined by `id`; a prompt whose `input` has changed is
    reported and left out. The report gives a verdict for every pair of runs, then what it is based on: passes,
    scores, time, tokens and cost, each with its 95% interval over the prompts that both runs have. Then come the
    figures of each run with their intervals, by category, and which run won which prompt. Records without a grade, or
    whose grader erred, are counted, but are part of no pass rate or score.

    One measure decides the headline and the gate: passes, or the pass rate for trials. --on score or --on 'pass^K'
    selects another; choose it before you see the data. The other measures are reported, but do not change the verdict.

    Three or more runs are ranked by that measure, each with the range of ranks that the verdicts leave open, cost,
    cost per pass and median time. Then come the Pareto front of quality and cost (runs that no other beats in both),
    all pairs of runs, and every prompt in all runs, hardest first. Verdicts and intervals are adjusted for
    the number of pairs (Holm). --pair A B compares two of the runs alone, without that adjustment.

    For trials: pass rate, and unbiased pass@k and pass^k over the prompts that have that many trials. The trials of a
    prompt are a cluster: they count as one prompt, not as k. A failed agent counts as not passed. docs/statistics.md
    explains every figure.

    The gate, for CI: --fail-if-worse exits 1 if the headline says that a run is worse than the first one.
    --require-proof also exits 1 unless the run is shown to be at most --margin worse. In a gate, a prompt that the
    first run has and another lacks counts as not passed, in the headline too (--missing skip leaves it out). Either
    option also exits 1 if less than --min-compared of the first run's graded prompts are graded in both runs, or if
    there are too few of them to show anything (four or fewer). A run that was stopped early (ae-capture
    --stop-when-known) is judged by the rule that stopped it.

    A run is named after its file unless it is given as LABEL:PATH.

    Formats:
      {forms}

    On a terminal the format is table: better, worse, equal or cannot tell, both pass rates, by how much, how certain,
    how many prompts would settle it, tokens and cost, and the prompts that flipped; for three or more runs, the
    ranking. With -o FILE the verdict is also one line on stderr.

    Strategies for deciding which run wins a prompt:
      weighted     results: score, speed and freedom from errors, weighted by COMPARE_QUALITY (0.5),
                   COMPARE_LATENCY (0.3) and COMPARE_RELIABILITY (0.2); headToHead.quality counts wins by grade alone;
                   trials: passAtK, passExpK and 1 - flakiness, weighted by COMPARE_CAPABILITY (0.4),
                   COMPARE_RELIABILITY (0.4) and COMPARE_CONSISTENCY (0.2)
      statistical  results: score; trials: pass rate. Adds a bootstrap interval for the mean latency, resampling
                   prompts (COMPARE_BOOTSTRAP_ITERATIONS, 1000)
      custom       a comparison grader (-g). It gets {id, input, hint, metadata, runs: {LABEL: RUN}},
                   where RUN is {output, trajectory, score, duration, toolErrors} or, for trials, {passRate, passAtK,
                   passExpK, k, trials}, and answers {rankings: [{run, rank, score}], reasoning}. Each prompt is asked
                   twice, the second time with the runs in reverse order (--one-order turns that off): an answer that
                   depends on the order is a tie, and the report shows how often that happens. Wins get a sign test,
                   adjusted by Holm, and three or more runs get Bradley-Terry strengths

    Examples:
      ae-compare careful.jsonl hasty.jsonl
      ae-compare baseline.jsonl now.jsonl -o report.html  # what flipped
      ae-compare --run old:a/results.jsonl --run new:b/results.jsonl
      ae-compare a.jsonl b.jsonl -g ./judge.py -j 4 -o report.md
      ae-compare baseline.jsonl now.jsonl --on score --fail-if-worse
      ae-compare runs/*.jsonl -o ranking.html  # or ranking.svg, for a README
      ae-compare runs/*.jsonl --pair opus sonnet
      ae-compare runs/*.jsonl | jq -r '.ranking.runs[] | [.run, .value] | @tsv'
    """
    strategy = choose_strategy(strategy, grader, one_order)
    gated = fail_if_worse or require_proof
    of_grader = dict.fromkeys(("concurrency", "timeout", "stream"), "-g GRADER") if not grader else {}
    refuse_idle(
        of_grader
        | ({} if strategy == "statistical" else {"seed": "-s statistical"})
        | ({} if gated else {"min_compared": "--fail-if-worse"})
        | ({"margin": "--on passes or score"} if on.startswith("pass^") else {"margin_exp": "--on 'pass^K'"})
    )
    files = label_runs(named_runs(paths, labelled))
    files = chosen_pair(files, pair) if pair else files
    console = Console(NAME, progress=progress, strict=strict, output=output)
    form = FORMS.choose(form, output, "json")
    read_by = {"--by": ("html", "json", "markdown"), "--prompts": ("table", "json", "markdown")}
    refuse_ignored(form, {"--by": by is not None, "--prompts": prompts}, read_by)
    sources = [RunSource(path) for _, path in files]
    for source in sources if form == "html" or grader else ():
        source.make_seekable()  # records are read again
    out = Output(output, inputs=sources, lazy=True)
    console.redact = redact = Redactor(None if no_redact else os.environ)
    grading |= {"redact": redact, "say": console.say, "trace": console.say if debug else None}
    ask = comparison_grader(grader, **grading) if grader else None
    keys = {"--by": by, "--cluster-by": cluster_by}
    uses = [KeyUse(option, key) for option, key in keys.items() if key]
    by = by or "category"
    options, trials = RowOptions(by, cluster_by), find_format(sources, input_format) == "trials"
    comparison = Comparison(trials=trials, options=options)
    if on.startswith("pass^") and not trials:
        raise UserError(f"--on '{on}' needs trials (ae-trials), and these are results: use --on passes")
    settings = read_settings(strategy, comparison, os.environ, seed)._replace(
        on=on,
        margin=margin_exp if on.startswith("pass^") else margin,
        missing_fail=missing == "fail" or (gated and missing is None),
        prompts=prompts,
        brief=form in BRIEF,
    )
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
    reasons = gate_reasons(report, GateSettings(require_proof, min_compared)) if gated else []
    reasons += [complaint for use in uses if (complaint := use.complaint())]
    for reason in reasons:
        console.say(reason)
    return FAILED if console.refused or reasons else OK
