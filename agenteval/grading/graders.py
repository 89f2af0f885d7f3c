"""Graders: `-g [NAME=]GRADER` → what to start → a Grader, which takes grader inputs and yields verdicts.

There are two kinds: a process per record (CommandGrader), and long-lived processes that answer line by line
(StreamGrader), as functions in Python or JavaScript do behind a host (python_host.py, javascript_host.mjs). A grader
takes grader inputs as JSON lines and yields, for each, the checked answer or a GraderError. It may be used by many
threads at once.
"""

import os
import re
import shlex
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from glob import glob

import msgspec
from msgspec.structs import replace

from agenteval.errors import USAGE, BadRecord, CannotGoOn, UserError, similar, similar_files
from agenteval.grading.serve import ANNOUNCE_READY, MODEL_VARIABLE
from agenteval.grading.verdict import GraderError, Verdict, error_in, read_answer, stderr_lines, with_stderr
from agenteval.processes.line_process import LineProcess, NoAnswer, TooSlow
from agenteval.processes.process import TERM_GRACE, Command, failure_of, find_program
from agenteval.processes.supervisor import ProcessSupervisor
from agenteval.streams.digests import contents, digest, file_digest, programs_in, tree_digest, with_imports
from agenteval.streams.jsonl import decode
from agenteval.streams.text import first_few
from agenteval.wire.records import GraderAnswer, Record

Trace = Callable[[str], None]

HERE = os.path.dirname(os.path.abspath(__file__))
COMMAND_LINES = os.path.join(os.path.dirname(HERE), "cli", "graders")  # of the suite's own graders
JAVASCRIPT = (".js", ".mjs", ".cjs", ".ts", ".mts")
TYPESCRIPT = (".ts", ".mts")
PREFIX = "ae-grader-"
MAX_ANSWER = 16 << 20  # bytes
END_OF_RECORD = b"\x1e"  # what a host prints on stderr before each answer
TIMEOUT = 60_000.0  # milliseconds per record
LOAD_TIMEOUT = 60.0
SETTLE = 0.01  # seconds to wait for an unexpected second line
AS_PROGRAM = "{0} ({1} is executable and so was run as a program: chmod -x {1} if you mean its function grade)"
GIVE_UP_AFTER = 3  # timeouts of a --stream grader that has never answered
GIVEN_UP = f"gave up after {GIVE_UP_AFTER} timeouts without any answer"
TRIED = 8  # records in a group from which a grader is no longer new
QUICK = 0.002  # seconds per answer below which records are sent in groups


# --- what the user named ------------------------------------------------------------------------


class GraderSpec(msgspec.Struct, frozen=True):
    """A grader as the user named it."""

    name: str
    named: bool  # the user chose the name
    program: str
    argv: list[str]
    streams: bool  # one process for many records
    hosted: bool = False  # a function that one of our hosts loads and calls
    bundled: bool = False  # comes with the suite
    timeout: float = TIMEOUT
    weight: float = 1.0  # in the mean of several scores
    informational: bool = False  # its verdict is recorded but does not count

    @property
    def trusted(self) -> bool:
        """Whether it answers each record with exactly one line."""
        return self.hosted or self.bundled

    @property
    def counting(self) -> Record:
        """The recorded fields that say how its verdict counts; empty if it counts like any other."""
        if self.informational:
            return {"informational": True}
        return {"weight": self.weight} if self.weight != 1 else {}


