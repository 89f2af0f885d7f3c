"""A calibration as a markdown document: the figures, then each record that a person should look at, with its boxes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from agenteval.reports.comparison import number, percent, percent_span, table
from agenteval.reports.markup import fenced, inline
from agenteval.reports.results.markdown import verdict
from agenteval.review.calibration import Item
from agenteval.review.document import TITLE, harmless, review_block
from agenteval.streams.jsonl import encode
from agenteval.streams.text import clip, one_line, preview
from agenteval.wire.calibration import (
    Agreement,
    AgreementTable,
    CalibrationReport,
    Label,
    ReviewSample,
    VerdictChanges,
    output_hash,
)
from agenteval.wire.records import GraderResult, Step
from agenteval.wire.result_view import ResultView, ResultWithSteps, is_grader_error

TEXT_HEAD, TEXT_TAIL = 3000, 1000  # of a long text: how it begins and, as that is where answers stand, how it ends
SHORT = 200
CELL = 1000
ID_SHOWN = 100
IDS_SHOWN = 20
STEPS_HEAD, STEPS_TAIL = 7, 4
STEP_WIDTH = 100
RUN_FIELDS = {"agent", "trajectoryRichness", "turnCount", "exitCode", "signal", "timedOut", "workspaceDir"}

HOW_TO = """\
## How to review

For each record below tick one box, as in `[x]`, and write what else there is to say behind *Note:*. Then

    ae-calibrate --read calibration.md >> labels.jsonl
    ae-calibrate graded.jsonl --labels labels.jsonl

