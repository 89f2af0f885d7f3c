"""JSON values and records, from bytes and to bytes.

orjson writes: it takes about half of msgspec's time. msgspec reads, because it keeps integers of any length as they
are, and writes what orjson refuses: such integers, types of the wire format, more than 254 levels.
"""

from __future__ import annotations

from typing import Any

import msgspec
import orjson

from agenteval.errors import BadRecord, UserError
from agenteval.wire.records import Record

_decode = msgspec.json.Decoder().decode
LONGEST_INTEGER = 4300  # digits; Python converts no longer ones

Fragment = orjson.Fragment  # JSON that encode() writes as it is
_dumps = orjson.dumps


def _raw(value: Any) -> msgspec.Raw:
    if type(value) is not Fragment:
        raise NotImplementedError
    return msgspec.Raw(orjson.dumps(value))


_encode = msgspec.json.Encoder(enc_hook=_raw).encode


def encode(value: Any) -> bytes:
    """Returns the value as JSON, without spaces but those in a Fragment."""
    try:
        return _dumps(value)
    except TypeError:
        return _encode(value)


def decode(line: bytes | str) -> Any:
    """Returns the JSON value of a line; the message of BadRecord says what is wrong with it."""
    try:
        return _decode(line)
    except RecursionError:
        raise BadRecord("not JSON that can be read: nested too deeply") from None
    except (msgspec.DecodeError, ValueError, ArithmeticError) as error:
        raise BadRecord(_why_not_json(line, error)) from None


def decode_record(line: bytes) -> Record:
    """Returns the JSON object of a line."""
    try:
        record = decode(line)
    except BadRecord:
        if (record := _without_huge_numbers(line)) is None:
            raise
    if not isinstance(record, dict):
        raise BadRecord(f"a record must be a JSON object, got {_kind(record)}")
    return record


def _without_huge_numbers(line: bytes) -> Record | None:
    """Returns a result in which an agent has written a number too large for any type, such as 1e999: it becomes null.

    What an agent writes must not make its record unreadable. Returns None for anything else that is no JSON.
    """
    import json
    from math import isfinite

    def real(digits: str) -> float | None:
        return found if isfinite(found := float(digits)) else None

    try:
        record = json.loads(line, parse_float=real, parse_int=integer_of, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) and not record.keys().isdisjoint(("trajectory", "trials")) else None


def integer_of(digits: str) -> int | None:
    """Returns the integer, or None if it is longer than Python converts."""
    return int(digits) if len(digits) <= LONGEST_INTEGER else None


def _refuse(constant: str) -> None:
    raise ValueError(constant)  # NaN and Infinity are no JSON


def read_json(path: str) -> Any:
    """Returns the JSON value of a small file; UserError if it cannot be read or is not JSON."""
    try:
        with open(path, "rb") as file:
            return decode(file.read())
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}") from None
    except BadRecord as error:
        raise UserError(f"{path}: {error}") from None


def _why_not_json(line: bytes | str, error: Exception) -> str:
    import json  # its messages have the position

    try:
        text = line.decode() if isinstance(line, bytes) else line
    except UnicodeDecodeError as bad:
        return f"not UTF-8: byte 0x{bad.object[bad.start]:02x} at position {bad.start + 1}"
    try:
        json.loads(text)
    except json.JSONDecodeError as bad:
        return f"not JSON: {bad.msg.removesuffix(' at')} at column {bad.pos + 1}"
    except (RecursionError, ValueError):
        return "not JSON that can be read: nested too deeply or a number too long"
    if any("\ud800" <= char <= "\udfff" for char in json.dumps(json.loads(text), ensure_ascii=False)):
        return "not JSON that can be read: half of a surrogate pair (\\ud800 to \\udfff) stands alone"
    return f"not JSON: {error}"


def _kind(value: Any) -> str:
    kinds = {list: "a list", str: "a string", bool: "a boolean", int: "a number", float: "a number"}
    return kinds.get(type(value), "null")
