"""ae-calibrate: the document that a person reviews (figures, records with boxes to tick), or the report as JSON."""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain

from agenteval.reports.figures import UNKNOWN, breakdown, number, outcomes, percent, percent_span, span, verdict, whole
from agenteval.reports.forms import ReportContext, ReportForms
from agenteval.reports.markup import fenced, inline, table
from agenteval.review.calibration import Calibration, Item
from agenteval.review.document import TITLE, harmless, review_block
from agenteval.streams.text import clip, counted, first_few, one_line, plain_text, pretty_json, preview
from agenteval.wire.calibration import (
    Agreement,
    CalibrationReport,
    CorrectedDifference,
    CorrectedPassRate,
    Label,
    ReviewSample,
    VerdictChanges,
    output_hash,
)
from agenteval.wire.records import RUN_METADATA, GraderResult, Step
from agenteval.wire.row import Attempt

FigureRow = tuple[str, str, str, int]  # name, value, interval and number of labels
TEXT_HEAD, TEXT_TAIL = 3000, 1000  # characters of a long text that are shown; answers stand at the end
SHORT = 200
CELL = 1000
ID_SHOWN = 100
IDS_SHOWN = 20
STEPS_HEAD, STEPS_TAIL = 7, 4
STEP_WIDTH = 100

HOW_TO = """\
## How to review

For each record below, tick one box, as in `[x]`, and add remarks after *Note:*. Then

    ae-calibrate --read calibration.md >> labels.jsonl
    ae-calibrate graded.jsonl --labels labels.jsonl

show how far the grader can be trusted. Records without a tick are left out.{blind}"""
BLIND = """

Tick a box before you unfold the grader's verdict: reviewers who know it agree with it more often. A tenth of the
records appear again at the end: judge them as if you had not seen them before."""

SECTIONS = {
    "label": ("Disagreements with the labels", "A grader disagrees with a person's label."),
    "rescored": ("Verdicts that differ", "The second grader disagrees with the recorded verdict."),
    "sample": ("Sample", ""),
    "again": (
        "Once more",
        "Judge these again, without looking back: the report shows how often you agree with yourself.",
    ),
}
RIGHT, WRONG = "the answer is right", "the answer is wrong"
MEANINGS = {
    False: {"pass": f"{RIGHT}, a grader bug", "fail": f"{WRONG}, a valid failure"},
    True: {"pass": f"{RIGHT}, a valid pass", "fail": f"{WRONG}, a grader bug"},
    None: {"pass": RIGHT, "fail": WRONG},
}


def as_json(calibration: Calibration, _context: ReportContext) -> Iterator[bytes]:
    """json: every figure, as `ae-schemas CalibrationReport` describes it"""
    yield pretty_json(calibration.report())


def as_markdown(calibration: Calibration, _context: ReportContext) -> Iterator[bytes]:
    """markdown: a document to review: the figures, then each record that a person should review, with boxes to tick"""
    report = calibration.report()
    parts = [TITLE, "\n".join(head(report, calibration.ambiguous))]
    if report.recorded is not None:
        parts += [*pass_rate_section(report.pass_rate), *difference_section(report.difference)]
        parts.append(agreement_section(report.recorded, report.rescored))
    if report.changes is not None:
        parts.append(changes_section(report.changes, report.sample))
    if report.items:
        parts.append(HOW_TO.format(blind=BLIND if calibration.blind else ""))
    yield ("\n\n".join(parts) + "\n").encode()
    place = 0
    for name, items in [*calibration.shown.items(), ("again", calibration.asked_again())]:
        title, why = SECTIONS[name]
        if name == "sample" and calibration.shown["rescored"]:
            title = "The rest of the sample"
        if items:
            yield ("\n" + "\n\n".join(filter(None, [f"## {title} ({len(items):,})", why])) + "\n").encode()
        for item in items:
            place += 1
            blind = calibration.blind and item.human is None
            yield f"\n{section(place, item, blind=blind, again=name == 'again')}\n".encode()


FORMS = ReportForms(json=as_json, markdown=as_markdown)


# --- the figures --------------------------------------------------------------------------------


