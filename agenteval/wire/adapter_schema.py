"""The adapter schema: how to start a headless command-line agent and how to read what it prints.

Version 1 is the form of agent-eval-harness, whose schema files work unchanged; what was added since
is optional. A path is `'literal'`, `$.a.b[0].c`, or any RFC 9535 JSONPath. An empty path finds nothing.
The text below a field is its description in the JSON Schema that ae-schemas exports.

Annotations are not postponed here: to evaluate them as text when a schema is read costs twice the time.
"""

from typing import Annotated, Any, Literal, get_args

import msgspec
from msgspec import Meta

from agenteval.wire.records import RUN_METADATA

EmitAs = Literal["thought", "tool_call", "message", "plan", "error", "end"]
StepKind = Literal["thought", "tool_call", "message", "plan"]
SessionMode = Literal["stream", "iterative"]
OutputMode = Literal["jsonpath", "passthrough", "text"]
PerTurn = Literal["last", "sum"]
Otherwise = Literal["all", "last", "final"]
UsageField = Literal["inputTokens", "outputTokens", "cachedTokens", "costUsd"]

Scalar = str | int | float | bool
Wanted = Scalar | list[Scalar]

SESSION_ID = "{sessionId}"  # placeholder for the id in the arguments of a resumed turn
SUITE_METADATA = RUN_METADATA - {"agent"}  # no schema may set these; an agent may give its own name

# What adapters/schema_file.py and the compiler check, as far as JSON Schema can express it.
Path = Annotated[str, Meta(extra_json_schema={"pattern": r"^(\^?\$|'[\s\S]*'(?![\s\S])|(?![\s\S]))"})]
Argument = Annotated[str, Meta(extra_json_schema={"pattern": r"^[^\u0000]*$"})]
Pattern = Annotated[str, Meta(extra_json_schema={"minLength": 1, "not": {"pattern": r"\(\?P<type>"}})]
Patterns = Annotated[dict[str, Pattern], Meta(extra_json_schema={"propertyNames": {"not": {"const": "text"}}})]
Template = Annotated[str, Meta(extra_json_schema={"pattern": r"\{\{input\}\}"})]
Environment = Annotated[dict[str, Argument], Meta(extra_json_schema={"propertyNames": {"pattern": r"^[^=\u0000]+$"}})]

RelativePath = Annotated[str, Meta(extra_json_schema={"pattern": r"^(?!/)(?!(.*/)?\.\.(/|$))[^\u0000]+$"})]

Paths = Path | list[Path]
Facts = Annotated[
    dict[str, Paths], Meta(extra_json_schema={"propertyNames": {"not": {"enum": sorted(SUITE_METADATA)}}})
]


class _Part(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True):
    """camelCase in the file, snake_case in Python; unknown keys are allowed, unless they look misspelt."""


class Condition(_Part):
    """A test of one value of an event. Exactly one of `value` and `not` is given."""

    path: Path
    """Where to look. A path with `[*]` looks at every item of that list: at the item's `type` (if the item is a string
    or number, at the item itself), or at what follows `[*]` in the path. Each item that matches gives a separate event,
    and `extract` is relative to the item."""
    value: Wanted | None = None
    """True if the value found is this, or one of these; "*" is any non-null value."""
    not_: Wanted | None = msgspec.field(default=None, name="not")
    """True if `value` with the same operand would be false; true for a missing value, too."""


