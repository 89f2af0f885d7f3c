"""The wire format, in pipeline order: Prompt → Raw → Result → Graded, then trials and summaries.

These types check the input and describe the format; a record itself stays a dict, so that unknown fields pass through
every stage in their place. The text below a field is its description in the JSON Schema that ae-schemas exports.

Annotations are not postponed here: msgspec would evaluate them one by one, a millisecond of every start.
"""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

Record = dict[str, Any]


class Wire(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True):
    """camelCase on the wire, snake_case in Python."""


Id = Annotated[str, Meta(min_length=1)]
Input = str | Annotated[list[str], Meta(min_length=1)]
Count = Annotated[int, Meta(ge=0)]
Interval = tuple[float, float]
Milliseconds = Annotated[float, Meta(ge=0)]
Rate = Annotated[float, Meta(ge=0, le=1)]
GraderErrorText = str | bool | None
LARGEST = 2**53  # beyond it, integers are not exact as floats, and some do not fit one
AGENT_FAILED = "agent failed: "  # starts the reasoning of a record that no grader saw
StepType = Literal["thought", "message", "tool_call", "plan"]
ON_OUTPUT = frozenset(  # the types of checks that look at nothing but the output
    ("contains", "not-contains", "equals", "starts-with", "regex", "not-regex", "json-schema", "judge")
)
Richness = Literal["full", "messages-only", "minimal"]  # of a trajectory


class PromptWorkspace(Wire):
    """What is in a prompt's workspace when its agent starts; it needs --workspace-dir."""

    template: Annotated[str, Meta(min_length=1)] | None = None
    """A directory, relative to that of the prompts file, or a git repository; if it is missing, --workspace-template is
    used."""
    git: bool | None = None
    """Whether it becomes a git repository of one commit, as with --workspace-git."""
    setup: Annotated[str, Meta(min_length=1)] | None = None
    """A shell command that runs there before the agent starts; its time does not count as the agent's. AE_ID is the
    prompt's id, AE_PROMPTS the directory of the prompts file. If the command fails, the record has `errors`."""
    timeout: Annotated[float, Meta(gt=0)] | str | None = None
    """Time limit for `setup`: milliseconds, or a time with a unit; 10 minutes by default."""
    base: str | None = None
    """The directory that its paths are relative to; a run adds it."""
    digest: str | None = None
    """Digest of the template's content; a run adds it."""


class Prompt(Wire):
    """One prompt: a string, or a list of strings that are the turns of one session."""

    id: Id
    """Names the prompt in every later record; unique in its file."""
    input: Input
    """What the agent is asked; a list holds the turns of one session."""
    hint: str | None = None
    """What a good answer contains, for graders; the agent does not see it."""
    reference: str | None = None
    """An answer that a correct grader passes."""
    metadata: dict[str, Any] | None = None
    """Anything: category, difficulty, tags."""
    timeout: Annotated[float, Meta(gt=0)] | None = None
    """Milliseconds per turn; takes precedence over any other limit."""
    workspace: Annotated[str, Meta(min_length=1)] | PromptWorkspace | None = None
    """What is in its workspace at the start: a template, or more."""
    checks: list[dict[str, Any]] | None = None
    """The checks that a good answer passes, for ae-grader-checks: objects with a `type` (see Check)."""


class Asked(Wire):
    """What each record of a prompt begins with."""

    id: Id
    """The prompt's id."""
    input: Input
    """The prompt, or its turns."""


class Turn(Wire):
    """One turn of a session: how many raw lines it has, and how its process ended."""

    lines: Count
    """How many of `rawLines` belong to this turn."""
    exit_code: int | None = None
    """Exit code of the agent; null when a signal ended it or it never started."""
    signal: str | None = None
    """Name of the signal that ended it, such as SIGKILL."""
    timed_out: bool = False
    """Whether it was terminated at its time limit."""
    total: Milliseconds | None = None
    """Milliseconds it took."""


class Permission(Wire):
    """The answer to an agent that asked for permission through the Agent Client Protocol."""

    line: Count
    """Which of `rawLines` asked, counted from 1."""
    outcome: str
    """allowed or denied."""


