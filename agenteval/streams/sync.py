"""Brings records to the disk once a second, so that a power cut costs at most the last one."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

INTERVAL = 1.0


class Syncer:
    """Calls functions that sync a file every second, in a thread: a disk that is busy holds up no agent."""

    def __init__(self, syncs: Sequence[Callable[[], None]]) -> None:
        self._syncs = syncs
        self._stopped = threading.Event()
        threading.Thread(target=self._serve, daemon=True).start()

    def stop(self) -> None:
        """Makes the thread end; the files sync themselves when they are closed."""
        self._stopped.set()

    def _serve(self) -> None:
        while not self._stopped.wait(INTERVAL):
            for sync in self._syncs:
                sync()
