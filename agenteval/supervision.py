"""The main thread of a tool that runs processes: it waits, and on a signal ends everything in order."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from types import FrameType
from typing import TypeVar

from agenteval.console import Console
from agenteval.errors import Stopped
from agenteval.pool import Pool
from agenteval.processes import Processes
from agenteval.stream import Output

T = TypeVar("T")
R = TypeVar("R")


def supervise(
    pool: Pool[T, R],
    items: Iterator[T],
    processes: Processes,
    output: Output,
    console: Console,
    finish: Callable[[], None] = lambda: None,
) -> None:
    """Work through items, then `finish`; a signal, a closed pipe or a failed write ends all processes first."""
    for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(signum) is not signal.SIG_IGN:  # nohup and `&` stay what they are
            signal.signal(signum, _raise_stopped)
    try:
        pool.run(items, None if output.path else output.fd)
        finish()
    except (Stopped, Exception) as reason:
        _stop(processes)
        console.finish()
        if isinstance(reason, Stopped):
            go_on = "; run it again with --resume to go on" if output.path else ""
            console.say(f"stopped by {signal.Signals(reason.signum).name} after {console.done} records{go_on}")
        raise
    finally:
        console.finish()
        processes.close()
        output.close()


def _stop(processes: Processes) -> None:
    """End all processes; a second signal ends this one at once, and the guardian kills the rest."""
    for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(signum, _leave_at_once)
    processes.stop()


def _raise_stopped(signum: int, _frame: FrameType | None) -> None:
    raise Stopped(signum)


def _leave_at_once(signum: int, _frame: FrameType | None) -> None:
    os._exit(128 + signum)
