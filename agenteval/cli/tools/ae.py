"""ae: one name for the suite: `ae run …` is `ae-run …`, and so is every other ae-* on PATH."""

import errno
import os
import shutil
import signal
import sys

from agenteval.cli.executables import PREFIX, own_tools, plug_ins, search_path
from agenteval.errors import USAGE, similar
from agenteval.streams.console import Console

OWN = ("init", "completion")


def main() -> int:
    """Becomes the tool that is named, or runs a command of its own, or prints the list of commands or completions."""
    command, *rest = sys.argv[1:] or [""]
    completing = bool(os.environ.get("_AE_COMPLETE"))  # for TAB, nothing may be started
    if command == "help" and rest:
        command, *rest = rest if completing else [rest[0], "--help"]
    if command in OWN and (rest or not completing):
        _run_own(command, rest)
    if completing or command in ("", "help") or command.startswith("-"):
        _run_own("", [command, *rest] if completing or command.startswith("-") else [])
    Console("ae", progress=False).say(become(command, rest))
    return USAGE


def _run_own(command: str, args: list[str]) -> None:
    from agenteval.cli import ae_commands  # not at the top: the tool that `ae` becomes would import Click again

    if command == "init":
        ae_commands.init(args)
    elif command == "completion":
        ae_commands.completion(args)
    else:
        ae_commands.front_page(args)


def become(command: str, args: list[str]) -> str:
    """Replaces this process by ae-COMMAND; returns only if that fails, with the message."""
    path = shutil.which(PREFIX + command, path=os.pathsep.join(search_path())) if os.sep not in command else None
    if path is None:
        return unknown(command)
    for ignored in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them; ae-COMMAND expects to be killed by them
        signal.signal(ignored, signal.SIG_DFL)
    try:
        try:
            os.execv(path, [path, *args])
        except OSError as error:
            if error.errno != errno.ENOEXEC:
                raise
            os.execv("/bin/sh", ["sh", path, *args])  # a script without #! is run as a shell does
    except OSError as error:
        return f"{path}: cannot be started: {error.strerror}"


def unknown(command: str) -> str:
    """Returns the message for a command that does not exist, with those that are spelled like it."""
    known = [name.removeprefix(PREFIX) for name in (*own_tools(), *plug_ins(search_path()))] + ["help", *OWN]
    close = similar(command, known)[:3]
    hint = f"; did you mean {' or '.join(close)}?" if close else ""
    return f'there is no command "{command}"{hint} (ae --help lists them)'
