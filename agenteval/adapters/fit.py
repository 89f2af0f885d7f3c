"""Notices that a schema takes nothing from what the agents print, and which bundled schemas would."""

from __future__ import annotations

from _thread import allocate_lock
from collections.abc import Callable

from agenteval.adapters.bundled import bundled_adapters, load_adapter
from agenteval.wire.records import Record

FIRST = 3  # records from which nothing is taken before it is reported
SAMPLE = 200  # lines of each that other schemas are tried on
LONGEST = 1 << 16  # characters of such a line
NAMED = 3  # schemas that are named


class SchemaFit:
    """Looks at the first records that have lines; `say` gets one warning if the schema took nothing from any."""

    def __init__(self, schema: str, say: Callable[[str], None]) -> None:
        self.schema, self.say = schema, say
        self.decided = False
        self._samples: list[list[str]] = []
        self._failed = 0  # of them, agents that failed: there may have been nothing to take
        self._lock = allocate_lock()

    def add(self, raw: Record, result: Record) -> None:
        """Takes note of what was read in a record; warns after the third from which nothing was."""
        if self.decided:
            return
        lines = [line for line in raw["rawLines"][:SAMPLE] if line.strip() and len(line) < LONGEST]
        recorded = len(raw.get("errors") or ()) + bool(raw.get("error"))
        found = result["trajectory"] or result["output"] or len(result.get("errors") or ()) > recorded
        with self._lock:
            if found:
                self.decided = True
            elif lines and not self.decided:
                self._samples.append(lines)
                self._failed += recorded > 0
                if len(self._samples) == FIRST:
                    self._warn()

    def finish(self) -> None:
        """Warns at the end of a run of fewer records."""
        with self._lock:
            if self._samples and not self.decided:
                self._warn()

    def _warn(self) -> None:
        self.decided = True
        count = len(self._samples)
        others = matching_schemas(self._samples)
        if self._failed == count and not others:
            return  # why the agents failed is reported elsewhere
        where = "the record" if count == 1 else f"the first {count} records"
        advice = f"; bundled schemas that match them: {', '.join(others)}" if others else ""
        explain = "ae-extract --explain shows why"
        self.say(f"the schema {self.schema} takes nothing from the lines of {where}{advice} ({explain})")


def matching_schemas(samples: list[list[str]]) -> list[str]:
    """Returns the bundled schemas that take something from all of these records, the ones that take most first.

    A schema that takes any text for the answer is named only if no line is JSON.
    """
    taken: dict[str, int] = {}
    for name in bundled_adapters():
        adapter = load_adapter(name)
        if adapter.reads_text:
            continue
        readings = [adapter.read(lines) for lines in samples]
        if all(reading.trajectory or reading.output or reading.errors for reading in readings):
            taken[name] = sum(len(reading.trajectory) + bool(reading.output) for reading in readings)
    if not taken and not any(line.lstrip().startswith("{") for lines in samples for line in lines):
        return ["text"]
    return sorted(taken, key=lambda name: -taken[name])[:NAMED]
