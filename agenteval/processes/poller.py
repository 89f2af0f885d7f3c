"""One wait for many descriptors."""

from __future__ import annotations

import select
from typing import Protocol

LONGEST_WAIT = 3600.0  # poll takes no more than 24 days; then it just looks again


class Poller:
    """Who is interested in which descriptor; one wait for all of them."""

    def __init__(self, many: bool = False) -> None:
        self._owners: dict[int, PollerClient] = {}
        # poll takes one system call per wait, epoll one per descriptor besides: it is for hundreds of them.
        self._epoll = select.epoll() if many and hasattr(select, "epoll") else None
        self._poll = select.poll()

    def register(self, fd: int, mask: int, owner: PollerClient) -> None:
        """Call owner.handle(fd) when there is something to do."""
        (self._epoll or self._poll).register(fd, mask)
        self._owners[fd] = owner

    def unregister(self, fd: int) -> None:
        """No more; nothing where it was not registered."""
        if self._owners.pop(fd, None) is not None:
            (self._epoll or self._poll).unregister(fd)

    def wait(self, seconds: float | None) -> None:
        """Wait, at most so long, and let the owners handle what has come."""
        if seconds is not None:
            seconds = min(max(0.0, seconds), LONGEST_WAIT)
        if self._epoll is not None:
            events = self._epoll.poll(seconds)
        else:
            events = self._poll.poll(None if seconds is None else seconds * 1000 + 1)
        for fd, _event in events:
            owner = self._owners.get(fd)
            if owner is not None:  # else one that was handled before it has closed this one
                owner.handle(fd)


class PollerClient(Protocol):
    """Something with descriptors on a switchboard."""

    def handle(self, fd: int) -> None: ...
