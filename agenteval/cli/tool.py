"""A tool's command line: Click with Unix manners, the options that many tools share, and exit codes."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Callable
from typing import Any, NoReturn, TypeVar

from agenteval import __version__
from agenteval.cli.startup import click
from agenteval.errors import FAILED, OK, USAGE, ClosedPipe, Stopped, UserError
from agenteval.streams.console import Console

F = TypeVar("F", bound=Callable[..., Any])

EXIT_STATUS = """\
Exit status:
  0    the tool did its job (a closed pipe, as in `| head -1`, too)
  1    finished, but some records were refused or failed; each is reported
  2    usage or configuration error; nothing was run
  130  interrupted (Ctrl-C); 143 terminated
"""


class Tool(click.Command):
    """One executable: errors as one line with its name, exit codes as documented, no traceback."""

    exit_status = EXIT_STATUS
    takes_command = False  # whatever follows `--` is the command of an agent

    def __call__(self, args: list[str] | None = None) -> NoReturn:
        """Run with these arguments, or else the process's, and end the process."""
        _fill_standard_descriptors()
        code = self._run(self.name or "ae", sys.argv[1:] if args is None else args)
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except (OSError, ValueError, AttributeError):
                pass
        os._exit(code)  # nothing is left to do, and an orderly end of the interpreter takes 5 ms

    def _run(self, name: str, args: list[str]) -> int:
        gc.set_threshold(50_000)  # records are trees: reference counts free them, the collector only searches
        say = Console(name, progress=False).say
        try:
            signal.signal(signal.SIGTERM, _stop)
            if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
                signal.signal(signal.SIGINT, _stop)  # not KeyboardInterrupt: Click answers that with an empty line
            if os.environ.get("_AE_COMPLETE"):  # a shell asks what TAB may put here
                from agenteval.cli.completion import complete

                click.echo(complete(self, args))
                return OK
            return self.main(args, prog_name=name, standalone_mode=False) or OK
        except click.exceptions.Exit as request:
            return request.exit_code
        except click.UsageError as error:
            say(f"{error.format_message()} (try '{name} --help')")
            return USAGE
        except click.ClickException as error:
            say(error.format_message())
            return USAGE
        except Stopped as stopped:
            return stopped.exit_code
        except (ClosedPipe, BrokenPipeError):
            return OK
        except UserError as error:
            say(str(error))
            return error.exit_code
        except OSError as error:
            say(f"{error.filename or 'stdout'}: {error.strerror}")
            return FAILED
        except Exception as error:
            if "--debug" in args:
                raise
            say(f"internal error: {type(error).__name__}: {error} (--debug shows where)")
            return FAILED

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Click's parsing, before which an agent's command is set apart: Click would take `--` for its own."""
        if not self.takes_command:
            return super().parse_args(ctx, args)
        own, command = (args[: args.index("--")], args[args.index("--") + 1 :]) if "--" in args else (args, None)
        try:
            rest = super().parse_args(ctx, own)
        except click.UsageError as error:
            if command is None and "unexpected extra argument" in error.message:
                raise click.UsageError(f"{error.message}: put -- before the command of an agent", ctx) from None
            raise
        ctx.params["command"] = command
        return rest

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        """The usage line, with the agent's command where there may be one."""
        return super().collect_usage_pieces(ctx) + (["[-- CMD ARGS…]"] if self.takes_command else [])

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The docstring as it was written: examples keep their lines."""
        formatter.write_paragraph()
        formatter.write((self.help or "").strip() + "\n")

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The exit codes."""
        formatter.write_paragraph()
        formatter.write(self.exit_status)


def _fill_standard_descriptors() -> None:
    """Put something in the place of a closed stdin, stdout or stderr, so that no file we open takes its number."""
    for fd, flags in ((0, os.O_WRONLY), (1, os.O_RDONLY), (2, os.O_WRONLY)):  # the wrong way round: using it fails
        try:
            os.fstat(fd)
        except OSError:
            os.open(os.devnull, flags)


def _stop(signum: int, _frame: object) -> None:
    raise Stopped(signum)


