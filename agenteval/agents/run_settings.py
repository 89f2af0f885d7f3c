"""The options of a run over prompts (RunSettings), and what they ask for: agent, variant, sandbox, conditions."""

import os
import shlex
from collections.abc import Callable

import msgspec

from agenteval.adapters.schema_file import load_adapter
from agenteval.agents.isolation import Surroundings
from agenteval.agents.kinds import AcpAgent, Agent, SchemaAgent, ShellAgent, TemplateAgent, agent_environment
from agenteval.agents.sandbox import CONTAINERS, Sandbox, find_sandbox, is_below, programs_of, programs_of_line
from agenteval.agents.session import Conditions, Limits, RateLimiter, WarmUp
from agenteval.agents.variants import Variant, variant_of
from agenteval.agents.workspace_git import forget_repository
from agenteval.errors import UserError
from agenteval.processes.process import find_program
from agenteval.streams.console import Console
from agenteval.streams.digests import tree_digest
from agenteval.streams.patterns import Pattern
from agenteval.streams.redaction import Redactor


class RunSettings(msgspec.Struct, frozen=True):
    """What the options of a run say; those that only some of the tools have come last, with a default."""

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
    isolate: bool
    model: str | None
    instructions: str | None
    skill: tuple[str, ...]
    mcp: str | None
    overlay: str | None
    sandbox: str | None  # the engine, "" for the one that is installed
    sandbox_net: str | None
    sandbox_image: str | None
    sandbox_read: tuple[str, ...]
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
    overwrite: bool
    label: str | None
    keep_going: bool
    max_cost: float | None
    max_total_tokens: int | None
    strict: bool
    progress: bool | None
    debug: bool
    max_steps: int = 100_000
    extract: str | None = None
    grader: tuple[str, ...] = ()
    stream: bool = False
    limits: tuple[tuple[str | None, float], ...] = ()
    weights: tuple[tuple[str, float], ...] = ()
    informational: tuple[str, ...] = ()
    grade_failed: bool = False
    stop_when_known: bool = False
    against: str | None = None
    threshold: float | None = None
    margin: float | None = None
    fail_if_worse: bool = False


def agent_of(settings: RunSettings, say: Callable[[str], None], *, elsewhere: bool = False) -> Agent:
    """Returns the agent that the options name; UserError if they name none or several, or one that is not installed.

    With --dry-run, an agent that is not installed is reported, and its command is shown all the same. One that runs
    `elsewhere`, on other machines, need not be installed here.
    """

    def program_or_name(name: str) -> str:
        try:
            return find_program(name)
        except UserError as error:
            say(str(error))
            return name

    contained = settings.sandbox in CONTAINERS or (settings.sandbox == "" and settings.sandbox_image is not None)
    # What a container runs is in its image.
    find = str if contained or elsewhere else program_or_name if settings.dry_run else find_program
    options = {"-s": settings.schema, "--simple": settings.simple, "--shell": settings.shell, "--": settings.command}
    named = [option for option, value in options.items() if value is not None]
    if len(named) != 1:
        given = " and ".join(named) or "none"
        raise UserError(f"name one agent with -s SCHEMA, --simple, --shell or -- CMD; given: {given} (see --help)")
    if settings.agent_arg and settings.schema is None:
        raise UserError(
            "--agent-arg needs -s SCHEMA; otherwise put the argument into the command of --simple, --shell or --"
        )
    if settings.command is not None:
        return AcpAgent(settings.command, find, deny=settings.deny_permissions, files=not settings.no_acp_fs)
    if settings.deny_permissions:
        raise UserError("--deny-permissions needs an agent that asks for permission: -- CMD")
    if settings.no_acp_fs:
        raise UserError("--no-acp-fs needs an agent that speaks the Agent Client Protocol: -- CMD")
    if settings.schema is not None:
        return SchemaAgent(load_adapter(settings.schema), settings.agent_arg, find)
    if settings.simple is not None:
        return TemplateAgent(settings.simple, find)
    return ShellAgent(settings.shell or "")


def options_before_dashes(tool: str, path: str | None, settings: RunSettings) -> str | None:
    """Returns the command line with -o before `--`, if it is after it: it is likely meant for the tool."""
    given = settings.command or [] if settings.output is None else []
    found = [at for at, word in enumerate(given) if at and (word in ("-o", "--output") or word.startswith("--output="))]
    if not found:
        return None
    end = found[0] + (1 if "=" in given[found[0]] else 2)
    words = [tool, *([path] if path else []), *given[found[0] : end], "--", *given[: found[0]], *given[end:]]
    return shlex.join(words)


