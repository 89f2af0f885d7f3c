"""The top of the page: what was run, tiles, rates by category and by grader, histograms; all figures are computed here.

The script of the page shows them and computes none, so that every report of the suite has the same figures.
"""

from __future__ import annotations

import math
import time
from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from agenteval.comparison.run_summary import COST, Grades, RunSummary, add_to_groups
from agenteval.errors import BadRecord
from agenteval.reports.answers import LATEST
from agenteval.reports.figures import duration_text, number, outcomes, percent, percent_span, whole
from agenteval.reports.page.rows import CountedNames, PageRow, page_row
from agenteval.statistics.samples import percentile
from agenteval.streams.text import clip, counted, first_few, one_line
from agenteval.wire.records import Interval, Record
from agenteval.wire.row import (
    AGENT,
    AGENT_VERSION,
    FLAKY,
    LABEL,
    MODEL,
    Number,
    Row,
    RowWithCalls,
    agent_name,
    first_text,
)

MOST_GROUPS = 200
NO_GROUP = ""
LONGEST_VALUE = 28
SCORE_BINS = 20  # from 0 to 1
BINS = 24
WIDE = 50  # a largest value so many times the smallest is shown on a log scale
MOST_VALUES = 100  # different values of one fact that are kept
SHOWN_VALUES = 4
LONGEST_FACT = 80
FACTS = {"Label": LABEL, "Agent": AGENT, "Model": MODEL, "Agent version": AGENT_VERSION}
Tile = dict[str, Any]


class Overview:
    """What the top of the page shows of a file of results, or of one of trials."""

    def __init__(self, by: str) -> None:
        self.records = 0
        self.trials = False  # whether the first record is one of trials
        self.facts = RunFacts()
        self.statuses: Counter[str] = Counter()
        self.summary = RunSummary()
        self.graders, self.checks = CountedNames(), CountedNames()
        self._check_grades: dict[str, Grades] = {}
        self._by = by
        self._groups: dict[str, RunSummary] = {}
        self._scores = [0] * SCORE_BINS
        self._tokens: array[float] = array("d")

    def add(self, row: RowWithCalls) -> PageRow:
        """Adds a record; returns its row. BadRecord if it is not of the same kind as the first."""
        if not self.records:
            self.trials = row.is_trials
        elif self.trials != row.is_trials:
            expected, found = ("trials", "a result") if self.trials else ("results", "a record of trials")
            raise BadRecord(f"the file has {expected}, and this is {found}: a page shows only one kind")
        shown = page_row(row, self._by, self.graders, self.checks)
        self.records += 1
        self.statuses[shown.status] += 1
        self.facts.add(row)
        self.summary.add(row)
        add_to_groups(self._groups, shown.groups or [NO_GROUP], row, MOST_GROUPS)
        for name, tally in zip(self.checks, shown.checks, strict=False):
            if tally is not None:
                passed, count, _ = tally
                self._check_grades.setdefault(name, Grades()).add(passed, [1.0] * passed + [0.0] * (count - passed))
        for attempt in row.attempts:
            if attempt.tokens is not None and attempt.tokens >= 0:
                self._tokens.append(attempt.tokens)
            if attempt.grade is not None and attempt.given_score is not None:
                self._scores[min(int(attempt.grade.score * SCORE_BINS), SCORE_BINS - 1)] += 1  # the last includes 1
        return shown

    def page_data(self) -> Record:
        """All figures, for the script."""
        return {
            "kind": "trials" if self.trials else "results",
            "noun": "prompt" if self.trials else "record",
            "title": self.facts.title() or "Evaluation",
            "facts": self.facts.shown(),
            "tiles": list(self.tiles()),
            "graders": [rate_bar(name, grades, grades.interval) for name, grades in self.summary.graders.items()],
            "checks": [rate_bar(name, grades, grades.interval) for name, grades in self._check_grades.items()],
            "columns": {"graders": self.graders.counted(), "checks": self.checks.counted()},
            "groups": [
                rate_bar(name, group.overall(), group.interval)
                | {"records": group.prompts, "errors": group.agent_failures}
                for name, group in sorted(self._groups.items())
            ],
            "scores": self._scores if any(self._scores) else None,
            "durations": plot(self.summary.durations, duration_text),
            "tokens": plot(self._tokens, whole),
        }

    def tiles(self) -> Iterator[Tile]:
        """The tiles: how often answers pass, how steadily, and at what cost."""
        summary, noun = self.summary, "trial" if self.trials else "record"
        yield from self._rate_tiles()
        yield tile("Agents failed", whole(summary.agent_failures), f"of {counted(summary.records, noun)}")
        reasons = outcomes(ungraded=summary.ungraded, grader_errors=summary.grader_errors).strip(" ()")
        ungraded = summary.ungraded + summary.grader_errors
        if summary.labelled:
            yield tile("By a person", whole(summary.labelled), f"{summary.overruled:,} overrule the graders")
        yield tile("Ungraded", whole(ungraded), reasons or f"every {noun} has a grade")
        yield tokens_tile(summary)
        if (cost := summary.measured[COST]).count:
            yield tile("Cost", f"${cost.total:,.2f}", f"mean ${cost.value:,.4f} over {cost.count:,}")
        else:
            yield tile("Cost", None, "not reported")
        if ordered := sorted(summary.durations):
            p50, p90 = (duration_text(percentile(ordered, p) or 0) for p in (0.5, 0.9))
            yield tile("Latency p50 / p90", f"{p50} / {p90}", f"over {len(ordered):,}")
        else:
            yield tile("Latency", None, "no times recorded")

    def _rate_tiles(self) -> Iterator[Tile]:
        grades, interval, trials = self.summary.overall(), self.summary.interval, self.summary.trials
        if not grades.count:
            yield tile("Pass rate", None, "nothing is graded")
            return
        of = counted(grades.count, "trial") if trials else f"{grades.count:,}"
        note = f"{grades.passed:,} of {of} passed; 95% interval {percent_span(interval)}"
        yield tile("Pass rate", percent(grades.rate), note, interval, grades.rate)
        if trials:
            k = trials.k
            at, every = (trials.estimate(sign, k) for sign in "@^")
            over = at.over if at else "over 0 prompts"
            yield tile(f"pass@{k}", percent(at.value if at else None), f"at least one of {k} passes, {over}")
            yield tile(f"pass^{k}", percent(every.value if every else None), f"all {k} pass, {over}")
            yield tile("Flaky prompts", whole(self.statuses[FLAKY]), f"of {counted(trials.prompts, 'prompt')}")


