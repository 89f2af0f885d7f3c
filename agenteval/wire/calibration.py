"""Labels and the report of ae-calibrate, as they are written."""

import hashlib
from typing import Literal

import msgspec

from agenteval.wire.records import Id, Interval, Rate, Wire


class AgreementTable(Wire, omit_defaults=False):
    """Verdicts of the grader against those of the person, as counts."""

    true_pass: int = 0
    """Both pass the answer."""
    false_pass: int = 0
    """The grader passes what the person does not pass."""
    false_fail: int = 0
    """The grader does not pass what the person passes."""
    true_fail: int = 0
    """Neither passes the answer."""

    @property
    def n(self) -> int:
        """Answers that both have judged."""
        return self.true_pass + self.false_pass + self.false_fail + self.true_fail

    @property
    def human_passes(self) -> int:
        """Answers that the person passes."""
        return self.true_pass + self.false_fail

    @property
    def grader_passes(self) -> int:
        """Answers that the grader passes."""
        return self.true_pass + self.false_pass


class AgreementIntervals(Wire):
    """95% intervals of the figures; null if the figure is."""

    kappa: Interval | None
    """Interval of Cohen's kappa."""
    ac1: Interval | None
    """Interval of Gwet's AC1."""
    human_pass_rate: Interval | None
    """Interval of the share that the person passes."""
    grader_pass_rate: Interval | None
    """Interval of the share that the grader passes; null if it is known for all records."""
    precision: Interval | None
    """Interval of the precision."""
    recall: Interval | None
    """Interval of the recall."""
    failure_precision: Interval | None
    """Interval of the precision of failures."""
    failure_recall: Interval | None
    """Interval of the recall of failures."""


class Agreement(Wire):
    """A grader compared with a person's labels; a figure that the labels do not determine is null.

    Each label counts for its share of the records with the same recorded verdict, so the figures describe all graded
    records, however many passes and failures were labelled.
    """

    n: int
    """Answers that the person labelled pass or fail and the grader graded."""
    scope: Literal["all", "passes", "failures"]
    """The records that the figures describe: all graded ones, or only those with the one verdict that has labels."""
    agreement: Rate | None
    """Share of them on which both agree."""
    interval: Interval | None
    """95% interval of that share."""
    kappa: float | None
    """Cohen's kappa: agreement beyond chance; 1 is perfect, 0 is chance, null if all verdicts are the same."""
    ac1: float | None
    """Gwet's AC1: agreement beyond chance, also where nearly all verdicts are the same."""
    human_pass_rate: Rate | None
    """Base rate: share that the person passes."""
    grader_pass_rate: Rate | None
    """Share that the grader passes."""
    precision: Rate | None
    """Of what the grader passes, the share that the person passes too."""
    recall: Rate | None
    """Of what the person passes, the share that the grader passes too."""
    failure_precision: Rate | None
    """Of what the grader does not pass, the share that the person does not pass either."""
    failure_recall: Rate | None
    """Of what the person does not pass, the share that the grader does not pass either."""
    intervals: AgreementIntervals
    """The interval of each figure."""
    table: AgreementTable
    """The labels behind it, not weighted."""


class CorrectedPassRate(Wire):
    """The pass rate of the run as the person would grade it, estimated from the labels."""

    recorded: Rate | None
    """Share of the n records that the grader passed."""
    corrected: Rate | None
    """Share of the n records that the person would pass; null unless passes and failures have labels."""
    interval: Interval | None
    """95% interval of that share."""
    n: int
    """Records with a verdict, including those whose agent failed: they do not pass."""
    labelled_passes: int
    """Labels of records that are recorded as passes."""
    labelled_failures: int
    """Labels of records that are recorded as failures."""


class CorrectedDifference(Wire):
    """How much higher the pass rate of the run is than the baseline's, as the person would grade both."""

    n: int
    """Prompts with a verdict in both."""
    recorded: float
    """The difference by the grader's verdicts."""
    corrected: float | None
    """The difference as the person would see it; null unless passes and failures of both have labels."""
    interval: Interval | None
    """95% interval of that difference."""


VERDICTS = {"pass": True, "fail": False, "ambiguous": None}


