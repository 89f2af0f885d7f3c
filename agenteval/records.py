"""The wire format, in pipeline order: Prompt → Raw → Result → Graded, and what is made of them: trials, summaries.

These types check the input and describe the format; a record itself stays a dict, so that fields
nobody here knows survive every stage in their place.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import Meta

from agenteval.errors import BadRecord

Record = dict[str, Any]
T = TypeVar("T", bound=msgspec.Struct)


class Wire(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True):
    """camelCase on the wire, snake_case in Python."""


Id = Annotated[str, Meta(min_length=1, description="Unique, non-empty identifier.")]
Input = str | Annotated[list[str], Meta(min_length=1)]
Milliseconds = Annotated[float, Meta(ge=0)]


class Prompt(Wire):
    """One prompt: a string, or a list of strings that are the turns of one session."""

    id: Id
    input: Input
    hint: str | None = None
    reference: str | None = None
    metadata: dict[str, Any] | None = None
    timeout: Annotated[float, Meta(gt=0, description="Milliseconds per turn.")] | None = None


class Turn(Wire):
    """What one turn of a session did: how many raw lines, and how its process ended."""

    lines: Annotated[int, Meta(ge=0)]
    exit_code: int | None = None
    signal: str | None = None
    timed_out: bool = False
    total: Milliseconds | None = None


class Timing(Wire):
    """Epoch milliseconds of start and end; the rest are milliseconds from start, and token counts."""

    start: float
    end: float
    total: float | None = None
    session_creation: float | None = None
    first_response: float | None = None
    input_tokens: float | None = None
    output_tokens: float | None = None
    cached_tokens: float | None = None
    cost_usd: float | None = None


class Raw(Wire):
    """A prompt's fields and what the agent printed for it."""

    id: Id
    input: Input
    raw_lines: list[str]
    timing: Timing
    hint: str | None = None
    metadata: dict[str, Any] | None = None
    line_times: list[float] | None = None
    turns: list[Turn] | None = None
    stderr: str | None = None
    cwd: str | None = None
    exit_code: int | None = None
    signal: str | None = None
    timed_out: bool = False
    errors: list[str] | None = None
    error: str | None = None


class GraderResult(Wire):
    """What a grader answers."""

    pass_: bool = msgspec.field(name="pass")
    score: Annotated[float, Meta(ge=0, le=1)]
    reasoning: str | None = None
    outcome: dict[str, Any] | None = None


class Step(Wire):
    """One step of a trajectory: a thought, a message, a tool call with its result, or a plan."""

    type: Literal["thought", "message", "tool_call", "plan"]
    content: str | None = None
    name: str | None = None
    status: str | None = None
    input: Any = None
    output: Any = None
    entries: list[Any] | None = None
    duration: float | None = None
    timestamp: float | None = None
    step_id: str | None = None


class Gradable(Wire):
    """The least a grader needs: an id and an output. Prompts with an `output` will do."""

    id: Id
    output: str
    input: Input | None = None
    hint: str | None = None
    trajectory: list[Step] | None = None
    metadata: dict[str, Any] | None = None
    cwd: str | None = None
    tool_errors: bool | None = None
    errors: list[str] | None = None


class Result(Gradable):
    """A prompt's outcome: its output and trajectory, with times, tokens and, once graded, a score."""

    timing: Timing | None = None
    score: GraderResult | None = None
    scores: dict[str, GraderResult] | None = None
    outcome: dict[str, Any] | None = None
    grader_error: bool = False
    error: str | None = None


class TrialEntry(Wire):
    """One of a prompt's trials; `errors` tells one that failed from one that was graded a failure."""

    trial_num: Annotated[int, Meta(ge=1)]
    output: str
    trajectory: list[Step] | None = None
    duration: Milliseconds | None = None
    timing: Timing | None = None
    tool_errors: bool | None = None
    errors: list[str] | None = None
    cwd: str | None = None
    pass_: bool | None = msgspec.field(name="pass", default=None)
    score: Annotated[float, Meta(ge=0, le=1)] | None = None
    reasoning: str | None = None
    outcome: dict[str, Any] | None = None
    scores: dict[str, GraderResult] | None = None
    grader_error: bool = False


Rate = Annotated[float, Meta(ge=0, le=1)]


class Trial(Wire):
    """A prompt run k times: what each trial did and, graded, how often it passes."""

    id: Id
    input: Input
    k: Annotated[int, Meta(ge=1)]
    trials: list[TrialEntry]
    hint: str | None = None
    pass_rate: Rate | None = None
    pass_at_k: Rate | None = None
    pass_exp_k: Rate | None = None
    pass_at: dict[str, Rate | None] | None = None
    pass_exp: dict[str, Rate | None] | None = None
    grader_errors: Annotated[int, Meta(ge=0)] | None = None
    metadata: dict[str, Any] | None = None


class Summary(Wire):
    """A result in one short line."""

    id: Id
    input: str
    output: str
    tool_calls: list[str]
    duration: Milliseconds | None = None


class Validation(Wire):
    """Whether a prompt's reference answer passes the grader."""

    id: Id
    input: Input
    reference: str
    pass_: bool = msgspec.field(name="pass")
    score: Rate
    reasoning: str | None = None
    grader_error: bool = False


GRADER_FIELDS = (
    "id",
    "input",
    "output",
    "hint",
    "trajectory",
    "metadata",
    "cwd",
    "timing",
    "toolErrors",
    "errors",
)

_TYPE_NAMES = {
    "str": "a string",
    "int": "an integer",
    "float": "a number",
    "bool": "true or false",
    "array": "a list",
    "object": "an object",
    "null": "null",
}
_ERROR = re.compile(r"^(?P<what>.*?)(?: - at `\$(?P<path>.*?)`)?$", re.DOTALL)
_EXPECTED = re.compile(r"^Expected `(?P<want>[^`]+)`(?P<rest>.*?)(?:, got `(?P<got>[^`]+)`)?$", re.DOTALL)


def check(record: Any, kind: type[T]) -> T:
    """The record as `kind`; BadRecord says which field is wrong and how."""
    try:
        return msgspec.convert(record, kind)
    except msgspec.ValidationError as error:
        raise BadRecord(explain(str(error), record)) from None


def explain(message: str, record: Any = None) -> str:
    """msgspec's message in the words of this suite: `"id" must be a string, got an integer`."""
    found = _ERROR.match(message)
    if found is None:  # pragma: no cover - the pattern matches any text
        return message
    what, path = found["what"], (found["path"] or "").lstrip(".")
    if missing := re.match(r"Object missing required field `([^`]+)`", what):
        return f'"{f"{path}." if path else ""}{missing[1]}" is missing'
    expected = _EXPECTED.match(what)
    if expected is None:
        return f'"{path}": {what}' if path else what
    want = " or ".join(_TYPE_NAMES.get(name.strip(), name.strip()) for name in expected["want"].split("|"))
    rest = expected["rest"].replace("of length >= 1", "that is not empty").replace("`", "")
    got = f", got {_TYPE_NAMES.get(expected['got'], expected['got'])}" if expected["got"] else _number_at(record, path)
    subject = f'"{path}"' if path else "a record"
    return f"{subject} must be {want}{rest}{got}"


def _number_at(record: Any, path: str) -> str:
    """`, got 7` where a number stands at that path: its type was right, its size was not."""
    value = record
    for name in re.findall(r"[^.\[\]]+", path):
        try:
            value = value[int(name)] if isinstance(value, list) else value[name]
        except (KeyError, IndexError, TypeError, ValueError):
            return ""
    return f", got {value}" if isinstance(value, int | float) else ""
