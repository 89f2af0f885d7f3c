"""Counts agents that fail and workspaces that cannot be made, reports them with the reason, and stops the run.

A run whose first agents all fail in the same way is stopped: a missing key or a wrong option fails every prompt alike.
"""

import re
import threading
from collections.abc import Callable

from agenteval.errors import CannotGoOn, StrictStop, WorkspaceError

FIRST = 5  # agents that fail in the same way before it is reported
REASON_LENGTH = 300
MOST_REASONS = 100  # different ones that are counted: memory must not grow with the number of agents
VERBS = ("exited", "killed", "printed", "closed")  # a reason that begins so gets the agent as its subject


class FailureCount:
    """Counts the agents that end and those that fail; `say` takes a line for the user."""

    def __init__(
        self, agent: str, say: Callable[[str], None], limit: int | None, *, resumable: bool, keep_going: bool = False
    ) -> None:
        self.agent, self.say, self.limit, self.resumable, self.keep_going = agent, say, limit, resumable, keep_going
        self.ended = self.failed = 0
        self._reasons: dict[str, tuple[int, str]] = {}  # how often each occurred, and the first of its kind in full

    def add(self, errors: list[str] | None, total: int | None) -> None:
        """Counts an agent that has ended; raises StrictStop at the limit, or if the first ones failed alike."""
        self.ended += 1
        if not errors:
            return
        self.failed += 1
        reason = self._describe(errors)
        shape = _shape(reason)
        if shape in self._reasons or len(self._reasons) < MOST_REASONS:
            count, first = self._reasons.get(shape, (0, reason))
            self._reasons[shape] = count + 1, first
        if self.limit is not None and self.failed >= self.limit:
            go_on = "; run it again with --resume to go on" if self.resumable else ""
            raise StrictStop(
                f"stopped after {self.failed} failed agent{'s' * (self.failed != 1)} (--max-failures), "
                f"the last: {reason}{go_on}"
            )
        if self.ended == self.failed == FIRST and len(self._reasons) == 1 and (total is None or total > FIRST):
            alike = f"the first {FIRST} agents failed in the same way: {reason}"
            if self.keep_going:
                self.say(alike)
                return
            again = "run it again with --retry-failed" if self.resumable else "run it again"
            raise StrictStop(f"stopped: {alike}; mend that and {again}, or go on all the same with --keep-going")

    def report(self) -> None:
        """Reports, at the end, how many agents failed, and the most common reason."""
        if not self.failed:
            return
        count, reason = max(self._reasons.values(), key=lambda kind: kind[0])
        if count == self.failed:
            which = ""
        elif count == 1:
            which = ", the first"
        else:
            which = f", {count} of them in the same way"
        self.say(f"{self.failed} of {self.ended} agents failed{which}: {reason}")

    def _describe(self, errors: list[str]) -> str:
        reason = re.sub(r"^turn \d+ of \d+: ", "", "; ".join(errors))
        return (f"{self.agent} {reason}" if reason.startswith(VERBS) else reason)[:REASON_LENGTH]


class MissingWorkspaces:
    """Counts the prompts that are not run and not recorded, because their workspace cannot be made."""

    def __init__(self, say: Callable[[str], None], *, resumable: bool) -> None:
        self.say = say
        self.go_on = "; run it again with --resume to go on" if resumable else ""
        self.count = 0
        self._in_a_row = 0
        self._lock = threading.Lock()

    def add(self, name: str, error: WorkspaceError) -> None:
        """Reports the first one; raises CannotGoOn if the disk is full or several in a row could not be made."""
        with self._lock:
            self.count += 1
            self._in_a_row += 1
            if error.full or self._in_a_row >= FIRST:
                raise CannotGoOn(f"stopped: no workspace can be made for {name}: {error}{self.go_on}")
            if self.count == 1:
                self.say(f"{name}: not run, because its workspace cannot be made: {error}")

    def made(self) -> None:
        """Notes that a workspace could be made."""
        self._in_a_row = 0

    def report(self) -> None:
        """Reports, at the end, how many prompts were not run."""
        if self.count > 1:
            self.say(f"{self.count} were not run, because their workspaces could not be made{self.go_on}")


def _shape(reason: str) -> str:
    """Returns a reason without the numbers and ids in it, which differ each time."""
    return re.sub(r"\b(?=\w*\d)[\w-]+", "#", reason)
