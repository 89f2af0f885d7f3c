"""Which skills an agent loaded, as the tool calls of its trajectory show."""

import re
from collections.abc import Iterable, Iterator
from typing import Any

from agenteval.wire.records import Record

SKILL_FILE = "SKILL.md"
# The folder of a skill, in the path of its file or in a command such as `cd skills/pdf && cat SKILL.md`.
FOLDER = re.compile(r"(?:^|[/\s\"'=])skills/([^/\s\"';&]+)[/\s\"';&][^>]*SKILL\.md")
NAMES = ("skill", "skill_name", "name", "command")  # fields of a skill tool's input
WRITES = ("write", "edit", "patch", "create")  # in the name of a tool that changes a file


def skills_used(steps: Iterable[Record]) -> list[str]:
    """Returns the names of the skills that were loaded, by a skill tool or by reading their SKILL.md, in order."""
    calls = (step for step in steps if step["type"] == "tool_call" and step.get("status") != "failed")
    return list(dict.fromkeys(name for call in calls for name in _loaded(call)))


def _loaded(call: Record) -> Iterator[str]:
    tool, given = str(call.get("name") or "").lower(), call.get("input")
    if "skill" in tool:
        named = [given.get(field) for field in NAMES] if isinstance(given, dict) else [given]
        name = next((one for one in named if isinstance(one, str) and one.strip()), "")
        yield from [name.rpartition(":")[2].strip("/ ")] if name else []
    elif not any(word in tool for word in WRITES):
        for text in _texts(given):
            if SKILL_FILE in text and (found := FOLDER.search(text)):
                yield found[1]


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _texts(inner)
