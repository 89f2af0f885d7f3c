"""What ae-capture and ae-trials do with each prompt: run it, read the result, grade it, write the record.

Each function is a tool's whole run; ae-ray calls them with `remote`, and agents run on other machines. The graders and
the test that stops a run early are made here, for the run in agents/run.py.
"""

from __future__ import annotations

import os
import re
import shlex
from collections import Counter
from collections.abc import Callable, Iterator
from typing import NamedTuple

from agenteval.agents.resume import Fate, without_verdict
from agenteval.agents.run import GraderPlan, PromptRun, RemoteAgents
from agenteval.agents.run_settings import RunSettings
from agenteval.cli.agent_runs import validate_checks
from agenteval.cli.options import CHECKS, checks_grader, refuse_without
from agenteval.comparison.plan import read_pilot
from agenteval.comparison.run_summary import TrialPrompts
from agenteval.errors import UserError
from agenteval.grading.graders import grader_digests, named_graders
from agenteval.grading.run import GraderSet
from agenteval.grading.verdict import answers_in, ending_of, passed, trial_of, trials_record
from agenteval.processes.supervisor import ProcessSupervisor
from agenteval.reports.figures import percent, percent_span
from agenteval.statistics.sequential import EarlyStop
from agenteval.streams.console import Console
from agenteval.streams.digests import prompt_digest
from agenteval.streams.redaction import Redactor
from agenteval.streams.source import Source
from agenteval.streams.text import counted, first_few
from agenteval.wire.records import AGENT_SETUP, STOP_RULE, Record

AHEAD = 4  # prompts of each worker that --stop-when-known may start before the slowest is done
SHOWN = 3  # ids in a message


def capture_prompts(
    source: Source, settings: RunSettings, *, keep_raw: bool, remote: RemoteAgents | None = None
) -> int:
    """Runs the prompts and writes their results; returns the exit code."""
    graders = inline_graders(settings, source, "ae-capture")
    run = PromptRun("ae-capture", source, settings, graders, validate_checks_for(settings), remote)
    stop_early(run)

    def capture(prompt: Record) -> list[Record]:
        result, graded = run.earlier(prompt)
        if result is None:
            result, graded = run.answer(prompt, keep_raw=keep_raw)
            if result is None:
                return []
            if run.graders and not graded:
                run.save(prompt, result)
        if not graded:
            result = run.grade(result)
        if result is not None:
            run.remove_workspace(prompt, failed=bool(result.get("errors")) or not passes(result))
        return [result] if result is not None else []

    def emit(result: Record) -> None:
        run.write(result)
        ending = ending_of(result, graded=run.graders is not None)
        run.report(result["id"], result.get("errors"), ending, started=run.was_started(result["id"]))

    def passes(result: Record) -> bool:
        return run.graders is None or passed(result)

    def hold(result: Record) -> None:
        run.save(result, result, graded=run.graders is not None)

    return run(run.prompts_to_start(), capture, emit, hold=hold)


# --- trials -------------------------------------------------------------------------------------


def run_trials(source: Source, settings: RunSettings, k: int, remote: RemoteAgents | None = None) -> int:
    """Runs k trials of each prompt and writes their records; returns the exit code."""
    graders = inline_graders(settings, source, "ae-trials")
    run = PromptRun("ae-trials", source, settings, graders, validate_checks_for(settings), remote)
    _refuse_another_k(run, k)
    stop_early(run)
    return Trials(run, k)()


class FinishedTrial(NamedTuple):
    """A finished trial; `fresh` unless an earlier run has finished it."""

    prompt: Record
    result: Record
    trial: Record
    fresh: bool


