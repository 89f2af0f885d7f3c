"""The code of a schema: one function per kind of event, and the loop over lines that calls them.

Most events of an agent are noise. So the path that most rules compare with a string (usually `$.type`) is looked up in
a table, and an event that no rule is for costs that look-up only. `ae-extract --debug` shows the code.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from agenteval.adapters.conditions import CompiledCondition, Event, SchemaCompiler, item_kind
from agenteval.adapters.events import BEFORE, DECODE, EventShape, are_escaped
from agenteval.adapters.jsonpath import Path
from agenteval.adapters.rules import Code, Rule, any_true, is_piece, total
from agenteval.adapters.trajectory import Time, Trajectory
from agenteval.adapters.words import is_true, stop_reason

Handler = Callable[[Any, Trajectory], None]
ReadEvent = Callable[[Event, Time, Trajectory], None]

FIND = """
def find(event):
    try:
        return table.get({key}, other)
    except TypeError:  # a list where other events have a string
        return any_kind
"""
LOOP = """
def read_lines(lines, times, out):
    session_id = spare_id = None
    {prelude}
    for line, time in zip(lines, times):
        try:
            event = {decode}
        except DECODE_ERRORS:
            event = decode_otherwise(line, out)
            if event is None: continue
{handle}
        found = {session}
        if found is not None:
            session_id = found
        {spare}
    return session_id, spare_id
