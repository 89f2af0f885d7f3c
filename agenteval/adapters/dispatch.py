"""The rules of a schema behind one look-up.

Most events of an agent are noise. So the path that most rules compare with a string (usually `$.type`) is looked up in
a table, and an event that no rule is for costs that look-up only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from msgspec.structs import replace

from agenteval.adapters.conditions import CompiledCondition, Event, item_kind
from agenteval.adapters.jsonpath import Getter, Path, compile_path
from agenteval.adapters.rules import Emit, Rule
from agenteval.adapters.trajectory import Trajectory

Handler = Callable[[Event, Trajectory], bool | None]  # True: no further rule gets the event


class Dispatch:
    """Finds the handler of an event: `table.get(key.get(event), other)`, None if there is nothing to do.

    Of `rules` the first that matches an event gets it (and those before it with `also`), of `actions` all that match.
    """

    def __init__(self, rules: list[Rule], actions: list[Rule]) -> None:
        tests = [test for rule in (*rules, *actions) for test in rule.tests if test.words]
        counts = Counter(test.path.text for test in tests)
        path = max((test.path for test in tests), key=lambda path: counts[path.text], default=None)
        self.key = path or compile_path("")
        words = {word for test in tests if path and test.path.text == path.text for word in test.words or ()}
        self.table: dict[Any, Handler | None] = {word: _handler(rules, actions, path, word) for word in words}
        self.other = _handler(rules, actions, path, None)
        self.any = _handler(rules, actions, None, None)

    def find(self, event: Event) -> Handler | None:
        """Returns the handler of an event; the loop over lines looks it up without this call."""
        try:
            return self.table.get(self.key.get(event), self.other)
        except TypeError:  # a list where other events have a string
            return self.any


def _handler(rules: list[Rule], actions: list[Rule], path: Path | None, word: str | None) -> Handler | None:
    """Returns what handles an event that has this word at the path (None: none of the words)."""
    steps = _step_handlers(_undecided(rules, path, word))
    every = [_first(steps)] if steps else []
    every += [_event_handler(rule) if rule.tests else rule.emit for rule in _undecided(actions, path, word)]
    if len(every) < 2:
        return every[0] if every else None

    def handle_all(event: Event, out: Trajectory) -> None:
        for handle in every:
            handle(event, out)

    return handle_all


def _undecided(rules: list[Rule], path: Path | None, word: str | None) -> list[Rule]:
    """Returns the rules that may still match after the look-up, without the tests that it has decided."""

    def decided(test: CompiledCondition) -> bool:
        return path is not None and bool(test.words) and test.path.text == path.text

    return [
        replace(rule, tests=tuple(test for test in rule.tests if not decided(test)))
        for rule in rules
        if all(word in (test.words or ()) for test in rule.tests if decided(test))
    ]


def _first(handlers: Sequence[Handler]) -> Handler:
    """Returns a handler that stops at the first of these that returns true."""
    if len(handlers) == 1:
        return handlers[0]

    def handle_first(event: Event, out: Trajectory) -> None:
        for handle in handlers:
            if handle(event, out):
                return

    return handle_first


def _step_handlers(rules: list[Rule]) -> list[Handler]:
    """Returns one handler per rule, and one for neighbours that look at the same list."""
    handlers: list[Handler] = []
    previous = None
    for n, rule in enumerate(rules):
        if rule.item is None:
            handlers.append(_lone_handler(rule) if rule.lone and rule.tests else _event_handler(rule))
        elif rule.item.path.text != previous:
            handlers.append(_list_handler(rules, n, rule.item.path))
        previous = rule.item and rule.item.path.text
    return handlers


def _event_handler(rule: Rule) -> Handler:
    emit, tests, done = rule.emit, rule.tests, not rule.also
    if not tests:

        def handle_always(event: Event, out: Trajectory) -> bool:
            emit(event, out, event)
            return done

        return handle_always

    def handle(event: Event, out: Trajectory) -> bool:
        if all(test.holds(event) for test in tests):
            emit(event, out, event)
            return done
        return False

    return handle


def _lone_handler(rule: Rule) -> Handler:
    """Returns what handles a single condition: in agent-eval-harness it looks at each item where it finds a list."""
    get, test = rule.tests[0].path.get, rule.tests[0].test
    emit, done = rule.emit, not rule.also

    def handle(event: Event, out: Trajectory) -> bool:
        found = get(event)
        if type(found) is list:
            items = [item for item in found if test(item_kind(item))]
        else:
            items = [event] if test(found) else []
        for item in items:
            emit(item, out, event)
        return done and bool(items)

    return handle


def _list_handler(rules: list[Rule], start: int, items: Path) -> Handler:
    """Returns what hands each item of a list to the first rule that fits it, in the order of the items."""
    members = [rule for rule in rules if rule.item is not None and rule.item.path.text == items.text]
    run = {id(rules[start])}
    for rule in rules[start + 1 :]:
        if rule.item is None or rule.item.path.text != items.text:
            break
        run.add(id(rule))
    if any(rule.also for rule in members):
        members = [rule for rule in members if id(rule) in run]  # the others get the event later
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
            return False  # a rule between these and the others for this list may come first
        for rule, item in chosen:
            rule.emit(item, out, event)
        return not all(rule.also for rule, _ in chosen)

    return handle


def _by_type(members: list[Rule]) -> dict[str, Emit] | None:
    """Returns what to do by the type of an item, None if the rules look at more than that."""
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
                emit(item, out, event)
                any_fits = True
        return any_fits

    return handle


def _fitting(rules: list[Rule], item: Any) -> Iterable[Rule]:
    """Yields the first rule that fits the item, and those with `also` before it that fit it."""
    for rule in rules:
        if rule.item is not None and rule.item.fits(item):
            yield rule
            if not rule.also:
                return