def tile(name: str, value: str | None, note: str = "", interval: Interval | None = None, rate: Any = None) -> Tile:
    """A tile; its value is None if it is not known."""
    value = None if value is None else clip(value, LONGEST_VALUE)  # an agent may report 1e308 tokens
    return {"name": name, "value": value, "note": note, "interval": interval, "rate": rate}


def tokens_tile(summary: RunSummary) -> Tile:
    """The tokens in total, those that agents read and those that they wrote."""
    sums = {what: summary.measured[f"{what}put_tokens"] for what in ("in", "out")}
    known = {what: mean for what, mean in sums.items() if mean.count}
    if not known:
        return tile("Tokens", None, "not reported")
    split = ", ".join(f"{whole(mean.total)} {what}" for what, mean in known.items())
    over = f"over {max(mean.count for mean in known.values()):,}"
    return tile("Tokens", whole(sum(mean.total for mean in known.values())), f"{split} {over}")


# --- bars and histograms ------------------------------------------------------------------------


def rate_bar(name: str, grades: Grades, interval: Interval | None) -> Record:
    """A pass rate with its interval, and the mean score."""
    interval = interval if grades.count else None
    return {
        "name": name,
        "passed": grades.passed,
        "count": grades.count,
        "rate": grades.rate,
        "interval": interval,
        "mean": number(grades.score.value) if grades.count else "",
        "shown": percent(grades.rate) if grades.count else "not graded",
        "sure": percent_span(interval) if interval else "",
    }


