"""What ae-extract makes of each raw line, and by which rule of the schema: for authors of schemas."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import groupby, islice
from typing import Any, get_args

from msgspec import to_builtins

from agenteval.adapters.conditions import CompiledCondition, item_kind
from agenteval.adapters.explain.trace import PART, ExplainedLine, Tracer, cut, pairs, value
from agenteval.adapters.extract import answered_lines
from agenteval.adapters.jsonpath import compile_path
from agenteval.adapters.reader import Adapter, Reading, decode_leniently, turn_spans
from agenteval.adapters.rules import TYPE_VALUES
from agenteval.adapters.words import as_text
from agenteval.streams.text import counted
from agenteval.wire.adapter_schema import HeadlessAdapter, UsageField, UsagePaths
from agenteval.wire.records import Record

KINDS_SHOWN = 8
ALIKE_SHOWN = 4  # rows of a run of lines that add nothing new
KIND_SHOWN = 40  # characters of the name of a kind of line
MARGIN = " " * 8

Discriminator = tuple[str, Callable[[Any], Any]]  # the name of a field, and what of an event is compared
USUAL: list[Discriminator] = [(name, compile_path(f"$.{name}").get) for name in ("type", "event", "kind", "method")]


class Explainer:
    """Explains record by record, and at the end what the schema never used."""

    def __init__(self, config: HeadlessAdapter, source: str) -> None:
        self.tracer = Tracer(config)
        self.adapter = Adapter(config, source, self.tracer)
        self.discriminators = discriminators(self.adapter)
        self.records = self.lines = 0

    def explain(self, raw: Record) -> Iterator[str]:
        """Yields what was taken from each line of a raw record, which lines matched no rule, and the outcome."""
        lines: list[str] = raw["rawLines"]
        turns = raw.get("turns") or []
        spans = list(turn_spans([turn["lines"] for turn in turns], len(lines)))
        self.records, self.lines = self.records + 1, self.lines + len(lines)
        yield f"{cut(raw['id'])}: {counted(len(lines), 'line')}" + (f", {len(spans)} turns" if len(spans) > 1 else "")
        self.reading = self.adapter.begin(raw["id"])
        self.tracer.begin(raw["id"], self.reading.out)
        missed: Counter[str] = Counter()
        for n, (start, end) in enumerate(spans):
            if len(spans) > 1:
                yield heading(raw, n, start, end)
            yield from shortened(self._turn(self.reading, raw, start, end, missed))
        if missed:
            yield f"{MARGIN}{missed.total():,} of {counted(len(lines), 'line')} matched no rule: {kinds(missed)}"
        yield f"{MARGIN}gives {pairs({'output': self.reading.output, **self.reading.usage})}"
        if ending := how_it_ended(raw):
            yield f"{MARGIN}{ending}"

    def ending(self) -> Iterator[str]:
        """Yields, on one line, what of the schema took nothing from any line."""
        if self.lines and (fields := list(unused(self.tracer, several=self.records > 1))):
            yield f"never took anything: {'; '.join(fields)}"

    def _turn(
        self, reading: Reading, raw: Record, start: int, end: int, missed: Counter[str]
    ) -> Iterator[list[ExplainedLine]]:
        """Yields the rows of each line of a turn; of a text, those of all its lines at the end."""
        lines, times = answered_lines(raw), raw.get("lineTimes")
        first = len(reading.trajectory)
        reading.begin_turn()
        self.tracer.begin_turn()
        for at in range(start, end):
            self.tracer.line = at + 1
            reading.take([lines[at]], times[at : at + 1] if times else ())
            if not self.adapter.reads_text:
                self.tracer.add_session(reading.named, reading.spare)
                yield self._rows(at + 1, lines[at], missed)
        self.tracer.line = start + 1
        reading.end_turn()
        if self.adapter.reads_text and any(lines[start:end]):
            number, rows = span(start, end), self.tracer.drain()
            if not self.adapter.rules:
                texts = [pairs({"content": step["content"]}) for step in reading.trajectory[first:]]
                rows = [ExplainedLine("", "message", "outputMode text", text) for text in texts]
            text = cut(" ".join(lines[start:end]))
            yield arranged(number, rows or [ExplainedLine("", "-", "no rule", text)])

    def _rows(self, number: int, line: str, missed: Counter[str]) -> list[ExplainedLine]:
        """Returns what was taken from a line, or what kind of line it is."""
        rows = self.tracer.drain()
        if all(row.kind == PART for row in rows):
            kind = kind_of(line, self.discriminators)
            missed[kind] += 1
            return [ExplainedLine(str(number), "-", kind, cut(line)), *arranged(str(number), rows)]
        return arranged(str(number), rows)


# --- rows -----------------------------------------------------------------------------------------


def arranged(number: str, rows: list[ExplainedLine]) -> list[ExplainedLine]:
    """Returns each part of a text with what was taken from it, then the rest; a number is shown once."""
    parts = {id(row.item): n for n, row in enumerate(rows) if row.kind == PART}
    numbered, shown = [], ""
    for row in sorted(rows, key=lambda row: (parts.get(id(row.item), len(rows)), row.kind != PART)):
        at = row.number if id(row.item) in parts else number
        numbered.append(row._replace(number="" if at == shown else at))
        shown = at or shown
    return numbered


def shortened(lines: Iterable[list[ExplainedLine]]) -> Iterator[str]:
    """Yields the rows of all lines; of a run that adds nothing new, such as noise and further pieces, the first few."""
    for alike, group in groupby(lines, key=_alike):
        if alike is None:
            yield from (str(row) for rows in group for row in rows)
            continue
        yield from (str(rows[0]) for rows in islice(group, ALIKE_SHOWN))
        for count, (last,) in deque(enumerate(group, 1), maxlen=1):
            more = f"{'…':>6}  {count} more of these, up to line {last.number}"
            yield more if count > 1 else str(last)


def _alike(rows: list[ExplainedLine]) -> tuple[str, str] | None:
    """Returns what lines of a run have in common; None for a line that is shown in any case."""
    return (rows[0].kind, rows[0].rule) if len(rows) == 1 and rows[0].kind[0] in "-+(" else None


def kinds(missed: Counter[str]) -> str:
    """Returns the kinds of unread lines, most frequent first, and how many others there are."""
    shown = missed.most_common(KINDS_SHOWN)
    more = len(missed) - len(shown)
    rest = missed.total() - sum(count for _, count in shown)
    listed = ", ".join(f"{kind} ({count})" for kind, count in shown)
    return listed + (f" … and {counted(more, 'more kind')} ({rest})" if more else "")


def heading(raw: Record, n: int, start: int, end: int) -> str:
    """Returns the heading of a turn: its lines, how its process ended unless it ended well, and its input."""
    where = f"line{'s' if end - start > 1 else ''} {span(start, end)}" if end > start else "no lines"
    asked = raw["input"][n] if isinstance(raw["input"], list) and n < len(raw["input"]) else None
    shown = [where, *endings(raw["turns"][n]), *([value(asked)] if asked is not None else [])]
    return f"  turn {n + 1}: {', '.join(shown)}"


def how_it_ended(raw: Record) -> str:
    """Returns what went wrong with a run, on one line; "" if nothing did."""
    errors = [*(raw.get("errors") or ()), *([raw["error"]] if raw.get("error") else ())]
    reasons = [*endings(raw), *map(value, errors)]
    return f"ended with {', '.join(reasons)}" if reasons else ""


def endings(process: Record) -> list[str]:
    """Returns how a process ended, unless it ended well."""
    code, signal = process.get("exitCode"), process.get("signal")
    found = [f"exit code {code}"] if code else []
    found += [f"signal {signal}"] if signal else []
    return found + (["time-out"] if process.get("timedOut") else [])


def span(start: int, end: int) -> str:
    """Returns the numbers of these lines."""
    return f"{start + 1}-{end}" if end - start > 1 else str(start + 1)


# --- lines that no rule takes -----------------------------------------------------------------------


def discriminators(adapter: Adapter) -> list[Discriminator]:
    """Returns the fields by which the schema distinguishes events, the most used one first."""
    rules = [*adapter.rules, *adapter.actions]
    tests = [test for rule in rules for test in rule.tests]
    items = [rule.item for rule in rules if rule.item]
    names = [*Counter(map(_name, tests)).most_common(), *Counter(map(_name, items)).most_common()]
    compared = {_name(test): partial(_compared, test) for test in (*tests, *items)}
    return [(name, compared[name]) for name, _ in names if len(name) <= KIND_SHOWN]


def _name(test: CompiledCondition) -> str:
    return (test.path.name or test.path.text.removeprefix("$.")) + ("[*]" if test.kind else "")


def _compared(test: CompiledCondition, event: Any) -> Any:
    """Returns what a test compares: the value at its path or, of a list, the kinds of its items."""
    found, kind = test.path.get(event), test.kind or item_kind
    if type(found) is not list:
        return found
    return ",".join(dict.fromkeys(word for item in found if type(word := kind(item)) is str)) or None


def kind_of(line: str, discriminators: list[Discriminator]) -> str:
    """Returns what an unread line is, in a word or two: the fields that rules compare, else its type or first field."""
    event = decode_leniently(line)
    if not isinstance(event, dict):
        return "no JSON object" if line.strip() else "blank"
    for some in (discriminators, USUAL):
        found = [(name, word) for name, get in some if type(word := get(event)) in (str, int, bool)]
        if found:
            return " ".join(f"{name}={cut(as_text(word), KIND_SHOWN)}" for name, word in found[:2])
    return f"has {cut(next(iter(event), 'nothing'), KIND_SHOWN)}"


# --- what the schema has and no line used -----------------------------------------------------------


def unused(tracer: Tracer, several: bool) -> Iterator[str]:
    """Yields the fields of the schema that took nothing, with the first line that they matched."""
    for field in fields(tracer):
        if field in tracer.took:
            continue
        if field in tracer.matched:
            record, line, why = tracer.matched[field]
            yield f"{field} (matched line {line}{f' of {cut(record)}' if several else ''}, {why})"
        else:
            yield field


def _usage_fields(usage: UsagePaths, took: set[str]) -> Iterator[str]:
    """Yields the paths of usage; of several places to look for it, those of the one that took something."""
    field, place = "usage", usage
    while place.fallback is not None and field not in took:
        field, place = f"{field}.fallback", place.fallback
    paths = [name for name in get_args(UsageField) if to_builtins(place).get(name)]
    matches = field in took or not usage.match
    yield from (f"{field}.{name}" for name in paths) if matches else ("usage",)


def fields(tracer: Tracer) -> Iterator[str]:
    """Yields the fields of the schema that take something from lines; those of a rule only if the rule itself does."""
    config, took = tracer.config, tracer.took
    if config.nested_events:
        yield "nestedEvents"
    yield from (f"linePatterns.{name}" for name in config.line_patterns or {})
    for n, split in enumerate(config.splits or []):
        yield from (f"splits[{n}].patterns.{name}" for name in split.patterns)
    if config.output_mode == "passthrough":
        types = config.passthrough_type_map
        yield from (f"{TYPE_VALUES}.{word}" for word in (types and types.type_values) or {})
    else:
        for field, extract in tracer.extracts.items():
            yield from (field, *(f"{field}.{name}" for name in extract if field in took))
    if config.result:
        yield "result"
        if config.result.is_error_path and "result" in took:
            yield "result.isErrorPath"
    if config.usage:
        yield from _usage_fields(config.usage, took)
    yield from (f"metadata.{name}" for name in config.metadata or {})
    if config.resume and config.resume.session_id_path:
        yield "resume.sessionIdPath"
