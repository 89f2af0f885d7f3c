"""ae-grader-tools: were the right tools called, in order, without a failure, and does the output match a schema?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from fnmatch import fnmatchcase
from itertools import islice, pairwise
from typing import Any, NamedTuple

import click

from agenteval.cli.options import Parsed, input_argument, output_option
from agenteval.cli.tool import OF_GRADING, tool
from agenteval.errors import BadRecord, MissingExtra, UserError
from agenteval.grading.serve import answer_all
from agenteval.grading.sources import final_object
from agenteval.streams.jsonl import decode, read_json
from agenteval.streams.text import first_few, one_line, preview, whole_number
from agenteval.wire.records import Record

SHOWN = 5  # items of a list in the reasoning
MOST_PROBLEMS = 20  # of one output
TEXT_WIDTH = 120

Structure = Callable[[object], list[str]]
"""Returns how a value differs from a JSON Schema."""


class Amount(NamedTuple):
    """A number of calls of a tool; a * in its name matches anything."""

    name: str
    calls: int


class Rules(NamedTuple):
    """The checks of a record."""

    required: tuple[Amount, ...] = ()
    limits: tuple[Amount, ...] = ()
    ordered: bool = False
    allow_errors: bool = False
    structure: Structure | None = None


class GradedCall(NamedTuple):
    """A tool call of the trajectory."""

    name: str
    failed: bool


def grade_tools(record: Record, rules: Rules) -> Record:
    """Passes if every check holds; the score is the share of checks that hold. An error without a trajectory."""
    steps = record.get("trajectory")
    if not isinstance(steps, list):
        return {"error": '"trajectory" is missing: the tool calls are not known'}
    steps = [step for step in steps if isinstance(step, dict) and step.get("type") == "tool_call"]
    calls = [GradedCall(str(step.get("name")), step.get("status") == "failed") for step in steps]
    checks = list(call_checks(calls, rules, record.get("toolErrors") is True))
    outcome: Record = {
        "calls": dict(Counter(call.name for call in calls)),
        "missing": [name for name, least in rules.required if _successes(calls, name) < least],
        "failed": [call.name for call in calls if call.failed],
    }
    if rules.structure is not None:
        try:
            wrong = output_problems(record.get("output"), rules.structure)
        except BadRecord as error:
            return {"error": str(error)}
        checks.append(f"the output does not match the schema: {first_few(wrong, SHOWN, '; ')}" if wrong else None)
        outcome["structure"] = wrong
    broken = [problem for problem in checks if problem]
    outcome |= {"checks": len(checks), "broken": broken}
    names = (preview(one_line(call.name, TEXT_WIDTH), TEXT_WIDTH) for call in calls)
    return {
        "pass": not broken,
        "score": (len(checks) - len(broken)) / len(checks),
        "reasoning": "; ".join(broken) or f"all checks hold; called: {_tally(names) or 'nothing'}",
        "outcome": outcome,
    }


# --- checks: each is a problem in words, or None if it holds ------------------------------------


def call_checks(calls: list[GradedCall], rules: Rules, tool_errors: bool) -> Iterator[str | None]:
    """Yields one check per rule on the calls."""
    for name, least in rules.required:
        good, every = _successes(calls, name), len(_calls_of(calls, name))
        failed = f", {every - good} of them failed" if 0 < good < every else " and failed" if good < every else ""
        required = f", required {_times(least)}" if least > 1 else ""
        yield None if good >= least else f"{name} was {_called(every)}{failed}{required}"
    for name, most in rules.limits:
        every = len(_calls_of(calls, name))
        allowed = f"at most {_times(most)} is allowed" if most else "which is forbidden"
        yield None if every <= most else f"{name} was {_called(every)}, {allowed}"
    if rules.ordered:
        names = [name for name, _ in rules.required]
        first = [found[0] for found in (_calls_of(calls, name) for name in names) if found]
        in_order = len(first) == len(names) and all(one <= next for one, next in pairwise(first))
        yield None if in_order else f"not called in the order {', '.join(names)}"
    if not rules.allow_errors:
        failures = _tally(call.name for call in calls if call.failed)
        yield f"tool calls failed: {failures or 'toolErrors is true'}" if failures or tool_errors else None


def _calls_of(calls: list[GradedCall], name: str) -> list[int]:
    """Returns where in the list the calls of a tool are."""
    return [at for at, call in enumerate(calls) if fnmatchcase(call.name, name)]


def _successes(calls: list[GradedCall], name: str) -> int:
    return sum(not calls[at].failed for at in _calls_of(calls, name))


def _times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count} times")


def _called(count: int) -> str:
    return f"called {_times(count)}" if count else "never called"


def _tally(names: Iterable[str]) -> str:
    return first_few([f"{name} {count}x" for name, count in Counter(names).items()], SHOWN)


# --- the structure of the output ----------------------------------------------------------------


def output_problems(output: object, structure: Structure) -> list[str]:
    """Returns how the JSON that the output is or ends with differs from the schema."""
    text = output if isinstance(output, str) else ""
    try:
        value = decode(text)
    except BadRecord:
        value = final_object(text)
        if value is None:
            return ["it is not JSON, and does not end with a JSON object"]
    return structure(value)


def load_structure(path: str) -> Structure:
    """Returns a function that compares a value with the schema in a file; UserError if the file has none."""
    try:
        from jsonschema.exceptions import SchemaError  # type: ignore[import-untyped]
        from jsonschema.validators import validator_for  # type: ignore[import-untyped]
        from referencing import Registry
        from referencing.exceptions import Unresolvable
    except ImportError:
        raise MissingExtra("--json-schema needs the package jsonschema", "schema") from None
    schema = read_json(path)
    kind = validator_for(schema) if isinstance(schema, dict | bool) else None
    if kind is None:
        raise UserError(f"{path}: a JSON Schema is an object")
    try:
        kind.check_schema(schema)
    except SchemaError as error:
        raise UserError(f"{path}: not a JSON Schema: {error.json_path}: {error.message}") from None
    validator = kind(schema, registry=Registry())  # an empty one: nothing is fetched from the network

    def problems(value: object) -> list[str]:
        try:
            return [_problem(error) for error in islice(validator.iter_errors(value), MOST_PROBLEMS)]
        except Unresolvable as error:
            raise BadRecord(f"{path}: refers to something outside the file: {error}") from None
        except RecursionError:
            raise BadRecord(f"{path}: the schema or the output is nested too deeply") from None

    return problems


def _problem(error: Any) -> str:
    return preview(one_line(f"{error.json_path}: {error.message}", TEXT_WIDTH), TEXT_WIDTH)


# --- the command --------------------------------------------------------------------------------


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
    help="A tool that must be called, once or N times at least; repeatable.",
)
@click.option(
    "--max", "limits", multiple=True, type=Parsed("name=n", parse_amount), help="At most N calls of a tool; repeatable."
)
@click.option("--forbid", multiple=True, metavar="NAME", help="A tool that must not be called; repeatable.")
@click.option("--order", "ordered", is_flag=True, help="The required tools must first be called in the order given.")
@click.option("--allow-errors", is_flag=True, help="Tool calls may fail.  [default: none may]")
@click.option("--json-schema", metavar="FILE", help="The output must be JSON that matches this JSON Schema.")
@output_option
def main(
    path: str | None, forbid: tuple[str, ...], json_schema: str | None, output: str | None, debug: bool, **given: Any
) -> int:
    """Grade how an agent worked: the tools that it called, and the structure of its output.

    Passes when every check holds; the score is the share of checks that hold, the reasoning names those
    that do not. Each --require, --max, --forbid, --order and --json-schema is a check, and that no tool
    call failed is one unless --allow-errors is given.

    NAME is a tool's name as in the trajectory; * matches anything, as in a shell ('mcp__*__search').
    A call that failed counts for --max and --forbid, but not for --require (--min is the same option). A
    call that was never answered counts as called.

    --json-schema checks the JSON that the output is, or the object that it ends with. What the schema
    refers to must be in its file. It needs the package jsonschema, which the extra `schema` installs.

    In `outcome`: calls (tool to number of calls), missing (required tools not called, or not often enough),
    failed (tools of the calls that failed), checks (how many), broken (those that do not hold, in words) and,
    with --json-schema, structure (how the output differs). A record without a trajectory is a grader error.

    Examples:
      ae-grade results.jsonl -g "tools=ae-grader-tools --require wikipedia_search --min wikipedia_get_page=2 --order"
      ae-grade results.jsonl -g "ae-grader-tools --forbid 'Bash*' --max WebFetch=5 --allow-errors"
      ae-grade results.jsonl -g "ae-grader-tools --json-schema answer.schema.json" | jq .outcome
      ae-grader-tools --require Read results.jsonl | jq -r .reasoning
    """
    rules = Rules(**given)
    rules = rules._replace(limits=(*rules.limits, *(Amount(name, 0) for name in forbid)))
    if rules.ordered and len(rules.required) < 2:
        raise UserError("--order needs two tools: --require FIRST --require SECOND")
    if rules.allow_errors and not (rules.required or rules.limits or json_schema):
        raise UserError("nothing to check: with --allow-errors, give another check, such as --require NAME")
    if json_schema:
        rules = rules._replace(structure=load_structure(json_schema))
    return answer_all(lambda record: grade_tools(record, rules), path, output)
