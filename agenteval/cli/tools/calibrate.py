"""ae-calibrate: graded results → a document for a person to review → labels → how far the grader can be trusted."""

import os
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any

import click

from agenteval.cli.options import (
    NumberRange,
    count_option,
    grader_option,
    grader_options,
    input_argument,
    output_option,
    progress_option,
    refuse_without,
    seed_option,
    strict_grading_option,
    verdict_options,
)
from agenteval.cli.report_options import form_option
from agenteval.cli.tool import tool
from agenteval.errors import FAILED, OK, UserError
from agenteval.grading.graders import named_graders
from agenteval.grading.run import GraderRun
from agenteval.grading.verdict import ungraded
from agenteval.reports.calibration import FORMS
from agenteval.review.calibration import Calibration, Item, Labels, read_labels
from agenteval.review.document import TITLE, read_reviews
from agenteval.streams.console import Console
from agenteval.streams.output import Output
from agenteval.streams.rows import result_of
from agenteval.streams.source import Source, text_lines
from agenteval.streams.text import clip, first_few
from agenteval.wire.calibration import CalibrationReport, Label
from agenteval.wire.records import Record
from agenteval.wire.row import Row

NAME = "ae-calibrate"
SAMPLE = 10
IDS_SHOWN = 5
ID_WIDTH = 40


# --- reading a document -------------------------------------------------------------------------


def read_document(source: Source, target: Output, console: Console) -> int:
    """Writes the labels that a person ticked; returns the exit code."""
    lines = list(text_lines(source))
    reviews = list(read_reviews(lines))
    if not reviews and lines and not any(line.startswith(TITLE) for line in lines):
        raise UserError(f"{source.name}: contains no boxes to read; is it a document written by ae-calibrate?")
    target.open()
    for review in reviews:
        if review.label is not None:
            target.write(review.label)
        elif review.mistake is not None:
            console.refuse(f"{source.name}:{review.line}", review.mistake)
    target.close()
    if unticked := sum(review.label is None and review.mistake is None for review in reviews):
        console.say(f"{unticked} of {len(reviews)} records have no tick and were left out")
    return FAILED if console.refused else OK


# --- making a document --------------------------------------------------------------------------


def go_through(calibration: Calibration, source: Source, target: Output, console: Console, **graders: Any) -> None:
    """Selects the records and collects their verdicts; `graders` are the options of a second grader."""
    console.begin(None, "records")
    if not graders["grader"]:
        for item in calibration.candidates(source, console, console.advance):
            calibration.settle(item)
        console.finish()
        return
    run = GraderRun(target, console, **graders, grade_failed=True)  # failed agents are left out already
    waiting: deque[Item] = deque()

    def picked(_limit: int) -> Iterator[list[Record]]:
        for item in calibration.candidates(source, console, lambda _name: None):
            waiting.append(item)
            yield [ungraded(item.record)]

    def collect(graded: Record) -> None:
        calibration.settle(waiting.popleft()._replace(again=result_of(graded, Row)[1]))

    run(picked, collect)


def report_omissions(calibration: Calibration, report: CalibrationReport, console: Console) -> None:
    """Reports what the figures leave out, one line for each reason."""
    counts = report.records
    if counts.total and not (counts.passed or counts.failed):
        console.say(f"none of the {counts.total} records has a verdict: grade them first, with ae-grade")
    if calibration.labels is None or report.labels is None:
        return
    if changed := calibration.labels.changed:
        console.say(f"{some(changed, 'label')} contradicted by a later one for the same id: the last one counts")
    if unknown := calibration.unknown_labels:
        console.say(f"{some(len(unknown), 'label')} for an id that is not among the records: {named(unknown)}")
    if report.labels.stale:
        console.say(f"{some(report.labels.stale, 'label')} for an output that has changed, and left out")
    if report.labels.ungraded:
        console.say(f"{some(report.labels.ungraded, 'label')} for a record without a verdict, and left out")


