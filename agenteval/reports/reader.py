"""Reads the rows of a report: once, as they arrive, or twice if a summary of all of them comes first.

Memory does not grow with their number: a file is read again, and input from a pipe is kept in a temporary file. For
sorting, memory holds only the number and the position of each line.
"""

import math
import os
from array import array
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from itertools import chain
from typing import TypeVar

from agenteval.errors import BadRecord
from agenteval.reports.answers import ReportedAnswer, answers_in
from agenteval.streams.jsonl import decode_record
from agenteval.streams.rows import KeyUse, parse_row, row_of
from agenteval.streams.source import Refusals, Source, refuse
from agenteval.streams.spool import Spool
from agenteval.wire.records import Record
from agenteval.wire.row import Attempt, Number, Row, RowWithSteps

A = TypeVar("A")
R = TypeVar("R", bound=Row)
Batches = Iterator[list[tuple[int, bytes]]]

_MARKS_OF_A_VERDICT = (b'"score"', b'"pass"', b"\\u00")  # a name, or an escape that may be a letter of it


class RowReader:
    """The rows of a file or a pipe. `seen`, if there is one, is called with the id of each, once.

    `use` is the key by which the report groups them, if it does, and `sort` the one of SORTS by which they are sorted.
    """

    def __init__(
        self,
        source: Source,
        refusals: Refusals,
        seen: Callable[[str], None] | None = None,
        use: KeyUse | None = None,
        sort: str | None = None,
    ) -> None:
        self._source, self._refusals, self._use, self._sort = source, refusals, use, sort
        self._sorted: SortedLines | None = None
        self.seen: Callable[[str], None] = seen or (lambda _id: None)
        self._spool: Spool | None = None
        self._refused: set[int] = set()  # line numbers, of the first of two passes
        self._last = 0

    def records(self) -> Iterator[tuple[Record, Row]]:
        """Yields each whole record and its row, as it comes."""
        for record, row in self.lines(_record_and_row):
            yield record, row
            self.seen(row.id)

    def rows(self, depth: type[R], *, twice: bool = False) -> Iterator[R]:
        """Yields each row, as it comes; `twice` if a second pass follows."""
        for row in self.lines(partial(self.row, depth=depth), twice=twice):
            yield row
            self.seen(row.id)

    def row(self, line: bytes, depth: type[R]) -> R:
        """The row of a line, with the key by which the report groups rows in its metadata."""
        if self._use is None:
            return parse_row(line, depth)
        row = parse_row(line, depth, keys=[self._use.key])
        self._use.add(row.metadata)
        return row

    def answers(self, depth: type[Row] = RowWithSteps) -> Iterator[ReportedAnswer]:
        """Yields each answer: of a result one, of trials several."""
        for row in self.rows(depth):
            yield from answers_in(row)

    def answers_again(self) -> Iterator[ReportedAnswer]:
        """Yields the answers of the first pass again, without their steps."""
        for line in self.lines_again():
            yield from answers_in(parse_row(line, Row))

    def lines(self, accept: Callable[[bytes], A], *, twice: bool = False) -> Iterator[A]:
        """Yields what `accept` returns for each line, as it arrives; refuses the line if it raises BadRecord."""
        if twice and not self._source.regular and self._sort is None:
            self._spool = Spool()
        for batch in self._batches():
            for number, line in batch:
                self._last = max(self._last, number)
                try:
                    accepted = accept(line)
                except BadRecord as error:
                    self._refused.add(number)
                    refuse(self._source, number, line, error, self._refusals)
                    continue
                if self._spool is not None:
                    self._spool.keep(line + b"\n")
                yield accepted

    def lines_again(self) -> Iterator[bytes]:
        """Yields the accepted lines of the first pass again, without lines added to the file since."""
        if self._spool is not None:
            yield from (line.rstrip(b"\n") for line in self._spool.rewind())
            return
        self._rewind()
        for batch in self._batches():
            for number, line in batch:
                if number > self._last:
                    return
                if number not in self._refused:
                    yield line

    def may_be_graded(self) -> bool:
        """Whether any answer of a file has a verdict; True for a pipe, which would have to end first."""
        if not self._source.regular:
            return True
        graded = any(_has_verdict(line) for batch in self._source.lines() for _, line in batch)
        self._source.rewind()
        return graded

    def _batches(self) -> Batches:
        """Yields the lines with their numbers, in the order of the report."""
        if self._sort is None:
            return self._source.lines()
        if self._sorted is None:
            self._sorted = SortedLines(self._source, SORTS[self._sort], self._refusals)
        return self._sorted.lines()

    def _rewind(self) -> None:
        if self._sort is None:
            self._source.rewind()


def _record_and_row(line: bytes) -> tuple[Record, Row]:
    record = decode_record(line)
    return record, row_of(record, Row)


def _has_verdict(line: bytes) -> bool:
    """Whether an answer in a line has a verdict; only lines that may have one are decoded."""
    if any(mark in line for mark in _MARKS_OF_A_VERDICT):
        with suppress(BadRecord):
            return any(attempt.verdict is not None for attempt in parse_row(line, Row).attempts)
    return False


# --- sorted ---------------------------------------------------------------------------------------


class SortedLines:
    """The lines of a source by the key of their rows, the smallest first; those that have none come last."""

    def __init__(self, source: Source, key: Callable[[Row], Number | None], refusals: Refusals) -> None:
        self._spool = Spool()
        self._numbers, self._ends, keys = array("q"), array("q", [0]), array("d")
        for number, line in chain.from_iterable(source.lines()):
            try:
                value = key(parse_row(line, Row))
            except BadRecord as error:
                refuse(source, number, line, error, refusals)
                continue
            keys.append(math.inf if value is None else value)
            self._spool.keep(line)
            self._numbers.append(number)
            self._ends.append(self._ends[-1] + len(line))
        self._order = sorted(range(len(keys)), key=keys.__getitem__)  # equal ones stay in the order of the input

    def lines(self) -> Batches:
        """Yields each line with the number that it has in the source."""
        fd = self._spool.rewind().fileno()
        for at in self._order:
            start, end = self._ends[at : at + 2]
            yield [(self._numbers[at], os.pread(fd, end - start, start))]


def _mean(row: Row, value: Callable[[Attempt], Number | None]) -> Number | None:
    """The mean over the attempts of a row for which the value is known; None if it is unknown for all."""
    known = [found for attempt in row.attempts if (found := value(attempt)) is not None]
    return sum(known) / len(known) if known else None


def _score(attempt: Attempt) -> float | None:
    return attempt.grade.score if attempt.grade else 0.0 if attempt.agent_failed else None


def _largest_first(value: Number | None) -> Number | None:
    return None if value is None else -value


# The values of --sort, each with the key of a row.
SORTS: dict[str, Callable[[Row], Number | None]] = {
    "score": lambda row: _mean(row, _score),
    "time": lambda row: _largest_first(_mean(row, lambda attempt: attempt.duration)),
    "cost": lambda row: _largest_first(_mean(row, lambda attempt: attempt.cost)),
}
