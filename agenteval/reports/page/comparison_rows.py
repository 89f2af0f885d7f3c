"""One row per prompt for the table of a comparison: what each run did with it, flips first."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from agenteval.comparison.pairing import prompt_ids
from agenteval.comparison.preference import RecordIndex
from agenteval.comparison.rows import RunRows
from agenteval.errors import BadRecord
from agenteval.reports.page.rows import PageRow, page_row, search_text
from agenteval.streams.rows import parse_row
from agenteval.streams.source import Source
from agenteval.wire.row import GRADER_ERROR, PASS, UNGRADED, RowWithCalls

WORSE, FIXED, MIXED, SAME_PASS, SAME_FAIL, OTHER = "worse", "fixed", "mixed", "both-pass", "both-fail", "not-compared"
STATUSES = (WORSE, MIXED, FIXED, SAME_FAIL, SAME_PASS, OTHER)
FIELDS = ("id", "status", "groups", "tools", "preview", "winner", "runs")
Lines = Mapping[str, bytes]  # the record of a prompt in each run, by the run's name
Row = tuple[list[Any], str]


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


class RunCell(msgspec.Struct, array_like=True):
    """What one run did with a prompt."""

    status: str
    score: float | None
    duration: float | None
    tokens: float | None
    cost: float | None
    passed: int | None
    graded: int | None


class FlippedIds(NamedTuple):
    """Prompts that the first run passed and another did not, and the other way round."""

    lost: frozenset[str]
    gained: frozenset[str]

    def first(self, ids: Iterable[str]) -> list[str]:
        """The ids with those of the flips first: lost, both, gained, then all others."""
        return sorted(ids, key=lambda id: (id not in self.lost, id not in self.gained))


def flip_status(statuses: Sequence[str], gained: bool, lost: bool) -> str:
    """How a prompt changed from the first run to the others, given whether any of them gained or lost it."""
    if len(statuses) < 2 or UNGRADED in statuses or GRADER_ERROR in statuses:
        return OTHER
    if gained or lost:
        return MIXED if gained and lost else FIXED if gained else WORSE
    return SAME_PASS if PASS in statuses else SAME_FAIL


def prompt_row(id: str, lines: Lines, labels: Sequence[str], by: str, winner: str | None, flips: FlippedIds) -> Row:
    """The row of a prompt and what it is searched by; a run that lacks it has no cell."""
    cells: list[RunCell | None] = []
    rows, texts, tools, groups = [], [], dict[str, None](), list[str]()
    for label in labels:
        found = _read(lines[label], by) if label in lines else None
        if found is None:
            cells.append(None)
            continue
        row, text = found
        cells.append(RunCell(row.status, row.score, row.duration, row.tokens, row.cost, row.passed, row.graded))
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
        row = parse_row(line, RowWithCalls)
    except BadRecord:
        return None  # a comparison needs fewer fields than a page
    return page_row(row, by), search_text(row)


def joined(id: str, lines: Lines) -> bytes:
    """The records of a prompt as one line; what is in them stays as it is."""
    runs = b",".join(msgspec.json.encode(label) + b":" + line.strip() for label, line in lines.items())
    return b'{"id":%s,"runs":{%s}}' % (msgspec.json.encode(id), runs)
