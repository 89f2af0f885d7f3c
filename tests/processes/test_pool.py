"""N at a time: order, limits, memory and errors of the pool itself."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from agenteval.processes.pool import Pool
from tests.support.watching import PATIENCE, until


def close_when(condition: Callable[[], bool], descriptor: int) -> threading.Thread:
    """Closes the descriptor in a thread, as soon as the condition holds."""

    def watch() -> None:
        until(condition, "the workers are at work")
        os.close(descriptor)

    thread = threading.Thread(target=watch)
    thread.start()
    return thread


def squares(number: int) -> Iterator[int]:
    time.sleep((number * 7 % 5) / 1000)
    yield number * number


@pytest.mark.parametrize("workers", [1, 3, 16])
@pytest.mark.parametrize("count", [0, 1, 5, 300])
def test_every_item_is_worked_on_once(workers: int, count: int) -> None:
    out: list[int] = []
    Pool(squares, out.append, workers=workers, ordered=False).run(iter(range(count)))
    assert sorted(out) == [number * number for number in range(count)]


@pytest.mark.parametrize("workers", [1, 3, 16])
def test_ordered_results_come_in_order(workers: int) -> None:
    out: list[int] = []
    Pool(squares, out.append, workers=workers, ordered=True).run(iter(range(300)))
    assert out == [number * number for number in range(300)]


@pytest.mark.parametrize("ordered", [False, True])
def test_items_may_give_many_results_or_none(ordered: bool) -> None:
    out: list[tuple[int, int]] = []

    def work(number: int) -> Iterator[tuple[int, int]]:
        for part in range(number % 4):
            time.sleep(0.001)
            yield number, part

    Pool(work, out.append, workers=4, ordered=ordered).run(iter(range(60)))
    expected = [(number, part) for number in range(60) for part in range(number % 4)]
    assert (out if ordered else sorted(out)) == expected


def test_the_first_items_results_come_out_as_they_are_made() -> None:
    """Also of an ordered pool: nothing is held back that could go out."""
    made, seen = threading.Event(), threading.Event()

    def work(number: int) -> Iterator[int]:
        yield number
        assert seen.wait(PATIENCE), "the first result was held back until the second was made"
        made.set()
        yield number

    Pool(work, lambda _result: seen.set(), workers=1, ordered=True).run(iter([1]))
    assert made.is_set()


def test_no_more_workers_than_asked_for() -> None:
    lock = threading.Lock()
    busy = most = 0
    workers: set[int] = set()
    five = threading.Barrier(5)

    def work(number: int) -> Iterator[int]:
        nonlocal busy, most
        with lock:
            busy += 1
            most = max(most, busy)
            workers.add(threading.get_ident())
        if number < 5:
            five.wait(PATIENCE)
        with lock:
            busy -= 1
        yield number

    Pool(work, lambda _: None, workers=5, ordered=False).run(iter(range(30)))
    assert most == len(workers) == 5


def test_items_are_taken_one_by_one_as_workers_are_free() -> None:
    """A stream of prompts is not read ahead of the workers."""
    taken: list[int] = []
    done: list[int] = []

    def items() -> Iterator[int]:
        for number in range(40):
            assert len(taken) - len(done) <= 4
            taken.append(number)
            yield number

    def work(number: int) -> Iterator[int]:
        time.sleep(0.002)
        yield number

    Pool(work, done.append, workers=3, ordered=False).run(items())
    assert sorted(done) == list(range(40))


def test_no_more_workers_are_started_than_there_are_items() -> None:
    workers: set[threading.Thread] = set()
    others = set(threading.enumerate())  # among them workers of another test's pool that are about to end
    all_at_work = threading.Barrier(3)

    def work(number: int) -> Iterator[int]:
        all_at_work.wait(PATIENCE)
        workers.update(set(threading.enumerate()) - others)
        yield number

    Pool(work, lambda _: None, workers=1000, ordered=False).run(iter(range(3)))
    assert 3 <= len(workers) <= 4, "a fourth may look whether there is another item"


def test_an_ordered_pool_does_not_run_away_from_a_slow_item() -> None:
    release = threading.Event()
    started: list[int] = []
    out: list[int] = []

    def work(number: int) -> Iterator[int]:
        started.append(number)
        if number == 0:
            assert release.wait(PATIENCE)
        yield number

    pool = Pool(work, out.append, workers=4, ordered=True)
    thread = threading.Thread(target=pool.run, args=(iter(range(10_000)),))
    thread.start()
    time.sleep(0.3)
    assert out == []
    held = len(started)
    assert held <= pool.window + 4
    release.set()
    thread.join(PATIENCE)
    assert out == list(range(10_000))


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("where", ["items", "work", "emit"])
def test_an_error_ends_the_run_and_comes_out(where: str, ordered: bool) -> None:
    worked: list[int] = []
    ended = threading.Event()
    others = set(threading.enumerate())

    def items() -> Iterator[int]:
        for number in range(1000):
            if where == "items" and number == 20:
                raise ValueError(where)
            if number == 100:
                assert ended.wait(PATIENCE), "the error did not end the run"
            yield number

    def work(number: int) -> Iterator[int]:
        worked.append(number)
        time.sleep(0.001)
        if where == "work" and number == 20:
            raise ValueError(where)
        yield number

    def emit(number: int) -> None:
        if where == "emit" and number == 20:
            raise ValueError(where)

    with pytest.raises(ValueError, match=where):
        Pool(work, emit, workers=4, ordered=ordered).run(items())
    ended.set()
    until(lambda: set(threading.enumerate()) <= others, "the workers have ended")
    assert len(worked) <= 101, "work went on after the error"


def test_a_closed_output_pipe_ends_the_wait() -> None:
    read, write = os.pipe()
    release = threading.Event()

    def work(number: int) -> Iterator[int]:
        release.wait(PATIENCE)
        yield number

    timer = threading.Timer(0.1, os.close, [read])
    began = time.monotonic()
    timer.start()
    try:
        with pytest.raises(BrokenPipeError):
            Pool(work, lambda _: None, workers=2, ordered=False).run(iter(range(4)), watch=write)
        assert time.monotonic() - began > 0.05
    finally:
        release.set()
        timer.join()
        os.close(write)


def test_nothing_overtakes_an_item_that_was_cut_short() -> None:
    """A signal ends an early item without its result: what comes after it in the input stays unwritten too."""
    read, write = os.pipe()
    stopped = threading.Event()
    out: list[int] = []
    later: list[int] = []

    def work(number: int) -> Iterator[int]:
        if number == 0:
            assert stopped.wait(PATIENCE)
            return
        later.append(number)
        yield number

    try:
        pool = Pool(work, out.append, workers=2, ordered=True)
        closer = close_when(lambda: bool(later), read)
        with pytest.raises(BrokenPipeError):
            pool.run(iter(range(4)), watch=write)
        stopped.set()
        time.sleep(0.1)
        assert out == []
    finally:
        closer.join()
        os.close(write)


def test_a_result_that_waits_for_its_turn_is_held() -> None:
    """Only such a result, and before the ones that it waits for are emitted."""
    release = threading.Event()
    events: list[tuple[str, int]] = []

    def work(number: int) -> list[int]:
        if number == 1:
            assert release.wait(PATIENCE)
        return [number]

    def hold(number: int) -> None:
        events.append(("hold", number))
        if number == 3:
            release.set()

    pool = Pool(work, lambda number: events.append(("emit", number)), workers=2, ordered=True, hold=hold)
    pool.run(iter(range(4)))
    assert events == [("emit", 0), ("hold", 2), ("hold", 3), ("emit", 1), ("emit", 2), ("emit", 3)]


@pytest.mark.parametrize("ordered", [False, True])
def test_an_emit_that_blocks_holds_up_the_workers_and_no_end(ordered: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader that does not read must not keep a signal or a closed pipe from ending the run."""
    ready = threading.Semaphore(0)  # counts the workers that emit, or wait for their turn to
    turn = threading.Lock()

    class Turn:
        def __enter__(self) -> None:
            ready.release()
            turn.acquire()

        def __exit__(self, *_error: object) -> None:
            turn.release()

    read, write = os.pipe()
    release = threading.Event()
    worked: list[int] = []
    out: list[int] = []

    def work(number: int) -> list[int]:
        worked.append(number)
        return [number]

    def emit(number: int) -> None:
        assert release.wait(PATIENCE)
        out.append(number)

    pool = Pool(work, emit, workers=3, ordered=ordered)
    monkeypatch.setattr(pool, "_emitting", Turn())
    closer = close_when(lambda: all(ready.acquire(timeout=PATIENCE) for _ in range(3)), read)
    try:
        with pytest.raises(BrokenPipeError):  # before the results are released
            pool.run(iter(range(100)), watch=write)
        assert len(worked) == 3, "a worker whose result is not taken takes no further item"
        began = time.monotonic()
        pool.flush(0.2)
        assert time.monotonic() - began > 0.15 and not out, "it waits no longer than it may"
        release.set()
        pool.flush(5)
        assert sorted(out) == [0, 1, 2] if not ordered else out[0] == 0, "what was ready is written after all"
        assert len(worked) == 3
    finally:
        release.set()
        closer.join()
        os.close(write)


def test_after_an_emit_that_failed_nothing_is_emitted() -> None:
    out: list[int] = []
    both = threading.Barrier(4)

    def work(number: int) -> list[int]:
        both.wait(PATIENCE)
        return [number]

    def emit(number: int) -> None:
        out.append(number)
        time.sleep(0.1)  # the others wait for their turn
        raise ValueError("the first")

    with pytest.raises(ValueError, match="the first"):
        Pool(work, emit, workers=4, ordered=False).run(iter(range(4)))
    time.sleep(0.2)
    assert len(out) == 1


def test_ticks_come_while_nothing_else_happens() -> None:
    ticked = threading.Event()

    def work(number: int) -> list[bool]:
        return [ticked.wait(PATIENCE)]

    out: list[bool] = []
    Pool(work, out.append, workers=1, ordered=False).run(iter([1]), tick=ticked.set)
    assert out == [True]


def test_an_error_has_the_traceback_of_the_worker() -> None:
    def work(number: int) -> list[int]:
        return [number // 0]

    with pytest.raises(ZeroDivisionError) as caught:
        Pool(work, lambda _: None, workers=2, ordered=False).run(iter([1]))
    assert "work" in [entry.name for entry in caught.traceback]
