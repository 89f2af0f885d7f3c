"""ae-validate-refs: prompts with a reference → does each reference answer pass the grader."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from agenteval.agents.prompts import Prompts
from agenteval.cli.grader_run import GraderRun
from agenteval.cli.options import (
    grader_option,
    grader_options,
    input_argument,
    output_option,
    progress_option,
    strict_option,
)
from agenteval.cli.tool import tool
from agenteval.errors import FAILED, OK
from agenteval.grading.verdict import passed, ungraded
from agenteval.streams.console import Console
from agenteval.streams.output import Output
from agenteval.streams.source import Source
from agenteval.streams.text import clip
from agenteval.wire.records import Record

NAME = "ae-validate-refs"
BATCH = 64
IDS_SHOWN = 5
ID_WIDTH = 40
VERDICT = ("pass", "score", "reasoning", "outcome")


class References(Prompts):
    """The prompts that have a reference; those without one are counted."""

    def __init__(self, source: Source, console: Console) -> None:
        self._without: set[int] = set()  # a file is gone through twice
        super().__init__(source, console, None, set())

    @property
    def without(self) -> int:
        """How many prompts have no reference."""
        return len(self._without)

    def _accept(self, line: bytes) -> Record | None:
        prompt = super()._accept(line)
        if prompt is not None and prompt.get("reference") is None:
            self._without.add(hash(prompt["id"]))
            return None
        return prompt


def answered(prompt: Record) -> Record:
    """The result of an agent that answers the prompt with its reference and does nothing else."""
    result = {"output": prompt["reference"], "trajectory": [], "toolErrors": False}
    return {**ungraded(prompt), **result, "metadata": prompt.get("metadata") or {}}


def validation(prompt: Record, graded: Record) -> Record:
    """The verdict on a prompt's reference, flat, and the prompt's other fields behind it."""
    score = graded.get("score") or {}
    record = {field: prompt[field] for field in ("id", "input", "reference")}
    record |= {field: score[field] for field in VERDICT if field in score}
    record |= {field: graded[field] for field in ("scores", "graderError") if field in graded}
    return record | {field: value for field, value in ungraded(prompt).items() if field not in record}


class ValidationCounts:
    """How many references passed, and which did not."""

    def __init__(self) -> None:
        self.passed = self.not_passed = self.unjudged = 0
        self.failing: list[str] = []

    def add(self, graded: Record) -> None:
        """One more verdict."""
        if graded.get("graderError"):
            self.unjudged += 1
        elif passed(graded):
            self.passed += 1
        else:
            self.not_passed += 1
            if len(self.failing) < IDS_SHOWN:
                self.failing.append(clip(graded["id"], ID_WIDTH))

    def summary(self) -> str | None:
        """What there is to say; None where every reference passed."""
        if not (self.not_passed or self.unjudged):
            return None
        total = self.passed + self.not_passed + self.unjudged
        parts = [f"{self.passed} of {total} references passed"]
        if self.not_passed:
            more = f" and {self.not_passed - IDS_SHOWN} more" if self.not_passed > IDS_SHOWN else ""
            parts.append(f"{self.not_passed} did not pass ({', '.join(self.failing)}{more})")
        if self.unjudged:
            parts.append(f"{self.unjudged} could not be graded")
        return ", ".join(parts)


@tool(NAME, exit_status={1: "finished, but some lines were refused, graders erred or references did not pass"})
@input_argument("PROMPTS")
@grader_option(required=True)
@grader_options
@output_option
@strict_option
@progress_option
def main(
    path: str | None,
    grader: tuple[str, ...],
    stream: bool,
    concurrency: int,
    timeout: float,
    output: str | None,
    strict: bool,
    progress: bool | None,
    debug: bool,
) -> int:
    """Check that the reference answers of prompts pass the grader, before any agent is judged by it.

    PROMPTS is JSONL with `id`, `input` and `reference` (or stdin). The grader sees what it would see of
    an agent that answered with the reference: `output` is the reference, `trajectory` is empty. Each
    record out has `id`, `input`, `reference`, `pass`, `score`, `reasoning`, and the prompt's other fields.
    A reference that fails its own grader says that the task is ambiguous, the grader too strict or the
    hint wrong: the exit code is 1 then. Prompts without a reference are counted on stderr.

    Examples:
      ae-validate-refs prompts.jsonl -g ./grader.py -o validation.jsonl
      ae-validate-refs prompts.jsonl -g ae-grader-hint | jq -r 'select(.pass | not) | .id'
      ae-validate-refs prompts.jsonl -g ./grader.py -o validation.jsonl && ae-run prompts.jsonl -s claude -o raw.jsonl

    GRADER is anything that ae-grade takes; with several, a reference must pass all of them.
    """
    console = Console(NAME, progress=progress, strict=strict, output=output)
    source = Source(path)
    target = Output(output, inputs=[source], lazy=True)
    references = References(source, console)
    run = GraderRun(grader, target, console, stream=stream, concurrency=concurrency, timeout=timeout)
    console.begin(references.total, "references")
    waiting: dict[str, Record] = {}
    tally = ValidationCounts()

    def batches(limit: int) -> Iterator[list[Record]]:
        prompts = iter(references)
        while batch := list(islice(prompts, min(limit, BATCH) if source.regular else 1)):
            waiting.update((prompt["id"], prompt) for prompt in batch)
            yield [answered(prompt) for prompt in batch]

    def finish(graded: Record) -> Record:
        tally.add(graded)
        return validation(waiting.pop(graded["id"]), graded)

    run(batches, finish)
    target.close()
    report(tally, references.without, console)
    return FAILED if console.refused or tally.not_passed or tally.unjudged else OK


def report(tally: ValidationCounts, without: int, console: Console) -> None:
    """Say what did not pass, and what was passed over."""
    if without:
        what = "1 prompt has no reference" if without == 1 else f"{without} prompts have no reference"
        console.say(f"{what}: not validated")
    if summary := tally.summary():
        console.say(summary)
