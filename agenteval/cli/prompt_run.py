"""Running agents over prompts: what ae-run, ae-capture and ae-trials share.

Data flow: prompts (checked, sharded, not yet done) → the tool's jobs, N at a time, each of which runs a prompt in its
workspace (`attempt`), makes something of the raw record and clears up (`settle`) → the tool's `emit` → output.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from agenteval.agents.environment import agent_environment
from agenteval.agents.journal import Journal
from agenteval.agents.kinds import Agent, SchemaAgent
from agenteval.agents.prompts import Prompts
from agenteval.agents.rate_limit import RateLimiter
from agenteval.agents.session import Conditions, Limits, run_prompt
from agenteval.agents.workspaces.git import forget_repository
from agenteval.cli.agent_options import AgentSettings, GraderSettings, agent_of
from agenteval.errors import FAILED, OK, StrictStop, UserError
from agenteval.grading.apply import Grading, grader_specs
from agenteval.processes.loop import Call, Job, Outbox
from agenteval.processes.shutdown import run_jobs
from agenteval.processes.supervisor import ProcessSupervisor
from agenteval.streams.console import Console
from agenteval.streams.output import open_output
from agenteval.streams.redaction import Redactor
from agenteval.streams.source import Source
from agenteval.wire.records import Record

if TYPE_CHECKING:
    from agenteval.agents.workspaces.workspace import Workspaces

R = TypeVar("R")


class PromptRun:
    """One tool's run over its prompts; with graders, `grading` applies them."""

    def __init__(
        self, tool: str, path: str | None, settings: AgentSettings, graders: GraderSettings | None = None
    ) -> None:
        self.settings, self.graders = settings, graders
        self.console = Console(tool, progress=settings.progress, strict=settings.strict, output=settings.output)
        self.agent = agent_of(settings)
        self.specs = grader_specs(graders.grader, stream=graders.stream) if graders else []
        if settings.retry_on and not settings.retries:
            raise UserError("--retry-on needs --retries N")
        self.cwd = _directory(settings.cwd)
        if not settings.workspace_dir and (option := _of_workspaces(settings)):
            raise UserError(f"{option} needs --workspace-dir")
        self.source = source = Source(path)
        self.output, self.done = open_output(settings.output, source, append=settings.append, resume=settings.resume)
        self.journal = _journal_beside(settings, self.done)
        self.prompts = Prompts(source, self.console, settings.shard, self.done)
        self.conditions = conditions_of(settings, self.agent)
        self.console.redact = self.conditions.redact
        self.grading: Grading | None = None
        self.failures = 0
        self.unwarned = isinstance(self.agent, SchemaAgent) and self.agent.forgets()

    def __call__(
        self,
        jobs: Callable[[Record], Iterable[Job[R | None]]],
        emit: Callable[[R], None],
        *,
        hold: Callable[[R], None],
        trials: int | None = None,
    ) -> int:
        """Work through the jobs of every prompt and `emit` what they return; returns the exit code.

        What has to wait for its turn (--keep-order) `hold` puts in safety.
        """
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
            hold=hold,
            finish=self.grading.finish if self.grading else lambda: None,
        )
        self.output.close()
        if self.journal:
            self.journal.close()
        ungraded = self.grading.errors if self.grading else 0
        failed = self.console.refused or ungraded or (self.failures and self.settings.exit_status)
        return FAILED if failed else OK

    def _open(self) -> int:
        """All that a wrong option could still stop, then the output; returns how many jobs may run at a time."""
        settings = self.settings
        each = 1 + sum(spec.streams for spec in self.specs)
        if settings.workspace_dir is not None:
            forget_repository(os.environ)  # an agent in a directory of its own is not to work on ours
        self.processes = ProcessSupervisor(settings.concurrency * each)
        self.workspaces: Workspaces | None = None
        try:
            if settings.workspace_dir is not None:
                from agenteval.agents.workspaces.workspace import Workspaces  # what it needs takes a while to import

                self.workspaces = Workspaces(
                    settings.workspace_dir, settings.workspace_template, self.processes, git=settings.workspace_git
                )
                self._warn_of_repository(self.workspaces)
            if self.graders and self.specs:
                timeout = self.graders.grader_timeout
                self.grading = Grading(self.specs, self.processes, self.console, timeout=timeout)
            self.output.open()
            if self.journal:
                self.journal.open()
        except UserError:
            self.processes.close()
            raise
        return max(1, self.processes.concurrency // each)

    def attempt(self, prompt: Record, trial: int | None = None) -> Job[Record | None]:
        """The raw record of a prompt, run in a fresh session; None when it was cut short because we are stopping."""
        self._warn_of_turns(prompt)
        key = self.processes.new_agent_key()
        name = prompt["id"] if trial is None else f"{prompt['id']}, trial {trial}"
        raw = yield from run_prompt(
            self._with_workspace(prompt, trial),
            self.agent,
            key=key,
            prepare=self.cwd if self.workspaces is None else partial(self.workspaces.make, prompt["id"], key, trial),
            conditions=self.conditions,
            trace=(lambda line: self.console.say(f"{name}: {line}")) if self.settings.debug else None,
        )
        return None if self.processes.stopping else raw  # --resume will run it again

    def settle(self, prompt: Record, trial: int | None = None, *, failed: bool) -> Job[None]:
        """Remove the workspace of a prompt that is done, unless it is to be kept."""
        keep = self.settings.keep_workspaces
        if self.workspaces is not None and (keep == "none" or (keep == "failed" and not failed)):
            yield Call(partial(self.workspaces.remove, prompt["id"], trial))

    def kept(self, prompt: Record, trial: int = 1) -> tuple[Record | None, bool]:
        """What an earlier run has paid for and not written, and whether it is graded."""
        entry = self.journal.earlier(prompt, trial) if self.journal else None
        return (entry.record, entry.graded) if entry else (None, False)

    def keep(self, prompt: Record, record: Record, trial: int = 1, *, graded: bool = False) -> None:
        """Put what an agent has answered in safety until it is written; the last of a trial counts."""
        if self.journal:
            self.journal.keep(prompt, self.conditions.redact.record(record), trial, graded=graded)

    def write(self, record: Record) -> None:
        """Put a record into the output, now or as soon as its reader lets us."""
        self.outbox.put(self.conditions.redact.record(record))
        if self.journal:
            self.journal.forget(record["id"])

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

    def _warn_of_repository(self, workspaces: Workspaces) -> None:
        if repository := workspaces.repository_around():
            self.console.say(
                f"{self.settings.workspace_dir} is inside the git repository {repository}, where some agents "
                "then work; --workspace-git makes each workspace its own"
            )

    def _warn_of_turns(self, prompt: Record) -> None:
        if self.unwarned and isinstance(prompt["input"], list) and len(prompt["input"]) > 1:
            self.unwarned = False
            self.console.say(
                f"{prompt['id']}: the schema has no resume, so each turn is a new session "
                '(give it resume, or "sessionMode": "iterative")'
            )

    def _with_workspace(self, prompt: Record, trial: int | None) -> Record:
        if self.workspaces is None:
            return prompt
        path = self.workspaces.path(prompt["id"], trial)
        return {**prompt, "metadata": {**(prompt.get("metadata") or {}), "workspaceDir": path}}


def conditions_of(settings: AgentSettings, agent: Agent) -> Conditions:
    """What the options say of every prompt; the agent's schema may have variables of its own."""
    environment = agent_environment(settings.env, clean=settings.clean_env)
    own = agent.config.env or {} if isinstance(agent, SchemaAgent) else {}
    secrets = {} if settings.no_redact else {**os.environ, **environment.with_own(own)}
    return Conditions(
        pacer=RateLimiter(settings.rate),
        limits=Limits(settings.timeout, settings.max_output, settings.retries, settings.retry_on),
        environment=environment,
        redact=Redactor(secrets),
    )


def _journal_beside(settings: AgentSettings, done: set[str]) -> Journal | None:
    """Only a file can be gone on with, not a pipe or a device."""
    path = settings.output
    if path is None or path == "-" or (os.path.exists(path) and not os.path.isfile(path)):
        return None
    if not os.access(os.path.dirname(os.path.abspath(path)), os.W_OK):
        return None  # the output may still be written; then it has to do without
    return Journal(path, resume=settings.resume, done=done)


def _of_workspaces(settings: AgentSettings) -> str | None:
    """An option that makes sense for workspaces only."""
    given = {
        "--workspace-template": settings.workspace_template,
        "--workspace-git": settings.workspace_git,
        "--keep-workspaces": settings.keep_workspaces != "all",
    }
    return next((option for option, value in given.items() if value), None)


def _directory(path: str | None) -> str:
    if path is not None and not os.path.isdir(path):
        raise UserError(f"--cwd {path}: no such directory")
    return os.path.abspath(path or os.curdir)
