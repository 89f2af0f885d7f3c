"""One grader, whatever it is: an executable, a stream, Python or JavaScript.

All kinds come down to two: a process per record, and a long-lived process that answers line by line. A
grader takes grader inputs as JSON lines and gives, for each, the checked answer or a Failure.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
import time
from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol

from agenteval.errors import USAGE, BadRecord, UserError
from agenteval.processes.line_process import LineProcess, NoAnswer
from agenteval.processes.loop import EndTree, Job, RunProcess
from agenteval.processes.outcome import Outcome, failure_of
from agenteval.processes.process import Command
from agenteval.processes.programs import find_program, on_path
from agenteval.processes.supervisor import ProcessSupervisor
from agenteval.streams.jsonl import decode, encode
from agenteval.wire.records import GRADER_FIELDS, GraderResult, Record
from agenteval.wire.validation import check

HOSTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "hosts")
MAX_ANSWER = 16 << 20
LOAD_TIMEOUT = 60.0
SETTLE = 0.01  # seconds in which a line too many comes, if it comes
TRIED = 8  # records in a group from which on a grader is no longer new
QUICK = 0.002  # seconds for an answer: below it, the way to the grader and back is worth sharing
JAVASCRIPT = (".js", ".mjs", ".cjs", ".ts", ".mts")
TYPESCRIPT = (".ts", ".mts")
BUNDLED = re.compile(r"^ae-grader-[a-z]+$")
NOT_FOR_GRADERS = ("score", "scores", "outcome", "graderError", "rawLines", "lineTimes", "turns")


class Failure(NamedTuple):
    """A grader that could not grade a record, and why."""

    reason: str


Verdict = Record | Failure


class Grader(Protocol):
    """Something that grades."""

    name: str
    streams: bool

    def verdicts(self, worker: int, inputs: list[bytes]) -> Iterator[Verdict]:
        """One verdict per grader input, in order, each as soon as it is there."""
        ...

    def finish(self) -> None:
        """Nothing more is to be graded."""
        ...


class GraderSpec(NamedTuple):
    """A grader as the user named it."""

    name: str
    named: bool
    program: str
    argv: list[str]
    streams: bool
    hosted: bool
    trusted: bool  # answers with one line per record for sure


# --- what the user named ------------------------------------------------------------------------


def parse_grader(text: str, *, stream: bool = False) -> GraderSpec:
    """The grader that `[NAME=]GRADER` means; UserError when there is no such thing."""
    found = re.match(r"^([A-Za-z][\w-]*)=(.+)$", text, re.DOTALL)
    name, reference = (found[1], found[2]) if found else (None, text)
    if os.path.isfile(reference):
        words = [reference]
    else:
        try:
            words = shlex.split(reference)
        except ValueError as error:
            raise UserError(f"-g {text}: {error}") from None
    if not words:
        raise UserError("-g: name a grader")
    program, argv, streams, hosted = _resolve(words, stream)
    trusted = hosted or BUNDLED.match(words[0]) is not None
    stem = os.path.basename(words[0]).removeprefix("ae-grader-")
    default = re.sub(r"\.\w+$", "", stem).rpartition(":")[2] or stem
    return GraderSpec(name or default, name is not None, program, argv, streams, hosted, trusted)


def _resolve(words: list[str], stream: bool) -> tuple[str, list[str], bool, bool]:
    """Program, arguments, whether it streams, whether it is one of our hosts."""
    head = words[0]
    if len(words) > 1 and os.path.isfile(head) and head.endswith((".py", *JAVASCRIPT)) and not os.access(head, os.X_OK):
        raise UserError(f"-g {head}: a grader that is loaded takes no arguments; make it executable to give it some")
    if head.endswith(JAVASCRIPT) and os.path.isfile(head):
        runtime = _javascript_runtime(head)
        return runtime, [runtime, os.path.join(HOSTS, "javascript.mjs"), os.path.abspath(head)], True, True
    if head.endswith(".py") and os.path.isfile(head) and not os.access(head, os.X_OK):
        return sys.executable, _python_host(os.path.abspath(head)), True, True
    if re.match(r"^[\w.]+:\w+$", head):
        return sys.executable, _python_host(head), True, True
    if BUNDLED.match(head):
        return find_program(head), words, True, False
    if "/" not in head and os.path.isfile(head):
        head = os.path.join(".", head)  # a file named without a slash is meant, as with sh grader.sh
    return find_program(head), words, stream, False


def _python_host(reference: str) -> list[str]:
    return [sys.executable, "-P", os.path.join(HOSTS, "python.py"), reference]


def _javascript_runtime(path: str) -> str:
    if bun := on_path("bun"):
        return os.path.abspath(bun)
    node = on_path("node")
    if node and not path.endswith(TYPESCRIPT):
        return os.path.abspath(node)
    wanted = "bun" if path.endswith(TYPESCRIPT) else "bun or node"
    raise UserError(f"{path}: needs {wanted}, and none is on PATH")


def open_graders(
    specs: list[GraderSpec], processes: ProcessSupervisor, *, timeout: float, kind: type = GraderResult
) -> list[Grader]:
    """Graders ready to use; one whose code cannot be loaded is a UserError now, not a failure per record."""
    graders: list[Grader] = []
    for spec in specs:
        if not spec.streams:
            graders.append(CommandGrader(spec, processes, timeout, kind))
            continue
        grader = StreamGrader(spec, processes, timeout, kind)
        if spec.hosted:
            grader.process(0)
        elif spec.trusted:
            _try_out(spec, processes)
        graders.append(grader)
    return graders


def _try_out(spec: GraderSpec, processes: ProcessSupervisor) -> None:
    """Ask a grader of the suite nothing: a wrong option or a missing key is known before anything is paid for."""
    command = Command(spec.program, spec.argv, os.getcwd(), {}, b"")
    outcome = processes.run(processes.new_agent_key(), command, timeout=LOAD_TIMEOUT, max_output=MAX_ANSWER)
    if outcome.exit_code == USAGE:
        raise UserError(f"grader {spec.name}: {outcome.stderr.decode('utf-8', 'replace').strip()}")


# --- the two kinds ------------------------------------------------------------------------------


class CommandGrader:
    """One process per record: grader input on stdin, grader result on stdout."""

    streams = False

    def __init__(self, spec: GraderSpec, processes: ProcessSupervisor, timeout: float, kind: type) -> None:
        self.name, self.spec, self.kind = spec.name, spec, kind
        self.processes, self.timeout = processes, timeout
        self.cwd = os.getcwd()

    def verdicts(self, worker: int, inputs: list[bytes]) -> Iterator[Verdict]:
        for data in inputs:
            key = self.processes.new_agent_key()
            outcome = self.processes.run(key, self._command(data), timeout=self.timeout / 1000, max_output=MAX_ANSWER)
            if outcome.left_helpers:
                self.processes.terminate_tree(key)
            yield self._verdict(outcome)

    def job(self, data: bytes) -> Job[Verdict]:
        """The same for one grader input, as a job of a loop."""
        key = self.processes.new_agent_key()
        outcome = yield RunProcess(key, self._command(data), self.timeout / 1000, MAX_ANSWER)
        if outcome.left_helpers:
            yield EndTree(key)
        return self._verdict(outcome)

    def _command(self, data: bytes) -> Command:
        return Command(self.spec.program, self.spec.argv, self.cwd, {}, data)

    def _verdict(self, outcome: Outcome) -> Verdict:
        problem = failure_of(outcome, self.timeout)
        if problem is None:
            return read_answer(outcome.stdout, self.kind)
        try:
            told = error_in(decode(outcome.stdout))  # a grader of the suite says why it exits with 1
        except BadRecord:
            told = None
        return Failure(told or problem)

    def finish(self) -> None:
        """A process per record leaves nothing behind."""


class StreamGrader:
    """One long-lived process per worker; one that dies or hangs costs the record it was at.

    The suite's own graders are handed a whole batch at once, so that a judge may have several requests in flight.
    From others a record could get the answer to another, if one printed more than a line for a record: they are
    asked one by one or, when they are quick, in groups that are given up and asked anew when a line is too many.
    """

    streams = True

    def __init__(self, spec: GraderSpec, processes: ProcessSupervisor, timeout: float, kind: type) -> None:
        self.name, self.spec, self.kind = spec.name, spec, kind
        self.processes, self.timeout = processes, timeout
        self.cwd = os.getcwd()
        self.running: dict[int, LineProcess] = {}
        self.group: dict[int, int] = {}

    def verdicts(self, worker: int, inputs: list[bytes]) -> Iterator[Verdict]:
        if self.spec.trusted:
            yield from self._as_they_come(worker, inputs)
            return
        while inputs:
            if self._said_too_much(worker, 0.0):
                self._drop(worker)  # it said something since its last answer, which was right: start afresh
            group = inputs[: self.group.get(worker, 1)]
            began = time.monotonic()
            verdicts = list(self._as_they_come(worker, group))
            quick = time.monotonic() - began < QUICK * len(group)
            # While it is new, it is given time to show that it says too much; later that would take too long.
            patience = SETTLE if len(group) < TRIED else 0.0
            self.group[worker] = 2 * len(group) if quick else 1
            if self._said_too_much(worker, patience):
                self._drop(worker)
                self.group[worker] = 1
                if len(group) > 1:
                    continue
                verdicts = [Failure("it printed more than one line for a record")]
            yield from verdicts
            inputs = inputs[len(group) :]

    def _as_they_come(self, worker: int, inputs: list[bytes]) -> Iterator[Verdict]:
        while inputs:
            answered = 0
            try:
                for answer in self.process(worker).exchange(inputs, self.timeout / 1000):
                    answered += 1
                    yield read_answer(answer, self.kind)
                return
            except (NoAnswer, UserError) as error:
                self._drop(worker)
                yield Failure(str(error))
            inputs = inputs[answered + 1 :]

    def _said_too_much(self, worker: int, patience: float) -> bool:
        process = self.running.get(worker)
        return process is not None and process.has_more(patience)

    def process(self, worker: int) -> LineProcess:
        """The worker's process, started if need be; UserError when a hosted grader cannot be loaded."""
        process = self.running.get(worker)
        if process is None:
            command = Command(self.spec.program, self.spec.argv, self.cwd, {}, b"")
            process = LineProcess(self.processes, self.processes.new_agent_key(), command)
            self.running[worker] = process
            if self.spec.hosted:
                self._await_ready(process)
        return process

    def finish(self) -> None:
        """Let the processes end by themselves: one may have a cache to write."""
        for process in self.running.values():
            process.finish()
        self.running.clear()

    def _await_ready(self, process: LineProcess) -> None:
        try:
            greeting = decode(process.greeting(LOAD_TIMEOUT))
        except (NoAnswer, BadRecord) as error:
            raise UserError(f"grader {self.spec.argv[-1]}: {error}") from None
        if "error" in greeting:
            raise UserError(f"grader {self.spec.argv[-1]}: {greeting['error']}")

    def _drop(self, worker: int) -> None:
        process = self.running.pop(worker, None)
        if process is not None:
            process.close()