def tool(name: str, *, exit_status: str = EXIT_STATUS) -> Callable[[Callable[..., int | None]], Tool]:
    """Make a function the tool `name`; its docstring is the help, what it returns is the exit code."""

    def wrap(function: Callable[..., int | None]) -> Tool:
        made = click.command(
            name,
            cls=Tool,
            help=_dedent(function.__doc__ or ""),
            context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
        )(function)
        made.params += [DEBUG, VERSION]
        made.exit_status = exit_status
        made.takes_command = getattr(function, "takes_command", False)
        return made

    return wrap


def _dedent(text: str) -> str:
    lines = text.strip("\n").split("\n")
    return "\n".join([lines[0].strip(), *(line.removeprefix("    ") for line in lines[1:])]).strip()


# --- options that mean the same in every tool ---------------------------------------------------


def _show_version(ctx: click.Context, _param: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        click.echo(f"{ctx.info_name} {__version__}")
        ctx.exit()


DEBUG = click.Option(["--debug"], is_flag=True, help="Say on stderr what is done; show tracebacks.")
VERSION = click.Option(
    ["--version"],
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=_show_version,
    help="Show the version and exit.",
)


def input_argument(metavar: str) -> Callable[[F], F]:
    """The input file (stdin when missing or -), and the seed's --stdin."""

    def wrap(function: F) -> F:
        function = click.option("--stdin", is_flag=True, hidden=True, expose_value=False)(function)
        return click.argument("path", metavar=f"[{metavar}]", required=False)(function)

    return wrap


def milliseconds(_ctx: click.Context, param: click.Parameter, value: float | None) -> float | None:
    """A time that ends: nan and inf are numbers to Click, but not to a clock."""
    if value is not None and not 0 < value < float("inf"):
        raise click.BadParameter(f"{value} is not a number of milliseconds", param=param)
    return value


def comparable(_ctx: click.Context, param: click.Parameter, value: float | None) -> float | None:
    """A number that is above or below others: Click takes nan for one, within any range."""
    if value is not None and value != value:
        raise click.BadParameter("nan is not a number to compare with", param=param)
    return value


def grader_option(*, required: bool) -> Callable[[F], F]:
    """-g, as often as there are graders."""
    return click.option(
        "-g",
        "--grader",
        multiple=True,
        required=required,
        metavar="[NAME=]GRADER",
        help="Executable, Python or JavaScript; repeatable.",
    )


def stream_option(function: F) -> F:
    """--stream."""
    return click.option(
        "--stream", is_flag=True, help="Executables answer line by line: start each once, not once per record."
    )(function)


def grader_timeout_option(*names: str) -> Callable[[F], F]:
    """How long a grader may take, under the name that is free for it."""
    limit = "Limit of a grader per record."
    return click.option(
        *names, type=float, callback=milliseconds, default=60_000, show_default=True, metavar="MS", help=limit
    )


def grader_options(function: F) -> F:
    """How graders are run: --stream, -j and -t."""
    function = grader_timeout_option("-t", "--timeout")(function)
    function = click.option(
        "-j",
        "--concurrency",
        type=click.IntRange(1),
        default=1,
        show_default=True,
        metavar="N",
        help="Graders at once.",
    )(function)
    return stream_option(function)


def choose_format(form: str | None, output: str | None) -> str:
    """The form of a report: what was asked for, else what the extension of the output says, else json."""
    return form or ("markdown" if output and output.lower().endswith((".md", ".markdown")) else "json")


def output_option(function: F) -> F:
    """-o FILE."""
    return click.option("-o", "--output", metavar="FILE", help="Write here instead of stdout.")(function)


def append_options(function: F) -> F:
    """--append and --resume, for tools whose records cost money."""
    function = click.option(
        "--resume",
        is_flag=True,
        help="With -o: skip the ids already there, repair a line cut off by a crash, do the rest.",
    )(function)
    return click.option("--append", is_flag=True, help="With -o: add to the file instead of replacing it.")(function)


def strict_option(function: F) -> F:
    """--strict."""
    return click.option("--strict", is_flag=True, help="Stop at the first record that is refused or fails.")(function)


def progress_option(function: F) -> F:
    """--progress and --no-progress; by default a bar where stderr is a terminal."""
    return click.option(
        "--progress/--no-progress",
        default=None,
        help="Force progress lines on stderr, or turn progress off.  [default: a bar on a terminal]",
    )(function)