class Label(Wire):
    """A person's verdict on an answer, as `pass` or as `label`."""

    id: Id
    """The id of the result."""
    pass_: bool | None | msgspec.UnsetType = msgspec.field(name="pass", default=msgspec.UNSET)
    """Whether the answer is right; null if the task leaves open what is right."""
    label: str | None = None
    """The same as a word: pass, fail or ambiguous."""
    note: str | None = None
    """Why, in the person's words."""
    output_hash: str | None = None
    """Digest of the output that was judged, so that the label is not applied to another."""
    again: bool | None = None
    """Whether this is the second time that the person judged the answer: it is compared with the first label and used
    for nothing else."""

    @property
    def verdict(self) -> bool | None:
        """Pass or fail; None if the person cannot decide."""
        return VERDICTS[(self.label or "").strip().lower()] if self.pass_ is msgspec.UNSET else self.pass_

    def is_for(self, output: str) -> bool:
        """Whether the label is for this output; without a hash it is assumed to be."""
        return self.output_hash in (None, output_hash(output))


def output_hash(output: str) -> str:
    """Returns a short digest of an output."""
    return hashlib.sha256(output.encode()).hexdigest()[:16]


class VerdictCounts(Wire, omit_defaults=False):
    """The records by verdict."""

    total: int = 0
    """Records that could be read."""
    passed: int = 0
    """Graded a pass."""
    failed: int = 0
    """Graded, and did not pass."""
    errors: int = 0
    """Agents that failed: no grader saw these records."""
    ungraded: int = 0
    """Without a score."""
    grader_errors: int = 0
    """Records on which the grader erred."""


class ReviewSample(Wire, omit_defaults=False):
    """The sample drawn for review."""

    drawn_from: Literal["failures", "all"]
    """The population: failures only, or all graded records."""
    seed: int
    """Seed of the draw."""
    size: int = 0
    """Records drawn."""
    of: int = 0
    """Records drawn from; those with a label are not among them."""


class LabelCounts(Wire, omit_defaults=False):
    """The labels by use."""

    total: int = 0
    """Labels that could be read, one per id."""
    used: int = 0
    """Compared with a grader's verdict."""
    ambiguous: int = 0
    """The person could not decide."""
    stale: int = 0
    """For another output than that of the record."""
    ungraded: int = 0
    """For a record that has no verdict."""
    unknown: int = 0
    """For an id that is not among the records."""


class SelfAgreement(Wire):
    """How well the person agrees with their own labels."""

    n: int
    """Answers that the person judged twice."""
    same: int
    """Answers that got the same verdict both times."""
    interval: Interval | None
    """95% interval of their share."""


class VerdictChanges(Wire, omit_defaults=False):
    """How often the second grader's verdict differs from the recorded one."""

    graders: list[str]
    """The second grader, or several that must all pass."""
    n: int = 0
    """Records with both verdicts."""
    differ: int = 0
    """Records whose verdicts differ."""
    share: Rate | None = None
    """Share of the n records whose verdicts differ."""
    failed_before: int = 0
    """Of the n records, those recorded as failures."""
    fail_to_pass: int = 0
    """Failures that now pass."""
    pass_to_fail: int = 0
    """Passes that now fail."""
    sampled: int = 0
    """Of the n records, those from the sample; the others have labels."""
    grader_errors: int = 0
    """Records that the second grader could not grade."""


class RecordedVerdict(Wire):
    """A grader's verdict."""

    pass_: bool | None = msgspec.field(name="pass")
    """Pass or fail; null if the grader erred."""
    score: Rate | None
    """From 0 to 1; null if the grader erred."""
    reasoning: str | None = None
    """The grader's reasoning."""


class ListedRecord(Wire):
    """A record to review."""

    id: Id
    """The record's id."""
    why: Literal["label", "rescored", "sample"]
    """A grader disagrees with the label; the two graders disagree; or it was drawn."""
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
    """The records by verdict."""
    sample: ReviewSample
    """The sample drawn for review."""
    labels: LabelCounts | None = None
    """The labels by use."""
    self_agreement: SelfAgreement | None = None
    """The answers that the person judged twice; omitted if there are none."""
    recorded: Agreement | None = None
    """The recorded verdicts, compared with the labels."""
    rescored: Agreement | None = None
    """The second grader's verdicts, compared with the labels."""
    pass_rate: CorrectedPassRate | None = None
    """The pass rate of the run, corrected by the labels."""
    difference: CorrectedDifference | None = None
    """The difference from the baseline, corrected by the labels of both."""
    changes: VerdictChanges | None = None
    """The second grader's verdicts, compared with the recorded ones."""
    items: list[ListedRecord] = []
    """Records to review: disagreements with labels, then between graders, then the rest of the sample."""
