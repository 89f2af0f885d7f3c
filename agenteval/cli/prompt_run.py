"""Running agents over prompts: what ae-run, ae-capture and ae-trials share.

Data flow: prompts (checked, sharded, not yet done) → worker threads, each of which runs a prompt in its workspace
(`attempt`, `capture`) and makes what the tool needs of it → the tool's `emit`, for one result at a time → output.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from msgspec.structs import replace

from agenteval.agents.failures import FailureCount, MissingWorkspaces
from agenteval.agents.identity import identity_of
from agenteval.agents.kinds import SchemaAgent
from agenteval.agents.permissions import warn_of_permissions
from agenteval.agents.prompts import PromptsToRun
from agenteval.agents.session import Answer, PromptJob
from agenteval.cli.agent_options import AgentSettings, agent_of, option_after_dashes
from agenteval.cli.resume import describe_resumption, refuse_another_agent, refuse_another_kind
from agenteval.cli.run_setup import (
    conditions_of,
    directory_of,
    journal_beside,
    open_workspaces,
    program_of,
    skipped_lines,
    specs_of,
    workspace_option,
)
from agenteval.errors import FAILED, OK, Stopped, StrictStop, UserError, WorkspaceError
from agenteval.processes.pool import Pool
from agenteval.processes.shutdown import run_pool
from agenteval.processes.supervisor import ProcessSupervisor
from agenteval.streams.console import Console, Ending
from agenteval.streams.guard import NOT_OF_THE_RECORD, guarded, write_record
from agenteval.streams.output import open_output
from agenteval.streams.source import Source
from agenteval.streams.watched_file import Syncer
from agenteval.wire.records import Record

if TYPE_CHECKING:
    from agenteval.adapters.fit import SchemaFit
    from agenteval.adapters.reader import Adapter
    from agenteval.agents.workspaces import Workspaces
    from agenteval.comparison.sequential.early_stop import EarlyStop
    from agenteval.grading.apply import GraderSet

T = TypeVar("T")
R = TypeVar("R")


class PromptRun:
    """One tool's run over its prompts; if the user named graders, `graders` applies them."""

    fit: SchemaFit | None = None  # where the output of agents is read

    def __init__(self, tool: str, path: str | None, settings: AgentSettings) -> None:
        self.settings = settings
        self.console = Console(tool, progress=settings.progress, strict=settings.strict, output=settings.output)
        self.agent = agent_of(settings, self.console.say)
        if option := option_after_dashes(settings):
            self.console.say(f"{option} after -- is given to the agent; put it before -- to give it to {tool}")
        self._extract: Adapter | None = None
        if settings.extract is not None:
            from agenteval.adapters.bundled import load_adapter

            self._extract = load_adapter(settings.extract)
        self.identity = identity_of(self.agent, self._extract)
        self._agent_metadata: Record = {"agent": self.identity.name, "agentDigest": self.identity.digest}
        if isinstance(self.agent, SchemaAgent) and self.agent.arguments:
            self._agent_metadata["agentArgs"] = self.agent.arguments
        self.specs = specs_of(settings) if settings.grader else []
        if settings.retry_on and not settings.retries:
            raise UserError("--retry-on needs --retries N")
        self.cwd = directory_of(settings.cwd)
        if not settings.workspace_dir and (option := workspace_option(settings)):
            raise UserError(f"{option} needs --workspace-dir")
        source = Source(path)
        resume = settings.resume or settings.retry_failed
        refuse_another_kind(settings.output if resume else None, tool)
        self.output, done = open_output(
            settings.output,
            source,
            append=settings.append,
            resume=resume,
            retry_failed=settings.retry_failed,
            read_only=settings.dry_run,
        )
        self.journal = journal_beside(tool, settings, self.output, done, resume=resume)
        if resume and not settings.force:
            agents = {*self.output.written.agents, *(self.journal.agents if self.journal else ())}
            refuse_another_agent(self.output.name, agents, self.identity)
        self.prompts = PromptsToRun(source, self.console, settings.shard, done)
        self.conditions = replace(conditions_of(settings, self.agent), say=self.console.say)
        self.console.redact = self.conditions.redact
        self.output.encode = self.conditions.redact.line
        self.workspaces: Workspaces | None = None
        self.graders: GraderSet | None = None
        self.stopping: EarlyStop | None = None
        self.failures = FailureCount(
            program_of(self.agent), self.console.say, settings.max_failures, resumable=self.output.resumable
        )
        self.missing = MissingWorkspaces(self.console.say, resumable=self.output.resumable)
        self._warn_of_new_sessions = isinstance(self.agent, SchemaAgent) and self.agent.has_no_resume()
        self._syncer: Syncer | None = None
        self._lock = threading.Lock()  # of the warning

    def __call__(
        self,
        items: Iterator[T],
        work: Callable[[T], Iterable[R]],
        emit: Callable[[R], None],
        *,
        hold: Callable[[R], None],
        trials: int | None = None,
    ) -> int:
        """Does the work on all items and emits each of its results; returns the exit code.

        `hold` saves a result that has to wait for its turn (--keep-order).
        """
        total = self.prompts.total
        if self.settings.dry_run:
            from agenteval.cli.runs.dry_run import print_starts

            return print_starts(self, items)
        workers = self._open()
        if line := describe_resumption(self.output, total, retry_failed=self.settings.retry_failed):
            self.console.say(line)
        if total != 0 and self.settings.progress is not False:
            warn_of_permissions(self.console, self.agent, self.cwd, workspaces=self.workspaces is not None)
        if trials is None:
            self.console.begin(total, at_once=True)
        else:
            self.console.begin(total and total * trials, "trials", at_once=True)
        pool = Pool(work, emit, workers=workers, ordered=self.settings.keep_order, hold=hold)
        finish = self.graders.finish if self.graders else lambda: None
        try:
            run_pool(pool, items, self.processes, self.output, self.console, finish)
        except BaseException as reason:
            if isinstance(reason, Stopped):
                self.failures.report()
            if self.journal:
                self.journal.settle()
            raise
        self._close()
        if total is None and not self.console.done and self.output.written.ids:
            self.console.say("nothing left to do")
        if self.stopping:
            self.console.say(self.stopping.summary())
        if self.fit:
            self.fit.finish()
        self.failures.report()
        self.missing.report()
        ungraded = self.graders is not None and self.graders.erred
        failed = self.console.refused or ungraded or self.missing.count
        failed = failed or (self.failures.failed and self.settings.exit_status)
        return FAILED if failed else OK

    def _close(self) -> None:
        if self._syncer:
            self._syncer.stop()
        try:
            self.output.close()
        finally:
            if self.journal:
                self.journal.close()

    def _open(self) -> int:
        """Opens all that a wrong option could still stop, then the output; returns the number of workers."""
        settings = self.settings
        each = 1 + sum(spec.streams for spec in self.specs)  # processes that one worker may have running
        self.processes = ProcessSupervisor(settings.concurrency * each)
        try:
            self.workspaces = open_workspaces(settings, self.processes, self.console.say)
            if self.specs:
                from agenteval.grading.apply import GraderSet

                self.graders = GraderSet(
                    self.specs,
                    self.processes,
                    self.console.say,
                    timeout=settings.grader_timeout,
                    redact=self.conditions.redact.value,
                    grade_failed=settings.grade_failed,
                    trace=self.console.say if settings.debug else None,
                )
            self.output.open()
            self.output.begin()
            if self.journal:
                self.journal.open()
                for line in skipped_lines(self.journal):
                    self.console.say(line)
            if self.output.durable:
                self._syncer = Syncer([self.output.sync, *([self.journal.sync] if self.journal else [])])
        except UserError:
            self.processes.close()
            raise
        return max(1, self.processes.concurrency // each)

    def prompts_to_start(self) -> Iterator[Record]:
        """Yields the prompts in the order of the input or, with --stop-when-known, in random order until it is."""
        return self.stopping.prompts() if self.stopping else iter(self.prompts)

    # --- one prompt, in the thread of a worker ---

    def adapter(self) -> Adapter:
        """Returns the adapter for the agent's output: of the schema that --extract names, else the agent's own."""
        adapter = self._extract or self.agent.adapter()
        adapter.max_steps = self.settings.max_steps
        from agenteval.adapters.fit import SchemaFit

        self.fit = SchemaFit(adapter.config.name, self.console.say)
        return adapter

    def attempt(self, prompt: Record, trial: int | None = None) -> Answer | None:
        """Runs a prompt in a fresh session.

        Returns None if it was cut short because the tool is stopping, or has no workspace: --resume will run it again.
        """
        self._warn_of_turns(prompt)
        key = self.processes.new_agent_key()
        name = prompt["id"] if trial is None else f"{prompt['id']}, trial {trial}"
        job = PromptJob(
            self._with_metadata(prompt, trial),
            self.agent,
            self.processes,
            key,
            prepare=self.cwd if self.workspaces is None else partial(self.workspaces.make, prompt["id"], key, trial),
            conditions=self.conditions,
            trace=(lambda line: self.console.say(f"{name}: {line}")) if self.settings.debug else None,
        )
        try:
            answer = job.run()
        except WorkspaceError as error:
            if not self.processes.stopping:
                self.missing.add(name, error)
                if self.stopping:
                    self.stopping.skip(prompt["id"])
                if self.settings.strict:
                    raise StrictStop(f"{name}: {error} (stopped by --strict)") from None
            return None
        except NOT_OF_THE_RECORD:
            raise
        except Exception as error:
            answer = job.broken_off(self.console.fault(name, error))
        if self.workspaces is not None:
            self.missing.made()
            if baseline := self.workspaces.leave(prompt["id"], trial):
                answer.raw["metadata"]["workspaceBaseline"] = baseline
        return None if self.processes.stopping else answer

    def capture(
        self, prompt: Record, adapter: Adapter, trial: int | None = None, *, keep_raw: bool = False
    ) -> Record | None:
        """Runs a prompt and reads the result in what the agent printed; returns None if it was cut short."""
        from agenteval.adapters.extract import failed_result, result_of

        answer = self.attempt(prompt, trial)
        if answer is None:
            return None
        reading = answer.reading if adapter is self.agent.adapter() else None

        result = guarded(
            answer.raw,
            lambda raw: result_of(raw, adapter, keep_raw=keep_raw, reading=reading),
            lambda raw, error: failed_result(raw, adapter, self.console.fault(raw["id"], error)),
        )
        if self.fit:
            self.fit.add(answer.raw, result)
        return result

    def grade(self, result: Record) -> Record | None:
        """Returns the result graded, if there are graders; None if that was cut short because the tool is stopping."""
        graded = list(self.graders.grade([result])) if self.graders else [result]
        return graded[0] if graded else None

    def remove_workspace(self, prompt: Record, trial: int | None = None, *, failed: bool) -> None:
        """Removes the workspace of a prompt that is done, unless it is to be kept."""
        keep = self.settings.keep_workspaces
        if self.workspaces is not None and (keep == "none" or (keep == "failed" and not failed)):
            self.workspaces.remove(prompt["id"], trial)

    # --- what is done and not written yet ---

    def unfinished(self, prompt: Record, trial: int = 1) -> tuple[Record | None, bool]:
        """Returns what an earlier run has paid for and not written, and whether it is graded."""
        entry = self.journal.earlier(prompt, trial) if self.journal else None
        if entry and entry.graded and self.graders and (reason := entry.record.get("graderError")):
            self.graders.erred = True  # in the run that writes it, too
            self.console.say(f"{prompt['id']}: could not be graded before the run was resumed: {reason}")
        return (entry.record, entry.graded) if entry else (None, False)

    def save(self, prompt: Record, record: Record, trial: int = 1, *, graded: bool = False) -> None:
        """Saves what an agent has answered until it is written; of the same trial the last one counts."""
        if self.journal:
            self.journal.keep(prompt, self.conditions.redact.record(record), trial, graded=graded)

    def write(self, record: Record) -> None:
        """Writes a record to the output."""
        write_record(self.output, record, self.console)
        if self.journal:
            self.journal.forget(record["id"])
        if self.stopping:
            self.stopping.add(record)

    def report(self, name: str, errors: list[str] | None, ending: Ending | None) -> None:
        """Reports one more that is done: progress, --debug, -e and --strict."""
        self.console.advance(name, ending)
        if self.settings.debug:
            self.console.say(f"{name}: {'; '.join(errors or ()) or 'done'}")
        if self.settings.strict and errors:
            raise StrictStop(f"{name}: {'; '.join(errors)} (stopped by --strict)")
        if self.settings.strict and ending is Ending.GRADER_ERROR:
            raise StrictStop("stopped at the first grader error (--strict)")
        self.failures.add(errors, self.console.total)

    def _warn_of_turns(self, prompt: Record) -> None:
        if not isinstance(prompt["input"], list) or len(prompt["input"]) == 1:
            return
        with self._lock:
            warn, self._warn_of_new_sessions = self._warn_of_new_sessions, False
        if warn:
            self.console.say(
                f"{prompt['id']}: the schema has no resume, so each turn is a new session "
                '(give it resume, or "sessionMode": "iterative")'
            )

    def _with_metadata(self, prompt: Record, trial: int | None) -> Record:
        """Returns the prompt with its workspace and the agent's identity in its metadata."""
        metadata = {**(prompt.get("metadata") or {}), **self._agent_metadata}
        if self.workspaces is not None:
            metadata["workspaceDir"] = self.workspaces.path(prompt["id"], trial)
        return {**prompt, "metadata": metadata}