"""
NO_OBJECT = [
    "if type(event) is not dict:",
    "    event = decode_otherwise(line, out)",
    "    if event is None: continue",
]
HANDLE = [
    "try:",
    "    handle = table.get(kind, other)",
    "except TypeError:",
    "    handle = any_kind",
    "if handle is not None:",
    "    out.time = time",
    "    handle(event, out)",
]
DECODE_ERRORS = (msgspec.MsgspecError, UnicodeEncodeError, RecursionError)
MOST_LOOK_UPS = 5  # in code that is repeated for each kind of event: to compile more takes longer than to call it


class CompiledSchema:
    """The functions of a schema: `find` returns the handler of an event or None, `read_lines` applies them to lines.

    Of `rules` the first that matches an event gets it (and those before it with `also`), of `actions` all that match.
    """

    def __init__(self, compiler: SchemaCompiler, rules: list[Rule], actions: list[Rule], session: Path) -> None:
        self.compiler, self._shared = compiler, _SharedLists(compiler)
        tests = [test for rule in (*rules, *actions) for test in rule.tests if test.words]
        counts = Counter(test.path.text for test in tests)
        path = max((test.path for test in tests), key=lambda path: counts[path.text], default=None)
        words = sorted({word for test in tests if path and test.path.text == path.text for word in test.words or ()})
        names = {word: f"kind_{n}" for n, word in enumerate(words)}
        self._calls: dict[int, Code] = {}
        self._parts = self._share(rule for word in (*words, "") for rule in _undecided([*rules, *actions], path, word))
        functions = {name: self._handler(rules, actions, path, word) for word, name in names.items()}
        functions["other"] = self._handler(rules, actions, path)
        self._any_kind = _function("any_kind", "event, out", self._handler(rules, actions, path, None))
        table = ", ".join(f"{word!r}: {name}" for word, name in names.items())
        self._parts += [_function(name, "event, out", code) for name, code in functions.items()]
        self._parts += [*self._shared.functions(), f"table = {{{table}}}\n"]
        self._pieces = {word: functions[name] for word, name in names.items() if is_piece(functions[name])}
        self._key = compiler.look_up(path) if path else "None"
        self._session = compiler.look_up(session)
        spare = compiler.path("$.session_id", "resume.sessionIdPath")
        has_spare = session.text != spare.text
        self._spare = f"elif type(found := {compiler.look_up(spare)}) is str: spare_id = found" if has_spare else ""

    def build(
        self,
        decode_otherwise: Callable[[str, Trajectory], Any],
        read_event: ReadEvent | None,
        *,
        dicts: bool,
        as_json: bool,
    ) -> None:
        """Compiles the code; with `dicts` events are dicts, for code that is not made here.

        With `as_json` long texts, and the input and output of tools, may stay JSON (Fragment).
        `read_event` is called in place of the handlers where there may be events within events.
        """
        compiler, names = self.compiler, self.compiler.names
        plain = all(look_up.path.keys is not None for look_up in compiler.look_ups) and not self._shared.members
        as_struct = plain and not dicts
        shape = self.shape = EventShape(compiler.reads, names, compiler.written, as_struct=as_struct, as_json=as_json)
        check = [] if shape.tree is not None else NO_OBJECT
        handling = ["read_event(event, time, out)"] if read_event else self._handling()
        handle = "\n".join(_indented([*check, *handling], 2))
        decode, prelude = (DECODE, BEFORE) if shape.may_keep_json else ("decode(line)", "")
        loop = LOOP.format(session=self._session, spare=self._spare, handle=handle, decode=decode, prelude=prelude)
        look_ups = [shape.code(look_up) for look_up in compiler.look_ups]
        parts = "\n".join([*self._parts, FIND.format(key=self._key), loop])
        source, rare = (re.sub("@([0-9]+)@", lambda n: look_ups[int(n[1])], code) for code in (parts, self._any_kind))
        names |= {
            "is_true": is_true,
            "any_true": any_true,
            "total": total,
            "stop_reason": stop_reason,
            "item_kind": item_kind,
            "Raw": msgspec.Raw,
        }
        names |= shape.decoders
        names |= {
            "are_escaped": are_escaped,
            "decode_otherwise": decode_otherwise,
            "read_event": read_event,
            "DECODE_ERRORS": DECODE_ERRORS,
        }
        self.source = f"{source}\n{rare}"
        exec(source, names)
        names["any_kind"] = _compiled_later("any_kind", rare, names)
        self._shared.bind()
        self.find: Callable[[Any], Handler | None] = names["find"]
        self.read_lines: Callable[[Iterable[str], Iterable[Any], Trajectory], tuple[Any, str | None]]
        self.read_lines = names["read_lines"]

    def _handling(self) -> Code:
        """Returns the code that handles an event in the loop: pieces of texts, often most of the lines, at once."""
        code = [f"kind = {self._key}"]
        for n, (word, piece) in enumerate(self._pieces.items()):
            timed = [line.replace("else: ", "else: out.time = time; ", 1) for line in piece]
            code += [f"{'elif' if n else 'if'} kind == {word!r}:", *_indented(timed)]
        return [*code, "else:", *_indented(HANDLE)] if self._pieces else [*code, *HANDLE]

    def _handler(self, rules: list[Rule], actions: list[Rule], path: Path | None, word: str | None = "") -> Code:
        """Returns the code for an event that has this word at the path; "": none of the words, None: no string."""
        code: Code = []
        for n, block in enumerate(blocks := self._step_blocks(_undecided(rules, path, word))):
            code += _guarded("not done" if n else "", block)
        if len(blocks) > 1:
            code.insert(0, "done = False")
        for rule in _undecided(actions, path, word):
            code += _guarded(self._tests(rule.tests), self._code(rule.code))
        return code

    def _share(self, rules: Iterable[Rule]) -> Code:
        """Returns functions for long code that is in those of several kinds, and has it called there instead."""
        kinds = ("event, out", "item, out, event")
        codes = [given for rule in rules for given in zip((rule.code, rule.item_code), kinds, strict=True)]
        counts = Counter(id(code) for code, _ in codes)
        functions = []
        for code, parameters in codes:
            is_long = "".join(code).count("@") > 2 * MOST_LOOK_UPS
            if is_long and counts[id(code)] > 1 and id(code) not in self._calls:
                name = f"shared_{len(self._calls)}"
                self._calls[id(code)] = [f"{name}({parameters})"]
                functions.append(_function(name, parameters, code))
        return functions

    def _code(self, code: Code) -> Code:
        """Returns the code of a rule, or the call of it."""
        return self._calls.get(id(code), code)

    def _tests(self, tests: Iterable[CompiledCondition]) -> str:
        return " and ".join(test.code(self.compiler, self.compiler.look_up(test.path)) for test in tests)

    def _step_blocks(self, rules: list[Rule]) -> list[Code]:
        """Returns the code of each rule, and of neighbours that look at the same list."""
        blocks: list[Code] = []
        previous = None
        for n, rule in enumerate(rules):
            taken = [] if rule.also else ["done = True"]
            if rule.item is not None:
                if rule.item.path.text != previous:
                    blocks.append(self._list_block(rules, n, rule.item.path))
            elif rule.lone and rule.tests:
                blocks.append(self._lone_block(rule, taken))
            else:
                blocks.append(_guarded(self._tests(rule.tests), [*self._code(rule.code), *taken]))
            if rule.item is None and not rule.tests and not rule.also:
                break  # it takes every event
            previous = rule.item and rule.item.path.text
        return blocks

    def _lone_block(self, rule: Rule, taken: Code) -> Code:
        """Returns the code of a single condition: in agent-eval-harness it looks at each item where it finds a list."""
        test = rule.tests[0]
        items = _guarded(test.code(self.compiler, "item_kind(item)"), [*self._code(rule.item_code), *taken])
        return [
            f"found = {self.compiler.look_up(test.path)}",
            "if type(found) is list:",
            *_indented(["for item in found:", *_indented(items)]),
            f"elif {test.code(self.compiler, 'found')}:",
            *_indented([*self._code(rule.code), *taken]),
        ]

    def _list_block(self, rules: list[Rule], start: int, items: Path) -> Code:
        """Returns the code that gives each item of a list to the first rule that fits it, in the order of the items."""
        members = [rule for rule in rules if rule.item is not None and rule.item.path.text == items.text]
        run = {id(rules[start])}
        for rule in rules[start + 1 :]:
            if rule.item is None or rule.item.path.text != items.text:
                break
            run.add(id(rule))
        if any(rule.also for rule in members):
            members = [rule for rule in members if id(rule) in run]  # the others get the event later
        found = f"found = {self.compiler.look_up(items)}"
        by_word = _by_word(members) if len(run) == len(members) else None
        if by_word is None:
            name = self._shared.add(members, run)
            return [found, f"if type(found) is list and give_items(found, event, out, {name}):", "    done = True"]
        kind = self.compiler.look_up(self.compiler.path("$.type", "match"), "item", (*(items.reads or ()), "*"))
        code = [f"kind = {kind} if type(item) is not str else item"]
        for n, (test, rule) in enumerate(by_word):
            condition = test.code(self.compiler, "kind")
            code += [f"{'elif' if n else 'if'} {condition}:", *_indented([*self._code(rule.item_code), "done = True"])]
        return [found, "if type(found) is list:", *_indented(["for item in found:", *_indented(code)])]


class _Member(msgspec.Struct, frozen=True):
    """A rule for items of a list; `leads`: if only others fit, a rule between these and them may come first."""

    rule: Rule
    leads: bool
    emit: Callable[[Any, Trajectory, Any], None]


class _SharedLists:
    """Rules for items that more than the type of an item decides."""

    def __init__(self, compiler: SchemaCompiler) -> None:
        self.names = compiler.names
        self.names["give_items"] = give_items
        self.members: list[tuple[str, Rule, bool]] = []

    def add(self, rules: list[Rule], run: set[int]) -> str:
        """Returns the name of a list of these rules."""
        name = f"members_{len(self.members)}"
        self.members += [(name, rule, id(rule) in run) for rule in rules]
        self.names[name] = []
        return name

    def functions(self) -> Code:
        """Returns the code of each rule as a function."""
        members = enumerate(self.members)
        return [_function(f"emit_{n}", "item, out, event", rule.item_code) for n, (_, rule, _) in members]

    def bind(self) -> None:
        """Fills the lists, once the functions are compiled."""
        for n, (name, rule, leads) in enumerate(self.members):
            self.names[name].append(_Member(rule, leads, self.names[f"emit_{n}"]))


def give_items(items: list[Any], event: Event, out: Trajectory, members: list[_Member]) -> bool:
    """Gives each item to the rules that fit it; returns True if no later rule may get the event."""
    able = [member for member in members if all(test.holds(event) for test in member.rule.tests)]
    chosen = [(member, item) for item in items for member in _fitting(able, item)]
    if not any(member.leads for member, _ in chosen):
        return False
    for member, item in chosen:
        member.emit(item, out, event)
    return not all(member.rule.also for member, _ in chosen)


def _fitting(members: list[_Member], item: Any) -> Iterable[_Member]:
    """Yields the first rule that fits the item, and those with `also` before it that fit it."""
    for member in members:
        if member.rule.item is not None and member.rule.item.fits(item):
            yield member
            if not member.rule.also:
                return


def _by_word(members: list[Rule]) -> list[tuple[CompiledCondition, Rule]] | None:
    """Returns the test of the type of an item and the rule for it, None if the rules look at more than that."""
    found: list[tuple[CompiledCondition, Rule]] = []
    for rule in members:
        item = rule.item
        if rule.tests or rule.also or item is None or item.words is None or item.kind is not item_kind:
            return None
        found.append((item, rule))
    return found


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


def _compiled_later(name: str, source: str, names: dict[str, Any]) -> Handler | None:
    """Returns a function that compiles the code of itself when it is called; None if there is nothing to do."""

    def handle(event: Any, out: Trajectory) -> None:
        exec(source, names)
        names[name](event, out)

    return None if source.endswith("= None") else handle


def _guarded(condition: str, code: Code) -> Code:
    return [f"if {condition}:", *_indented(code)] if condition else code


def _indented(code: Code, levels: int = 1) -> Code:
    return [f"{'    ' * levels}{line}" for line in code]


def _function(name: str, parameters: str, code: Code) -> str:
    """Returns the source of a function; None if there is nothing to do."""
    if not code:
        return f"{name} = None"
    return "\n".join([f"def {name}({parameters}):", *_indented(code)]) + "\n"