def some(count: int, noun: str) -> str:
    """Returns `1 label is` or `2 labels are`."""
    return f"1 {noun} is" if count == 1 else f"{count} {noun}s are"


def named(ids: list[str]) -> str:
    """Returns the first few ids."""
    return first_few([clip(name, ID_WIDTH) for name in ids], IDS_SHOWN)


def meets(report: CalibrationReport, console: Console, *, agreement: float | None, kappa: float | None) -> bool:
    """Whether the grader (the second one, if there is one) agrees with the labels as required."""
    found = report.rescored or report.recorded
    if found is None:
        return True
    met = True
    for name, value, least in (("agreement", found.agreement, agreement), ("kappa", found.kappa, kappa)):
        if least is not None and (value is None or value < least):
            shown = "undefined" if value is None else f"{value:.3f}"
            console.say(f"{name} is {shown} over {found.n} labelled records: --min-{name} {least:g} is not met")
            met = False
    return met


def keep_ticks(path: str | None, labels: Labels | None) -> None:
    """Raises UserError if the output would overwrite a document with ticks that are in no label file."""
    if path is None or not os.path.isfile(path):
        return
    try:
        lines = text_lines(Source(path))
        if not next(lines, "").startswith(TITLE):
            return
        found = [review.label for review in read_reviews(lines) if review.label is not None]
    except UserError:
        return  # not a document of ours
    known: Mapping[str, Label] = labels or {}
    lost = [
        label
        for label in found
        if "again" not in label and (label["id"] not in known or known[label["id"]].verdict != label["pass"])
    ]
    if lost:
        what = "a tick" if len(lost) == 1 else f"{len(lost)} ticks"
        raise UserError(
            f"{path}: contains {what} not saved as labels yet; save them with --read first, or write to another file"
        )


