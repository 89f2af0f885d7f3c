"""Reads the files of a suite: JSON, JSON Lines, YAML, TOML, CSV and front matter, with the line of each case."""

import csv
import io
import os
import re
import tomllib
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from agenteval.errors import BadRecord, MissingExtra, UserError
from agenteval.streams.files import read_given
from agenteval.streams.jsonl import decode
from agenteval.streams.text import one_line

YAML = (".yaml", ".yml")
FRONT_MATTER = re.compile(r"\A---[ \t]*\r?\n(.*?)^---[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE)


class Document(NamedTuple):
    """A file's data, and the first line of each item of its lists, by field; "" if the file itself is a list."""

    data: Any
    lines: dict[str, list[int]]


class Found(NamedTuple):
    """A case in a suite: its place, and its data or the error with which it cannot be read."""

    where: str
    raw: Any


def read_text(path: str) -> str:
    """Returns a file's text; raises UserError if it cannot be read."""
    try:
        return io.TextIOWrapper(io.BytesIO(read_given(path)), encoding="utf-8-sig").read()
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise UserError(f"{path}: is not text in UTF-8") from None


def read_document(path: str) -> Document:
    """Reads a JSON, JSON Lines or YAML file; raises BadRecord, with the line, if it is invalid."""
    text = read_text(path)
    if path.endswith(YAML):
        return read_yaml(text)
    if path.endswith(".jsonl"):
        numbered = [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
        return Document([_decoded(line) for _number, line in numbered], {"": [number for number, _line in numbered]})
    return Document(decode(text), _json_lines(text.encode()))


def _decoded(line: str) -> Any:
    try:
        return decode(line)
    except BadRecord as error:
        return error


def _json_lines(data: bytes) -> dict[str, list[int]]:
    if data.lstrip().startswith(b"["):
        lists = {"": data}
    elif data.lstrip().startswith(b"{"):
        fields = msgspec.json.decode(data, type=dict[str, msgspec.Raw])
        lists = {name: bytes(raw) for name, raw in fields.items() if bytes(raw).startswith(b"[")}
    else:
        return {}
    lines: dict[str, list[int]] = {}
    for name, content in lists.items():
        at, lines[name] = data.find(content), []
        for item in msgspec.json.decode(content, type=list[msgspec.Raw]):
            at = data.find(bytes(item), at)
            lines[name].append(data.count(b"\n", 0, at) + 1)
            at += len(bytes(item))
    return lines


def read_yaml(text: str) -> Document:
    """Parses YAML; raises BadRecord, with the line, if it is invalid."""
    try:
        import yaml
    except ImportError:
        raise MissingExtra("YAML needs PyYAML", "suites") from None
    try:
        loader = yaml.SafeLoader(text)
        try:
            node = loader.get_single_node()
            data = None if node is None else loader.construct_document(node)
        finally:
            loader.dispose()
        _refuse_cycles(data)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        reason = getattr(error, "problem", None) or one_line(str(error), 200)
        raise BadRecord(f"{f'line {mark.line + 1}: ' if mark else ''}is not YAML: {reason}") from None
    except (ValueError, RecursionError) as error:  # such as the date 2024-02-30
        raise BadRecord(f"is not YAML: {one_line(str(error), 200)}") from None
    pairs = node.value if isinstance(node, yaml.MappingNode) else []
    lists = {key.value: value for key, value in pairs if isinstance(value, yaml.SequenceNode)}
    if isinstance(node, yaml.SequenceNode):
        lists[""] = node
    return Document(data, {name: [item.start_mark.line + 1 for item in one.value] for name, one in lists.items()})


def _refuse_cycles(value: Any) -> None:
    """Raises ValueError if a value contains itself, through an alias within its own anchor."""
    around: set[int] = set()
    checked: set[int] = set()  # a value with many aliases is checked once

    def look(one: Any) -> None:
        inner = one.values() if isinstance(one, dict) else one if isinstance(one, list) else ()
        if not inner or id(one) in checked:
            return
        if id(one) in around:
            raise ValueError("an alias refers to itself")
        around.add(id(one))
        for item in inner:
            look(item)
        around.remove(id(one))
        checked.add(id(one))

    look(value)


def read_front_matter(path: str) -> tuple[dict[str, Any], str]:
    """Returns the fields at the top of a Markdown file between lines of ---, and the text below them."""
    text = read_text(path)
    found = FRONT_MATTER.match(text)
    try:
        fields = read_yaml(found[1]).data if found else None
    except BadRecord as error:
        raise placed(error, path, 1) from None
    if not isinstance(fields, dict | None):
        raise BadRecord("the front matter must be fields, such as `type: regex`")
    return fields or {}, text[found.end() :] if found else text


def placed(error: BadRecord, path: str, above: int = 0) -> BadRecord:
    """Returns an error with the path and its line, counted from `above` lines into the file."""
    found = re.match(r"line (\d+): (.*)", str(error), re.DOTALL)
    return BadRecord(f"{path}:{int(found[1]) + above}: {found[2]}" if found else f"{path}: {error}")


def line_of_field(path: str, field: str) -> int:
    """Returns the line on which a field of a YAML file or of front matter is set."""
    found = re.search(rf"(?m)^[ \t{{,-]*[\"']?{re.escape(field)}[\"']?[ \t]*:", text := read_text(path))
    return text.count("\n", 0, found.start()) + 1 if found else 1


def read_toml(path: str) -> dict[str, Any]:
    """Reads a TOML file; raises BadRecord, with the line, if it is invalid."""
    try:
        return tomllib.loads(read_text(path))
    except tomllib.TOMLDecodeError as error:
        line = re.search(r"\(at line (\d+)", str(error))
        raise BadRecord(f"{path}:{line[1] if line else 1}: is not TOML: {error}") from None


Cells = list[tuple[str, str]]


def read_csv(path: str) -> Iterator[tuple[int, Cells | BadRecord]]:
    """Yields the line of each row and its cells, each with the name of its column, or the row's error.

    The delimiter is the header's. After an invalid row, such as one with an open quote, the next line is read.
    """
    lines = list(io.StringIO(read_text(path), newline=""))
    delimiter = max(",;\t", key=lines[0].count) if lines else ","
    names: list[str] | None = None
    start = 0  # index of the row's first line
    while start < len(lines):
        first, rows = start, csv.reader(lines[start:], delimiter=delimiter, strict=True)
        try:
            for row in rows:
                cells = [cell.strip() for cell in row]
                if names is None:
                    names = cells
                elif any(cells):
                    extra = [("", cell) for cell in row[len(names) :] if cell]
                    yield start + 1, [*zip(names, row, strict=False), *extra]
                start = first + rows.line_num
        except csv.Error as error:
            if names is None:
                raise UserError(f"{path}:1: {error}") from None
            reason = "a quote is not closed" if "unexpected end" in str(error) else str(error)
            yield start + 1, BadRecord(reason)
            start += 1


def csv_columns(path: str) -> list[str]:
    """Returns the names of the columns of a table."""
    lines = list(io.StringIO(read_text(path), newline=""))
    delimiter = max(",;\t", key=lines[0].count) if lines else ","
    try:
        return [name.strip() for name in next(csv.reader(lines, delimiter=delimiter), [])]
    except csv.Error as error:
        raise UserError(f"{path}:1: {error}") from None


def file_in(folder: str, *names: str) -> str | None:
    """Returns the path of the first of these names that exists in a directory, even if it is not a file."""
    return next((path for name in names if os.path.lexists(path := os.path.join(folder, name))), None)
