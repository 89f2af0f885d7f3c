"""Which rules of a schema an event is given to, and the loop over lines.

Most events of an agent are noise. So the path that most rules compare with a string (usually `$.type`) is looked up
first, and an event is given only to the rules that are left for what is found there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from agenteval.adapters.conditions import CompiledCondition, Event, SchemaCompiler, item_kind
from agenteval.adapters.jsonpath import Path, nothing
from agenteval.adapters.rules import Rule
from agenteval.adapters.trajectory import Time, Trajectory

Handler = Callable[[Event, Trajectory], None]
Block = Callable[[Event, Trajectory], bool]  # returns whether no later rule gets the event
DECODE_ERRORS = (msgspec.MsgspecError, UnicodeEncodeError, RecursionError)
decode = msgspec.json.Decoder().decode


class CompiledSchema:
    """Gives events to the rules of a schema.

    Of `rules` the first that matches an event gets it (and those before it with `also`), of `actions` all that match.
    """

    def __init__(self, compiler: SchemaCompiler, rules: list[Rule], actions: list[Rule], session: Path) -> None:
        tests = [test for rule in (*rules, *actions) for test in rule.tests if test.words]
        counts = Counter(test.path.text for test in tests)
        path = max((test.path for test in tests), key=lambda path: counts[path.text], default=None)
        words = {word for test in tests if path and test.path.text == path.text for word in test.words or ()}
        self._key = path.get if path else nothing
        self._handlers: dict[Any, Handler | None] = {word: _handler(rules, actions, path, word) for word in words}
        self._other = _handler(rules, actions, path, "")
        self._any_kind = _handler(rules, actions, path, None)
        self._session = session.get
        self._spare = compiler.path("$.session_id", "resume.sessionIdPath").get

    def find(self, event: Event) -> Handler | None:
        """Returns what handles an event, None if no rule is for it."""
        try:
            return self._handlers.get(self._key(event), self._other)
        except TypeError:  # a list where other events have a string
            return self._any_kind

    def read_lines(
        self,
        lines: list[str],
        times: Iterable[Time],
        out: Trajectory,
        decode_otherwise: Callable[[str, Trajectory], Event | None],
        read_event: Callable[[Event, Time, Trajectory], None] | None,
    ) -> tuple[Any, str | None]:
        """Applies the rules to lines; returns the last session id at the schema's path, and at `$.session_id`."""
        session_id = spare_id = None
        get_session, get_spare = self._session, self._spare
        handlers, other, key = self._handlers, self._other, self._key
        for line, time in zip(lines, times, strict=False):
            try:
                event = decode(line)
            except DECODE_ERRORS:
                event = None
            if type(event) is not dict and (event := decode_otherwise(line, out)) is None:
                continue
            if read_event is not None:
                read_event(event, time, out)
            else:
                try:
                    handle = handlers.get(key(event), other)
                except TypeError:  # a list where other events have a string
                    handle = self._any_kind
                if handle is not None:
                    out.time = time
                    handle(event, out)
            if (found := get_session(event)) is not None:
                session_id = found
            elif type(found := get_spare(event)) is str:
                spare_id = found
        return session_id, spare_id


def _handler(rules: list[Rule], actions: list[Rule], path: Path | None, word: str | None) -> Handler | None:
    """Returns what handles an event that has this word at the path; "": none of the words, None: no string."""
    blocks = _blocks(_undecided(rules, path, word))
    always = [_block(action) for action in _undecided(actions, path, word)]

    def handle(event: Event, out: Trajectory) -> None:
        for block in blocks:
            if block(event, out):
                break
        for block in always:
            block(event, out)

    return handle if blocks or always else None


def _undecided(rules: list[Rule], path: Path | None, word: str | None) -> list[Rule]:
    """Returns the rules that may still match after the look-up, without the tests that it has decided."""

    def decided(rule: Rule, test: CompiledCondition) -> bool:
        looks_into_lists = rule.lone and word is None
        return path is not None and bool(test.words) and test.path.text == path.text and not looks_into_lists

    return [
        msgspec.structs.replace(rule, tests=tuple(test for test in rule.tests if not decided(rule, test)))
        for rule in rules
        if all(word in (test.words or ()) for test in rule.tests if decided(rule, test))
    ]


def _blocks(rules: list[Rule]) -> list[Block]:
    """Returns a function for each rule, and one for neighbours that look at the same list."""
    blocks: list[Block] = []
    previous = None
    for n, rule in enumerate(rules):
        if rule.item is None:
            blocks.append(_lone_block(rule) if rule.lone and rule.tests else _block(rule))
            if not rule.tests and not rule.also:
                break  # it takes every event
        elif rule.item.path.text != previous:
            blocks.append(_list_block(rules, n, rule.item.path))
        previous = rule.item and rule.item.path.text
    return blocks


def _block(rule: Rule) -> Block:
    tests, act, takes = [test.holds for test in rule.tests], rule.act, not rule.also
    if not tests:
        return lambda event, out: act(event, event, out) is None and takes or takes

    def block(event: Event, out: Trajectory) -> bool:
        for holds in tests:
            if not holds(event):
                return False
        act(event, event, out)
        return takes

    return block


def _lone_block(rule: Rule) -> Block:
    """Returns the function of a single condition: in agent-eval-harness it looks at each item where it finds a list."""
    (condition,), act, takes = rule.tests, rule.act, not rule.also

    def block(event: Event, out: Trajectory) -> bool:
        found = condition.path.get(event)
        if type(found) is not list:
            if not condition.test(found):
                return False
            act(event, event, out)
            return takes
        fitting = [item for item in found if condition.test(item_kind(item))]
        for item in fitting:
            act(item, event, out)
        return takes and bool(fitting)

    return block


def _list_block(rules: list[Rule], start: int, items: Path) -> Block:
    """Returns what gives each item of a list to the first rule that fits it, in the order of the items."""
    members = [rule for rule in rules if rule.item is not None and rule.item.path.text == items.text]
    run: list[Rule] = []  # of neighbours: if only others fit, a rule between these and them may come first
    for rule in rules[start:]:
        if rule.item is None or rule.item.path.text != items.text:
            break
        run.append(rule)
    if any(rule.also for rule in members):
        members = run  # the others get the event later
    leads = {id(rule) for rule in run}

    def block(event: Event, out: Trajectory) -> bool:
        found = items.get(event)
        if type(found) is not list:
            return False
        able = [rule for rule in members if all(test.holds(event) for test in rule.tests)]
        chosen = [(rule, item) for item in found for rule in _fitting(able, item)]
        if not any(id(rule) in leads for rule, _ in chosen):
            return False
        for rule, item in chosen:
            rule.act(item, event, out)
        return not all(rule.also for rule, _ in chosen)

    return block


def _fitting(rules: list[Rule], item: Any) -> Iterable[Rule]:
    """Yields the first rule that fits the item, and those with `also` before it that fit it."""
    for rule in rules:
        if rule.item is not None and rule.item.fits(item):
            yield rule
            if not rule.also:
                return
