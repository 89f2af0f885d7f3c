"""ae: one name for the suite: `ae run …` is `ae-run …`, and so is every other ae-* on PATH."""

from __future__ import annotations

import os
import signal
import sys

from agenteval.cli.suite import PREFIX, find, own_tools, places, plug_ins
from agenteval.errors import USAGE, similar

# Click is imported only where ae answers itself. A tool that it becomes pays for its own imports, not for ours too.


def main() -> int:
    """Become the tool that is named, or answer: the list of commands, a completion script, what TAB wants to know."""
    command, *rest = sys.argv[1:] or [""]
    asked = bool(os.environ.get("_AE_COMPLETE"))  # by TAB: nothing may be started
    if command == "help" and rest:
        command, *rest = rest if asked else [rest[0], "--help"]
    if command == "completion" and (rest or not asked):
        from agenteval.cli.front_page import completion

        completion(rest)
    if asked or command in ("", "help") or command.startswith("-"):
        from agenteval.cli.front_page import front_page

        front_page([command, *rest] if asked or command.startswith("-") else [])
    return _refuse(become(command, rest))


def become(command: str, args: list[str]) -> str:
    """Replace this process by ae-COMMAND; comes back only to say why that is not possible."""
    path = find(PREFIX + command, places())
    if path is None:
        return unknown(command)
    for ignored in (signal.SIGPIPE, signal.SIGXFSZ):  # by Python; what we become expects to die of them
        signal.signal(ignored, signal.SIG_DFL)
    try:
        try:
            os.execv(path, [path, *args])
        except OSError as error:
            if error.strerror != "Exec format error":
                raise
            os.execv("/bin/sh", ["sh", path, *args])  # a script without #!: shells start it like this
    except OSError as error:
        return f"{path}: cannot be started: {error.strerror}"


def unknown(command: str) -> str:
    """Returns the message for a command that does not exist, with those that are spelled like it."""
    known = [name.removeprefix(PREFIX) for name in (*own_tools(), *plug_ins(places()))] + ["help", "completion"]
    close = similar(command, known)[:3]
    hint = f"; did you mean {' or '.join(close)}?" if close else ""
    return f'there is no command "{command}"{hint} (ae --help lists them)'


def _refuse(why: str) -> int:
    from agenteval.streams.console import Console

    Console("ae", progress=False).say(why)
    return USAGE
