"""What ae-extract makes of each raw line, and by which part of the schema: for somebody who writes one."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby, islice
from typing import Any, NamedTuple, get_args

import msgspec
from msgspec import to_builtins

from agenteval.adapters.explain.tracing import TYPE_VALUES, Note, SeenPart, TracedAdapter, cut, pairs, value
from agenteval.adapters.jsonpath import compile_path
from agenteval.adapters.reader import Reader, decode_leniently, turn_spans
from agenteval.adapters.rules import EventTest, ItemTest, item_kind
from agenteval.adapters.trajectory import Step, as_text
from agenteval.wire.adapter_schema import HeadlessAdapter, UsageField
from agenteval.wire.records import Record

KINDS_SHOWN = 8
ALIKE_SHOWN = 4  # rows of a run of lines that say nothing new
KIND_SHOWN = 40  # characters of what a line is called
MARGIN = " " * 8

Tell = tuple[str, Callable[[Any], Any]]  # the name of a field, and what of an event is compared
USUAL: list[Tell] = [(name, compile_path(f"$.{name}").get) for name in ("type", "event", "kind", "method")]


class ExplainedLine(NamedTuple):
    """One row of an explanation, of the line or lines with this number."""

    number: str
    kind: str
    rule: str
    what: str

    def __str__(self) -> str:
        return f"{self.number:>6}  {self.kind:<9}  {self.rule:<18}  {self.what}".rstrip()


class Explainer:
    """Explains record by record, and at the end what the schema never used."""

    def __init__(self, config: HeadlessAdapter, source: str) -> None:
        self.adapter = TracedAdapter(config, source)
        self.tells = telling(self.adapter)
        self.gathers = config.output_mode == "text"
        self.records = self.lines = 0

    def explain(self, raw: Record) -> Iterator[str]:
        """The lines of one raw record, each with what was taken from it; then what no rule took, and the outcome."""
        lines: list[str] = raw["rawLines"]
        turns = raw.get("turns") or []
        spans = list(turn_spans([turn["lines"] for turn in turns], len(lines)))
        self.records, self.lines = self.records + 1, self.lines + len(lines)
        yield f"{cut(raw['id'])}: {counted(len(lines), 'line')}" + (f", {len(spans)} turns" if len(spans) > 1 else "")
        reader = Reader(self.adapter, self.adapter.begin(raw["id"]))
        missed: Counter[str] = Counter()
        for n, (start, end) in enumerate(spans):
            if len(spans) > 1:
                yield heading(raw, n, start, end)
            yield from shortened(self._turn(reader, raw, start, end, missed))
        if missed:
            yield f"{MARGIN}{missed.total()} of {counted(len(lines), 'line')} matched no rule: {kinds(missed)}"
        reading = reader.reading()
        yield f"{MARGIN}gives {pairs({'output': reading.output, **reading.usage})}"
        if ending := how_it_ended(raw):
            yield f"{MARGIN}{ending}"

    def ending(self) -> Iterator[str]:
        """What of the schema took nothing from any line, on one line."""
        if self.lines and (fields := list(unused(self.adapter, several=self.records > 1))):
            yield f"never took anything: {'; '.join(fields)}"

    def _turn(
        self, reader: Reader, raw: Record, start: int, end: int, missed: Counter[str]
    ) -> Iterator[list[ExplainedLine]]:
        """The rows of each line of a turn."""
        lines, times = raw["rawLines"], raw.get("lineTimes")
        first = len(reader.out.steps)
        reader.begin_turn()
        for at in range(start, end):
            self.adapter.witness.line = at + 1
            reader.take([lines[at]], [times[at]] if times else ())
            if not self.gathers:
                yield self._rows(at + 1, lines[at], missed)
        self.adapter.witness.line = start + 1
        reader.end_turn()
        if self.gathers:
            yield self._together(lines[start:end], span(start, end), reader.out.steps[first:])

    def _rows(self, number: int, line: str, missed: Counter[str]) -> list[ExplainedLine]:
        """What was taken from a line, or what kind of line it is."""
        parts, notes = self.adapter.witness.drain()
        if notes:
            return arranged(str(number), parts, notes)
        kind = kind_of(line, self.tells)
        missed[kind] += 1
        return [ExplainedLine(str(number), "-", kind, cut(line)), *arranged("", parts, [])]

    def _together(self, lines: list[str], number: str, steps: list[Step]) -> list[ExplainedLine]:
        """What was taken from the text that the lines of a turn are."""
        if not any(lines):
            return []
        if not self.adapter.events:
            return [
                ExplainedLine(number, step["type"], "outputMode text", pairs({"content": step["content"]}))
                for step in steps
            ]
        rows = arranged(number, *self.adapter.witness.drain())
        return rows or [ExplainedLine(number, "-", "no rule", cut(" ".join(lines)))]


# --- rows -----------------------------------------------------------------------------------------


def arranged(number: str, parts: list[SeenPart], notes: list[Note]) -> list[ExplainedLine]:
    """Each part of a text with what was taken from it, then what was taken from the whole; a number stands once."""
    of_parts: dict[int, list[ExplainedLine]] = {id(seen.part): [] for seen in parts}
    of_all: list[ExplainedLine] = []
    for kind, label, what, item in notes:
        of_parts.get(id(item), of_all).append(ExplainedLine(number, kind, label, what))
    rows = []
    for line, rule, text, part in parts:
        rows.append(ExplainedLine(str(line), "part", rule, text))
        rows += [row._replace(number="") for row in of_parts[id(part)]]
    rows += of_all
    shown = ""
    for n, row in enumerate(rows):
        rows[n] = row._replace(number="" if row.number == shown else row.number)
        shown = row.number or shown
    return rows


def shortened(lines: Iterable[list[ExplainedLine]]) -> Iterator[str]:
    """The rows of all lines; of a run that says nothing new, such as noise and further pieces, the first few."""
    for alike, group in groupby(lines, key=_alike):
        if alike is None:
            yield from (str(row) for rows in group for row in rows)
            continue
        yield from (str(rows[0]) for rows in islice(group, ALIKE_SHOWN))
        for count, (last,) in deque(enumerate(group, 1), maxlen=1):
            more = f"{'…':>6}  {count} more of these, up to line {last.number}"
            yield more if count > 1 else str(last)


def _alike(rows: list[ExplainedLine]) -> tuple[str, str] | None:
    """What lines of a run have in common; None for a line that says something."""
    return (rows[0].kind, rows[0].rule) if len(rows) == 1 and rows[0].kind[0] in "-+(" else None


def kinds(missed: Counter[str]) -> str:
    """The kinds of unread lines, most frequent first, and how many there are besides."""
    shown = missed.most_common(KINDS_SHOWN)
    more = len(missed) - len(shown)
    rest = missed.total() - sum(count for _, count in shown)
    listed = ", ".join(f"{kind} ({count})" for kind, count in shown)
    return listed + (f" … and {counted(more, 'more kind')} ({rest})" if more else "")


def heading(raw: Record, n: int, start: int, end: int) -> str:
    """Which turn begins, what was asked, and how its process ended if that is worth a word."""
    where = f"line{'s' if end - start > 1 else ''} {span(start, end)}" if end > start else "no lines"
    asked = raw["input"][n] if isinstance(raw["input"], list) and n < len(raw["input"]) else None
    said = [where, *endings(raw["turns"][n]), *([value(asked)] if asked is not None else [])]
    return f"  turn {n + 1}: {', '.join(said)}"


def how_it_ended(raw: Record) -> str:
    """What went wrong with a run, on one line; nothing if nothing did."""
    errors = [*(raw.get("errors") or ()), *([raw["error"]] if raw.get("error") else ())]
    said = [*endings(raw), *map(value, errors)]
    return f"ended with {', '.join(said)}" if said else ""


def endings(process: Record) -> list[str]:
    """How a process ended, unless as it should."""
    code, signal = process.get("exitCode"), process.get("signal")
    said = [f"exit code {code}"] if code else []
    said += [f"signal {signal}"] if signal else []
    return said + (["time-out"] if process.get("timedOut") else [])


def span(start: int, end: int) -> str:
    """The numbers of these lines."""
    return f"{start + 1}-{end}" if end - start > 1 else str(start + 1)


def counted(count: int, noun: str) -> str:
    """`1 line`, `2 lines`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


