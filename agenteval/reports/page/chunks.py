"""Data inside a page: JSON values in a compressed block each, which the script unpacks when it needs them."""

from __future__ import annotations

from binascii import b2a_base64
from collections.abc import Iterator
from typing import Any
from zlib import compressobj

from agenteval.streams.jsonl import encode

CHUNK = 1 << 18  # bytes before compression: what the browser unpacks to show one record
LEVEL = 6


class ChunkWriter:
    """Lines of JSON, gathered into compressed blocks; each block says which lines it has."""

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
    """A block of JSON that is there at once; nothing in it can end the block or begin a comment."""
    data = encode(value)
    for char, escaped in ((b"<", b"\\u003c"), (b">", b"\\u003e"), (b"&", b"\\u0026")):
        data = data.replace(char, escaped)
    return b'<script type="application/json" id="%s">%s</script>\n' % (name.encode(), data)