class Extract(_Part):
    """What to take from an event that matches.

    Each is a path, or a list of paths, of which the first that finds something counts. If a list item matched,
    `^$.path` starts at the whole event.
    """

    content: Paths | None = None
    """Text of a message, thought or error."""
    title: Paths | None = None
    """Name of the tool."""
    status: Paths | None = None
    """Status of a tool call: pending, in_progress, completed, failed, or a word (or boolean: true is completed) that
    means one of these; `unchanged` if the event only adds to what is known about the call. By default, a call is
    pending and a result completed."""
    id: Paths | None = None
    """Id of a tool call, the same in the call and in its result. Without it, a result belongs to the oldest open call
    with its name, or without a name to the oldest open call. For a message or thought that comes in pieces, pieces with
    another id form another one."""
    input: Paths | None = None
    """What the tool was given; any JSON value. A string that contains a JSON object is decoded."""
    output: Paths | None = None
    """What the tool returned; any JSON value. An event that has it is a result."""
    output_delta: Paths | None = None
    """A piece of what the tool returned: the pieces of a call are joined, unless `output` follows them."""
    permission: Paths | None = None
    """The event asks for permission to run the tool: allowed or denied. It does not replace what is known about the
    call; a call that was denied counts as failed, unless the agent reports otherwise. It can be combined only with
    `id`, `title` and `input`."""
    is_error: Paths | None = None
    """The call failed if any of these paths finds true, a number other than 0 (an exit code), a string other than "",
    "false", "0", "no", "none", "null", or a non-empty list or object."""
    duration: Paths | None = None
    """Milliseconds the tool took; by default, the time between the two lines."""
    start: Paths | None = None
    """When the tool started, by the agent's own clock: milliseconds, or a string in ISO 8601. Together with `end`, in
    this event or in that of the result, it gives the duration."""
    end: Paths | None = None
    """When the tool ended, by the agent's own clock, in the form of `start`."""
    parent: Paths | None = None
    """Id of the tool call that the step belongs to, for steps of a sub-agent: `parentId` of the step. Messages of
    sub-agents are not the output."""
    entries: Paths | None = None
    """Entries of a plan: a list."""


class OutputEvent(_Part):
    """One kind of event and the step it becomes; the first of `outputEvents` that matches counts."""

    match: Condition | Annotated[list[Condition], Meta(extra_json_schema={"minItems": 1})]
    """The condition, or several that must all hold; at most one of them may contain `[*]`."""
    emit_as: EmitAs
    """The step it becomes. tool_call is for calls and for results: the two become one step. error: the agent reports
    that it failed; the text goes to `errors`, and there is no step. end: no step either, but pieces (`delta`) after it
    are not joined to those before it."""
    extract: Extract | None = None
    """What to take from the event."""
    delta: bool | Path = False
    """true, or a path that finds something true: the text is a piece, and consecutive pieces of the same kind form one
    step. If the whole text follows its pieces, it is not repeated."""
    also: bool = False
    """true: the event contains more than this step and is also passed to the rules below."""


class Split(_Part):
    """A string that contains several things, split before the rules are applied to the event.

    The parts are objects in the order of the text: `type` is the name of the pattern that matches, and its named groups
    are the other fields (so no group may be named "type"). What lies between them has the type "text" (so no pattern
    may have that name) and a field `text`, without surrounding whitespace.
    """

    path: Path
    """Path of the string."""
    into: str
    """Field of the event that gets the list of parts."""
    patterns: Patterns
    """Name → regular expression (Python's), in which ^ and $ match the start and end of a line."""
    numbers: list[str] | None = None
    """Groups that are numbers: 1,234 and 2.7k are 1234 and 2700."""
    json_groups: list[str] | None = msgspec.field(default=None, name="json")
    """Groups that are JSON; one that is not valid JSON stays a string."""


class PromptInput(_Part):
    """How the prompt reaches the agent: after a flag, as the last argument, or on stdin."""

    flag: Argument | None = None
    """Flag before the prompt, such as "-p", or "--" if a prompt may begin with a dash; a flag that ends in "=" and the
    prompt form one argument. Empty or missing: the prompt alone is the last argument."""
    stdin: bool = False
    """Whether the prompt is written to stdin instead."""


class OutputFormat(_Part):
    """The flag that makes the agent print events."""

    flag: Argument
    """Such as "--output-format"; "" for none."""
    value: Argument = ""
    """Such as "stream-json"."""
    file_flag: Argument | None = None
    """Flag before the name of a file into which the agent writes a JSON document: when the agent has ended, the
    document is read as one more line after its output."""