def refuse_lonely_options(settings: RunSettings) -> None:
    """Raises UserError for an option that has no effect without another one, or that contradicts one."""
    goes_on = {"--resume": settings.resume, "--retry-failed": settings.retry_failed, "--append": settings.append}
    if settings.overwrite and (option := next((name for name, given in goes_on.items() if given), None)):
        raise UserError(f"--overwrite replaces the records of the file, and {option} keeps them: choose one")
    if settings.retry_on and not settings.retries:
        raise UserError("--retry-on needs --retries N")
    for_sandbox = {
        "--sandbox-net": settings.sandbox_net,
        "--sandbox-image": settings.sandbox_image,
        "--sandbox-read": settings.sandbox_read,
    }
    if settings.sandbox is None and (option := next((name for name, given in for_sandbox.items() if given), None)):
        raise UserError(f"{option} needs --sandbox")
    for_workspaces = {
        "--workspace-template": settings.workspace_template,
        "--workspace-git": settings.workspace_git,
        "--fresh-workspaces": settings.fresh_workspaces,
        "--keep-workspaces": settings.keep_workspaces != "all",
    }
    if not settings.workspace_dir and (option := next((name for name, given in for_workspaces.items() if given), None)):
        raise UserError(f"{option} needs --workspace-dir")


def variant_asked_for(settings: RunSettings, agent: Agent) -> Variant:
    """Returns the variant that the options ask for; raises UserError if it cannot be, or has no place to be put."""
    variant = variant_of(
        agent,
        model=settings.model,
        instructions=settings.instructions,
        skills=settings.skill,
        mcp=settings.mcp,
        overlay=settings.overlay,
        env=os.environ,
    )
    variant.check_place(agent, isolate=settings.isolate, workspaces=settings.workspace_dir is not None)
    return variant


def sandbox_asked_for(
    settings: RunSettings, agent: Agent, variant: Variant, cwd: str, prompts: str | None
) -> Sandbox | None:
    """Returns the sandbox that the options ask for; raises UserError if there is none, or it would show the prompts."""
    if settings.sandbox is None:
        return None
    if settings.workspace_dir is None:
        if settings.cwd is None:
            raise UserError("--sandbox needs a directory to show the agent: --workspace-dir DIR, or --cwd DIR")
        for file in filter(None, (prompts, settings.output)):
            if file != "-" and is_below(os.path.realpath(file), os.path.realpath(cwd)):
                raise UserError(
                    f"--sandbox: agents could read {file}, which is in their directory; use --workspace-dir"
                )
    net = settings.sandbox_net or "host"  # most agents ask a model
    sandbox = find_sandbox(settings.sandbox, net, settings.sandbox_image, read=settings.sandbox_read)
    programs = programs_of_line(agent.words[0]) if isinstance(agent, ShellAgent) else programs_of(agent.words)
    for server in variant.servers.values():
        programs += programs_of([server.get("command") or "", *(server.get("args") or ())])
    return sandbox.showing(programs)


def place_words(settings: RunSettings, sandbox: Sandbox | None, variant: Variant) -> list[str]:
    """Returns the options that decide where agents work, with values: part of the question that they are asked."""
    template = settings.workspace_template
    found = {
        "--cwd": None if settings.workspace_dir else settings.cwd,
        "--workspace-template": tree_digest(template) if template and os.path.isdir(template) else template,
        "--workspace-git": settings.workspace_git,
        "--clean-env": settings.clean_env,
        "--isolate": settings.isolate,
        **variant.digests,
        "--sandbox": sandbox and sandbox.identity,
    }
    return [f"{option} {value}" for option, value in found.items() if value]


def conditions_of(
    settings: RunSettings, agent: Agent, variant: Variant, sandbox: Sandbox | None, console: Console
) -> Conditions:
    """Returns what all prompts have in common; the agent's schema may have variables of its own."""
    if settings.workspace_dir is not None:
        forget_repository(os.environ)  # an agent in a directory of its own must not work on our repository
    environment = agent_environment(settings.env, clean=settings.clean_env)
    hidden = None if settings.no_redact else {**os.environ, **environment.with_own(agent.env)}
    # Isolated sessions set up a HOME each, so that none has to wait for another.
    warm_up = isinstance(agent, SchemaAgent) and agent.config.warm_up and not settings.isolate
    redact = Redactor(hidden)
    surroundings = Surroundings(
        agent, variant, environment, redact, isolate=settings.isolate, dressed=settings.workspace_dir is not None
    )
    return Conditions(
        pacer=RateLimiter(settings.rate),
        limits=Limits(settings.timeout, settings.max_output, settings.retries, settings.retry_on),
        environment=environment,
        warm_up=WarmUp(warm_up if settings.warm_up is None else settings.warm_up),
        redact=redact,
        say=console.say,
        surroundings=surroundings,
        sandbox=sandbox,
    )