@tool(
    NAME,
    exit_status={
        1: "finished, but some lines were refused, graders erred, or --min-agreement or --min-kappa was not met"
    },
)
@input_argument("RESULTS")
@count_option("-s", "--sample", least=0, help=f"Number of records to sample.  [default: {SAMPLE}]")
@seed_option("draw")
@click.option("--all", "everything", is_flag=True, help="Also sample records that passed, not only those that did not.")
@grader_option
@grader_options
@verdict_options()
@click.option("--labels", metavar="FILE", help="A person's verdicts, as JSONL with id and pass.")
@click.option("--baseline", metavar="FILE", help="Graded results of another run, to compare with this one.")
@click.option("--baseline-labels", metavar="FILE", help="A person's verdicts on the records of --baseline.")
@click.option("--show-verdicts", is_flag=True, help="Show the grader's verdict above the boxes, not folded below.")
@click.option("--min-agreement", type=NumberRange(0, 1), metavar="X", help="Exit 1 if the agreement is below X.")
@click.option("--min-kappa", type=NumberRange(-1, 1), metavar="X", help="Exit 1 if Cohen's kappa is below X.")
@click.option("--read", is_flag=True, help="RESULTS is a ticked document: write its labels as JSONL.")
@form_option(FORMS, "markdown")
@output_option
@strict_grading_option
@progress_option
def main(
    path: str | None,
    sample: int | None,
    seed: int,
    everything: bool,
    labels: str | None,
    baseline: str | None,
    baseline_labels: str | None,
    show_verdicts: bool,
    min_agreement: float | None,
    min_kappa: float | None,
    read: bool,
    form: str | None,
    output: str | None,
    strict: bool,
    progress: bool | None,
    debug: bool,
    **graders: Any,
) -> int:
    """Find out how far a grader can be trusted: draw a sample of what did not pass, for a person to review.

    RESULTS is the output of ae-grade, results or trials (or stdin); each trial counts as a record named ID#N. The
    document shows each sampled record with boxes to tick. --read turns the ticks into labels, and --labels compares
    the verdicts with them: first the records on which they disagree, then the pass rate as a person would grade the
    run, agreement, Cohen's kappa and Gwet's AC1, precision and recall, each with its 95% interval. A second grader
    (-g) judges the same records again, to show both verdicts side by side. The grader's verdict is folded away below
    the boxes so that it does not sway the reviewer, and a tenth of the records appear twice: the report shows how
    often the two answers agree. With --baseline and labels for both runs, the report shows how much better the run is
    than the baseline as a person would grade them, with an interval, however lenient the grader is with either.

    A label is {"id": "…", "pass": true}; "label": "pass", "fail" or "ambiguous" works too. A label read from a
    document carries the digest of its output, and is left out if the output has changed. Records with a label are not
    sampled again. The figures describe all graded records: labels are weighted by how many records share their
    recorded verdict, however many of each were labelled. Records that did not pass reveal nothing about answers that
    pass but should not: recall, kappa and the corrected pass rate are null until records that passed have labels too
    (--all samples both). --min-agreement and --min-kappa apply to the second grader if there is one. The same input
    and seed give the same document.

    Examples:
      ae-calibrate graded.jsonl --sample 20 -o calibration.md
      ae-calibrate --read calibration.md -o labels.jsonl
      ae-calibrate graded.jsonl --labels labels.jsonl --all -o next.md
      ae-calibrate graded.jsonl --labels labels.jsonl -g ./new-grader.py -j 4 -o compared.md
      ae-calibrate graded.jsonl --labels labels.jsonl -s 0 -f json --min-kappa 0.6 | jq .recorded
      ae-calibrate new.jsonl --labels new-labels.jsonl --baseline old.jsonl --baseline-labels old-labels.jsonl
    """
    console = Console(NAME, progress=progress, strict=strict, output=output)
    if read:
        if graders["grader"] or labels or form or sample is not None:
            raise UserError("--read only turns a document into labels: leave out -g, --labels, --sample and -f")
        source = Source(path)
        return read_document(source, Output(output, inputs=[source], lazy=True), console)
    form = FORMS.choose(form, output, "markdown")
    if labels is None and (min_agreement is not None or min_kappa is not None):
        raise UserError("--min-agreement and --min-kappa need --labels")
    if not graders["grader"]:
        refuse_without("-g GRADER", "stream", "concurrency", "timeout", "no_redact")
    if (baseline is None) != (baseline_labels is None) or (baseline is not None and labels is None):
        raise UserError("--baseline needs labels for both runs: --labels FILE --baseline-labels FILE")
    if labels == "-" and path in (None, "-"):
        raise UserError("RESULTS and --labels cannot both be stdin")
    chosen = {name: graders[name] for name in ("stream", "limits", "weights", "informational")}
    names = [spec.name for spec in named_graders(graders["grader"], **chosen)]
    source = Source(path)
    label_source = Source(labels) if labels is not None else None
    target = Output(output, inputs=[source, *([label_source] if label_source else [])], lazy=True)
    known = read_labels(label_source, console) if label_source else None
    keep_ticks(target.path, known)
    size = SAMPLE if sample is None else sample
    paired = baseline is not None
    drawn: dict[str, Any] = {"seed": seed, "paired": paired}
    calibration = Calibration(known, names, size=size, everything=everything, blind=not show_verdicts, **drawn)
    go_through(calibration, source, target, console, **graders, debug=debug)
    if baseline is not None and baseline_labels is not None:
        other = Calibration(read_labels(Source(baseline_labels), console), [], size=0, everything=True, **drawn)
        go_through(other, Source(baseline), target, console, **graders | {"grader": ()}, debug=debug)
        calibration.baseline = other
    report = calibration.report()
    target.open()
    FORMS.write(form, calibration, target)
    report_omissions(calibration, report, console)
    met = meets(report, console, agreement=min_agreement, kappa=min_kappa)
    return OK if met and not console.refused and not calibration.changes.grader_errors else FAILED
