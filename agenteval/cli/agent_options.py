"""The options that name an agent and say how to run it, as ae-run, ae-capture and ae-trials share them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from agenteval.agents.kinds import AcpAgent, Agent, SchemaAgent, ShellAgent, TemplateAgent
from agenteval.agents.rate_limit import parse_rate
from agenteval.cli.options import (
    MILLISECONDS,
    Decorator,
    F,
    append_options,
    concurrency_option,
    grader_option,
    grader_timeout_option,
    output_option,
    progress_option,
    stream_option,
    strict_option,
)
from agenteval.cli.startup import click
from agenteval.errors import UserError

if TYPE_CHECKING:  # ae-run with --simple and --shell needs no adapter
    from agenteval.adapters.reader import Adapter


def parse_shard(_ctx: click.Context, _param: click.Parameter, value: str | None) -> tuple[int, int] | None:
    """I/N, as in 2/5."""
    if value is None:
        return None
    share, _, shares = value.partition("/")
    if not (share.isdigit() and shares.isdigit() and 1 <= int(share) <= int(shares)):
        raise click.BadParameter(f"{value!r} is not I/N with 1 <= I <= N, such as 2/5")
    return int(share), int(shares)


def parse_size(_ctx: click.Context, _param: click.Parameter, value: str) -> int:
    """A number of bytes; K, M and G are understood."""
    scale = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}.get(value[-1:].upper(), 1)
    number = value if scale == 1 else value[:-1]
    if not number.isdigit() or int(number) == 0:
        raise click.BadParameter(f"{value!r} is not a number of bytes, such as 1000000 or 64M")
    return int(number) * scale


def parse_starts(_ctx: click.Context, _param: click.Parameter, value: str | None) -> float | None:
    """Starts per second."""
    try:
        return None if value is None else parse_rate(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


def parse_pattern(_ctx: click.Context, _param: click.Parameter, value: str | None) -> re.Pattern[str] | None:
    """A regular expression."""
    try:
        return None if value is None else re.compile(value)
    except re.error as error:
        raise click.BadParameter(f"{value!r} is no regular expression: {error}") from None


AGENT_OPTIONS: list[Decorator] = [
    click.option("-s", "--schema", metavar="FILE|NAME", help="Adapter schema: a file, or one of the suite (claude)."),
    click.option("--simple", metavar='"CMD {} …"', help="Command with {} for the prompt; run without a shell."),
    click.option("--shell", metavar="'… \"$PROMPT\" …'", help="Shell line; the prompt is in $PROMPT."),
    click.option("--deny-permissions", is_flag=True, help="With -- CMD: deny what the agent asks permission for."),
    concurrency_option("Agents"),
    click.option("-t", "--timeout", type=MILLISECONDS, help="Limit per turn.  [default: 60000]"),
    click.option("-c", "--cwd", metavar="DIR", help="Where agents run.  [default: here]"),
    click.option("--workspace-dir", metavar="DIR", help="A fresh directory per prompt below DIR: prompt-<id>."),
    click.option("--workspace-template", metavar="DIR|GIT-REPO", help="What each fresh directory starts with."),
    click.option("--workspace-git", is_flag=True, help="Make each fresh directory a git repository of one commit."),
    click.option(
        "--keep-workspaces",
        type=click.Choice(["all", "failed", "none"]),
        default="all",
        show_default=True,
        help="Which to leave there; failed: of prompts that failed or did not pass.",
    ),
    click.option("--env", multiple=True, metavar="NAME[=VALUE]", help="Set or pass on a variable; repeatable."),
    click.option("--clean-env", is_flag=True, help="Pass on nothing else but PATH, HOME, LANG and the like."),
    click.option("--no-redact", is_flag=True, help="Record values of variables that look like secrets, too."),
    click.option("--rate", callback=parse_starts, metavar="N/s|N/min", help="Start no more agents than that."),
    click.option(
        "--retries",
        type=click.IntRange(0),
        default=0,
        metavar="N",
        help="Try a failed start, a timeout or an overloaded provider again, with growing pauses.",
    ),
    click.option("--retry-on", callback=parse_pattern, metavar="REGEX", help="Try again if it prints this, too."),
    click.option("--keep-order", is_flag=True, help="Records in input order.  [default: as they finish]"),
    click.option(
        "--shard", callback=parse_shard, metavar="I/N", help="Run only this share of the ids, such as 2/5; stable."
    ),
    click.option(
        "--max-output",
        callback=parse_size,
        default="64M",
        show_default=True,
        metavar="BYTES",
        help="Most an agent may print per prompt.",
    ),
    click.option("-e", "--exit-status", is_flag=True, help="Exit 1 when an agent failed, as jq -e does."),
]


def agent_options(function: F) -> F:
    """All that names an agent and says how to run it: options, and the command after `--`."""
    function = output_option(append_options(strict_option(progress_option(function))))
    for option in reversed(AGENT_OPTIONS):
        function = option(function)
    function.takes_command = True  # type: ignore[attr-defined]
    return function


def inline_grader_options(function: F) -> F:
    """Graders that judge each result as soon as it is there: -g, --stream and --grader-timeout."""
    function = grader_timeout_option("--grader-timeout")(function)
    return grader_option(required=False)(stream_option(function))


def extraction_option(function: F) -> F:
    """--extract, for tools that read what the agent prints."""
    return click.option(
        "--extract",
        metavar="FILE|NAME",
        help="Schema to read the agent's output with.  [default: its own; text for --simple and --shell]",
    )(function)


def extraction_adapter(agent: Agent, extract: str | None) -> Adapter:
    """What reads the agent's output: the schema the user named, else the agent's own."""
    from agenteval.adapters.reader import load_adapter

    return load_adapter(extract) if extract is not None else agent.adapter()


class AgentSettings(NamedTuple):
    """The options above, as the user gave them."""

    schema: str | None
    simple: str | None
    shell: str | None
    command: list[str] | None  # after --
    deny_permissions: bool
    concurrency: int
    timeout: float | None
    cwd: str | None
    workspace_dir: str | None
    workspace_template: str | None
    workspace_git: bool
    keep_workspaces: str
    env: tuple[str, ...]
    clean_env: bool
    no_redact: bool
    rate: float | None
    retries: int
    retry_on: re.Pattern[str] | None
    keep_order: bool
    shard: tuple[int, int] | None
    max_output: int
    exit_status: bool
    output: str | None
    append: bool
    resume: bool
    strict: bool
    progress: bool | None
    debug: bool


class GraderSettings(NamedTuple):
    """The options of graders that run beside agents, as the user gave them."""

    grader: tuple[str, ...]
    stream: bool
    grader_timeout: float


# --- the agent ----------------------------------------------------------------------------------


def agent_of(settings: AgentSettings) -> Agent:
    """The one agent that the options name."""
    options = {"-s": settings.schema, "--simple": settings.simple, "--shell": settings.shell, "--": settings.command}
    named = [option for option, value in options.items() if value is not None]
    if len(named) != 1:
        given = " and ".join(named) or "none"
        raise UserError(
            f"name one agent with -s SCHEMA, --simple, --shell or -- CMD; given: {given} (--help shows how)"
        )
    if settings.command is not None:
        return AcpAgent(settings.command, deny_permissions=settings.deny_permissions)
    if settings.deny_permissions:
        raise UserError("--deny-permissions is for an agent that asks for permission: one after --")
    if settings.schema is not None:
        from agenteval.adapters.reader import load_adapter

        return SchemaAgent(load_adapter(settings.schema))
    if settings.simple is not None:
        return TemplateAgent(settings.simple)
    return ShellAgent(settings.shell or "")
