"""What ae-grader-hint and ae-grader-tools check: the text and the structure of the output, and the tool calls."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from itertools import islice, pairwise
from typing import Any, NamedTuple

from agenteval.errors import BadRecord, MissingExtra, UserError
from agenteval.grading.sources import final_object
from agenteval.streams.jsonl import decode, read_json
from agenteval.streams.patterns import Pattern, SlowPattern
from agenteval.streams.text import first_few, one_line, preview
from agenteval.wire.records import Record

SHOWN = 5  # items of a list in the reasoning
MOST_PROBLEMS = 20  # of one output
TEXT_WIDTH = 120
# Other harnesses' names for the hint.
LIKE_HINT = frozenset(
    (
        *("hint", "hints", "expected", "expected_output", "expectedoutput", "expected_answer", "expectedanswer"),
        *("target", "ideal", "gold", "ground_truth", "groundtruth"),
    )
)

Structure = Callable[[object], list[str]]
"""Returns how a value differs from a JSON Schema."""


# --- the hint -----------------------------------------------------------------------------------


def grade_hint(record: Record, *, exact: bool = False, regex: bool = False, case: bool = False) -> Record:
    """Passes if the output contains the hint, ignoring case; without a hint it is an error."""
    output, hint = record.get("output") or "", record.get("hint")
    for field, value in (("output", output), ("hint", hint)):
        if not isinstance(value, str | None):
            return {"error": f'"{field}" must be a string'}
    if not hint:
        return {"error": _no_hint(record)}
    if regex:
        try:
            found = Pattern(hint, ignore_case=not case).search(output) is not None
        except ValueError as error:
            return {"error": f"the hint is {error}"}
        except SlowPattern as slow:
            return {"error": f"the hint: {slow}"}
    else:
        wanted, given = (hint, output) if case else (hint.casefold(), output.casefold())
        found = wanted.strip() == given.strip() if exact else wanted in given
    yes, no = (
        ("matches", "does not match") if regex else ("equals", "is not") if exact else ("contains", "does not contain")
    )
    return {"pass": found, "score": float(found), "reasoning": f"output {yes if found else no} the hint {hint!r}"}


def _no_hint(record: Record) -> str:
    """Returns why there is no hint to look for, and which field may be meant as one."""
    if "hint" in record and record["hint"] is not None:
        return '"hint" is empty: there is nothing to look for'
    metadata = record.get("metadata")
    nested = [f"metadata.{name}" for name in metadata] if isinstance(metadata, dict) else []
    fields = [name for name in [*record, *nested] if name != "hint"]
    similar = next((name for name in fields if name.rpartition(".")[2].lower() in LIKE_HINT), None)
    advice = f'; it has "{similar}": rename that to "hint"' if similar else ""
    return f'the record has no "hint"{advice}'


# --- tool calls ---------------------------------------------------------------------------------


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


def grade_tools(record: Record, rules: Rules, more: Sequence[str | None] = (), found: Record | None = None) -> Record:
    """Passes if every check holds; the score is the share of checks that hold. An error without a trajectory.

    `more` are the results of other checks, and `found` their fields of the outcome.
    """
    steps = record.get("trajectory")
    if not isinstance(steps, list):
        return {"error": '"trajectory" is missing: the tool calls are unknown'}
    steps = [step for step in steps if isinstance(step, dict) and step.get("type") == "tool_call"]
    calls = [GradedCall(str(step.get("name")), step.get("status") == "failed") for step in steps]
    checks = [*call_checks(calls, rules, record.get("toolErrors") is True), *more]
    outcome: Record = {
        "calls": dict(Counter(call.name for call in calls)),
        "missing": [name for name, least in rules.required if _successes(calls, name) < least],
        "failed": [call.name for call in calls if call.failed],
        **(found or {}),
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
        "reasoning": "; ".join(broken) or f"all checks passed; called: {_tally(names) or 'nothing'}",
        "outcome": outcome,
    }


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
    """Returns the indexes of the calls of a tool."""
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
    """Returns how the JSON value that the output is, or ends with, differs from the schema."""
    text = output if isinstance(output, str) else ""
    try:
        value = decode(text)
    except BadRecord:
        value = final_object(text)
        if value is None:
            return ["it is not JSON, and does not end with a JSON object"]
    return structure(value)


def load_structure(path: str) -> Structure:
    """Returns a function that compares a value with the schema in a file; raises UserError if it is not a schema."""
    try:
        return structure_of(read_json(path), path)
    except BadRecord as error:
        raise UserError(str(error)) from None


def structure_of(schema: object, name: str) -> Structure:
    """Returns a function that compares a value with a JSON Schema; raises BadRecord, with the name, if invalid."""
    try:
        from jsonschema.exceptions import SchemaError  # type: ignore[import-untyped]
        from jsonschema.validators import validator_for  # type: ignore[import-untyped]
        from referencing import Registry
        from referencing.exceptions import Unresolvable
    except ImportError:
        raise MissingExtra("a JSON Schema needs the jsonschema package", "schema") from None
    kind = validator_for(schema) if isinstance(schema, dict | bool) else None
    if kind is None:
        raise BadRecord(f"{name}: a JSON Schema must be an object")
    try:
        kind.check_schema(schema)
    except SchemaError as error:
        raise BadRecord(f"{name}: not a JSON Schema: {error.json_path}: {error.message}") from None
    if missing := _unresolved(schema):
        raise BadRecord(f"{name}: refers to something that it does not contain: {missing}")
    validator = kind(schema, registry=Registry())  # an empty one: nothing is fetched from the network

    def problems(value: object) -> list[str]:
        try:
            return [_problem(error) for error in islice(validator.iter_errors(value), MOST_PROBLEMS)]
        except Unresolvable as error:
            raise BadRecord(f"{name}: refers to something outside the file: {error}") from None
        except RecursionError:
            raise BadRecord(f"{name}: the schema or the output is nested too deeply") from None

    return problems


def _unresolved(schema: object) -> str | None:
    """Returns the first reference in a schema that cannot be resolved; None if a part has an $id of its own."""
    from referencing import Registry, Resource
    from referencing.exceptions import Unresolvable
    from referencing.jsonschema import DRAFT202012

    if not isinstance(schema, dict) or any("$id" in part for part in _parts(schema) if part is not schema):
        return None
    resource = Resource.from_contents(schema, default_specification=DRAFT202012)
    base = resource.id() or ""
    resolver = Registry().with_resource(base, resource).crawl().resolver(base)
    for reference in (part["$ref"] for part in _parts(schema) if isinstance(part.get("$ref"), str)):
        try:
            resolver.lookup(reference)
        except Unresolvable:
            return str(reference)
    return None


def _parts(schema: object) -> Iterator[Record]:
    """Yields all objects in a schema that may be schemas."""
    if isinstance(schema, dict):
        yield schema
        for name, value in schema.items():
            if name not in ("const", "enum", "default", "examples"):
                yield from _parts(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from _parts(value)


def _problem(error: Any) -> str:
    return preview(one_line(f"{error.json_path}: {error.message}", TEXT_WIDTH), TEXT_WIDTH)
