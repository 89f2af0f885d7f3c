"""The run of an agent over prompts: what ae-run, ae-capture and ae-trials share.

Data flow: prompts (checked, of this shard, not yet done) → worker threads, each of which runs a prompt in its workspace
(`attempt`, `capture`) and makes what the tool needs of it → the tool's `emit`, for one result at a time → output. A
result that cannot be written yet is in the journal (resume.py). Graders, and the test that stops a run early, come from
the tool: they are used here, and made elsewhere. With `remote`, agents and graders run on other machines (ae-ray), and
everything else here: what is started, limits, --resume, the output.
"""

import os
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain
from typing import Any, Protocol, TypeVar, get_args

import msgspec

from agenteval import __version__
from agenteval.adapters.reader import Reading, failed_result, result_of
from agenteval.adapters.schema_file import SchemaFit, load_adapter
from agenteval.agents.dry_run import planned_start, start_lines
from agenteval.agents.kinds import (
    SchemaAgent,
    agent_command,
    identity_of,
    in_container,
)
from agenteval.agents.limits import Budget, FailureCount, MissingWorkspaces
from agenteval.agents.prompts import Places, Prompts
from agenteval.agents.resume import (
    Fate,
    Journal,
    Resumption,
    StoredResult,
    refuse_another_agent,
    refuse_another_kind,
    refuse_another_shard,
    with_fields,
    without_verdict,
)
from agenteval.agents.run_settings import (
    RunSettings,
    agent_of,
    conditions_of,
    options_before_dashes,
    place_words,
    refuse_lonely_options,
    sandbox_asked_for,
    variant_asked_for,
)
from agenteval.agents.session import PromptJob
from agenteval.agents.workspaces import HOME_ENDING, PREFIX, Markers, SetupFailed, Workspaces, workspace_name
from agenteval.errors import FAILED, OK, Stopped, StrictStop, UserError, WorkspaceError
from agenteval.processes.pool import Pool, run_pool
from agenteval.processes.process import ANSWER_FILE
from agenteval.processes.supervisor import ProcessSupervisor
from agenteval.streams.console import Console, Ending
from agenteval.streams.digests import fields_digest, prompt_digest
from agenteval.streams.output import NOT_OF_THE_RECORD, Output, Syncer, open_output, refuse_to_replace, write_record
from agenteval.streams.redaction import Redactor
from agenteval.streams.source import Source
from agenteval.streams.text import visible
from agenteval.wire.adapter_schema import UsageField
from agenteval.wire.records import RUN_ID_VARIABLE, PromptWorkspace, Raw, Record
from agenteval.wire.validation import check as convert

T = TypeVar("T")
R = TypeVar("R")


class Graders(Protocol):
    """Graders at work; `erred` says whether one of them could not grade some record."""

    erred: bool

    def grade(self, records: list[Record]) -> Iterable[Record]:
        """Returns the records graded; fewer if the tool is stopping."""

    def finish(self) -> None:
        """Lets their processes exit: nothing more is to be graded."""


class GraderPlan(msgspec.Struct, frozen=True):
    """The graders that the user named: how to open them, and how many processes each worker needs for them."""

    open: Callable[[ProcessSupervisor, Console, Redactor], Graders]
    processes_each: int
    digests: dict[str, str]  # of each grader, by its name


class RemoteAnswer(msgspec.Struct):
    """What became of a prompt on another machine: its record, or why there is none."""

    record: Record | None
    no_workspace: str | None = None
    full: bool = False  # the disk, so that there is no workspace
    died: str | None = None  # how often the worker died that had it, and how


class RemoteAgents(Protocol):
    """Runs prompts on other machines, graders included."""

    def open(self, run_id: str) -> int:
        """Gets ready for a run; returns how many prompts can be under way at a time."""

    def answer(self, prompt: Record, trial: int | None) -> RemoteAnswer:
        """Returns what became of a prompt; waits until there is a place for it."""

    def finish(self) -> None:
        """Ends what runs there: no more prompts come."""


