"""The options that name an agent and say how to run it: those of ae-run, ae-capture and ae-trials."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import click
import msgspec

from agenteval.agents.kinds import AcpAgent, Agent, SchemaAgent, ShellAgent, TemplateAgent
from agenteval.agents.rate_limit import parse_rate
from agenteval.cli.cluster.share import parse_shard
from agenteval.cli.options import (
    Decorator,
    F,
    Parsed,
    agent_arg_option,
    append_options,
    concurrency_option,
    count_option,
    grade_failed_option,
    grader_option,
    grader_timeout_option,
    output_option,
    progress_option,
    redact_option,
    stream_option,
    turn_timeout_option,
)
from agenteval.errors import UserError
from agenteval.processes.process import find_program
from agenteval.streams.jsonl import whole_number
from agenteval.streams.patterns import Pattern


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
    click.option("--retry-failed", is_flag=True, help="--resume, and run again the prompts whose agent failed."),
    click.option("--no-sync", is_flag=True, help="Leave it to the system when records of -o FILE reach the disk."),
    click.option("--dry-run", is_flag=True, help="Print what would be started, and start nothing."),
    click.option("--force", is_flag=True, help="Let --resume go on with a file of another agent."),
]
extraction_option: Decorator = click.option(
    "--extract",
    metavar="FILE|NAME",
    help="Schema to read the agent's output with.  [default: its own; text for --simple and --shell]",
)


def agent_options(function: F) -> F:
    """Adds all options above, those of the output, and the command after `--`."""
    function = output_option(append_options(STRICT(progress_option(function))))
    for option in reversed(AGENT_OPTIONS):
        function = option(function)
    function.takes_command = True  # type: ignore[attr-defined]
    function.exit_status = {1: EXIT_1}  # type: ignore[attr-defined]
    return function


def inline_grader_options(function: F) -> F:
    """Adds the options of graders that run beside agents: -g, --stream, --grader-timeout and --grade-failed."""
    function = grade_failed_option(grader_timeout_option("--grader-timeout")(function))
    return grader_option(required=False)(stream_option(function))


class AgentSettings(msgspec.Struct, frozen=True):
    """The values of agent_options and, with a default, those of options that only some of the tools have."""

    schema: str | None
    agent_arg: tuple[str, ...]
    simple: str | None
    shell: str | None
    command: list[str] | None  # after --
    deny_permissions: bool
    no_acp_fs: bool
    concurrency: int
    timeout: float | None
    cwd: str | None
    workspace_dir: str | None
    fresh_workspaces: bool
    workspace_template: str | None
    workspace_git: bool
    keep_workspaces: str
    env: tuple[str, ...]
    clean_env: bool
    no_redact: bool
    rate: float | None
    retries: int
    warm_up: bool | None
    retry_on: Pattern | None
    keep_order: bool
    shard: tuple[int, int] | None
    max_output: int
    exit_status: bool
    max_failures: int | None
    retry_failed: bool
    no_sync: bool
    dry_run: bool
    force: bool
    output: str | None
    append: bool
    resume: bool
    strict: bool
    progress: bool | None
    debug: bool
    max_steps: int = 100_000
    extract: str | None = None
    grader: tuple[str, ...] = ()
    stream: bool = False
    grader_timeout: float = 60_000
    grade_failed: bool = False
    stop_when_known: bool = False
    against: str | None = None
    threshold: float | None = None


# --- the agent ----------------------------------------------------------------------------------


def agent_of(settings: AgentSettings, say: Callable[[str], None]) -> Agent:
    """Returns the agent that the options name; UserError if they name none or several, or one that is not installed.

    With --dry-run, an agent that is not installed is reported, and its command is shown all the same.
    """
    find = partial(_program_or_name, say=say) if settings.dry_run else find_program
    options = {"-s": settings.schema, "--simple": settings.simple, "--shell": settings.shell, "--": settings.command}
    named = [option for option, value in options.items() if value is not None]
    if len(named) != 1:
        given = " and ".join(named) or "none"
        raise UserError(
            f"name one agent with -s SCHEMA, --simple, --shell or -- CMD; given: {given} (--help shows how)"
        )
    if settings.agent_arg and settings.schema is None:
        raise UserError("--agent-arg is for -s SCHEMA; put the argument into the command of --simple, --shell or --")
    if settings.command is not None:
        return AcpAgent(
            settings.command, find, deny_permissions=settings.deny_permissions, files=not settings.no_acp_fs
        )
    if settings.deny_permissions:
        raise UserError("--deny-permissions is for an agent that asks for permission: for -- CMD")
    if settings.no_acp_fs:
        raise UserError("--no-acp-fs is for an agent that speaks the Agent Client Protocol: for -- CMD")
    if settings.schema is not None:
        from agenteval.adapters.bundled import load_adapter

        return SchemaAgent(load_adapter(settings.schema), settings.agent_arg, find)
    if settings.simple is not None:
        return TemplateAgent(settings.simple, find)
    return ShellAgent(settings.shell or "")


def _program_or_name(name: str, say: Callable[[str], None]) -> str:
    """Returns the path of a command, or its name if there is no such command, which is reported."""
    try:
        return find_program(name)
    except UserError as error:
        say(str(error))
        return name


def option_after_dashes(settings: AgentSettings) -> str | None:
    """Returns -o among the arguments of the agent, if there is none before `--`: likely it is meant for the tool."""
    given = settings.command or [] if settings.output is None else []
    return next((word for word in given[1:] if word in ("-o", "--output") or word.startswith("--output=")), None)