def named_graders(
    texts: Iterable[str],
    *,
    stream: bool,
    timeout: float = TIMEOUT,
    limits: Sequence[tuple[str | None, float]] = (),
    weights: Sequence[tuple[str, float]] = (),
    informational: Sequence[str] = (),
) -> list[GraderSpec]:
    """Returns the graders named by -g, with the settings of other options; a limit without a name applies to all.

    Raises UserError if one cannot be found, two have the same name, or an option names an unknown one.
    """
    specs = [parse_grader(text, stream=stream) for text in texts]
    names = [spec.name for spec in specs]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise UserError(f'two graders are called "{twice}"; tell them apart with -g NAME=GRADER')
    _refuse_unknown("--weight", [name for name, _ in weights], names)
    _refuse_unknown("--informational", informational, names)
    _refuse_unknown("--grader-timeout", [name for name, _ in limits if name], names)
    if contradiction := next((name for name, _ in weights if name in informational), None):
        raise UserError(
            f"--weight {contradiction}: an informational verdict does not count in the mean; leave out one of the two"
        )
    times, shares = dict(limits), dict(weights)
    default = times.get(None, timeout)
    return [
        replace(
            spec,
            timeout=times.get(spec.name, default),
            weight=shares.get(spec.name, 1.0),
            informational=spec.name in informational,
        )
        for spec in specs
    ]


def _refuse_unknown(option: str, given: Iterable[str], names: list[str]) -> None:
    for name in given:
        if name not in names:
            known = f"the graders are {first_few(names, len(names))}" if names else "give one with -g"
            raise UserError(f"{option} {name}: no grader has that name; {known}")


def parse_grader(text: str, *, stream: bool) -> GraderSpec:
    """Returns the grader that `[NAME=]GRADER` means; raises UserError if there is no such grader.

    Graders of the suite and functions that a host calls are always streamed.
    """
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
    head = words[0]
    stem = os.path.basename(head).removeprefix(PREFIX)
    default = re.sub(r"\.\w+$", "", stem).rpartition(":")[2] or stem
    shown, named = name or default, name is not None
    if head.startswith(PREFIX) and os.path.isfile(os.path.join(COMMAND_LINES, f"{head.removeprefix(PREFIX)}.py")):
        return GraderSpec(shown, named, find_program(head), words, streams=True, bundled=True)
    if host := _host_of(words):
        return GraderSpec(shown, named, host[0], host, streams=True, hosted=True)
    if "/" not in head and os.path.isfile(head):
        head = os.path.join(".", head)  # a file in this directory precedes one on PATH, as with sh grader.sh
    return GraderSpec(shown, named, _program_of(head), words, streams=stream)


def _program_of(head: str) -> str:
    """Returns the path of a grader's program; if there is none, raises UserError with what was probably meant."""
    try:
        return find_program(head)
    except UserError:
        if os.path.isfile(head) or shutil.which(head):
            raise  # it is there, but cannot run
    if os.path.isdir(head):
        raise UserError(f"-g {head}: is a directory; name a file in it")
    own = [PREFIX + name.removesuffix(".py") for name in sorted(os.listdir(COMMAND_LINES)) if name[0].isalpha()]
    here = [name for name in sorted(os.listdir()) if os.path.splitext(name)[0] == head and _may_be_grader(name)]
    close = similar_files(head) if _looks_like_file(head) else here or similar(head, own)[:1]
    if close:
        raise UserError(f"-g {head}: no such grader; did you mean {', '.join(close)}?")
    known = "" if _looks_like_file(head) else f", nor a command on PATH; those of the suite are {', '.join(own)}"
    raise UserError(f"-g {head}: no such file{known}")


def _may_be_grader(path: str) -> bool:
    return os.path.isfile(path) and (path.endswith((".py", *JAVASCRIPT)) or os.access(path, os.X_OK))


def _looks_like_file(head: str) -> bool:
    return "/" in head or re.search(r"\.\w+$", head) is not None


def _host_of(words: list[str]) -> list[str] | None:
    """Returns the command that loads a Python function or a JavaScript module; None if the grader is a program."""
    head = words[0]
    is_file = os.path.isfile(head)
    is_program = os.access(head, os.X_OK)
    if len(words) > 1 and is_file and head.endswith((".py", *JAVASCRIPT)) and not is_program:
        raise UserError(f"-g {head}: a Python or JavaScript grader takes no arguments; make it executable to pass some")
    if is_file and head.endswith(JAVASCRIPT):
        return [_javascript_runtime(head), os.path.join(HERE, "javascript_host.mjs"), os.path.abspath(head)]
    is_function = is_file and head.endswith(".py") and not is_program
    if (found := re.fullmatch(r"(.+)[.]py:(\w+)", head)) and os.path.isfile(f"{found[1]}.py"):
        module = os.path.relpath(found[1]).replace("/", ".")
        meant = f"{found[1]}.py" if found[2] == "grade" else f"{module}:{found[2]}"
        can_import = found[2] == "grade" or all(map(str.isidentifier, module.split(".")))
        advice = f"did you mean {meant}?" if can_import else "the function of a file is called grade"
        raise UserError(f"-g {head}: name either a file or MODULE:FUNCTION; {advice}")
    if is_function or re.match(r"^[\w.]+:\w+$", head):
        reference = os.path.abspath(head) if is_function else head
        return [sys.executable, "-P", os.path.join(HERE, "python_host.py"), reference]
    return None