class Trials:
    """Runs trials independently and writes a prompt's record when its last trial has finished."""

    def __init__(self, run: PromptRun, k: int) -> None:
        self.run, self.k, self.graded = run, k, run.grader_plan is not None
        self.metadata: Record = {"graderDigests": run.grader_plan.digests} if run.grader_plan else {}
        if run.settings.workspace_dir and not run.remote:
            self.metadata["workspaceDir"] = os.path.abspath(run.settings.workspace_dir)
        self.collected: dict[str, list[Record]] = {}
        self.passes: Counter[tuple[int, int]] = Counter()  # prompts by graded trials and passes

    def __call__(self) -> int:
        """Runs all trials of all prompts and reports their pass rates; returns the exit code."""
        code = self.run(self.batches(), self.run_batch, self.emit, hold=self.save, trials=self.k)
        self.say_passes()
        return code

    def say_passes(self) -> None:
        """Reports pass@1, pass@k and pass^k of this run's prompts with their intervals, if any is graded."""
        if not any(graded for graded, _ in self.passes):
            return
        counts = TrialPrompts()
        for (graded, passes), prompts in self.passes.items():
            counts.add_alike(self.k, graded, passes, prompts)
        shown = [
            f"{found.name} {percent(found.value)} ({percent_span(found.interval)})" for found in counts.estimates()
        ]
        over = f"{counted(self.passes.total(), 'prompt')} with {counted(self.k, 'trial')} each"
        self.run.console.say(f"{', '.join(shown)}; 95% intervals, {over}")

    def batches(self) -> Iterator[tuple[Record, list[int]]]:
        """Yields batches that may run concurrently; trials of a prompt that share a directory are one batch."""
        settings = self.run.settings
        together = settings.workspace_dir is None
        for prompt in self.run.prompts_to_start():
            numbers = [n for n in range(1, self.k + 1) if not (settings.dry_run and self._stored(prompt, n))]
            yield from [(prompt, numbers)] if together else ((prompt, [number]) for number in numbers)

    def run_batch(self, batch: tuple[Record, list[int]]) -> Iterator[FinishedTrial]:
        """Runs the trials of a batch one after another."""
        prompt, numbers = batch
        for number in numbers:
            finished = self.run_trial(prompt, number)
            if finished is None:
                return
            yield finished

    def run_trial(self, prompt: Record, number: int) -> FinishedTrial | None:
        """Runs one trial in a fresh session, unless an earlier run has finished it; None if it was interrupted."""
        run = self.run
        result, graded = run.unfinished(prompt, number)
        if result is None and (stored := self._stored(prompt, number)):
            result, trial = stored
            if trial is not None:
                return FinishedTrial(prompt, result, trial, fresh=False)
        fresh = result is None or (self.graded and not graded)
        if result is None:
            result, graded = run.answer(prompt, number)
            if result is None:
                return None
        if self.graded and not graded:
            run.save(prompt, result, number)
            result = run.grade({**result, "trialNum": number})
            if result is None:
                return None
        trial = trial_of(result, number, graded=self.graded)
        run.remove_workspace(prompt, number, failed=bool(trial.get("errors")) or not trial.get("pass", True))
        return FinishedTrial(prompt, result, trial, fresh)

    def _stored(self, prompt: Record, number: int) -> tuple[Record, Record | None] | None:
        """Returns the result of a trial in the output, and the trial itself if it is kept unchanged.

        None if there is no such trial, its question differs, or it failed and must be run again.
        """
        resumption, again = self.run.resumption, self.run.settings.retry_failed
        if resumption.fate(prompt["id"]) in (None, Fate.RUN):
            return None
        record = resumption.stored(prompt["id"])
        answers = answers_in(self.run.with_fields(record, prompt))
        numbers: list[int] = [trial["trialNum"] for trial in record["trials"]]
        if number not in numbers:
            return None
        trial, result = record["trials"][numbers.index(number)], answers[numbers.index(number)]
        if again and trial.get("errors"):
            return None
        alike = resumption.is_graded_alike(prompt, record) and not (again and trial.get("graderError"))
        result = {"timing": {"total": trial.get("duration")}, **result}
        if self.graded and not alike:
            return without_verdict(result), None
        return (result | {"score": {"pass": trial["pass"]}} if "pass" in trial else result), trial

    def save(self, finished: FinishedTrial) -> None:
        """Saves a trial that cannot be written yet."""
        if finished.fresh:
            number = finished.trial["trialNum"]
            self.run.save(finished.prompt, finished.result, number, graded=self.graded)

    def emit(self, finished: FinishedTrial) -> None:
        """Collects the trial; writes the prompt's record with the last one."""
        prompt, trial = finished.prompt, finished.trial
        trials = self.collected.setdefault(prompt["id"], [])
        trials.append(trial)
        if len(trials) == self.k:
            del self.collected[prompt["id"]]
            of_agent = finished.result["metadata"]
            metadata = {
                **self.run.of_run(prompt),
                **self.metadata,
                "agent": of_agent.get("agent", self.run.adapter.config.name),
                **{name: of_agent[name] for name in ("model", "agentVersion", AGENT_SETUP) if name in of_agent},
            }
            self.run.write(trials_record(prompt, trials, self.k, metadata))
            verdicts = [trial["pass"] for trial in trials if "pass" in trial]
            self.passes[len(verdicts), sum(verdicts)] += 1
        else:
            self.save(finished)
        name = f"{prompt['id']} trial {trial['trialNum']}/{self.k}"
        started = self.run.was_started(prompt["id"], trial["trialNum"])
        self.run.report(name, trial.get("errors"), ending_of(finished.result, graded=self.graded), started=started)