class Resume(_Part):
    """How a later turn resumes the session of the first.

    Give exactly one of `flag` and `args`, or neither if `command` contains `{sessionId}`.
    """

    flag: Argument | None = None
    """Flag that is followed by the session id."""
    args: list[Argument] | None = None
    """Arguments instead of flag and id, in the same place (before the prompt); `{sessionId}` in them is replaced:
    ["--resume={sessionId}"]."""
    command: list[Argument] | None = None
    """Command of a resumed turn instead of `command`: ["codex", "exec", "resume"]. `{sessionId}` in it is replaced,
    too: ["agent", "resume", "{sessionId}", "--json"]."""
    session_id_path: Path | None = None
    """Path of the session id; the last one found counts. The default is `$.session_id`."""


class PassthroughTypeMap(_Part):
    """Events that already have the fields of a step, distinguished by one field."""

    type_field: str = "type"
    """Field that names the kind of event."""
    type_values: dict[str, StepKind] | None = None
    """Value of that field → kind of step; the names of the kinds need no entry."""


class ResultEvent(_Part):
    """The event that ends a turn and carries the final text; a turn's last one counts."""

    match_path: Path
    """Path of the value that identifies the event."""
    match_value: Wanted
    """The value there, or a list of values; "*" is any non-null value."""
    content_path: Paths = ""
    """Path of the final text; a text that is found but empty counts as the answer."""
    otherwise: Otherwise = "all"
    """What the final text is if the event has none: all messages of the turn joined by newlines, the last one, or the
    one that ends the turn (`final`: none if a tool call comes after it). If the agent failed without a final text, it
    is always the last message."""
    is_error_path: Paths | None = None
    """The agent failed if any of these finds something true, as with `extract.isError`."""
    error_path: Paths | None = None
    """What went wrong: a string or a list of strings; by default, the final text."""
    stop_reason_path: Paths | None = None
    """Why the turn ended, for `metadata.stopReason`. If several paths find a word, one that means length (a token
    limit), refusal or max_turns takes precedence, and is replaced by that name."""


class UsagePaths(_Part):
    """Where the agent reports tokens and cost: each a path, or a list of paths; all numbers that they find are added
    up."""

    match: Condition | list[Condition] | None = None
    """Events that report usage; by default, any event in which a path finds a number."""
    input_tokens: Paths | None = None
    """Input tokens, cached ones included."""
    output_tokens: Paths | None = None
    """Output tokens."""
    cached_tokens: Paths | None = None
    """Input tokens read from a cache."""
    total_tokens: Paths | None = None
    """All tokens; what exceeds input and output counts as output, because some agents count thoughts only here."""
    cost_usd: Paths | None = None
    """Cost in US dollars."""
    per_turn: PerTurn = "last"
    """What counts if there are several reports in one turn: the last one (`last`) or their sum (`sum`)."""
    fallback: "UsagePaths | None" = None
    """Where to look in an event in which these paths find no number, such as one from another version. Its `match` and
    `cumulative` are not used."""
    cumulative: bool | list[UsageField] = False
    """true, or the names of the fields that already include the earlier turns of a resumed session: for these, the last
    turn counts. All others are added up over the turns."""


