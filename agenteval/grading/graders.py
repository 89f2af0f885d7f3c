"""The two kinds of graders: a process per record, and a long-lived process that answers line by line.

A grader takes grader inputs as JSON lines and returns, for each, the checked answer or a GraderError. It may be used by
many threads at once.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from typing import Protocol

from agenteval.errors import USAGE, BadRecord, UserError
from agenteval.grading.spec import GraderSpec
from agenteval.grading.verdict import GraderError, Verdict, error_in, read_answer
from agenteval.processes.line_process import LineProcess, NoAnswer
from agenteval.processes.outcome import failure_of
from agenteval.processes.process import Command
from agenteval.processes.supervisor import ProcessSupervisor
from agenteval.streams.jsonl import decode
from agenteval.wire.records import GraderResult

MAX_ANSWER = 16 << 20  # bytes
LOAD_TIMEOUT = 60.0
SETTLE = 0.01  # seconds to wait for an unexpected second line
TRIED = 8  # records in a group from which on a grader is no longer new
QUICK = 0.002  # seconds per answer below which records are sent in groups


class Grader(Protocol):
    """Something that grades."""

    name: str

    def verdicts(self, inputs: list[bytes]) -> Iterator[Verdict]:
        """Returns one verdict per grader input, in order, each as soon as it is there."""
        ...

    def finish(self) -> None:
        """Lets its processes exit: nothing more is to be graded."""
        ...


def open_graders(
    specs: list[GraderSpec], processes: ProcessSupervisor, *, timeout: float, kind: type = GraderResult
) -> list[Grader]:
    """Returns graders ready to use; raises UserError now if one cannot be loaded, so that it fails no record."""
    graders: list[Grader] = []
    for spec in specs:
        if not spec.streams:
            graders.append(CommandGrader(spec, processes, timeout, kind))
            continue
        grader = StreamGrader(spec, processes, timeout, kind)
        if spec.hosted:
            grader.load()
        elif spec.bundled:
            _check_options(spec, processes)
        graders.append(grader)
    return graders


def _check_options(spec: GraderSpec, processes: ProcessSupervisor) -> None:
    """Starts a bundled grader on no input: it finds a wrong option or a missing key before anything is paid for."""
    command = Command(spec.program, spec.argv, os.getcwd(), {}, b"")
    outcome = processes.run(processes.new_agent_key(), command, timeout=LOAD_TIMEOUT, max_output=MAX_ANSWER)
    if outcome.exit_code == USAGE:
        raise UserError(f"grader {spec.name}: {outcome.stderr.decode('utf-8', 'replace').strip()}")


class CommandGrader:
    """One process per record: grader input on stdin, grader result on stdout."""

    def __init__(self, spec: GraderSpec, processes: ProcessSupervisor, timeout: float, kind: type) -> None:
        self.name, self.spec, self.kind = spec.name, spec, kind
        self.processes, self.timeout = processes, timeout
        self.cwd = os.getcwd()

    def verdicts(self, inputs: list[bytes]) -> Iterator[Verdict]:
        return map(self._verdict, inputs)

    def _verdict(self, data: bytes) -> Verdict:
        key = self.processes.new_agent_key()
        command = Command(self.spec.program, self.spec.argv, self.cwd, {}, data)
        outcome = self.processes.run(key, command, timeout=self.timeout / 1000, max_output=MAX_ANSWER)
        if outcome.left_helpers:
            self.processes.terminate_tree(key)
        problem = failure_of(outcome, self.timeout)
        if problem is None:
            return read_answer(outcome.stdout, self.kind)
        try:
            error = error_in(decode(outcome.stdout))  # a grader of the suite prints why it exits with 1
        except BadRecord:
            error = None
        return GraderError(error or problem)

    def finish(self) -> None:
        """Does nothing: no process outlives its record."""


class StreamGrader:
    """As many long-lived processes as there are threads that grade at the same time."""

    def __init__(self, spec: GraderSpec, processes: ProcessSupervisor, timeout: float, kind: type) -> None:
        self.name, self.spec, self.kind = spec.name, spec, kind
        self.processes, self.timeout = processes, timeout
        self.cwd = os.getcwd()
        self._idle: list[GraderStream] = []

    def verdicts(self, inputs: list[bytes]) -> Iterator[Verdict]:
        try:
            stream = self._idle.pop()  # the last one used: no more are started than are needed
        except IndexError:
            stream = GraderStream(self)
        yield from stream.verdicts(inputs)
        self._idle.append(stream)  # only now: one whose answers were not all taken is not used again

    def load(self) -> None:
        """Starts one process; raises UserError if it cannot load the grader."""
        stream = GraderStream(self)
        stream.process()
        self._idle.append(stream)

    def finish(self) -> None:
        """Lets the processes exit by themselves: one may have a cache to write."""
        for stream in self._idle:
            stream.finish()
        self._idle.clear()


class GraderStream:
    """One long-lived process, started anew when it dies or hangs, which costs the record it was at.

    The suite's own graders are sent a whole batch at once, so that a judge may have several requests in flight.
    If another printed more than one line for a record, each later record would get the answer to the one before.
    Others are therefore sent one record at a time or, if they are quick, groups; a group is sent again one by one if
    there is a line too many.
    """

    def __init__(self, grader: StreamGrader) -> None:
        self.grader, self.spec = grader, grader.spec
        self._process: LineProcess | None = None
        self._group_size = 1

    def verdicts(self, inputs: list[bytes]) -> Iterator[Verdict]:
        """Returns one verdict per grader input, in order."""
        if self.spec.trusted:
            yield from self._exchange(inputs)
            return
        while inputs:
            if self._has_more(0.0):
                self._drop()  # it printed a line after its last answer, which was right
            group = inputs[: self._group_size]
            began = time.monotonic()
            verdicts = list(self._exchange(group))
            quick = time.monotonic() - began < QUICK * len(group)
            # While it is new, it is given time to print too much; later that would take too long.
            patience = SETTLE if len(group) < TRIED else 0.0
            self._group_size = 2 * len(group) if quick else 1
            if self._has_more(patience):
                self._drop()
                self._group_size = 1
                if len(group) > 1:
                    continue
                verdicts = [GraderError("it printed more than one line for a record")]
            yield from verdicts
            inputs = inputs[len(group) :]

    def process(self) -> LineProcess:
        """Returns its process, started if need be; raises UserError if that cannot load the grader."""
        if self._process is None:
            command = Command(self.spec.program, self.spec.argv, self.grader.cwd, {}, b"")
            processes = self.grader.processes
            self._process = LineProcess(processes, processes.new_agent_key(), command, MAX_ANSWER)
            if self.spec.hosted:
                self._await_loaded(self._process)
        return self._process

    def finish(self) -> None:
        """Lets the process exit by itself."""
        if self._process is not None:
            self._process.finish()

    def _exchange(self, inputs: list[bytes]) -> Iterator[Verdict]:
        while inputs:
            answered = 0
            try:
                for answer in self.process().exchange(inputs, self.grader.timeout / 1000):
                    answered += 1
                    yield read_answer(answer, self.grader.kind)
                return
            except (NoAnswer, UserError) as error:
                self._drop()
                yield GraderError(str(error))
            inputs = inputs[answered + 1 :]

    def _has_more(self, patience: float) -> bool:
        return self._process is not None and self._process.has_more(patience)

    def _await_loaded(self, process: LineProcess) -> None:
        try:
            greeting = decode(process.read_line(LOAD_TIMEOUT))
        except (NoAnswer, BadRecord) as error:
            raise UserError(f"grader {self.spec.argv[-1]}: {error}") from None
        if "error" in greeting:
            raise UserError(f"grader {self.spec.argv[-1]}: {greeting['error']}")

    def _drop(self) -> None:
        if self._process is not None:
            self._process.close()
            self._process = None
