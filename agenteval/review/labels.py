"""Labels: a person's verdicts on answers, as ae-calibrate reads them."""

from __future__ import annotations

import msgspec

from agenteval.errors import BadRecord
from agenteval.streams.source import Refusals, Source, read_checked
from agenteval.wire.calibration import VERDICTS, Label
from agenteval.wire.records import Record
from agenteval.wire.validation import check


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
    """Labels by id; the last one for an id counts."""

    changed = 0

    def add(self, label: Label) -> None:
        """Adds a label; `changed` counts those that contradict an earlier one."""
        if label.id in self and self[label.id].verdict != label.verdict:
            self.changed += 1
        self[label.id] = label


def read_labels(source: Source, refusals: Refusals) -> Labels:
    """Reads the labels of a file; other lines are refused."""
    labels = Labels()
    for _, label in read_checked(source, check_label, refusals):
        labels.add(label)
    return labels