class Timing(Wire):
    """When the agent ran, how long it took, and the tokens and cost it used."""

    start: float
    """Start, in milliseconds since 1970."""
    end: float
    """End, in milliseconds since 1970."""
    total: float | None = None
    """Milliseconds from start to end."""
    session_creation: float | None = None
    """Milliseconds until the agent's process was started."""
    first_response: float | None = None
    """Milliseconds until its first line."""
    input_tokens: float | None = None
    """Input tokens, cached ones included, as the agent reports them."""
    output_tokens: float | None = None
    """Output tokens, as the agent reports them."""
    cached_tokens: float | None = None
    """Input tokens that came from a cache."""
    cost_usd: float | None = None
    """Cost in US dollars, as the agent reports it."""
    tokens_partial: bool | None = None
    """True if the agent was ended before it had reported all tokens: it used more than these."""


class Raw(Asked):
    """A prompt's fields and what the agent printed for it."""

    raw_lines: list[str]
    """Every line that the agent printed on stdout, unchanged; bytes that are not UTF-8 are replaced."""
    timing: Timing
    """When it ran and how long it took."""
    hint: str | None = None
    """The prompt's hint."""
    metadata: dict[str, Any] | None = None
    """The prompt's metadata; from the run, `runId`, `label` (from --label), `suiteVersion`, `agent`, `agentCommand`
    (with {} for the prompt) and `agentDigest` (of command or schema, --env and scripts); `promptDigest` (of what the
    agent gets) and `fieldsDigest` (of what only graders get), from which --resume tells what has changed;
    `workspaceDir` if it had its own directory, and, with --workspace-git, `workspaceBaseline` (a digest of the files in
    it at the start)."""
    line_times: list[float] | None = None
    """When each raw line arrived, in milliseconds from `timing.start`."""
    turns: list[Turn] | None = None
    """How each turn ended."""
    permissions: list[Permission] | None = None
    """The agent's requests for permission, and the answers."""
    session_log: dict[str, Any] | None = None
    """The tokens and the model (`inputTokens`, `outputTokens`, `cachedTokens`, `costUsd`, `model`) from the agent's own
    log of the session, sub-agents included."""
    stderr: str | None = None
    """The last 8 KiB of stderr, if there was any."""
    cwd: str | None = None
    """Directory the agent ran in."""
    exit_code: int | None = None
    """Exit code of the last turn; null when a signal ended it or it never started."""
    signal: str | None = None
    """Name of the signal that ended the last turn."""
    timed_out: bool = False
    """Whether a turn was terminated at its time limit."""
    errors: list[str] | None = None
    """What went wrong; missing if nothing did."""
    error: str | None = None
    """What went wrong, in the form of agent-eval-harness; read, never written."""


class GraderResult(Wire):
    """The verdict on an answer, as it is recorded."""

    pass_: bool = msgspec.field(name="pass")
    """Whether the answer is good enough."""
    score: Rate
    """How good it is, from 0 to 1."""
    reasoning: str | None = None
    """Why, for a reader."""
    outcome: dict[str, Any] | None = None
    """What else the grader found, for other tools."""


class HumanVerdict(Wire):
    """A person's verdict on an answer, which overrides that of the graders (`ae-grade --labels`)."""

    pass_: bool = msgspec.field(name="pass")
    """Whether the answer is right."""
    note: str | None = None
    """Why, in the person's words."""
    overrules: dict[str, Any] | None = None
    """The graders' verdict, if it was different: `pass`, `score` and `reasoning`, or `graderError`."""


class GraderAnswer(Wire):
    """What a grader answers."""

    pass_: bool = msgspec.field(name="pass")
    """Whether the answer is good enough."""
    score: Rate | msgspec.UnsetType = msgspec.UNSET
    """How good it is, from 0 to 1; if it is missing, 1 for an answer that passes and 0 for any other."""
    reasoning: str | None = None
    """Why, for a reader."""
    outcome: dict[str, Any] | None = None
    """What else the grader found, for other tools."""


class NamedVerdict(GraderResult):
    """The verdict of one of several graders."""

    weight: Annotated[float, Meta(gt=0)] | None = None
    """Its weight in the mean of the scores (`--weight`), if it is not 1."""
    informational: bool | None = None
    """Whether it counts neither for `score` nor for whether the record passes (`--informational`)."""


class Step(Wire):
    """One step of a trajectory: a thought, a message, a tool call with its result, or a plan."""

    type: StepType
    """Kind of step."""
    content: str | None = None
    """Text of a thought or a message."""
    name: str | None = None
    """Name of the tool that was called."""
    status: str | None = None
    """State of a tool call: pending, in_progress, completed or failed."""
    input: Any = None
    """Input of the tool."""
    output: Any = None
    """Output of the tool."""
    entries: list[Any] | None = None
    """Entries of a plan."""
    duration: float | None = None
    """Milliseconds from a tool call to its result."""
    permission: str | None = None
    """Whether the call was allowed or denied, if the agent asked for permission."""
    timestamp: float | None = None
    """When its line arrived, in milliseconds from the start."""
    step_id: str | None = None
    """The record's id, -step- and a number from 1."""
    call_id: str | None = None
    """For a tool call that other steps belong to: the agent's own id of that call."""
    parent_id: str | None = None
    """For a step of a sub-agent: `callId` of the tool call that it belongs to."""