class Home(_Part):
    """What --isolate needs to know: which files log the agent in, and which other files of the user's it would read.

    Paths are below HOME; if a variable in `env` (or an XDG one) moves a directory elsewhere, it is looked for there. In
    `env` and `args`, `{home}` is the session's HOME, `{workspace}` its directory and `{above}` the JSON list of the
    files of `above` in all directories above that.
    """

    copy: list[RelativePath] | None = None
    """Files that log the agent in: copied, readable only by their owner, redacted from records, and removed at the
    end."""
    write_back: list[RelativePath] | None = None
    """Those of them that the program renews: a renewed file replaces the user's, because the old login may no longer be
    valid."""
    write_back_keys: dict[RelativePath, list[str]] | None = None
    """For a JSON file among these that also contains settings, which the program may change: the keys, at any depth,
    whose values are written back. Everything else in the user's file stays as it is."""
    keys: dict[RelativePath, list[str]] | None = None
    """Settings files (JSON, TOML or YAML) of which only some keys are copied, such as the provider and the model: path
    → keys, those of nested objects joined by dots (in YAML, top-level keys only). They are redacted and removed as
    well. ["*"] copies a whole text file that contains a name, such as that of the model; it is not redacted."""
    files: dict[RelativePath, str] | None = None
    """Files that the agent needs in a new HOME: path → content; a file that was copied is not replaced."""
    env: Environment | None = None
    """Variables that make the agent use its new HOME, such as {"CODEX_HOME": "{home}/.codex"}."""
    unset: list[str] | None = None
    """Variables that would lead back to the user's configuration."""
    args: list[Argument] | None = None
    """Arguments that keep the agent from reading the user's configuration, or directories above its workspace."""
    reads: list[RelativePath] | None = None
    """Files and directories below HOME with the user's configuration: instructions, settings, skills, servers, memory.
    Without --isolate, those that exist are named at the start."""
    above: list[RelativePath] | None = None
    """Files and directories that the agent also reads in every directory above its workspace."""
    boundary: Literal["args", "git"] | None = None
    """What keeps those out: `args` (or `env`) alone, or a git repository in the workspace, which --isolate makes. If
    missing, only --sandbox does."""
    memory: str | None = None
    """Where the agent keeps what it remembers across sessions, if that cannot be turned off: "~/.gemini/GEMINI.md"."""


class ModelChoice(_Part):
    """How the agent takes the model of --model; `{model}` stands for its name."""

    args: list[Argument] | None = None
    """Such as ["--model", "{model}"]."""
    env: Environment | None = None
    """Such as {"GOOSE_MODEL": "{model}"}."""


class Placement(_Part):
    """Where the agent looks for instructions (a file), or for skills (a directory with a folder per skill)."""

    workspace: RelativePath | None = None
    """Path below the workspace, used with --workspace-dir: "AGENTS.md", ".claude/skills"."""
    home: RelativePath | None = None
    """Path below HOME, used with --isolate if there is no workspace: ".codex/AGENTS.md"."""
    args: list[Argument] | None = None
    """Arguments for it, repeated for each; `{file}` is the absolute path of the file, or of the skill's folder."""


class McpServers(_Part):
    """How the agent takes the MCP servers of --mcp: a file that an argument names, or one in its HOME (or both)."""

    args: list[Argument] | None = None
    """Arguments that name the file, `{file}`, and keep all other servers out."""
    home: RelativePath | None = None
    """Path of the file below HOME; this needs --isolate, so that it contains none of the user's servers."""
    key: str = "mcpServers"
    """Where the servers are in the file; keys of nested objects are joined by dots."""
    format: Literal["json", "toml", "yaml"] = "json"
    """Format of the file."""
    settings: dict[str, Any] | None = None
    """What else the file must contain, such as a setting that turns servers on: key (joined by dots) → value. In YAML,
    a key that the file already has stays as it is."""
    stdio: dict[str, Any] | None = None
    """An entry for a server that is a command. In it "{command}", "{args}", "{env}", "{argv}" (the command and its
    arguments) and "{name}" stand for those values; what a server lacks is left out. By default, the entry has the
    .mcp.json format."""
    http: dict[str, Any] | None = None
    """An entry for a server at an address: "{url}", "{headers}", "{name}"."""
    as_list: bool = False
    """true: the entries form a list, each with its name in it."""


class HistoryTemplate(_Part):
    """How earlier turns are written into the prompt, with a text before them."""

    turn_format: Template
    """One turn: its prompt replaces {{input}} (required), its output {{output}}."""
    system: str | None = None
    """Text before the first turn."""


