"""The options of several tools: each has one name, one meaning and one help text."""

from collections.abc import Callable, Mapping
from math import isfinite
from typing import Any, Protocol, TypeVar

import click
from click.core import ParameterSource
from click.shell_completion import CompletionItem

from agenteval.cli.completion import starting
from agenteval.errors import BadRecord, UserError
from agenteval.streams.jsonl import decode_record
from agenteval.streams.source import Source
from agenteval.streams.text import counted, number_in, parse_milliseconds, whole_number

F = TypeVar("F", bound=Callable[..., Any])


class Decorator(Protocol):
    """Adds an option to a function."""

    def __call__(self, function: F, /) -> F: ...


def combined(*options: Decorator) -> Decorator:
    """Returns a decorator that adds these options; --help lists them in this order."""

    def decorate(function: F) -> F:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


# --- types of values ----------------------------------------------------------------------------


class Parsed(click.types.StringParamType):
    """A value that a function parses; its ValueError is the message."""

    def __init__(self, name: str, parse: Callable[[str], object]) -> None:
        self.name, self.parse = name, parse

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Returns the value of the text."""
        try:
            return self.parse(str(value))  # a default may be a number
        except ValueError as error:
            self.fail(str(error), param, ctx)


MILLISECONDS = Parsed("time", parse_milliseconds)


class CountRange(click.IntRange):
    """A whole number within bounds."""

    name = "whole number"  # in Click's messages


class NumberRange(click.FloatRange):
    """A finite number within bounds; Click would accept nan and inf. Suggests the share for a percentage."""

    name = "number"  # in Click's messages

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Returns the number; fails if it is not finite."""
        percent = str(value).endswith("%")
        given = number_in(str(value).removesuffix("%"))
        if self.max is not None and self.max <= 1 and (percent or given > 1) and 0 <= given <= 100:
            self.fail(f"{value} is {'a percentage' if percent else 'above 1'}: write {given / 100:g}", param, ctx)
        number = float(super().convert(value, param, ctx))
        if not isfinite(number):
            self.fail(f"{value} is not a finite number", param, ctx)
        return number


def parse_size(text: str) -> int:
    """Returns a number of bytes, from a text that may end in K, M or G."""
    scale = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}.get(text[-1:].upper(), 1)
    number = whole_number(text if scale == 1 else text[:-1])
    if not number:
        raise ValueError(f"{text!r} is not a size in bytes, such as 1000000 or 64M")
    return number * scale