class EarlyEnd(Protocol):
    """Decides which prompt is started next, and that no further one is needed; `worse` if it is known to be worse."""

    @property
    def worse(self) -> bool: ...

    def prompts(self) -> Iterator[Record]:
        """Yields the prompts to start."""

    def add(self, record: Record) -> None:
        """Takes the record of a prompt into account."""

    def skip(self, id: str) -> None:
        """Goes on without the record of a prompt that could not be run."""

    def summary(self) -> str:
        """Returns what was decided, for the user."""


class PromptRun:
    """One tool's run over its prompts."""

    def __init__(
        self,
        tool: str,
        source: Source,
        settings: RunSettings,
        graders: GraderPlan | None = None,
        validate: Callable[[Record], object] = lambda _prompt: None,
        remote: RemoteAgents | None = None,
    ) -> None:
        self.settings, self.grader_plan, self.remote = settings, graders, remote
        name = "ae-ray" if remote else tool
        self.console = Console(name, progress=settings.progress, strict=settings.strict, output=settings.output)
        self.agent = agent_of(settings, self.console.say, elsewhere=remote is not None)
        if moved := options_before_dashes(tool, source.path, settings):
            self.console.say(f"-o after -- goes to the agent; to give it to {tool}: {moved}")
        extract = load_adapter(settings.extract) if settings.extract is not None else None
        self.adapter = extract or self.agent.adapter
        self.adapter.max_steps = settings.max_steps
        refuse_lonely_options(settings)
        if settings.cwd is not None and not os.path.isdir(settings.cwd):
            raise UserError(f"--cwd {settings.cwd}: no such directory")
        self.cwd = os.path.abspath(settings.cwd or os.curdir)
        self.variant = variant_asked_for(settings, self.agent)
        self.sandbox = sandbox_asked_for(settings, self.agent, self.variant, self.cwd, source.path)
        surroundings = place_words(settings, self.sandbox, self.variant)
        self.identity = identity_of(self.agent, extract, settings.env, self.cwd, surroundings)
        resume = settings.resume or settings.retry_failed
        refuse_another_kind(settings.output if resume or settings.append else None, tool)
        self.output = open_output(
            settings.output, source, append=settings.append, resume=resume, read_only=settings.dry_run
        )
        if not (resume or settings.append or settings.overwrite or settings.dry_run):
            refuse_to_replace(settings.output)
        self.output.order = {} if resume and settings.keep_order else None
        self.journal = _journal_beside(tool, settings, self.output, resume=resume)
        if resume and not settings.force:
            agents = {*self.output.written.agents, *(self.journal.agents if self.journal else ())}
            refuse_another_agent(self.output.name, agents, self.identity)
            refuse_another_shard(self.output.name, self.output.written.ids, settings.shard)
        digests = graders.digests if graders else None
        self.resumption = Resumption(self.output, self.journal, retry_failed=settings.retry_failed, graders=digests)
        clean = Places(source, settings.workspace_dir).clean
        self.prompts = Prompts(source, self.console, settings.shard, self.resumption.wants, clean, validate)
        self.conditions = conditions_of(settings, self.agent, self.variant, self.sandbox, self.console)
        self.provenance = self._provenance()
        self.console.redact = self.conditions.redact
        self.output.encode = self.conditions.redact.line
        self.fit = SchemaFit(self.adapter.config.name, self.console.say)
        self.workspaces: Workspaces | None = None
        self.graders: Graders | None = None
        self.early_end: EarlyEnd | None = None
        say, resumable = self.console.say, self.output.resumable
        self.failures = FailureCount(
            self.agent.title, say, settings.max_failures, resumable=resumable, keep_going=settings.keep_going
        )
        self.missing = MissingWorkspaces(say, resumable=resumable)
        self.budget = Budget(settings.max_cost, settings.max_total_tokens, say)
        if self.budget.limited and resume:
            self._count_earlier()
        self._has_no_resume = isinstance(self.agent, SchemaAgent) and self.agent.has_no_resume
        self._warned_of_turns = threading.Lock()  # is held once the warning was shown
        self.given_up = 0  # prompts whose workers died
        self._syncer: Syncer | None = None
        self._started: set[tuple[str, int | None]] = set()  # prompts with agents of this run that are not reported yet

    def _count_earlier(self) -> None:
        """Counts what the answers of earlier runs have used: those in the output, and those in the journal."""
        records = [] if self.journal is None else self.journal.records()
        for record in chain(records, self.output.records()):
            if not isinstance(trials := record.get("trials"), list):
                self._count_usage(record)
                continue
            for trial in trials:
                self.budget.add(trial, (record.get("metadata") or {}).get("model"))

    def _count_usage(self, record: Record) -> None:
        """Counts what a raw record or a result has used."""
        if self.budget.limited:
            result = record if "trajectory" in record else result_of(record, self.adapter)
            self.budget.add(result, result["metadata"].get("model"))

    def _provenance(self) -> Record:
        """Returns what says of each record where it comes from; --resume goes on with the same run."""
        settings, surroundings = self.settings, self.conditions.surroundings
        additions = surroundings.planned("{cwd}", "{home}" if settings.isolate else None)[0] if surroundings else ()
        command = agent_command(self.agent, additions).replace(ANSWER_FILE, "ANSWER_FILE")
        given = os.environ.pop(RUN_ID_VARIABLE, None)
        kept = self.output.written.run_id or (self.journal.run_id if self.journal else None)
        return {
            "runId": kept or given or os.urandom(8).hex(),
            **({} if settings.label is None else {"label": settings.label}),
            "suiteVersion": __version__,
            "agent": self.identity.name,
            "agentCommand": self.conditions.redact(command),
            "agentDigest": self.identity.digest,
            "isolated": settings.isolate,
            **({"variant": found} if (found := self.variant.metadata()) else {}),
            **({} if self.sandbox is None else {"sandbox": self.sandbox.identity}),
        }

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
        settings, total = self.settings, self.prompts.total
        if total != 0 and (line := self._configuration_line()):
            self.console.say(line)
        if settings.dry_run:
            return self._print_starts(items)
        workers = self._open()
        if total != 0 and settings.progress is not False:
            self._warn_of_permissions()
        if self.journal and total:
            self.journal.announce(total + self.resumption.kept)
        self.console.begin(total and total * (trials or 1), "trials" if trials else "prompts", at_once=True)
        pool = Pool(work, emit, workers=workers, ordered=settings.keep_order, hold=hold)
        try:
            run_pool(pool, items, self.processes, self.output, self.console, self._finish)
        except BaseException as reason:
            if isinstance(reason, Stopped):
                self.failures.report()
            if self.journal:
                self.journal.settle()
            raise
        self._close()
        return self._report(trials)

    def prompts_to_start(self) -> Iterator[Record]:
        """Yields the prompts in the order of the input or, with --stop-when-known, in random order until it is."""
        return self.early_end.prompts() if self.early_end else iter(self.prompts)

    # --- begin and end ---

    def _open(self) -> int:
        """Opens all that a wrong option could still stop, then the output; returns the number of workers."""
        settings = self.settings
        each = 1 + (self.grader_plan.processes_each if self.grader_plan else 0)  # processes of one worker
        self.processes = ProcessSupervisor(
            each if self.remote else settings.concurrency * each, shared=bool(self.remote)
        )
        try:
            self.workspaces = self._open_workspaces()
            if self.grader_plan:
                self.graders = self.grader_plan.open(self.processes, self.console, self.conditions.redact)
            self.output.open()
            self.output.begin()
            if self.journal:
                self.journal.open()
                for line in self.journal.skipped_lines():
                    self.console.say(line)
            if self.output.durable:
                self._syncer = Syncer([self.output.sync, *([self.journal.sync] if self.journal else [])])
            if self.remote:
                return self._open_remote(self.remote)
        except UserError:
            self.processes.close()
            raise
        return self.processes.workers(settings.concurrency, each, self.console.say)

    def _open_remote(self, remote: RemoteAgents) -> int:
        """Connects to other machines; what their library prints goes to stderr, because stdout carries records."""
        if self.output.path is None:
            self.output.fd = os.dup(1)
        os.dup2(2, 1)
        return remote.open(self.provenance["runId"])

    def _open_workspaces(self) -> Workspaces | None:
        """Returns the workspaces that the options ask for, marked with the run; warns if they are in a repository."""
        settings, surroundings = self.settings, self.conditions.surroundings
        if settings.workspace_dir is None or self.remote:
            return None
        workspaces = Workspaces(
            settings.workspace_dir,
            settings.workspace_template,
            self.processes,
            git=settings.workspace_git,
            fresh=settings.fresh_workspaces,
            run_id=self.provenance["runId"],
            report=self.console.say,
            dress=partial(self.variant.dress, agent=self.agent) if self.variant.changes_workspace else None,
            boundary=surroundings is not None and surroundings.needs_repository,
        )
        if repository := workspaces.repository_around():
            self.console.say(
                f"{settings.workspace_dir} is inside the git repository {repository}, and some agents then work "
                f"there; --workspace-git makes each workspace its own repository"
            )
        if surroundings is not None:
            surroundings.remove_left(workspaces.base, workspaces.markers)
        return workspaces

    def _finish(self) -> None:
        """Lets what works for this run come to its end, after the last item."""
        if self.remote:
            self.remote.finish()
        if self.graders:
            self.graders.finish()

    def _close(self) -> None:
        if self._syncer:
            self._syncer.stop()
        try:
            self.output.close()
        finally:
            if self.journal:
                self.journal.close()

    def _report(self, trials: int | None) -> int:
        """Reports at the end what the user has to know; returns the exit code."""
        if line := self.resumption.summary(limited=self.budget.not_run > 0):
            self.console.say(line)
        elif not self.prompts.read and not self.console.refused:
            self.console.say(f"{self.prompts.source.name}: contains no prompts; nothing was run")
        if self.early_end:
            self.console.say(self.early_end.summary())
        self.fit.finish()
        self.failures.report()
        self.missing.report()
        self.budget.report("prompt" if trials is None else "trial", resumable=self.output.resumable)
        ungraded = self.graders is not None and self.graders.erred
        failed = self.failures.failed and self.settings.exit_status
        incomplete = self.console.refused or self.missing.count or self.budget.not_run or self.given_up
        worse = self.settings.fail_if_worse and self.early_end is not None and self.early_end.worse
        return FAILED if incomplete or ungraded or failed or worse else OK

    def _configuration_line(self) -> str | None:
        """Returns what to tell the user about configuration of theirs that the agent reads."""
        if self.sandbox is not None or self.remote:
            return None  # the agent sees nothing of it, or each machine reports its own
        base = self.settings.workspace_dir
        place = os.path.join(os.path.abspath(base), PREFIX) if base else self.cwd
        return self.conditions.surroundings.report(place) if self.conditions.surroundings else None

    def _warn_of_permissions(self) -> None:
        """Shows one line on a terminal if agents have neither workspaces nor a container."""
        if self.workspaces is None and self.sandbox is None and not self.remote and not in_container(self.agent):
            line = f"{self.console.tool}: agents work in this directory ({self.cwd}) with your permissions"
            self.console.show(lambda _width: [f"{line}; --workspace-dir DIR gives each prompt its own"])

    # --- one prompt, in the thread of a worker ---

    def attempt(self, prompt: Record, trial: int | None = None) -> tuple[Record, Reading | None] | None:
        """Runs a prompt in a fresh session; returns its raw record and what the agent's adapter has read of it.

        Returns None if it was cut short because the tool is stopping, or has no workspace: --resume will run it again.
        """
        if not self._may_start(prompt, trial):
            return None
        try:
            raw, reading = self.run_session(prompt, trial)
        except WorkspaceError as error:
            self._no_workspace(prompt, trial, error)
            return None
        if self.workspaces is not None:
            self.missing.made()
        return None if self.processes.stopping else (raw, reading)

    def _may_start(self, prompt: Record, trial: int | None) -> bool:
        """Returns whether the budget allows another agent; notes that it is started."""
        if self.budget.refuses():
            self._skip(prompt)
            return False
        self._warn_of_turns(prompt)
        self._started.add((prompt["id"], trial))
        return True

    def _no_workspace(self, prompt: Record, trial: int | None, error: WorkspaceError) -> None:
        if self.processes.stopping:
            return
        name = _name(prompt, trial)
        self.missing.add(name, error)
        self._skip(prompt)
        if self.settings.strict:
            raise StrictStop(f"{name}: {error} (stopped by --strict)") from None

    def run_session(self, prompt: Record, trial: int | None) -> tuple[Record, Reading | None]:
        """Returns the raw record of a session, and what was read of it; WorkspaceError if it has no directory."""
        name = _name(prompt, trial)
        job = self._job(prompt, trial, name)
        try:
            raw = job.run()
            reading = job.reading
        except WorkspaceError:
            raise
        except NOT_OF_THE_RECORD:
            raise
        except SetupFailed as error:
            raw, reading = job.broken_off(str(error)), None
        except Exception as error:
            raw, reading = job.broken_off(self.console.fault(name, error)), None
        if self.workspaces is not None and (baseline := self.workspaces.leave(prompt["id"], trial)):
            raw["metadata"]["workspaceBaseline"] = baseline
        if job.repeated:
            raw |= self._retried_usage({**prompt, **fields} for fields in job.repeated)
        if self.settings.debug:
            self._explain(raw)
        return raw, reading

    def answer(self, prompt: Record, trial: int | None = None, *, keep_raw: bool = False) -> tuple[Record | None, bool]:
        """Returns the result of a prompt, None if it was cut short, and whether it is graded: elsewhere it is."""
        if self.remote is None:
            return self.capture(prompt, trial, keep_raw=keep_raw), False
        result = self._remote_answer(prompt, trial)
        if result is None:
            return None, False
        if "trajectory" not in result:  # it was given up
            return self.extract(prompt, result, None, keep_raw=keep_raw), False
        self._count_usage(result)
        if self.graders is not None and "graderError" in result:
            self.graders.erred = True
        return result, self.graders is not None

    def _remote_answer(self, prompt: Record, trial: int | None) -> Record | None:
        """Has another machine run the prompt; returns its record as a record of this run, None if there is none.

        A prompt that is given up has a raw record.
        """
        assert self.remote is not None
        if not self._may_start(prompt, trial):
            return None
        self.processes.pause(self.conditions.pacer.wait())
        if self.processes.stopping:  # the pause ends then, too
            return None
        found = self.remote.answer(prompt, trial)
        if found.no_workspace is not None:
            self._no_workspace(prompt, trial, WorkspaceError(found.no_workspace, full=found.full))
        if found.died is not None and not self.processes.stopping:
            self.given_up += 1
            return self._job(prompt, trial, _name(prompt, trial)).broken_off(found.died)
        if found.record is None or self.processes.stopping:
            return None
        self.missing.made()
        metadata = found.record.get("metadata") or {}
        if self.grader_plan and "graderDigests" in metadata:
            metadata = {**metadata, "graderDigests": self.grader_plan.digests}
        return found.record | {"metadata": {**metadata, **self.of_run(prompt)}}

    def _retried_usage(self, raws: Iterable[Record]) -> Record:
        """Returns what tries that were repeated have used, as the field of a record; nothing if it is not known."""
        used: Counter[str] = Counter()
        for raw in raws:
            timing = result_of(raw, self.adapter)["timing"]
            used.update({name: timing[name] for name in get_args(UsageField) if name in timing})
        return {"retriedUsage": dict(used)} if used else {}

    def _explain(self, raw: Record) -> None:
        """Shows which rule of the adapter took which line."""
        from agenteval.adapters.explain import Explainer

        for line in Explainer(self.adapter.config, self.adapter.config.name).explain(raw):
            self.console.say(line)

    def _job(self, prompt: Record, trial: int | None, name: str) -> PromptJob:
        """Returns the job of a prompt, with what the run writes into its metadata (wire/records.py: RUN_METADATA)."""
        metadata = {**(prompt.get("metadata") or {}), **self.of_run(prompt)}
        if isinstance(self.agent, SchemaAgent) and self.agent.arguments:
            metadata["agentArgs"] = self.agent.arguments
        key = self.processes.new_agent_key()
        prepare: Callable[[], str] | str = self.cwd
        make_home = None
        if self.workspaces is not None:
            metadata["workspaceDir"] = self.workspaces.path(prompt["id"], trial)
            given = convert(prompt["workspace"], PromptWorkspace) if prompt.get("workspace") is not None else None
            prepare = partial(self.workspaces.make, prompt["id"], key, trial, given)
            make_home = partial(self.workspaces.make_home, prompt["id"], trial)
        trace = (lambda line: self.console.say(f"{name}: {line}")) if self.settings.debug else None
        prompt = {**prompt, "metadata": metadata}
        return PromptJob(
            prompt,
            self.agent,
            self.processes,
            key,
            prepare=prepare,
            make_home=make_home,
            conditions=self.conditions,
            trace=trace,
        )

    def of_run(self, prompt: Record) -> Record:
        """Returns what the metadata of a prompt's record says about its run and its question."""
        return {**self.provenance, "promptDigest": prompt_digest(prompt), "fieldsDigest": fields_digest(prompt)}

    def _skip(self, prompt: Record) -> None:
        if self.early_end:
            self.early_end.skip(prompt["id"])

    def _warn_of_turns(self, prompt: Record) -> None:
        several = isinstance(prompt["input"], list) and len(prompt["input"]) > 1
        if several and self._has_no_resume and self._warned_of_turns.acquire(blocking=False):
            self.console.say(
                f"{prompt['id']}: the schema has no resume, so each turn starts a new session "
                '(add resume to it, or "sessionMode": "iterative")'
            )

    def capture(self, prompt: Record, trial: int | None = None, *, keep_raw: bool = False) -> Record | None:
        """Runs a prompt and reads the result in what the agent printed; returns None if it was cut short."""
        answer = self.attempt(prompt, trial)
        if answer is None:
            return None
        result = self.extract(prompt, *answer, keep_raw=keep_raw)
        self._count_usage(result)
        return result

    def extract(self, prompt: Record, raw: Record, reading: Reading | None, *, keep_raw: bool = False) -> Record:
        """Returns the result that is in a raw record."""
        try:
            own = reading if self.adapter is self.agent.adapter else None
            result = result_of(raw, self.adapter, keep_raw=keep_raw, reading=own)
        except Exception as error:
            result = failed_result(raw, self.adapter, self.console.fault(prompt["id"], error))
        if not self.fit.decided:
            self.fit.add(raw, result)
        return result

    def raw(self, prompt: Record) -> Record | None:
        """Runs a prompt and returns its raw record; None if it was cut short."""
        if self.remote:
            raw = self._remote_answer(prompt, None)
        else:
            answer = self.attempt(prompt)
            raw = answer[0] if answer else None
        if raw is not None:
            self._count_usage(raw)
        return raw

    def grade(self, result: Record) -> Record | None:
        """Returns the result graded, if there are graders; None if that was cut short because the tool is stopping."""
        graded = list(self.graders.grade([result])) if self.graders else [result]
        return graded[0] if graded else None

    def remove_workspace(self, prompt: Record, trial: int | None = None, *, failed: bool) -> None:
        """Removes the workspace of a prompt that is done, unless it is to be kept."""
        if self.workspaces is not None and not self.keeps_workspace(failed=failed):
            self.workspaces.remove(prompt["id"], trial)

    def keeps_workspace(self, *, failed: bool) -> bool:
        """Returns whether the workspace of a prompt that is done is to be kept."""
        keep = self.settings.keep_workspaces
        return not (keep == "none" or (keep == "failed" and not failed))

    # --- what is done: kept until it is written, then reported ---

    def unfinished(self, prompt: Record, trial: int = 1) -> tuple[Record | None, bool]:
        """Returns what an earlier run has paid for and not written, and whether it is graded."""
        entry = self.journal.earlier(prompt, trial) if self.journal else None
        if entry is None:
            return None, False
        graded = entry.graded and self.resumption.is_graded_alike(prompt, entry.record)
        if graded and self.graders and (reason := entry.record.get("graderError")):
            self.graders.erred = True  # in the run that writes it, too
            self.console.say(f"{prompt['id']}: could not be graded before the run was resumed: {reason}")
        return self.with_fields(entry.record, prompt), graded

    def earlier(self, prompt: Record) -> tuple[Record | None, bool]:
        """Returns the answer of an earlier run that still holds, and whether it needs no grading.

        It is in the journal or, if it is to be graded again or to get new fields, in the output.
        """
        record, graded = self.unfinished(prompt)
        fate = self.resumption.fate(prompt["id"])
        if record is not None or fate not in (Fate.GRADE, Fate.CARRY):
            return record, graded
        record = self.with_fields(self.resumption.stored(prompt["id"]), prompt)
        return (record, True) if fate is Fate.CARRY else (without_verdict(record), False)

    def with_fields(self, record: Record, prompt: Record) -> Record:
        """Returns the record of an earlier run with the fields that its prompt has now, and the label of this run."""
        record = with_fields(record, prompt, self.adapter.config.metadata or ())
        if self.settings.label is not None:
            record["metadata"]["label"] = self.settings.label
        return record

    def save(self, prompt: Record, record: Record, trial: int = 1, *, graded: bool = False) -> None:
        """Saves what an agent has answered until it is written; of the same trial the last one counts."""
        if self.journal:
            self.journal.keep(prompt, self.conditions.redact.record(record), trial, graded=graded)

    def write(self, record: Record) -> None:
        """Writes a record to the output."""
        write_record(self.output, record, self.console)
        self.resumption.note_written(record["id"])
        if self.journal:
            self.journal.forget(record["id"])
        if self.early_end:
            self.early_end.add(record)

    def report(self, name: str, errors: list[str] | None, ending: Ending | None, *, started: bool) -> None:
        """Reports one more that is done; `started` says whether an agent of this run has answered it."""
        self.console.advance(name, ending)
        if self.settings.debug:
            self.console.say(f"{name}: {'; '.join(errors or ()) or 'done'}")
        if self.settings.strict and errors:
            raise StrictStop(f"{name}: {'; '.join(errors)} (stopped by --strict)")
        if self.settings.strict and ending is Ending.GRADER_ERROR:
            raise StrictStop("stopped at the first grader error (--strict)")
        if started:
            self.failures.add(errors, self.console.total)

    def was_started(self, prompt_id: str, trial: int | None = None) -> bool:
        """Returns whether this run has started an agent for a prompt: not if it had the answer of an earlier one."""
        try:
            self._started.remove((prompt_id, trial))
        except KeyError:
            return False
        return True

    # --- --dry-run ---

    def _print_starts(self, items: Iterator[Any]) -> int:
        """Prints the start of each agent to stdout, even with -o; returns the exit code.

        An item is a prompt, or a prompt and the numbers of its trials.
        """
        stdout = Output()
        base = os.path.abspath(self.settings.workspace_dir) if self.settings.workspace_dir is not None else ""
        case = bool(base) and Markers(base).ignores_case()
        for item in items:
            prompt, trials = item if isinstance(item, tuple) else (item, [None])
            for trial in trials:
                fate = self.resumption.fate(prompt["id"])
                if fate in (Fate.GRADE, Fate.CARRY) or self.unfinished(prompt, trial or 1)[0] is not None:
                    continue  # an agent has answered it in an earlier run
                cwd = os.path.join(base, workspace_name(prompt["id"], trial, ignores_case=case)) if base else self.cwd
                home = (cwd + HOME_ENDING if base else "HOME") if self.settings.isolate else None
                start = planned_start(prompt, self.agent, cwd, self.conditions, trial, home)
                start |= {"variant": found} if (found := self.provenance.get("variant")) else {}
                if stdout.isatty():
                    stdout.write_bytes("".join(f"{visible(line)}\n" for line in start_lines(start)).encode())
                else:
                    write_record(stdout, start, self.console)
        return FAILED if self.console.refused else OK


def _name(prompt: Record, trial: int | None) -> str:
    """Returns what messages call a prompt or one of its trials."""
    return str(prompt["id"]) if trial is None else f"{prompt['id']}, trial {trial}"


def _journal_beside(tool: str, settings: RunSettings, output: Output, *, resume: bool) -> Journal | None:
    """Returns a journal if the output is a file: a pipe or a device cannot be resumed, nor synced."""
    path = settings.output
    if path is None or path == "-" or (os.path.exists(path) and not os.path.isfile(path)):
        return None
    output.durable = not settings.no_sync
    folder = os.path.dirname(os.path.abspath(path))
    if os.path.isdir(folder) and not os.access(folder, os.W_OK):
        return None  # the output may be writable all the same; then there is no journal
    kind = Raw if tool == "ae-run" else StoredResult
    journal = Journal(path, resume=resume, written=output.written.ids, tool=tool, kind=kind)
    journal.durable, journal.sync_output = output.durable, output.sync if output.durable else lambda: None
    return journal