class Gradable(Wire):
    """What a grader needs at least: an id and an output. A prompt with an `output` has both."""

    id: Id
    """The prompt's id."""
    output: str
    """The agent's final answer."""
    input: Input | None = None
    """The prompt, or its turns."""
    hint: str | None = None
    """What a good answer contains."""
    trajectory: list[Step] | None = None
    """The steps of the agent."""
    metadata: dict[str, Any] | None = None
    """The prompt's metadata; from the run, `runId`, `label`, `suiteVersion`, `agent`, `agentCommand`, `agentDigest`,
    `promptDigest`, `fieldsDigest`, `graderDigests` (of each grader, by its name), `agentArgs`, `trajectoryRichness`
    (full, messages-only or minimal), `turnCount`, `turnSteps` (how many steps each of several turns has), `exitCode`,
    `signal`, `timedOut`, `workspaceDir`, `workspaceBaseline` and `sandbox`."""
    cwd: str | None = None
    """Directory the agent ran in."""
    tool_errors: bool | None = None
    """Whether a tool call failed."""
    errors: list[str] | None = None
    """What went wrong; missing if nothing did."""


class GraderInput(Gradable):
    """What a grader gets from a result: everything except earlier scores, unknown fields included."""

    timing: Timing | None = None
    """When it ran, how long it took, tokens and cost."""
    trial_num: Annotated[int, Meta(ge=1)] | None = None
    """For a trial: its number, from 1."""


class Result(Gradable):
    """The result of a prompt: output and trajectory, with times, tokens and, once graded, a score."""

    timing: Timing | None = None
    """When it ran, how long it took, tokens and cost."""
    score: GraderResult | None = None
    """The verdict; with several graders, it passes if all pass, and the score is their mean."""
    scores: dict[str, NamedVerdict] | None = None
    """The verdict of each grader, by its name."""
    outcome: dict[str, Any] | None = None
    """What else the grader found."""
    graded_failed: bool | None = None
    """Whether graders saw the record although its agent failed (`--grade-failed`); without it, a record with `errors`
    never counts as passed, whatever its `score` is."""
    grader_error: GraderErrorText = None
    """Why a grader could not grade the record; there is no `score` then. `true`, beside a score that counts in no
    mean, is the form of earlier versions."""
    human_verdict: HumanVerdict | None = None
    """A person's verdict, if there is one: `score` then follows it (`ae-grade --labels`)."""
    error: str | None = None
    """What went wrong, in the form of agent-eval-harness; read, never written."""


class TrialEntry(Wire):
    """One trial of a prompt; it has `errors` if the agent failed, not if the answer did not pass."""

    trial_num: Annotated[int, Meta(ge=1)]
    """Number of the trial, from 1."""
    output: str
    """The agent's final answer."""
    trajectory: list[Step] | None = None
    """The steps of the agent."""
    duration: Milliseconds | None = None
    """Milliseconds it took."""
    timing: Timing | None = None
    """When it ran, how long it took, tokens and cost."""
    tool_errors: bool | None = None
    """Whether a tool call failed."""
    errors: list[str] | None = None
    """What went wrong; missing if nothing did."""
    attempts: Annotated[int, Meta(ge=1)] | None = None
    """How many attempts it took, if more than one."""
    retried: list[str] | None = None
    """Why each attempt but the last was repeated."""
    retried_usage: dict[str, float] | None = None
    """The tokens and the cost of the attempts but the last, as far as they are known; `timing` has the last one's."""
    cwd: str | None = None
    """Directory the agent ran in."""
    pass_: bool | None = msgspec.field(name="pass", default=None)
    """Whether the answer is good enough."""
    score: Rate | None = None
    """How good it is, from 0 to 1."""
    reasoning: str | None = None
    """Why, for a reader."""
    outcome: dict[str, Any] | None = None
    """What else the grader found."""
    scores: dict[str, NamedVerdict] | None = None
    """The verdict of each grader, by its name."""
    graded_failed: bool | None = None
    """Whether graders saw the trial although its agent failed (`--grade-failed`)."""
    grader_error: GraderErrorText = None
    """Why a grader could not grade the trial; there is no verdict then."""
    human_verdict: HumanVerdict | None = None
    """A person's verdict, if there is one: `pass` and `score` then follow it (`ae-grade --labels`)."""


