"""The edits that agents make with their tools, as lines of a diff: old and new texts, new files, patches."""

import re
from collections.abc import Iterator
from difflib import unified_diff
from typing import Any, NamedTuple

CHANGED_FIELDS = (  # as in page/scripts/diff.js
    *(("old_string", "new_string"), ("oldText", "newText"), ("old_str", "new_str"), ("oldString", "newString")),
    *(("old_text", "new_text"), ("original", "replacement")),
)
NEW_FIELDS = ("content", "file_text", "contents", "insert_text", "new_str")
PATH_FIELDS = ("file_path", "path", "filePath", "filename", "file")
WRITES = re.compile("write|create|edit|insert", re.IGNORECASE)
PATCH = re.compile(r"(?m)\A\s*(\*\*\* Begin Patch|diff --git |--- \S.*\n\+\+\+ )")
MOST_COMPARED = 400_000  # pairs of lines; beyond it all old ones are removed, then all new ones added
BETWEEN = "@@"


class Edit(NamedTuple):
    """The edit in a tool's input as the text of a diff, and the rest of the input."""

    rest: dict[str, Any]
    diff: str


def edit_of(name: str, given: Any) -> Edit | None:
    """The edit in a tool's input; None if the input is not an edit."""
    if isinstance(given, str):
        return Edit({}, given.strip("\n")) if PATCH.match(given) else None
    if not isinstance(given, dict):
        return None
    if (found := _change(given)) is not None:
        return found
    edits = given.get("edits")
    if isinstance(edits, list) and edits and all(isinstance(one, dict) for one in edits):
        changes = [_change(one) for one in edits]
        if None not in changes:
            diffs = f"\n{BETWEEN}\n".join(change.diff for change in changes if change)
            return Edit(_without(given, "edits"), diffs)
    for key, value in given.items():
        for text in value if isinstance(value, list) else [value]:  # codex: ["apply_patch", "*** Begin Patch …"]
            if isinstance(text, str) and PATCH.match(text):
                return Edit(_without(given, key), text.strip("\n"))
    if WRITES.search(name) and any(isinstance(given.get(key), str) for key in PATH_FIELDS):
        for key in NEW_FIELDS:
            if isinstance(given.get(key), str):
                return Edit(_without(given, key), _diff("", given[key]))
    return None


def _change(given: dict[str, Any]) -> Edit | None:
    """The texts before and after a change, if an object has both."""
    for old, new in CHANGED_FIELDS:
        before, after = given.get(old), given.get(new)
        if isinstance(after, str) and old in given and isinstance(before, str | None):
            return Edit(_without(given, old, new), _diff(before or "", after))
    return None


def _without(given: dict[str, Any], *keys: str) -> dict[str, Any]:
    return {key: value for key, value in given.items() if key not in keys}


def _diff(before: str, after: str) -> str:
    return "\n".join(_diff_lines(_lines(before), _lines(after)))


def _lines(text: str) -> list[str]:
    return text.removesuffix("\n").split("\n") if text else []


def _diff_lines(old: list[str], new: list[str]) -> Iterator[str]:
    if len(old) * len(new) > MOST_COMPARED:
        yield from (f"-{line}" for line in old)
        yield from (f"+{line}" for line in new)
        return
    for at, line in enumerate(unified_diff(old, new, lineterm="")):
        if at > 2 or (at == 2 and not line.startswith("@@")):  # without file names, and the place of the first part
            yield BETWEEN if line.startswith("@@") else line
