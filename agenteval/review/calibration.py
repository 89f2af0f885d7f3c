"""Calibration of a grader: graded results or trials are sampled for review and compared with a person's labels.

Data flow: graded answers, each trial as one → those with a label, in input order, and a random sample of the rest →
(a second grader) → counts, the records to show, a report. Only the sample and the disagreements are kept in memory.
"""

import random
from collections.abc import Callable, Iterator
from typing import Generic, Literal, NamedTuple, TypeVar

import msgspec

from agenteval.errors import BadRecord
from agenteval.grading.verdict import answers_in, without_human_verdict
from agenteval.review.agreement import (
    JudgedRun,
    LabelledAnswer,
    LabelledVerdicts,
    agreement_of,
    corrected_difference,
    corrected_pass_rate,
)
from agenteval.statistics.intervals import bounds, rate_interval
from agenteval.streams.rows import row_of
from agenteval.streams.source import Refusals, Source, read_checked
from agenteval.wire.calibration import (
    VERDICTS,
    CalibrationReport,
    Label,
    LabelCounts,
    ListedRecord,
    RecordedVerdict,
    ReviewSample,
    SelfAgreement,
    VerdictChanges,
    VerdictCounts,
)
from agenteval.wire.records import Record
from agenteval.wire.row import ERROR, FAIL, GRADER_ERROR, PASS, UNGRADED, Attempt, RowWithSteps
from agenteval.wire.validation import check

COUNTED_AS = {PASS: "passed", FAIL: "failed", ERROR: "errors", UNGRADED: "ungraded", GRADER_ERROR: "grader_errors"}
TWICE = 10  # one of so many records is reviewed twice
T = TypeVar("T")


# --- labels -----------------------------------------------------------------------------------------


def check_label(record: Record) -> Label:
    """Returns the label in a record; raises BadRecord if it has no verdict, or two that differ."""
    label = check(record, Label)
    word = (label.label or "").strip().lower()
    if label.label is not None and word not in VERDICTS:
        raise BadRecord(f'"label" must be pass, fail or ambiguous, got "{label.label}"')
    if label.pass_ is msgspec.UNSET and not word:
        raise BadRecord('"pass" is missing: true or false (or "label": pass, fail or ambiguous)')
    if word and label.pass_ not in (msgspec.UNSET, VERDICTS[word]):
        raise BadRecord('"pass" and "label" contradict each other')
    return label


class Labels(dict[str, Label]):
    """Labels by id; the last one for an id counts. `again` has the labels of answers that are reviewed twice."""

    def __init__(self) -> None:
        super().__init__()
        self.changed = 0
        self.again: dict[str, Label] = {}

    def add(self, label: Label) -> None:
        """Adds a label; `changed` counts those that contradict an earlier one."""
        if label.again:
            self.again[label.id] = label
            return
        if label.id in self and self[label.id].verdict != label.verdict:
            self.changed += 1
        self[label.id] = label

    @property
    def self_agreement(self) -> SelfAgreement | None:
        """How often the second label of an answer equals the first; None if there is no second one."""
        pairs = [(self[id], again) for id, again in self.again.items() if id in self]
        known = [(first, again) for first, again in pairs if first.output_hash == again.output_hash]
        same = sum(first.verdict == again.verdict for first, again in known)
        interval = bounds(rate_interval(same, len(known)))
        return SelfAgreement(n=len(known), same=same, interval=interval) if known else None


def read_labels(source: Source, refusals: Refusals) -> Labels:
    """Reads the labels of a file; other lines are refused."""
    labels = Labels()
    for _, label in read_checked(source, check_label, refusals):
        labels.add(label)
    return labels


# --- sampling -----------------------------------------------------------------------------------


class Reservoir(Generic[T]):
    """A random sample of the items offered, each with the same probability, in the order of the input."""

    def __init__(self, size: int, seed: int) -> None:
        self.size, self.offered = size, 0
        self._random = random.Random(seed)
        self._kept: list[tuple[int, T]] = []

    def offer(self, item: T) -> None:
        """Offers an item to the sample."""
        self.offered += 1
        if len(self._kept) < self.size:
            self._kept.append((self.offered, item))
        elif (place := self._random.randrange(self.offered)) < self.size:
            self._kept[place] = (self.offered, item)

    def drawn(self) -> list[T]:
        """Returns the sample."""
        return [item for _, item in sorted(self._kept, key=lambda kept: kept[0])]


