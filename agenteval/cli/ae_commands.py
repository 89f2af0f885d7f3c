"""The commands of `ae` itself: the list of all commands, `ae completion` and `ae init`."""

import os
import shlex
import shutil
from typing import NoReturn

import click

from agenteval.cli.executables import HERE, PREFIX, own_tools, plug_ins, search_path
from agenteval.cli.options import Names
from agenteval.cli.tool import tool
from agenteval.errors import UserError

OWN_COMMANDS = {
    "init": "create an evaluation to start from",
    "help": "show the help of a command",
    "completion": "enable TAB completion in bash, zsh or fish",
}
EXIT_STATUS = {
    0: "the list, a help page or a script was printed; with a command, its own exit status",
    1: "stdout cannot be written",
    2: "usage error: no such command, or it cannot be started; nothing was run",
}


# --- the list of commands -----------------------------------------------------------------------


def commands() -> dict[str, str]:
    """Returns the commands of `ae`, each with its job; a plug-in with its path."""
    everything = {**own_tools(), **plug_ins(search_path()), **OWN_COMMANDS}
    return {name.removeprefix(PREFIX): job for name, job in everything.items()}


def listing() -> str:
    """Returns every command in its group, one per line."""
    groups = {
        "Tools": own_tools("tools"),
        "Graders, for ae-grade and the -g option of other tools": own_tools("graders"),
        "Plug-ins: every other ae-* on PATH": plug_ins(search_path()),
        "Commands of ae itself": OWN_COMMANDS,
    }
    width = max(map(len, commands())) + 2
    lines: list[str] = []
    for title, group in groups.items():
        if group:
            lines += [f"{title}:", *(f"  {name.removeprefix(PREFIX):<{width}}{job}" for name, job in group.items()), ""]
    return "\n".join(lines[:-1])


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
    """Shows the page with the current commands, or the error in the arguments."""
    _page.fill_help = lambda text: text.replace("{listing}", listing())
    _page(args)


# --- ae completion ------------------------------------------------------------------------------

SHELLS = ("bash", "zsh", "fish")


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
        raise UserError(f'$SHELL ("{shell}") is not one of {", ".join(SHELLS)}; name one: ae completion bash')
    click.echo(completion_script(shell))


def completion_script(shell: str) -> str:
    """Returns the script for a shell, with the names of the tools and their directory."""
    with open(os.path.join(HERE, "shells", f"completion.{shell}"), encoding="utf-8") as file:
        text = file.read()
    quote = _fish_quote if shell == "fish" else shlex.quote
    names = ["ae", *own_tools()]
    return text.replace("@TOOLS@", " ".join(map(quote, names))).replace("@BIN@", quote(search_path()[0]))


def _fish_quote(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


# --- ae init ------------------------------------------------------------------------------------

EXAMPLES = ("quickstart", "coding", "qa", "checks", "skill", "playoffs")
LEFT_BY_RUNS = {"build", "results", "__pycache__"}
INIT_STATUS = {
    0: "the folder was written",
    1: "the folder could not be written completely",
    2: "usage error, or DIR is not empty; nothing was written",
}


@tool("ae init", exit_status=INIT_STATUS)
@click.argument("directory", metavar="DIR")
@click.option("--from", "example", type=click.Choice(EXAMPLES), default=EXAMPLES[0], help="What to start from.")
def init(directory: str, example: str, debug: bool) -> None:
    """Write an evaluation to start from: a folder with prompts, an agent, a grader and a Makefile.

    DIR is a new or an empty directory. `make show` in it runs the evaluation, offline and without a key; its
    README.md says which files to replace with your own. Start from one of these:
      quickstart   two variants of an agent, graders in three languages, a comparison
      coding       agents fix a repository in git workspaces; tests that they never see decide
      qa           questions with hints, for any command that prints its answer
      checks       prompts that carry their checks: no grader, for any agent
      skill        does a skill help? Trials with and without it, how often it is loaded, what it costs
      playoffs     agents x tools (MCP servers) x models, ranked: a Makefile of 40 lines

    Examples:
      ae init my-eval
      ae init fix-bugs --from coding
      ae init questions --from qa && make -C questions show
    """
    if os.path.exists(directory) and not os.path.isdir(directory):
        raise UserError(f"{directory}: is a file; name a new or empty directory")
    if os.path.isdir(directory) and os.listdir(directory):
        raise UserError(f"{directory}: is not empty; name a new or empty directory")
    source = os.path.join(_examples(), example)
    if not os.path.isdir(source):
        raise UserError(f"{source}: no such directory; this installation lacks the examples")
    write_example(source, directory)
    click.echo(f"{directory}: created from the example {example}; its README.md explains each file")
    click.echo(f"now type: {_next_command(directory)}")


def _examples() -> str:
    """Returns the directory of the examples: in the installed package, else in the checkout."""
    package = os.path.dirname(HERE)
    installed = os.path.join(package, "examples")
    return installed if os.path.isdir(installed) else os.path.join(os.path.dirname(package), "examples")


def write_example(source: str, target: str) -> None:
    """Copies an example without the files left by its runs."""
    for directory, folders, files in os.walk(source):
        folders[:] = set(folders) - LEFT_BY_RUNS
        here = os.path.normpath(os.path.join(target, os.path.relpath(directory, source)))
        os.makedirs(here, exist_ok=True)
        for name in files:
            _copy_file(os.path.join(directory, name), os.path.join(here, name))


def _copy_file(source: str, target: str) -> None:
    """Copies a file; a script becomes executable even if an installer has changed its mode."""
    with open(source, "rb") as file:
        content = file.read()
    mode = 0o777 if content.startswith(b"#!") else 0o666
    with open(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
        file.write(content)


def _next_command(target: str) -> str:
    """Returns the command that runs the evaluation, with the tools' directory if they are not on PATH."""
    make = "make show" if shutil.which("ae-run") else f'PATH={shlex.quote(search_path()[0])}:"$PATH" make show'
    return make if os.path.abspath(target) == os.getcwd() else f"cd {shlex.quote(target)} && {make}"
