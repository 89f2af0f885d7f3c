"""The formats, and which of them a file or directory looks like."""

import os
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from agenteval.errors import BadRecord, UserError
from agenteval.suites import claude_evals, harbor, inspect_dataset, promptfoo, skill_creator, table
from agenteval.suites.cases import Case
from agenteval.suites.documents import YAML, Found, csv_columns, file_in, read_document

DATA = (".json", ".jsonl", *YAML)


class Format(NamedTuple):
    """A format: what it is, how its cases are found, and how one becomes a prompt."""

    title: str
    cases: Callable[[str], Iterator[Found]]
    fill: Callable[[Case, Any], None]


FORMATS = {
    "csv": Format("a table, one prompt per row", table.cases, table.fill),
    "claude-evals": Format("cases of claude plugin eval", claude_evals.cases, claude_evals.fill),
    "skill-creator": Format("skill-creator's evals.json", skill_creator.cases, skill_creator.fill),
    "harbor": Format("tasks of Harbor", harbor.cases, harbor.fill),
    "promptfoo": Format("a promptfoo configuration", promptfoo.cases, promptfoo.fill),
    "inspect": Format("a dataset of inspect_ai", inspect_dataset.cases, inspect_dataset.fill),
}


def check_format(format_: str, path: str) -> None:
    """Raises UserError if a path looks like another format."""
    if not os.path.exists(path):
        raise UserError(
            f"{path}: No such file or directory" if path != "-" else "PATH is a file or a directory, not stdin"
        )
    looks = looks_like(path)
    if looks == "prompts":
        raise UserError(f"{path}: already contains prompts; run them with ae-capture {path}")
    if looks is not None and looks != format_ and not (looks == "csv" and format_ in ("inspect", "promptfoo")):
        raise UserError(f"{path}: looks like {looks}, not {format_}: try ae-prompts {looks} {path}")
    if looks is None and (os.path.isdir(path) or (format_ == "csv" and path.endswith(DATA))):
        raise UserError(f"{path}: does not look like {FORMATS[format_].title}")


def looks_like(path: str) -> str | None:
    """Returns the format that a path seems to have; "prompts" for prompts of this suite."""
    if os.path.isdir(path):
        return _directory_format(path)
    name = os.path.basename(path)
    if name == "task.toml":
        return "harbor"
    if name in ("prompt.md", "case.yaml"):
        return "claude-evals"
    if name.endswith(".csv"):
        return "promptfoo" if any(column.startswith("__expected") for column in csv_columns(path)) else "csv"
    if not name.endswith(DATA):
        return None
    try:
        return _data_format(read_document(path).data)
    except BadRecord:
        return None


def _directory_format(path: str) -> str | None:
    if file_in(path, "task.toml"):
        return "harbor"
    if file_in(path, *promptfoo.CONFIGS):
        return "promptfoo"
    if file_in(path, "evals/evals.json", "evals.json"):
        return "skill-creator"
    found = {name for _folder, _folders, names in os.walk(path) for name in names}
    return "harbor" if "task.toml" in found else "claude-evals" if found & {"prompt.md", "case.yaml"} else None


def _data_format(data: object) -> str | None:
    first = next((one for one in data if isinstance(one, dict)), {}) if isinstance(data, list) else data
    if not isinstance(first, dict):
        return None
    fields = first.keys()
    if "evals" in fields or {"query", "should_trigger"} <= fields:
        return "skill-creator"
    if {"tests", "scenarios", "providers", "defaultTest"} & fields or (
        {"vars", "assert"} & fields and "input" not in fields
    ):
        return "promptfoo"
    if "schema_version" in fields and {"execution", "graders", "context"} & fields:
        return "claude-evals"
    if "input" in fields and isinstance(data, list):
        return "prompts" if {"checks", "hint", "reference"} & fields and "target" not in fields else "inspect"
    return None