def _javascript_runtime(path: str) -> str:
    if bun := shutil.which("bun"):
        return os.path.abspath(bun)
    node = shutil.which("node")
    if node and not path.endswith(TYPESCRIPT):
        return os.path.abspath(node)
    wanted = "bun" if path.endswith(TYPESCRIPT) else "bun or node"
    raise UserError(f"{path}: needs {wanted} on PATH; install it")


def grader_digests(specs: Iterable[GraderSpec], *, grade_failed: bool = False) -> dict[str, str]:
    """Returns a digest of each grader by its name: of its command, and of the contents of the files that it names.

    With --grade-failed the digests differ, because records of failed agents get other verdicts.
    """
    how = ["--grade-failed"] if grade_failed else []
    return {spec.name: digest([*_definition(spec), spec.counting, *how]) for spec in specs}


def _definition(spec: GraderSpec) -> list[object]:
    reference = spec.argv[-1]
    if spec.hosted and os.path.isfile(reference):
        return [with_imports(reference, os.path.dirname(reference))]
    if spec.hosted:
        parts = reference.partition(":")[0].split(".")
        paths = [os.path.join(folder, *parts) for folder in [os.curdir, *sys.path]]
        files = [file for path in paths for file in (f"{path}.py", os.path.join(path, "__init__.py"))]
        found = next(filter(os.path.isfile, files), "")
        return [reference, file_digest(found) if os.path.isabs(found) else with_imports(found, os.getcwd())]
    words = spec.argv[1:] if spec.bundled else spec.argv
    lines = [word for word in words if " " in word]  # as in --command "sh check.sh"
    named = contents(words) + contents(name for line in lines for name in programs_in(line))
    return [spec.argv, named, *(_conditions(spec.argv) if spec.bundled else [])]


def _conditions(words: list[str]) -> list[object]:
    """Returns what else a grader of the suite depends on: hidden tests, or the model that a variable names."""
    given = re.search(r"\0--tests[=\0]([^\0]+)", "\0".join(words))
    tests = sorted(glob(re.sub(r"\{[^}]*\}", "*", given[1]))) if given else []
    model = os.environ.get(MODEL_VARIABLE) if words[0].endswith("judge") else None
    return [*((path, tree_digest(path)) for path in tests), *([model] if model else [])]


# --- graders at work ----------------------------------------------------------------------------


class Grader:
    """A grader in use; `trace` takes each line that it prints on stderr."""

    def __init__(self, spec: GraderSpec, processes: ProcessSupervisor, kind: type, trace: Trace | None) -> None:
        self.name, self.spec, self.kind, self.trace = spec.name, spec, kind, trace
        self.processes, self.timeout = processes, spec.timeout
        self.cwd = os.getcwd()

    def verdicts(self, inputs: list[bytes]) -> Iterator[Verdict]:
        """Yields one verdict per grader input, in order, each as soon as it is available."""
        raise NotImplementedError

    def finish(self) -> None:
        """Lets its processes exit after the last record."""

    def trace_stderr(self, printed: bytes) -> None:
        """Passes each line that it printed on stderr to `trace`, if there is one."""
        if self.trace:
            for line in stderr_lines(printed):
                self.trace(f"grader {self.name}: {line}")


