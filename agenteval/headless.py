"""The adapter schema: how to start a headless command-line agent and how to read what it prints.

Version 1 is the form of agent-eval-harness, whose schema files work unchanged; what was added since
is optional. A path is `'literal'`, `$.a.b[0].c`, or any RFC 9535 JSONPath. An empty path finds nothing.

Annotations are not postponed here: to evaluate them as text when a schema is read costs twice the time.
"""

import re
from typing import Annotated, Any, Literal, get_args

import msgspec
from msgspec import Meta

from agenteval.errors import UserError
from agenteval.records import explain

EmitAs = Literal["thought", "tool_call", "message", "plan", "error"]
StepKind = Literal["thought", "tool_call", "message", "plan"]
SessionMode = Literal["stream", "iterative"]
OutputMode = Literal["jsonpath", "passthrough", "text"]
StdinFormat = Literal["text", "json"]
PerTurn = Literal["last", "sum"]
UsageField = Literal["inputTokens", "outputTokens", "cachedTokens", "costUsd"]

Scalar = str | int | float | bool
Wanted = Scalar | list[Scalar]
Paths = str | list[str]


class _Part(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True):
    """camelCase in the file, snake_case in Python; unknown keys are let through, as the seed does."""


class Condition(_Part):
    """A test of one value of an event. Exactly one of `value` and `not` is given."""

    path: Annotated[
        str,
        Meta(
            description="Where to look. A path with `[*]` looks at every item of that list: at the item's "
            "`type` (a string or number item: at the item itself), or at what follows `[*]` in the path. "
            "Each item that fits gives an event of its own, and extracts are relative to the item."
        ),
    ]
    value: Annotated[
        Wanted | None,
        Meta(description='Holds when the value found is this, or one of these; "*" is any non-null value.'),
    ] = None
    not_: Annotated[
        Wanted | None,
        Meta(description="Holds when `value` with the same operand would not; a missing value holds too."),
    ] = msgspec.field(default=None, name="not")


class Extract(_Part):
    """What to take out of a matched event.

    Each is a path, or a list of paths of which the first that finds something counts. `^$.path` starts
    at the whole event where the match was on a list item.
    """

    content: Annotated[Paths | None, Meta(description="Text of a message, thought or error.")] = None
    title: Annotated[Paths | None, Meta(description="Name of the tool.")] = None
    status: Annotated[
        Paths | None,
        Meta(
            description="Status of a tool call: pending, in_progress, completed, failed, or a word (or "
            "boolean: true is completed) that says so. Not given: a call is pending, a result completed."
        ),
    ] = None
    id: Annotated[
        Paths | None,
        Meta(
            description="Id of a tool call, the same in the call and in its result. Without it a result "
            "closes the oldest open call of its name, without a name the oldest open call."
        ),
    ] = None
    input: Annotated[Paths | None, Meta(description="What the tool was given; any JSON value.")] = None
    output: Annotated[
        Paths | None,
        Meta(description="What the tool gave back; any JSON value. An event that has it is a result."),
    ] = None
    is_error: Annotated[
        Paths | None,
        Meta(
            description="The call failed when any of these paths finds true, a number other than 0 (an exit "
            'code), a text other than "", "false", "0", "no", "none", "null", or a non-empty list or object.'
        ),
    ] = None
    duration: Annotated[
        Paths | None, Meta(description="Milliseconds the tool took; not given: time between the two lines.")
    ] = None
    entries: Annotated[Paths | None, Meta(description="Entries of a plan; a list.")] = None


class OutputEvent(_Part):
    """One kind of event and the step it becomes; the first of `outputEvents` that matches counts."""

    match: Annotated[
        Condition | list[Condition],
        Meta(description="The condition, or several which must all hold, at most one of them with `[*]`."),
    ]
    emit_as: Annotated[
        EmitAs,
        Meta(
            description="The step it becomes. tool_call stands for calls and for results: the two become one "
            "step. error: the agent says that it failed; the text goes to `errors`, there is no step."
        ),
    ]
    extract: Annotated[Extract | None, Meta(description="What to take out of the event.")] = None
    delta: Annotated[
        bool | str,
        Meta(
            description="true, or a path that finds something true: the text is a piece, and consecutive "
            "pieces of a kind are one step. The whole text, when it follows its pieces, is not repeated."
        ),
    ] = False


