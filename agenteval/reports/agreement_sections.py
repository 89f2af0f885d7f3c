"""How far a grader agrees with a person, as sections of markdown."""

from __future__ import annotations

from agenteval.reports.figures import UNKNOWN, number, percent, percent_span, span, whole
from agenteval.reports.markup import table
from agenteval.streams.text import counted
from agenteval.wire.calibration import Agreement, CorrectedPassRate

BEYOND_CHANCE = {"kappa": "Cohen's kappa (0: chance, 1: perfect)", "ac1": "Gwet's AC1 (0: chance, 1: perfect)"}
VERDICTS = {"passes": "failures", "failures": "passes"}


def pass_rate_section(found: CorrectedPassRate | None) -> list[str]:
    """The pass rate of the run as the person would grade it, beside the recorded one; nothing without labels."""
    if found is None or not found.labelled_passes + found.labelled_failures:
        return []
    recorded = f"The grader passed {percent(found.recorded)} of {counted(found.n, 'record')}."
    if found.corrected is None:
        missing = "failure" if found.labelled_passes else "pass"
        return [f"## Pass rate\n\n{recorded} What a person would pass is not known: no recorded {missing} has a label."]
    estimated = f"**A person would pass {percent(found.corrected)}** (95 % interval {percent_span(found.interval)})"
    labels = f"{found.labelled_passes:,} of recorded passes and {found.labelled_failures:,} of recorded failures"
    return [f"## Pass rate\n\n{recorded} {estimated}, estimated from labels: {labels}."]


def agreement_section(recorded: Agreement, rescored: Agreement | None) -> str:
    """How well each grader agrees with the labels, side by side."""
    columns = [("recorded", recorded)] + ([("second grader", rescored)] if rescored else [])
    rows = [figure_cells(*row) for row in zip(*(figures(found) for _, found in columns), strict=True)]
    titles = [title for name, _ in columns for title in (name.capitalize(), "95 % interval", "Labels")]
    parts = ["## Agreement with the labels", basis(recorded), "\n".join(table(["Figure", *titles], rows))]
    for name, found in columns:
        title = "The recorded verdict" if name == "recorded" else f"The {name}'s verdict"
        counts = found.table
        passes, failures = (counts.true_pass, counts.false_pass), (counts.false_fail, counts.true_fail)
        parts.append(two_by_two(title, "Human", passes, failures))
    return "\n\n".join(part for part in parts if part)


Row = tuple[str, str, str, int]


def figures(found: Agreement) -> list[Row]:
    """Name, value, interval and number of labels of each figure."""
    counts, n = found.table, found.n
    on = "" if found.scope == "all" or not n else f" on {found.scope}"
    rows = [("Labelled records (n)", whole(n), UNKNOWN, n)]
    rows.append((f"Agreement{on}", percent(found.agreement), percent_span(found.interval), n))
    for field, name in BEYOND_CHANCE.items():
        rows.append((name, number(getattr(found, field)), span(getattr(found.intervals, field)), n))
    for field, name, labels in (
        ("human_pass_rate", "Base rate: human passes", n),
        ("grader_pass_rate", "Grader passes", n),
        ("precision", "Precision: of the grader's passes, the human's", counts.grader_passes),
        ("recall", "Recall: of the human's passes, the grader's", counts.human_passes),
        ("failure_precision", "Precision of failures", n - counts.grader_passes),
        ("failure_recall", "Recall of failures", n - counts.human_passes),
    ):
        rows.append((name, percent(getattr(found, field)), percent_span(getattr(found.intervals, field)), labels))
    return rows


def figure_cells(*columns: Row) -> list[str]:
    """The row of one figure: value, interval and labels of each grader."""
    cells = [columns[0][0]]
    for _, value, interval, labels in columns:
        cells += [value, interval, whole(labels) if value != UNKNOWN else UNKNOWN]
    return cells


def basis(found: Agreement) -> str:
    """What the figures are about, in words."""
    if not found.n:
        return ""
    if found.scope == "all":
        return (
            "The figures are about all graded records: each label counts for its share of the records with the same "
            "recorded verdict. They hold if, of each verdict, the labelled records were drawn at random."
        )
    other = VERDICTS[found.scope]
    return (
        f"All labelled records are recorded as {found.scope}: this tells nothing about the grader's {other}, so that "
        f"recall, kappa and the pass rate are not known. Draw from all records with `--all`."
    )


def two_by_two(recorded: str, other: str, passes: tuple[int, int], failures: tuple[int, int]) -> str:
    """Counts by two verdicts: how many of the passes, and of the failures, the other passes and fails."""
    rows = [["pass", *map(whole, passes)], ["fail", *map(whole, failures)]]
    return "\n".join(table([recorded, f"{other}: pass", f"{other}: fail"], rows))
