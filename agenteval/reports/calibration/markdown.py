"""markdown: a document to review: the figures, then each record that a person should review, with boxes to tick"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from agenteval.reports.agreement_sections import agreement_section, pass_rate_section, two_by_two
from agenteval.reports.figures import breakdown, percent
from agenteval.reports.forms import ReportContext
from agenteval.reports.markup import fenced, inline, table
from agenteval.reports.results.markdown import verdict
from agenteval.review.calibration import Calibration, Item
from agenteval.review.document import TITLE, harmless, review_block
from agenteval.streams.text import clip, counted, first_few, one_line, plain_text, preview
from agenteval.wire.calibration import (
    CalibrationReport,
    Label,
    ReviewSample,
    VerdictChanges,
    output_hash,
)
from agenteval.wire.records import GraderResult, Step
from agenteval.wire.result_view import ResultView, ResultWithSteps

TEXT_HEAD, TEXT_TAIL = 3000, 1000  # characters of a long text that are shown; answers stand at the end
SHORT = 200
CELL = 1000
ID_SHOWN = 100
IDS_SHOWN = 20
STEPS_HEAD, STEPS_TAIL = 7, 4
STEP_WIDTH = 100
RUN_FIELDS = {"agent", "trajectoryRichness", "turnCount", "turnSteps", "exitCode", "signal", "timedOut", "workspaceDir"}

HOW_TO = """\
## How to review

For each record below tick one box, as in `[x]`, and add remarks after *Note:*. Then

    ae-calibrate --read calibration.md >> labels.jsonl
    ae-calibrate graded.jsonl --labels labels.jsonl