class Names(click.types.StringParamType):
    """Any text; TAB offers the given words, each with its help."""

    def __init__(self, words: Callable[[], Mapping[str, str]]) -> None:
        self.words = words

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Returns the words that start with the typed text."""
        return starting(incomplete, self.words())


def count_option(*names: str, least: int, help: str, default: int | None = None) -> Decorator:
    """An option whose value is a whole number N."""
    return click.option(*names, type=CountRange(least), default=default, metavar="N", help=help)


# --- input and output ---------------------------------------------------------------------------


def input_argument(metavar: str) -> Decorator:
    """The input file (stdin if missing or -), and --stdin, an option of agent-eval-harness."""
    return combined(
        click.argument("path", metavar=f"[{metavar}]", required=False, callback=_not_beside_stdin),
        click.option("--stdin", is_flag=True, hidden=True, expose_value=False, is_eager=True, callback=_remember_stdin),
    )


def _remember_stdin(ctx: click.Context, _param: click.Parameter, value: bool) -> None:
    ctx.meta["stdin"] = value


def _not_beside_stdin(ctx: click.Context, _param: click.Parameter, path: str | None) -> str | None:
    if ctx.meta.get("stdin") and path not in (None, "-"):
        raise click.UsageError(
            f"--stdin and {path} cannot be used together: leave out --stdin to read the file, or {path} to read stdin",
            ctx,
        )
    return path


output_option: Decorator = click.option("-o", "--output", metavar="FILE", help="Write to FILE instead of stdout.")
strict_option: Decorator = click.option("--strict", is_flag=True, help="Stop at the first refused line.")
strict_grading_option: Decorator = click.option(
    "--strict", is_flag=True, help="Stop at the first refused line or grader error."
)
progress_option: Decorator = click.option(
    "--progress/--no-progress",
    default=None,
    help="Force progress lines on stderr, or turn progress off.  [default: a bar on a terminal]",
)
keep_raw_option: Decorator = click.option(
    "--keep-raw", is_flag=True, help="Keep rawLines and the other raw fields in the results."
)


max_steps_option: Decorator = count_option(
    "--max-steps",
    least=1,
    default=100_000,
    help="Maximum steps in a trajectory; the rest are left out, and `errors` notes it.",
)
agent_arg_option: Decorator = click.option(
    "--agent-arg",
    multiple=True,
    metavar="ARG",
    help="With -s: one more argument for the agent; repeatable (--agent-arg --effort --agent-arg high).",
)
turn_timeout_option: Decorator = click.option(
    "-t",
    "--timeout",
    type=MILLISECONDS,
    help="Time limit per turn: 500ms, 30s, 5m, 2h; a bare number is ms.  [default: the schema's, else 60000]",
)
max_line_option: Decorator = click.option(
    "--max-line", type=Parsed("bytes", parse_size), default="64M", help="Refuse lines longer than this."
)
redact_option: Decorator = click.option(
    "--no-redact",
    is_flag=True,
    help="Keep secrets: values of variables with names like API_KEY, and what looks like a key or token.",
)


append_options: Decorator = combined(  # for tools whose records cost money
    click.option("--append", is_flag=True, help="With -o: add to the records that are in the file."),
    click.option(
        "--resume",
        is_flag=True,
        help="With -o: keep records that are still valid, do what is new or has changed, repair a truncated line.",
    ),
)


# --- how work is done ---------------------------------------------------------------------------


def refuse_without(needed: str, *names: str) -> None:
    """Raises UserError if one of these options was given, which have no effect without the needed one."""
    context = click.get_current_context()
    for option in context.command.params:
        if option.name in names and context.get_parameter_source(option.name) is ParameterSource.COMMANDLINE:
            raise UserError(f"{option.opts[-1]} has no effect without {needed}")


def concurrency_option(what: str, default: int = 1) -> Decorator:
    """-j: the maximum number of these that run at a time."""
    return count_option("-j", "--concurrency", least=1, default=default, help=f"Maximum number of {what} at a time.")


def seed_option(of: str) -> Decorator:
    """--seed: the same seed gives the same output."""
    return count_option("--seed", least=0, default=0, help=f"Random seed of the {of}.")


# --- graders ------------------------------------------------------------------------------------


grader_option: Decorator = click.option(
    "-g",
    "--grader",
    multiple=True,
    metavar="[NAME=]GRADER",
    help="Executable, Python file or JavaScript module; repeatable.",
)


CHECKS = "ae-grader-checks"


def checks_grader(
    source: Source, say: Callable[[str], None], *, required: bool = False, command: str = CHECKS
) -> tuple[str, ...]:
    """Returns the grader to use without -g: that of checks if every prompt has checks (of a pipe, the first prompt)."""
    total, without = 1, int(not _has_checks(source.first_text()))
    if source.regular:
        source.rewind()
        have = [_has_checks(line) for batch in source.lines() for _number, line in batch]
        total, without = len(have), have.count(False)
        source.rewind()
    if without and required:
        some = f"{without} of {counted(total, 'record')} have no checks" if without < total else "no record has checks"
        raise UserError(f"{some}: name a grader with -g")
    if without and without < total:
        say(f"{counted(without, 'prompt')} without checks, so nothing is graded (-g {CHECKS} grades the others)")
    if without or not total:
        return ()
    say(f"graded by the checks of the prompts ({command})")
    return (command,)


def _has_checks(line: bytes) -> bool:
    if b'"checks"' not in line:
        return False
    try:
        return bool(decode_record(line).get("checks"))
    except BadRecord:
        return True  # it is refused later


stream_option: Decorator = click.option(
    "--stream",
    is_flag=True,
    help="Executable graders answer line by line: start each once (with -j N, up to N times), not once per record.",
)


def parse_weight(text: str) -> tuple[str, float]:
    """Returns the name and the weight of NAME=W."""
    name, _, number = text.rpartition("=")
    weight = number_in(number)
    if not name or not 0 < weight < float("inf"):
        raise ValueError(f"{text!r} is not NAME=W with a number above 0, such as style=0.5")
    return name, weight


def parse_grader_limit(text: str) -> tuple[str | None, float]:
    """Returns the name and the milliseconds of [NAME=]TIME."""
    name, _, time = text.rpartition("=")
    return name or None, parse_milliseconds(time)


grader_timeout_option: Decorator = click.option(
    "-t",
    "--timeout",
    type=MILLISECONDS,
    default=60_000,
    help="Time limit per grader and record: 500ms, 30s, 5m, 2h; a bare number is ms.",
)


def verdict_options(*, time: str = "Time limit for one grader, in place of -t; repeatable.") -> Decorator:
    """How verdicts count, and the time limit of a single grader; `time` is the help of the latter."""
    return combined(
        click.option(
            "--weight",
            "weights",
            multiple=True,
            type=Parsed("name=w", parse_weight),
            help="Weight of a grader in the mean score; repeatable.  [default: 1]",
        ),
        click.option(
            "--informational",
            multiple=True,
            metavar="NAME",
            help="Keep this grader's verdict in `scores` without counting it; repeatable.",
        ),
        click.option(
            "--grader-timeout", "limits", multiple=True, type=Parsed("[name=]time", parse_grader_limit), help=time
        ),
    )


grade_failed_option: Decorator = click.option(
    "--grade-failed", is_flag=True, help="Also grade what failed agents left behind; by default it does not pass."
)


grader_options: Decorator = combined(  # how graders are run; and --no-redact, for their answers
    stream_option, concurrency_option("graders"), grader_timeout_option, redact_option
)
