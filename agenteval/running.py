"""Running agents over prompts: the options that ae-run, ae-capture and ae-trials share, and the run itself.

Data flow: prompts (checked, sharded, not yet done) → the tool's jobs, N at a time, each of which runs a prompt in its
workspace (`attempt`) and makes something of the raw record → the tool's `emit` → output.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from agenteval.agents import AcpAgent, Agent, SchemaAgent, ShellAgent, TemplateAgent
from agenteval.assessment import Grading, grader_specs
from agenteval.command import (
    append_options,
    grader_option,
    milliseconds,
    output_option,
    progress_option,
    stream_option,
    strict_option,
)
from agenteval.console import Console
from agenteval.errors import FAILED, OK, StrictStop, UserError
from agenteval.lightclick import click
from agenteval.loop import Job, Outbox
from agenteval.processes import Processes
from agenteval.prompts import Prompts
from agenteval.records import Record
from agenteval.session import Limits, run_prompt
from agenteval.stream import Source, open_output
from agenteval.supervision import run_jobs
from agenteval.workspace import Workspaces

if TYPE_CHECKING:  # ae-run with --simple and --shell needs no adapter
    from agenteval.adapter import Adapter

F = TypeVar("F", bound=Callable[..., Any])
R = TypeVar("R")


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


AGENT_OPTIONS = [
    click.option("-s", "--schema", metavar="FILE|NAME", help="Adapter schema: a file, or one of the suite (claude)."),
    click.option("--simple", metavar='"CMD {} …"', help="Command with {} for the prompt; run without a shell."),
    click.option("--shell", metavar="'… \"$PROMPT\" …'", help="Shell line; the prompt is in $PROMPT."),
    click.option("--deny-permissions", is_flag=True, help="With -- CMD: deny what the agent asks permission for."),
    click.option(
        "-j", "--concurrency", type=click.IntRange(1), default=1, show_default=True, metavar="N", help="Agents at once."
    ),
    click.option("-t", "--timeout", type=float, callback=milliseconds, metavar="MS", help="Limit per turn.  [60000]"),
    click.option("-c", "--cwd", metavar="DIR", help="Where agents run.  [default: here]"),
    click.option("--workspace-dir", metavar="DIR", help="A fresh directory per prompt below DIR: prompt-<id>."),
    click.option("--workspace-template", metavar="DIR|GIT-REPO", help="What each fresh directory starts with."),
    click.option(
        "--retries",
        type=click.IntRange(0),
        default=0,
        metavar="N",
        help="Try a failed start or a timeout again, with growing pauses.",
    ),
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
    function = click.option(
        "--grader-timeout",
        type=float,
        callback=milliseconds,
        default=60_000,
        show_default=True,
        metavar="MS",
        help="Limit of a grader per record.",
    )(function)
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
    from agenteval.adapter import load_adapter

    return load_adapter(extract) if extract is not None else agent.adapter()


class Settings(NamedTuple):
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
    retries: int
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


def agent_of(settings: Settings) -> Agent:
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
        from agenteval.adapter import load_adapter

        return SchemaAgent(load_adapter(settings.schema))
    if settings.simple is not None:
        return TemplateAgent(settings.simple)
    return ShellAgent(settings.shell or "")


# --- the run ------------------------------------------------------------------------------------


class Run:
    """One tool's run over its prompts; with graders, `grading` applies them."""

    def __init__(self, tool: str, path: str | None, settings: Settings, graders: GraderSettings | None = None) -> None:
        self.settings, self.graders = settings, graders
        self.console = Console(tool, progress=settings.progress, strict=settings.strict, output=settings.output)
        self.agent = agent_of(settings)
        self.specs = grader_specs(graders.grader, stream=graders.stream) if graders else []
        self.cwd = _directory(settings.cwd)
        if settings.workspace_template and not settings.workspace_dir:
            raise UserError("--workspace-template needs --workspace-dir")
        self.source = source = Source(path)
        self.output, self.done = open_output(settings.output, source, append=settings.append, resume=settings.resume)
        self.prompts = Prompts(source, self.console, settings.shard, self.done)
        self.limits = Limits(settings.timeout, settings.max_output, settings.retries)
        self.grading: Grading | None = None
        self.failures = 0

    def __call__(
        self, jobs: Callable[[Record], Iterable[Job[R | None]]], emit: Callable[[R], None], *, trials: int | None = None
    ) -> int:
        """Work through the jobs of every prompt and `emit` what they return; returns the exit code."""
        workers = self._open()
        total = self.prompts.total
        if trials is None:
            self.console.begin(total)
        else:
            self.console.begin(total and total * trials, "trials")
        self.outbox = Outbox(self.output.write, blocks=self.output.may_block())
        run_jobs(
            (job for prompt in self.prompts for job in jobs(prompt)),
            emit,
            self.processes,
            self.outbox,
            workers=workers,
            source=self.source,
            output=self.output,
            console=self.console,
            ordered=self.settings.keep_order,
            finish=self.grading.finish if self.grading else lambda: None,
        )
        self.output.close()
        ungraded = self.grading.errors if self.grading else 0
        failed = self.console.refused or ungraded or (self.failures and self.settings.exit_status)
        return FAILED if failed else OK

    def _open(self) -> int:
        """All that a wrong option could still stop, then the output; returns how many jobs may run at a time."""
        settings = self.settings
        each = 1 + sum(spec.streams for spec in self.specs)
        self.processes = Processes(settings.concurrency * each)
        self.workspaces = None
        try:
            if settings.workspace_dir:
                self.workspaces = Workspaces(settings.workspace_dir, settings.workspace_template, self.processes)
            if self.graders and self.specs:
                timeout = self.graders.grader_timeout
                self.grading = Grading(self.specs, self.processes, self.console, timeout=timeout)
            self.output.open()
        except UserError:
            self.processes.close()
            raise
        return max(1, self.processes.concurrency // each)

    def attempt(self, prompt: Record, trial: int | None = None) -> Job[Record | None]:
        """The raw record of a prompt, run in a fresh session; None when it was cut short because we are stopping."""
        key = self.processes.new_key()
        name = prompt["id"] if trial is None else f"{prompt['id']}, trial {trial}"
        raw = yield from run_prompt(
            self._with_workspace(prompt, trial),
            self.agent,
            key=key,
            prepare=self.cwd if self.workspaces is None else partial(self.workspaces.make, prompt["id"], key, trial),
            limits=self.limits,
            trace=(lambda line: self.console.say(f"{name}: {line}")) if self.settings.debug else None,
        )
        return None if self.processes.stopping else raw  # --resume will run it again

    def write(self, record: Record) -> None:
        """Put a record into the output, now or as soon as its reader lets us."""
        self.outbox.put(record)

    def report(self, name: str, errors: list[str] | None, *, passed: bool = True, grader_error: bool = False) -> None:
        """One more is done: progress, --debug, -e and --strict."""
        self.failures += bool(errors)
        self.console.advance(failed=bool(errors) or not passed, label=name)
        said = "; ".join(errors or ())
        if self.settings.debug:
            self.console.say(f"{name}: {said or 'done'}")
        if said and self.settings.strict:
            raise StrictStop(f"{name}: {said} (stopped by --strict)")
        if grader_error and self.settings.strict:
            raise StrictStop("stopped at the first grader error (--strict)")

    def _with_workspace(self, prompt: Record, trial: int | None) -> Record:
        if self.workspaces is None:
            return prompt
        path = self.workspaces.path(prompt["id"], trial)
        return {**prompt, "metadata": {**(prompt.get("metadata") or {}), "workspaceDir": path}}


def _directory(path: str | None) -> str:
    if path is not None and not os.path.isdir(path):
        raise UserError(f"--cwd {path}: no such directory")
    return os.path.abspath(path or os.curdir)
