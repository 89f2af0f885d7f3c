"""ae-trials: prompts → trials: each prompt k times, and how often it passes."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, NamedTuple

from agenteval.agents.run import PromptRun, RunSettings
from agenteval.cli.agent_options import (
    agent_options,
    extraction_option,
    inline_grader_options,
    inline_graders,
    stop_early,
    stop_options,
)
from agenteval.cli.options import count_option, input_argument, max_steps_option
from agenteval.cli.tool import tool
from agenteval.comparison.run_summary import TrialPrompts
from agenteval.errors import BadRecord, UserError
from agenteval.grading.verdict import ending_of, trial_of, trials_record
from agenteval.reports.figures import percent, percent_span
from agenteval.streams.jsonl import decode_record
from agenteval.streams.text import counted
from agenteval.wire.records import Input, Record

DEFAULT_K = 5


class FinishedTrial(NamedTuple):
    """A trial that is done; `fresh` unless an earlier run has done it."""

    prompt: Record
    result: Record
    trial: Record
    fresh: bool


class Trials:
    """Runs every trial by itself and writes a prompt's record when its last trial is done."""

    def __init__(self, run: PromptRun, k: int) -> None:
        self.run, self.k, self.graded = run, k, run.grader_plan is not None
        self.metadata: Record = {"agentDigest": run.identity.digest}
        if run.settings.workspace_dir:
            self.metadata["workspaceDir"] = os.path.abspath(run.settings.workspace_dir)
        self.collected: dict[str, list[Record]] = {}
        self.passes: Counter[tuple[int, int]] = Counter()  # prompts by graded trials and passes

    def __call__(self) -> int:
        """Runs all trials of all prompts, says how often they passed; returns the exit code."""
        code = self.run(self.batches(), self.run_batch, self.emit, hold=self.save, trials=self.k)
        self.say_passes()
        return code

    def say_passes(self) -> None:
        """Says pass@1, pass@k and pass^k of the prompts of this run, with their intervals, if any is graded."""
        if not any(graded for graded, _ in self.passes):
            return
        counts = TrialPrompts()
        for (graded, passed), prompts in self.passes.items():
            counts.add_alike(self.k, graded, passed, prompts)
        shown = [
            f"{found.name} {percent(found.value)} ({percent_span(found.interval)})" for found in counts.estimates()
        ]
        over = f"{counted(self.passes.total(), 'prompt')} with {counted(self.k, 'trial')} each"
        self.run.console.say(f"{', '.join(shown)}; 95 % intervals, {over}")

    def batches(self) -> Iterator[tuple[Record, list[int]]]:
        """Yields the trials that may run side by side; those of one prompt that share a directory are one batch."""
        together = self.run.settings.workspace_dir is None
        earlier = self._successful() if self.run.settings.retry_failed else {}
        for prompt in self.run.prompts_to_start():
            good = [trial for input, trial in earlier.pop(prompt["id"], ()) if input == prompt["input"]]
            if good:
                self.collected[prompt["id"]] = good
            done = {trial["trialNum"] for trial in good}
            numbers = [number for number in range(1, self.k + 1) if number not in done]
            yield from [(prompt, numbers)] if together else ((prompt, [number]) for number in numbers)

    def _successful(self) -> dict[str, list[tuple[Input, Record]]]:
        """Returns the trials that did not fail of the prompts that are run again, each with its input."""
        output = self.run.output
        found: dict[str, list[tuple[Input, Record]]] = {}
        with open(output.absolute, "rb") as file:
            for line in file:
                if line.strip() and (record := decode_record(line)).get("id") in output.written.failed:
                    trials = (trial for trial in record.get("trials", ()) if not trial.get("errors"))
                    found[record["id"]] = [(record["input"], trial) for trial in trials]
        return found

    def run_batch(self, batch: tuple[Record, list[int]]) -> Iterator[FinishedTrial]:
        """Runs the trials of a batch one after another."""
        prompt, numbers = batch
        for number in numbers:
            finished = self.run_trial(prompt, number)
            if finished is None:
                return
            yield finished

    def run_trial(self, prompt: Record, number: int) -> FinishedTrial | None:
        """Runs one trial in a fresh session, unless an earlier run has finished it; None if it was cut short."""
        run = self.run
        result, graded = run.unfinished(prompt, number)
        fresh = result is None or (self.graded and not graded)
        if result is None:
            result = run.capture(prompt, number)
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

    def save(self, finished: FinishedTrial) -> None:
        """Saves a trial that cannot be written yet."""
        if finished.fresh:
            number = finished.trial["trialNum"]
            self.run.save(finished.prompt, finished.result, number, graded=self.graded)

    def emit(self, finished: FinishedTrial) -> None:
        """Collects the trial; with the last one of its prompt the record is written."""
        prompt, trial = finished.prompt, finished.trial
        trials = self.collected.setdefault(prompt["id"], [])
        trials.append(trial)
        if len(trials) == self.k:
            del self.collected[prompt["id"]]
            metadata = {
                **self.metadata,
                "agent": finished.result["metadata"].get("agent", self.run.adapter.config.name),
            }
            self.run.write(trials_record(prompt, trials, self.k, metadata))
            verdicts = [trial["pass"] for trial in trials if "pass" in trial]
            self.passes[len(verdicts), sum(verdicts)] += 1
        else:
            self.save(finished)
        name = f"{prompt['id']} trial {trial['trialNum']}/{self.k}"
        self.run.report(name, trial.get("errors"), ending_of(finished.result, graded=self.graded))