# --- lines that no rule takes -----------------------------------------------------------------------


def telling(adapter: TracedAdapter) -> list[Tell]:
    """The fields by which the schema tells events apart, the one it asks most first."""
    tests: list[EventTest | ItemTest] = [test for rule in adapter.rules for test in rule.tests]
    tests += [test for action in adapter.actions for test in action.tests]
    items = [rule.item for rule in adapter.rules if rule.item]
    names = [*Counter(map(_name, tests)).most_common(), *Counter(map(_name, items)).most_common()]
    getters = {_name(test): _compared(test) for test in (*tests, *items)}
    return [(name, getters[name]) for name, _ in names if len(name) <= KIND_SHOWN]


def _name(test: EventTest | ItemTest) -> str:
    path, ending = (test.path, "") if isinstance(test, EventTest) else (test.items, "[*]")
    return (path.name or path.text.removeprefix("$.")) + ending


def _compared(test: EventTest | ItemTest) -> Callable[[Any], Any]:
    """What of an event a test looks at: a value, or the kinds of the items of a list."""
    get, kind = (test.path.get, item_kind) if isinstance(test, EventTest) else (test.items.get, test.kind)

    def compared(event: Any) -> Any:
        found = get(event)
        if type(found) is not list:
            return found
        return ",".join(dict.fromkeys(word for item in found if type(word := kind(item)) is str)) or None

    return compared


