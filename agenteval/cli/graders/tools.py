"""ae-grader-tools: were the right tools called, in order, without a failure, and has the output its structure?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from itertools import islice, pairwise
from typing import Any, NamedTuple

from agenteval.cli.options import input_argument, output_option
from agenteval.cli.startup import click
from agenteval.cli.tool import tool
from agenteval.errors import BadRecord, UserError
from agenteval.grading.serve import answer_all
from agenteval.grading.sources import final_object
from agenteval.streams.jsonl import decode, read_json
from agenteval.streams.text import one_line, preview
from agenteval.wire.records import Record

SHOWN = 5
MOST_PROBLEMS = 20
TEXT_WIDTH = 120

Structure = Callable[[object], list[str]]
"""What is wrong with a value, by a JSON Schema."""


class Amount(NamedTuple):
    """A tool by its name, in which * stands for anything, and a number of calls."""

    name: str
    calls: int


class Rules(NamedTuple):
    """What is asked of a record."""

    required: tuple[Amount, ...] = ()
    limits: tuple[Amount, ...] = ()
    ordered: bool = False
    allow_errors: bool = False
    structure: Structure | None = None


class ToolCallRule(NamedTuple):
    """A tool call."""

    name: str
    failed: bool


class Check(NamedTuple):
    """Whether something that was asked for holds, and what to say where it does not."""

    holds: bool
    problem: str


# --- the verdict --------------------------------------------------------------------------------


def grade_tools(record: Record, rules: Rules) -> Record:
    """Pass when every check holds, score the share of those that do; without a trajectory nobody can tell."""
    trajectory = record.get("trajectory")
    if not isinstance(trajectory, list):
        return {"error": '"trajectory" is missing: nothing is known of the tool calls'}
    calls = [
        ToolCallRule(str(step.get("name")), step.get("status") == "failed") for step in trajectory if _is_call(step)
    ]
    checks = list(call_checks(calls, rules, record.get("toolErrors") is True))
    outcome: Record = {
        "calls": dict(Counter(call.name for call in calls)),
        "missing": [want.name for want in rules.required if len(succeeded(calls, want.name)) < want.calls],
        "failed": [call.name for call in calls if call.failed],
    }
    if rules.structure is not None:
        try:
            wrong = output_problems(record.get("output"), rules.structure)
        except BadRecord as error:
            return {"error": str(error)}
        checks.append(Check(not wrong, f"the output is not as the schema has it: {_listed(wrong, '; ')}"))
        outcome["structure"] = wrong
    broken = [check.problem for check in checks if not check.holds]
    outcome |= {"checks": len(checks), "broken": broken}
    return {
        "pass": not broken,
        "score": (len(checks) - len(broken)) / len(checks),
        "reasoning": "; ".join(broken) or f"all checks hold; called: {_tally(calls)}",
        "outcome": outcome,
    }


def _is_call(step: Any) -> bool:
    return isinstance(step, dict) and step.get("type") == "tool_call"


def _tally(calls: list[ToolCallRule]) -> str:
    counts = Counter(preview(one_line(call.name, TEXT_WIDTH), TEXT_WIDTH) for call in calls)
    return _listed([f"{name} {count}x" for name, count in counts.items()]) or "nothing"


def _listed(texts: list[str], separator: str = ", ") -> str:
    return separator.join(texts[:SHOWN]) + (f" and {len(texts) - SHOWN} more" if len(texts) > SHOWN else "")


# --- checks -------------------------------------------------------------------------------------


def call_checks(calls: list[ToolCallRule], rules: Rules, tool_errors: bool) -> Iterator[Check]:
    """One check per rule on the calls."""
    for name, least in rules.required:
        good, every = len(succeeded(calls, name)), sum(called(calls, name))
        vain = f", {f'{every - good} of them ' if good else ''}in vain" if every > good else ""
        wanted = f", wanted {_times(least)}" if least > 1 else ""
        yield Check(good >= least, f"{name} was {_called(every)}{vain}{wanted}")
    for name, most in rules.limits:
        every = sum(called(calls, name))
        allowed = f"at most {_times(most)} allowed" if most else "which is forbidden"
        yield Check(every <= most, f"{name} was {_called(every)}, {allowed}")
    if rules.ordered:
        yield order_check(calls, [want.name for want in rules.required])
    if not rules.allow_errors:
        failed = [f"{name} {count}x" for name, count in Counter(call.name for call in calls if call.failed).items()]
        yield Check(not (failed or tool_errors), f"tool calls failed: {_listed(failed) or 'says toolErrors'}")


def called(calls: list[ToolCallRule], name: str) -> list[bool]:
    """For each call, whether it is one of that tool."""
    return [fnmatchcase(call.name, name) for call in calls]


def succeeded(calls: list[ToolCallRule], name: str) -> list[ToolCallRule]:
    """The calls of that tool that did not fail."""
    return [call for call, same in zip(calls, called(calls, name), strict=True) if same and not call.failed]


def order_check(calls: list[ToolCallRule], names: list[str]) -> Check:
    """Whether the first calls of these tools came in this order; one that was never called did not."""
    first = [called(calls, name).index(True) for name in names if any(called(calls, name))]
    in_order = len(first) == len(names) and all(a <= b for a, b in pairwise(first))
    return Check(in_order, f"not called in the order {', '.join(names)}")


def _times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count} times")


def _called(count: int) -> str:
    return f"called {_times(count)}" if count else "never called"


# --- the structure of the output ----------------------------------------------------------------


def output_problems(output: object, structure: Structure) -> list[str]:
    """What is wrong with the JSON that the output is or ends in."""
    text = output if isinstance(output, str) else ""
    try:
        value = decode(text)
    except BadRecord:
        value = final_object(text)
        if value is None:
            return ["it is no JSON, nor does it end in a JSON object"]
    return structure(value)


def load_structure(path: str) -> Structure:
    """The schema in a file, as a function that lists what is wrong; UserError where it is none."""
    try:
        from jsonschema.exceptions import SchemaError  # type: ignore[import-untyped]
        from jsonschema.validators import validator_for  # type: ignore[import-untyped]
        from referencing import Registry
        from referencing.exceptions import Unresolvable
    except ImportError:
        raise UserError("--json-schema needs the package jsonschema: pip install 'agenteval[schema]'") from None
    schema = read_json(path)
    kind = validator_for(schema) if isinstance(schema, dict | bool) else None
    if kind is None:
        raise UserError(f"{path}: a JSON Schema is an object")
    try:
        kind.check_schema(schema)
    except SchemaError as error:
        raise UserError(f"{path}: no JSON Schema: {error.json_path}: {error.message}") from None
    validator = kind(schema, registry=Registry())  # an empty one: nothing is fetched from the network

    def problems(value: object) -> list[str]:
        try:
            return [_problem(error) for error in islice(validator.iter_errors(value), MOST_PROBLEMS)]
        except Unresolvable as error:
            raise BadRecord(f"{path}: refers to what is not in the file: {error}") from None
        except RecursionError:
            raise BadRecord(f"{path}: the schema or the output is nested too deeply") from None

    return problems


def _problem(error: Any) -> str:
    return preview(one_line(f"{error.json_path}: {error.message}", TEXT_WIDTH), TEXT_WIDTH)


# --- the command --------------------------------------------------------------------------------


def amounts(_ctx: click.Context, param: click.Parameter, texts: tuple[str, ...]) -> tuple[Amount, ...]:
    """NAME=N, each; for --require also NAME, which is once."""
    found = []
    for text in texts:
        name, equals, number = text.rpartition("=") if "=" in text else (text, "", "1")
        if not name or not (equals or param.name == "required") or not (number.isascii() and number.isdigit()):
            raise click.BadParameter(f"{text} is not NAME=N", param=param)
        found.append(Amount(name, int(number)))
    return tuple(found)


@tool("ae-grader-tools")
@input_argument("RECORDS")
@click.option(
    "--require",
    "--min",
    "required",
    multiple=True,
    callback=amounts,
    metavar="NAME[=N]",
    help="A tool that must be called, once or N times at least; repeatable.",
)
@click.option(
    "--max", "most", multiple=True, callback=amounts, metavar="NAME=N", help="At most N calls of a tool; repeatable."
)
@click.option("--forbid", multiple=True, metavar="NAME", help="A tool that must not be called; repeatable.")
@click.option("--order", is_flag=True, help="The required tools must first be called in the order given.")
@click.option("--allow-errors", is_flag=True, help="Tool calls may fail.  [default: none may]")
@click.option("--json-schema", metavar="FILE", help="The output must be JSON that this JSON Schema allows.")
@output_option
def main(
    path: str | None,
    required: tuple[Amount, ...],
    most: tuple[Amount, ...],
    forbid: tuple[str, ...],
    order: bool,
    allow_errors: bool,
    json_schema: str | None,
    output: str | None,
    debug: bool,
) -> int:
    """Grade how an agent went about it: the tools it called, and the structure of its output.

    Passes when every check holds; the score is the share of checks that hold, the reasoning names those
    that do not. Each --require, --max, --forbid, --order and --json-schema is a check, and that no tool
    call failed is one unless --allow-errors is given.

    NAME is a tool's name as it stands in the trajectory; * is anything, as in a shell ('mcp__*__search').
    A call that failed counts for --max and --forbid, but not for --require (--min is the same option). A
    call that was never answered counts as called.

    --json-schema looks at the JSON that the output is, or at the object that it ends in. What the schema
    refers to must be in its file. It needs the package jsonschema: pip install 'agenteval[schema]'.

    In `outcome`: calls (tool to number of calls), missing (required tools not called, or not often enough),
    failed (tools of the calls that failed), checks (how many), broken (what does not hold, in words) and, with
    --json-schema, structure (what is wrong with the output). A record without a trajectory is a grader error.

    Examples:
      ae-grade results.jsonl -g "tools=ae-grader-tools --require wikipedia_search --min wikipedia_get_page=2 --order"
      ae-grade results.jsonl -g "ae-grader-tools --forbid 'Bash*' --max WebFetch=5 --allow-errors"
      ae-grade results.jsonl -g "ae-grader-tools --json-schema answer.schema.json" | jq .outcome
      ae-grader-tools --require Read results.jsonl | jq -r .reasoning
    """
    if order and len(required) < 2:
        raise UserError("--order needs two tools at least: --require FIRST --require SECOND")
    limits = (*most, *(Amount(name, 0) for name in forbid))
    if allow_errors and not (required or limits or json_schema):
        raise UserError("nothing to check: with --allow-errors, ask for something else")
    structure = load_structure(json_schema) if json_schema else None
    rules = Rules(required, limits, order, allow_errors, structure)
    return answer_all(lambda record: grade_tools(record, rules), path, output)