def _refuse_another_k(run: PromptRun, k: int) -> None:
    """Raises UserError if the file has trials with another k, which cannot be compared with these."""
    for id, written in run.output.written.records.items():
        if written.k not in (None, k):
            raise UserError(
                f"{run.output.name}: its trials of {id} have -k {written.k}; use that, or write to another file"
            )


# --- graders beside agents ----------------------------------------------------------------------


def validate_checks_for(settings: RunSettings) -> Callable[[Record], None]:
    """Returns a function that raises BadRecord if a prompt's checks are invalid or need another image."""
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
    """Returns the command of the grader of checks, in the same container image as the agents."""
    if settings.sandbox_image is None:
        return CHECKS
    engine = f"--sandbox {settings.sandbox}" if settings.sandbox else "--sandbox"
    return f"{CHECKS} {engine} --sandbox-image {shlex.quote(settings.sandbox_image)}"


def inline_graders(settings: RunSettings, source: Source, tool: str) -> GraderPlan | None:
    """Returns the graders that run beside agents; raises UserError if one cannot be found.

    They are those of -g, else that of checks if every prompt has checks, else None.
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
    """Makes the run end once its question is answered, if the options ask for that."""
    settings = run.settings
    if not settings.stop_when_known:
        given = {
            "--against": settings.against is not None,
            "--threshold": settings.threshold is not None,
            "--margin": settings.margin is not None,
            "--fail-if-worse": settings.fail_if_worse,
        }
        for option in (option for option, is_given in given.items() if is_given):
            raise UserError(f"{option} needs --stop-when-known (to compare whole runs, use ae-compare)")
        return
    if (settings.against is None) == (settings.threshold is None):
        raise UserError("--stop-when-known needs either --against FILE or --threshold RATE")
    if settings.margin is not None and settings.against is None:
        raise UserError(
            "--margin is how much worse than the baseline a run may be: give --against FILE, not --threshold"
        )
    if settings.against == "-":
        raise UserError("--against needs a file: stdin is read for prompts")
    if not run.grader_plan:
        raise UserError("--stop-when-known needs a grader: add -g GRADER")
    if settings.shard is not None:
        raise UserError("--stop-when-known needs all the prompts: leave out --shard")
    run.early_end = stop = early_stop(run)
    run.provenance[STOP_RULE] = stop.rule


def early_stop(run: PromptRun) -> EarlyStop:
    """Returns the test, with all prompts in random order, including those of an earlier run."""
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
        run.console.say(f"{settings.against}: not compared, because the input differs: {first_few(changed, SHOWN)}")
    if run.prompts.total and not stop.comparable:
        raise UserError(f"{settings.against}: has no graded record for any of these prompts")
    return stop
