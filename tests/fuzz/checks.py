"""What holds for every run, whatever it was given."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Sequence
from typing import TypeVar

from hypothesis import Phase, settings

from tests.fuzz.server import Run

T = TypeVar("T")
MOST_MEMORY = 250.0  # MiB; the tokenizer of ae-score takes 110, all others a tenth of it
PHASES = (Phase.explicit, Phase.generate, Phase.shrink)  # without Phase.explain, which takes minutes
LONG = os.environ.get("AE_FUZZ") == "long"  # make fuzz


def examples(short: int, long: int) -> settings:
    """Returns how many examples to try: in `make test`, always the same few; in `make fuzz`."""
    if LONG:
        return settings(max_examples=long, deadline=None, database=None, print_blob=True, phases=PHASES)
    return settings(max_examples=short, deadline=None, database=None, derandomize=True, phases=PHASES)


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
        for line in done.out.splitlines():
            assert isinstance(json.loads(line), dict), f"a line that is no record: {line[:300]!r}{shown}"
    return done