report how far the grader can be trusted. Records without a tick are left out."""

SECTIONS = {
    "label": ("Disagreements with the labels", "A grader disagrees with the label of a person."),
    "rescored": ("Verdicts that differ", "The second grader does not agree with the recorded verdict."),
    "sample": ("Sample", ""),
}
RIGHT, WRONG = "the answer is right", "the answer is wrong"
MEANINGS = {
    False: {"pass": f"{RIGHT}, a grader bug", "fail": f"{WRONG}, a valid failure"},
    True: {"pass": f"{RIGHT}, a valid pass", "fail": f"{WRONG}, a grader bug"},
    None: {"pass": RIGHT, "fail": WRONG},
}
AMBIGUOUS = {"ambiguous": "the task leaves open what is right"}


def render(calibration: Calibration, _context: ReportContext) -> Iterator[bytes]:
    """Yields the figures, then each record."""
    report = calibration.report()
    parts = [TITLE, "\n".join(head(report, calibration.ambiguous))]
    if report.recorded is not None:
        parts += [*pass_rate_section(report.pass_rate), agreement_section(report.recorded, report.rescored)]
    if report.changes is not None:
        parts.append(changes_section(report.changes, report.sample))
    if report.items:
        parts.append(HOW_TO)
    yield ("\n\n".join(parts) + "\n").encode()
    place = 0
    for name, items in calibration.shown.items():
        title, why = SECTIONS[name]
        if name == "sample" and calibration.shown["rescored"]:
            title = "The rest of the sample"
        if items:
            yield ("\n" + "\n\n".join(filter(None, [f"## {title} ({len(items):,})", why])) + "\n").encode()
        for item in items:
            place += 1
            yield f"\n{section(place, item)}\n".encode()


# --- the figures --------------------------------------------------------------------------------


def head(report: CalibrationReport, ambiguous: Sequence[str]) -> Iterator[str]:
    """Counts of the records, of the sample and of the labels."""
    counts = report.records
    yield f"- **Records**: {counts.total:,}" + breakdown(
        (counts.passed, "passed"),
        (counts.failed, "did not pass"),
        (counts.errors, "agent failed" if counts.errors == 1 else "agents failed"),
        (counts.ungraded, "ungraded"),
        (counts.grader_errors, "grader error" if counts.grader_errors == 1 else "grader errors"),
    )
    labels = report.labels
    yield f"- **To review**: {drawn(report.sample, labelled=labels is not None)}"
    if labels is None:
        return
    yield f"- **Labels**: {labels.used:,} of {labels.total:,} used" + breakdown(
        (labels.ambiguous, "ambiguous"),
        (labels.stale, "for another output"),
        (labels.ungraded, "for a record without a verdict"),
        (labels.unknown, "for an unknown id"),
    )
    if ambiguous:
        yield f"- **Ambiguous tasks**: {first_few([_id(name) for name in ambiguous], IDS_SHOWN)}"


def drawn(sample: ReviewSample, *, labelled: bool) -> str:
    """The sample in words."""
    what = counted(sample.of, "failure" if sample.drawn_from == "failures" else "graded record")
    what += " without a label" if labelled else ""
    if sample.size == sample.of:
        return f"{what}, all there are" if sample.of else what
    return f"{sample.size:,} of {what}, drawn at random (seed {sample.seed})"


def changes_section(changes: VerdictChanges, sample: ReviewSample) -> str:
    """How often the verdict of the second grader differs."""
    labelled = changes.n - changes.sampled
    sampled = "sampled failure" if sample.drawn_from == "failures" else "sampled record"
    of = [counted(labelled, "labelled record")] if labelled else []
    of += [counted(changes.sampled, sampled)] if changes.sampled or not labelled else []
    graders = " and ".join(map(inline, changes.graders))
    text = (
        f"Of the {' and '.join(of)}, {changes.differ:,} ({percent(changes.share)}) got another verdict from {graders}."
    )
    if changes.grader_errors:
        text += f" It could not grade {changes.grader_errors:,} more."
    failed, passed = changes.failed_before, changes.n - changes.failed_before
    before = (
        (passed - changes.pass_to_fail, changes.pass_to_fail),
        (changes.fail_to_pass, failed - changes.fail_to_pass),
    )
    return "\n\n".join(["## Re-scored", text, two_by_two("The recorded verdict", "Second grader", *before)])


# --- one record ---------------------------------------------------------------------------------


def section(place: int, item: Item) -> str:
    """One record: input, output, trajectory, verdicts, and boxes to tick."""
    row = item.row
    parts = [f"### {place}. {_id(row.id)}"]
    if facts := metadata_line(row):
        parts.append(facts)
    parts += [text_block(*turn) for turn in turns_of(row)]
    if row.hint:
        parts.append(text_block("Hint", row.hint))
    if isinstance(reference := item.record.get("reference"), str):
        parts.append(text_block("Reference", reference))
    parts.append(output_block(row.output))
    parts += [f"❌ **Error**: {inline(preview(failure, CELL))}" for failure in row.failures]
    if row.trajectory:
        parts.append(trajectory_block(row.trajectory))
    parts += [*verdict_parts(item), "**Review**", boxes(item)]
    return "\n\n".join([*parts, "---"])


def _id(name: str) -> str:
    return inline(preview(name, ID_SHOWN)) or "(blank)"


def metadata_line(row: ResultWithSteps) -> str | None:
    """Returns the metadata of the prompt, such as its category, without that of the run; None if there is none."""
    facts = {name: value for name, value in (row.metadata or {}).items() if name not in RUN_FIELDS}
    parts = [
        f"{inline(preview(name, SHORT))}: {inline(preview(plain_text(value), SHORT))}" for name, value in facts.items()
    ]
    return f"**Metadata**: {', '.join(parts)}" if parts else None


def turns_of(row: ResultView) -> Iterator[tuple[str, str]]:
    """Each turn of the input with its title."""
    if isinstance(row.input, list):
        yield from ((f"Input, turn {turn}", text) for turn, text in enumerate(row.input, 1))
    elif row.input is not None:
        yield "Input", row.input


def text_block(name: str, text: str) -> str:
    """A short text behind its name, a longer one in a block below it."""
    if len(text) <= SHORT and len(text.splitlines()) <= 1:
        return f"**{name}**: {inline(text)}"
    return f"**{name}**{_length(text)}:\n\n{block(text)}"


def output_block(output: str) -> str:
    """The output; if it is long, its beginning and end."""
    return f"**Output**{_length(output)}:\n\n{block(output)}" if output.strip() else "**Output**: (empty)"


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
    lines = [step_line(place, step) for place, step in enumerate(steps, 1)]
    omitted = len(lines) - STEPS_HEAD - STEPS_TAIL
    if omitted > 1:
        lines = [*lines[:STEPS_HEAD], f"    [… {omitted:,} steps left out …]", *lines[-STEPS_TAIL:]]
    return f"{summary}\n\n" + block("\n".join(lines))


def step_line(place: int, step: Step) -> str:
    """One step on one line."""
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
    rows = [*verdict_rows("recorded", item.row), *(verdict_rows("second grader", item.again) if item.again else ())]
    if item.human is not None and item.label is not None:
        human = "✅ PASS" if item.human else "❌ FAIL"
        rows.append(["**human**", human, inline(preview(item.label.note or "", CELL))])
    if len(rows) > 1:
        yield "\n".join(table(["", "Verdict", "Reasoning"], rows, names=3))
        return
    yield f"**Verdict**: {rows[0][1]}"
    if item.row.score and item.row.score.reasoning:
        yield text_block("Reasoning", item.row.score.reasoning)


def verdict_rows(name: str, row: ResultView) -> Iterator[list[str]]:
    """A row for the verdict and, if several graders made it, one for each."""
    if row.why_not_graded is not None:
        yield [f"**{name}**", "⚠️ grader error", inline(preview(row.why_not_graded, CELL))]
    elif row.score is not None:
        yield _verdict_row(f"**{name}**", row.score)
    if row.scores and len(row.scores) > 1:
        for grader, grade in row.scores.items():
            yield _verdict_row(f"{name}: {inline(grader)}", grade)


def _verdict_row(name: str, grade: GraderResult) -> list[str]:
    return [name, verdict(grade), inline(preview(grade.reasoning or "", CELL))]


def boxes(item: Item) -> str:
    """The boxes to tick; ticked if there is a label."""
    verdicts = set(item.verdicts)
    meanings = MEANINGS[verdicts.pop() if len(verdicts) == 1 else None] | AMBIGUOUS
    word = None if item.human is None else "pass" if item.human else "fail"
    note = item.label.note if item.label else None
    label = Label(id=item.row.id, label=word, note=note, output_hash=output_hash(item.row.output))
    return review_block(label, meanings)
