"""What a person says of answers: labels, as ae-calibrate reads and writes them."""

from __future__ import annotations

import hashlib

import msgspec

from agenteval.errors import BadRecord
from agenteval.reports.passes import Row
from agenteval.streams.jsonl import Refusals, Source, read_checked
from agenteval.wire.records import Id, Record, Wire, check

VERDICTS = {"pass": True, "fail": False, "ambiguous": None}


class Label(Wire):
    """What a person says of an answer; `pass` or `label`, whichever is there."""

    id: Id
    """The id of the result."""
    pass_: bool | None | msgspec.UnsetType = msgspec.field(name="pass", default=msgspec.UNSET)
    """Whether the answer is right; null when the task leaves it open."""
    label: str | None = None
    """The same in a word: pass, fail or ambiguous."""
    note: str | None = None
    """Why, in the person's words."""
    output_hash: str | None = None
    """Of the output that was judged, so that the label is not taken for that of another."""

    @property
    def verdict(self) -> bool | None:
        """Pass or fail; None where the person cannot say."""
        return VERDICTS[(self.label or "").strip().lower()] if self.pass_ is msgspec.UNSET else self.pass_

    def is_for(self, row: Row) -> bool:
        """Whether it was said of this output; without a hash it is taken to be."""
        return self.output_hash in (None, output_hash(row.output))


def output_hash(output: str) -> str:
    """A few digits that another output does not have."""
    return hashlib.sha256(output.encode()).hexdigest()[:16]


def check_label(record: Record) -> Label:
    """The label in a record; BadRecord where it says nothing, or two things at once."""
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
    """Labels by id; where a person changed their mind, the last one counts."""

    changed = 0

    def add(self, label: Label) -> None:
        """One more label."""
        if label.id in self and self[label.id].verdict != label.verdict:
            self.changed += 1
        self[label.id] = label


def read_labels(source: Source, refusals: Refusals) -> Labels:
    """All labels of a file; lines that are none are refused."""
    labels = Labels()
    for _, label in read_checked(source, check_label, refusals):
        labels.add(label)
    return labels
