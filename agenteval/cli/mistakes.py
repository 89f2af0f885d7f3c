"""What to type instead: messages about a command line that Click cannot parse, or that is not what was meant."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator
from difflib import get_close_matches
from importlib import import_module
from typing import TYPE_CHECKING

import click

from agenteval.cli.executables import HERE, search_path

if TYPE_CHECKING:
    from agenteval.cli.tool import Tool

ADAPTERS = os.path.join(os.path.dirname(HERE), "adapters", "schemas")
GRADER = r"^ae-grader-|[.](?:py|[cm]?js|m?ts)$"
DATA_FILE = r"[.](?:jsonl|ndjson|json|html|md|csv|svg|xml|txt|parquet)$"
USUAL_NAMES = {  # what other programs call an option → what it is called here
    **dict.fromkeys(("--jobs", "--workers", "--parallel", "--threads"), "--concurrency"),
    **dict.fromkeys(("--agent", "--adapter"), "--schema"),
    **dict.fromkeys(("--threshold", "--pass-rate", "--min-pass-rate"), "--min passRate=…"),
    **dict.fromkeys(("--verbose", "-v"), "--debug"),
}


def without_mistake(own: list[str], command: list[str]) -> list[str] | None:
    """Returns the corrected words if those after `--` begin with an option or the input file; else None."""
    first, *rest = command
    if first.startswith("-"):
        has_schema = any(word in ("-s", "--schema") or word.startswith("--schema=") for word in own)
        return [*own, *(f"--agent-arg={word}" for word in command)] if has_schema else [*own, *command]
    if rest and os.path.isfile(first) and not os.access(first, os.X_OK):
        return without_mistake([first, *own], rest) or [first, *own, "--", *rest]
    return None


def word_too_many(tool: Tool, args: list[str], message: str, may_lack_dashes: bool) -> str | None:
    """Returns what to type instead if Click's message is about an unexpected word; else None."""
    if not (first := _first_extra(message)):
        return None
    advice = _lacks_quotes(tool, args, first) or _lacks_option(tool, args, first)
    return advice or (_extra_words(tool, args, first, message) if may_lack_dashes else None)


def _lacks_quotes(tool: Tool, args: list[str], first: str) -> str | None:
    """Returns what to type if the words of the command of --simple stand alone, before or after its {}; else None."""
    at = args.index(first) if first in args else len(args)
    start = next((start for start, word in enumerate(args[:at]) if word.partition("=")[0] == "--simple"), None)
    after = at if start is None else start + (1 if "=" in args[start] else 2)
    if start is None or "{}" not in args[after:]:
        return None
    brace = args.index("{}", after)
    end = brace + 1 if brace < at else _end_of_command(tool, args, at)
    command = _template([*args[start].split("=", 1)[1:], *args[start + 1 : end]])
    line = shlex.join([tool.name or "ae", *args[:start], "--simple", command, *args[end:]])
    return f"{args[min(at, brace)]}: put quotes around the command of --simple: {line}"


def _lacks_option(tool: Tool, args: list[str], first: str) -> str | None:
    """Returns which option is missing before an unexpected word: it names a format, a grader or a file; else None."""
    options = {name for param in tool.params for name in param.opts}
    forms = [param.type.choices for param in tool.params if "-f" in param.opts and isinstance(param.type, click.Choice)]
    if forms and first in forms[0]:
        return f"{first}: choose the format with -f {first}"
    bare = [word for before, word in zip(["", *args], args, strict=False) if not before.startswith("-")]
    grader = next((word for word in bare if re.search(GRADER, word)), None)
    has_agent = not tool.takes_command or _names_agent(args)  # else the file may be the agent
    if grader and has_agent and "--grader" in options:
        return f"{grader}: name a grader with -g: -g {shlex.quote(grader)}"
    if os.path.isfile(first) and not os.access(first, os.X_OK):
        return f"{first}: {tool.name} reads one file; for several: cat FILE… | {tool.name} …"
    if "--output" in options and re.search(DATA_FILE, first) and not os.path.exists(first):
        return f"{first}: {tool.name} reads one file; name the file to write with -o: -o {shlex.quote(first)}"
    return None


def _extra_words(tool: Tool, args: list[str], first: str, message: str) -> str:
    """Returns what to type instead of unexpected words: an adapter's name, a command or a prompt."""
    name = tool.name or "ae"
    at = args.index(first) if first in args else len(args)
    if _is_adapter(first):
        return f"{first}: name an agent with -s: {shlex.join([name, *args[:at], '-s', *args[at:]])}"
    if _names_agent(args):
        takes_prompt = any("-p" in param.opts for param in tool.params)
        return message + (": put quotes around a prompt, as in -p 'What is 2+2?'" if takes_prompt else "")
    return f"{message}: {_with_dashes(tool, args, at)}"


