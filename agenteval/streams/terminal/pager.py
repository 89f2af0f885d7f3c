"""Shows long text on a terminal page by page, with the program that $PAGER names."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

DEFAULT = "less"


def pager_command() -> list[str] | None:
    """The words of $PAGER, by default less; None if it is empty, cat, or not installed."""
    try:
        words = shlex.split(os.environ.get("PAGER", DEFAULT))
    except ValueError:
        return None
    return words if words and words != ["cat"] and shutil.which(words[0]) else None


def page(lines: Iterable[str], write: Any, *, rows: int) -> None:
    """Writes lines that fit on the screen with `write`, more of them through the pager, which may be left early."""
    source: Iterator[str] = iter(lines)
    held: list[str] = []
    for line in source:
        held.append(line)
        if len(held) >= rows:
            command = pager_command()
            if command is not None:
                _through(command, chain(held, source))
                return
            break
    for line in chain(held, source):
        write(f"{line}\n".encode())


def _through(command: list[str], lines: Iterable[str]) -> None:
    environment = {"LESS": "FRX", **os.environ}  # as git does: colours, and the text stays on the screen
    with subprocess.Popen(command, stdin=subprocess.PIPE, env=environment) as pager:
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the pager while it runs
        try:
            assert pager.stdin is not None
            with pager.stdin:
                for line in lines:
                    pager.stdin.write(f"{line}\n".encode())
        except BrokenPipeError:
            pass  # it was left before the end
        finally:
            pager.wait()
            signal.signal(signal.SIGINT, before)
