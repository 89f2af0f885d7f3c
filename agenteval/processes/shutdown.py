"""The main thread of a tool that runs processes: it waits, and on a signal ends everything in order."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from types import FrameType
from typing import TypeVar

from agenteval.errors import Stopped
from agenteval.processes.loop import Job, Jobs, Loop, Outbox
from agenteval.processes.supervisor import ProcessSupervisor
from agenteval.streams.console import Console
from agenteval.streams.output import Output
from agenteval.streams.source import Source

R = TypeVar("R")

FLUSH_TIME = 2.0


def run_jobs(
    jobs: Iterator[Job[R | None]],
    emit: Callable[[R], None],
    processes: ProcessSupervisor,
    outbox: Outbox,
    *,
    workers: int,
    source: Source,
    output: Output,
    console: Console,
    ordered: bool,
    hold: Callable[[R], None] = lambda _result: None,
    finish: Callable[[], None] = lambda: None,
) -> None:
    """Work through jobs in one thread, so many at a time; `hold` is told of a result that waits for its turn."""
    loop: Loop[R | None] = Loop(
        processes,
        lambda result: emit(result) if result is not None else None,
        workers=workers,
        ordered=ordered,
        room=outbox.has_room,
        hold=lambda result: hold(result) if result is not None else None,
    )
    outbox.begin(loop.wake)
    supply = Jobs(jobs, blocks=not source.regular)
    supervise(lambda watch: loop.run(supply, watch), processes, output, console, finish=finish, flush=outbox.finish)


def supervise(
    work: Callable[[int | None], None],
    processes: ProcessSupervisor,
    output: Output,
    console: Console,
    *,
    finish: Callable[[], None] = lambda: None,
    flush: Callable[[float | None], None] = lambda _seconds: None,
) -> None:
    """Do the work, then `finish`; a signal, a closed pipe or a failed write ends all processes first.

    `work` is given the output pipe to watch; `flush` writes what is done and not yet written. The output is left
    open where all went well.
    """
    for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(signum) is not signal.SIG_IGN:  # nohup and `&` stay what they are
            signal.signal(signum, _raise_stopped)
    try:
        work(None if output.path else output.fd)
        finish()
        flush(None)
    except (Stopped, Exception) as reason:
        _stop(processes)
        flush(FLUSH_TIME)
        console.finish()
        if isinstance(reason, Stopped):
            go_on = "; run it again with --resume to go on" if output.resumable else ""
            console.say(f"stopped by {signal.Signals(reason.signum).name} after {console.count()}{go_on}")
        processes.close()
        output.close()
        raise
    console.finish()
    processes.close()


def _stop(processes: ProcessSupervisor) -> None:
    """End all processes; a second signal ends this one at once, and the guardian kills the rest."""
    for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(signum, _leave_at_once)
    processes.stop()


def _raise_stopped(signum: int, _frame: FrameType | None) -> None:
    raise Stopped(signum)


def _leave_at_once(signum: int, _frame: FrameType | None) -> None:
    os._exit(128 + signum)