def _with_dashes(tool: Tool, args: list[str], at: int) -> str:
    """Returns the command line with -- before the command that begins at this word; that is for agents with ACP."""
    line = shlex.join([tool.name or "ae", *args[:at], "--", *args[at:]])
    command = args[at : _end_of_command(tool, args, at)]
    if not command or not any("--simple" in param.opts for param in tool.params):
        return f"put -- before the command: {line}"
    simple = shlex.quote(_template(command if "{}" in command else [*command, "{}"]))
    return f"put -- before the command: {line}; if it does not speak ACP: --simple {simple}"


def _template(command: list[str]) -> str:
    """Returns the words of a command as --simple takes them, without quotes around {}."""
    return " ".join(word if word == "{}" else shlex.quote(word) for word in command)


def _end_of_command(tool: Tool, args: list[str], at: int) -> int:
    """Returns where the words of a command end of which this is one: before the tool's next option."""
    options = {name for param in tool.params for name in param.opts}
    return next((end for end in range(at, len(args)) if args[end].partition("=")[0] in options), len(args))


def _names_agent(args: list[str]) -> bool:
    """Returns whether an option names the agent."""
    return any(word.partition("=")[0] in ("-s", "--schema", "--simple", "--shell") for word in args)


def _command_before(tool: Tool, option: str, args: list[str]) -> int | None:
    """Returns where the command begins that an unknown option belongs to, if it lacks its --; else None."""
    end = next((at for at, word in enumerate(args) if word.startswith(option)), 0)
    with_value = {name for param in tool.params if not getattr(param, "is_flag", True) for name in param.opts}
    words = [at for at in range(end) if not args[at].startswith("-") and (at == 0 or args[at - 1] not in with_value)]
    start = next((at for at in words if _is_command(args[at])), None)
    return None if start is not None and "--schema" in with_value and _is_adapter(args[start]) else start


def _is_adapter(word: str) -> bool:
    """Returns whether a bundled adapter has this name."""
    return bool(re.fullmatch(r"[\w-]+", word)) and os.path.isfile(os.path.join(ADAPTERS, f"{word}.json"))


def _is_command(word: str) -> bool:
    """Returns whether a shell would run this word as a program, and it is not an input file either."""
    if os.sep in word:
        return os.path.isfile(word) and os.access(word, os.X_OK)
    found = (os.path.join(folder, word) for folder in search_path())
    return not os.path.exists(word) and any(os.path.isfile(path) and os.access(path, os.X_OK) for path in found)


def _first_extra(message: str) -> str:
    """Returns the first unexpected word in Click's message; "" if the message is about something else."""
    found = re.search(r"unexpected extra arguments? [(]([^ )]*)", message)
    return found[1] if found else ""


def unknown_option(tool: Tool, option: str, args: list[str]) -> str:
    """Returns the message about an unknown option, with one of similar spelling or the tools that have it."""
    if tool.takes_command and "--" not in args and (at := _command_before(tool, option, args)) is not None:
        return f"No such option {option!r}: {_with_dashes(tool, args, at)}"
    own = [name for param in tool.params for name in param.opts]
    having = [name for name, other in _other_tools() if any(option in param.opts for param in other.params)]
    graders = [name for name in having if name.startswith("ae-grader-")] if "--grader" in own else []
    given = [name for name in graders if any(name in word for word in args)]
    usual = [name for name in [USUAL_NAMES.get(option, "")] if name.partition(" ")[0] in own]
    close = usual or get_close_matches(option, own, cutoff=0.75)
    if graders and (given or not close):
        lines = " or ".join(f"-g '{grader} {option} …'" for grader in given or graders)
        return f"No such option {option!r}. It goes with the grader: {lines}"
    if close:
        return f"No such option {option!r}. Did you mean {close[0]!r}?"
    return f"No such option {option!r}." + (f" These have it: {', '.join(having)}" if having else "")


def _other_tools() -> Iterator[tuple[str, click.Command]]:
    """Yields all tools of the suite; importing them takes a moment, but only after a mistake."""
    for folder in ("tools", "graders"):
        for file in sorted(os.listdir(os.path.join(HERE, folder))):
            if file.endswith(".py") and file[0].isalpha() and file != "ae.py":
                found = getattr(import_module(f"agenteval.cli.{folder}.{file[:-3]}"), "main", None)
                if isinstance(found, click.Command):
                    yield found.name or file, found
