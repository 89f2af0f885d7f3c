"""A table (csv): one row per prompt; a column named like a check is a check, other columns are fields."""

from collections.abc import Iterator
from typing import Any

from agenteval.errors import BadRecord, UserError
from agenteval.streams.jsonl import decode
from agenteval.streams.text import number_in, parse_milliseconds
from agenteval.suites.cases import Case
from agenteval.suites.documents import Found, read_csv

TEXT_CHECKS = {
    **dict.fromkeys(
        ("contains", "not-contains", "equals", "starts-with", "regex", "not-regex", "max-duration"), "value"
    ),
    **dict.fromkeys(("tool-called", "tool-not-called"), "tool"),
    **dict.fromkeys(("skill-used", "skill-not-used"), "skill"),
    "file-exists": "path",
    "command": "run",
    "judge": "rubric",
}
NUMBER_CHECKS = ("max-tokens", "max-cost")
WITHOUT = ("file-contains", "group")  # one cell cannot hold them


def cases(path: str) -> Iterator[Found]:
    """Yields the rows."""
    for number, (line, cells) in enumerate(read_csv(path), 1):
        if number == 1 and "input" not in dict(cells):
            raise UserError(f'{path}: has no column "input"')
        yield Found(f"{path}:{line}", (number, cells))


def fill(case: Case, raw: Any) -> None:
    """Turns a row into a prompt; an empty cell is absent."""
    number, cells = raw
    if extra := [cell for name, cell in cells if not name and cell.strip()]:
        raise BadRecord(f"{extra[0]!r} is in no named column (a text with a comma in it needs quotes)")
    row = [(name, cell) for name, cell in cells if cell.strip()]
    case.fields = {"id": f"row-{number}", "input": ""}
    for name, cell in row:
        if name in TEXT_CHECKS:
            case.check(name, **{TEXT_CHECKS[name]: cell.strip() if name.startswith("max-") else cell})
        elif name in NUMBER_CHECKS:
            case.check(name, value=number_in(cell))
        elif name == "tool-order":
            case.check(name, tools=[tool.strip() for tool in cell.split(",")])
        elif name == "json-schema":
            case.check(name, schema=decode(cell))
        elif name in WITHOUT:
            raise BadRecord(f"{name} does not fit into a cell; write the prompts as JSONL")
        elif name == "timeout":
            case.fields[name] = _time(cell.strip())
        else:
            case.fields[name] = cell.strip() if name == "id" else cell
    if not case.fields["input"]:
        raise BadRecord('"input" is missing')


def _time(text: str) -> float:
    try:
        return parse_milliseconds(text)
    except ValueError as error:
        raise BadRecord(str(error)) from None
