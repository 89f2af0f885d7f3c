"""The options that name an agent and say how to run it: those of ae-run, ae-capture and ae-trials."""

import click

from agenteval.agents.run import GraderPlan, PromptRun, RunSettings
from agenteval.agents.session import parse_rate
from agenteval.cli.options import (
    Decorator,
    F,
    NumberRange,
    Parsed,
    agent_arg_option,
    append_options,
    concurrency_option,
    count_option,
    grade_failed_option,
    grader_option,
    output_option,
    progress_option,
    redact_option,
    stream_option,
    turn_timeout_option,
    verdict_options,
)
from agenteval.cluster.shards import parse_shard
from agenteval.comparison.plan import read_pilot
from agenteval.errors import UserError
from agenteval.grading.graders import grader_digests, named_graders
from agenteval.grading.run import GraderSet
from agenteval.processes.supervisor import ProcessSupervisor
from agenteval.statistics.sequential import EarlyStop
from agenteval.streams.console import Console
from agenteval.streams.patterns import Pattern
from agenteval.streams.redaction import Redactor
from agenteval.streams.source import Source
from agenteval.streams.text import whole_number


def parse_size(text: str) -> int:
    """Returns a number of bytes, in which K, M and G are understood."""
    scale = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}.get(text[-1:].upper(), 1)
    number = whole_number(text if scale == 1 else text[:-1])
    if not number:
        raise ValueError(f"{text!r} is not a number of bytes, such as 1000000 or 64M")
    return number * scale


def parse_pattern(text: str) -> Pattern:
    """Returns a regular expression."""
    try:
        return Pattern(text)
    except ValueError as error:
        raise ValueError(f"{text!r} is {error}") from None


AHEAD = 4  # prompts of each worker that --stop-when-known may start before the slowest is done
EXIT_1 = "finished, but some lines were refused or graders erred (each is reported), or agents failed and -e is given"
STRICT: Decorator = click.option(
    "--strict", is_flag=True, help="Stop at the first refused line, failed agent or grader error."
)
AGENT_OPTIONS: list[Decorator] = [
    click.option("-s", "--schema", metavar="FILE|NAME", help="Adapter schema: a file, or one of the suite (claude)."),
    agent_arg_option,
    click.option("--simple", metavar='"CMD {} …"', help="Command with {} for the prompt; run without a shell."),
    click.option("--shell", metavar="'… \"$PROMPT\" …'", help="Shell command line; the prompt is in $PROMPT."),
    click.option("--deny-permissions", is_flag=True, help="With -- CMD: deny what the agent asks permission for."),
    click.option("--no-acp-fs", is_flag=True, help="With -- CMD: let the agent itself read and write files."),
    concurrency_option("Agents"),
    turn_timeout_option,
    click.option("-c", "--cwd", metavar="DIR", help="Working directory of the agents.  [default: the current one]"),
    click.option(
        "--workspace-dir",
        metavar="DIR",
        help="A fresh directory per prompt below DIR: prompt-<id>. One that you put there is used as it is.",
    ),
    click.option("--fresh-workspaces", is_flag=True, help="Also replace directories that the suite did not make."),
    click.option("--workspace-template", metavar="DIR|GIT-REPO", help="Content of each fresh directory at the start."),
    click.option("--workspace-git", is_flag=True, help="Make each fresh directory a git repository of one commit."),
    click.option(
        "--keep-workspaces",
        type=click.Choice(["all", "failed", "none"]),
        default="all",
        help="Which fresh directories to keep; failed: where the agent failed or the result did not pass.",
    ),
    click.option("--env", multiple=True, metavar="NAME[=VALUE]", help="Set or pass on a variable; repeatable."),
    click.option("--clean-env", is_flag=True, help="Pass on only PATH, HOME, LANG and the like, and what --env names."),
    redact_option,
    click.option(
        "--rate",
        type=Parsed("rate", parse_rate),
        metavar="N/s|N/min",
        help="Start at most so many agents per unit of time.",
    ),
    count_option(
        "--retries",
        least=0,
        default=0,
        help="Retry a failed start, a timeout or an overloaded provider, with growing pauses.",
    ),
    click.option(
        "--warm-up/--no-warm-up",
        default=None,
        help="Let the first agent finish before others start, to set up an empty HOME.  [default: as its schema says]",
    ),
    click.option("--retry-on", type=Parsed("regex", parse_pattern), help="Also retry if the agent prints this."),
    click.option("--keep-order", is_flag=True, help="Records in input order.  [default: as they finish]"),
    click.option(
        "--shard",
        type=Parsed("i/n|slurm|k8s", parse_shard),
        metavar="I/N|slurm|k8s",
        help="Run only share I of N of the ids; slurm, k8s: that of the array task, of the indexed Job's pod.",
    ),
    click.option("--max-output", type=Parsed("bytes", parse_size), default="64M", help="Limit of output per prompt."),
    click.option("-e", "--exit-status", is_flag=True, help="Exit 1 if an agent failed, as jq -e does."),
    count_option("--max-failures", least=1, help="Stop after N failed agents, with exit 1."),
    click.option(
        "--keep-going", is_flag=True, help="Go on even if the first five agents fail in the same way.  [default: stop]"
    ),
    click.option(
        "--max-cost",
        type=NumberRange(0, min_open=True),
        metavar="USD",
        help="Start no agent once the whole run has cost this; list prices if the agents report tokens only.",
    ),
    count_option("--max-total-tokens", least=1, help="Start no agent once the whole run has used N tokens."),
    click.option("--label", metavar="NAME", help="Name of the run, in its records and the titles of reports."),
    click.option(
        "--retry-failed",
        is_flag=True,
        help="--resume; also run again what failed, and grade again what graders erred on.",
    ),
    click.option("--no-sync", is_flag=True, help="Leave it to the system when records of -o FILE reach the disk."),
    click.option("--dry-run", is_flag=True, help="Print what would be started, and start nothing."),
    click.option("--force", is_flag=True, help="Let --resume go on with a file of another agent."),
]
extraction_option: Decorator = click.option(
    "--extract",
    metavar="FILE|NAME",
    help="Schema to read the agent's output with.  [default: its own; text for --simple and --shell]",
)


