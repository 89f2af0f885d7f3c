"""Which skills an agent loaded, as the tool calls of its trajectory show."""

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from agenteval.wire.records import Record

SKILL_FILE = "SKILL.md"
# The folder of a skill, in the path of its file or in a command such as `cd skills/pdf && cat SKILL.md`.
FOLDER = re.compile(r"(?:^|[/\s\"'=])skills/([^/\s\"';&]+)[/\s\"';&][^>]*SKILL\.md")
NAMES = ("skill", "skill_name", "name", "command")  # fields of a skill tool's input
WRITES = ("write", "edit", "patch", "create")  # in the name of a tool that changes a file


def skills_used(steps: Iterable[Record]) -> list[str]:
    """Returns the names of the skills that were loaded, by a skill tool or by reading their SKILL.md, in order."""
    found: dict[str, None] = {}
    for step in steps:
        if step["type"] == "tool_call" and step.get("status") != "failed":
            loads, reads = _does(str(step.get("name")))
            for name in _named(step.get("input")) if loads else _read(step.get("input")) if reads else ():
                found[name] = None
    return list(found)


@lru_cache
def _does(tool: str) -> tuple[bool, bool]:
    """Returns whether a tool of this name loads skills, and whether it may read their files."""
    tool = tool.lower()
    return "skill" in tool, not any(word in tool for word in WRITES)


def _named(given: Any) -> list[str]:
    """Returns the skill that the input of a skill tool names."""
    named = [given.get(field) for field in NAMES] if isinstance(given, dict) else [given]
    name = next((one for one in named if isinstance(one, str) and one.strip()), "")
    return [name.rpartition(":")[2].strip("/ ")] if name else []


def _read(given: Any) -> list[str]:
    """Returns the skills whose files the texts in an input name; in a loop, because it may be nested deeply."""
    found, left = [], [given]
    while left:
        value = left.pop()
        if type(value) is str:
            if SKILL_FILE in value and (folder := FOLDER.search(value)):
                found.append(folder[1])
        elif type(value) is dict:
            left += reversed(value.values())
        elif type(value) is list:
            left += reversed(value)
    return found