def kind_of(line: str, tells: list[Tell]) -> str:
    """What an unread line is, in a word or two: what the schema's rules ask of it, else its type or first field."""
    event = _event(line)
    if not isinstance(event, dict):
        return "no JSON object" if line.strip() else "blank"
    for some in (tells, USUAL):
        found = [(name, word) for name, get in some if type(word := get(event)) in (str, int, bool)]
        if found:
            return " ".join(f"{name}={cut(as_text(word), KIND_SHOWN)}" for name, word in found[:2])
    return f"has {cut(next(iter(event), 'nothing'), KIND_SHOWN)}"


def _event(line: str) -> Any:
    try:
        return msgspec.json.decode(line)
    except (msgspec.MsgspecError, UnicodeEncodeError, RecursionError):
        return decode_leniently(line)


# --- what the schema has and no line used -----------------------------------------------------------


def unused(adapter: TracedAdapter, several: bool) -> Iterator[str]:
    """The fields of the schema that took nothing, with the first line that was meant for them."""
    took, vain = adapter.ledger.took, adapter.ledger.vain
    for field in fields(adapter):
        if field in took:
            continue
        if field in vain:
            record, line, why = vain[field]
            yield f"{field} (matched line {line}{f' of {cut(record)}' if several else ''}, {why})"
        else:
            yield field


def fields(adapter: TracedAdapter) -> Iterator[str]:
    """The fields of the schema that take something from lines; those of a rule only when the rule itself does."""
    config = adapter.config
    if config.nested_events:
        yield "nestedEvents"
    for n, split in enumerate(config.splits or []):
        yield from (f"splits[{n}].patterns.{name}" for name in split.patterns)
    yield from _rule_fields(adapter)
    if config.result:
        yield "result"
        if config.result.is_error_path and "result" in adapter.ledger.took:
            yield "result.isErrorPath"
    if config.usage:
        paths = [name for name in get_args(UsageField) if to_builtins(config.usage).get(name)]
        matches = "usage" in adapter.ledger.took or not config.usage.match
        yield from (f"usage.{name}" for name in paths) if matches else ("usage",)
    yield from (f"metadata.{name}" for name in config.metadata or {})
    if config.resume and config.resume.session_id_path:
        yield "resume.sessionIdPath"


def _rule_fields(adapter: TracedAdapter) -> Iterator[str]:
    types = adapter.config.passthrough_type_map
    if adapter.config.output_mode == "passthrough":
        yield from (f"{TYPE_VALUES}.{word}" for word in (types and types.type_values) or {})
        return
    for face in adapter.faces:
        yield face.field
        if face.field in adapter.ledger.took:
            yield from (f"{face.field}.extract.{name}" for name in face.extract)
