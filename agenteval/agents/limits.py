"""What stops a run before all its prompts are done: agents that fail, workspaces that cannot be made, and the budget.

A run whose first agents all fail in the same way is stopped: a missing key or a wrong option fails every prompt alike.
The budget (--max-cost, --max-total-tokens) counts what the agents themselves report; if they report tokens and no cost,
it is estimated by list prices. It is that of the whole run: what is in the output already counts, too.
"""

import re
import threading
from collections.abc import Callable

from agenteval.errors import CannotGoOn, StrictStop, WorkspaceError
from agenteval.models.tokens import estimated_cost
from agenteval.streams.text import counted
from agenteval.wire.records import Record

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
        shape = re.sub(r"\b(?=\w*\d)[\w-]+", "#", reason)  # without numbers and ids, which differ each time
        if shape in self._reasons or len(self._reasons) < MOST_REASONS:
            count, first = self._reasons.get(shape, (0, reason))
            self._reasons[shape] = count + 1, first
        if self.limit is not None and self.failed >= self.limit:
            go_on = "; run it again with --resume to continue" if self.resumable else ""
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
            raise StrictStop(f"stopped: {alike}; fix that and {again}, or continue anyway with --keep-going")

    def report(self) -> None:
        """Reports, at the end, how many agents failed, and the most common reason."""
        if not self.failed:
            return
        count, reason = max(self._reasons.values(), key=lambda kind: kind[0])
        which = ", the first" if count == 1 else f", {count} of them in the same way"
        which = "" if count == self.failed else which
        self.say(f"{self.failed} of {self.ended} agents failed{which}: {reason}")

    def _describe(self, errors: list[str]) -> str:
        reason = re.sub(r"^turn \d+ of \d+: ", "", "; ".join(errors))
        return (f"{self.agent} {reason}" if reason.startswith(VERBS) else reason)[:REASON_LENGTH]


class MissingWorkspaces:
    """Counts the prompts that are not run and not recorded, because their workspace cannot be made."""

    def __init__(self, say: Callable[[str], None], *, resumable: bool) -> None:
        self.say = say
        self.go_on = "; run it again with --resume to continue" if resumable else ""
        self.count = 0
        self._in_a_row = 0
        self._lock = threading.Lock()

    def add(self, name: str, error: WorkspaceError) -> None:
        """Reports it; raises CannotGoOn if the disk is full or several in a row could not be made."""
        with self._lock:
            self.count += 1
            self._in_a_row += 1
            if error.full or self._in_a_row >= FIRST:
                raise CannotGoOn(f"stopped: cannot create a workspace for {name}: {error}{self.go_on}")
            self.say(f"{name}: not run, because its workspace cannot be created: {error}")

    def made(self) -> None:
        """Notes that a workspace could be made."""
        self._in_a_row = 0

    def report(self) -> None:
        """Reports, at the end, how many prompts were not run."""
        if self.count > 1:
            self.say(f"{self.count} were not run, because their workspaces could not be created{self.go_on}")


class Budget:
    """Counts what agents use; `say` takes a line for the user."""

    def __init__(self, max_cost: float | None, max_tokens: int | None, say: Callable[[str], None]) -> None:
        self.max_cost, self.max_tokens, self.say = max_cost, max_tokens, say
        self.limited = max_cost is not None or max_tokens is not None
        self.cost = 0.0
        self.tokens = self.answers = self.estimated = self.unknown = self.not_run = 0
        self._lock = threading.Lock()

    def add(self, answer: Record, model: object) -> None:
        """Counts the usage of an answer, of a result or of one trial, and of the tries before it (--retries)."""
        self._add(answer.get("timing") or {}, model)
        if retried := answer.get("retriedUsage"):
            self._add(retried, model)

    def _add(self, timing: Record, model: object) -> None:
        used = [timing.get(name) or 0 for name in ("inputTokens", "outputTokens", "cachedTokens")]
        known = "inputTokens" in timing or "outputTokens" in timing
        cost, estimated = timing.get("costUsd"), False
        if cost is None and known and isinstance(model, str):
            cost, estimated = estimated_cost(model, *used), True
        with self._lock:
            self.answers += 1
            self.tokens += round(used[0] + used[1])
            self.cost += cost or 0.0
            self.estimated += estimated and cost is not None
            if (cost is None and self.max_cost is not None) or (not known and self.max_tokens is not None):
                self.unknown += 1
                if self.unknown == 1:
                    self.say(f"an agent did not report what it used, so {self._option()} cannot count it")

    def refuses(self) -> bool:
        """Returns whether the limit is reached, and counts a prompt that is not run because of that."""
        with self._lock:
            over_cost = self.max_cost is not None and self.cost >= self.max_cost
            reached = over_cost or (self.max_tokens is not None and self.tokens >= self.max_tokens)
            self.not_run += reached
            return reached

    def _option(self) -> str:
        of_tokens = self.max_tokens is not None and (self.max_cost is None or self.tokens >= self.max_tokens)
        return "--max-total-tokens" if of_tokens else "--max-cost"

    def report(self, what: str, *, resumable: bool) -> None:
        """Reports at the end that agents were not started; `what` is what they would have been started for."""
        if not self.not_run:
            return
        if self._option() == "--max-cost":
            used = f"{self.cost:.4f} of {self.max_cost:g} USD spent"
            if self.estimated:
                used += f" (estimated at list prices for {self.estimated:,} of {counted(self.answers, 'answer')})"
        else:
            used = f"{self.tokens:,} of {self.max_tokens:,} tokens used"
        go_on = "; to continue, use --resume with a larger limit" if resumable else ""
        self.say(f"{self._option()}: {used}; {counted(self.not_run, what)} not run{go_on}")
