"""`ae init`: writes a folder with an evaluation to start from, which is one of the examples."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator

import click

from agenteval.cli.suite import HERE, find, places
from agenteval.cli.tool import tool
from agenteval.errors import UserError

STARTS = ("quickstart", "coding", "qa")
NOT_COPIED = {"build", "__pycache__"}  # what runs of an example leave in a checkout
EXIT_STATUS = {
    0: "the folder was written",
    1: "the folder could not be written completely",
    2: "usage error, or DIR is not empty; nothing was written",
}


def examples() -> str:
    """Returns the directory of the examples: in the installed package, else in the checkout."""
    package = os.path.dirname(HERE)
    installed = os.path.join(package, "examples")
    return installed if os.path.isdir(installed) else os.path.join(os.path.dirname(package), "examples")


def files_of(folder: str) -> Iterator[str]:
    """Yields the path of every file of an example, relative to its folder."""
    for directory, names, files in os.walk(folder):
        names[:] = sorted(set(names) - NOT_COPIED)
        yield from (os.path.relpath(os.path.join(directory, name), folder) for name in sorted(files))


def write_folder(source: str, target: str) -> None:
    """Copies an example; scripts are executable, whatever an installer made of their mode."""
    for name in files_of(source):
        with open(os.path.join(source, name), "rb") as file:
            content = file.read()
        path = os.path.join(target, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        mode = 0o777 if content.startswith(b"#!") else 0o666
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
            file.write(content)


def next_command(target: str) -> str:
    """Returns what to type to run the evaluation, with the tools' directory if they are not on PATH."""
    here = os.path.abspath(target) == os.getcwd()
    beside = places()[0]
    on_path = find("ae-run", os.environ.get("PATH", os.defpath).split(os.pathsep))
    make = "make show" if on_path else f'PATH={shlex.quote(beside)}:"$PATH" make show'
    return make if here else f"cd {shlex.quote(target)} && {make}"


@tool("ae init", exit_status=EXIT_STATUS)
@click.argument("directory", metavar="DIR")
@click.option("--from", "start", type=click.Choice(STARTS), default=STARTS[0], help="What to start from.")
def init(directory: str, start: str, debug: bool) -> None:
    """Write an evaluation to start from: a folder with prompts, an agent, a grader and a Makefile.

    DIR is a new or an empty directory. `make show` in it runs the evaluation, offline and without a key; its
    README.md says which files to replace with your own. Start from one of these:
      quickstart   two variants of an agent, graders in three languages, a comparison
      coding       agents fix a repository in git workspaces; tests that they never see decide
      qa           questions with hints, for any command that prints its answer

    Examples:
      ae init my-eval
      ae init fix-bugs --from coding
      ae init questions --from qa && make -C questions show
    """
    if os.path.exists(directory) and not os.path.isdir(directory):
        raise UserError(f"{directory}: is a file; name a new or an empty directory")
    if os.path.isdir(directory) and os.listdir(directory):
        raise UserError(f"{directory}: is not empty; name a new or an empty directory")
    source = os.path.join(examples(), start)
    if not os.path.isdir(source):
        raise UserError(f"{source}: no such directory; this installation has no examples")
    write_folder(source, directory)
    click.echo(f"{directory}: an evaluation, from the example {start}; its README.md explains each file")
    click.echo(f"now type: {next_command(directory)}")
