"""A table (csv): one row per prompt; a column named like a check is a check, other columns are fields."""

from collections.abc import Iterator
from itertools import chain, count
from typing import Any

from agenteval.errors import BadRecord, UserError
from agenteval.streams.jsonl import decode
from agenteval.streams.text import number_in, parse_milliseconds
from agenteval.suites.cases import Case
from agenteval.suites.documents import Found, csv_columns, read_csv

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
WITHOUT = ("file-contains", "group", "harbor")  # one cell cannot hold them
KNOWN = {*TEXT_CHECKS, *NUMBER_CHECKS, *WITHOUT, "tool-order", "json-schema"} | {
    *("id", "input", "hint", "reference", "timeout", "metadata")
}


def cases(path: str) -> Iterator[Found]:
    """Yields the rows; one without an id is named row-N, or row-N-2 if another has that id."""
    columns = list(map(_column, csv_columns(path)))
    if "input" not in columns:
        has = f" (it has {', '.join(columns)})" if any(columns) else ""
        raise UserError(f'{path}: has no column "input"{has}')
    rows = list(read_csv(path))
    if not rows:
        raise UserError(f"{path}: has no rows below the column names")
    cells_read = chain.from_iterable(cells for _line, cells in rows if isinstance(cells, list))
    taken = {cell.strip() for name, cell in cells_read if _column(name) == "id"}
    for number, (line, cells) in enumerate(rows, 1):
        names = chain([f"row-{number}"], (f"row-{number}-{n}" for n in count(2)))
        made = next(name for name in names if name not in taken)
        yield Found(f"{path}:{line}", cells if isinstance(cells, BadRecord) else (made, cells))


def _column(name: str) -> str:
    """Returns the name of a column, in lower case if it is a known one."""
    return name.lower() if name.lower() in KNOWN else name


def fill(case: Case, raw: Any) -> None:
    """Turns a row into a prompt; an empty cell is absent."""
    made, cells = raw
    if extra := [cell for name, cell in cells if not name and cell.strip()]:
        raise BadRecord(f"{extra[0]!r} is not in a named column (text with a comma in it needs quotes)")
    row = [(_column(name), cell) for name, cell in cells if cell.strip()]
    case.named = not any(name == "id" for name, _cell in row)
    case.fields = {"id": made, "input": ""}
    for name, cell in row:
        if name in TEXT_CHECKS:
            case.check(name, **{TEXT_CHECKS[name]: cell.strip() if name.startswith("max-") else cell})
        elif name in NUMBER_CHECKS:
            case.check(name, value=_number(name, cell))
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


def _number(name: str, cell: str) -> float:
    value = number_in(cell)
    if value != value:
        raise BadRecord(f"{name}: {cell.strip()!r} is not a number")
    return value


def _time(text: str) -> float:
    try:
        return parse_milliseconds(text)
    except ValueError as error:
        raise BadRecord(str(error)) from None