STOP_OPTIONS: list[Decorator] = [
    click.option("--stop-when-known", is_flag=True, help="Stop once --against or --threshold is decided."),
    click.option("--against", metavar="FILE", help="Baseline: is this run better or worse?"),
    click.option("--threshold", type=NumberRange(0.01, 0.99), metavar="RATE", help="Is the pass rate above or below?"),
]


overwrite_option: Decorator = click.option(
    "--overwrite", is_flag=True, help="With -o: replace the records that the file holds."
)


def agent_options(function: F) -> F:
    """Adds all options above, those of the output, and the command after `--`."""
    function = output_option(append_options(overwrite_option(STRICT(progress_option(function)))))
    for option in reversed(AGENT_OPTIONS):
        function = option(function)
    function.takes_command = True  # type: ignore[attr-defined]
    function.exit_status = {1: EXIT_1}  # type: ignore[attr-defined]
    return function


def inline_grader_options(function: F) -> F:
    """Adds the options of graders that run beside agents: -g, --stream, --grade-failed and how their verdicts count."""
    time = "Limit of each grader, or of the one of that name, per record; repeatable.  [default: 60000]"
    function = verdict_options(time=time)(grade_failed_option(function))
    return grader_option(required=False)(stream_option(function))


def inline_graders(settings: RunSettings) -> GraderPlan | None:
    """Returns the graders that run beside agents, None if -g names none; UserError if one cannot be found."""
    specs = named_graders(
        settings.grader,
        stream=settings.stream,
        limits=settings.limits,
        weights=settings.weights,
        informational=settings.informational,
    )

    if not specs:
        return None

    def open_graders(processes: ProcessSupervisor, console: Console, redact: Redactor) -> GraderSet:
        return GraderSet(
            specs,
            processes,
            console.say,
            redact=redact.value,
            grade_failed=settings.grade_failed,
            trace=console.say if settings.debug else None,
        )

    digests = grader_digests(specs, grade_failed=settings.grade_failed)
    return GraderPlan(open_graders, sum(spec.streams for spec in specs), digests)


# --- --stop-when-known --------------------------------------------------------------------------


def stop_options(function: F) -> F:
    """Adds --stop-when-known, --against and --threshold."""
    for option in reversed(STOP_OPTIONS):
        function = option(function)
    return function


def stop_early(run: PromptRun) -> None:
    """Makes the run end once the question is decided, if the options ask for that."""
    settings = run.settings
    if not settings.stop_when_known:
        if settings.against is not None or settings.threshold is not None:
            option = "--threshold" if settings.against is None else "--against"
            raise UserError(f"{option} needs --stop-when-known (ae-compare compares whole runs)")
        return
    if (settings.against is None) == (settings.threshold is None):
        raise UserError("--stop-when-known needs one of --against FILE and --threshold RATE")
    if settings.against == "-":
        raise UserError("--against needs a file: stdin is for prompts")
    if not run.grader_plan:
        raise UserError("--stop-when-known needs a grader: -g GRADER")
    if settings.shard is not None:
        raise UserError("--stop-when-known looks at all prompts: leave out --shard")
    run.early_end = early_stop(run)


def early_stop(run: PromptRun) -> EarlyStop:
    """Returns the test, with all prompts in its order, including those of an earlier run."""
    settings = run.settings
    baseline = read_pilot(Source(settings.against), run.console) if settings.against is not None else None
    ahead = None if settings.dry_run else AHEAD * settings.concurrency
    stop = EarlyStop(settings.against or "", baseline, settings.threshold or 0.5, ahead)
    written = run.output.written.ids
    done = read_pilot(Source(run.output.absolute), run.console, resumed=True) if written else {}
    run.prompts.total = stop.plan(run.prompts, done, written)
    if run.prompts.total and not stop.comparable:
        raise UserError(f"{settings.against}: has no graded record of any of these prompts")
    return stop
