"""--max-cost and --max-total-tokens: what the agents of a run have used, and when no further one may start.

The figures are the agents' own; if an agent reports tokens and no cost, the cost is estimated by list prices. The limit
is that of the whole run: what is in the output already counts, too.
"""

import threading
from collections.abc import Callable

from agenteval.models.prices import estimated_cost
from agenteval.streams.text import counted
from agenteval.wire.records import Record


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
                    self.say(f"an agent has not reported what it used, which {self._option()} therefore cannot count")

    def refuses(self) -> bool:
        """Returns whether the limit is reached, and counts a prompt that is not run because of that."""
        with self._lock:
            reached = self._reached()
            self.not_run += reached
            return reached

    def _reached(self) -> bool:
        over_cost = self.max_cost is not None and self.cost >= self.max_cost
        return over_cost or (self.max_tokens is not None and self.tokens >= self.max_tokens)

    def _option(self) -> str:
        of_tokens = self.max_tokens is not None and (self.max_cost is None or self.tokens >= self.max_tokens)
        return "--max-total-tokens" if of_tokens else "--max-cost"

    def report(self, what: str, *, resumable: bool) -> None:
        """Reports at the end that agents were not started; `what` is what they would have been started for."""
        if not self.not_run:
            return
        if self._option() == "--max-cost":
            used = f"{self.cost:.4f} of {self.max_cost:g} USD are spent"
            if self.estimated:
                used += f" (estimated by list prices for {self.estimated:,} of {counted(self.answers, 'answer')})"
        else:
            used = f"{self.tokens:,} of {self.max_tokens:,} tokens are used"
        go_on = "; a larger limit and --resume go on" if resumable else ""
        self.say(f"{self._option()}: {used}; {counted(self.not_run, what)} not run{go_on}")
