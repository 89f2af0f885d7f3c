"""Checks a record against a type, and explains in one line what is wrong with it."""

import re
import threading
from typing import Any, TypeVar

import msgspec

from agenteval.errors import BadRecord

T = TypeVar("T", bound=msgspec.Struct)


_TYPE_NAMES = {
    "str": "a string",
    "int": "an integer",
    "float": "a number",
    "bool": "true or false",
    "array": "a list",
    "object": "an object",
    "null": "null",
}
# What other programs call a field.
OTHER_NAMES = {"input": ("prompt", "question", "query", "instruction"), "pass": ("passed", "success", "ok")}
_known: set[type] = set()  # types that msgspec has analysed
_analysing = threading.Lock()
_ERROR = r"(?s)^(?P<what>.*?)(?: - at `\$(?P<path>.*?)`)?$"
_EXPECTED = r"(?s)^Expected `(?P<want>[^`]+)`(?P<rest>.*?)(?:, got `(?P<got>[^`]+)`)?$"


def convert(value: Any, kind: type[T]) -> T:
    """Returns the value as `kind`; raises the errors of msgspec.

    All conversions go this way: msgspec crashes if a thread uses a type that another one is using for the first time.
    """
    if kind not in _known:
        with _analysing:
            msgspec.json.Decoder(kind)
            _known.add(kind)
    return msgspec.convert(value, kind)


def check(record: Any, kind: type[T]) -> T:
    """Returns the record as `kind`; the message of BadRecord names the field and what is wrong with it."""
    try:
        return convert(record, kind)
    except msgspec.ValidationError as error:
        raise BadRecord(explain(str(error), record)) from None
    except (ArithmeticError, ValueError, RecursionError, MemoryError) as error:  # a number of 400 digits as a float
        raise BadRecord(f"cannot be read: {type(error).__name__}: {error}") from None


def explain(message: str, record: Any = None) -> str:
    """Returns the message of msgspec in plain words: `"id" must be a string, got an integer`."""
    found = re.match(_ERROR, message)
    if found is None:  # pragma: no cover - the pattern matches any text
        return message
    what, path = found["what"], (found["path"] or "").lstrip(".")
    if missing := re.match(r"Object missing required field `([^`]+)`", what):
        other = next((name for name in OTHER_NAMES.get(missing[1], ()) if not path and name in (record or ())), None)
        meant = f'; rename "{other}" to "{missing[1]}"' if other else ""
        return f'"{f"{path}." if path else ""}{missing[1]}" is missing{meant}'
    expected = re.match(_EXPECTED, what)
    if expected is None:
        return f'"{path}": {what}' if path else what
    want = " or ".join(_TYPE_NAMES.get(name.strip(), name.strip()) for name in expected["want"].split("|"))
    rest = expected["rest"].replace("of length >= 1", "that is not empty").replace("`", "")
    got = f", got {_TYPE_NAMES.get(expected['got'], expected['got'])}" if expected["got"] else _number_at(record, path)
    subject = f'"{path}"' if path else "a record"
    return f"{subject} must be {want}{rest}{got}"


def _number_at(record: Any, path: str) -> str:
    """Returns `, got 7` if there is a number at that path: its type is right, but it is too large or too small."""
    try:
        value = value_at(record, path)
    except (KeyError, IndexError, TypeError, ValueError):
        return ""
    return f", got {value}" if isinstance(value, int | float) else ""


def value_at(record: Any, path: str) -> Any:
    """Returns the value at a path such as `trials[1].score`, as msgspec writes it."""
    for name in re.findall(r"[^.\[\]]+", path):
        record = record[int(name)] if isinstance(record, list) else record[name]
    return record
