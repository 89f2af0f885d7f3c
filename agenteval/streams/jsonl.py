"""JSON values and records, from bytes and to bytes: msgspec reads, orjson writes.

msgspec keeps integers of any length exact, which orjson would round. orjson refuses integers beyond 64 bits, types of
the wire format and more than 254 levels of nesting: msgspec writes those.
"""

import json
import re
from collections.abc import Callable
from typing import Any

import msgspec
import orjson

from agenteval.errors import BadRecord, UserError
from agenteval.streams.files import read_given
from agenteval.wire.records import Record

LONG_LINE = b"\0longer than --max-line allows\0"  # in place of one that is
LONGEST_INTEGER = 4300  # digits; Python does not convert longer ones

_decode = msgspec.json.Decoder().decode


def encode(value: Any) -> bytes:
    """Returns the value as JSON, on one line without spaces."""
    try:
        return orjson.dumps(value)
    except TypeError:
        pass
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return msgspec.json.encode(encodable(value))


def encodable(value: Any) -> Any:
    r"""Returns the JSON value with \udcff and the like for bytes that are not UTF-8, of file names and arguments."""
    return replace_texts(msgspec.to_builtins(value), lambda text: text.encode("utf-8", "backslashreplace").decode())


def replace_texts(value: Any, replace: Callable[[str], str]) -> Any:
    """Returns the JSON value with its texts replaced; not by recursion, because it may be nested too deeply."""
    top = [value]
    left: list[Any] = [top]
    while left:
        place = left.pop()
        for key, inner in place.items() if isinstance(place, dict) else enumerate(place):
            if isinstance(inner, str):
                place[key] = replace(inner)
            elif isinstance(inner, dict | list):
                copy = {replace(name): value for name, value in inner.items()} if isinstance(inner, dict) else inner[:]
                place[key] = copy
                left.append(copy)
    return top[0]


def decode(line: bytes | str) -> Any:
    """Returns the JSON value of a line; the message of BadRecord says what is wrong with it."""
    try:
        return _decode(line)
    except RecursionError:
        raise BadRecord("cannot be read as JSON: nested too deeply") from None
    except (msgspec.DecodeError, ValueError, ArithmeticError) as error:
        raise BadRecord(_why_not_json(line, error)) from None


def decode_record(line: bytes) -> Record:
    """Returns the JSON object of a line."""
    record = decode(line)
    if not isinstance(record, dict):
        raise BadRecord(f"a record must be a JSON object, got {_kind(record)}")
    return record


def read_json(path: str) -> Any:
    """Returns the JSON value of a small file; raises UserError if it cannot be read or is not JSON."""
    try:
        return decode(read_given(path))
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}") from None
    except BadRecord as error:
        raise UserError(f"{path}: {error}") from None


def integer_of(digits: str) -> int | None:
    """Returns the integer, or None if it is longer than Python converts."""
    return int(digits) if len(digits) <= LONGEST_INTEGER else None


def _why_not_json(line: bytes | str, error: Exception) -> str:
    """Returns what is wrong with a line; from Python's json, if it refuses the line too: it knows the column."""
    if line == LONG_LINE:
        return "longer than --max-line allows"
    try:
        text = line.decode() if isinstance(line, bytes) else line
    except UnicodeDecodeError as bad:
        return f"not UTF-8: byte 0x{bad.object[bad.start]:02x} at position {bad.start + 1}"
    try:
        value = json.loads(text)
    except json.JSONDecodeError as bad:
        return f"not JSON: {bad.msg.removesuffix(' at')} at column {bad.pos + 1}{_json_hint(text, bad.pos)}"
    except (RecursionError, ValueError):
        return "cannot be read as JSON: nested too deeply, or a number is too long"
    if any("\ud800" <= char <= "\udfff" for char in json.dumps(value, ensure_ascii=False)):
        return "cannot be read as JSON: contains half of a surrogate pair (\\ud800 to \\udfff)"
    return f"not JSON: {error}"


def _json_hint(text: str, at: int) -> str:
    """Returns which habit of other languages JSON does not allow, if one is at this position; else ""."""
    if text.startswith("'", at):
        return " (JSON has no single quotes)"
    before = text[: at + 1].rstrip()
    if re.search(r",\s*[}\]]?$", before) and re.match(r",?\s*[}\]]", text[at:]):
        return " (JSON has no comma before } or ])"
    word = re.match(r"True|False|None", text[at:])
    return f" (JSON has true, false and null, not {word[0]})" if word else ""


def _kind(value: Any) -> str:
    kinds = {list: "a list", str: "a string", bool: "a boolean", int: "a number", float: "a number"}
    return kinds.get(type(value), "null")
