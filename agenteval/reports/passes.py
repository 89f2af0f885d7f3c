"""The results a report is made of, read as they come, or twice where the top of the page speaks of all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import IO

import msgspec

from agenteval.errors import CannotGoOn
from agenteval.streams.jsonl import Refusals, Source, encode, read_records, read_typed
from agenteval.wire.records import GraderResult, Id, Input, Record, Wire

Number = int | float  # as it came: 1200 does not turn into 1200.0


class Measured(Wire):
    """What was measured of a run; other harnesses leave out what they do not know."""

    start: Number | None = None
    end: Number | None = None
    total: Number | None = None
    input_tokens: Number | None = None
    output_tokens: Number | None = None
    cached_tokens: Number | None = None
    cost_usd: Number | None = None


class Row(Wire):
    """The fields of a result that reports show; a trajectory is passed over unread."""

    id: Id
    output: str
    input: Input | None = None
    hint: str | None = None
    tool_errors: bool | None = None
    timing: Measured | None = None
    score: GraderResult | None = None
    scores: dict[str, GraderResult] | None = None
    grader_error: bool | None = None
    errors: list[str] | None = None
    error: str | None = None

    @property
    def grade(self) -> GraderResult | None:
        """The score that counts: none where nobody graded, nor where the grader itself failed."""
        return None if self.grader_error else self.score

    @property
    def failures(self) -> list[str]:
        """What went wrong with the agent."""
        return self.errors or ([self.error] if self.error else [])

    @property
    def duration(self) -> Number | None:
        """Milliseconds."""
        if self.timing is None:
            return None
        total, start, end = self.timing.total, self.timing.start, self.timing.end
        return end - start if total is None and start is not None and end is not None else total

    @property
    def tokens(self) -> Number | None:
        """Tokens in and out together."""
        counts = [self.timing.input_tokens, self.timing.output_tokens] if self.timing else []
        known = [count for count in counts if count is not None]
        return sum(known) if known else None

    def turns(self, separator: str) -> str:
        """The input as one text."""
        return self.input or "" if isinstance(self.input, str | None) else separator.join(self.input)


def is_grader_error(row: Row, grade: GraderResult) -> bool:
    """Whether, of a record's several graders, this is one that failed: only its reasoning says so."""
    return bool(row.grader_error) and (grade.reasoning or "").startswith("grader error")


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
        for record in read_records(self._source, Row, self._refusals):
            yield record
            self._seen(record["id"])

    def __iter__(self) -> Iterator[Row]:
        """Every row, as it comes."""
        for row in read_typed(self._source, Row, self._refusals):
            yield row
            self._seen(row.id)

    def first_pass(self) -> Iterator[Row]:
        """Every row, with a second pass to follow."""
        return iter(self) if self._source.regular else self._kept()

    def second_pass(self) -> Iterator[Row]:
        """The rows of the first pass once more; what was refused is not reported again."""
        if self._spool is None:
            self._source.rewind()
            return read_typed(self._source, Row, _Silence())
        self._spool.seek(0)
        return map(msgspec.json.Decoder(Row).decode, self._spool)

    def may_be_graded(self) -> bool:
        """Whether any record has a score; a pipe cannot be asked without waiting for its end, so it may."""
        if not self._source.regular:
            return True
        graded = any(row.score for row in read_typed(self._source, _Scored, _Silence()))
        self._source.rewind()
        return graded

    def _kept(self) -> Iterator[Row]:
        import tempfile  # 5 ms that only a pipe pays

        try:
            self._spool = tempfile.TemporaryFile()  # noqa: SIM115 - it has no name and ends with the process
            for row in self:
                self._spool.write(encode(row) + b"\n")
                yield row
            self._spool.flush()
        except OSError as error:
            raise CannotGoOn(f"cannot keep the records of a pipe in a temporary file: {error.strerror}") from None