class PromptInput(_Part):
    """How the prompt reaches the agent: after a flag, as the last argument, or on stdin."""

    flag: Annotated[
        str | None, Meta(description='Flag before the prompt, such as "-p"; "" or none: the last argument.')
    ] = None
    stdin: Annotated[bool, Meta(description="Write the prompt to stdin instead.")] = False
    stdin_format: Annotated[StdinFormat | None, Meta(description="Format on stdin.")] = None


class OutputFormat(_Part):
    """The flag that makes the agent print events."""

    flag: Annotated[str, Meta(description='Such as "--output-format"; "" for none.')]
    value: Annotated[str, Meta(description='Such as "stream-json".')] = ""


class Resume(_Part):
    """How a later turn resumes the session of the first. Exactly one of `flag` and `args` is given."""

    flag: Annotated[str | None, Meta(description="Flag that is followed by the session id.")] = None
    args: Annotated[
        list[str] | None,
        Meta(
            description="Arguments instead of flag and id, in the same place (before the prompt); in them "
            '`{sessionId}` is replaced: ["--resume={sessionId}"].'
        ),
    ] = None
    command: Annotated[
        list[str] | None,
        Meta(description='Command of a resumed turn instead of `command`: ["codex", "exec", "resume"].'),
    ] = None
    session_id_path: Annotated[
        str | None,
        Meta(description="Path of the session id, the last one found counts; else `$.session_id`."),
    ] = None


class PassthroughTypeMap(_Part):
    """Events that already have the fields of a step, told apart by one field."""

    type_field: Annotated[str, Meta(description="Field that names the kind of event.")] = "type"
    type_values: Annotated[
        dict[str, StepKind] | None,
        Meta(description="Value of that field → step; the names of steps stand for themselves."),
    ] = None


class ResultEvent(_Part):
    """The event that ends a turn and carries the final text; a turn's last one counts."""

    match_path: Annotated[str, Meta(description="Path that tells the event.")]
    match_value: Annotated[Wanted, Meta(description='The value there, or several; "*" is any non-null.')]
    content_path: Annotated[
        str, Meta(description="Path of the final text; where it finds none, the messages joined by newlines.")
    ] = ""
    is_error_path: Annotated[
        Paths | None,
        Meta(description="The agent failed when any of these finds something true, as `extract.isError`."),
    ] = None
    error_path: Annotated[
        Paths | None,
        Meta(description="What went wrong, a text or a list of texts; else the final text."),
    ] = None


class Usage(_Part):
    """Where the agent reports tokens and cost: each a path, or a list of paths whose numbers are added."""

    match: Annotated[
        Condition | list[Condition] | None,
        Meta(description="Events that report usage; not given: any event in which a path finds a number."),
    ] = None
    input_tokens: Annotated[Paths | None, Meta(description="Input tokens, cached ones included.")] = None
    output_tokens: Annotated[Paths | None, Meta(description="Output tokens.")] = None
    cached_tokens: Annotated[Paths | None, Meta(description="Input tokens read from a cache.")] = None
    cost_usd: Annotated[Paths | None, Meta(description="Cost in US dollars.")] = None
    per_turn: Annotated[
        PerTurn,
        Meta(description="Several reports in one turn: the last one counts (`last`) or they add up (`sum`)."),
    ] = "last"
    cumulative: Annotated[
        bool | list[UsageField],
        Meta(
            description="true, or the names of the fields that already include the earlier turns of a "
            "resumed session: there the last turn counts. Otherwise turns add up."
        ),
    ] = False


class HistoryTemplate(_Part):
    """How earlier turns stand in the prompt, with a text before them."""

    turn_format: Annotated[str, Meta(description="One turn, with {{input}} and {{output}}.")]
    system: Annotated[str | None, Meta(description="Text before the first turn.")] = None


