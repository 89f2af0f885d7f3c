"""What was run: the agents, models and versions that the records name, and when."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable

from agenteval.streams.text import first_few, one_line
from agenteval.wire.records import Record
from agenteval.wire.result_view import Measured, Number

MOST_VALUES = 100  # different values of one fact that are kept
SHOWN_VALUES = 4
LONGEST_VALUE = 80
FACTS = {
    "Agent": ("agent",),
    "Model": ("model", "modelName", "model_name"),
    "Agent version": ("agentVersion", "agent_version", "version"),
}
LATEST = 253_402_300_799_000  # the end of the year 9999, in milliseconds: the last that can be written as a date


class RunFacts:
    """Gathers facts from the metadata and the times of records; memory does not grow with their number."""

    def __init__(self) -> None:
        self._values: dict[str, Counter[str]] = {name: Counter() for name in FACTS}
        self._start: Number | None = None
        self._end: Number | None = None

    def add(self, metadata: Record | None, timings: Iterable[Measured | None]) -> None:
        """Adds one record."""
        notes = metadata or {}
        for name, keys in FACTS.items() if notes else ():
            value = next((found for key in keys if isinstance(found := notes.get(key), str) and found), None)
            counter = self._values[name]
            if value is not None and (value in counter or len(counter) < MOST_VALUES):
                counter[value[: 2 * LONGEST_VALUE]] += 1
        for timing in timings:
            if timing is None:
                continue
            if timing.start is not None and 0 < timing.start < LATEST:
                self._start = timing.start if self._start is None else min(self._start, timing.start)
            if timing.end is not None and 0 < timing.end < LATEST:
                self._end = timing.end if self._end is None else max(self._end, timing.end)

    def agent(self) -> str:
        """The agent that most records name; "" if none does."""
        most = self._values["Agent"].most_common(1)
        return one_line(most[0][0], LONGEST_VALUE)[:LONGEST_VALUE] if most else ""

    def shown(self) -> list[tuple[str, str]]:
        """Names and values for the top of the page."""
        facts = []
        for name, counter in self._values.items():
            values = [one_line(value, LONGEST_VALUE)[:LONGEST_VALUE] for value, _ in counter.most_common()]
            if values:
                facts.append((name + ("s" if len(values) > 1 else ""), first_few(values, SHOWN_VALUES)))
        if self._start is not None:
            facts.append(("Started", utc(self._start)))
        if self._end is not None:
            facts.append(("Ended", utc(self._end)))
        return facts


def utc(milliseconds: Number) -> str:
    """A time in UTC, to the second."""
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(milliseconds / 1000))
