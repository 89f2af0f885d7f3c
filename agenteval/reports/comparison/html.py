"""html: a page: verdicts, differences as a forest plot, flips first, both trajectories side by side"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from agenteval import __version__
from agenteval.comparison.figures import Report
from agenteval.reports.forms import ReportContext
from agenteval.reports.page.comparison_overview import comparison_data, flipped, winners
from agenteval.reports.page.comparison_rows import FIELDS, STATUSES, joined, prompt_row
from agenteval.reports.page.document import (
    FEWER_PROMPTS,
    MOST_ROWS,
    ChunkWriter,
    PageParts,
    PageRoom,
    inline_json,
    say_what_is_missing,
)
from agenteval.reports.page.overview import status_counts


def render(report: Report, context: ReportContext) -> Iterator[bytes]:
    """Yields the page: rows and figures, then the records of each prompt in all runs."""
    parts = PageParts("agenteval comparison")
    yield parts.head.encode()
    flips, won = flipped(report), winners(report)
    prompts = context.prompts
    ids = flips.first(prompts.ids)[:MOST_ROWS] if prompts else []
    rows, texts, statuses = ChunkWriter("rows"), ChunkWriter("texts"), Counter[str]()
    for id in ids:
        row, text = prompt_row(id, prompts.lines(id), report.meta.runs, context.by, won.get(id), flips)
        statuses[row[1]] += 1
        yield from rows.add_value(row)
        yield from texts.add_value(text)
    yield from rows.flush()
    yield from texts.flush()
    total = len(prompts.ids) if prompts else 0
    yield inline_json(
        "overview", page_data(report, context, statuses, total, len(ids)) | comparison_data(report, flips)
    )
    yield parts.script.encode()
    room = PageRoom()
    for id in ids:
        yield from room.add(joined(id, prompts.lines(id)))
    yield from room.finish()
    yield parts.tail.encode()
    say_what_is_missing(total, len(ids), room.left_out, context, FEWER_PROMPTS)


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
        "statuses": status_counts(statuses, STATUSES),
        "trajectories": True,
    }
