"""The rules of a schema behind one lookup.

Most events of an agent are noise, so the path that tells most kinds apart (`$.type`, as a rule) is looked
up in a table, and an event that no part of the schema asks for costs that lookup.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from msgspec.structs import replace

from agenteval.adapters.conditions import Event, EventTest, item_kind
from agenteval.adapters.jsonpath import Getter, Path, compile_path
from agenteval.adapters.rules import Action, Emit, Handler, Rule
from agenteval.adapters.trajectory import Trajectory


class Dispatch:
    """All rules and actions behind one lookup: `table.get(tell.get(event), other)`; None: nothing to do."""

    def __init__(self, rules: list[Rule], actions: list[Action]) -> None:
        path = _telling_path(rules, actions)
        self.tell = path or compile_path("")
        words: set[str] = set()
        for test in _tests(rules, actions):
            if path and test.path.text == path.text:
                words.update(test.words or ())
        self.table: dict[Any, Handler | None] = {word: _handler(rules, actions, path, word) for word in words}
        self.other = _handler(rules, actions, path, None)
        self.any = _handler(rules, actions, None, None)

    def find(self, event: Event) -> Handler | None:
        """The handler of an event, where there is time for a call."""
        try:
            return self.table.get(self.tell.get(event), self.other)
        except TypeError:  # a list where other events have a word
            return self.any


def _tests(rules: list[Rule], actions: list[Action]) -> Iterable[EventTest]:
    for rule in rules:
        yield from rule.tests
    for action in actions:
        yield from action.tests


def _telling_path(rules: list[Rule], actions: list[Action]) -> Path | None:
    """The path which most rules compare with a text."""
    tests = [test for test in _tests(rules, actions) if test.words]
    counts = Counter(test.path.text for test in tests)
    return max((test.path for test in tests), key=lambda path: counts[path.text], default=None)


def _handler(rules: list[Rule], actions: list[Action], path: Path | None, word: str | None) -> Handler | None:
    """What to do with an event that has this word (None: none of the words) at the path."""

    def left(owner: Rule | Action) -> tuple[EventTest, ...] | None:
        return _undecided(owner.tests, path, word)

    kept = [replace(rule, tests=tests) for rule in rules if (tests := left(rule)) is not None]
    steps = _step_handlers(kept)
    acts = [_guarded(action.act, tests) for action in actions if (tests := left(action)) is not None]
    return _in_turn([*([_until_true(steps)] if steps else []), *acts])


def _undecided(tests: tuple[EventTest, ...], path: Path | None, word: str | None) -> tuple[EventTest, ...] | None:
    """The tests that the lookup has not decided yet, None where it has decided against."""
    if path is None:
        return tests
    if any(test.words and test.path.text == path.text and word not in test.words for test in tests):
        return None
    return tuple(test for test in tests if not (test.words and test.path.text == path.text))


def _step_handlers(rules: list[Rule]) -> list[Handler]:
    """One handler per rule, and one for neighbours that look at the same list."""
    handlers: list[Handler] = []
    previous = None
    for n, rule in enumerate(rules):
        if rule.item is None:
            previous = None
            handlers.append(_event_handler(rule))
        elif rule.item.items.text != previous:
            previous = rule.item.items.text
            handlers.append(_list_handler(rules, n, rule.item.items))
    return handlers


def _event_handler(rule: Rule) -> Handler:
    emit, done = rule.emit, not rule.also
    if not rule.tests:

        def always(event: Event, out: Trajectory) -> bool:
            emit(event, event, out)
            return done

        return always
    if rule.lone:
        return _lone_handler(rule.tests[0], emit, done)

    def handle(event: Event, out: Trajectory) -> bool:
        if all(test.holds(event) for test in rule.tests):
            emit(event, event, out)
            return done
        return False

    return handle


def _lone_handler(only: EventTest, emit: Emit, done: bool) -> Handler:
    """A single plain condition, which in the seed's harness looks at each item where it finds a list."""
    get, test = only.path.get, only.test

    def handle(event: Event, out: Trajectory) -> bool:
        found = get(event)
        if type(found) is list:
            items = [item for item in found if test(item_kind(item))]
            for item in items:
                emit(item, event, out)
            return done and bool(items)
        if test(found):
            emit(event, event, out)
            return done
        return False

    return handle


def _list_handler(rules: list[Rule], start: int, items: Path) -> Handler:
    """Each item of a list goes to the first rule that fits it, in the order of the items."""
    members = [rule for rule in rules if rule.item is not None and rule.item.items.text == items.text]
    run = {id(rules[start])}
    for rule in rules[start + 1 :]:
        if rule.item is None or rule.item.items.text != items.text:
            break
        run.add(id(rule))
    if any(rule.also for rule in members):
        members = [rule for rule in members if id(rule) in run]  # the others get to see the event later
    get = items.get
    if len(run) == len(members) and (emits := _by_type(members)) is not None:
        return _typed_items(get, emits)

    def handle(event: Event, out: Trajectory) -> bool:
        found = get(event)
        if type(found) is not list:
            return False
        able = [rule for rule in members if all(test.holds(event) for test in rule.tests)]
        chosen = [(rule, item) for item in found for rule in _fitting(able, item)]
        if not any(id(rule) in run for rule, _ in chosen):
            return False  # a rule between these and their likes further down may come first
        for rule, item in chosen:
            rule.emit(item, event, out)
        return not all(rule.also for rule, _ in chosen)

    return handle


def _by_type(members: list[Rule]) -> dict[str, Emit] | None:
    """The rules by the type they ask for, None where they ask for more than that."""
    emits: dict[str, Emit] = {}
    for rule in members:
        item = rule.item
        if rule.tests or rule.also or item is None or item.words is None or item.kind is not item_kind:
            return None
        for word in item.words:
            emits.setdefault(word, rule.emit)
    return emits


def _typed_items(get: Getter, emits: dict[str, Emit]) -> Handler:
    def handle(event: Event, out: Trajectory) -> bool:
        found = get(event)
        if type(found) is not list:
            return False
        any_fits = False
        for item in found:
            kind = item.get("type") if type(item) is dict else item
            if type(kind) is str and (emit := emits.get(kind)) is not None:
                emit(item, event, out)
                any_fits = True
        return any_fits

    return handle


def _fitting(rules: list[Rule], item: Any) -> Iterable[Rule]:
    """The first rule that fits the item, and those before it that fit it also."""
    for rule in rules:
        if rule.item is not None and rule.item.test(rule.item.kind(item)):
            yield rule
            if not rule.also:
                return


def _guarded(act: Handler, tests: tuple[EventTest, ...]) -> Handler:
    if not tests:
        return act

    def guarded(event: Event, out: Trajectory) -> None:
        if all(test.holds(event) for test in tests):
            act(event, out)

    return guarded


def _until_true(handlers: list[Handler]) -> Handler:
    if len(handlers) == 1:
        return handlers[0]

    def first(event: Event, out: Trajectory) -> None:
        for handle in handlers:
            if handle(event, out):
                return

    return first


def _in_turn(handlers: list[Handler]) -> Handler | None:
    if len(handlers) < 2:
        return handlers[0] if handlers else None

    def each(event: Event, out: Trajectory) -> None:
        for handle in handlers:
            handle(event, out)

    return each
