"""Warm-up: the first agent of a run finishes before others start.

Agents set up their HOME at the first start: several that do so at once in an empty one may fail.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class WarmUp:
    """Lets one agent run alone, however it ends, and all others after it; with `wanted` false, all at once."""

    def __init__(self, wanted: bool) -> None:
        self.done = not wanted
        self._alone = threading.Lock()

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Waits until an agent may run, and takes note that it has; if it raises, it has not, and another is first."""
        if not self.done:
            with self._alone:
                if not self.done:
                    yield
                    self.done = True
                    return
        yield