class Trial(Asked):
    """A prompt run k times: its trials and, once graded, how often they pass."""

    k: Annotated[int, Meta(ge=1)]
    """How many trials there are."""
    trials: list[TrialEntry]
    """The trials, in order."""
    hint: str | None = None
    """The prompt's hint."""
    pass_rate: Rate | None = None
    """Share p of the trials that passed."""
    pass_at_k: Rate | None = None
    """1-(1-p)^k: the chance that at least one of k passes."""
    pass_exp_k: Rate | None = None
    """p^k: the chance that all of k pass."""
    pass_at: dict[str, Rate | None] | None = None
    """For each j from 1 to k, the unbiased estimate of the chance that at least one of j passes."""
    pass_exp: dict[str, Rate | None] | None = None
    """For each j from 1 to k, the unbiased estimate of the chance that all of j pass."""
    grader_errors: Count | None = None
    """Trials without a verdict, because the grader erred."""
    metadata: dict[str, Any] | None = None
    """The prompt's metadata; from the run, `agent` and the like."""


class Summary(Wire, kw_only=True):
    """A result in one short line."""

    id: Id
    """The prompt's id."""
    input: str | None = None
    """The prompt, its turns joined by newlines."""
    output: str
    """The agent's final answer."""
    tool_calls: list[str]
    """Names of the tools it called, in order."""
    duration: Milliseconds | None = None
    """Milliseconds it took; missing if unknown."""


class Validation(Asked):
    """Whether a prompt's reference answer passes the grader."""

    reference: str
    """The answer that was graded."""
    pass_: bool | None = msgspec.field(name="pass", default=None)
    """Whether the grader passes it; missing if the grader erred."""
    score: Rate | None = None
    """The grader's score, from 0 to 1; missing if the grader erred."""
    reasoning: str | None = None
    """Why, for a reader."""
    grader_error: GraderErrorText = None
    """Why the grader could not grade it."""


# What a run writes: in a prompt they are left from an earlier run, and no part of it.
RAW_FIELDS = (
    *("rawLines", "lineTimes", "turns", "permissions", "sessionLog", "stderr", "cwd", "timing", "exitCode", "signal"),
    *("timedOut", "errors", "error", "attempts", "retried", "retriedUsage"),
)
VERDICT_FIELDS = ("score", "scores", "outcome", "gradedFailed", "graderError", "humanVerdict")
RUN_FIELDS = frozenset((*RAW_FIELDS, *VERDICT_FIELDS, "output", "trajectory", "toolErrors"))
TRIALS_FIELDS = ("k", "trials", "passRate", "passAtK", "passExpK", "passAt", "passExp", "graderErrors")
RUN_ID_VARIABLE = "_AE_RUN_ID"  # by which ae-ray gives the filters of all its slots one `runId`
STOP_RULE = "stopWhenKnown"  # in the metadata of a run that may stop early: what it is tested against
SKILL_TRIGGERED = "skillTriggered"  # in the outcome of ae-grader-tools --skill: whether the skill was loaded
SHOULD_TRIGGER = "shouldTrigger"  # in the metadata of a prompt: whether it should be
SKILLS_USED = "skillsUsed"  # in the metadata of a result: the names of the skills that the agent loaded
AGENT_SETUP = "agentSetup"  # in the metadata of a result: what the agent reports about itself at its start
RUN_METADATA = frozenset(
    (
        STOP_RULE,
        *("runId", "suiteVersion", "agent", "agentCommand", "agentDigest", "agentArgs", "sandbox"),
        *("isolated", "variant", AGENT_SETUP),
        *("promptDigest", "fieldsDigest", "graderDigests", "workspaceDir", "workspaceBaseline"),
        *("trajectoryRichness", SKILLS_USED, "turnCount", "turnSteps", "exitCode", "signal", "timedOut"),
    )
)
# What schemas read in an agent's output, and --label; the metadata of a prompt may have it, too.
AGENT_METADATA = frozenset(("model", "agentVersion", "stopReason", "label"))
GRADER_FIELDS = (
    *("id", "input", "output", "hint", "trajectory", "metadata", "cwd", "timing", "toolErrors", "errors"),
    "trialNum",
)