def head(report: CalibrationReport, ambiguous: Sequence[str]) -> Iterator[str]:
    """Counts of the records, of the sample and of the labels."""
    counts = report.records
    ended = outcomes(counts.passed, counts.failed, counts.errors, counts.ungraded, counts.grader_errors)
    yield f"- **Records**: {counts.total:,}{ended}"
    labels = report.labels
    yield f"- **To review**: {drawn(report.sample, labelled=labels is not None)}"
    if labels is None:
        return
    yield f"- **Labels**: {labels.used:,} of {labels.total:,} used" + breakdown(
        (labels.ambiguous, "ambiguous"),
        (labels.stale, "for an output that has changed"),
        (labels.ungraded, "for a record without a verdict"),
        (labels.unknown, "for an unknown id"),
    )
    if twice := report.self_agreement:
        share = f"{percent(twice.same / twice.n)}, 95% interval {percent_span(twice.interval)}"
        yield f"- **Judged twice**: {twice.same:,} of {twice.n:,} the same ({share}): expect no better of a grader"
    if ambiguous:
        yield f"- **Ambiguous tasks**: {first_few([_id(name) for name in ambiguous], IDS_SHOWN)}"


def drawn(sample: ReviewSample, *, labelled: bool) -> str:
    """The sample in words."""
    what = counted(sample.of, "failure" if sample.drawn_from == "failures" else "graded record")
    what += " without a label" if labelled else ""
    if sample.size == sample.of:
        return f"all {what}" if sample.of > 1 else what
    return f"{sample.size:,} of {what}, sampled at random (seed {sample.seed})"


def changes_section(changes: VerdictChanges, sample: ReviewSample) -> str:
    """How often the verdict of the second grader differs."""
    labelled = changes.n - changes.sampled
    sampled = "sampled failure" if sample.drawn_from == "failures" else "sampled record"
    of = [counted(labelled, "labelled record")] if labelled else []
    of += [counted(changes.sampled, sampled)] if changes.sampled or not labelled else []
    graders = " and ".join(map(inline, changes.graders))
    differ = f"{changes.differ:,} ({percent(changes.share)})"
    text = f"Of the {' and '.join(of)}, {differ} got a different verdict from {graders}."
    if changes.grader_errors:
        text += f" {changes.grader_errors:,} more could not be graded."
    failed, passed = changes.failed_before, changes.n - changes.failed_before
    passes = (passed - changes.pass_to_fail, changes.pass_to_fail)
    failures = (changes.fail_to_pass, failed - changes.fail_to_pass)
    return "\n\n".join(["## Re-scored", text, two_by_two("The recorded verdict", "Second grader", passes, failures)])


# --- agreement with the labels --------------------------------------------------------------------


def pass_rate_section(found: CorrectedPassRate | None) -> list[str]:
    """The pass rate of the run as the person would grade it, beside the recorded one; nothing without labels."""
    if found is None or not found.labelled_passes + found.labelled_failures:
        return []
    recorded = f"The grader passed {percent(found.recorded)} of {counted(found.n, 'record')}."
    if found.corrected is None:
        missing = "failure" if found.labelled_passes else "pass"
        return [f"## Pass rate\n\n{recorded} What a person would pass is unknown: no recorded {missing} has a label."]
    estimated = f"**A person would pass {percent(found.corrected)}** (95% interval {percent_span(found.interval)})"
    labels = f"{found.labelled_passes:,} of recorded passes and {found.labelled_failures:,} of recorded failures"
    return [f"## Pass rate\n\n{recorded} {estimated}, estimated from labels: {labels}."]


def difference_section(found: CorrectedDifference | None) -> list[str]:
    """How much better the run is than the baseline by the grader, and as the person would see it."""
    if found is None:
        return []
    recorded = f"By the grader's verdicts the run differs from the baseline by {_points(found.recorded)}"
    recorded += f" on {counted(found.n, 'prompt')} that both have."
    if found.corrected is None or found.interval is None:
        missing = "By a person's verdicts the difference is unknown: label passes and failures of both runs (`--all`)."
        return [f"## Against the baseline\n\n{recorded} {missing}"]
    low, high = (_points(end) for end in found.interval)
    sure = f"95% interval {low.removesuffix(' points')} to {high}"
    corrected = f"**By a person's verdicts it would be {_points(found.corrected)}** ({sure})"
    return [f"## Against the baseline\n\n{recorded} {corrected}."]


def _points(difference: float) -> str:
    return f"{difference * 100:+z.1f} points"


