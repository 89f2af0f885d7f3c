"""html: a page: verdicts, differences as a forest plot, flips first, both trajectories side by side

Differences and ratios are shown as the later run against the earlier one: right of the line means more. Figures are the
report's; the records of each prompt are read again from the files.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import msgspec

from agenteval import __version__
from agenteval.comparison.figures import GRADED, PAGE, PASS_RATE, Report, measures, ratios
from agenteval.comparison.pairing import prompt_ids
from agenteval.comparison.preference import RecordIndex
from agenteval.comparison.rows import RunRows
from agenteval.comparison.verdicts import headline, points
from agenteval.errors import BadRecord
from agenteval.reports.figures import (
    number,
    percent,
    percent_span,
    whole,
)
from agenteval.reports.forms import ReportContext
from agenteval.reports.page import document
from agenteval.reports.page.overview import Tile, status_counts, tile
from agenteval.reports.page.rows import PageRow, page_row, search_text
from agenteval.reports.run_columns import run_columns
from agenteval.statistics.intervals import bounds
from agenteval.streams.rows import parse_row
from agenteval.streams.source import Source
from agenteval.wire.comparison import ComparisonReport, TrialsComparisonReport
from agenteval.wire.differences import Difference
from agenteval.wire.records import Interval, Record
from agenteval.wire.row import GRADER_ERROR, PASS, UNGRADED, RowWithCalls

WORSE, FIXED, MIXED, SAME_PASS, SAME_FAIL, OTHER = "worse", "fixed", "mixed", "both-pass", "both-fail", "not-compared"
FLIP_STATUSES = (WORSE, MIXED, FIXED, SAME_FAIL, SAME_PASS, OTHER)
FIELDS = ("id", "status", "groups", "tools", "preview", "winner", "runs")
Lines = Mapping[str, bytes]  # the record of a prompt in each run, by the run's name
PromptRow = tuple[list[Any], str]
MOST_CATEGORIES = 40


class FlippedIds(NamedTuple):
    """Prompts that the first run passed and another did not, and the other way round."""

    lost: frozenset[str]
    gained: frozenset[str]

    def first(self, ids: Iterable[str]) -> list[str]:
        """The ids with those of the flips first: lost, both, gained, then all others."""
        return sorted(ids, key=lambda id: (id not in self.lost, id not in self.gained))


def render(report: Report, context: ReportContext) -> Iterator[bytes]:
    """Yields the page: rows and figures, then the records of each prompt in all runs."""
    parts = document.PageParts("agenteval comparison")
    yield parts.head.encode()
    flips, won, prompts = flipped(report), winners(report), context.prompts
    ids = flips.first(prompts.ids)[: document.MOST_ROWS] if prompts else []
    rows, texts, statuses = document.ChunkWriter("rows"), document.ChunkWriter("texts"), Counter[str]()
    for id in ids:
        row, text = prompt_row(id, prompts.lines(id), report.meta.runs, context.by, won.get(id), flips)
        statuses[row[1]] += 1
        yield from rows.add_value(row)
        yield from texts.add_value(text)
    yield from rows.flush()
    yield from texts.flush()
    total = len(prompts.ids) if prompts else 0
    yield document.inline_json(
        "overview", page_data(report, context, statuses, total, len(ids)) | comparison_data(report, flips)
    )
    yield parts.script.encode()
    room = document.PageRoom()
    for id in ids:
        yield from room.add(joined(id, prompts.lines(id)))
    yield from room.finish()
    yield parts.tail.encode()
    document.say_what_is_missing(total, len(ids), room.left_out, context, document.FEWER_PROMPTS)


def page_data(
    report: Report, context: ReportContext, statuses: Counter[str], total: int, listed: int
) -> dict[str, object]:
    """What the script needs besides the figures."""
    return {
        "kind": "comparison",
        "noun": "prompt",
        "facts": [("Runs", str(len(report.meta.runs))), ("In all runs", f"{report.meta.prompts_with_all_runs:,}")],
        "made": f"agenteval {__version__}, {context.generated}",
        "source": context.source,
        "records": total,
        "listed": listed,
        "by": context.by.removeprefix("metadata."),
        "fields": FIELDS,
        "statuses": status_counts(statuses, FLIP_STATUSES),
        "trajectories": True,
    }


# --- the top of the page ----------------------------------------------------------------------


def flipped(report: Report) -> FlippedIds:
    """The prompts that changed sides between the first run and another."""
    first = report.meta.runs[0] if report.meta.runs else ""
    pairs = [pair.flips for pair in report.statistics.pairs if pair.run_a == first]
    return FlippedIds(
        frozenset(id for flips in pairs for id in flips.only_a), frozenset(id for flips in pairs for id in flips.only_b)
    )


def winners(report: Report) -> dict[str, str | None]:
    """The run that won each prompt: the one with the better grade, if results are graded."""
    if isinstance(report, TrialsComparisonReport):
        return {prompt.id: prompt.winner for prompt in report.per_prompt}
    graded = _won_by_grade(report)
    return {prompt.id: prompt.quality_winner if graded else prompt.winner for prompt in report.head_to_head.prompts}


def _won_by_grade(report: ComparisonReport) -> bool:
    """Whether the page shows who has the better grade, and not who won by the strategy: a millisecond is no win."""
    return report.meta.strategy != "custom" and any(pair.n for pair in report.head_to_head.quality or ())


def comparison_data(report: Report, flips: FlippedIds) -> Record:
    """What the top of the page shows."""
    runs = report.meta.runs
    return {
        "title": " → ".join(runs),
        "labels": runs,
        "tiles": [*run_tiles(report), *flip_tiles(flips, len(runs))],
        "verdicts": [
            {"a": pair.run_a, "b": pair.run_b, "better": pair.better, "headline": headline(pair), "n": pair.n}
            | {"sentences": pair.sentences}
            for pair in report.statistics.pairs
        ],
        "differences": list(differences(report)),
        "ratios": list(ratio_bars(report)),
        "wins": wins(report),
        "table": dict(zip(("heads", "rows"), run_columns(report, PAGE), strict=True)),
        "groups": [],
        "graders": [],
        "scores": None,
        "durations": None,
        "tokens": None,
    }


def run_tiles(report: Report) -> Iterator[Tile]:
    """The pass rate of each run."""
    for label in report.meta.runs:
        rate, interval = PASS_RATE.value(report, label), bounds(PASS_RATE.interval_of(report, label))
        n = GRADED.value(report, label)
        over = f"over {n:,}; 95% interval {percent_span(interval)}" if interval else "nothing is graded"
        yield tile(f"{label}: pass rate", None if rate is None else percent(rate), over, interval, rate)


def flip_tiles(flips: FlippedIds, runs: int) -> list[Tile]:
    """How many prompts changed sides."""
    note = "from the first run to the second" if runs == 2 else "from the first run to any other"
    return [
        tile("Passed before, does not pass now", whole(len(flips.lost)), note),
        tile("Did not pass before, passes now", whole(len(flips.gained)), note),
    ]


def differences(report: Report) -> Iterator[Record]:
    """Every difference with its interval: pass rates, scores, pass^k, then pass rates by category."""
    for pair in report.statistics.pairs:
        for measure in sorted(measures(pair), key=lambda measure: measure.name.startswith("pass^")):
            yield difference_bar(measure.name, "", measure.difference)
    for category, group in list((report.by_category or {}).items())[:MOST_CATEGORIES]:
        for difference in group.pairs:
            yield difference_bar("Pass rate", category, difference)


def difference_bar(name: str, category: str, found: Difference) -> Record:
    """One line of the forest plot, as B minus A."""
    return plot_bar(
        name, found, found.n, found.change, found.change_interval, points, category=category, better=found.better
    )


def plot_bar(
    name: str, pair: Any, n: int, value: Any, interval: Interval | None, show: Callable[[Any], str], **more: Any
) -> Record:
    """One line of a plot: a value with its interval."""
    sure = f"{show(interval[0])} to {show(interval[1])}" if interval else ""
    figures = {"value": value, "interval": interval, "shown": show(value), "sure": sure, "n": n}
    return {"name": name, "category": "", "a": pair.run_a, "b": pair.run_b, **figures, "better": None, **more}


def ratio_bars(report: Report) -> Iterator[Record]:
    """Time, tokens and cost of B as a multiple of A's."""
    for pair in report.statistics.pairs:
        for name, _, found in sorted(ratios(pair), key=lambda ratio: ratio[0] != "Time"):
            low, high = bounds(found.interval) or (0.0, 0.0)
            interval = (1 / high, 1 / low) if low > 0 and high > 0 else None
            value = 1 / (found.ratio or 1.0)
            show = partial(number, digits=2)
            yield plot_bar(name, pair, found.n, value, interval, show, shown=f"{show(value)} ×")


