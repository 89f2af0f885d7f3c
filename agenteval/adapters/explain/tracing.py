"""A reading that is watched: which part of a schema takes what from which line, and which parts never take anything."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from msgspec import to_builtins
from msgspec.structs import replace

from agenteval.adapters.dispatch import Dispatch
from agenteval.adapters.jsonpath import compile_path
from agenteval.adapters.parts import Piece, Unfold
from agenteval.adapters.reader import Adapter
from agenteval.adapters.rules import Action, Event, Rule, as_list
from agenteval.adapters.trajectory import UNEXPLAINED, Step, Time, Trajectory, as_text
from agenteval.streams.jsonl import encode
from agenteval.streams.text import one_line
from agenteval.wire.adapter_schema import Condition, HeadlessAdapter, OutputEvent, PassthroughTypeMap

SHOWN = 100  # characters of a line or of a value
EMPTY = "(empty)"
TYPE_VALUES = "passthroughTypeMap.typeValues"


class Note(NamedTuple):
    """What one part of the schema took, or did not find; `item` is the event, list item or part it looked at."""

    kind: str
    rule: str
    what: str
    item: Any = None


class SeenPart(NamedTuple):
    """A part of a text: where it begins, the pattern that took it, its first line."""

    line: int
    rule: str
    text: str
    part: Any


class RuleName(NamedTuple):
    """One of the rules as a reader knows it: its field, what it is called, and its extracts."""

    field: str
    label: str
    extract: dict[str, list[str]]

    def lacks(self, name: str) -> str:
        """That an extract finds nothing, or is not there."""
        paths = self.extract.get(name)
        return f"{name} {' or '.join(paths)} finds nothing" if paths else f"there is no extract.{name}"


def cut(text: str, limit: int = SHOWN) -> str:
    """The beginning of a text on one line, with … where it goes on."""
    shown = one_line(text, limit)
    whole = len(shown) <= limit and len(text.strip()) <= 2 * limit + 64  # so much of it one_line looks at
    return shown if whole else shown[:limit] + "…"


def value(found: Any) -> str:
    """A value as JSON, cut."""
    return cut(f'"{found}"' if isinstance(found, str) else encode(found).decode())


def pairs(values: dict[str, Any]) -> str:
    """`name=value` of each that is there."""
    return " ".join(f"{name}={value(found)}" for name, found in values.items() if found is not None)


class FieldUse:
    """Which fields of a schema took something from any line, and which only matched one: where, and what was wrong."""

    def __init__(self) -> None:
        self.took: set[str] = set()
        self.vain: dict[str, tuple[str, int, str]] = {}

    def matched(self, field: str, record: str, line: int, why: str) -> None:
        """A field looked at a line that was meant for it, and found nothing; the first one is kept."""
        self.vain.setdefault(field, (record, line, why))


class TraceRecorder(Trajectory):
    """A trajectory that notes what each rule does to it."""

    def __init__(self, record_id: str, ledger: FieldUse) -> None:
        super().__init__(record_id)
        self.notes: list[Note] = []
        self.parts: list[SeenPart] = []
        self.record, self.ledger = record_id, ledger
        self.line = 0
        self.told: dict[str, Any] = {}  # what this turn has said of itself so far
        self._rule: RuleName | None = None
        self._item: Any = None
        self._began: dict[int, int] = {}  # id of a step → the line of its call
        self._places: dict[int, int] = {}  # id of a part → the line in which it begins

    def begin_turn(self) -> None:
        super().begin_turn()
        self.told = {}

    def news(self, facts: dict[str, Any]) -> dict[str, Any]:
        """Those facts that this turn has not told before: many agents repeat them in every line."""
        news = {name: fact for name, fact in facts.items() if name not in self.told or self.told[name] != fact}
        self.told |= news
        return news

    def drain(self) -> tuple[list[SeenPart], list[Note]]:
        """What was noted since the last time; an empty note beside another of the same thing says nothing."""
        parts, notes = self.parts, self.notes
        self.parts, self.notes = [], []
        self._places.clear()  # the id of a part is good as long as the part is kept
        full = {id(note.item) for note in notes if note.kind != EMPTY and note.item is not None}
        return parts, [note for note in notes if note.kind != EMPTY or id(note.item) not in full]

    def emit(self, rule: RuleName, item: Any, act: Callable[[], None]) -> None:
        """Let a rule do what it does with an item."""
        before, self.line = self.line, self._places.get(id(item), self.line)
        self._rule, self._item = rule, item
        act()
        self._rule, self.line = None, before

    def see_parts(self, field: str, text: str, pieces: list[Piece], spread: bool) -> None:
        """A text was taken apart; `spread`: it is that of many lines, of which the current one is the first."""
        line, at = self.line, 0
        for start, end, part in pieces:
            if spread:
                line, at = line + text.count("\n", at, start), start
            self._places[id(part)] = line
            first = text[start:end].lstrip().partition("\n")[0]
            self.parts.append(SeenPart(line, f"{field} {part['type']}", cut(first), part))
            self.ledger.took.add(f"{field}.patterns.{part['type']}")

    def text(self, kind: str, content: Any) -> None:
        count = len(self.steps)
        super().text(kind, content)
        if content is None:
            self._empty("content")
        elif len(self.steps) == count:
            line = self._began.get(id(self.steps[-1]))
            self._take("(dropped)", f"the same {kind} as the pieces from line {line} on", content=content)
        else:
            self._began[id(self.steps[-1])] = self.line
            self._take(kind, pairs({"content": self.steps[-1]["content"]}), content=content)

    def piece(self, kind: str, content: Any, message: Any = None) -> None:
        count, held = len(self.steps), len(self._pieces)
        super().piece(kind, content, message)
        if len(self.steps) > count or len(self._pieces) > held:
            self._began.setdefault(id(self.steps[-1]), self.line)
            shown = pairs({"id": message, "content": as_text(content)})
            self._take(kind if len(self.steps) > count else f"+ {kind}", shown, id=message, content=content)
        else:
            self._empty("content", None if content is None else 'content is ""')

    def end_pieces(self) -> None:
        joined = bool(self._pieces)
        super().end_pieces()
        line = self._began.get(id(self.steps[-1])) if joined else None
        self._take("(end)", f"of the pieces from line {line} on" if joined else "no pieces before it")

    def plan(self, entries: Any) -> None:
        super().plan(entries)
        lack = "" if entries is not None or self._rule is None else f" ({self._rule.lacks('entries')})"
        self._take("plan", pairs({"entries": self.steps[-1]["entries"]}) + lack, entries=entries)

    def call(self, ident: Any, name: Any, given: Any) -> Step:
        step = super().call(ident, name, given)
        if self._rule is not None:
            shown = self._tool(step, name, is_result=False) + pairs({"id": ident, "input": given})
            self._take("tool_call", shown, id=ident, title=name, input=given)
        return step

    def report(
        self,
        ident: Any,
        name: Any,
        given: Any,
        output: Any,
        word: Any,
        flag: Any,
        duration: Any,
        otherwise: str,
    ) -> Step:
        rule, self._rule = self._rule, None  # what it calls of its own is part of it
        step = super().report(ident, name, given, output, word, flag, duration, otherwise)
        self._rule = rule
        is_result = step["status"] in ("completed", "failed")
        found = {"id": ident, "status": word, "input": given, "output": output, "isError": flag, "duration": duration}
        shown = self._tool(step, name, is_result) + pairs({**found, "status": step["status"]})
        self._take("tool_call", shown, title=name, **found)
        return step

    def fail(self, errors: list[str]) -> None:
        super().fail(errors)
        if self._rule is None:
            return  # what the result said is noted there
        found = errors != [UNEXPLAINED]
        for error in errors:
            lack = "" if found else f" ({self._rule.lacks('content')})"
            self._take("error", value(error) + lack, content=error if found else None)

    def _tool(self, step: Step, name: Any, is_result: bool) -> str:
        """The call that an event is about: the line in which it began, its name when that is this event."""
        line = self._began.get(id(step))
        if line is not None:
            return f"-> line {line} ({cut(step['name'])}) "
        self._began[id(step)] = self.line
        lack = (
            f" ({'no call before it' if is_result else self._rule.lacks('title')})" if self._rule and not name else ""
        )
        return pairs({"name": step["name"]}) + lack + " "

    def _take(self, kind: str, what: str, **found: Any) -> None:
        if self._rule is None:
            return
        self.notes.append(Note(kind, self._rule.label, what, self._item))
        self.ledger.took.add(self._rule.field)
        self.ledger.took.update(f"{self._rule.field}.extract.{name}" for name in found if found[name] is not None)

    def _empty(self, name: str, why: str | None = None) -> None:
        if self._rule is None:
            return
        why = why or self._rule.lacks(name)
        self.notes.append(Note(EMPTY, self._rule.label, f"matched; {why}", self._item))
        self.ledger.matched(self._rule.field, self.record, self.line, why)


class TracedAdapter(Adapter):
    """An adapter that tells a witness which of its parts is at work; it reads as any other does."""

    def __init__(self, config: HeadlessAdapter, source: str) -> None:
        self.ledger = FieldUse()
        self.witness = TraceRecorder("", self.ledger)
        super().__init__(config, source, self._saw_parts)
        self._fails = [compile_path(text) for text in as_list(config.result and config.result.is_error_path)]
        if self._unfold is not None:
            self._unfold = self._watch_unfolding(self._unfold)

    def begin(self, record_id: str) -> TraceRecorder:
        """The witness of one more record."""
        self.witness = TraceRecorder(record_id, self.ledger)
        return self.witness

    def dispatch(self, rules: list[Rule], actions: list[Action]) -> Dispatch:
        self.rules, self.actions = rules, actions
        self.faces = [_face(n, event, self.config) for n, event in enumerate(self.events)]
        names = [name for name in ("result", "usage", "metadata") if getattr(self.config, name)]
        return Dispatch(
            [self._watch_rule(rule, face) for rule, face in zip(rules, self.faces, strict=True)],
            [self._watch_action(action, name) for action, name in zip(actions, names, strict=True)],
        )

    def follow(self, lines: list[str], times: Iterable[Time], out: Trajectory) -> tuple[Any, str | None]:
        named, spare = super().follow(lines, times, out)
        if named is not None:
            self.ledger.took.add("resume.sessionIdPath")
        found = as_text(named) if named is not None else spare
        if found and self.witness.news({"": found}):
            own = self.config.resume is not None and named is not None
            self.witness.notes.append(Note("session", "resume" if own else "$.session_id", value(found)))
        return named, spare

    def _saw_parts(self, field: str, text: str, pieces: list[Piece]) -> None:
        self.witness.see_parts(field, text, pieces, self.config.output_mode == "text")

    def _watch_unfolding(self, unfold: Unfold) -> Unfold:
        def watch(event: Event) -> list[Event]:
            events = unfold(event)
            if len(events) > 1:
                self.ledger.took.add("nestedEvents")
            return events

        return watch

    def _watch_rule(self, rule: Rule, face: RuleName) -> Rule:
        def watch(item: Any, event: Event, out: Trajectory) -> None:
            self.witness.emit(face, item, lambda: rule.emit(item, event, out))

        return replace(rule, emit=watch)

    def _watch_action(self, action: Action, name: str) -> Action:
        """The action, tried first on a trajectory of its own, where what it gives is all there is."""
        note: Callable[[Event, Trajectory], None] = getattr(self, f"_note_{name}")

        def watch(event: Event, out: Trajectory) -> None:
            alone = Trajectory("")
            action.act(event, alone)
            note(event, alone)
            action.act(event, out)

        return replace(action, act=watch)

    def _note_result(self, event: Event, given: Trajectory) -> None:
        if any(path.get(event) is not None for path in self._fails):
            self.ledger.took.add("result.isErrorPath")
        for error in given.result_errors:
            self._take("error", "result", value(error))
        if given.result and given.result_errors != [given.result]:
            self._take("output", "result", value(given.result))
        elif not given.result_errors:
            paths = as_list(self.config.result and self.config.result.content_path)
            self._empty(
                "result", f"contentPath {' or '.join(paths)} finds nothing" if paths else "it has no contentPath"
            )

    def _note_usage(self, event: Event, given: Trajectory) -> None:
        if given.usage:
            self._take("usage", "usage", pairs(given.usage))
            self.ledger.took.update(f"usage.{name}" for name in given.usage)
        elif self.config.usage and self.config.usage.match:
            self._empty("usage", "no path finds a number")

    def _note_metadata(self, event: Event, given: Trajectory) -> None:
        self.ledger.took.update(f"metadata.{name}" for name in given.facts)
        if news := self.witness.news(given.facts):
            self._take("metadata", "metadata", pairs(news))

    def _take(self, kind: str, field: str, what: str) -> None:
        self.witness.notes.append(Note(kind, field, what))
        self.ledger.took.add(field)

    def _empty(self, field: str, why: str) -> None:
        witness = self.witness
        witness.notes.append(Note(EMPTY, field, f"matched; {why}"))
        self.ledger.matched(field, witness.record, witness.line, why)


def _face(n: int, event: OutputEvent, config: HeadlessAdapter) -> RuleName:
    """What a reader of the schema calls its rule; in passthrough mode the value that stands for a step."""
    extract = {name: as_list(paths) for name, paths in to_builtins(event.extract or {}).items()}
    field = f"outputEvents[{n}]"
    if config.output_mode == "passthrough" and isinstance(event.match, Condition):
        types = config.passthrough_type_map or PassthroughTypeMap()
        return RuleName(f"{TYPE_VALUES}.{event.match.value}", f"{types.type_field}={event.match.value}", extract)
    return RuleName(field, field, extract)