def agreement_section(recorded: Agreement, rescored: Agreement | None) -> str:
    """How well each grader agrees with the labels, side by side."""
    columns = {"Recorded": recorded} | ({"Second grader": rescored} if rescored else {})
    rows = []
    for figure in zip(*map(figures, columns.values()), strict=True):  # of each grader
        cells = [(value, interval, whole(n) if value != UNKNOWN else UNKNOWN) for _, value, interval, n in figure]
        rows.append([figure[0][0], *chain.from_iterable(cells)])
    titles = [title for name in columns for title in (name, "95% interval", "Labels")]
    parts = ["## Agreement with the labels", basis(recorded), "\n".join(table(["Figure", *titles], rows))]
    for title, found in zip(("The recorded verdict", "The second grader's verdict"), columns.values(), strict=False):
        counts = found.table
        passes, failures = (counts.true_pass, counts.false_pass), (counts.false_fail, counts.true_fail)
        parts.append(two_by_two(title, "Human", passes, failures))
    return "\n\n".join(filter(None, parts))


def figures(found: Agreement) -> Iterator[FigureRow]:
    """Name, value, interval and number of labels of each figure."""
    counts, n = found.table, found.n
    on = "" if found.scope == "all" or not n else f" on {found.scope}"
    yield "Labelled records (n)", whole(n), UNKNOWN, n
    yield f"Agreement{on}", percent(found.agreement), percent_span(found.interval), n
    for field, name in (("kappa", "Cohen's kappa"), ("ac1", "Gwet's AC1")):
        interval = span(getattr(found.intervals, field))
        yield f"{name} (0: chance, 1: perfect)", number(getattr(found, field)), interval, n
    for field, name, labels in (
        ("human_pass_rate", "Base rate: share the person passes", n),
        ("grader_pass_rate", "Share the grader passes", n),
        ("precision", "Precision: share of the grader's passes that the person passes", counts.grader_passes),
        ("recall", "Recall: share of the person's passes that the grader passes", counts.human_passes),
        ("failure_precision", "Precision of failures", n - counts.grader_passes),
        ("failure_recall", "Recall of failures", n - counts.human_passes),
    ):
        yield name, percent(getattr(found, field)), percent_span(getattr(found.intervals, field)), labels


def basis(found: Agreement) -> str:
    """What the figures are about, in words."""
    if not found.n:
        return ""
    if found.scope == "all":
        return (
            "The figures describe all graded records: each label is weighted by the number of records with the same "
            "recorded verdict. They are valid if the labelled records of each verdict were sampled at random."
        )
    other = "failures" if found.scope == "passes" else "passes"
    return (
        f"All labelled records are recorded as {found.scope}: this reveals nothing about the grader's {other}, so "
        "recall, kappa and the pass rate are unknown. Sample all records with `--all`."
    )


def two_by_two(recorded: str, other: str, passes: tuple[int, int], failures: tuple[int, int]) -> str:
    """Counts by two verdicts: how many of the passes, and of the failures, the other passes and fails."""
    rows = [["pass", *map(whole, passes)], ["fail", *map(whole, failures)]]
    return "\n".join(table([recorded, f"{other}: pass", f"{other}: fail"], rows))


# --- one record ---------------------------------------------------------------------------------


def section(place: int, item: Item, *, blind: bool = False, again: bool = False) -> str:
    """One record: input, output, trajectory, verdicts, boxes to tick; `blind` folds the verdicts after the boxes."""
    row, attempt = item.row, item.attempt
    parts = [f"### {place}. {_id(item.name)}"]
    facts = [
        f"{inline(preview(name, SHORT))}: {inline(preview(plain_text(value), SHORT))}"
        for name, value in (row.metadata or {}).items()
        if name not in RUN_METADATA
    ]
    if facts:
        parts.append(f"**Metadata**: {', '.join(facts)}")
    if isinstance(row.input, list):
        parts += [text_block(f"Input, turn {turn}", text) for turn, text in enumerate(row.input, 1)]
    elif row.input is not None:
        parts.append(text_block("Input", row.input))
    if row.hint:
        parts.append(text_block("Hint", row.hint))
    if isinstance(reference := item.record.get("reference"), str):
        parts.append(text_block("Reference", reference))
    output = attempt.output
    parts.append(f"**Output**{_length(output)}:\n\n{block(output)}" if output.strip() else "**Output**: (empty)")
    parts += [f"❌ **Error**: {inline(preview(failure, CELL))}" for failure in attempt.failures]
    if attempt.trajectory:
        parts.append(trajectory_block(attempt.trajectory))
    review, verdicts = ["**Review**", boxes(item, blind=blind, again=again)], verdict_parts(item)
    if blind:
        parts += [*review, "<details><summary>The grader's verdict</summary>", *verdicts, "</details>"]
    else:
        parts += [*verdicts, *review]
    return "\n\n".join([*parts, "---"])


