"""The options that name an agent and say how to run it: those of ae-run, ae-capture and ae-trials."""

import re
import shlex
from collections.abc import Callable, Iterator

import click

from agenteval.agents.run import GraderPlan, PromptRun
from agenteval.agents.run_settings import RunSettings
from agenteval.agents.session import parse_rate
from agenteval.cli.options import (
    CHECKS,
    Decorator,
    F,
    NumberRange,
    Parsed,
    agent_arg_option,
    append_options,
    checks_grader,
    combined,
    concurrency_option,
    count_option,
    grade_failed_option,
    grader_option,
    output_option,
    parse_size,
    progress_option,
    redact_option,
    refuse_without,
    stream_option,
    turn_timeout_option,
    verdict_options,
)
from agenteval.cli.sandbox_options import sandbox_options
from agenteval.cluster.shards import parse_shard
from agenteval.comparison.plan import read_pilot
from agenteval.errors import UserError
from agenteval.grading.graders import grader_digests, named_graders
from agenteval.grading.run import GraderSet
from agenteval.processes.supervisor import ProcessSupervisor
from agenteval.statistics.sequential import EarlyStop
from agenteval.streams.console import Console
from agenteval.streams.digests import prompt_digest
from agenteval.streams.patterns import Pattern
from agenteval.streams.redaction import Redactor
from agenteval.streams.source import Source
from agenteval.streams.text import first_few
from agenteval.wire.records import STOP_RULE, Record


def parse_pattern(text: str) -> Pattern:
    """Returns a regular expression."""
    try:
        return Pattern(text)
    except ValueError as error:
        raise ValueError(f"{text!r} is {error}") from None


AHEAD = 4  # prompts of each worker that --stop-when-known may start before the slowest is done
EXIT_1 = "finished, but some lines were refused or graders erred (they are reported), or agents failed and -e is given"
AGENT_OPTIONS: Decorator = combined(
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
    click.option(
        "--isolate",
        is_flag=True,
        help="A HOME of its own for each session: nothing of your configuration is read, only what logs the agent in.",
    ),
    click.option("--model", metavar="NAME", help="Model of the agent, as its adapter passes it."),
    click.option("--instructions", metavar="FILE", help="Instructions: become its AGENTS.md, CLAUDE.md, GEMINI.md, …"),
    click.option("--skill", multiple=True, metavar="DIR", help="A skill: a folder with SKILL.md; repeatable."),
    click.option(
        "--mcp",
        metavar="FILE",
        help='MCP servers, and no others: {"mcpServers": {…}}; ${VAR} is taken from the environment.',
    ),
    click.option("--overlay", metavar="DIR", help="Files to copy over each fresh workspace."),
    sandbox_options("Agents", net="host"),
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
    output_option,
    append_options,
    click.option("--overwrite", is_flag=True, help="With -o: replace the records that the file holds."),
    click.option("--strict", is_flag=True, help="Stop at the first refused line, failed agent or grader error."),
    progress_option,
)
extraction_option: Decorator = click.option(
    "--extract",
    metavar="FILE|NAME",
    help="Schema to read the agent's output with.  [default: its own; text for --simple and --shell]",
)

stop_options: Decorator = combined(
    click.option("--stop-when-known", is_flag=True, help="Stop once --against or --threshold is decided."),
    click.option("--against", metavar="FILE", help="Baseline: is this run better or worse?"),
    click.option("--threshold", type=NumberRange(0.01, 0.99), metavar="RATE", help="Is the pass rate above or below?"),
    click.option(
        "--margin",
        type=NumberRange(0.001, 0.99),
        metavar="D",
        help="Stop also once it is known to be at most so much worse than --against.",
    ),
    click.option("--fail-if-worse", is_flag=True, help="Exit 1 if it was stopped because it is worse."),
)

inline_grader_options: Decorator = combined(  # of graders that run beside agents
    grader_option(required=False),
    stream_option,
    verdict_options(time="Limit of each grader, or of the one of that name, per record; repeatable.  [default: 60000]"),
    grade_failed_option,
)


def agent_options(function: F) -> F:
    """Adds AGENT_OPTIONS, and the command after `--`."""
    function.takes_command = True  # type: ignore[attr-defined]
    function.exit_status = {1: EXIT_1}  # type: ignore[attr-defined]
    return AGENT_OPTIONS(function)


