"""Several processes in one thread: which get a thread of their own, order, limits and errors.

test_interleaved_pool.py runs these in a process of their own: a supervisor reaps and terminates all of its children,
and a process that runs tests has others.
"""

from __future__ import annotations

import errno
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agenteval.processes.interleaved import pool as interleaved
from agenteval.processes.interleaved.pool import InterleavedPool
from agenteval.processes.interleaved.steps import Steps, Work, driven, run_steps
from agenteval.processes.marks import mark_of
from agenteval.processes.outcome import Outcome
from agenteval.processes.process import RunningProcess
from agenteval.processes.programs import find_program
from agenteval.processes.spawn import Command
from agenteval.processes.supervisor import ProcessSupervisor

MOST = 1 << 26
Run = tuple[str, Outcome, int]
"""What was run, how it ended, and in which thread the work on it went on."""


@pytest.fixture
def processes() -> Iterator[ProcessSupervisor]:
    supervisor = ProcessSupervisor(8)
    yield supervisor
    supervisor.close()


def shell(processes: ProcessSupervisor, line: str, timeout: float = 60.0, stdin: bytes | None = None) -> RunningProcess:
    command = Command(find_program("sh"), ["sh", "-c", line], os.getcwd(), {}, stdin)
    return processes.process(processes.new_agent_key(), command, timeout=timeout, max_output=MOST)


def run_all(
    processes: ProcessSupervisor, *lines: str, workers: int = 4, ordered: bool = False, timeout: float = 60.0
) -> list[Run]:
    """Runs shell lines; returns them in the order in which they came out."""
    out: list[Run] = []

    def work(line: str) -> Work[Run]:
        outcome = yield shell(processes, line, timeout)
        assert outcome is not None
        yield line, outcome, threading.get_ident()

    InterleavedPool(work, out.append, workers=workers, ordered=ordered).run(iter(lines))
    return out


@pytest.mark.parametrize("workers", [1, 2, 5])
@pytest.mark.parametrize("count", [0, 1, 60])
def test_short_processes_share_a_thread(processes: ProcessSupervisor, workers: int, count: int) -> None:
    lines = [f"echo {number}; echo e{number} >&2; exit {number}" for number in range(count)]
    found = run_all(processes, *lines, workers=workers)
    assert sorted(line for line, *_ in found) == sorted(lines)
    for line, outcome, _ in found:
        number = lines.index(line)
        assert (outcome.stdout, outcome.stderr) == (f"{number}\n".encode(), f"e{number}\n".encode())
        assert outcome.exit_code == number
    assert len({thread for *_, thread in found}) == min(count, 1)


def test_so_many_at_a_time_and_no_more(processes: ProcessSupervisor, tmp_path: Path) -> None:
    lines = [f"touch {tmp_path}/{n}; ls {tmp_path} | wc -l; sleep 0.03; rm {tmp_path}/{n}" for n in range(24)]
    counts = [int(outcome.stdout) for _, outcome, _ in run_all(processes, *lines, workers=3)]
    assert max(counts) == 3


def test_a_long_process_gets_a_thread_and_the_others_go_on(processes: ProcessSupervisor) -> None:
    lines = ["sleep 0.5; echo long", *(f"echo {number}" for number in range(20))]
    found = run_all(processes, *lines, workers=2)
    assert [outcome.stdout for _, outcome, _ in found][-1] == b"long\n"
    *short, long = [thread for *_, thread in found]
    assert len(set(short)) == 1 and long not in short


def test_order_is_kept_and_not_too_many_are_taken_ahead(processes: ProcessSupervisor) -> None:
    taken: list[int] = []
    out: list[int] = []

    def items() -> Iterator[int]:
        for number in range(200):
            taken.append(number)
            yield number

    def work(number: int) -> Work[int]:
        yield shell(processes, "sleep 0.3" if number == 0 else "true")
        if number == 0:
            assert len(taken) <= pool.window
        yield number

    pool = InterleavedPool(work, out.append, workers=2, ordered=True)
    pool.run(items())
    assert out == list(range(200))


def test_work_without_a_process_and_work_with_several(processes: ProcessSupervisor) -> None:
    out: list[str] = []

    def work(number: int) -> Work[str]:
        for turn in range(number):
            outcome = yield shell(processes, f"echo {number}.{turn}")
            assert outcome is not None
            yield outcome.stdout.decode().strip()

    InterleavedPool(work, out.append, workers=3, ordered=True).run(iter(range(4)))
    assert out == ["1.0", "2.0", "2.1", "3.0", "3.1", "3.2"]


