"""A tool's command line: Click with Unix behaviour, one-line errors and documented exit codes."""

from __future__ import annotations

import _thread
import gc
import os
import shlex
import signal
import sys
import time
from collections.abc import Callable, Mapping
from inspect import cleandoc
from typing import NoReturn

import click

from agenteval import __version__
from agenteval.cli.completion import ToolComplete
from agenteval.cli.help import NARROW, help_columns, option_list, wrap_page
from agenteval.cli.mistakes import unknown_option, without_mistake, word_too_many
from agenteval.errors import FAILED, OK, USAGE, ClosedPipe, Stopped, UserError, describe_system_error
from agenteval.streams.console import PROGRESS, Console, count_unshown
from agenteval.streams.files import replace_stdout

EXIT_STATUS = {
    0: "success, also when the reader of the pipe closes it early, as in `| head -1`",
    1: "finished, but some lines were refused; they are reported",
    2: "usage or configuration error; nothing was run",
    130: "interrupted (Ctrl-C); 143 terminated",
}
OF_GRADING = {1: "finished, but some lines were refused or graders erred; they are reported"}
OF_LISTS = {1: "the output cannot be written"}


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
            say(f"{unknown_option(asked, error.option_name, args)} (try '{asked.name} --help')")
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
        if command and (meant := without_mistake(own, command)):
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
            if advice := word_too_many(self, own, error.message, may_lack_dashes):
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


def _asked(tool: Tool, error: click.UsageError) -> Tool:
    """Returns the tool whose options were wrong: of ae-ray, the one after the `--`."""
    found = error.ctx.command if error.ctx else None
    return found if isinstance(found, Tool) else tool


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
