"""What all formats share: turns a case of a suite into a prompt, and reports what a prompt cannot express.

A format is a module with `cases(path)`, which finds the cases, and `fill(case, raw)`, which turns one into a prompt.
An invalid case raises BadRecord and is left out.
"""

import os
import re
import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from agenteval.errors import BadRecord, MissingExtra, UserError
from agenteval.streams.console import Console
from agenteval.streams.text import counted, one_line, preview
from agenteval.suites.documents import Found
from agenteval.wire.records import Prompt, Record
from agenteval.wire.validation import check as convert

OF_FILES = ("file-exists", "file-contains", "command")  # checks of what the agent leaves in its workspace
NAMED = 60  # characters of a value in a message


class Settings(NamedTuple):
    """The user's settings for a suite."""

    base: str  # the directory to which paths in the prompts are relative
    skill: str | None = None
    on_host: bool = False
    image: str | None = None


class Case:
    """A case of a suite while it is turned into a prompt."""

    def __init__(self, where: str, settings: Settings) -> None:
        self.where, self.settings = where, settings
        self.fields: Record = {}
        self.metadata: Record = {}
        self.checks: list[Record] = []
        self.workspace: Record | None = None  # if the case needs one
        self.setup: list[str] = []  # commands that fill it
        self.lost: list[str] = []  # what a prompt cannot express
        self.named = False  # whether the id was generated

    def check(self, type_: str, **parameters: Any) -> None:
        """Adds a check."""
        self.checks.append(check_of(type_, **parameters))

    def lose(self, name: str, value: object = None) -> None:
        """Notes a part of the case that a prompt cannot express."""
        value = ", ".join(map(str, value)) if isinstance(value, list) else value
        text = "" if value is None else preview(one_line(str(value), NAMED), NAMED)
        self.lost.append(f"{name} ({text})" if text else name)

    def path(self, path: str) -> str:
        """Returns a path relative to the directory of the prompts."""
        return os.path.relpath(path, self.settings.base)

    def shell_path(self, path: str) -> str:
        """Returns a path for a `setup` command, which runs in another directory."""
        return f'"$AE_PROMPTS"/{shlex.quote(self.path(path))}'

    def prompt(self) -> Record:
        """Returns the prompt; raises BadRecord if it is invalid."""
        prompt = dict(self.fields)
        if self.checks:
            prompt["checks"] = self.checks
        if self.setup:
            prompt["workspace"] = (self.workspace or {}) | {"setup": " && ".join(self.setup)}
        elif self.workspace is not None or any(check["type"] in OF_FILES for check in self.checks):
            prompt["workspace"] = self.workspace or {}
        metadata = {name: value for name, value in self.metadata.items() if value not in (None, "", [], {})}
        if self.lost:
            metadata["notExpressed"] = self.lost
        if metadata:
            prompt["metadata"] = metadata
        convert(prompt, Prompt)
        return prompt


def check_of(type_: str, **parameters: Any) -> Record:
    """Returns a check without the parameters that are None or False."""
    given = {name: value for name, value in parameters.items() if value is not None and value is not False}
    return {"type": type_, **given}


def converted(
    found: Iterable[Found],
    fill: Callable[[Case, Any], None],
    settings: Settings,
    validate: Callable[[Record], object],
    console: Console,
) -> Iterator[Record]:
    """Yields the prompts; reports invalid cases and what cannot be expressed, with counts."""
    seen: set[str] = set()
    lost: Counter[str] = Counter()
    affected, named = 0, 0
    for where, raw in found:
        case = Case(where, settings)
        try:
            if isinstance(raw, BadRecord):
                raise raw
            fill(case, raw)
            prompt = case.prompt()
            if "checks" in prompt:
                validate(prompt)
            if prompt["id"] in seen:
                raise BadRecord(f'duplicate id "{prompt["id"]}"')
        except MissingExtra:
            raise
        except (BadRecord, UserError) as error:  # UserError: a file of the case cannot be read
            own = re.match(r"(\S.*?:\d+): (.*)", str(error), re.DOTALL)  # names a file of the case
            if own and os.path.exists(own[1].rpartition(":")[0]):
                console.refuse(own[1], own[2], "refused case")
            else:
                console.refuse(where, str(error), "refused case")
            continue
        except Exception as error:
            console.fault(where, error)
            continue
        seen.add(prompt["id"])
        named += case.named
        if case.lost:
            affected += 1
            lost.update(name.partition(" (")[0] for name in case.lost)
            console.say(f"{where}: {prompt['id']}: not expressed: {', '.join(case.lost)}")
        yield prompt
    if named:
        whole = counted(len(seen), "prompt")
        console.say(f"{named} of {whole} have no id: they are named row-N, after the number of their row")
    if lost:
        parts = ", ".join(f"{name} {count}" for name, count in lost.most_common())
        console.say(f"{affected} of {counted(len(seen), 'prompt')} lack part of the original case: {parts}")


# --- shared by several formats ------------------------------------------------------------------


def text_of(raw: Record, name: str) -> str:
    """Returns the text in a required field."""
    value = raw.get(name)
    if not isinstance(value, str) or not value.strip():
        raise BadRecord(f'"{name}" is missing' if value in (None, "") else f'"{name}" must be a string')
    return value


def object_of(raw: object, what: str) -> Record:
    """Returns an object; raises BadRecord if it is something else."""
    if not isinstance(raw, dict):
        raise BadRecord(f"{what} must be an object with fields")
    return raw


def list_of(raw: Record, field: str) -> list[Any]:
    """Returns a list, empty if the field is missing; raises BadRecord if it is something else."""
    found = raw.get(field) or []
    if not isinstance(found, list):
        raise BadRecord(f'"{field}" must be a list')
    return found


def turns(case: Case, messages: list[Any]) -> str | list[str]:
    """Returns the user's messages in a chat; notes the others, which cannot be expressed."""
    said: list[str] = []
    for message in messages:
        content = object_of(message, "a message").get("content")
        if isinstance(content, list):
            parts = [part for part in content if isinstance(part, dict) and part.get("type") == "text"]
            if len(parts) < len(content):
                case.lose("media in messages")
            content = "\n".join(str(part.get("text")) for part in parts)
        if message.get("role") == "user":
            said.append(str(content))
        else:
            case.lose(f"{message.get('role')} message", content)
    if not said:
        raise BadRecord("the input has no message of the user")
    return said[0] if len(said) == 1 else said


def seconds(value: object, name: str) -> float:
    """Converts seconds to milliseconds; raises BadRecord unless they are above 0."""
    if not isinstance(value, int | float) or isinstance(value, bool) or value <= 0:
        raise BadRecord(f'"{name}" must be a number of seconds above 0, got {value!r}')
    return value * 1000


def as_id(name: str) -> str:
    """Returns a name as an id, with - in place of whitespace."""
    return re.sub(r"\s+", "-", name.strip())