def test_stdin_of_any_size_is_written(processes: ProcessSupervisor) -> None:
    sizes = [0, 10, 5_000, 3_000_000]
    out: list[int] = []

    def work(size: int) -> Work[int]:
        outcome = yield shell(processes, "wc -c", stdin=b"x" * size)
        assert outcome is not None
        yield int(outcome.stdout)

    InterleavedPool(work, out.append, workers=4, ordered=True).run(iter(sizes))
    assert out == sizes


def test_much_output_is_kept(processes: ProcessSupervisor) -> None:
    found = run_all(processes, "head -c 5000000 /dev/zero", "echo b", workers=2)
    assert {len(outcome.stdout) for _, outcome, _ in found} == {5_000_000, 2}


def test_a_process_is_ended_at_its_time_limit(processes: ProcessSupervisor) -> None:
    found = run_all(processes, "echo before; sleep 60", "echo b", workers=2, timeout=0.03)
    by_line = {line: outcome for line, outcome, _ in found}
    assert by_line["echo b"].exit_code == 0
    assert by_line["echo before; sleep 60"].timed_out
    assert by_line["echo before; sleep 60"].stdout == b"before\n"


def test_one_that_leaves_a_helper_gets_a_thread(processes: ProcessSupervisor) -> None:
    """The helper is ended by the work on it, which takes a while; it may hold stdout open."""
    found = run_all(processes, "sleep 60 & echo a", "echo b", "echo c", workers=2)
    helped = [(outcome.left_helpers, thread) for _, outcome, thread in found]
    [alone] = [thread for left, thread in helped if left]
    assert {thread for left, thread in helped if not left} != {alone} and len(helped) == 3


def test_a_program_that_cannot_be_started_is_an_outcome(processes: ProcessSupervisor) -> None:
    command = Command("/nonexistent/program", ["program"], os.getcwd(), {})
    out: list[str | None] = []

    def work(number: int) -> Work[str | None]:
        key = processes.new_agent_key()
        missing = processes.process(key, command, timeout=None, max_output=MOST)
        outcome = yield missing if number == 1 else shell(processes, "true")
        assert outcome is not None
        yield outcome.error

    InterleavedPool(work, out.append, workers=2, ordered=True).run(iter(range(3)))
    assert out[0] is None and out[2] is None
    assert out[1] is not None and out[1].startswith("cannot start program: not found")


class Broken(RunningProcess):
    """A process that raises an unexpected error at some point."""

    def __init__(self, process: RunningProcess, point: str) -> None:
        self.__dict__ = process.__dict__
        setattr(self, point, self._break)

    def _break(self, *_args: object, **_options: object) -> bool:
        raise ZeroDivisionError


def drive_interleaved(work: Callable[[int], Work[str]], count: int) -> list[str]:
    out: list[str] = []
    InterleavedPool(work, out.append, workers=2, ordered=False).run(iter(range(count)))
    return out


def drive_one_by_one(work: Callable[[int], Work[str]], count: int) -> list[str]:
    return [result for number in range(count) for result in driven(work(number))]


@pytest.mark.parametrize("drive", [drive_interleaved, drive_one_by_one])
@pytest.mark.parametrize("point", ["start", "handle", "has_ended", "outcome"])
def test_an_unexpected_error_is_raised_in_the_work(
    processes: ProcessSupervisor, point: str, drive: Callable[[Callable[[int], Work[str]], int], list[str]]
) -> None:
    """Where it costs the record of that process only."""

    def work(number: int) -> Work[str]:
        process = shell(processes, "sleep 0.01; echo x")
        try:
            outcome = yield Broken(process, point) if number == 3 else process
            assert outcome is not None
            yield outcome.stdout.decode()
        except ZeroDivisionError:
            yield "broken"

    assert sorted(drive(work, 12)) == ["broken", *["x\n"] * 11]


@pytest.mark.parametrize("place", ["items", "work", "emit"])
def test_any_other_error_ends_the_run(processes: ProcessSupervisor, place: str) -> None:
    def items() -> Iterator[int]:
        yield from range(5)
        if place == "items":
            raise ZeroDivisionError
        yield from range(5, 10)

    def work(number: int) -> Work[int]:
        yield shell(processes, "true")
        if place == "work" and number == 5:
            raise ZeroDivisionError
        yield number

    def emit(number: int) -> None:
        if place == "emit" and number == 5:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        InterleavedPool(work, emit, workers=2, ordered=place == "emit").run(items())


