"""The trace of a reading: which rule of a schema takes what from which line, and which fields never take anything."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from msgspec import to_builtins

from agenteval.adapters.conditions import as_list
from agenteval.adapters.parts import Piece
from agenteval.adapters.rules import TYPE_VALUES, output_events
from agenteval.adapters.trajectory import UNEXPLAINED, Step, Trajectory
from agenteval.adapters.words import as_text
from agenteval.streams.jsonl import encode
from agenteval.streams.text import one_line
from agenteval.wire.adapter_schema import HeadlessAdapter, PassthroughTypeMap

SHOWN = 100  # characters of a line or of a value
EMPTY, PART = "(empty)", "part"  # kinds of rows: a rule matched and found nothing; a part of a text


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


class Tracer:
    """The `trace` of an adapter: makes the calls of its rules, and keeps a row about each.

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

    def begin(self, record: str, out: Trajectory) -> None:
        """Begins a record."""
        self.record, self.out, self.line = record, out, 0
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

    def __call__(self, field: str, item: Any, function: Callable[..., Any], values: dict[str, Any]) -> Any:
        """Calls the function for a field of the schema, and adds rows about what it did."""
        count, line = len(self.out.steps), self.line
        result = function(values) if field.startswith(("usage", "metadata")) else function(*values.values())
        if field == "nestedEvents":
            self.took |= {field} if type(result) is list and any(type(one) is dict for one in result) else set()
            return result
        if field == "linePatterns":
            self.took |= {f"{field}.{result['type']}"} if result else set()
            return result
        if field.startswith("splits"):
            self._add_parts(field, values["text"], result)
            return result
        self.line = self._places.get(id(item), line)
        is_new = len(self.out.steps) > count
        for kind, what in self._described(field, function.__name__, values, result, is_new):
            if kind == EMPTY:
                self.matched.setdefault(field, (self.record, self.line, what))
            else:
                self.took.add(field)
            shown = f"matched; {what}" if kind == EMPTY else what
            self._rows.append(ExplainedLine("", kind, self._label(field), shown, item))
        self.took.update(f"{field}.{name}" for name, found in values.items() if found is not None)
        self.line = line
        return result

    def add_session(self, named: Any, spare: str | None) -> None:
        """Adds a row about the session id of the turn so far, unless there is one."""
        found = as_text(named) if named is not None else spare
        if found and self._news({"": found}):
            own = self.config.resume is not None and named is not None
            self._rows.append(ExplainedLine("", "session", "resume" if own else "$.session_id", value(found)))
        if named is not None:
            self.took.add("resume.sessionIdPath")

    def _add_parts(self, field: str, text: str, pieces: list[Piece]) -> None:
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

    def _label(self, field: str) -> str:
        """Returns what a rule is called: its field, in passthrough mode the value that stands for a step."""
        types = self.config.passthrough_type_map or PassthroughTypeMap()
        return field.replace(f"{TYPE_VALUES}.", f"{types.type_field}=", 1)

    def _lacks(self, field: str, name: str) -> str:
        paths = self.extracts[field].get(f"extract.{name}")
        return f"{name} {' or '.join(paths)} finds nothing" if paths else f"there is no extract.{name}"

    def _described(
        self, field: str, method: str, values: dict[str, Any], result: Any, is_new: bool
    ) -> Iterator[tuple[str, str]]:
        """Yields the kind and the text of the rows about a call of a method of the trajectory."""
        last = self.out.steps[-1] if self.out.steps else {}
        match method:
            case "text" | "piece":
                yield self._text(field, method, values, last, is_new)
            case "end_pieces":
                began = f"of the pieces from line {self._began.get(id(result))} on"
                yield "(end)", began if result else "no pieces before it"
            case "plan":
                lack = f" ({self._lacks(field, 'entries')})" if values["extract.entries"] is None else ""
                yield "plan", pairs({"entries": last["entries"]}) + lack
            case "error":
                lack = f" ({self._lacks(field, 'content')})" if result == [UNEXPLAINED] else ""
                yield from (("error", value(error) + lack) for error in result)
            case "call" | "report" | "ask":
                names = ("id", "status", "input", "output", "isError", "duration", "permission")
                shown = {name: values.get(f"extract.{name}") for name in names}
                shown["status"] = result["status"] if method == "report" else None
                yield "tool_call", self._tool(field, result, values["extract.title"]) + pairs(shown)
            case "conclude":
                yield from self._conclusion()
            case "add_output":
                if (piece := values["extract.outputDelta"]) is not None:
                    yield "tool_call", self._tool(field, result, True) + pairs({"outputDelta": piece})
            case "set_parent" | "clock":
                pass  # the step shows it
            case "note":
                if news := self._news({name: fact for name, fact in values.items() if fact is not None}):
                    yield "metadata", pairs(news)
            case _:
                if counts := pairs(values):
                    yield "usage", counts
                elif self.config.usage and self.config.usage.match:
                    yield EMPTY, "no path finds a number"

    def _text(self, field: str, method: str, values: dict[str, Any], last: Step, is_new: bool) -> tuple[str, str]:
        kind, content = values["emitAs"], values["extract.content"]
        if content is None:
            return EMPTY, self._lacks(field, "content")
        if method == "text" and not is_new:
            return "(dropped)", f"the same {kind} as the pieces from line {self._began.get(id(last))} on"
        if not is_new and not as_text(content):
            return EMPTY, 'content is ""'
        self._began.setdefault(id(last), self.line)
        shown = pairs({"id": values.get("extract.id"), "content": as_text(content)})
        return kind if is_new else f"+ {kind}", shown

    def _tool(self, field: str, step: Step, title: Any) -> str:
        """Returns the call that an event is about: the line in which it began, or its name if it begins here."""
        line = self._began.get(id(step))
        if line is not None:
            return f"-> line {line} ({cut(step['name'])}) "
        self._began[id(step)] = self.line
        is_result = step["status"] in ("completed", "failed")
        lack = "" if title else f" ({'no call before it' if is_result else self._lacks(field, 'title')})"
        return pairs({"name": step["name"]}) + lack + " "

    def _conclusion(self) -> Iterator[tuple[str, str]]:
        text, errors = self.out.result, self.out.result_errors
        yield from (("error", value(error)) for error in errors)
        if text and errors != [text]:
            yield "output", value(text)
        elif not errors:
            paths = as_list(self.config.result and self.config.result.content_path)
            yield EMPTY, f"contentPath {' or '.join(paths)} finds nothing" if paths else "it has no contentPath"

    def _news(self, facts: dict[str, Any]) -> dict[str, Any]:
        """Returns the facts that this turn has not given before: many agents repeat them in every line."""
        news = {name: fact for name, fact in facts.items() if name not in self._facts or self._facts[name] != fact}
        self._facts |= news
        return news