def open_graders(
    specs: list[GraderSpec],
    processes: ProcessSupervisor,
    *,
    kind: type = GraderAnswer,
    trace: Trace | None = None,
) -> list[Grader]:
    """Returns graders ready to use; raises UserError if one cannot be loaded, before any record is graded.

    `trace` takes each line that a grader prints on stderr.
    """
    graders: list[Grader] = []
    for spec in specs:
        if not spec.streams:
            graders.append(CommandGrader(spec, processes, kind, trace))
            continue
        grader = StreamGrader(spec, processes, kind, trace)
        if spec.trusted:
            grader.load()
        graders.append(grader)
    return graders


class CommandGrader(Grader):
    """One process per record: grader input on stdin, grader result on stdout."""

    def verdicts(self, inputs: list[bytes]) -> Iterator[Verdict]:
        return map(self._grade, inputs)

    def _grade(self, data: bytes) -> Verdict:
        key = self.processes.new_agent_key()
        command = Command(self.spec.program, self.spec.argv, self.cwd, {}, data)
        outcome = self.processes.run(key, command, timeout=self.timeout / 1000, max_output=MAX_ANSWER)
        if outcome.left_helpers:
            self.processes.terminate_tree(key)
        self.trace_stderr(outcome.stderr)
        problem = failure_of(outcome, self.timeout)
        if self.spec.program.endswith(".py") and (outcome.error or problem is None and not outcome.stdout.strip()):
            reason = AS_PROGRAM.format(problem or "it printed nothing", os.path.basename(self.spec.program))
            return with_stderr(GraderError(reason), outcome.stderr)
        if problem is None:
            return with_stderr(read_answer(outcome.stdout, self.kind), outcome.stderr)
        try:
            error = error_in(decode(outcome.stdout))  # a grader of the suite prints the reason before it exits with 1
        except BadRecord:
            error = None
        return with_stderr(GraderError(error or problem), outcome.stderr)


class StreamGrader(Grader):
    """A grader with a long-lived process for each thread that uses it at the same time."""

    def __init__(self, spec: GraderSpec, processes: ProcessSupervisor, kind: type, trace: Trace | None) -> None:
        super().__init__(spec, processes, kind, trace)
        self.timeouts: int | None = None if spec.trusted else 0  # None: it has answered, or its protocol is ours
        self._idle: list[GraderStream] = []

    def verdicts(self, inputs: list[bytes]) -> Iterator[Verdict]:
        try:
            stream = self._idle.pop()  # the last one used, so that no more are started than are needed
        except IndexError:
            stream = GraderStream(self)
        yield from stream.verdicts(inputs)
        self._idle.append(stream)  # not in a finally: one with unread answers must not be used again

    @property
    def given_up(self) -> bool:
        """Whether it never answered: it may not support --stream, or may not flush its output."""
        return self.timeouts is not None and self.timeouts >= GIVE_UP_AFTER

    def load(self) -> None:
        """Starts one process; raises UserError if it cannot load the grader, or refuses its options."""
        stream = GraderStream(self)
        try:
            stream.process()
        except NoAnswer as error:
            if self.spec.hosted:
                raise CannotGoOn(f"grader {self.name}: {error}") from None
            stream.drop()  # its options are valid, so each record gets the error
        self._idle.append(stream)

    def finish(self) -> None:
        """Lets the processes exit by themselves, because one may have a cache to write."""
        started = [stream.started for stream in self._idle if stream.started]
        for process in started:
            process.end_input()  # of all first, so that they exit at the same time
        deadline = time.monotonic() + TERM_GRACE
        for process in started:
            process.finish(deadline)
        self._idle.clear()