def plot(values: array[float], shown: Callable[[float], str]) -> Record | None:
    """A histogram with its edges as text; None if there is no value. Of equal values there is only the text."""
    if not values:
        return None
    if min(values) == max(values):
        return {"same": clip(shown(values[0]), LONGEST_VALUE), "count": len(values)}
    edges, counts, log = histogram(values)
    ordered = sorted(values)
    marks = [(name, percentile(ordered, p) or 0) for name, p in (("p50", 0.5), ("p90", 0.9))]
    return {
        "edges": edges,
        "labels": [clip(shown(edge), LONGEST_VALUE) for edge in edges],
        "counts": counts,
        "log": log,
        "marks": [{"name": name, "value": value, "shown": clip(shown(value), LONGEST_VALUE)} for name, value in marks],
    }


def status_counts(statuses: Counter[str], order: Sequence[str]) -> list[tuple[str, int]]:
    """The number of records with each status, in that order."""
    return [(status, statuses[status]) for status in order if statuses[status]]


def histogram(values: Sequence[float], bins: int = BINS) -> tuple[list[float], list[int], bool]:
    """Edges (one more than bins), counts, and whether the scale is logarithmic, for non-negative values."""
    low, high = min(values), max(values)
    positive = low if low > 0 else min((value for value in values if value > 0), default=0.0)
    log = positive > 0 and high / positive > WIDE
    if low == high:
        bins = 1
    if log:
        step = math.log(high / positive) / bins
        edges = [*(positive * math.exp(step * at) for at in range(bins)), high]
    else:
        edges = [low + (high - low) * (at / bins) for at in range(bins + 1)]
    counts = [0] * bins
    for value in values:
        counts[min(max(bisect_right(edges, value) - 1, 0), bins - 1)] += 1
    return edges, counts, log


# --- what was run -------------------------------------------------------------------------------


class RunFacts:
    """Gathers facts from the metadata and the times of records; memory does not grow with their number."""

    def __init__(self) -> None:
        self._values: dict[str, Counter[str]] = {name: Counter() for name in FACTS}
        self._records = 0
        self.run = ""  # the id of the run, or of the first of several
        self.start: Number | None = None
        self._end: Number | None = None

    def add(self, row: Row) -> None:
        """Adds one record."""
        self._records += 1
        self.run = self.run or first_text(row.metadata or {}, ("runId",)) or ""
        for name, keys in FACTS.items() if row.metadata else ():
            metadata = row.metadata or {}
            value = agent_name(metadata) if name == "Agent" else first_text(metadata, keys)
            counter = self._values[name]
            if value is not None and (value in counter or len(counter) < MOST_VALUES):
                counter[value[: 2 * LONGEST_FACT]] += 1
        for timing in (attempt.timing for attempt in row.attempts):
            if timing.start is not None and 0 < timing.start < LATEST:
                self.start = timing.start if self.start is None else min(self.start, timing.start)
            if timing.end is not None and 0 < timing.end < LATEST:
                self._end = timing.end if self._end is None else max(self._end, timing.end)

    def title(self) -> str:
        """The label of the run, else the agent and the model that most records name; "" if there is none.

        A label that only some records have is a field of the prompts.
        """
        most = {name: counter.most_common(1)[0] for name, counter in self._values.items() if counter}
        label, count = most.get("Label", ("", 0))
        names = [label] if count == self._records else [most[name][0] for name in ("Agent", "Model") if name in most]
        return one_line(", ".join(names), LONGEST_FACT)[:LONGEST_FACT] if "Agent" in most or label else ""

    def shown(self) -> list[tuple[str, str]]:
        """Names and values for the top of the page."""
        facts = []
        for name, counter in self._values.items():
            values = [one_line(value, LONGEST_FACT)[:LONGEST_FACT] for value, _ in counter.most_common()]
            if values:
                facts.append((name + ("s" if len(values) > 1 else ""), first_few(values, SHOWN_VALUES)))
        for name, at in (("Started", self.start), ("Ended", self._end)):
            if at is not None:
                facts.append((name, time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(at / 1000))))
        return facts
