"""ae-validate-refs: prompts with a reference → does each reference answer pass the grader?"""

import os
from collections.abc import Iterator
from itertools import islice
from typing import Any

from agenteval.agents.prompts import Places, Prompts
from agenteval.agents.workspaces import SetupFailed, Workspaces
from agenteval.cli.options import (
    checks_grader,
    grader_option,
    grader_options,
    input_argument,
    output_option,
    progress_option,
    strict_grading_option,
    verdict_options,
)
from agenteval.cli.tool import tool
from agenteval.errors import FAILED, OK, WorkspaceError
from agenteval.grading.references import ValidationCounts, is_on_output, solution_in
from agenteval.grading.run import GraderRun
from agenteval.grading.verdict import VERDICT, ungraded
from agenteval.processes.supervisor import ProcessSupervisor
from agenteval.streams.console import REFUSALS_VARIABLE, Console
from agenteval.streams.output import Output
from agenteval.streams.source import Source
from agenteval.wire.records import PromptWorkspace, Record
from agenteval.wire.validation import check as convert

NAME = "ae-validate-refs"
BATCH = 64


def answered(prompt: Record) -> Record:
    """Returns the result of an agent that answers the prompt with its reference and does nothing else.

    Of the prompt's checks it has those of the output: a reference says nothing about tools and files.
    """
    result = {"output": prompt["reference"], "trajectory": [], "toolErrors": False}
    if prompt.get("checks"):
        result["checks"] = list(filter(is_on_output, prompt["checks"]))
    return {**ungraded(prompt), **result, "metadata": prompt.get("metadata") or {}}


class Solutions:
    """Runs the reference solutions of Harbor tasks before their tests, each in a workspace of its own."""

    def __init__(self, source: Source, processes: ProcessSupervisor) -> None:
        base = processes.scratch.new_directory()
        self.processes, self.places = processes, Places(source, base)
        self.workspaces = Workspaces(base, None, processes)

    def answered(self, prompt: Record) -> Record:
        """Returns the result of an agent that has done nothing; its check runs the solution and then the tests."""
        prompt = self.places.clean({**prompt})
        checks = [check | ({"solve": True} if check.get("solution") else {}) for check in prompt["checks"]]
        result: Record = {"output": prompt.get("reference") or "", "trajectory": [], "toolErrors": False}
        try:
            given = convert(prompt["workspace"], PromptWorkspace) if prompt.get("workspace") else None
            result["cwd"] = self.workspaces.make(prompt["id"], self.processes.new_agent_key(), given=given)
        except (WorkspaceError, SetupFailed) as error:
            result["errors"] = [str(error)]
        return {**ungraded(prompt), **result, "checks": checks, "metadata": prompt.get("metadata") or {}}


def validation(prompt: Record, graded: Record) -> Record:
    """Returns the verdict on a prompt's reference, flat, followed by the prompt's other fields."""
    score = graded.get("score") or {}
    solution = solution_in(prompt)
    reference = os.path.join(solution, "solve.sh") if solution else prompt["reference"]
    record = {"id": prompt["id"], "input": prompt["input"], "reference": reference}
    record |= {field: score[field] for field in VERDICT if field in score}
    record |= {field: graded[field] for field in ("scores", "graderError") if field in graded}
    return record | {field: value for field, value in ungraded(prompt).items() if field not in record}


@tool(NAME, exit_status={1: "finished, but some lines were refused, graders erred or references did not pass"})
@input_argument("PROMPTS")
@grader_option
@grader_options
@verdict_options()
@output_option
@strict_grading_option
@progress_option
def main(path: str | None, output: str | None, strict: bool, progress: bool | None, debug: bool, **graders: Any) -> int:
    """Check that the reference answers of prompts pass the grader, before any agent is judged by it.

    PROMPTS is JSONL with `id`, `input` and `reference` (or stdin). The grader sees what it would see if an agent had
    answered with the reference: `output` is the reference, `trajectory` is empty. Each output record has `id`,
    `input`, `reference`, `pass`, `score`, `reasoning`, and the prompt's other fields. A reference that does not pass
    means that the task is ambiguous, the grader too strict or the hint wrong; the exit code is then 1. Prompts
    without a reference are counted on stderr; if no prompt has one, the exit code is 1.

    Examples:
      ae-validate-refs prompts.jsonl -g ./grader.py -o validation.jsonl
      ae-validate-refs prompts.jsonl -g ae-grader-hint | jq -r 'select(.pass | not) | .id'
      ae-validate-refs prompts.jsonl -g ./grader.py -o validation.jsonl && ae-run prompts.jsonl -s claude -o raw.jsonl

    For a Harbor task (ae-prompts harbor) the reference is solution/solve.sh: it runs in a new workspace, followed by
    the tests. A task with an image needs -g "ae-grader-checks --sandbox podman --sandbox-image IMAGE".

    GRADER is anything that ae-grade takes; with several, a reference must pass all of them.
    """
    console = Console(NAME, progress=progress, strict=strict, output=output)
    source = Source(path)
    graders["grader"] = graders["grader"] or checks_grader(source, console.say, required=True)
    target = Output(output, inputs=[source], lazy=True)
    counts = ValidationCounts()
    references = Prompts(source, console, wants=counts.wants)
    run = GraderRun(target, console, **graders, debug=debug)
    solutions = Solutions(source, run.processes)
    console.begin(references.total, "references")
    waiting: dict[str, Record] = {}

    def batches(limit: int) -> Iterator[list[Record]]:
        prompts = iter(references)
        while batch := list(islice(prompts, min(limit, BATCH) if source.regular else 1)):
            waiting.update((prompt["id"], prompt) for prompt in batch)
            yield [solutions.answered(prompt) if solution_in(prompt) else answered(prompt) for prompt in batch]

    def finish(graded: Record) -> Record:
        validated = validation(waiting.pop(graded["id"]), graded)
        counts.add(validated)
        return validated

    run(batches, finish)
    target.close()
    if REFUSALS_VARIABLE in os.environ:  # ae-ray counts for all nodes
        return FAILED if console.refused or counts.passed < counts.total else OK
    return OK if counts.report(console, source.name) and not console.refused else FAILED