def test_a_start_that_our_limits_refuse_waits_in_a_thread(
    processes: ProcessSupervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused: list[int] = []
    spawn = processes._spawner.spawn

    def refuse_some(*args: object) -> int:
        if len(refused) < 6:
            refused.append(1)
            raise OSError(errno.EAGAIN, "no more processes")
        return spawn(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(processes._spawner, "spawn", refuse_some)
    found = run_all(processes, *(f"echo {number}" for number in range(8)), workers=4)
    assert sorted(outcome.stdout for _, outcome, _ in found) == [f"{n}\n".encode() for n in range(8)]
    assert not any(outcome.error for _, outcome, _ in found)


def test_without_more_threads_the_others_wait(processes: ProcessSupervisor, monkeypatch: pytest.MonkeyPatch) -> None:
    start = threading.Thread.start
    started: list[threading.Thread] = []

    def first_only(thread: threading.Thread) -> None:
        if started:
            raise RuntimeError("can't start new thread")
        started.append(thread)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", first_only)
    found = run_all(processes, "sleep 0.2; echo a", "echo b", "echo c", workers=2)
    assert sorted(outcome.stdout for _, outcome, _ in found) == [b"a\n", b"b\n", b"c\n"]


def test_lines_get_their_times_also_beside_others(processes: ProcessSupervisor) -> None:
    for _try in range(30):  # a busy machine notices some lines late, but not always
        began = time.monotonic()
        found = run_all(processes, "echo a; sleep 0.03; echo b", *["true"] * 30, workers=2)
        [outcome] = [outcome for line, outcome, _ in found if line.startswith("echo a")]
        times = [arrival for _lines, arrival in outcome.arrivals]
        assert began <= times[0] <= times[-1] <= time.monotonic()
        if 0.02 < times[-1] - times[0] < 0.2:
            return
    raise AssertionError(f"the lines came 0.03 s apart, their times are {times[-1] - times[0]} s apart")


def test_one_item_after_another(processes: ProcessSupervisor) -> None:
    def steps() -> Steps[bytes]:
        outcome = yield shell(processes, "echo a")
        return outcome.stdout

    assert run_steps(steps()) == b"a\n"


def test_what_is_short_and_what_is_much() -> None:
    """A process that is attended to beside others must not keep them waiting."""
    assert interleaved.SHORT <= 0.1
    assert interleaved.MUCH <= 1 << 20


# --- the next process, before the result of the one before is written --------------------------------


def last(process: RunningProcess) -> RunningProcess:
    process.is_last = True
    return process


@pytest.mark.parametrize("line", ["true", "sleep 0.1"])
def test_the_next_process_runs_while_a_result_is_written(processes: ProcessSupervisor, line: str) -> None:
    """A short one if there are more at a time than processors, a long one always."""
    running: list[int] = []

    def work(number: int) -> Work[int]:
        yield last(shell(processes, line))
        yield number

    def emit(_number: int) -> None:
        deadline = time.monotonic() + 5
        while len(processes._running) == 1 and len(running) < 4 and time.monotonic() < deadline:
            time.sleep(0.001)
        running.append(len(processes._running) - 1)  # but for the guardian

    pool = InterleavedPool(work, emit, workers=1, ordered=False)
    pool._starts_first = True
    pool.run(iter(range(5)))
    assert running == [1, 1, 1, 1, 0]


@pytest.mark.parametrize("line", ["true", "sleep 0.1"])
def test_a_result_is_written_if_the_next_item_is_bad(processes: ProcessSupervisor, line: str) -> None:
    out: list[int] = []

    def items() -> Iterator[int]:
        yield from range(3)
        raise ZeroDivisionError

    def work(number: int) -> Work[int]:
        yield last(shell(processes, line))
        yield number

    def emit(number: int) -> None:
        time.sleep(0.05)
        out.append(number)

    pool = InterleavedPool(work, emit, workers=1, ordered=False)
    pool._starts_first = True
    with pytest.raises(ZeroDivisionError):
        pool.run(items())
    pool.flush(5)
    assert out == [0, 1, 2]


def test_no_more_results_wait_than_processes_may_run(processes: ProcessSupervisor) -> None:
    """A disk that is slow must not fill the memory."""
    started: list[int] = []
    emitted: list[int] = []

    def work(number: int) -> Work[int]:
        started.append(number)
        yield last(shell(processes, "sleep 0.06"))
        yield number

    def emit(number: int) -> None:
        time.sleep(0.3)
        emitted.append(number)
        assert len(started) - len(emitted) <= 4

    InterleavedPool(work, emit, workers=2, ordered=False).run(iter(range(6)))
    assert sorted(emitted) == list(range(6))


@pytest.mark.parametrize("pause", [0, 0.06])
def test_work_that_needs_another_process_keeps_its_place(
    processes: ProcessSupervisor, tmp_path: Path, pause: float
) -> None:
    def work(number: int) -> Work[int]:
        for turn in range(2):
            mine = tmp_path / f"{number}.{turn}"
            process = shell(processes, f"touch {mine}; ls {tmp_path} | wc -l; sleep {pause}; rm {mine}")
            process.is_last = turn == 1
            outcome = yield process
            assert outcome is not None
            yield int(outcome.stdout)

    counts: list[int] = []
    pool = InterleavedPool(work, counts.append, workers=2, ordered=False)
    pool._starts_first = True
    pool.run(iter(range(12)))
    assert len(counts) == 24 and max(counts) <= 2


# --- pipes that are used again ---------------------------------------------------------------------


def printed(processes: ProcessSupervisor, line: str, timeout: float = 60.0) -> bytes:
    return shell(processes, line, timeout).run().stdout


def python(program: str) -> str:
    return f"{sys.executable} -c 'import fcntl, os; {program}'"


def test_one_process_after_another_has_the_same_pipes(processes: ProcessSupervisor) -> None:
    assert printed(processes, "echo 0; echo e >&2") == b"0\n"
    [pipes] = processes._idle_pipes
    descriptors = os.listdir("/proc/self/fd")
    for number in range(1, 20):
        assert printed(processes, f"echo {number}") == f"{number}\n".encode()
        assert processes._idle_pipes == [pipes]
    assert os.listdir("/proc/self/fd") == descriptors


FORGE = f"""
import os, resource
mark = {mark_of(os.getpid(), 999)}
resource.setrlimit(resource.RLIMIT_RTTIME, (mark, resource.getrlimit(resource.RLIMIT_RTTIME)[1]))
os.execve("/bin/sh", ["sh", "late"], dict(os.environ, AGENTEVAL_AGENT=str(mark)))
"""  # a helper that claims to be of another agent


@pytest.mark.parametrize("helper", ["sh late", "setsid sh late", f"{sys.executable} forge.py"])
def test_what_a_helper_prints_later_is_in_no_other_output(
    processes: ProcessSupervisor, tmp_path: Path, helper: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("late").write_text("touch late.runs; sleep 0.2; echo late; echo late >&2")
    Path("forge.py").write_text(FORGE)
    assert printed(processes, f"{helper} & until [ -e late.runs ]; do :; done; echo a") == b"a\n"
    assert not processes._idle_pipes
    assert printed(processes, "sleep 0.4; echo b") == b"b\n"


def test_what_a_process_printed_before_it_was_ended_is_in_no_other_output(processes: ProcessSupervisor) -> None:
    assert printed(processes, "yes", timeout=0.05).startswith(b"y\ny\n")
    assert printed(processes, "echo b") == b"b\n"
    process = shell(processes, "yes | head -c 300000; echo c >&2; sleep 60")
    process.max_output = 1000
    assert len(process.run().stdout) == 1000
    assert printed(processes, "echo d") == b"d\n"


def test_what_a_process_does_to_its_pipes_does_not_concern_the_next(processes: ProcessSupervisor) -> None:
    """Node makes its stdout non-blocking: the next process would lose what does not fit at once."""
    flags = python("print(fcntl.fcntl(1, fcntl.F_GETFL) & ~os.O_WRONLY, fcntl.fcntl(2, fcntl.F_GETFL) & ~os.O_WRONLY)")
    for other in ("os.O_NONBLOCK", "os.O_NONBLOCK | os.O_ASYNC | os.O_DIRECT"):
        assert printed(processes, python(f"[fcntl.fcntl(fd, fcntl.F_SETFL, {other}) for fd in (1, 2)]")) == b""
        assert printed(processes, flags) == b"0 0\n"
    size = python("print(fcntl.fcntl(1, fcntl.F_GETPIPE_SZ))")
    before = printed(processes, size)
    assert printed(processes, python("fcntl.fcntl(1, fcntl.F_SETPIPE_SZ, 4096)")) == b""
    assert printed(processes, size) == before


def test_pipes_are_closed_at_the_end() -> None:
    before = set(os.listdir("/proc/self/fd"))
    supervisor = ProcessSupervisor(2)
    opened = set(os.listdir("/proc/self/fd"))
    assert printed(supervisor, "echo a") == b"a\n"
    supervisor.close()
    assert set(os.listdir("/proc/self/fd")) <= opened and before
