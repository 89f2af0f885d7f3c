"""Keeps what is read a second time in a temporary file, which has no name."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

from agenteval.errors import CannotGoOn
from agenteval.streams.files import PIECE


class Spool:
    """Bytes that are kept on disk until the input has ended, so that memory does not grow with the records."""

    def __init__(self) -> None:
        with _explained():
            self.file: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - it stays open to be read

    def keep(self, data: bytes) -> None:
        """Appends bytes."""
        with _explained():
            self.file.write(data)

    def rewind(self) -> IO[bytes]:
        """Returns the file, to be read from its start."""
        with _explained():
            self.file.seek(0)  # writes what is left in the buffer
        return self.file

    def pieces(self) -> Iterator[bytes]:
        """Yields the bytes in pieces of any length."""
        file = self.rewind()
        return iter(lambda: file.read(PIECE), b"")


def file_with(text: bytes) -> int:
    """Returns the descriptor of a temporary file with this content, to be read from its start."""
    with tempfile.TemporaryFile() as file:
        file.write(text)
        file.seek(0)
        return os.dup(file.fileno())


@contextmanager
def _explained() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        why = f"cannot keep the records of a report in a temporary file: {error.strerror}; set TMPDIR"
        raise CannotGoOn(why) from None
