"""The end of a run: in order when all is done; on a signal, a closed pipe or an error with everything terminated."""

import os
import signal
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

from agenteval.errors import CannotGoOn, Stopped
from agenteval.processes.pool import Pool, T
from agenteval.processes.supervisor import ProcessSupervisor
from agenteval.streams.console import PROGRESS, Console
from agenteval.streams.output import Output

ENDING_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
FLUSH_TIME = 2.0  # seconds for the reader of our output to take the records that are ready


def run_pool(
    pool: Pool[T, Any],
    items: Iterator[T],
    processes: ProcessSupervisor,
    output: Output,
    console: Console,
    finish: Callable[[], None] = lambda: None,
) -> None:
    """Works through the items, then calls `finish`; the output is left open.

    On a signal, a closed output or an error, terminates all processes and raises it again.
    """

    def tick() -> None:
        processes.reap_orphans()
        console.redraw()

    raise_on_signals()
    try:
        pool.run(items, None if output.path else output.fd, tick)
        finish()
    except (Stopped, Exception) as reason:
        exit_at_once_on_signals()  # on a second signal; the guardian kills the rest
        processes.stop()
        pool.flush(FLUSH_TIME)
        console.finish()
        if isinstance(reason, Stopped):
            go_on = "; run it again with --resume to go on" if output.resumable else ""
            console.say(f"stopped by {signal.Signals(reason.signum).name} after {console.count()}{go_on}", alone=True)
        _close(processes, console)
        try:
            output.close(complete=False)
        except CannotGoOn as problem:
            console.say(str(problem))
        raise
    console.finish()
    _close(processes, console)


def raise_on_signals() -> None:
    """Makes the signals that end a tool raise Stopped in the main thread."""
    for signum in ENDING_SIGNALS:
        if signal.getsignal(signum) is not signal.SIG_IGN:  # nohup and `&` ignore some: let them
            signal.signal(signum, _raise_stopped)


def _close(processes: ProcessSupervisor, console: Console) -> None:
    processes.close()
    for left in processes.left_running():
        console.say(left)


def exit_at_once_on_signals() -> None:
    """Makes the signals that end a tool end it at once."""
    for signum in ENDING_SIGNALS:
        signal.signal(signum, _exit_at_once)


def _raise_stopped(signum: int, _frame: FrameType | None) -> None:
    raise Stopped(signum)


def _exit_at_once(signum: int, _frame: FrameType | None) -> None:
    PROGRESS.abandon()
    os._exit(128 + signum)
