"""A tool's command line: Click with Unix behaviour, one-line errors and documented exit codes."""

from __future__ import annotations

import _thread
import gc
import os
import re
import shlex
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches
from importlib import import_module
from inspect import cleandoc
from typing import NoReturn

import click

from agenteval import __version__
from agenteval.cli.completion import ToolComplete
from agenteval.cli.executables import HERE, search_path
from agenteval.cli.help import NARROW, help_columns, option_list, wrap_page
from agenteval.errors import FAILED, OK, USAGE, ClosedPipe, Stopped, UserError, describe_system_error
from agenteval.streams.console import PROGRESS, Console, count_unshown
from agenteval.streams.files import replace_stdout

ADAPTERS = os.path.join(os.path.dirname(HERE), "adapters", "schemas")
EXIT_STATUS = {
    0: "success, also when the reader of the pipe closes it early, as in `| head -1`",
    1: "finished, but some lines were refused; they are reported",
    2: "usage or configuration error; nothing was run",
    130: "interrupted (Ctrl-C); 143 terminated",
}
OF_GRADING = {1: "finished, but some lines were refused or graders erred; they are reported"}
OF_LISTS = {1: "the output cannot be written"}
GRADER = r"^ae-grader-|[.](?:py|[cm]?js|m?ts)$"
DATA_FILE = r"[.](?:jsonl|ndjson|json|html|md|csv|svg|xml|txt|parquet)$"
USUAL_NAMES = {  # what other programs call an option → what it is called here
    **dict.fromkeys(("--jobs", "--workers", "--parallel", "--threads"), "--concurrency"),
    **dict.fromkeys(("--agent", "--adapter"), "--schema"),
    **dict.fromkeys(("--threshold", "--pass-rate", "--min-pass-rate"), "--min passRate=…"),
    **dict.fromkeys(("--verbose", "-v"), "--debug"),
}


class Tool(click.Command):
    """An executable: an error is one line with the tool's name and an exit code, never a traceback."""

    exit_status: Mapping[int, str] = EXIT_STATUS
    takes_command = False  # whether the words after `--` are an agent's command
    fill_help: Callable[[str], str] = str  # inserts what is looked up when the help is shown

    def __call__(self, args: list[str] | None = None) -> NoReturn:
        """Runs with these arguments, else with those of the process, and exits."""
        _fill_standard_descriptors()
        replace_stdout()
        try:  # os._exit: nothing is left to clean up, and finalizing the interpreter takes longer than most work
            os._exit(self._run(self.name or "ae", sys.argv[1:] if args is None else args))
        except Stopped as stopped:  # while an error was being reported
            os._exit(stopped.exit_code)

    def _run(self, name: str, args: list[str]) -> int:
        sys.unraisablehook = _send_again
        _resume_collector()
        say = Console(name, progress=False).say
        try:
            signal.signal(signal.SIGTERM, _stop)
            if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
                signal.signal(signal.SIGINT, _stop)  # not KeyboardInterrupt, on which Click prints an empty line
            if os.environ.get("_AE_COMPLETE"):  # a shell wants the completions of a command line
                click.echo(ToolComplete(self, args).complete())
                return OK
            return self.main(args, prog_name=name, standalone_mode=False) or OK
        except click.exceptions.Exit as request:
            return request.exit_code
        except click.NoSuchOption as error:
            asked = _asked(self, error)
            say(f"{_unknown_option(asked, error.option_name, args)} (try '{asked.name} --help')")
            return USAGE
        except click.MissingParameter as error:
            option = error.param if isinstance(error.param, click.Option) else None
            missing = f"Missing option {option.opts[0]} {option.metavar}" if option else error.format_message()[:-1]
            usage = error.ctx.get_usage().removeprefix("Usage: ") if error.ctx else name
            say(f"{missing}: {usage} ({name} --help shows how)")
            return USAGE
        except click.ClickException as error:
            advice = f" (try '{_asked(self, error).name} --help')" if isinstance(error, click.UsageError) else ""
            say(f"{error.format_message()}{advice}")
            return USAGE
        except Stopped as stopped:
            return stopped.exit_code
        except (ClosedPipe, BrokenPipeError):
            return OK
        except UserError as error:
            count_unshown()
            say(str(error))
            return error.exit_code
        except Exception as error:
            if "--debug" in args:
                raise
            internal = f"internal error: {type(error).__name__}: {error} (rerun with --debug for a traceback)"
            say(describe_system_error(error) or internal)
            return FAILED
        finally:
            count_unshown()
            PROGRESS.end()

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Splits off an agent's command first, because Click itself would drop the `--`."""
        if not self.takes_command:
            return self._parse_own(ctx, args)
        own, command = (args[: args.index("--")], args[args.index("--") + 1 :]) if "--" in args else (args, None)
        if command and (meant := _without_mistake(own, command)):
            line = shlex.join([self.name or "ae", *meant])
            raise click.UsageError(f"-- {command[0]}: what follows -- is the agent's command: {line}", ctx)
        rest = self._parse_own(ctx, own, command is None)
        ctx.params["command"] = command
        return rest

    def _parse_own(self, ctx: click.Context, own: list[str], may_lack_dashes: bool = False) -> list[str]:
        """Parses the tool's own words; the message about a word too many tells what to type instead."""
        try:
            return super().parse_args(ctx, list(own))
        except click.UsageError as error:
            first = _first_extra(error.message)
            advice = first and (_lacks_quotes(self, own, first) or _lacks_option(self, own, first))
            if first and not advice and may_lack_dashes:
                advice = _extra_words(self, own, error.message)
            if advice:
                raise click.UsageError(advice, ctx) from None
            raise

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        """Adds the agent's command to the usage line."""
        return super().collect_usage_pieces(ctx) + (["[-- CMD ARGS…]"] if self.takes_command else [])

    def get_help(self, ctx: click.Context) -> str:
        """Returns the help page, wrapped to the terminal; Click would use at least 50 columns."""
        ctx.terminal_width = help_columns()
        return super().get_help(ctx)

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the docstring; examples keep their lines."""
        formatter.write_paragraph()
        formatter.write(wrap_page(self.fill_help(self.help or ""), formatter.width) + "\n")

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the options; on a narrow terminal each has its text below it."""
        if formatter.width >= NARROW:
            super().format_options(ctx, formatter)
            return
        records = [record for param in self.get_params(ctx) if (record := param.get_help_record(ctx)) is not None]
        formatter.write_paragraph()
        formatter.write("Options:\n" + option_list(records, formatter.width))

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the exit codes."""
        formatter.write_paragraph()
        lines = (f"  {code:<5}{meaning}" for code, meaning in self.exit_status.items())
        formatter.write(wrap_page("\n".join(["Exit status:", *lines]), formatter.width) + "\n")


def _without_mistake(own: list[str], command: list[str]) -> list[str] | None:
    """Returns the corrected words if those after `--` begin with an option or the input file; else None."""
    first, *rest = command
    if first.startswith("-"):
        has_schema = any(word in ("-s", "--schema") or word.startswith("--schema=") for word in own)
        return [*own, *(f"--agent-arg={word}" for word in command)] if has_schema else [*own, *command]
    if rest and os.path.isfile(first) and not os.access(first, os.X_OK):
        return _without_mistake([first, *own], rest) or [first, *own, "--", *rest]
    return None


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


def _extra_words(tool: Tool, args: list[str], message: str) -> str:
    """Returns what to type instead of unexpected words: an adapter's name, a command or a prompt."""
    name, first = tool.name or "ae", _first_extra(message)
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


