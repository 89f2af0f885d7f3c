"""Explains what ae-extract takes from each raw line, and by which rule of the schema: for authors of schemas.

An Explainer reads records with an adapter to which a Tracer is attached. The rules call methods of a TracedTrajectory,
which tells the tracer what they did; the tracer keeps a row about each call, and the explainer arranges the rows.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import groupby, islice
from typing import Any, NamedTuple, get_args

from msgspec import to_builtins

from agenteval.adapters.parts import Piece
from agenteval.adapters.paths import compile_path
from agenteval.adapters.reader import Adapter, Reading, answered_lines, turn_spans
from agenteval.adapters.rules import TYPE_VALUES, Act, CompiledCondition, Event, as_list, item_kind, output_events
from agenteval.adapters.trajectory import UNEXPLAINED, Step, Trajectory
from agenteval.adapters.values import as_text, decode_leniently
from agenteval.streams.jsonl import encode
from agenteval.streams.text import counted, one_line
from agenteval.wire.adapter_schema import HeadlessAdapter, PassthroughTypeMap, UsageField, UsagePaths
from agenteval.wire.records import Record

SHOWN = 100  # characters of a line or of a value
EMPTY, PART = "(empty)", "part"  # kinds of rows: a rule matched and found nothing; a part of a text
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
        self.reading = Reading(self.adapter, TracedTrajectory(raw["id"], self.tracer))
        missed: Counter[str] = Counter()
        for n, (start, end) in enumerate(spans):
            if len(spans) > 1:
                yield heading(raw, n, start, end)
            yield from shortened(self._turn(raw, start, end, missed))
        if missed:
            yield f"{MARGIN}{missed.total():,} of {counted(len(lines), 'line')} matched no rule: {kinds(missed)}"
        yield f"{MARGIN}gives {pairs({'output': self.reading.output, **self.reading.usage})}"
        errors = [*(raw.get("errors") or ()), *([raw["error"]] if raw.get("error") else ())]
        if reasons := [*endings(raw), *map(value, errors)]:
            yield f"{MARGIN}ended with {', '.join(reasons)}"

    def ending(self) -> Iterator[str]:
        """Yields, on one line, what of the schema took nothing from any line."""
        if self.lines and (fields := list(unused(self.tracer, several=self.records > 1))):
            yield f"found nothing in any line: {'; '.join(fields)}"

    def _turn(self, raw: Record, start: int, end: int, missed: Counter[str]) -> Iterator[list[ExplainedLine]]:
        """Yields the rows of each line of a turn; of a text, those of all its lines at the end."""
        lines, times, reading = answered_lines(raw), raw.get("lineTimes"), self.reading
        first = len(reading.trajectory)
        reading.begin_turn()
        self.tracer.begin_turn()
        for at in range(start, end):
            self.tracer.line = at + 1
            reading.take([lines[at]], times[at : at + 1] if times else ())
            if not self.adapter.reads_text:
                yield self._rows(at + 1, lines[at], missed)
        self.tracer.line = start + 1
        reading.end_turn()
        if self.adapter.reads_text and any(lines[start:end]):
            number, rows = span(start, end), self.tracer.drain()
            if not self.adapter.rules.steps:
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


# --- the trace ------------------------------------------------------------------------------------


class Tracer:
    """Keeps a row about each thing that the rules of a schema do.

    `took` are the fields of the schema that took something from any line; `matched` are those that matched a line and
    found nothing: record, line and reason of the first time.
    """

    def __init__(self, config: HeadlessAdapter) -> None:
        self.config = config
        self.extracts = {
            field: {f"extract.{name}": as_list(paths) for name, paths in to_builtins(event.extract or {}).items()}
            for field, event in output_events(config).items()
        }
        self.took: set[str] = set()
        self.matched: dict[str, tuple[str, int, str]] = {}
        self.field, self.item, self.has_row = "", None, False  # of the rule that is being applied

    def begin(self, record: str) -> None:
        """Begins a record."""
        self.record, self.line = record, 0
        self._rows: list[ExplainedLine] = []
        self._began: dict[int, int] = {}  # id of a step → the line of its call or first piece
        self._places: dict[int, int] = {}  # id of a part → the line in which it begins

    def begin_turn(self) -> None:
        """Begins a turn, in which facts are shown anew."""
        self._facts: dict[str, Any] = {}

    def drain(self) -> list[ExplainedLine]:
        """Returns the rows since the last call; (empty) only where no other rule took something from the item."""
        rows, self._rows = self._rows, []
        self._places.clear()  # the id of a part is valid as long as the part exists
        full = {id(row.item) for row in rows if row.kind not in (EMPTY, PART) and row.item is not None}
        return [row for row in rows if row.kind != EMPTY or id(row.item) not in full]

    def rule(self, field: str, act: Act) -> Act:
        """Returns the act of a rule, during which rows are about this rule and item."""
        is_step = field.startswith(("outputEvents", TYPE_VALUES))

        def traced(item: Any, event: Any, out: Trajectory) -> None:
            before = self.field, self.item
            self.field, self.item, self.has_row = field, item if is_step else None, False
            act(item, event, out)
            if not self.has_row and field.startswith("usage") and self.config.usage and self.config.usage.match:
                self.add(EMPTY, "no path finds a number")
            self.field, self.item = before

        return traced

    def nested_events(self, events: list[Event]) -> None:
        """Notes that there are events within an event."""
        self.took.add("nestedEvents")

    def line_event(self, event: Event) -> None:
        """Notes the pattern that made an event of a line."""
        self.took.add(f"linePatterns.{event['type']}")

    def parts(self, field: str, text: str, pieces: list[Piece]) -> None:
        """Adds rows about the parts of a text; a text of many lines (outputMode text) begins in the current line."""
        line, at = self.line, 0
        for piece in pieces:
            part = piece.part
            if self.config.output_mode == "text":
                line, at = line + text.count("\n", at, piece.start), piece.start
            self._places[id(part)] = line
            first = text[piece.start : piece.end].lstrip().partition("\n")[0]
            self._rows.append(ExplainedLine(str(line), PART, f"{field} {part['type']}", cut(first), part))
            self.took.add(f"{field}.patterns.{part['type']}")

    def add_row(self, kind: str, label: str, what: str) -> None:
        """Adds a row about the current item."""
        self._rows.append(ExplainedLine("", kind, label, what, self.item))

    def add(self, kind: str, what: str) -> None:
        """Adds a row about the rule that is being applied."""
        self.has_row = True
        if kind == EMPTY:
            self.matched.setdefault(self.field, (self.record, self._line_of_item(), what))
            what = f"matched; {what}"
        else:
            self.took.add(self.field)
        types = self.config.passthrough_type_map or PassthroughTypeMap()
        label = self.field.replace(f"{TYPE_VALUES}.", f"{types.type_field}=", 1)
        self.add_row(kind, label, what)

    def find(self, found: dict[str, Any]) -> None:
        """Notes which paths of the rule found something."""
        self.took.update(f"{self.field}.{name}" for name, one in found.items() if one is not None)

    def lacks(self, name: str) -> str:
        """Returns why the rule has not found a value."""
        paths = self.extracts[self.field].get(f"extract.{name}")
        return f"{name} {' or '.join(paths)} finds nothing" if paths else f"there is no extract.{name}"

    def _line_of_item(self) -> int:
        return self._places.get(id(self.item), self.line)

    def began(self, step: Step) -> int | None:
        """Returns the line in which a step began; None if it begins here, which is noted."""
        line = self._began.get(id(step))
        if line is None:
            self._began[id(step)] = self._line_of_item()
        return line

    def news(self, facts: dict[str, Any]) -> dict[str, Any]:
        """Returns the facts that this turn has not given before: many agents repeat them in every line."""
        news = {name: fact for name, fact in facts.items() if name not in self._facts or self._facts[name] != fact}
        self._facts |= news
        return news


class TracedTrajectory(Trajectory):
    """A trajectory that tells a tracer what the rules add to it."""

    def __init__(self, record_id: str, tracer: Tracer) -> None:
        super().__init__(record_id)
        self.tracer = tracer
        self._in_report = False
        tracer.begin(record_id)

    def text(self, kind: str, content: Any) -> None:
        count = len(self.steps)
        super().text(kind, content)
        is_new = len(self.steps) > count
        if is_new or content is None:
            self._note_text(kind, content, None, is_new)
        else:
            began = self.tracer.began(self.steps[-1])
            self.tracer.add("(dropped)", f"the same {kind} as the pieces from line {began} on")
        self.tracer.find({"extract.content": content})

    def piece(self, kind: str, content: Any, message: Any = None) -> None:
        count = len(self.steps)
        super().piece(kind, content, message)
        self._note_text(kind, content, message, len(self.steps) > count)
        self.tracer.find({"extract.content": content, "extract.id": message})

    def _note_text(self, kind: str, content: Any, message: Any, is_new: bool) -> None:
        if content is None:
            self.tracer.add(EMPTY, self.tracer.lacks("content"))
        elif not is_new and not as_text(content):
            self.tracer.add(EMPTY, 'content is ""')
        else:
            self.tracer.began(self.steps[-1])
            self.tracer.add(kind if is_new else f"+ {kind}", pairs({"id": message, "content": as_text(content)}))

    def end_pieces(self) -> Step | None:
        step = super().end_pieces()
        began = f"of the pieces from line {self.tracer.began(step)} on" if step else "no pieces before it"
        self.tracer.add("(end)", began)
        return step

    def plan(self, entries: Any) -> None:
        super().plan(entries)
        lack = f" ({self.tracer.lacks('entries')})" if entries is None else ""
        self.tracer.add("plan", pairs({"entries": self.steps[-1]["entries"]}) + lack)
        self.tracer.find({"extract.entries": entries})

    def error(self, content: Any) -> list[str]:
        errors = super().error(content)
        lack = f" ({self.tracer.lacks('content')})" if errors == [UNEXPLAINED] else ""
        for error in errors:
            self.tracer.add("error", value(error) + lack)
        self.tracer.find({"extract.content": content})
        return errors

    def call(self, ident: Any, name: Any, given: Any) -> Step:
        step = super().call(ident, name, given)
        if not self._in_report:
            self._note_call(step, name, {"id": ident, "input": given})
        return step

    def report(
        self, ident: Any, name: Any, given: Any, output: Any, word: Any, flag: Any, duration: Any, otherwise: str
    ) -> Step:
        self._in_report = True
        step = super().report(ident, name, given, output, word, flag, duration, otherwise)
        self._in_report = False
        shown = {"id": ident, "status": step["status"], "input": given, "output": output, "isError": flag}
        self._note_call(step, name, shown | {"duration": duration}, status=word)
        return step

    def ask(self, ident: Any, name: Any, given: Any, permission: Any) -> Step:
        self._in_report = True
        step = super().ask(ident, name, given, permission)
        self._in_report = False
        self._note_call(step, name, {"id": ident, "input": given, "permission": permission})
        return step

    def _note_call(self, step: Step, title: Any, shown: dict[str, Any], **extracts: Any) -> None:
        self.tracer.add("tool_call", self._tool(step, title) + pairs(shown))
        found = {"title": title, **shown, **extracts}
        self.tracer.find({f"extract.{name}": one for name, one in found.items()})

    def _tool(self, step: Step, title: Any) -> str:
        """Returns the call that an event is about: the line in which it began, or its name if it begins here."""
        line = self.tracer.began(step)
        if line is not None:
            return f"-> line {line} ({cut(step['name'])}) "
        is_result = step["status"] in ("completed", "failed")
        lack = "" if title else f" ({'no call before it' if is_result else self.tracer.lacks('title')})"
        return pairs({"name": step["name"]}) + lack + " "

    def add_output(self, step: Step, piece: Any) -> Step:
        if piece is not None:
            self.tracer.add("tool_call", self._tool(step, True) + pairs({"outputDelta": piece}))
        self.tracer.find({"extract.outputDelta": piece})
        return super().add_output(step, piece)

    def clock(self, step: Step, start: Any, end: Any) -> Step:
        self.tracer.find({"extract.start": start, "extract.end": end})
        return super().clock(step, start, end)

    def set_parent(self, parent: Any) -> None:
        super().set_parent(parent)
        self.tracer.find({"extract.parent": parent})

    def conclude(self, content: Any, failed: Any, reason: Any, stop: str | None = None) -> None:
        super().conclude(content, failed, reason, stop)
        text, errors, result = self.result, self.result_errors, self.tracer.config.result
        for error in errors:
            self.tracer.add("error", value(error))
        if text is not None and errors != [text]:
            self.tracer.add("output", value(text))
        elif not errors:
            paths = " or ".join(as_list(result and result.content_path))
            self.tracer.add(EMPTY, f"contentPath {paths} finds nothing" if paths else "it has no contentPath")
        self.tracer.find({"isErrorPath": failed})

    def name_session(self, found: Any, spare: Any = None) -> None:
        """Takes in a session id; one that the turn has given before adds no row."""
        super().name_session(found, spare)
        if found is not None:
            self.tracer.took.add("resume.sessionIdPath")
        if self.session_id and self.tracer.news({"": self.session_id}):
            own = self.tracer.config.resume is not None and found is not None
            self.tracer.add_row("session", "resume" if own else "$.session_id", value(self.session_id))

    def spend(self, numbers: dict[str, int | float | None], *, adds_up: bool) -> None:
        super().spend(numbers, adds_up=adds_up)
        self.tracer.add("usage", pairs(numbers))
        self.tracer.find(numbers)

    def note(self, facts: dict[str, Any]) -> None:
        super().note(facts)
        if news := self.tracer.news({name: fact for name, fact in facts.items() if fact is not None}):
            self.tracer.add("metadata", pairs(news))
        self.tracer.find(facts)


# --- rows -----------------------------------------------------------------------------------------


class ExplainedLine(NamedTuple):
    """One row of an explanation: what a rule took from `item`, the event, list item or part of a text it looked at."""

    number: str
    kind: str
    rule: str
    what: str
    item: Any = None

    def __str__(self) -> str:
        return f"{self.number:>6}  {self.kind:<9}  {self.rule:<18}  {self.what}".rstrip()


def cut(text: str, limit: int = SHOWN) -> str:
    """Returns the beginning of a text on one line, with … if it is longer."""
    shown = one_line(text, limit)
    whole = len(shown) <= limit and len(text.strip()) <= 2 * limit + 64  # as much as one_line looks at
    return shown if whole else shown[:limit] + "…"


def value(found: Any) -> str:
    """Returns a value as JSON, cut."""
    return cut(f'"{found}"' if isinstance(found, str) else encode(found).decode())


def pairs(values: dict[str, Any]) -> str:
    """Returns `name=value` for each value that is not None."""
    return " ".join(f"{name}={value(found)}" for name, found in values.items() if found is not None)


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
    rules = [*adapter.rules.steps, *adapter.rules.actions]
    tests = [test for rule in rules for test in rule.tests]
    items = [rule.item for rule in rules if rule.item]
    names = [*Counter(map(_name, tests)).most_common(), *Counter(map(_name, items)).most_common()]
    compared = {_name(test): partial(_compared, test) for test in (*tests, *items)}
    return [(name, compared[name]) for name, _ in names if len(name) <= KIND_SHOWN]


def _name(test: CompiledCondition) -> str:
    keys = test.path.keys or ()
    name = keys[0] if len(keys) == 1 and isinstance(keys[0], str) else test.path.text.removeprefix("$.")
    return name + ("[*]" if test.kind else "")


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