# --- calibration --------------------------------------------------------------------------------


class Item(NamedTuple):
    """An answer under review, with its label and the second grader's verdict, if there are any."""

    record: Record
    """The result; a trial is turned into one."""
    row: RowWithSteps
    attempt: Attempt
    label: Label | None = None
    again: Attempt | None = None

    @property
    def name(self) -> str:
        """The id of the record; `ID#N` for a trial."""
        return self.row.name_of(self.attempt)

    @property
    def human(self) -> bool | None:
        """The label's verdict."""
        return self.label.verdict if self.label else None

    @property
    def verdicts(self) -> list[bool]:
        """The verdicts of the graders: the recorded one and, if there is one, the second grader's."""
        grades = [self.attempt.grade, self.again.grade if self.again else None]
        return [grade.pass_ for grade in grades if grade is not None]

    @property
    def why(self) -> Literal["label", "rescored", "sample"]:
        """Why a person should review it."""
        if self.human is not None:
            return "label"
        return "rescored" if len(set(self.verdicts)) > 1 else "sample"


class Calibration:
    """One pass over graded results: `candidates` selects records, `settle` counts them once all verdicts are in."""

    def __init__(
        self,
        labels: Labels | None,
        graders: list[str],
        *,
        size: int,
        seed: int,
        everything: bool,
        blind: bool = True,
        paired: bool = False,
    ) -> None:
        self.labels, self.blind, self.paired = labels, blind, paired
        self.records = VerdictCounts()
        self.reservoir: Reservoir[Item] = Reservoir(size, seed)
        self.sample = ReviewSample(drawn_from="all" if everything else "failures", seed=seed)
        self.label_counts = LabelCounts(total=len(labels or ()))
        self.changes = VerdictChanges(graders=graders)
        self.recorded, self.rescored = LabelledVerdicts(), LabelledVerdicts()
        self.shown: dict[str, list[Item]] = {"label": [], "rescored": [], "sample": []}
        self.ambiguous: list[str] = []
        self.prompts: dict[str, VerdictCounts] = {}
        self.answers: list[LabelledAnswer] = []
        self.baseline: Calibration | None = None
        self._seen: set[str] = set()  # ids with a label
        self._labelled: set[str] = set()  # those whose label is for this output

    def candidates(self, source: Source, refusals: Refusals, seen: Callable[[str], None]) -> Iterator[Item]:
        """Yields the records with a label, in input order, then the sample of the others."""
        for _record, items in read_checked(source, self._accept, refusals):
            for item in items:
                count_record(self.records, item.attempt)
                if self.paired:
                    count_record(self.prompts.setdefault(item.row.id, VerdictCounts()), item.attempt)
                grade, label = item.attempt.grade, item.label
                if grade is None or item.attempt.agent_failed:
                    self.label_counts.ungraded += label is not None
                elif label is not None:
                    if label.verdict is None:
                        self.ambiguous.append(item.name)
                    else:
                        yield item
                elif self.sample.drawn_from == "all" or not grade.pass_:
                    self.reservoir.offer(item)
            seen(items[0].row.id)
        yield from self.reservoir.drawn()

    def _accept(self, record: Record) -> list[Item]:
        """Returns the answers of a record with their labels; raises BadRecord if a label is used twice."""
        record = without_human_verdict(record)  # the grader is calibrated, not the person
        row = row_of(record, RowWithSteps)
        if not row.attempts:
            raise BadRecord('"trials" is empty: there is no answer to review')
        pairs = zip(answers_in(record), row.attempts, strict=True)
        return [Item(answer, row, attempt, self._label_of(row.name_of(attempt), attempt)) for answer, attempt in pairs]

    def _label_of(self, name: str, attempt: Attempt) -> Label | None:
        label = self.labels.get(name) if self.labels else None
        if label is None:
            return None
        self._seen.add(name)
        if not label.is_for(attempt.output):
            return None
        if name in self._labelled:
            raise BadRecord(f'duplicate id "{name}": a label cannot be for both')
        self._labelled.add(name)
        return label

    def settle(self, item: Item) -> None:
        """Counts a candidate, and keeps it if it is to be shown."""
        before = item.attempt.grade
        assert before is not None, "candidates are graded"
        after = item.again.grade if item.again else None
        if after is not None:
            self._count_change(before.pass_, after.pass_, sampled=item.human is None)
        self.changes.grader_errors += item.again is not None and after is None
        human = item.human
        if human is not None:
            self.label_counts.used += 1
            if self.paired:
                self.answers.append(LabelledAnswer(item.row.id, before.pass_, human))
            self.recorded.count(recorded=before.pass_, grader=before.pass_, human=human)
            if after is not None:
                self.rescored.count(recorded=before.pass_, grader=after.pass_, human=human)
            if all(verdict == human for verdict in item.verdicts):
                return
        self.shown[item.why].append(item)

    def _count_change(self, before: bool, after: bool, *, sampled: bool) -> None:
        changes = self.changes
        changes.n += 1
        changes.sampled += sampled
        changes.differ += before != after
        changes.failed_before += not before
        changes.fail_to_pass += after > before
        changes.pass_to_fail += before > after
        changes.share = changes.differ / changes.n

    @property
    def unknown_labels(self) -> list[str]:
        """The ids of labels without a record."""
        return [label for label in self.labels or () if label not in self._seen]

    def asked_again(self) -> list[Item]:
        """Returns a tenth of the records without a label, drawn at random: the person judges them twice."""
        blind = [*self.shown["rescored"], *self.shown["sample"]]
        return random.Random(self.sample.seed).sample(blind, len(blind) // TWICE)

    def items(self) -> list[Item]:
        """Returns all records to show, in order."""
        return [item for items in self.shown.values() for item in items]

    def report(self) -> CalibrationReport:
        """Returns the report, once every candidate is settled."""
        self.sample.of = self.reservoir.offered
        self.sample.size = len(self.shown["rescored"]) + len(self.shown["sample"])
        self.label_counts.ambiguous = len(self.ambiguous)
        self.label_counts.stale = len(self._seen - self._labelled)
        self.label_counts.unknown = len(self.unknown_labels)
        labelled, regraded = self.labels is not None, bool(self.changes.graders)
        return CalibrationReport(
            records=self.records,
            sample=self.sample,
            labels=self.label_counts if labelled else None,
            self_agreement=self.labels.self_agreement if self.labels is not None else None,
            recorded=agreement_of(self.recorded, self.records) if labelled else None,
            rescored=agreement_of(self.rescored, self.records, recorded=False) if labelled and regraded else None,
            pass_rate=corrected_pass_rate(self.recorded, self.records) if labelled else None,
            difference=corrected_difference(self.judged, self.baseline.judged) if self.baseline else None,
            changes=self.changes if regraded else None,
            items=[listed(item) for item in self.items()],
        )

    @property
    def judged(self) -> JudgedRun:
        """The verdicts of each prompt, and the labels of its answers."""
        return JudgedRun(self.prompts, self.answers)


def count_record(counts: VerdictCounts, attempt: Attempt) -> None:
    """Counts a record by its verdict."""
    counts.total += 1
    field = COUNTED_AS[attempt.status]
    setattr(counts, field, getattr(counts, field) + 1)


def listed(item: Item) -> ListedRecord:
    """Returns a record to review, in the form of the report."""
    return ListedRecord(
        id=item.name,
        why=item.why,
        recorded=verdict_of(item.attempt),
        rescored=verdict_of(item.again) if item.again else None,
        human=item.human,
        note=item.label.note if item.label else None,
    )


def verdict_of(attempt: Attempt) -> RecordedVerdict:
    """Returns the verdict on an answer; if the grader erred, only why."""
    score, grade = attempt.score, attempt.grade
    return RecordedVerdict(
        pass_=grade.pass_ if grade else None,
        score=grade.score if grade else None,
        reasoning=score.reasoning if score else None,
    )
