"""ae-grader-tools: were the right tools called, in order and without failures, and does the output match a schema?"""

from typing import Any

import click

from agenteval.cli.options import Parsed, input_argument, output_option
from agenteval.cli.tool import OF_GRADING, tool
from agenteval.errors import BadRecord, UserError
from agenteval.grading.checks import Amount, Rules, grade_tools, load_structure
from agenteval.grading.prompt_checks import skill_problems
from agenteval.grading.serve import answer_all
from agenteval.streams.text import whole_number
from agenteval.wire.records import Record


def parse_amount(text: str) -> Amount:
    """Returns the name and the number of NAME=N."""
    name, _, digits = text.rpartition("=")
    number = whole_number(digits)
    if not name or number is None:
        raise ValueError(f"{text} is not NAME=N")
    return Amount(name, number)


def parse_required(text: str) -> Amount:
    """Returns the name and the number of NAME=N; NAME alone is once."""
    return parse_amount(text if "=" in text else f"{text}=1")


@tool("ae-grader-tools", exit_status=OF_GRADING)
@input_argument("RECORDS")
@click.option(
    "--require",
    "--min",
    "required",
    multiple=True,
    type=Parsed("name[=n]", parse_required),
    help="A tool that must be called at least once, or N times; repeatable.",
)
@click.option(
    "--max", "limits", multiple=True, type=Parsed("name=n", parse_amount), help="At most N calls of a tool; repeatable."
)
@click.option("--forbid", multiple=True, metavar="NAME", help="A tool that must not be called; repeatable.")
@click.option("--skill", "skills", multiple=True, metavar="NAME", help="A skill that must be loaded; repeatable.")
@click.option(
    "--no-skill", "no_skills", multiple=True, metavar="NAME", help="A skill that must not be loaded; repeatable."
)
@click.option(
    "--order", "ordered", is_flag=True, help="The first calls of the required tools must be in the given order."
)
@click.option("--allow-errors", is_flag=True, help="Allow tool calls to fail.  [default: none may]")
@click.option("--json-schema", metavar="FILE", help="The output must be JSON that matches this JSON Schema.")
@output_option
def main(
    path: str | None,
    forbid: tuple[str, ...],
    skills: tuple[str, ...],
    no_skills: tuple[str, ...],
    json_schema: str | None,
    output: str | None,
    debug: bool,
    **given: Any,
) -> int:
    """Grade how an agent worked: the tools it called, and the structure of its output.

    A record passes if every check passes; the score is the share of checks that pass, and the reasoning names the
    others. Each --require, --max, --forbid, --skill, --no-skill, --order and --json-schema is a check. Another check,
    unless --allow-errors is given, is that no tool call failed.

    NAME is a tool's name as in the trajectory; * matches anything, as in a shell ('mcp__*__search').
    A call that failed counts for --max and --forbid, but not for --require (--min is the same option). A
    call that was never answered counts as called.

    --skill: a call of a skill tool with that name (claude's Skill), or any read of skills/NAME/SKILL.md. If a prompt
    has "shouldTrigger": false in its metadata, the skill must not be loaded; ae-format then shows precision and
    recall.

    --json-schema checks the output, which must be JSON or end with a JSON object. The schema may refer only to parts
    of its own file. This needs the jsonschema package: pip install 'agenteval[schema]'.

    `outcome` holds calls (tool to number of calls), missing (required tools not called, or not often enough), failed
    (tools whose calls failed), checks (how many), broken (those that did not pass, in words) and, with --json-schema,
    structure (how the output differs), with --skill, skills and skillTriggered. A record without a trajectory is a
    grader error.

    Examples:
      ae-grade results.jsonl -g "ae-grader-tools --require wikipedia_search --min Read=2 --order"
      ae-grade results.jsonl -g "ae-grader-tools --forbid 'Bash*' --max WebFetch=5 --allow-errors"
      ae-grade results.jsonl -g "ae-grader-tools --json-schema answer.schema.json" | jq .outcome
      ae-grade results.jsonl -g "ae-grader-tools --skill pdf --allow-errors" | ae-format -f markdown
      ae-grader-tools --require Read results.jsonl | jq -r .reasoning
    """
    rules = Rules(**given)
    rules = rules._replace(limits=(*rules.limits, *(Amount(name, 0) for name in forbid)))
    if rules.ordered and len(rules.required) < 2:
        raise UserError("--order needs two tools: --require FIRST --require SECOND")
    if rules.allow_errors and not (rules.required or rules.limits or json_schema or skills or no_skills):
        raise UserError("nothing to check: with --allow-errors, give another check, such as --require NAME")
    if json_schema:
        rules = rules._replace(structure=load_structure(json_schema))
    if both := sorted({*skills} & {*no_skills}):
        raise UserError(f"--skill {both[0]} and --no-skill {both[0]} contradict each other: give one of them")

    def grade(record: Record) -> Record:
        if not (skills or no_skills):
            return grade_tools(record, rules)
        try:
            return grade_tools(record, rules, *skill_problems(record, skills, no_skills))
        except BadRecord as error:
            return {"error": str(error)}

    return answer_all(grade, path, output)