class GraderStream:
    """One long-lived process, restarted when it dies or hangs; the record that it was grading gets an error.

    The suite's own graders are sent a whole batch at once, so that a judge may have several requests in flight.
    If another grader printed more than one line for a record, each later record would get the answer to the previous
    one. Others are therefore sent one record at a time or, if they are quick, groups; a group is sent again one by one
    if there is a line too many.
    """

    def __init__(self, grader: StreamGrader) -> None:
        self.grader, self.spec = grader, grader.spec
        self.started: LineProcess | None = None
        self._group_size = 1

    def verdicts(self, inputs: list[bytes]) -> Iterator[Verdict]:
        """Returns one verdict per grader input, in order."""
        if self.spec.trusted:
            yield from self._exchange(inputs)
            return
        while inputs:
            if self._has_more(0.0):
                self.drop()  # it printed another line after its last answer, which was valid
            group = inputs[: self._group_size]
            began = time.monotonic()
            verdicts = list(self._exchange(group))
            quick = time.monotonic() - began < QUICK * len(group)
            # Only a new grader is given time to print too much; later that would take too long.
            patience = SETTLE if len(group) < TRIED else 0.0
            self._group_size = 2 * len(group) if quick else 1
            if self._has_more(patience):
                self.drop()
                self._group_size = 1
                if len(group) > 1:
                    continue
                verdicts = [GraderError("it printed more than one line for a record")]
            yield from verdicts
            inputs = inputs[len(group) :]

    def process(self) -> LineProcess:
        """Returns its process, started if necessary; raises UserError if it cannot load the grader, or NoAnswer."""
        if self.started is None:
            env = {ANNOUNCE_READY: "1"} if self.spec.bundled else {}
            command = Command(self.spec.program, self.spec.argv, self.grader.cwd, env, b"")
            processes = self.grader.processes
            self.started = LineProcess(processes, processes.new_agent_key(), command, MAX_ANSWER)
            if self.spec.hosted:
                self._await_loaded(self.started)
            elif self.spec.bundled:
                self._await_ready(self.started)
        return self.started

    def _exchange(self, inputs: list[bytes]) -> Iterator[Verdict]:
        while inputs:
            answered = 0
            if self.grader.given_up:
                yield from [GraderError(GIVEN_UP, reported=True)] * len(inputs)
                return
            try:
                process = self.process()
                for answer in process.exchange(inputs, self.grader.timeout / 1000):
                    answered += 1
                    self.grader.timeouts = None
                    verdict = read_answer(answer, self.grader.kind)
                    if self.spec.hosted:  # it may already grade a later record, but its host marks the end of each
                        verdict = with_stderr(verdict, self._take_stderr(END_OF_RECORD))
                    elif isinstance(verdict, GraderError):
                        verdict = with_stderr(verdict, process.last_stderr())
                    yield verdict
                self._take_stderr()
                return
            except (NoAnswer, UserError) as error:
                reason = str(error)
                if isinstance(error, TooSlow) and self.grader.timeouts is not None:
                    self.grader.timeouts += 1
                    reason += f"; {GIVEN_UP}" if self.grader.given_up else ""
                verdict = with_stderr(GraderError(reason), self._take_stderr())
                self.drop()
                yield verdict
            inputs = inputs[answered + 1 :]

    def _take_stderr(self, end: bytes = b"") -> bytes:
        """Returns what the process has printed on stderr, and traces it."""
        printed = self.started.take_stderr(end) if self.started else b""
        self.grader.trace_stderr(printed)
        return printed

    def _has_more(self, patience: float) -> bool:
        return self.started is not None and self.started.has_more(patience)

    def _await_loaded(self, process: LineProcess) -> None:
        try:
            greeting = decode(process.read_line(LOAD_TIMEOUT))
        except (NoAnswer, BadRecord) as error:
            raise UserError(f"grader {self.spec.argv[-1]}: {error}") from None
        if "error" in greeting:
            raise UserError(f"grader {self.spec.argv[-1]}: {greeting['error']}")

    def _await_ready(self, process: LineProcess) -> None:
        """Waits until it has checked its options, so that a wrong one is found before anything is paid."""
        try:
            process.read_line(LOAD_TIMEOUT)
        except NoAnswer:
            if process.exit_code == USAGE:
                refusal = process.last_stderr().decode("utf-8", "replace").strip()
                raise UserError(f"grader {self.spec.name}: {refusal}") from None
            raise

    def drop(self) -> None:
        """Kills the process, if there is one; the next record gets a new one."""
        if self.started is not None:
            self.started.close()
            self.started = None
