"""json: the whole report, for programs"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

import msgspec

from agenteval.comparison.figures import Report
from agenteval.reports.forms import ReportContext
from agenteval.streams.jsonl import encode

AT_ONCE = 1 << 16  # bytes
LEVELS = 3  # of objects and lists that are written piece by piece: the prompts of a report may be many


def render(report: Report, _context: ReportContext) -> Iterator[bytes]:
    """Yields the report as JSON."""
    waiting, size = list[bytes](), 0
    for piece in chain(json_pieces(report, LEVELS), (b"\n",)):
        waiting.append(piece)
        size += len(piece)
        if size >= AT_ONCE:
            yield b"".join(waiting)
            waiting, size = [], 0
    yield b"".join(waiting)


def json_pieces(value: object, levels: int, line: bytes = b"\n") -> Iterator[bytes]:
    """Yields the value as pretty_json has it; `line` begins a line of it."""
    members: Iterable[tuple[bytes, object]]
    if levels and isinstance(value, msgspec.Struct):
        first, members, last = b"{", fields_of(value), b"}"
    elif levels and isinstance(value, Sequence) and not isinstance(value, str):
        first, members, last = b"[", ((b"", one) for one in value), b"]"
    else:
        yield msgspec.json.format(encode(value), indent=2).replace(b"\n", line)
        return
    inner, before = line + b"  ", first
    for name, member in members:
        yield before + inner + name
        yield from json_pieces(member, levels - 1, inner)
        before = b","
    yield first + last if before == first else line + last


def fields_of(value: msgspec.Struct) -> Iterator[tuple[bytes, object]]:
    """Yields the names of the fields as they begin a line, and their values; defaults are left out."""
    for field in msgspec.structs.fields(value):
        found = getattr(value, field.name)
        if found != field.default:
            yield msgspec.json.encode(field.encode_name) + b": ", found