def wins(report: Report) -> list[Record]:
    """Prompts won by each of two runs."""
    if isinstance(report, TrialsComparisonReport):
        found: Sequence[Any] = report.head_to_head.overall
    else:
        found = (_won_by_grade(report) and report.head_to_head.quality) or report.head_to_head.pairwise
    return [
        {"a": pair.run_a, "b": pair.run_b, "aWins": pair.a_wins, "bWins": pair.b_wins, "ties": pair.ties}
        for pair in found
    ]


# --- a row per prompt -------------------------------------------------------------------------


class PromptLines(NamedTuple):
    """The prompts of a comparison: their ids, and what reads the lines of one from the files."""

    ids: Sequence[str]
    lines: Callable[[str], Lines]


def prompt_lines(runs: Sequence[RunRows], sources: Sequence[Source]) -> PromptLines:
    """The prompts of the runs, read again from files that can be read twice."""
    indexes = {run.label: RecordIndex(source) for run, source in zip(runs, sources, strict=True)}

    def lines(id: str) -> Lines:
        return {run.label: indexes[run.label].line(run.rows[id].line) for run in runs if id in run.rows}

    return PromptLines(prompt_ids(runs), lines)


def flip_status(statuses: Sequence[str], gained: bool, lost: bool) -> str:
    """How a prompt changed from the first run to the others, given whether any of them gained or lost it."""
    missing = len(statuses) < 2 and not lost  # in a gate it counts as not passed
    if missing or UNGRADED in statuses or GRADER_ERROR in statuses:
        return OTHER
    if gained or lost:
        return MIXED if gained and lost else FIXED if gained else WORSE
    return SAME_PASS if PASS in statuses else SAME_FAIL


