"""The results a report is made of, read as they come, or twice where the top of the page speaks of all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import IO

import msgspec

from agenteval.errors import CannotGoOn
from agenteval.streams.jsonl import encode
from agenteval.streams.source import Refusals, Source, read_records, read_typed
from agenteval.wire.records import Record
from agenteval.wire.result_view import ResultView


class _Silence:
    """Refuses without a word: the lines that a second reading meets again."""

    strict = False

    def refuse(self, where: str, why: str) -> None:
        """Nothing: said already, or about to be said."""


class _Scored(msgspec.Struct):
    score: object = None


def _ignore(_id: str) -> None:
    """Nobody is watching the progress."""


class Rows:
    """Results from a file or a pipe; memory does not grow with their number, whichever way they are read."""

    def __init__(self, source: Source, refusals: Refusals, seen: Callable[[str], None] = _ignore) -> None:
        self._source, self._refusals, self._seen = source, refusals, seen
        self._spool: IO[bytes] | None = None

    def records(self) -> Iterator[Record]:
        """Every record whole, as it comes."""
        for record in read_records(self._source, ResultView, self._refusals):
            yield record
            self._seen(record["id"])

    def __iter__(self) -> Iterator[ResultView]:
        """Every row, as it comes."""
        for row in read_typed(self._source, ResultView, self._refusals):
            yield row
            self._seen(row.id)

    def first_pass(self) -> Iterator[ResultView]:
        """Every row, with a second pass to follow."""
        return iter(self) if self._source.regular else self._kept()

    def second_pass(self) -> Iterator[ResultView]:
        """The rows of the first pass once more; what was refused is not reported again."""
        if self._spool is None:
            self._source.rewind()
            return read_typed(self._source, ResultView, _Silence())
        self._spool.seek(0)
        return map(msgspec.json.Decoder(ResultView).decode, self._spool)

    def may_be_graded(self) -> bool:
        """Whether any record has a score; a pipe cannot be asked without waiting for its end, so it may."""
        if not self._source.regular:
            return True
        graded = any(row.score for row in read_typed(self._source, _Scored, _Silence()))
        self._source.rewind()
        return graded

    def _kept(self) -> Iterator[ResultView]:
        import tempfile  # 5 ms that only a pipe pays

        try:
            self._spool = tempfile.TemporaryFile()  # noqa: SIM115 - it has no name and ends with the process
            for row in self:
                self._spool.write(encode(row) + b"\n")
                yield row
            self._spool.flush()
        except OSError as error:
            raise CannotGoOn(f"cannot keep the records of a pipe in a temporary file: {error.strerror}") from None
