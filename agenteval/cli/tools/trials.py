"""ae-trials: prompts → trials: each prompt k times, and how often it passes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, NamedTuple

from agenteval.adapters.extract import result_of
from agenteval.cli.agent_options import (
    AgentSettings,
    GraderSettings,
    agent_options,
    extraction_adapter,
    extraction_option,
    inline_grader_options,
)
from agenteval.cli.options import input_argument
from agenteval.cli.prompt_run import PromptRun
from agenteval.cli.startup import click
from agenteval.cli.tool import tool
from agenteval.errors import BadRecord, UserError
from agenteval.grading.trials import trial_of, trials_record
from agenteval.processes.loop import Job
from agenteval.streams.jsonl import decode_record
from agenteval.wire.records import Record

DEFAULT_K = 5


class Finished(NamedTuple):
    """A trial that has come to its end; not `fresh` where it did so in an earlier run."""

    prompt: Record
    result: Record
    trial: Record
    fresh: bool


class Trials:
    """Runs every trial as a job of its own and writes a prompt's record when its last one is done."""

    def __init__(self, run: PromptRun, extract: str | None, k: int) -> None:
        self.run, self.k, self.graded = run, k, bool(run.specs)
        self.adapter = extraction_adapter(run.agent, extract)
        self.metadata: Record = {"agent": self.adapter.config.name}
        if run.settings.workspace_dir:
            self.metadata["workspaceDir"] = os.path.abspath(run.settings.workspace_dir)
        self.collected: dict[str, list[Record]] = {}

    def __call__(self) -> int:
        """The exit code."""
        return self.run(self.jobs, self.emit, hold=self.keep, trials=self.k)

    def jobs(self, prompt: Record) -> Iterator[Job[Finished | None]]:
        """The trials of a prompt."""
        return (self.job(prompt, number) for number in range(1, self.k + 1))

    def job(self, prompt: Record, number: int) -> Job[Finished | None]:
        """One trial, in a fresh session; one that an earlier run has finished is not run again."""
        run = self.run
        result, graded = run.kept(prompt, number)
        fresh = result is None or (self.graded and not graded)
        if result is None:
            raw = yield from run.attempt(prompt, number)
            if raw is None:
                return None
            result = result_of(raw, self.adapter)
        if run.grading is not None and not graded and not result.get("errors"):
            run.keep(prompt, result, number)
            result = yield from run.grading.job(result)
            if result is None:
                return None
        trial = trial_of(result, number, graded=self.graded)
        yield from run.settle(prompt, number, failed=bool(trial.get("errors")) or not trial.get("pass", True))
        return Finished(prompt, result, trial, fresh)

    def keep(self, finished: Finished) -> None:
        """Put a trial in safety that cannot be written yet."""
        if finished.fresh:
            number = finished.trial["trialNum"]
            self.run.keep(finished.prompt, finished.result, number, graded=self.graded)

    def emit(self, finished: Finished) -> None:
        """Keep the trial; the last one of a prompt makes its record."""
        prompt, trial = finished.prompt, finished.trial
        trials = self.collected.setdefault(prompt["id"], [])
        trials.append(trial)
        if len(trials) == self.k:
            del self.collected[prompt["id"]]
            self.run.write(trials_record(prompt, trials, self.k, self.metadata))
        else:
            self.keep(finished)
        name = f"{prompt['id']} trial {trial['trialNum']}/{self.k}"
        passed, broken = trial.get("pass", True), bool(trial.get("graderError"))
        self.run.report(name, trial.get("errors"), passed=passed, grader_error=broken)


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
    settings = AgentSettings(**options)
    if settings.resume and settings.output:
        _refuse_another_k(settings.output, k)
    run = PromptRun("ae-trials", path, settings, GraderSettings(grader, stream, grader_timeout))
    return Trials(run, extract, k)()