def _id(name: str) -> str:
    return inline(preview(name, ID_SHOWN)) or "(blank)"


def text_block(name: str, text: str) -> str:
    """A short text behind its name, a longer one in a block below it."""
    if len(text) <= SHORT and len(text.splitlines()) <= 1:
        return f"**{name}**: {inline(text)}"
    return f"**{name}**{_length(text)}:\n\n{block(text)}"


def _length(text: str) -> str:
    return f" ({len(text):,} characters)" if len(text) > TEXT_HEAD + TEXT_TAIL else ""


def block(text: str) -> str:
    """The text between fences that it cannot close; if it is long, its beginning and end."""
    omitted = len(text) - TEXT_HEAD - TEXT_TAIL
    if omitted > 0:
        text = f"{text[:TEXT_HEAD]}\n[… {omitted:,} characters left out …]\n{text[-TEXT_TAIL:]}"
    return harmless(fenced(text, "text"))


def trajectory_block(steps: Sequence[Step]) -> str:
    """Counts of the steps by type, then the first and the last of them."""
    kinds = Counter(step.type for step in steps)
    calls = Counter(step.status or "unknown" for step in steps if step.type == "tool_call")
    bad = [f"{count:,} {status}" for status, count in calls.items() if status != "completed"]
    counts = [counted(count, kind.replace("_", " ")) for kind, count in kinds.items()]
    summary = f"**Trajectory**: {', '.join(counts)}" + (f" (calls: {', '.join(map(inline, bad))})" if bad else "")
    lines = [_step_line(place, step) for place, step in enumerate(steps, 1)]
    omitted = len(lines) - STEPS_HEAD - STEPS_TAIL
    if omitted > 1:
        lines = [*lines[:STEPS_HEAD], f"    [… {omitted:,} steps left out …]", *lines[-STEPS_TAIL:]]
    return f"{summary}\n\n" + block("\n".join(lines))


def _step_line(place: int, step: Step) -> str:
    if step.type == "tool_call":
        given = "" if step.input is None else plain_text(step.input)
        text = f"{step.name or '?'} [{step.status or '?'}] {given}"
    elif step.type == "plan":
        text = f"{len(step.entries or ())} entries"
    else:
        text = step.content or ""
    return clip(f"{place:>3} {step.type:<9} {one_line(text, STEP_WIDTH)}".rstrip(), STEP_WIDTH)


def verdict_parts(item: Item) -> Iterator[str]:
    """The verdicts on the answer; a table if there are several."""
    rows = [*verdict_rows("recorded", item.attempt), *(verdict_rows("second grader", item.again) if item.again else ())]
    if item.human is not None and item.label is not None:
        human = "✅ PASS" if item.human else "❌ FAIL"
        rows.append(["**human**", human, inline(preview(item.label.note or "", CELL))])
    if len(rows) > 1:
        yield "\n".join(table(["", "Verdict", "Reasoning"], rows, names=3))
        return
    yield f"**Verdict**: {rows[0][1]}"
    if item.attempt.score and item.attempt.score.reasoning:
        yield text_block("Reasoning", item.attempt.score.reasoning)


def verdict_rows(name: str, attempt: Attempt) -> Iterator[list[str]]:
    """A row for the verdict and, if several graders made it, one for each."""
    if attempt.why_not_graded is not None:
        yield [f"**{name}**", "⚠️ grader error", inline(preview(attempt.why_not_graded, CELL))]
    elif attempt.score is not None:
        yield _verdict_row(f"**{name}**", attempt.score)
    if attempt.scores and len(attempt.scores) > 1:
        for grader, grade in attempt.scores.items():
            yield _verdict_row(f"{name}: {inline(grader)}", grade)


def _verdict_row(name: str, grade: GraderResult) -> list[str]:
    return [name, verdict(grade), inline(preview(grade.reasoning or "", CELL))]


def boxes(item: Item, *, blind: bool, again: bool) -> str:
    """The boxes to tick; ticked if there is a label. What they mean for the grader would betray its verdict."""
    verdicts = set() if blind else set(item.verdicts)
    meanings = MEANINGS[verdicts.pop() if len(verdicts) == 1 else None]
    meanings = {**meanings, "ambiguous": "the task leaves open what is right"}
    word = None if item.human is None else "pass" if item.human else "fail"
    note = item.label.note if item.label else None
    label = Label(
        id=item.name, label=word, note=note, output_hash=output_hash(item.attempt.output), again=again or None
    )
    return review_block(label, meanings)
