"""html: a page: verdict or ranking, differences as a forest plot, every prompt with the trajectories of all runs

Two runs are before and after: the verdict, then the prompts that flipped. Three or more are alternatives: the ranking,
the front of quality and cost, each against each, the prompts as a strip, then one pair in full. Differences and ratios
are shown as the later run against the earlier one: right of the line means more. Figures are the report's; the records
of each prompt are read again from the files.

On which side a prompt is in a run (`sides`: it passes, it does not, it is not graded) is the same for tiles, chips,
filters and `flips`: counted from one text per prompt, and of two runs without a look at a third.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

from agenteval import __version__
from agenteval.comparison.figures import COST, GRADED, PAGE, PASS_RATE, Pair, Report, measures, ratios
from agenteval.comparison.pairing import BORDER, prompt_ids
from agenteval.comparison.preference import RecordIndex
from agenteval.comparison.ranking import MISSING, by_names, difference_of
from agenteval.comparison.row_table import RowFigures
from agenteval.comparison.rows import RunRows
from agenteval.comparison.verdicts import capitalized, headline, points, prompts_compared
from agenteval.errors import BadRecord
from agenteval.reports.drawing import front_plot, rate_scale
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
from agenteval.reports.run_columns import ranking_table, run_columns
from agenteval.statistics.intervals import bounds
from agenteval.streams.jsonl import encode
from agenteval.streams.rows import parse_row
from agenteval.streams.source import Source
from agenteval.streams.text import counted
from agenteval.wire.comparison import ComparisonReport, RunRanking, TrialsComparisonReport
from agenteval.wire.differences import Difference
from agenteval.wire.records import Interval, Record
from agenteval.wire.row import ERROR, FAIL, FLAKY, GRADER_ERROR, PASS, UNGRADED, RowWithCalls

WORSE, FIXED, SAME_PASS, SAME_FAIL, OTHER = "worse", "fixed", "both-pass", "both-fail", "not-compared"
SOME, NONE, ALL = "some-pass", "none-pass", "all-pass"  # of three runs or more
PROMPT_STATUSES = (WORSE, FIXED, SAME_FAIL, SAME_PASS, SOME, NONE, ALL, OTHER)
OF_TWO = {"10": WORSE, "01": FIXED, "00": SAME_FAIL, "11": SAME_PASS}
FIELDS = ("id", "status", "groups", "tools", "preview", "winner", "runs", "sides")
LETTERS = {PASS: "p", FAIL: "f", ERROR: "e", FLAKY: "l", UNGRADED: "u", GRADER_ERROR: "g", MISSING: "m"}
FRONT_WIDTH, FRONT_HEIGHT, MORE_HEIGHT = 440, 240, 15  # the plot is higher the more runs stand beside it
Lines = Mapping[str, bytes]  # the record of a prompt in each run, by the run's name
PromptRow = tuple[list[Any], str]
MOST_CATEGORIES = 40


def render(report: Report, context: ReportContext) -> Iterator[bytes]:
    """Yields the page: rows and figures, then the records of each prompt in all runs."""
    parts = document.PageParts("agenteval comparison")
    yield parts.head.encode()
    won, prompts = winners(report), context.prompts
    ids = in_order(report, prompts.ids)[: document.MOST_ROWS] if prompts else []
    failed = {label: frozenset(missing) for label, missing in (report.meta.counted_as_failed or {}).items()}
    rows, texts, statuses = document.ChunkWriter("rows"), document.ChunkWriter("texts"), Counter[str]()
    for id in ids:
        sides = with_missing_failed(prompts.sides(id), [id in failed.get(label, ()) for label in report.meta.runs])
        row, text = prompt_row(id, prompts.lines(id), report.meta.runs, context.by, won.get(id), sides)
        statuses[row[1]] += 1
        yield from rows.add_value(row)
        yield from texts.add_value(text)
    yield from rows.flush()
    yield from texts.flush()
    total = len(prompts.ids) if prompts else 0
    yield document.inline_json(
        "overview", page_data(report, context, statuses, total, len(ids)) | comparison_data(report, ids)
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
        "facts": [("In all runs", counted(report.meta.prompts_with_all_runs, "prompt"))],
        "made": f"agenteval {__version__}, {context.generated}",
        "source": context.source,
        "records": total,
        "listed": listed,
        "by": context.by.removeprefix("metadata."),
        "fields": FIELDS,
        "statuses": status_counts(statuses, PROMPT_STATUSES),
        "trajectories": True,
    }


# --- the top of the page ----------------------------------------------------------------------


def in_order(report: Report, ids: Sequence[str]) -> list[str]:
    """The prompts as listed: hardest first; for two runs, flipped prompts first, lost before gained."""
    if report.ranking:
        return [prompt.id for prompt in report.ranking.prompts]
    [flips] = [pair.flips for pair in report.statistics.pairs]
    lost, gained = frozenset(flips.only_a), frozenset(flips.only_b)
    return sorted(ids, key=lambda id: (id not in lost, id not in gained))


def winners(report: Report) -> dict[str, str | None]:
    """The run that won each prompt: the one with the better grade, if results are graded."""
    if isinstance(report, TrialsComparisonReport):
        return {prompt.id: prompt.winner for prompt in report.per_prompt}
    graded = _won_by_grade(report)
    return {prompt.id: prompt.quality_winner if graded else prompt.winner for prompt in report.head_to_head.prompts}


def _won_by_grade(report: ComparisonReport) -> bool:
    """Whether the page shows which run has the better grade, not which won by the strategy, where speed counts, too."""
    return report.meta.strategy != "custom" and any(pair.n for pair in report.head_to_head.quality or ())


def comparison_data(report: Report, ids: Sequence[str]) -> Record:
    """What the top of the page shows; `ids` are the prompts that are listed."""
    runs, many = report.meta.runs, report.ranking is not None
    return {
        "title": f"{len(runs)} runs, {counted(report.meta.prompt_count, 'prompt')}" if many else " → ".join(runs),
        "labels": runs,
        "ranking": ranking_data(report, report.ranking, ids) if report.ranking else None,
        "tiles": [] if many else [*run_tiles(report), *flip_tiles(report)],
        "winners": not many or not (isinstance(report, ComparisonReport) and _won_by_grade(report)),
        "verdicts": [
            {"a": pair.run_a, "b": pair.run_b, "better": pair.better, "headline": headline(pair)}
            | {"prompts": prompts_compared(pair, report), "sentences": pair.sentences}
            | {"onlyA": len(pair.flips.only_a), "onlyB": len(pair.flips.only_b)}
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


def flip_tiles(report: Report) -> list[Tile]:
    """How many prompts changed sides from the first run to the second; each leads to these."""
    [pair] = report.statistics.pairs
    note = "from the first run to the second"
    return [
        tile("Passed before, does not pass now", whole(len(pair.flips.only_a)), note) | {"filter": {"status": WORSE}},
        tile("Did not pass before, passes now", whole(len(pair.flips.only_b)), note) | {"filter": {"status": FIXED}},
    ]


def ranking_data(report: Report, ranking: RunRanking, ids: Sequence[str]) -> Record:
    """The ranking for the script: the cells as text, the plot as shapes, and a letter per prompt for each run."""
    titles, rows, estimated = ranking_table(ranking)
    runs, pairs = [one.run for one in ranking.runs], by_names(report.statistics.pairs)
    bounds_ = [bound for one in ranking.runs if one.interval for bound in (one.interval.low, one.interval.high)]
    scale = rate_scale(min(bounds_, default=0.0), max(bounds_, default=1.0), 0.0, 1.0)
    size = (FRONT_WIDTH, FRONT_HEIGHT + MORE_HEIGHT * min(len(runs), 16))
    listed = {prompt.id: prompt.statuses for prompt in islice(ranking.prompts, len(ids))}
    return {
        "measure": ranking.measure,
        "headline": capitalized(ranking.headline),
        "runs": runs,
        "titles": titles,
        "rows": rows,
        "estimated": estimated,
        "costOf": ("trial" if report.meta.input_format else "prompt") if COST.title in titles else None,
        "values": [[one.value, *(bounds(one.interval) or (None, None))] for one in ranking.runs],
        "scale": {"low": scale.low, "high": scale.high, "ticks": scale.ticks},
        "front": {"against": ranking.front.against, "runs": ranking.front.runs} if ranking.front else None,
        "shapes": front_plot(ranking, *size),
        "size": size,
        "matrix": [[matrix_cell(pairs, row, column) for column in runs] for row in runs],
        "pairs": len(report.statistics.pairs),
        "letters": ["".join(LETTERS[listed[id][run]] for id in ids) for run in runs],
    }


def matrix_cell(pairs: Mapping[tuple[str, str], Pair], row: str, column: str) -> tuple[str, int] | None:
    """The difference of two runs in points, and 1 or -1 where the row is shown to be better or worse; else 0."""
    if row == column:
        return None
    difference, better = difference_of(pairs, row, column)
    return points(difference).removesuffix(" points"), 0 if better is None else 1 if better == row else -1


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
    """The prompts of a comparison: their ids, what reads the lines of one from the files, and its sides."""

    ids: Sequence[str]
    lines: Callable[[str], Lines]
    sides: Callable[[str], str]


def prompt_lines(runs: Sequence[RunRows], sources: Sequence[Source]) -> PromptLines:
    """The prompts of the runs, read again from files that can be read twice."""
    indexes = {run.label: RecordIndex(source) for run, source in zip(runs, sources, strict=True)}

    def lines(id: str) -> Lines:
        return {run.label: indexes[run.label].line(run.rows[id].line) for run in runs if id in run.rows}

    return PromptLines(prompt_ids(runs), lines, lambda id: "".join(side(run.rows.get(id)) for run in runs))


def side(row: RowFigures | None) -> str:
    """1 if a run passes a prompt (of trials more often than not), 0 if it does not, - if it is not graded."""
    rate = row.pass_rate if row else None
    return "-" if rate is None else str(int(rate > BORDER))


def with_missing_failed(sides: str, failed: Sequence[bool]) -> str:
    """The sides, with prompts that a run lacks as not passed where the gate counts them so."""
    return "".join("0" if fails else one for one, fails in zip(sides, failed, strict=True))


def prompt_status(sides: str) -> str:
    """The status of a prompt in the graded runs: how it changed between two, in how many of several it passes."""
    if len(sides) == 2:
        return OF_TWO.get(sides, OTHER)
    graded = sides.replace("-", "")
    if len(graded) < 2:
        return OTHER
    return SOME if len(set(graded)) > 1 else ALL if graded[0] == "1" else NONE


def prompt_row(id: str, lines: Lines, labels: Sequence[str], by: str, winner: str | None, sides: str) -> PromptRow:
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
    preview = next((row.preview for row in rows if row.status != PASS), rows[0].preview if rows else "")
    return [id, prompt_status(sides), groups, list(tools), preview, winner, cells, sides], "\n".join(texts)


def _read(line: bytes, by: str) -> tuple[PageRow, str] | None:
    """The row of a record in one run, as in the table of that run, and what it is searched by."""
    try:
        row = parse_row(line, RowWithCalls, keys=[by])
    except BadRecord:
        return None  # a comparison needs fewer fields than a page
    return page_row(row, by), search_text(row)


def joined(id: str, lines: Lines) -> bytes:
    """The records of a prompt as one line; what is in them stays as it is."""
    runs = b",".join(encode(label) + b":" + line.strip() for label, line in lines.items())
    return b'{"id":%s,"runs":{%s}}' % (encode(id), runs)
