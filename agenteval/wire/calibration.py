"""Labels and the calibration report of ae-calibrate, as they stand on the wire."""

import hashlib
from typing import Literal

import msgspec

from agenteval.wire.records import Id, Rate, Wire
from agenteval.wire.result_view import ResultView


class AgreementTable(Wire, omit_defaults=False):
    """How often the grader and the person said what."""

    true_pass: int = 0
    """Both say pass."""
    false_pass: int = 0
    """The grader passes what the person fails."""
    false_fail: int = 0
    """The grader fails what the person passes."""
    true_fail: int = 0
    """Both say fail."""

    def add(self, *, grader: bool, human: bool) -> None:
        """One more answer that both have judged."""
        cell = f"{'true' if grader == human else 'false'}_{'pass' if grader else 'fail'}"
        setattr(self, cell, getattr(self, cell) + 1)

    @property
    def n(self) -> int:
        """How many answers both have judged."""
        return self.true_pass + self.false_pass + self.false_fail + self.true_fail

    @property
    def human_passes(self) -> int:
        """How many the person passes."""
        return self.true_pass + self.false_fail

    @property
    def grader_passes(self) -> int:
        """How many the grader passes."""
        return self.true_pass + self.false_pass


class Agreement(Wire):
    """A grader held against a person's labels; null is what so few labels cannot tell."""

    n: int
    """Answers that the person labelled pass or fail and the grader graded."""
    agreement: Rate | None
    """Share of them on which both say the same."""
    interval: tuple[float, float] | None
    """95 % Wilson interval of that share."""
    kappa: float | None
    """Cohen's kappa: agreement beyond chance; 1 is perfect, 0 what chance gives, null where both only ever say one."""
    human_pass_rate: Rate | None
    """Base rate: share that the person passes."""
    grader_pass_rate: Rate | None
    """Share that the grader passes."""
    precision: Rate | None
    """Of what the grader passes, the share that the person passes too."""
    recall: Rate | None
    """Of what the person passes, the share that the grader passes too."""
    failure_precision: Rate | None
    """Of what the grader fails, the share that the person fails too."""
    failure_recall: Rate | None
    """Of what the person fails, the share that the grader fails too."""
    table: AgreementTable
    """The counts behind it."""


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

    def is_for(self, row: ResultView) -> bool:
        """Whether it was said of this output; without a hash it is taken to be."""
        return self.output_hash in (None, output_hash(row.output))


def output_hash(output: str) -> str:
    """A few digits that another output does not have."""
    return hashlib.sha256(output.encode()).hexdigest()[:16]


class VerdictCounts(Wire, omit_defaults=False):
    """What became of the records."""

    total: int = 0
    """All that could be read."""
    passed: int = 0
    """Graded a pass."""
    failed: int = 0
    """Graded a failure."""
    ungraded: int = 0
    """Without a score."""
    grader_errors: int = 0
    """Where the grader itself failed."""

    def add(self, row: ResultView) -> None:
        """One more record."""
        self.total += 1
        if row.grader_error:
            self.grader_errors += 1
        elif row.score is None:
            self.ungraded += 1
        elif row.score.pass_:
            self.passed += 1
        else:
            self.failed += 1


class ReviewSample(Wire, omit_defaults=False):
    """What was drawn for review."""

    drawn_from: Literal["failures", "all"]
    """Failures only, or all graded records."""
    seed: int
    """Seed of the draw."""
    size: int = 0
    """How many were drawn."""
    of: int = 0
    """From how many; records with a label are not among them."""


class LabelCounts(Wire, omit_defaults=False):
    """What became of the labels."""

    total: int = 0
    """Labels that could be read, one per id."""
    used: int = 0
    """Held against a grader's verdict."""
    ambiguous: int = 0
    """The person could not say."""
    stale: int = 0
    """For another output than the record has now."""
    ungraded: int = 0
    """For a record that has no verdict."""
    unknown: int = 0
    """For an id that is not among the records."""


class VerdictChanges(Wire, omit_defaults=False):
    """How often the second grader says something else than the recorded verdict."""

    graders: list[str]
    """The second grader, or several that must all pass."""
    n: int = 0
    """Records with both verdicts."""
    differ: int = 0
    """How many of them differ."""
    share: Rate | None = None
    """The same as a share."""
    failed_before: int = 0
    """How many of the n are recorded as failures."""
    fail_to_pass: int = 0
    """Failures that now pass."""
    pass_to_fail: int = 0
    """Passes that now fail."""
    sampled: int = 0
    """How many of the n are from the sample; the others have labels."""
    grader_errors: int = 0
    """Records that the second grader could not grade."""

    def add(self, before: bool, after: bool, *, sampled: bool) -> None:
        """One more record with both verdicts."""
        self.n += 1
        self.sampled += sampled
        self.differ += before != after
        self.failed_before += not before
        self.fail_to_pass += after > before
        self.pass_to_fail += before > after
        self.share = self.differ / self.n


class RecordedVerdict(Wire):
    """What a grader said."""

    pass_: bool | None = msgspec.field(name="pass")
    """Pass or fail; null where the grader failed."""
    score: Rate | None
    """From 0 to 1; null where the grader failed."""
    reasoning: str | None = None
    """Why."""


class ListedRecord(Wire):
    """A record to look at."""

    id: Id
    """The record's id."""
    why: Literal["label", "rescored", "sample"]
    """A grader and the label disagree; the two graders disagree; it was drawn."""
    recorded: RecordedVerdict
    """The verdict in the results."""
    rescored: RecordedVerdict | None = None
    """The second grader's."""
    human: bool | None = None
    """The label."""
    note: str | None = None
    """The person's note."""


class CalibrationReport(Wire):
    """How far a grader can be trusted, as ae-calibrate -f json writes it."""

    records: VerdictCounts
    """What became of the records."""
    sample: ReviewSample
    """What was drawn for review."""
    labels: LabelCounts | None = None
    """What became of the labels."""
    recorded: Agreement | None = None
    """The recorded verdicts, held against the labels."""
    rescored: Agreement | None = None
    """The second grader's verdicts, held against the labels."""
    changes: VerdictChanges | None = None
    """The second grader's verdicts, held against the recorded ones."""
    items: list[ListedRecord] = []
    """Records to look at: disagreements with labels, then between graders, then the rest of the sample."""
