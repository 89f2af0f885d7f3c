"""What holds for every run, whatever it was given."""

from __future__ import annotations

import functools
import json
import os
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from hypothesis import Phase, settings
from hypothesis.errors import HypothesisException
from hypothesis.internal.conjecture import engine

from tests.fuzz.server import Run

T = TypeVar("T")
Test = Callable[..., None]
MOST_MEMORY = 250.0  # MiB; the tokenizer of ae-score takes 110, all others a tenth of it
PHASES = (Phase.explicit, Phase.generate, Phase.shrink)  # without Phase.explain, which takes minutes
LONG = os.environ.get("AE_FUZZ") == "long"  # make fuzz
LONGEST = 120.0  # seconds of a test, however busy the machine is; each takes less on an idle one
engine.MAX_SHRINKING_SECONDS = int(LONGEST)  # then a failure is shown as small as it is


@dataclass
class Tried:
    """What the test that runs has tried so far."""

    examples: int = 0
    left_out: int = 0  # for lack of time


TRIED = Tried()


def examples(short: int, long: int) -> Callable[[Test], Test]:
    """Returns a decorator that says how many examples to try: in `make test`, always the same few; in `make fuzz`."""
    if LONG:
        chosen = settings(max_examples=long, deadline=None, database=None, print_blob=True, phases=PHASES)
    else:
        chosen = settings(max_examples=short, deadline=None, database=None, derandomize=True, phases=PHASES)
    return lambda test: _limit_time(chosen(test))


def _limit_time(test: Any) -> Test:
    """Makes the examples that come after LONGEST seconds do nothing, unless one has failed: that one is reduced.

    Not for a test that draws with st.data(): how much it draws must not depend on the time.
    """
    inner, end, failed = test.hypothesis.inner_test, 0.0, False

    @functools.wraps(inner)
    def try_one(*args: Any, **values: Any) -> None:
        nonlocal end, failed
        end = end or time.monotonic() + LONGEST
        if time.monotonic() > end and not failed:
            TRIED.left_out += 1
            return
        TRIED.examples += 1
        try:
            inner(*args, **values)
        except Exception as error:
            failed = failed or not isinstance(error, HypothesisException)
            raise

    test.hypothesis.inner_test = try_one
    limited: Test = test
    return limited


def some(all: Sequence[T], few: Collection[T]) -> list[T]:
    """Returns what to try of many: in `make test` only a few."""
    return [one for one in all if LONG or one in few]


def expect_sound(done: Run, given: bytes = b"", *, lines: bool = True) -> Run:
    """Asserts a documented exit code, messages of one line each, no traceback, bounded memory and whole lines.

    Exit code 2 is that of input which is of another kind: nothing is written then.
    """
    shown = f"\ninput: {given[:3000]!r}{done}"
    assert done.code in (0, 1) or (done.code == 2 and done.err and not done.out), f"exit code {done.code}{shown}"
    assert b"Traceback" not in done.err and b"internal error" not in done.err, f"a traceback{shown}"
    name = done.command[0]
    strange = [line for line in done.err.split(b"\n") if line and not line.startswith(f"{name}: ".encode())]
    assert not strange, f"a message that is none: {strange[0][:300]!r}{shown}"
    assert done.peak < MOST_MEMORY, f"{done.peak:.0f} MiB of memory{shown}"
    if lines:
        assert not done.out or done.out.endswith(b"\n"), f"the last line is cut off{shown}"
        for line in done.out.split(b"\n")[:-1]:  # a \r within JSON ends no line
            assert isinstance(json.loads(line), dict), f"a line that is no record: {line[:300]!r}{shown}"
    return done
