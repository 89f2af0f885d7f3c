"""Graded results, picked for a person's review and held against what a person said of them.

Data flow: graded results → those with a label, as they come, and a random sample of the rest → (a second grader) →
counts, the list of records to show, a report. Only the sample and the disagreements are kept in memory.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Generic, Literal, NamedTuple, TypeVar

from agenteval.errors import BadRecord
from agenteval.review.agreement import agreement_of
from agenteval.review.labels import Labels
from agenteval.streams.source import Refusals, Source, read_checked
from agenteval.wire.calibration import (
    AgreementTable,
    CalibrationReport,
    Label,
    LabelCounts,
    ListedRecord,
    RecordedVerdict,
    ReviewSample,
    VerdictChanges,
    VerdictCounts,
)
from agenteval.wire.records import Record
from agenteval.wire.result_view import ResultView, ResultWithSteps
from agenteval.wire.validation import check

T = TypeVar("T")

# --- sampling -----------------------------------------------------------------------------------


class Reservoir(Generic[T]):
    """A random sample of all that is offered, each with the same chance, in the order they came in."""

    def __init__(self, size: int, seed: int) -> None:
        self.size, self.offered = size, 0
        self._random = random.Random(seed)
        self._kept: list[tuple[int, T]] = []

    def offer(self, item: T) -> None:
        """One more to choose from."""
        self.offered += 1
        if len(self._kept) < self.size:
            self._kept.append((self.offered, item))
        elif (place := self._random.randrange(self.offered)) < self.size:
            self._kept[place] = (self.offered, item)

    def drawn(self) -> list[T]:
        """The sample."""
        return [item for _, item in sorted(self._kept, key=lambda kept: kept[0])]


# --- the report ---------------------------------------------------------------------------------


# --- the work -----------------------------------------------------------------------------------


class Item(NamedTuple):
    """A record that is looked at: its label, if it has one, and the second grader's verdict, if there is one."""

    record: Record
    row: ResultWithSteps
    label: Label | None = None
    again: ResultWithSteps | None = None

    @property
    def human(self) -> bool | None:
        """The label's verdict."""
        return self.label.verdict if self.label else None

    @property
    def verdicts(self) -> list[bool]:
        """The graders' verdicts: the recorded one and, where there is one, the second grader's."""
        grades = [self.row.grade, self.again.grade if self.again else None]
        return [grade.pass_ for grade in grades if grade is not None]

    @property
    def why(self) -> Literal["label", "rescored", "sample"]:
        """Why a person should look at it."""
        if self.human is not None:
            return "label"
        return "rescored" if len(set(self.verdicts)) > 1 else "sample"


class Calibration:
    """One run over graded results: `candidates` picks records, `settle` takes them back with all verdicts."""

    def __init__(self, labels: Labels | None, graders: list[str], *, size: int, seed: int, everything: bool) -> None:
        self.labels = labels
        self.records = VerdictCounts()
        self.reservoir: Reservoir[Item] = Reservoir(size, seed)
        self.sample = ReviewSample(drawn_from="all" if everything else "failures", seed=seed)
        self.label_counts = LabelCounts(total=len(labels or ()))
        self.changes = VerdictChanges(graders=graders)
        self.recorded, self.rescored = AgreementTable(), AgreementTable()
        self.shown: dict[str, list[Item]] = {"label": [], "rescored": [], "sample": []}
        self.ambiguous: list[str] = []
        self._met: set[str] = set()  # ids with a label
        self._labelled: set[str] = set()  # those whose label is for this very output

    def candidates(self, source: Source, refusals: Refusals, seen: Callable[[str], None]) -> Iterator[Item]:
        """Records with a label, as they come, then the sample of the others."""
        for record, (row, label) in read_checked(source, self._accept, refusals):
            self.records.add(row)
            seen(row.id)
            if row.grade is None:
                self.label_counts.ungraded += label is not None
            elif label is not None:
                if label.verdict is None:
                    self.ambiguous.append(row.id)
                else:
                    yield Item(record, row, label)
            elif self.sample.drawn_from == "all" or not row.grade.pass_:
                self.reservoir.offer(Item(record, row))
        yield from self.reservoir.drawn()

    def _accept(self, record: Record) -> tuple[ResultWithSteps, Label | None]:
        """The record and its label; BadRecord where the label is another record's already."""
        row = check(record, ResultWithSteps)
        label = self.labels.get(row.id) if self.labels else None
        if label is None:
            return row, None
        self._met.add(row.id)
        if not label.is_for(row):
            return row, None
        if row.id in self._labelled:
            raise BadRecord(f'duplicate id "{row.id}": its label cannot be for both')
        self._labelled.add(row.id)
        return row, label

    def settle(self, item: Item) -> None:
        """Count a candidate, and keep it where it is to be shown."""
        before = item.row.grade
        if before is None:  # pragma: no cover - candidates are graded
            return
        after = item.again.grade if item.again else None
        if after is not None:
            self.changes.add(before.pass_, after.pass_, sampled=item.human is None)
        self.changes.grader_errors += item.again is not None and after is None
        human = item.human
        if human is not None:
            self.label_counts.used += 1
            self.recorded.add(grader=before.pass_, human=human)
            if after is not None:
                self.rescored.add(grader=after.pass_, human=human)
            if all(verdict == human for verdict in item.verdicts):
                return
        self.shown[item.why].append(item)

    @property
    def unknown_labels(self) -> list[str]:
        """Ids of labels without a record."""
        return [label for label in self.labels or () if label not in self._met]

    def items(self) -> list[Item]:
        """All records to show, in order."""
        return [item for items in self.shown.values() for item in items]

    def report(self) -> CalibrationReport:
        """All figures, once every candidate is settled."""
        self.sample.of = self.reservoir.offered
        self.sample.size = len(self.shown["rescored"]) + len(self.shown["sample"])
        self.label_counts.ambiguous = len(self.ambiguous)
        self.label_counts.stale = len(self._met - self._labelled)
        self.label_counts.unknown = len(self.unknown_labels)
        labelled, regraded = self.labels is not None, bool(self.changes.graders)
        return CalibrationReport(
            records=self.records,
            sample=self.sample,
            labels=self.label_counts if labelled else None,
            recorded=agreement_of(self.recorded) if labelled else None,
            rescored=agreement_of(self.rescored) if labelled and regraded else None,
            changes=self.changes if regraded else None,
            items=[listed(item) for item in self.items()],
        )


def listed(item: Item) -> ListedRecord:
    """A record to look at, in few words."""
    return ListedRecord(
        id=item.row.id,
        why=item.why,
        recorded=verdict_of(item.row),
        rescored=verdict_of(item.again) if item.again else None,
        human=item.human,
        note=item.label.note if item.label else None,
    )


def verdict_of(row: ResultView) -> RecordedVerdict:
    """A record's verdict; of a grader that failed, only why it did."""
    reasoning = row.score.reasoning if row.score else None
    if row.grade is None:
        return RecordedVerdict(pass_=None, score=None, reasoning=reasoning)
    return RecordedVerdict(pass_=row.grade.pass_, score=row.grade.score, reasoning=reasoning)