def _refuse_another_k(path: str, k: int) -> None:
    """Raises UserError if the file has trials of another k: they cannot be compared with those of this one."""
    with suppress(OSError, BadRecord), open(path, "rb") as file:
        first = decode_record(file.readline())
        if first.get("k") not in (None, k):
            raise UserError(f"{path}: its trials are -k {first['k']}; go on with that, or write to another file")


@tool("ae-trials")
@input_argument("PROMPTS")
@count_option("-k", least=1, default=DEFAULT_K, help="Trials of each prompt.")
@inline_grader_options
@extraction_option
@stop_options
@max_steps_option
@agent_options
def main(path: str | None, k: int, **options: Any) -> int:
    """Run each prompt k times through an agent; with graders, say how often it passes.

    Every trial is a fresh session and, with --workspace-dir, has a directory of its own
    (prompt-<id>-trial-<n>). Trials run side by side, -j at a time; without --workspace-dir the trials
    of one prompt share a directory, and run one after another. A record per prompt: its trials and,
    graded, passRate, passAtK = 1-(1-p)^k and passExpK = p^k, beside them passAt and passExp, the
    unbiased estimates for 1 to k trials. A trial whose agent fails has `errors` and does not pass (see
    --grade-failed). One whose grader errs has `graderError`, and counts neither way. At the end stderr
    has pass@1, pass@k and pass^k of the prompts of this run, unbiased, with 95 % intervals. Agents run
    with your rights: a directory of their own does not confine them, a container does (examples/container).

    Examples:
      ae-trials prompts.jsonl -s claude -k 5 -j 4 --workspace-dir ws -g ./grader.py -o trials.jsonl
      ae-trials prompts.jsonl -s claude -k 5 -j 4 --workspace-dir ws -g ./grader.py -o trials.jsonl --resume
      ae-trials prompts.jsonl -s claude -k 3 -g ./grader.py --threshold 0.9 --stop-when-known -o trials.jsonl
      ae-trials prompts.jsonl --simple "echo {}" -k 3 -g ae-grader-hint | jq '{id, passRate}'

    With --stop-when-known the prompts run in random order, and no further one is started once it is known
    whether the run passes more or less often than --against FILE on the same prompts, or than --threshold.
    The test allows for a look after every prompt: at most 5 % of runs that do not differ are stopped.

    With -o FILE each finished trial is kept in FILE.unfinished until its prompt is written; --resume
    reads both, so that no finished trial is paid for twice. That file is removed at the end.
    """
    settings = RunSettings(**options)
    if (settings.resume or settings.retry_failed) and settings.output:
        _refuse_another_k(settings.output, k)
    run = PromptRun("ae-trials", path, settings, inline_graders(settings))
    stop_early(run)
    return Trials(run, k)()