def prompt_row(
    id: str, lines: Lines, labels: Sequence[str], by: str, winner: str | None, flips: FlippedIds
) -> PromptRow:
    """The row of a prompt and what it is searched by; a run that lacks it has no cell."""
    cells: list[Any] = []
    rows, texts, tools, groups = [], [], dict[str, None](), list[str]()
    for label in labels:
        found = _read(lines[label], by) if label in lines else None
        if found is None:
            cells.append(None)
            continue
        row, text = found
        cells.append([row.status, row.score, row.duration, row.tokens, row.cost, row.passed, row.graded])
        rows.append(row)
        texts.append(text)
        tools |= dict.fromkeys(row.tools)
        groups = groups or row.groups
    status = flip_status([row.status for row in rows], id in flips.gained, id in flips.lost)
    preview = next((row.preview for row in rows if row.status != PASS), rows[0].preview if rows else "")
    return [id, status, groups, list(tools), preview, winner, cells], "\n".join(texts)


def _read(line: bytes, by: str) -> tuple[PageRow, str] | None:
    """The row of a record in one run, as in the table of that run, and what it is searched by."""
    try:
        row = parse_row(line, RowWithCalls, keys=[by])
    except BadRecord:
        return None  # a comparison needs fewer fields than a page
    return page_row(row, by), search_text(row)


def joined(id: str, lines: Lines) -> bytes:
    """The records of a prompt as one line; what is in them stays as it is."""
    runs = b",".join(msgspec.json.encode(label) + b":" + line.strip() for label, line in lines.items())
    return b'{"id":%s,"runs":{%s}}' % (msgspec.json.encode(id), runs)
