"""What TAB may complete a tool's command line with: the tool answers from its own parameters, the shell shows it.

A shell that has read `ae completion SHELL` starts the tool with _AE_COMPLETE set and the words up to the cursor as
arguments. The answer is lines: what the shell adds by itself (a Kind), what of the last word it leaves alone, and
then each word that fits, a tab, and what it means. One answer serves three shells, and it cannot be out of date.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Literal, NamedTuple

from agenteval.cli.startup import click
from agenteval.cli.suite import own_tools, places, plug_ins

if TYPE_CHECKING:
    from agenteval.cli.tool import Tool

Kind = Literal["words", "files", "directories", "commands"]
Words = Mapping[str, str]  # a word and what it means


class Names(click.types.StringParamType):
    """Any text; TAB offers these words."""

    def __init__(self, words: Callable[[], Words]) -> None:
        self.words = words


class Completions(NamedTuple):
    """What fits at the cursor."""

    kind: Kind = "words"
    words: Words = {}
    kept: str = ""  # the start of the word that stays, such as --style=

    def __str__(self) -> str:
        return "\n".join([self.kind, self.kept, *(f"{word}\t{help}" for word, help in self.words.items())])


def complete(command: Tool, args: list[str]) -> Completions:
    """What the last of the arguments, which may be empty, can become."""
    *before, word = args or [""]
    line = TypedLine(command, before)
    if line.ended:
        return line.after_dashes(word)
    if line.waiting:
        return value_of(line.waiting[0], word)
    if word.startswith("--") and "=" in word:
        name, _, value = word.partition("=")
        answer = value_of(line.options[name], value) if name in line.options else Completions()
        return answer._replace(kept=f"{name}={answer.kept}")
    if word.startswith("-"):
        return Completions(words=_starting(word, line.unused()))
    return line.operand(word)


class TypedLine:
    """The words before the cursor, read as Click would read them."""

    def __init__(self, command: Tool, words: Iterable[str]) -> None:
        params = command.get_params(click.Context(command, resilient_parsing=True, **command.context_settings))
        self.options = {
            name: param
            for param in params
            if isinstance(param, click.Option)
            for name in (*param.opts, *param.secondary_opts)
        }
        self.arguments = [param for param in params if isinstance(param, click.Argument)]
        self.takes_command = command.takes_command
        self.seen: list[click.Option] = []
        self.waiting: list[click.Option] = []  # once for each value that is still to come
        self.operands = 0
        self.ended = False  # by --
        self.behind = 0  # words after it
        for word in words:
            self._read(word)

    def _read(self, word: str) -> None:
        if self.ended:
            self.behind += 1
        elif self.waiting:
            self.waiting.pop()
        elif word == "--":
            self.ended = True
        elif word.startswith("--"):
            name, equals, _ = word.partition("=")
            self._meet(name, given=bool(equals))
        elif word.startswith("-") and word != "-":
            self._read_letters(word[1:])
        else:
            self.operands += 1

    def _read_letters(self, letters: str) -> None:
        for place, letter in enumerate(letters, 1):
            self._meet(f"-{letter}", given=place < len(letters))
            if takes_value(self.options.get(f"-{letter}")):
                return  # the other letters are its value

    def _meet(self, name: str, *, given: bool) -> None:
        option = self.options.get(name)
        if option is not None:
            self.seen.append(option)
            if takes_value(option):
                self.waiting = [option] * (option.nargs - given)

    def unused(self) -> Words:
        """The options that may still come, long names first."""
        spent = [option for option in self.seen if not option.multiple]
        left = {name: option for name, option in self.options.items() if not option.hidden and option not in spent}
        return {name: left[name].help or "" for name in sorted(left, key=lambda name: not name.startswith("--"))}

    def operand(self, word: str) -> Completions:
        """The next argument that is no option."""
        if self.operands < len(self.arguments):
            return value_of(self.arguments[self.operands], word)
        last = self.arguments[-1:]
        return value_of(last[0], word) if last and last[0].nargs == -1 else Completions()

    def after_dashes(self, word: str) -> Completions:
        """After --: an agent's command line where one may stand, else what is no option though it may look like one."""
        if self.takes_command:
            return Completions("files" if self.behind else "commands")
        self.operands += self.behind
        return self.operand(word)


def takes_value(option: click.Option | None) -> bool:
    """Whether the next word belongs to it."""
    return option is not None and not option.is_flag and not option.count


# --- values -------------------------------------------------------------------------------------


def adapters() -> Words:
    """The adapter schemas that ship with the suite."""
    from agenteval.adapters.reader import bundled_adapters

    return dict.fromkeys(bundled_adapters(), "adapter of the suite")


def graders() -> Words:
    """The graders of the suite, and others that are called like them."""
    others = plug_ins(places())
    return {**own_tools("graders"), **{name: others[name] for name in others if name.startswith("ae-grader-")}}


NAMED = {"FILE|NAME": adapters, "[NAME=]GRADER": graders}  # a metavar means one thing in every tool


def value_of(param: click.Parameter, word: str) -> Completions:
    """What a parameter's value can be: its choices, names the suite knows, or what its metavar speaks of."""
    if isinstance(param.type, click.Choice):
        return Completions(words=_starting(word, dict.fromkeys(map(str, param.type.choices), "")))
    if isinstance(param.type, Names):
        return Completions(words=_starting(word, param.type.words()))
    metavar = param.metavar or ""
    label = re.match(r"\[?[A-Z]+([=:])", metavar)  # LABEL:PATH, [NAME=]GRADER
    kept = "".join(word.rpartition(label[1])[:2]) if label else ""
    named = NAMED[metavar]() if metavar in NAMED else {}
    return Completions(_kind(param, metavar), _starting(word.removeprefix(kept), named), kept)


def _kind(param: click.Parameter, metavar: str) -> Kind:
    if isinstance(param.type, click.File) or re.search("FILE|PATH|GRADER", metavar):
        return "files"
    if isinstance(param.type, click.Path):
        return "files" if param.type.file_okay else "directories"
    if "DIR" in metavar:
        return "directories"
    text = isinstance(param.type, click.types.StringParamType)
    return "files" if text and isinstance(param, click.Argument) else "words"


def _starting(word: str, words: Words) -> Words:
    return {name: help for name, help in words.items() if name.startswith(word)}
