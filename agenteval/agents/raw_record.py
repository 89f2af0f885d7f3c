"""The fields of a raw record, put together while the turns of its prompt end."""

import os
import time
from typing import Any

from msgspec.structs import replace

from agenteval.agents.acp.client import Client
from agenteval.processes.process import STDERR_TAIL, Outcome, printed_lines
from agenteval.streams.redaction import Redactor
from agenteval.wire.records import Record


class RawRecordBuilder:
    """Collects what the turns of one prompt printed and how they ended."""

    size = 0
    stderr = b""
    session_creation: int | None = None
    first_response: int | None = None
    last: Outcome | None = None
    left_helpers = False
    no_session = False  # whether the agent failed before it opened one, as if it had not started
    session_log: Record | None = None  # what the agent's own log says about tokens and model
    redacted = False  # whether `lines` differ from what was printed

    def __init__(self, redact: Redactor) -> None:
        self.redact = redact
        self.epoch, self.zero = time.time(), time.monotonic()
        self.lines: list[str] = []
        self.times: list[int] = []
        self.turns: list[Record] = []
        self.errors: list[str] = []
        self.permissions: list[Record] = []
        self.turn_start = self.zero

    def without_secrets(self, outcome: Outcome) -> Outcome:
        """Returns the outcome with its stderr redacted, so that no message made from it has a secret."""
        if not outcome.stderr:
            return outcome
        return replace(outcome, stderr=self.redact.cut(outcome.stderr.decode("utf-8", "replace")).encode())

    def add_turn(self, outcome: Outcome) -> tuple[list[str], list[int]]:
        """Adds a turn that was one process; returns the lines it printed, not redacted, and their times."""
        lines = self._add_output(outcome)
        if self.session_creation is None and outcome.started is not None:
            self.session_creation = self._ms(outcome.started)
        self._end_turn(len(lines), time.monotonic(), outcome)
        return lines, self.times[len(self.times) - len(lines) :]

    def add_conversation(self, outcome: Outcome, client: Client) -> None:
        """Adds all turns of one process; the last one, answered or cut short, ended with the process."""
        left = len(self._add_output(outcome))
        if client.session_began is not None:
            self.session_creation = self._ms(client.session_began)
        if client.first_update is not None:
            self.first_response = self._ms(client.first_update)
        before = 0
        for lines, moment in client.ends[: client.turn - 1]:
            self._end_turn(lines - before, moment)
            left -= lines - before
            before = lines
        self.permissions, self.no_session = client.permissions, client.no_session
        self._end_turn(left, client.ended or time.monotonic(), outcome)

    def _add_output(self, outcome: Outcome) -> list[str]:
        lines = printed_lines(outcome)
        redacted = self.redact.lines(lines)
        if lines and (outcome.timed_out or outcome.too_much):
            redacted = [*redacted[:-1], self.redact.cut(redacted[-1])]
        self.lines += redacted
        self.redacted = self.redacted or redacted != lines
        for number, moment in outcome.arrivals:
            self.times += [self._ms(moment)] * number
        self.size += len(outcome.stdout)
        if outcome.stderr:
            self.stderr = (self.stderr + outcome.stderr)[-STDERR_TAIL:]
        if outcome.left_helpers:
            self.left_helpers = True
        self.last = replace(outcome, stdout=b"")  # it is in `lines`, and may be large
        return lines

    def _end_turn(self, lines: int, now: float, outcome: Outcome | None = None) -> None:
        """Adds a turn and how its process ended; None: the process went on."""
        self.turns.append(
            {
                "lines": lines,
                "exitCode": outcome.exit_code if outcome else None,
                "signal": outcome.signal if outcome else None,
                "timedOut": outcome.timed_out if outcome else False,
                "total": round((now - self.turn_start) * 1000),
            }
        )
        self.turn_start = now

    def fail(self, turn: int, turns: int, problem: str) -> None:
        """Adds an error, with the number of its turn if there are several."""
        self.errors.append(f"turn {turn} of {turns}: {problem}" if turns > 1 else problem)

    def fields(self, cwd: str) -> Record:
        """Returns the raw record's own fields, in the order of the contract."""
        total = self._ms(self.turn_start if self.turns else time.monotonic())  # not the time to end what it left
        start = round(self.epoch * 1000)
        timing: dict[str, Any] = {"start": start, "end": start + total, "total": total}
        if self.session_creation is not None:
            timing["sessionCreation"] = self.session_creation
        first = self.first_response if self.first_response is not None else next(iter(self.times), None)
        if first is not None:
            timing["firstResponse"] = first
        fields: Record = {"rawLines": self.lines, "lineTimes": self.times, "turns": self.turns}
        if self.permissions:
            fields["permissions"] = self.permissions
        if self.session_log:
            fields["sessionLog"] = self.session_log
        if self.stderr:
            fields["stderr"] = self.stderr.decode("utf-8", "replace")
        last = self.last
        fields |= {
            "cwd": os.fsencode(cwd).decode("utf-8", "replace"),  # a directory's name may be any bytes
            "timing": timing,
            "exitCode": last.exit_code if last else None,
            "signal": last.signal if last else None,
            "timedOut": last.timed_out if last else False,
        }
        if self.errors:
            fields["errors"] = list(map(self.redact, self.errors))
        return fields

    def _ms(self, moment: float) -> int:
        return round((moment - self.zero) * 1000)
