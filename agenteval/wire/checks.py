"""The checks that a prompt can carry (`checks`), by which ae-grader-checks grades its answers without any code.

One type per kind of check: they validate prompts before the first agent starts, and describe the format.
"""

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from agenteval.wire.records import Rate

Text = Annotated[str, Meta(min_length=1)]
Texts = Text | Annotated[list[Text], Meta(min_length=1)]
Duration = Annotated[float, Meta(ge=0)] | str


class Check(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True, forbid_unknown_fields=True):
    """What all checks have; `type` says which one it is."""

    name: str | None = None
    """What reports call it; else its type and what it looks for."""
    weight: Annotated[float, Meta(gt=0)] = 1
    """How much it counts in the score."""
    required: bool = True
    """Whether the record passes only if this check passes; else it counts in the score only."""
    ignore_case: bool = False
    """Whether upper and lower case are the same, in all texts of the check."""


class Contains(Check, tag="contains"):
    """The output contains the text."""

    value: Texts
    """The text; of a list, any one of them."""


class NotContains(Check, tag="not-contains"):
    """The output does not contain the text."""

    value: Texts
    """The text; of a list, none of them."""


class Equals(Check, tag="equals"):
    """The output is the text, apart from surrounding whitespace."""

    value: str | Annotated[list[str], Meta(min_length=1)]
    """The text; of a list, any one of them."""


class StartsWith(Check, tag="starts-with"):
    """The output begins with the text, apart from leading whitespace."""

    value: Texts
    """The text; of a list, any one of them."""


class Regex(Check, tag="regex"):
    """The regular expression is found in the output."""

    value: Text
    """A regular expression of Python's."""


class NotRegex(Check, tag="not-regex"):
    """The regular expression is not found in the output."""

    value: Text
    """A regular expression of Python's."""


class JsonSchema(Check, tag="json-schema"):
    """The output is JSON, or ends with a JSON object, that matches the schema."""

    schema: dict[str, Any] | bool
    """A JSON Schema; what it refers to must be in it."""


class ToolCalled(Check, tag="tool-called"):
    """The agent called the tool, whether or not the call succeeded."""

    tool: Text
    """Its name as in the trajectory; * matches anything."""
    input: Text | None = None
    """A regular expression: only calls count in whose input, as JSON without escapes, it is found."""
    min: Annotated[int, Meta(ge=0)] = 1
    """The least number of calls."""
    max: Annotated[int, Meta(ge=0)] | None = None
    """The greatest number of calls."""


class ToolNotCalled(Check, tag="tool-not-called"):
    """The agent did not call the tool."""

    tool: Text
    """Its name as in the trajectory; * matches anything."""
    input: Text | None = None
    """A regular expression: only calls count in whose input, as JSON without escapes, it is found."""


class ToolOrder(Check, tag="tool-order"):
    """The agent called the tools in this order; other calls may come between them."""

    tools: Annotated[list[Text], Meta(min_length=1)]
    """Their names; * matches anything."""


class SkillUsed(Check, tag="skill-used"):
    """The agent loaded the skill: by a call of its skill tool, or by reading `…/skills/NAME/SKILL.md`."""

    skill: Text
    """Its name."""


class SkillNotUsed(Check, tag="skill-not-used"):
    """The agent did not load the skill."""

    skill: Text
    """Its name."""


class FileExists(Check, tag="file-exists"):
    """The file or directory is in the workspace afterwards."""

    path: Text
    """Path from the agent's working directory."""


class FileContains(Check, tag="file-contains"):
    """The file in the workspace has the text, or matches the regular expression. Exactly one of the two is given."""

    path: Text
    """Path from the agent's working directory."""
    value: Texts | None = None
    """The text; of a list, any one of them."""
    regex: Text | None = None
    """A regular expression of Python's."""


class CommandSucceeds(Check, tag="command"):
    """The shell command succeeds in a copy of the workspace; AE_ID and AE_RECORD name the record."""

    run: Text
    """The command, for sh."""
    timeout: Duration | None = None
    """Its limit in milliseconds, or a time with a unit; 50 s by default."""
    tests: Text | None = None
    """A directory with hidden tests that is copied over the copy first."""
    digest: str | None = None
    """Digest of the tests' content; a run adds it."""


class HarborTests(Check, tag="harbor"):
    """A Harbor task's tests/test.sh, run in a copy of the workspace, writes the reward 1."""

    tests: Text
    """The directory tests/ of the task."""
    timeout: Duration | None = None
    """The limit in milliseconds, or a time with a unit; 50 s by default."""
    workdir: Text = "/app"
    """Where the tests find the workspace. Without a container it is replaced in them, as are /tests and /logs."""
    image: Text | None = None
    """The image that the tests run in: they need --sandbox podman or docker, with --sandbox-image."""
    solution: Text | None = None
    """The directory solution/ of the task, whose solve.sh ae-validate-refs runs."""
    solve: bool = False
    """Whether solve.sh runs in the copy before the tests, as ae-validate-refs asks for."""
    digest: str | None = None
    """Digest of the tests' content; a run adds it."""


class MaxDuration(Check, tag="max-duration"):
    """The agent took at most this long."""

    value: Duration
    """Milliseconds, or a time with a unit: 30s, 5m."""


class MaxTokens(Check, tag="max-tokens"):
    """The agent used at most this many tokens, input and output together; an unknown number does not pass."""

    value: Annotated[float, Meta(ge=0)]


class MaxCost(Check, tag="max-cost"):
    """The agent cost at most this much; an unknown cost does not pass."""

    value: Annotated[float, Meta(ge=0)]
    """US dollars."""


class Judged(Check, tag="judge"):
    """A model judges that the answer meets the rubric."""

    rubric: Text
    """What a good answer does."""
    threshold: Rate = 0.75
    """The lowest score that passes."""


class Group(Check, tag="group"):
    """Several checks: the weighted share of those that pass reaches the threshold."""

    checks: Annotated[list["AnyCheck"], Meta(min_length=1)]
    """The checks; whether one of them is `required` does not matter."""
    threshold: Rate = 1.0
    """The least share of their weights."""


AnyCheck = (
    Contains
    | NotContains
    | Equals
    | StartsWith
    | Regex
    | NotRegex
    | JsonSchema
    | ToolCalled
    | ToolNotCalled
    | ToolOrder
    | SkillUsed
    | SkillNotUsed
    | FileExists
    | FileContains
    | CommandSucceeds
    | HarborTests
    | MaxDuration
    | MaxTokens
    | MaxCost
    | Judged
    | Group
)