class HeadlessAdapter(_Part):
    """How to start one headless command-line agent, and how to read what it prints."""

    version: Annotated[Literal[1], Meta(description="Version of this format.")]
    name: Annotated[str, Meta(description="Name of the adapter.")]
    command: Annotated[list[str], Meta(description='Program and first arguments: ["claude"].')]
    session_mode: Annotated[
        SessionMode,
        Meta(
            description="stream: a later turn resumes the session by its id. iterative: a later turn starts "
            "anew, with the history in its prompt."
        ),
    ]
    prompt: Annotated[PromptInput, Meta(description="How the prompt reaches the agent.")]
    description: Annotated[str | None, Meta(description="What a reader should know.")] = None
    proven_on: Annotated[str | None, Meta(description="Version of the program it was tried with.")] = None
    timeout: Annotated[Annotated[float, Meta(gt=0)] | None, Meta(description="Milliseconds per turn, by default.")] = (
        None
    )
    output: Annotated[OutputFormat | None, Meta(description="What makes the agent print events.")] = None
    auto_approve: Annotated[list[str] | None, Meta(description="Arguments that let the agent act without asking.")] = (
        None
    )
    resume: Annotated[Resume | None, Meta(description="How a later turn resumes the session.")] = None
    cwd_flag: Annotated[str | None, Meta(description="Flag before the working directory.")] = None
    env: Annotated[dict[str, str] | None, Meta(description="Environment variables of the agent.")] = None
    output_mode: Annotated[
        OutputMode,
        Meta(
            description="jsonpath: `outputEvents` say what the lines are. passthrough: lines are steps "
            "already. text: all that is printed is one message."
        ),
    ] = "jsonpath"
    output_events: Annotated[list[OutputEvent] | None, Meta(description="Kinds of events, in order of precedence.")] = (
        None
    )
    passthrough_type_map: Annotated[
        PassthroughTypeMap | None, Meta(description="Kinds of events in passthrough mode.")
    ] = None
    result: Annotated[
        ResultEvent | None,
        Meta(description="The event with the final text; not given: the turn's last message is the output."),
    ] = None
    usage: Annotated[Usage | None, Meta(description="Where tokens and cost are reported.")] = None
    history_template: Annotated[
        str | HistoryTemplate | None,
        Meta(description="Iterative mode: one earlier turn, with {{input}} and {{output}}."),
    ] = None


_CHOICES: dict[str, tuple[Any, ...]] = {
    "version": (1,),
    "sessionMode": get_args(SessionMode),
    "outputMode": get_args(OutputMode),
    "emitAs": get_args(EmitAs),
    "stdinFormat": get_args(StdinFormat),
    "perTurn": get_args(PerTurn),
    "cumulative": get_args(UsageField),
    "typeValues": get_args(StepKind),
}


def parse_headless(data: bytes, source: str) -> HeadlessAdapter:
    """The schema in this JSON; UserError names `source` and the field that is wrong."""
    try:
        raw = msgspec.json.decode(data.removeprefix(b"\xef\xbb\xbf"))
    except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
        raise UserError(f"{source}: not JSON ({error})") from None
    try:
        return msgspec.convert(raw, HeadlessAdapter)
    except msgspec.ValidationError as error:
        raise UserError(f"{source}: {_explain(str(error))}") from None


def _explain(message: str) -> str:
    """What msgspec found wrong, with the choices there are."""
    what, _, path = message.partition(" - at `$")
    field = path.strip("`.")
    name = re.sub(r"\[.*?\]$", "", field).rpartition(".")[2]
    if what.startswith("Invalid enum value") and name in _CHOICES:
        choices = ", ".join(map(str, _CHOICES[name]))
        got = what.removeprefix("Invalid enum value ").replace("'", '"')
        return f"{field} must be {'one of ' if ',' in choices else ''}{choices}; got {got}"
    return explain(message).replace("a record", "an adapter schema").replace('"', "")