def validate_checks(prompt: Record) -> None:
    """Raises BadRecord if the checks of a prompt are wrong, before any agent is started."""
    if prompt.get("checks") is not None:
        from agenteval.grading.prompt_checks import parsed_checks  # few prompts carry checks

        parsed_checks(prompt)


def validate_checks_for(settings: RunSettings) -> Callable[[Record], None]:
    """Returns what raises BadRecord if the checks of a prompt are wrong, or need an image that their grader lacks."""
    graders = [one for one in settings.grader if CHECKS in one] if settings.grader else [_checks_command(settings)]
    image = next((image for image in map(_image_in, graders) if image), None)

    def validate(prompt: Record) -> None:
        if prompt.get("checks") is not None:
            from agenteval.grading.prompt_checks import refuse_other_images  # few prompts carry checks

            refuse_other_images(prompt, image)

    return validate if graders else validate_checks


def _image_in(command: str) -> str | None:
    """Returns the image that a command line names with --sandbox-image."""
    found = re.search(r"--sandbox-image[ =](\S+)", command)
    return found[1] if found else None


def _checks_command(settings: RunSettings) -> str:
    """Returns the grader of checks, in the container that the agents run in."""
    if settings.sandbox_image is None:
        return CHECKS
    engine = f"--sandbox {settings.sandbox}" if settings.sandbox else "--sandbox"
    return f"{CHECKS} {engine} --sandbox-image {shlex.quote(settings.sandbox_image)}"


def inline_graders(settings: RunSettings, source: Source, tool: str) -> GraderPlan | None:
    """Returns the graders that run beside agents; UserError if one cannot be found.

    They are those of -g; without it the checks grade if every prompt has some. None if nothing grades.
    """
    specs = named_graders(
        settings.grader or checks_grader(source, Console(tool, progress=False).say, command=_checks_command(settings)),
        stream=settings.stream,
        limits=settings.limits,
        weights=settings.weights,
        informational=settings.informational,
    )
    if not specs:
        refuse_without("-g GRADER", "stream", "grade_failed")
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


def stop_early(run: PromptRun) -> None:
    """Makes the run end once the question is decided, if the options ask for that."""
    settings = run.settings
    if not settings.stop_when_known:
        given = {
            "--against": settings.against is not None,
            "--threshold": settings.threshold is not None,
            "--margin": settings.margin is not None,
            "--fail-if-worse": settings.fail_if_worse,
        }
        for option in (option for option, is_given in given.items() if is_given):
            raise UserError(f"{option} needs --stop-when-known (ae-compare compares whole runs)")
        return
    if (settings.against is None) == (settings.threshold is None):
        raise UserError("--stop-when-known needs one of --against FILE and --threshold RATE")
    if settings.margin is not None and settings.against is None:
        raise UserError("--margin is how much worse than --against FILE it may be: give a baseline, not --threshold")
    if settings.against == "-":
        raise UserError("--against needs a file: stdin is for prompts")
    if not run.grader_plan:
        raise UserError("--stop-when-known needs a grader: -g GRADER")
    if settings.shard is not None:
        raise UserError("--stop-when-known looks at all prompts: leave out --shard")
    run.early_end = stop = early_stop(run)
    run.provenance[STOP_RULE] = stop.rule


SHOWN = 3  # ids in a message


def early_stop(run: PromptRun) -> EarlyStop:
    """Returns the test, with all prompts in its order, including those of an earlier run."""
    settings = run.settings
    asked: dict[str, str] = {}
    baseline = read_pilot(Source(settings.against), run.console, asked=asked) if settings.against is not None else None
    ahead = None if settings.dry_run else AHEAD * settings.concurrency
    stop = EarlyStop(settings.against or "", baseline, settings.threshold or 0.5, ahead, settings.margin)
    written = run.output.written.ids
    done = read_pilot(Source(run.output.absolute), run.console, resumed=True) if written else {}
    changed: list[str] = []

    def prompts() -> Iterator[Record]:
        for prompt in run.prompts:
            if asked.get(prompt["id"], now := prompt_digest(prompt)) != now and baseline:
                changed.append(prompt["id"])
                baseline.pop(prompt["id"], None)
            yield prompt

    run.prompts.total = stop.plan(prompts(), done, written)
    if changed:
        run.console.say(
            f"{settings.against}: not compared, because it was asked something else: {first_few(changed, 3)}"
        )
    if run.prompts.total and not stop.comparable:
        raise UserError(f"{settings.against}: has no graded record of any of these prompts")
    return stop
