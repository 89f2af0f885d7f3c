"""Reads the results of a report: once, as they come, or twice where a summary of all of them comes first."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import chain
from typing import Any, TypeVar

import msgspec

from agenteval.errors import BadRecord
from agenteval.streams.files import Spool
from agenteval.streams.jsonl import decode_record, encode
from agenteval.streams.source import Refusals, Source, read_checked, read_typed, read_typed_batches, refuse
from agenteval.wire.records import Record, Trial
from agenteval.wire.result_view import ResultView, is_trial
from agenteval.wire.validation import check

V = TypeVar("V", bound=ResultView)
A = TypeVar("A")


def _ignore(_id: str) -> None:
    """Does nothing: no progress is shown."""


class _Unreported:
    """Refuses lines without a message: another pass over the same file reports them."""

    strict = False

    def refuse(self, where: str, why: str) -> None:
        """Does nothing."""


class _Verdict(msgspec.Struct):
    pass_: object = msgspec.field(name="pass", default=None)


class _Scored(msgspec.Struct):
    score: object = None
    trials: list[_Verdict] | None = None

    @property
    def graded(self) -> bool:
        return bool(self.score) or any(trial.pass_ is not None for trial in self.trials or ())


_SCORED = msgspec.json.Decoder(_Scored)
_MARKS_OF_A_SCORE = (b'"score"', b'"pass"', b"\\u006", b"\\u007")  # a name, or an escape that may be a letter of it


def _has_score(batch: list[tuple[int, bytes]]) -> bool:
    """Whether a line has a score; decodes only lines that may have one."""
    for _, line in batch:
        if any(mark in line for mark in _MARKS_OF_A_SCORE):
            try:
                if _SCORED.decode(line).graded:
                    return True
            except (msgspec.DecodeError, ValueError, ArithmeticError, RecursionError):
                with suppress(BadRecord):
                    if check(decode_record(line), _Scored).graded:
                        return True
    return False


class ResultReader:
    """Results from a file or a pipe; memory does not grow with their number, however they are read.

    Each trial of a record of trials is a result named `ID#N`.
    `seen`, if there is one, is called with the id of each result, once.
    """

    def __init__(self, source: Source, refusals: Refusals, seen: Callable[[str], None] | None = None) -> None:
        self._source, self._refusals = source, refusals
        self.seen: Callable[[str], None] = seen or _ignore
        self._spool: Spool | None = None
        self._refused: set[int] = set()  # line numbers, of the first of two passes over lines
        self._last = 0

    @property
    def at_once(self) -> bool:
        """Whether all of it is there already, so that records may be written many at a time."""
        return self._source.regular

    def records(self) -> Iterator[Record]:
        """Each whole record, as it comes."""
        for record, _ in read_checked(self._source, _check_either, self._refusals):
            yield record
            self.seen(record["id"])

    def views(self, kind: type[V]) -> Iterator[V]:
        """Each result as that view of it, as it comes."""
        return chain.from_iterable(self.view_batches(kind))

    def view_batches(self, kind: type[V]) -> Iterator[Iterator[V]]:
        """The same in batches, each of which can be kept in memory."""
        batches = read_typed_batches(self._source, kind, self._refusals, _trials_as(kind))
        return batches if self.seen is _ignore else map(self._reported, batches)

    def _reported(self, views: Iterator[V]) -> Iterator[V]:
        for view in views:
            yield view
            self.seen(view.id)

    def first_pass(self, kind: type[V]) -> Iterator[V]:
        """Each result as that view of it, with a second pass to follow."""
        return self.views(kind) if self._source.regular else self._spooled(kind)

    def second_pass(self) -> Iterator[ResultView]:
        """The results of the first pass again; what was refused is not reported again."""
        if self._spool is None:
            self._source.rewind()
            return read_typed(self._source, ResultView, _Unreported(), _trials_as(ResultView))
        return map(msgspec.json.Decoder(ResultView).decode, self._spool.rewind())

    def may_be_graded(self) -> bool:
        """Whether any result of a file has a score; True for a pipe, which would have to end first."""
        if not self._source.regular:
            return True
        graded = any(map(_has_score, self._source.lines()))
        self._source.rewind()
        return graded

    def lines(self, accept: Callable[[bytes], A]) -> Iterator[A]:
        """What `accept` returns for each line, as it comes; if it raises BadRecord, the line is refused."""
        return self._accepted(accept, None)

    def first_lines(self, accept: Callable[[bytes], A]) -> Iterator[A]:
        """What `accept` returns for each line, with a second pass to follow; if it raises BadRecord, it is refused."""
        self._spool = None if self._source.regular else Spool()
        return self._accepted(accept, self._spool)

    def _accepted(self, accept: Callable[[bytes], A], spool: Spool | None) -> Iterator[A]:
        for batch in self._source.lines():
            for number, line in batch:
                self._last = number
                try:
                    accepted = accept(line)
                except BadRecord as error:
                    self._refused.add(number)
                    refuse(self._source, number, line, error, self._refusals)
                    continue
                if spool is not None:
                    spool.keep(line + b"\n")
                yield accepted

    def second_lines(self) -> Iterator[bytes]:
        """The accepted lines of the first pass again, as they came; not what was added to the file since."""
        if self._spool is not None:
            yield from (line.rstrip(b"\n") for line in self._spool.rewind())
            return
        self._source.rewind()
        for batch in self._source.lines():
            for number, line in batch:
                if number > self._last:
                    return
                if number not in self._refused:
                    yield line

    def _spooled(self, kind: type[V]) -> Iterator[V]:
        spool = self._spool = Spool()
        for view in self.views(kind):
            spool.keep(encode(view) + b"\n")
            yield view


def _check_either(record: Record) -> None:
    """Raises BadRecord unless it is a result or a record of trials."""
    if is_trial(record.get("trials"), record.get("k")):
        check(record, Trial)
    else:
        check(record, ResultView)


def _trials_as(kind: type[V]) -> Callable[[Record], Sequence[V] | None]:
    """A function from a record of trials to its trials as views with the fields of `kind`; None for other records."""

    def views(record: Record) -> Any:
        if not is_trial(record.get("trials"), record.get("k")):
            return None
        from agenteval.reports.trial_views import trial_views  # statistics of trials, which results do not need

        return trial_views(record, steps=kind is not ResultView)

    return views
