"""The file of a page: template, style and script of this folder, the data in compressed blocks, limits on its size.

The browser runs only the script and the style whose digests are in the policy, and loads nothing, whatever an agent
has put into the data. The script unpacks a block of data when it needs it.
"""

import os
import re
from base64 import b64encode
from binascii import b2a_base64
from collections.abc import Iterator
from hashlib import sha256
from html import escape
from typing import Any
from zlib import compressobj

from agenteval.reports.forms import ReportContext
from agenteval.streams.jsonl import encode
from agenteval.streams.text import counted

HERE = os.path.dirname(os.path.abspath(__file__))
# In the order of their dependencies.
SCRIPTS = (
    *("dom", "numbers", "blocks", "location", "content", "images", "diff", "markdown", "hits"),
    *("steps", "record", "side_by_side"),
    *("plots", "overview", "columns", "labels", "comparison", "ranking", "table", "filters", "export"),
    *("follow", "keys", "main"),
)
POLICY = (
    "default-src 'none'; script-src '{script}'; style-src '{style}'; img-src data:; base-uri 'none'; "
    "form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)
CHUNK = 1 << 18  # bytes before compression: what the browser unpacks to show one record
LEVEL = 6
# What a browser still opens and searches well; docs/page.md has the measurements.
MOST_ROWS = 100_000  # with twice as many, filters become noticeably slow
MOST_BYTES = 400 << 20  # of compressed records
WAYS_OUT = "use --limit N to list fewer records, or --no-trajectories to leave out their steps"
FEWER_PROMPTS = "compare fewer prompts at a time, such as one category"  # ae-compare has no such options
_FIELD = re.compile(r"\{\{(\w+)\}\}")


class PageParts:
    """What comes before the data that is read first, between the data, and after all of it."""

    def __init__(self, title: str) -> None:
        style, script = _read("page.css"), script_text()
        policy = POLICY.format(script=_digest(script), style=_digest(style))
        fields = {"policy": policy, "style": style, "title": escape(title)}
        filled = _FIELD.sub(lambda found: fields.get(found[1], found[0]), _read("template.html"))
        self.head, _, self.tail = filled.partition("{{data}}\n")
        self.script = f"<script>{script}</script>\n"


def script_text() -> str:
    """The script of the page: the files of scripts/, as one function, so that the page has no global names."""
    parts = [_read(os.path.join("scripts", f"{name}.js")) for name in SCRIPTS]
    return "(() => {\n'use strict';\n" + "\n".join(parts) + "})();\n"


def _read(name: str) -> str:
    with open(os.path.join(HERE, name), encoding="utf-8") as file:
        return file.read()


def _digest(text: str) -> str:
    return f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"


class ChunkWriter:
    """Collects lines of JSON into compressed blocks; each block says which lines it has."""

    def __init__(self, kind: str, size: int = CHUNK) -> None:
        self.written = 0  # bytes of all blocks so far
        self._kind, self._size = kind, size
        self._first = 0
        self._begin()

    def _begin(self) -> None:
        self._count = self._length = 0
        self._packed: list[bytes] = []
        self._compressor = compressobj(LEVEL)

    def add(self, line: bytes) -> Iterator[bytes]:
        """Adds a line; yields a block if there is enough for one."""
        self._packed.append(self._compressor.compress(line))
        self._packed.append(self._compressor.compress(b"\n"))
        self._count += 1
        self._length += len(line) + 1
        if self._length >= self._size:
            yield from self.flush()

    def add_value(self, value: Any) -> Iterator[bytes]:
        """Adds a value as a line."""
        return self.add(encode(value))

    def flush(self) -> Iterator[bytes]:
        """Yields the lines gathered so far as a block."""
        if not self._count:
            return
        self._packed.append(self._compressor.flush())
        data = b2a_base64(b"".join(self._packed), newline=False)
        tag = f'<script type="text/plain" data-{self._kind}="{self._first},{self._count}">'
        block = b"".join((tag.encode(), data, b"</script>\n"))
        self._first += self._count
        self._begin()
        self.written += len(block)
        yield block


def inline_json(name: str, value: Any) -> bytes:
    """An uncompressed block of JSON; nothing in it can end the block or begin a comment."""
    data = encode(value)
    for char, escaped in ((b"<", b"\\u003c"), (b">", b"\\u003e"), (b"&", b"\\u0026")):
        data = data.replace(char, escaped)
    return b'<script type="application/json" id="%s">%s</script>\n' % (name.encode(), data)


class PageRoom:
    """The records of a page, until it is full; those that do not fit are counted."""

    def __init__(self) -> None:
        self.left_out = 0
        self._chunks = ChunkWriter("records")

    def add(self, line: bytes) -> Iterator[bytes]:
        """Adds the line of a record; yields a block if there is enough for one."""
        if self._chunks.written > MOST_BYTES:
            self.left_out += 1
        else:
            yield from self._chunks.add(line)

    def finish(self) -> Iterator[bytes]:
        """Yields the rest, and how many did not fit."""
        yield from self._chunks.flush()
        yield inline_json("left-out", self.left_out)


def say_what_is_missing(
    records: int, listed: int, left_out: int, context: ReportContext, ways_out: str = WAYS_OUT
) -> None:
    """Reports what did not fit in the page and what to do, one line each."""
    if listed < records and listed != context.limit:
        context.say(f"the page lists the first {listed:,} of {counted(records, 'record')}, as many as fit; {ways_out}")
    if left_out:
        context.say(
            f"the page is full: {counted(left_out, 'record')} of {records:,} cannot be opened in it; {ways_out}"
        )