# --- answers ------------------------------------------------------------------------------------


def read_answer(answer: bytes, kind: type) -> Verdict:
    """A grader's answer, checked; anything but a proper result is a Failure."""
    if not answer.strip():
        return Failure("it printed nothing")
    try:
        result = decode(answer)
    except BadRecord as error:
        shown = " ".join(answer[:100].decode("utf-8", "replace").split())
        return Failure(f"its answer is {error}: {shown}")
    if told := error_in(result):
        return Failure(told)
    try:
        check(result, kind)
    except BadRecord as error:
        return Failure(f"its answer is no grader result: {error}")
    return result  # type: ignore[no-any-return]


def error_in(answer: Any) -> str | None:
    """What an answer of the form `{"error": …}` says; None when it is no such answer."""
    error = answer.get("error") if isinstance(answer, dict) and "pass" not in answer else None
    return error if isinstance(error, str) else None


def grader_input(record: Record) -> bytes:
    """What a grader gets to see of a record."""
    known = {field: record[field] for field in GRADER_FIELDS if field in record}
    rest = {field: value for field, value in record.items() if field not in known and field not in NOT_FOR_GRADERS}
    return encode(known | rest)


def with_verdicts(record: Record, verdicts: dict[str, Verdict], *, keep_each: bool) -> Record:
    """The record with `score`, and with `scores` where graders are told apart by name."""
    results = {name: _as_result(verdict) for name, verdict in verdicts.items()}
    graded = {field: value for field, value in record.items() if field not in ("graderError", "outcome")}
    if keep_each:
        results = {**(record.get("scores") or {}), **results}
        graded["scores"] = results
    graded["score"] = combine(list(results.values()))
    if "outcome" in graded["score"]:
        graded["outcome"] = graded["score"]["outcome"]
    if any(result.get("graderError") for result in results.values()):
        graded["graderError"] = True
    return graded


def _as_result(verdict: Verdict) -> Record:
    if isinstance(verdict, Failure):
        return {"pass": False, "score": 0.0, "reasoning": f"grader error: {verdict.reason}", "graderError": True}
    return verdict


def combine(results: list[Record]) -> Record:
    """One score of several: pass is all, score the mean; a single one stays as it is."""
    if len(results) == 1:
        return {field: value for field, value in results[0].items() if field != "graderError"}
    reasons = [result["reasoning"] for result in results if not result["pass"] and result.get("reasoning")]
    combined: Record = {
        "pass": all(result["pass"] for result in results),
        "score": sum(result["score"] for result in results) / len(results),
    }
    return combined | ({"reasoning": "; ".join(reasons)} if reasons else {})
