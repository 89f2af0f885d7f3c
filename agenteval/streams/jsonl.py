"""JSON values and records, from bytes and to bytes.

orjson writes: it takes about half of msgspec's time. msgspec reads, because it keeps integers of any length as they
are, and writes what orjson refuses: such integers, types of the wire format, more than 254 levels. Where orjson reads
faster, text with many escapes, a type shows whether it may have rounded an integer; then msgspec reads it again.

Both crash where the system refuses them memory. Under a limit (ulimit -v), what is large is read and written only if
there is room for it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Annotated, Any

import msgspec
import orjson

from agenteval.errors import BadRecord, UserError
from agenteval.wire.records import Record

_decode = msgspec.json.Decoder().decode
LONGEST_INTEGER = 4300  # digits; Python converts no longer ones
MOST_DIGITS = 20  # of a count, a size or a time: 64 bits have no more

Fragment = orjson.Fragment  # JSON that encode() writes as it is
LARGE = 1 << 12  # bytes; less is there if the tool could start
LIMITS = (b"Max address space", b"Max data size")  # of memory, in /proc/self/limits


def _memory_is_limited() -> bool:
    try:
        with open("/proc/self/limits", "rb", buffering=0) as file:
            lines = file.readall().splitlines()
    except OSError:  # macOS limits no memory
        return False
    return any(line.startswith(LIMITS) and line.split()[3] != b"unlimited" for line in lines)


MEMORY_IS_LIMITED = _memory_is_limited()


def require_room(line: bytes | str) -> None:
    """Raises BadRecord for a line that cannot be worked on within the limit on memory."""
    if MEMORY_IS_LIMITED and len(line) > LARGE:
        from agenteval.streams.system_errors import MORE_MEMORY, has_room

        if not has_room(4 * len(line)):  # the line as values, changed, and as text again
            raise BadRecord(f"{len(line):,} bytes, for which there is not enough memory: {MORE_MEMORY}")


def _dumps_if_room(value: Any) -> bytes:
    from agenteval.streams.system_errors import has_room

    total, longest = _lengths(value)
    if total > LARGE and not has_room(2 * total + 16 * longest):  # orjson reserves eight bytes for each of a text
        raise MemoryError
    return orjson.dumps(value)


def _lengths(value: Any) -> tuple[int, int]:
    """Returns about how many bytes a value has as JSON, and its longest text."""
    total = longest = 0
    left = [value]
    while left:
        inner = left.pop()
        if isinstance(inner, str):
            size = len(inner) if inner.isascii() else 4 * len(inner)
            total, longest = total + size, max(longest, size)
        elif isinstance(inner, dict):
            left += inner
            left += inner.values()
        elif isinstance(inner, list | tuple):
            left += inner
        total += 8
    return total, longest


_dumps = _dumps_if_room if MEMORY_IS_LIMITED else orjson.dumps


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
    require_room(line)
    try:
        return _decode(line)
    except RecursionError:
        raise BadRecord("not JSON that can be read: nested too deeply") from None
    except (msgspec.DecodeError, ValueError, ArithmeticError) as error:
        raise BadRecord(_why_not_json(line, error)) from None


def decode_record(line: bytes) -> Record:
    """Returns the JSON object of a line."""
    require_room(line)  # before the try: what has no room is not read in another way
    try:
        record = _decode(line)
    except (RecursionError, msgspec.DecodeError, ValueError, ArithmeticError):
        record = _decode_odd(line)
    if not isinstance(record, dict):
        raise BadRecord(f"a record must be a JSON object, got {_kind(record)}")
    return record


def _decode_odd(line: bytes) -> Any:
    """Returns the JSON value of a line that is not JSON, or has numbers too large for any type."""
    try:
        return decode(line)
    except BadRecord:
        if (record := _without_huge_numbers(line)) is None:
            raise
        return record


def _without_huge_numbers(line: bytes) -> Record | None:
    """Returns a result in which an agent has written a number too large for any type, such as 1e999: it becomes null.

    What an agent writes must not make its record unreadable. Returns None for anything else that is no JSON.
    """
    try:
        record = _huge_as_null(line)
        encode(record)  # raises for half of a surrogate pair, which json reads and nothing can write
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) and not record.keys().isdisjoint(("trajectory", "trials")) else None


def _huge_as_null(data: bytes) -> Any:
    import json
    from math import isfinite

    def real(digits: str) -> float | None:
        return found if isfinite(found := float(digits)) else None

    return json.loads(data, parse_float=real, parse_int=integer_of, parse_constant=_refuse)


# --- many escapes -------------------------------------------------------------------------------


SAMPLE = slice(0, 20_000, 163)  # the bytes of a raw record that are looked at
MANY = 8  # escapes among them, beyond which orjson is faster, if the record is not small
FIELD_LEVELS = 3  # of lists and objects in a field that orjson may read


@cache
def exact_type(levels: int) -> Any:
    """Returns the type of JSON values in which orjson has rounded no integer, with some levels of lists and objects.

    To make one takes 0.1 ms for two levels, and twice the time for one level more.
    """
    if levels == 0:
        number = Annotated[float, msgspec.Meta(gt=-9e18, lt=9e18)]  # of integers beyond 64 bits orjson makes others
        return str | int | number | bool | None
    inner = exact_type(levels - 1)
    return exact_type(0) | list[inner] | dict[str, inner]  # type: ignore[valid-type]


def exact_decoder(kind: Any, otherwise: Callable[[str | bytes], Any]) -> Callable[[str | bytes], Any]:
    """Returns a decoder for JSON with many escapes, which orjson reads faster.

    `kind` is the type of the result, with numbers as in exact_type(); `otherwise` decodes all that is not of that type.
    """
    loads, convert = orjson.loads, msgspec.convert

    def decode_escaped(text: str | bytes) -> Any:
        try:
            return convert(loads(text), kind)
        except (ValueError, msgspec.ValidationError, RecursionError):
            return otherwise(text)

    return decode_escaped


def decode_raw(line: bytes) -> Record:
    """Returns the raw record of a line; its raw lines are JSON in JSON, and so most of them have many escapes."""
    if line[SAMPLE].count(b"\\") <= MANY:
        return decode_record(line)
    require_room(line)
    try:
        record = orjson.loads(line)
        fields = {name: value for name, value in record.items() if name != "rawLines"}
        msgspec.convert({"lines": record["rawLines"], "fields": fields}, _exact_raw())
    except (ValueError, AttributeError, KeyError, TypeError, msgspec.ValidationError, RecursionError):
        return decode_record(line)
    return record  # type: ignore[no-any-return]


@cache
def _exact_raw() -> Any:
    value = exact_type(FIELD_LEVELS)
    return msgspec.defstruct("ExactRaw", [("lines", list[str]), ("fields", dict[str, value])])  # type: ignore[valid-type]


def value_of(data: bytes) -> Any:
    """Returns the value of correct JSON, in which numbers may be too large for any type: those become null."""
    try:
        return _decode(data)
    except (msgspec.DecodeError, ValueError, ArithmeticError):
        return _huge_as_null(data)


def integer_of(digits: str) -> int | None:
    """Returns the integer, or None if it is longer than Python converts."""
    return int(digits) if len(digits) <= LONGEST_INTEGER else None


def whole_number(text: str) -> int | None:
    """Returns the number that ASCII digits are; None for other text, and for more digits than a count has."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= MOST_DIGITS else None


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