def _asked(tool: Tool, error: click.UsageError) -> Tool:
    """Returns the tool whose options were wrong: of ae-ray, the one after the `--`."""
    found = error.ctx.command if error.ctx else None
    return found if isinstance(found, Tool) else tool


def _unknown_option(tool: Tool, option: str, args: list[str]) -> str:
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


def _other_tools() -> Iterator[tuple[str, Tool]]:
    """Yields all tools of the suite; importing them takes a moment, but only after a mistake."""
    for folder in ("tools", "graders"):
        for file in sorted(os.listdir(os.path.join(HERE, folder))):
            if file.endswith(".py") and file[0].isalpha() and file != "ae.py":
                found = getattr(import_module(f"agenteval.cli.{folder}.{file[:-3]}"), "main", None)
                if isinstance(found, Tool):
                    yield found.name or file, found


def _fill_standard_descriptors() -> None:
    """Opens /dev/null in place of a closed stdin, stdout or stderr, so that no later file gets its number."""
    for fd, flags in ((0, os.O_WRONLY), (1, os.O_RDONLY), (2, os.O_WRONLY)):  # the wrong mode, so that using it fails
        try:
            os.fstat(fd)
        except OSError:
            os.open(os.devnull, flags)


def _resume_collector() -> None:
    """Turns the garbage collector, which cli/__init__.py disabled, on again; it ignores the imported modules."""
    gc.freeze()
    gc.set_threshold(50_000)  # it is rarely needed: records are trees, which reference counting frees
    gc.enable()


def _stop(signum: int, _frame: object) -> None:
    raise Stopped(signum)


def _send_again(lost: sys.UnraisableHookArgs) -> None:
    """Sends a signal again if its exception was lost, because it was raised in a destructor or a callback."""
    if not isinstance(lost.exc_value, Stopped):
        sys.__unraisablehook__(lost)
        return
    # Not threading.Thread, whose start() waits for the thread: the signal would arrive within this call again.
    _thread.start_new_thread(_send_later, (lost.exc_value.signum,))


def _send_later(signum: int) -> None:
    time.sleep(0.05)  # until the destructor has returned
    os.kill(os.getpid(), signum)


def tool(name: str, *, exit_status: Mapping[int, str] | None = None) -> Callable[[Callable[..., int | None]], Tool]:
    """Returns a decorator that makes a function the tool `name`: its docstring is the help, its result the exit code.

    exit_status replaces the meaning of single codes in the help.
    """

    def decorate(function: Callable[..., int | None]) -> Tool:
        settings = {"help_option_names": ["-h", "--help"], "max_content_width": 100, "show_default": True}
        help = cleandoc(function.__doc__ or "")
        made = click.command(name, cls=Tool, help=help, context_settings=settings)(function)
        made.exit_status = {**EXIT_STATUS, **getattr(function, "exit_status", {}), **(exit_status or {})}
        made.takes_command = getattr(function, "takes_command", False)
        made.fill_help = getattr(function, "fill_help", str)
        click.option("--debug", is_flag=True, help="Log each step on stderr, and show tracebacks.")(made)
        click.version_option(__version__, message="%(prog)s %(version)s")(made)
        return made

    return decorate