class HeadlessAdapter(_Part):
    """How to start one headless command-line agent, and how to read what it prints."""

    version: Literal[1]
    """Version of this format."""
    name: str
    """Name of the adapter."""
    command: list[Argument]
    """Program and first arguments: ["claude"]."""
    session_mode: SessionMode
    """stream: a later turn resumes the session by its id. iterative: a later turn starts anew, with the history in
    its prompt."""
    prompt: PromptInput
    """How the prompt reaches the agent."""
    description: str | None = None
    """What users should know."""
    proven_on: str | None = None
    """The program and version it was tested with."""
    timeout: Annotated[float, Meta(gt=0)] | None = None
    """Milliseconds per turn, by default."""
    output: OutputFormat | None = None
    """The options that make the agent print events."""
    auto_approve: list[Argument] | None = None
    """Arguments that let the agent act without asking."""
    resume: Resume | None = None
    """How a later turn resumes the session."""
    cwd_flag: Argument | None = None
    """Flag before the working directory."""
    env: Environment | None = None
    """Environment variables of the agent."""
    warm_up: bool = False
    """true: the first agent of a run finishes before others start, because several agents may fail if they set up an
    empty HOME at the same time."""
    output_mode: OutputMode = "jsonpath"
    """jsonpath: `outputEvents` say what the lines are. passthrough: the lines are already steps. text: everything
    printed in a turn is one message; with `outputEvents` it is one event, {"text": …}."""
    line_prefix: Pattern | None = None
    """Regular expression for what may precede the JSON on a line, such as "data: "; it is removed."""
    line_patterns: dict[str, Pattern] | None = None
    """For lines without a JSON object that contain something useful, such as the session id: name → regular expression
    (Python's). The first one that matches turns the line into an event: `type` is the name, and its named groups are
    the other fields (so no group may be named "type")."""
    output_events: list[OutputEvent] | None = None
    """Kinds of events, in order of precedence."""
    nested_events: Path | None = None
    """Path of a list of events within an event: each is read like a separate line, before the event that contains
    it."""
    decode: list[Path] | None = None
    """Strings that contain a JSON object, decoded before the rules are applied to the event: `$.a.b`, or `$.list[*].b`
    for each item of a list. Any other string stays as it is."""
    splits: list[Split] | None = None
    """Strings to split into parts."""
    passthrough_type_map: PassthroughTypeMap | None = None
    """Kinds of events in passthrough mode."""
    result: ResultEvent | None = None
    """The event with the final text; without it, the turn's last message is the output."""
    error_reasons: dict[str, str] | None = None
    """Text in `errors` → why the agent stopped, for `metadata.stopReason` if its output does not say so: {"exited with
    code 53": "max_turns"}."""
    usage: UsagePaths | None = None
    """Where tokens and cost are reported."""
    session_log: str | None = None
    """Format (of ae-import) of the session log that the agent keeps: the model, and tokens that the agent does not
    print, such as those of sub-agents or of a turn that was cut short, are read there."""
    metadata: Facts | None = None
    """Facts about the run for `metadata` of its result: name → path; the last event that has it counts. The names that
    the suite itself writes there (`turnCount`, `exitCode`, …) are refused; `agent` replaces the schema's name."""
    setup: dict[str, Paths] | None = None
    """What the agent reports about itself when it starts (model, tools, MCP servers, skills, …), for
    `metadata.agentSetup`: name → path; the first event that has it counts."""
    home: Home | None = None
    """Which of the user's files the agent reads, and how --isolate keeps them out."""
    model: ModelChoice | str | None = None
    """How it takes --model; a string is a note by the author."""
    instructions: Placement | None = None
    """Where it looks for the instructions of --instructions."""
    skills: Placement | None = None
    """Where it looks for skills (--skill)."""
    mcp: McpServers | None = None
    """How it takes the servers of --mcp."""
    history_template: Template | HistoryTemplate | None = None
    """Iterative mode: how an earlier turn is written, with {{input}} (required) and {{output}}."""


CHOICES: dict[str, tuple[Any, ...]] = {
    "version": (1,),
    "sessionMode": get_args(SessionMode),
    "outputMode": get_args(OutputMode),
    "emitAs": get_args(EmitAs),
    "perTurn": get_args(PerTurn),
    "otherwise": get_args(Otherwise),
    "cumulative": get_args(UsageField),
    "typeValues": get_args(StepKind),
    "boundary": ("args", "git"),
    "format": ("json", "toml", "yaml"),
}