tell how far the grader can be trusted. Records without a tick are left for another time."""

SECTIONS = {
    "label": ("Disagreements with the labels", "A person has labelled these, and a grader says otherwise."),
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


def markdown(report: CalibrationReport, shown: Mapping[str, Sequence[Item]], ambiguous: Sequence[str]) -> Iterator[str]:
    """The document, piece by piece."""
    parts = [TITLE, "\n".join(head(report, ambiguous))]
    if report.recorded is not None:
        parts.append(agreement_section(report.recorded, report.rescored))
    if report.changes is not None:
        parts.append(changes_section(report.changes, report.sample))
    if report.items:
        parts.append(HOW_TO)
    yield "\n\n".join(parts) + "\n"
    place = 0
    for name, items in shown.items():
        title, why = SECTIONS[name]
        if name == "sample" and shown["rescored"]:
            title = "The rest of the sample"
        if items:
            yield "\n" + "\n\n".join(filter(None, [f"## {title} ({len(items):,})", why])) + "\n"
        for item in items:
            place += 1
            yield f"\n{section(place, item)}\n"


# --- the figures --------------------------------------------------------------------------------


def head(report: CalibrationReport, ambiguous: Sequence[str]) -> Iterator[str]:
    """What was read, what was drawn, and what the labels were good for."""
    counts = report.records
    yield f"- **Records**: {counts.total:,}" + _told(
        (counts.passed, "passed"),
        (counts.failed, "failed"),
        (counts.ungraded, "ungraded"),
        (counts.grader_errors, "grader error" if counts.grader_errors == 1 else "grader errors"),
    )
    labels = report.labels
    yield f"- **To review**: {drawn(report.sample, labelled=labels is not None)}"
    if labels is None:
        return
    yield f"- **Labels**: {labels.used:,} of {labels.total:,} used" + _told(
        (labels.ambiguous, "ambiguous"),
        (labels.stale, "for another output"),
        (labels.ungraded, "for a record without a verdict"),
        (labels.unknown, "for an unknown id"),
    )
    if ambiguous:
        more = f" and {len(ambiguous) - IDS_SHOWN:,} more" if len(ambiguous) > IDS_SHOWN else ""
        yield f"- **Ambiguous tasks**: {', '.join(map(_id, ambiguous[:IDS_SHOWN]))}{more}"


def _told(*parts: tuple[int, str]) -> str:
    told = ", ".join(f"{count:,} {what}" for count, what in parts if count)
    return f" ({told})" if told else ""


def drawn(sample: ReviewSample, *, labelled: bool) -> str:
    """The sample in words."""
    what = _many(sample.of, "failure" if sample.drawn_from == "failures" else "graded record")
    what += " without a label" if labelled else ""
    if sample.size == sample.of:
        return f"{what}, all there are" if sample.of else what
    return f"{sample.size:,} of {what}, drawn at random (seed {sample.seed})"


def _many(count: int, noun: str) -> str:
    return f"{count:,} {noun}" + ("" if count == 1 else "s")


def agreement_section(recorded: Agreement, rescored: Agreement | None) -> str:
    """How well each grader agrees with the labels, side by side."""
    columns = [("recorded", recorded)] + ([("second grader", rescored)] if rescored else [])
    rows = [
        ("Labelled records (n)", [f"{found.n:,}" for _, found in columns]),
        ("Agreement", [percent(found.agreement) for _, found in columns]),
        ("95% interval", [percent_span(found.interval) for _, found in columns]),
        ("Cohen's kappa (0: chance, 1: perfect)", [number(found.kappa) for _, found in columns]),
        ("Base rate: human passes", [percent(found.human_pass_rate) for _, found in columns]),
        ("Grader passes", [percent(found.grader_pass_rate) for _, found in columns]),
        ("Precision: of the grader's passes, the human's", [percent(found.precision) for _, found in columns]),
        ("Recall: of the human's passes, the grader's", [percent(found.recall) for _, found in columns]),
        ("Precision of failures", [percent(found.failure_precision) for _, found in columns]),
        ("Recall of failures", [percent(found.failure_recall) for _, found in columns]),
    ]
    lines = table(["Grader", *(name for name, _ in columns)], [[name, *cells] for name, cells in rows])
    parts = ["## Agreement with the labels", "\n".join(lines)]
    parts += ["\n".join(two_by_two(name, found.table)) for name, found in columns]
    parts += [caution for caution in [one_sided(recorded)] if caution]
    return "\n\n".join(parts)


def two_by_two(name: str, counts: AgreementTable) -> list[str]:
    """Who said what how often."""
    header = [f"The {name}'s verdict" if name != "recorded" else "The recorded verdict", "Human: pass", "Human: fail"]
    return table(
        header,
        [
            ["pass", f"{counts.true_pass:,}", f"{counts.false_pass:,}"],
            ["fail", f"{counts.false_fail:,}", f"{counts.true_fail:,}"],
        ],
    )


def one_sided(found: Agreement) -> str | None:
    """A warning where the labels can tell nothing of one of the two verdicts."""
    if not found.n or found.grader_pass_rate not in (0, 1):
        return None
    said, other = ("failures", "passes") if found.grader_pass_rate == 0 else ("passes", "failures")
    return (
        f"All labelled records are recorded as {said}: this tells nothing of the grader's {other}, and kappa and "
        f"recall say little. Draw from all records with `--all`."
    )


def changes_section(changes: VerdictChanges, sample: ReviewSample) -> str:
    """How often the second grader says something else."""
    labelled = changes.n - changes.sampled
    sampled = "sampled failure" if sample.drawn_from == "failures" else "sampled record"
    of = [_many(labelled, "labelled record")] if labelled else []
    of += [_many(changes.sampled, sampled)] if changes.sampled or not labelled else []
    graders = " and ".join(map(inline, changes.graders))
    text = (
        f"Of the {' and '.join(of)}, {changes.differ:,} ({percent(changes.share)}) got another verdict from {graders}."
    )
    if changes.grader_errors:
        text += f" It could not grade {changes.grader_errors:,} more."
    failed, passed = changes.failed_before, changes.n - changes.failed_before
    rows = [
        ["pass", f"{passed - changes.pass_to_fail:,}", f"{changes.pass_to_fail:,}"],
        ["fail", f"{changes.fail_to_pass:,}", f"{failed - changes.fail_to_pass:,}"],
    ]
    header = ["The recorded verdict", "Second grader: pass", "Second grader: fail"]
    return "\n\n".join(["## Re-scored", text, "\n".join(table(header, rows))])


# --- one record ---------------------------------------------------------------------------------


def section(place: int, item: Item) -> str:
    """One record: what was asked, what came back, what was said of it, and boxes for what the reader says."""
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
    """What the prompt says of itself, such as its category; not what the run left there."""
    facts = {name: value for name, value in (row.metadata or {}).items() if name not in RUN_FIELDS}
    told = [f"{inline(preview(name, SHORT))}: {inline(preview(_plain(value), SHORT))}" for name, value in facts.items()]
    return f"**Metadata**: {', '.join(told)}" if told else None


def _plain(value: object) -> str:
    return value if isinstance(value, str) else encode(value).decode()


def turns_of(row: ResultView) -> Iterator[tuple[str, str]]:
    """Each input with what it is called."""
    if isinstance(row.input, list):
        yield from ((f"Input, turn {turn}", text) for turn, text in enumerate(row.input, 1))
    elif row.input is not None:
        yield "Input", row.input


def text_block(name: str, text: str) -> str:
    """A short text on the line of its name, a longer one in a block of its own."""
    if len(text) <= SHORT and len(text.splitlines()) <= 1:
        return f"**{name}**: {inline(text)}"
    return f"**{name}**{_length(text)}:\n\n{block(text)}"


def output_block(output: str) -> str:
    """The output as it is, all of it unless it is long."""
    return f"**Output**{_length(output)}:\n\n{block(output)}" if output.strip() else "**Output**: (empty)"


def _length(text: str) -> str:
    return f" ({len(text):,} characters)" if len(text) > TEXT_HEAD + TEXT_TAIL else ""


def block(text: str) -> str:
    """How a text begins and ends, as it is, between fences that it cannot close."""
    omitted = len(text) - TEXT_HEAD - TEXT_TAIL
    if omitted > 0:
        text = f"{text[:TEXT_HEAD]}\n[… {omitted:,} characters left out …]\n{text[-TEXT_TAIL:]}"
    return harmless(fenced(text, "text"))


def trajectory_block(steps: Sequence[Step]) -> str:
    """How many steps of what kind, then the first and the last of them."""
    kinds = Counter(step.type for step in steps)
    calls = Counter(step.status or "unknown" for step in steps if step.type == "tool_call")
    bad = [f"{count:,} {status}" for status, count in calls.items() if status != "completed"]
    told = [_many(count, kind.replace("_", " ")) for kind, count in kinds.items()]
    summary = f"**Trajectory**: {', '.join(told)}" + (f" (calls: {', '.join(map(inline, bad))})" if bad else "")
    lines = [step_line(place, step) for place, step in enumerate(steps, 1)]
    omitted = len(lines) - STEPS_HEAD - STEPS_TAIL
    if omitted > 1:
        lines = [*lines[:STEPS_HEAD], f"    [… {omitted:,} steps left out …]", *lines[-STEPS_TAIL:]]
    return f"{summary}\n\n" + block("\n".join(lines))


def step_line(place: int, step: Step) -> str:
    """One step on one line."""
    if step.type == "tool_call":
        given = "" if step.input is None else _plain(step.input)
        text = f"{step.name or '?'} [{step.status or '?'}] {given}"
    elif step.type == "plan":
        text = f"{len(step.entries or ())} entries"
    else:
        text = step.content or ""
    return clip(f"{place:>3} {step.type:<9} {one_line(text, STEP_WIDTH)}".rstrip(), STEP_WIDTH)


def verdict_parts(item: Item) -> Iterator[str]:
    """What was said of the answer; where several have spoken, side by side."""
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
    """A verdict and, where several graders made it, each of theirs."""
    if row.score is None:  # pragma: no cover - only graded records are shown
        return
    yield _verdict_row(f"**{name}**", row.score, bool(row.grader_error))
    if row.scores and len(row.scores) > 1:
        for grader, grade in row.scores.items():
            yield _verdict_row(f"{name}: {inline(grader)}", grade, is_grader_error(row, grade))


def _verdict_row(name: str, grade: GraderResult, grader_error: bool) -> list[str]:
    return [name, verdict(grade, grader_error), inline(preview(grade.reasoning or "", CELL))]


def boxes(item: Item) -> str:
    """Where the reader ticks; ticked already where there is a label."""
    said = set(item.verdicts)
    meanings = MEANINGS[said.pop() if len(said) == 1 else None] | AMBIGUOUS
    word = None if item.human is None else "pass" if item.human else "fail"
    note = item.label.note if item.label else None
    label = Label(id=item.row.id, label=word, note=note, output_hash=output_hash(item.row.output))
    return review_block(label, meanings)
