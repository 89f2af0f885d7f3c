"""Running agents over prompts: the options that ae-run shares with its siblings, and the run itself.

Data flow: prompts (checked, sharded, not yet done) → pool of workers → each runs one prompt in its workspace
→ the tool's `finish` turns the raw record into what it writes → output.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple, TypeVar

from agenteval.agents import Agent, SchemaAgent, ShellAgent, TemplateAgent
from agenteval.command import append_options, milliseconds, output_option, progress_option, strict_option
from agenteval.console import Console
from agenteval.errors import FAILED, OK, BadRecord, StrictStop, UserError
from agenteval.lightclick import click
from agenteval.loop import Job, Outbox
from agenteval.processes import Processes
from agenteval.records import Prompt, Record, check
from agenteval.session import Limits, run_prompt
from agenteval.stream import Source, decode_record, open_output
from agenteval.supervision import run_jobs
from agenteval.workspace import Workspaces

F = TypeVar("F", bound=Callable[..., Any])


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
    """All options that name an agent and say how to run it."""
    function = output_option(append_options(strict_option(progress_option(function))))
    for option in reversed(AGENT_OPTIONS):
        function = option(function)
    return function


class Settings(NamedTuple):
    """The options above, as the user gave them."""

    schema: str | None
    simple: str | None
    shell: str | None
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


# --- the agent ----------------------------------------------------------------------------------


def agent_of(settings: Settings) -> Agent:
    """The one agent that the options name."""
    named = [name for name in ("schema", "simple", "shell") if getattr(settings, name) is not None]
    if len(named) != 1:
        given = " and ".join(f"--{name}" for name in named) or "none"
        raise UserError(f"name one agent with -s SCHEMA, --simple or --shell; given: {given} (--help shows how)")
    if settings.schema is not None:
        from agenteval.adapter import load_adapter

        return SchemaAgent(load_adapter(settings.schema))
    if settings.simple is not None:
        return TemplateAgent(settings.simple)
    return ShellAgent(settings.shell or "")


# --- prompts ------------------------------------------------------------------------------------


class Prompts:
    """The prompts to run: valid, unique, of this shard, not done before."""

    def __init__(self, source: Source, console: Console, shard: tuple[int, int] | None, done: set[str]) -> None:
        self.source, self.console, self.shard, self.done = source, console, shard, done
        self._seen: set[int] = set()
        self.total: int | None = None
        if source.regular:
            self._look_ahead()

    def __iter__(self) -> Iterator[Record]:
        checked = self.source.regular  # what is wrong in a file was said before the first agent started
        for batch in self.source.lines():
            for number, line in batch:
                try:
                    prompt = self._accept(line)
                except BadRecord as error:
                    if not checked:
                        self._refuse(number, str(error))
                    continue
                if prompt is not None:
                    yield prompt

    def _look_ahead(self) -> None:
        """Report every bad line of a regular file before any agent is started, because agents cost money."""
        self.total = 0
        for batch in self.source.lines():
            for number, line in batch:
                try:
                    self.total += self._accept(line) is not None
                except BadRecord as error:
                    self._refuse(number, str(error))
        self._seen.clear()
        self.source.rewind()

    def _accept(self, line: bytes) -> Record | None:
        prompt = decode_record(line)
        check(prompt, Prompt)
        mark = hash(prompt["id"])  # not the id itself: a set of numbers stays small over a million prompts
        if mark in self._seen:
            raise BadRecord(f'duplicate id "{prompt["id"]}"')
        self._seen.add(mark)
        return prompt if prompt["id"] not in self.done and in_shard(prompt["id"], self.shard) else None

    def _refuse(self, number: int, why: str) -> None:
        self.console.refuse(f"{self.source.name}:{number}", why)
        if self.console.strict:
            raise StrictStop("stopped at the first refused record (--strict)")


def in_shard(prompt_id: str, shard: tuple[int, int] | None) -> bool:
    """Whether this share of the ids has this one; the same on every machine."""
    if shard is None:
        return True
    digest = hashlib.sha256(prompt_id.encode()).digest()
    return int.from_bytes(digest[:8], "big") % shard[1] == shard[0] - 1


# --- the run ------------------------------------------------------------------------------------


class Run:
    """One tool's run over its prompts."""

    def __init__(self, tool: str, path: str | None, settings: Settings) -> None:
        self.settings = settings
        self.console = Console(tool, progress=settings.progress, strict=settings.strict, output=settings.output)
        self.agent = agent_of(settings)
        self.cwd = _directory(settings.cwd)
        if settings.workspace_template and not settings.workspace_dir:
            raise UserError("--workspace-template needs --workspace-dir")
        self.source = source = Source(path)
        self.output, done = open_output(settings.output, source, append=settings.append, resume=settings.resume)
        self.prompts = Prompts(source, self.console, settings.shard, done)
        self.failures = 0

    def __call__(self, finish: Callable[[Record], Record]) -> int:
        """Run every prompt and write what `finish` makes of its raw record; returns the exit code."""
        self.output.open()
        self.console.begin(self.prompts.total)
        self.finish = finish
        self.processes = Processes(self.settings.concurrency)
        self.workspaces = None
        if self.settings.workspace_dir:
            self.workspaces = Workspaces(self.settings.workspace_dir, self.settings.workspace_template, self.processes)
        self.outbox = Outbox(self.output.write, blocks=self.output.may_block())
        run_jobs(
            (self._job(prompt) for prompt in self.prompts),
            self._emit,
            self.processes,
            self.outbox,
            source=self.source,
            output=self.output,
            console=self.console,
            ordered=self.settings.keep_order,
        )
        failed = self.console.refused or (self.failures and self.settings.exit_status)
        return FAILED if failed else OK

    def _job(self, prompt: Record) -> Job[tuple[Record, bool] | None]:
        key = self.processes.new_key()
        raw = yield from run_prompt(
            self._with_workspace(prompt),
            self.agent,
            key=key,
            prepare=self.cwd if self.workspaces is None else partial(self.workspaces.make, prompt["id"], key),
            limits=Limits(self.settings.timeout, self.settings.max_output, self.settings.retries),
            trace=(lambda line: self.console.say(f"{prompt['id']}: {line}")) if self.settings.debug else None,
        )
        if self.processes.stopping:
            return None  # ended by us, not by itself: --resume will run it again
        return self.finish(raw), bool(raw.get("errors"))

    def _emit(self, done: tuple[Record, bool]) -> None:
        record, failed = done
        self.outbox.put(record)
        self.failures += failed
        self.console.advance(failed=failed, label=record["id"])
        if self.settings.debug:
            self.console.say(f"{record['id']}: {'; '.join(record['errors']) if failed else 'done'}")
        if failed and self.settings.strict:
            raise StrictStop(f"{record['id']}: {'; '.join(record['errors'])} (stopped by --strict)")

    def _with_workspace(self, prompt: Record) -> Record:
        if self.workspaces is None:
            return prompt
        path = self.workspaces.path(prompt["id"])
        return {**prompt, "metadata": {**(prompt.get("metadata") or {}), "workspaceDir": path}}


def _directory(path: str | None) -> str:
    if path is not None and not os.path.isdir(path):
        raise UserError(f"--cwd {path}: no such directory")
    return os.path.abspath(path or os.curdir)
