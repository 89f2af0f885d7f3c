"""ae-grader-checks: does the answer pass the checks in its prompt?"""

import os
from functools import cache

import click

from agenteval.agents.workspace_git import forget_repository
from agenteval.cli.options import (
    MILLISECONDS,
    NumberRange,
    concurrency_option,
    input_argument,
    output_option,
)
from agenteval.cli.sandbox_options import sandbox_of_graders, sandbox_options
from agenteval.cli.tool import OF_GRADING, tool
from agenteval.errors import BadRecord
from agenteval.grading.offline_judge import judge as judge_by_rules
from agenteval.grading.prompt_checks import grade_checks
from agenteval.grading.rubrics import RubricJudge
from agenteval.grading.serve import DEFAULT_MODEL, MODEL_VARIABLE, answer_all
from agenteval.models.chat import Model, ModelError
from agenteval.models.tokens import OFFLINE
from agenteval.processes.supervisor import ProcessSupervisor
from agenteval.wire.records import Record


@tool("ae-grader-checks", exit_status=OF_GRADING)
@input_argument("RECORDS")
@click.option(
    "--model",
    metavar="NAME",
    help=f"Model that judges `judge` checks.  [default: ${MODEL_VARIABLE}, else {DEFAULT_MODEL}]",
)
@click.option("--offline", is_flag=True, help="Judge by rules, without a model, key or network.")
@click.option("--temperature", type=NumberRange(0, 2), default=0.1, metavar="X", help="Temperature of the judge.")
@click.option(
    "--timeout",
    type=MILLISECONDS,
    default=50_000,
    help="Time limit for the judge, per record; a bare number is ms.",
)
@concurrency_option("records", default=4)
@sandbox_options("commands", net="none")
@output_option
def main(
    path: str | None,
    model: str | None,
    offline: bool,
    temperature: float,
    timeout: float,
    concurrency: int,
    sandbox: str | None,
    sandbox_net: str | None,
    sandbox_image: str | None,
    sandbox_read: tuple[str, ...],
    output: str | None,
    debug: bool,
) -> int:
    """Grade answers by the checks in their prompts, without any code.

    A prompt's `checks` is a list of objects with a `type`:
      contains, not-contains         value (a list: any of them)
      equals, starts-with            value (a list: any of them)
      regex, not-regex               value
      json-schema                    schema
      tool-called, tool-not-called   tool, input (regex), min, max
      tool-order                     tools
      skill-used, skill-not-used     skill
      file-exists                    path
      file-contains                  path, and value or regex
      command                        run, timeout, tests (in a copy of the workspace)
      harbor                         tests, timeout, workdir, image, solution (for a Harbor task; the reward decides)
      max-duration                   value (30s)
      max-tokens, max-cost           value
      judge                          rubric, threshold (one call for all judge checks of a record)
      group                          checks, threshold (share that must pass)

    Each may have `name`, `weight` (1), `required` (true) and `ignoreCase` (false). A record passes if all required
    checks pass; the score is the weighted share of checks that pass. `outcome.checks` lists each with its reason. A
    record without checks, or with an invalid one, is a grader error.

    If every prompt has checks, ae-capture, ae-trials and ae-grade use this grader when -g is left out.

    Examples:
      ae-capture prompts.jsonl -s claude --workspace-dir ws -o results.jsonl
      ae-grade results.jsonl -g ae-grader-checks | ae-format -f table
      echo '{"id":"a","output":"42","checks":[{"type":"contains","value":"42"}]}' | ae-grader-checks
    """
    wall = sandbox_of_graders(sandbox, sandbox_net, sandbox_image, sandbox_read)
    forget_repository(os.environ)
    processes = ProcessSupervisor()

    @cache
    def judge() -> RubricJudge:
        if offline:
            return RubricJudge(OFFLINE, judge_by_rules, temperature)
        name, limit = model or os.environ.get(MODEL_VARIABLE) or DEFAULT_MODEL, timeout / 1000
        try:
            return RubricJudge(name, Model(name, timeout=limit / 2, retries=4, patience=limit).ask, temperature)
        except ModelError as error:
            raise BadRecord(f"{error} (--offline judges by rules, without a key)") from None

    def grade(record: Record) -> Record:
        return grade_checks(record, processes, lambda *asked: judge()(*asked), wall)

    try:
        return answer_all(grade, path, output, ahead=concurrency)
    finally:
        processes.close()
