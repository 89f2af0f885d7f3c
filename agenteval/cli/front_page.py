"""The pages of `ae` itself: the list of all commands, and the scripts that make TAB complete."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from typing import NoReturn

import click

from agenteval.cli.options import Names
from agenteval.cli.suite import HERE, PREFIX, own_tools, places, plug_ins
from agenteval.cli.tool import tool
from agenteval.errors import UserError

SHELLS = ("bash", "zsh", "fish")
OWN_COMMANDS = {
    "init": "write an evaluation to start from",
    "help": "show the help of a command",
    "completion": "make TAB complete in bash, zsh or fish",
}
EXIT_STATUS = {
    0: "the list, a page or a script was printed; with a command, the exit status is that of the command",
    1: "stdout cannot be written",
    2: "usage error: there is no such command, or it cannot be started; nothing was run",
}


# --- the list -----------------------------------------------------------------------------------


def commands() -> dict[str, str]:
    """Returns what may follow `ae`, each with its job; for a plug-in, with its path."""
    everything = {**own_tools(), **plug_ins(places()), **OWN_COMMANDS}
    return {name.removeprefix(PREFIX): job for name, job in everything.items()}


def listing() -> str:
    """Returns every command in its group, one per line."""
    groups = {
        "Tools": own_tools("tools"),
        "Graders, for ae-grade and for -g of other tools": own_tools("graders"),
        "Plug-ins: every other ae-* on PATH": plug_ins(places()),
        "Commands of ae itself": OWN_COMMANDS,
    }
    width = max(map(len, commands())) + 2
    return "\n\n".join(_section(title, group, width) for title, group in groups.items() if group)


def _section(title: str, group: Mapping[str, str], width: int) -> str:
    return "\n".join([f"{title}:", *(f"  {name.removeprefix(PREFIX):<{width}}{job}" for name, job in group.items())])


@tool("ae", exit_status=EXIT_STATUS)
@click.argument("command", nargs=-1, metavar="[COMMAND [ARG]...]", type=Names(commands))
@click.pass_context
def _page(ctx: click.Context, command: tuple[str, ...], debug: bool) -> None:
    """Evaluate command-line agents: `ae run …` is `ae-run …`, and so on.

    {listing}

    Examples:
      ae run prompts.jsonl --simple "echo {}" | ae extract -s text | ae grade -g ae-grader-hint
      ae init my-eval
      ae help run
    """
    if command:
        raise UserError(f"options come after the command: ae {command[0]} …")
    click.echo(ctx.get_help())


def front_page(args: list[str]) -> NoReturn:
    """Shows the page with the commands that there are now, or what is wrong with the arguments."""
    _page.fill_help = lambda text: text.replace("{listing}", listing())
    _page(args)


# --- completion ---------------------------------------------------------------------------------


@tool("ae completion", exit_status=EXIT_STATUS)
@click.argument("shell", required=False, type=click.Choice(SHELLS), metavar="[bash|zsh|fish]")
def completion(shell: str | None, debug: bool) -> None:
    """Print the script that makes TAB complete ae and every ae-* in a shell, by default in $SHELL.

    Put one line into the start-up file of your shell:
      ~/.bashrc                    eval "$(ae completion bash)"
      ~/.zshrc, after compinit     eval "$(ae completion zsh)"
      ~/.config/fish/config.fish   ae completion fish | source

    It completes commands, options and their values, files and directories. Each TAB asks the tool itself, so the
    script stays the same when tools or plug-ins change. A plug-in is never started for it: after `ae PLUG-IN`, TAB
    does what it does after ae-PLUG-IN.

    Examples:
      ae completion bash
      ae completion fish | head -5
    """
    shell = shell or os.path.basename(os.environ.get("SHELL", ""))
    if shell not in SHELLS:
        raise UserError(f'$SHELL ("{shell}") is none of {", ".join(SHELLS)}; name one: ae completion bash')
    click.echo(script(shell))


def script(shell: str) -> str:
    """Returns the script for a shell, with the names of the tools and their directory."""
    with open(os.path.join(HERE, "shells", f"completion.{shell}"), encoding="utf-8") as file:
        text = file.read()
    quote = _fish_quote if shell == "fish" else shlex.quote
    names = ["ae", *own_tools()]
    return text.replace("@TOOLS@", " ".join(map(quote, names))).replace("@BIN@", quote(places()[0]))


def _fish_quote(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
