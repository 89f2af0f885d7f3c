"""ae-trials: prompts → trials: each prompt k times, and how often it passes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, NamedTuple, TypeGuard

from agenteval.agent_options import (
    GraderSettings,
    Settings,
    agent_options,
    extraction_adapter,
    extraction_option,
    inline_grader_options,
)
from agenteval.command import input_argument, tool
from agenteval.errors import BadRecord, UserError
from agenteval.extraction import result_of
from agenteval.journal import Journal
from agenteval.lightclick import click
from agenteval.loop import Job
from agenteval.records import Record
from agenteval.running import Run
from agenteval.stream import decode_record
from agenteval.trials import trial_of, trials_record

DEFAULT_K = 5


class Finished(NamedTuple):
    """A trial that has come to its end, in this run or (`kept`) in an earlier one."""

    prompt: Record
    trial: Record
    kept: bool


class Trials:
    """Runs every trial as a job of its own and writes a prompt's record when its last one is done."""

    def __init__(self, run: Run, extract: str | None, k: int) -> None:
        self.run, self.k = run, k
        self.adapter = extraction_adapter(run.agent, extract)
        self.metadata: Record = {"agent": self.adapter.config.name}
        if run.settings.workspace_dir:
            self.metadata["workspaceDir"] = os.path.abspath(run.settings.workspace_dir)
        self.collected: dict[str, list[Record]] = {}
        self.journal, self.earlier = None, {}
        if _is_file(output := run.settings.output):
            self.journal = Journal(output, resume=run.settings.resume, done=run.done)
            self.earlier = self.journal.earlier()

    def __call__(self) -> int:
        """The exit code."""
        code = self.run(self.jobs, self.emit, trials=self.k)
        if self.journal:
            self.journal.close()
        return code

    def jobs(self, prompt: Record) -> Iterator[Job[Finished | None]]:
        """The trials of a prompt."""
        return (self.job(prompt, number) for number in range(1, self.k + 1))

    def job(self, prompt: Record, number: int) -> Job[Finished | None]:
        """One trial, in a fresh session; one that an earlier run has finished is not run again."""
        grading = self.run.grading
        kept = self.earlier.pop((prompt["id"], number), None)
        if kept and kept["input"] == prompt["input"] and ("pass" in kept["trial"]) == (grading is not None):
            return Finished(prompt, kept["trial"], True)
        raw = yield from self.run.attempt(prompt, number)
        if raw is None:
            return None
        result = result_of(raw, self.adapter)
        if grading is not None and not result.get("errors"):
            graded = yield from grading.job(result)
            if graded is None:
                return None
            result = graded
        trial = trial_of(result, number, graded=grading is not None)
        yield from self.run.settle(prompt, number, failed=bool(trial.get("errors")) or not trial.get("pass", True))
        return Finished(prompt, trial, False)

    def emit(self, finished: Finished) -> None:
        """Keep the trial; the last one of a prompt makes its record."""
        prompt, trial, kept = finished
        trials = self.collected.setdefault(prompt["id"], [])
        trials.append(trial)
        if len(trials) == self.k:
            del self.collected[prompt["id"]]
            self.run.write(trials_record(prompt, trials, self.k, self.metadata))
            if self.journal:
                self.journal.forget(prompt["id"])
        elif self.journal and not kept:
            self.journal.keep(prompt, trial)
        name = f"{prompt['id']} trial {trial['trialNum']}/{self.k}"
        passed, broken = trial.get("pass", True), bool(trial.get("graderError"))
        self.run.report(name, trial.get("errors"), passed=passed, grader_error=broken)


def _is_file(path: str | None) -> TypeGuard[str]:
    """Whether the output is a file, which a later run can go on with; a pipe or a device is not."""
    return path not in (None, "-") and (os.path.isfile(path) or not os.path.exists(path))


def _refuse_another_k(path: str, k: int) -> None:
    """A file of trials is gone on with as it was begun: means over different k cannot be compared."""
    with suppress(OSError, BadRecord), open(path, "rb") as file:
        first = decode_record(file.readline())
        if first.get("k") not in (None, k):
            raise UserError(f"{path}: its trials are -k {first['k']}; go on with that, or write to another file")


@tool("ae-trials")
@input_argument("PROMPTS")
@click.option(
    "-k", type=click.IntRange(1), default=DEFAULT_K, show_default=True, metavar="N", help="Trials of each prompt."
)
@inline_grader_options
@extraction_option
@agent_options
def main(
    path: str | None,
    k: int,
    grader: tuple[str, ...],
    stream: bool,
    grader_timeout: float,
    extract: str | None,
    **options: Any,
) -> int:
    """Run each prompt k times through an agent; with graders, say how often it passes.

    Every trial is a fresh session and, with --workspace-dir, has a directory of its own
    (prompt-<id>-trial-<n>). Trials of one prompt and of different prompts run side by side, -j at a
    time. A record per prompt: its trials and, graded, passRate, passAtK = 1-(1-p)^k and passExpK = p^k,
    beside them passAt and passExp, the unbiased estimates for 1 to k trials. A trial that fails is not
    graded: it has `errors`, and counts as not passed. One whose grader fails has `graderError`, and
    counts neither way.

    Examples:
      ae-trials prompts.jsonl -s claude -k 5 -j 4 -g ./grader.py -o trials.jsonl
      ae-trials prompts.jsonl -s claude -k 5 -j 4 -g ./grader.py -o trials.jsonl --resume
      ae-trials prompts.jsonl --simple "echo {}" -k 3 -g ae-grader-hint | jq '{id, passRate}'

    With -o FILE each finished trial is kept in FILE.unfinished until its prompt is written; --resume
    reads both, so that no finished trial is paid for twice. That file is removed at the end.
    """
    settings = Settings(**options)
    if settings.resume and settings.output:
        _refuse_another_k(settings.output, k)
    run = Run("ae-trials", path, settings, GraderSettings(grader, stream, grader_timeout))
    return Trials(run, extract, k)()
