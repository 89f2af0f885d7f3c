"""A round: attempts with faults, then the same command with --resume, then everything that was promised is checked."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.chaos import agents, checks
from tests.chaos.attempt import Attempt, attempt
from tests.chaos.faults import FAULTS, Fault
from tests.chaos.plan import Plan
from tests.chaos.processes import of_round
from tests.support.tool import Record, run, write

LARGE_DISK = "64m"
RAY_IS_LATE = "timed out during startup"  # Ray itself gives a node half a minute
RAY_TRIES = 4


class Inconclusive(Exception):
    """The machine is too busy for Ray to start."""


@dataclass
class Round:
    """A round under way: its directory, and what it has shown so far."""

    plan: Plan
    folder: Path
    problems: list[str] = field(default_factory=list)
    attempts: list[Attempt] = field(default_factory=list)
    disturbed: bool = False
    inconclusive: bool = False
    seconds: float = 0.0

    @property
    def mark(self) -> str:
        """Returns the value that marks its processes."""
        return f"{self.plan.seed}-{self.plan.number}-{os.getpid()}"

    @property
    def ordered(self) -> bool:
        """Returns whether its records have to come in order: a prompt that could not be run comes after the others."""
        return self.plan.ordered and not self.disturbed

    def note(self, problems: Iterator[str] | list[str]) -> None:
        """Adds problems, with the attempt that they belong to."""
        self.problems += [f"attempt {len(self.attempts)}: {problem}" for problem in problems]


def run_round(plan: Plan, folder: Path) -> Round:
    """Performs a round in the folder."""
    this = Round(plan, folder)
    _prepare(plan, folder)
    outputs = ["out.jsonl"] if plan.shape != "shards" else ["out.jsonl", "out2.jsonl"]
    with _disk(this):
        try:
            for part, output in enumerate(outputs, 1):
                _run_part(this, output, ["--shard", f"{part}/2"] if len(outputs) > 1 else [])
            if not this.problems:
                this.note(_check_all(this, outputs))
        except AssertionError as error:
            this.note([str(error)])
        except Inconclusive:
            this.inconclusive = True
        finally:
            for pid in of_round(this.mark, folder):  # so that a failed round leaves nothing to the next
                with suppress(ProcessLookupError):
                    os.kill(pid, 9)
    return this


def _prepare(plan: Plan, folder: Path) -> None:
    for name in ("out", "here", "tmp", "home", "files", "files/template"):
        (folder / name).mkdir()
    (folder / "files" / "template" / "note").write_text("from the template\n")
    agents.write_files(folder / "files")
    if plan.tool == "ae-grade":
        write(folder / "input.jsonl", *({**prompt, "output": "an answer"} for prompt in plan.prompts))
    else:
        write(folder / "input.jsonl", *plan.prompts)
    folder.chmod(0o755)  # agents that become another user read their scripts


@contextmanager
def _disk(this: Round) -> Iterator[None]:
    """Makes the directory of the output a small file system of its own, if a fault needs that."""
    sizes = [FAULTS[name].disk for name in this.plan.faults if FAULTS[name].disk]
    if not sizes:
        yield
        return
    out = str(this.folder / "out")
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={LARGE_DISK}", "none", out], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", out], check=True)


def _resize(this: Round, size: object) -> None:
    if os.path.ismount(this.folder / "out"):
        subprocess.run(["mount", "-o", f"remount,size={size}", str(this.folder / "out")], capture_output=True)


# --- attempts -------------------------------------------------------------------------------------


def _run_part(this: Round, output: str, share: list[str]) -> None:
    """Runs one command: with each fault, then without."""
    for name in this.plan.faults:
        _attempt(this, name, output, share)
        if this.problems:
            return
    before = _records(this, output, may_be_cut=True)
    done = _attempt(this, "none", output, share)
    written = _records(this, output, may_be_cut=False)
    if this.plan.tool != "ae-grade":  # which grades again, in their place, those whose graders erred
        written = written[len(before) :]
    this.note(checks.check_code(this.plan, done.code, written))


def _attempt(this: Round, name: str, output: str, share: list[str]) -> Attempt:
    """Runs the command with a fault and checks what it leaves; once more where Ray did not start."""
    for _ in range(RAY_TRIES):
        done = _attempt_once(this, name, output, share)
        if RAY_IS_LATE not in done.stderr or this.problems:
            return done
    raise Inconclusive


def _attempt_once(this: Round, name: str, output: str, share: list[str]) -> Attempt:
    fault, rng = FAULTS[name], this.plan.randomness(f"{output} {len(this.attempts)}")
    for place in ("out", "here", "tmp"):
        (this.folder / place).mkdir(exist_ok=True)
    path = this.folder / "out" / output
    before = path.read_bytes() if path.exists() else b""
    _resize(this, fault.disk or LARGE_DISK)
    this.disturbed = this.disturbed or fault.fails
    command = command_of(this.plan, this.folder, output if fault.stdout == "file" else None, share, fault)
    done = attempt(command, output, fault, this.mark, this.folder, rng)
    this.attempts.append(done)
    late = RAY_IS_LATE in done.stderr
    this.note(checks.check_attempt(done, {*fault.codes, 2} if late else fault.codes, this.mark, this.folder))
    if fault.stdout == "file":
        lost = done.removed_late and not path.exists()
        _check_output(this, path, before, done, fault, complete=done.code == 0 and not (share or lost))
    else:
        records, problems = checks.read_lines(done.printed, may_be_cut=fault.stdout == "closed")
        this.note(problems)
        this.note(
            checks.check_records(
                this.plan, records, complete=fault.stdout == "slow" and not (share or late), ordered=this.ordered
            )
        )
    return done


def command_of(plan: Plan, folder: Path, output: str | None, share: list[str], fault: Fault) -> list[str]:
    """Returns the command line of an attempt."""
    named, after = agents.agent_options(plan.agent, folder / "files")
    source = [] if fault.stdin == "slow" else [str(folder / "input.jsonl")]
    target = ["-o", str(folder / "out" / output), "--resume"] if output else []
    places = {"ws": str(folder / "ws"), "template": str(folder / "files" / "template")}
    options = [*plan.options, *(places.get(word, word) for word in plan.workspaces), *share]
    options += agents.grader_options(plan.graders, folder / "files")
    if plan.tool == "ae-grade":
        named = after = []
    if plan.shape == "ray":
        ordered = [word for word in options if word == "--keep-order"]
        filter_command = [plan.tool, *(word for word in options if word not in ordered), *named, *after]
        return ["ae-ray", *source, "--address", "local", "-j", "2", *ordered, *target, "--", *filter_command]
    return [plan.tool, *source, *options, *target, *named, *after]


def _check_output(this: Round, path: Path, before: bytes, done: Attempt, fault: Fault, *, complete: bool) -> None:
    if done.forged:
        this.note(checks.take_recovered(path, before, done))
    after = path.read_bytes() if path.exists() else b""
    killed = done.code < 0 or done.code > 128
    records, problems = checks.read_lines(after, may_be_cut=killed or fault.fails)
    this.note(problems)
    earlier, _ = checks.read_lines(before, may_be_cut=True)
    erred = [record for record in earlier if this.plan.tool == "ae-grade" and "graderError" in record]
    # Graded again: without time or room to end in order, the file has the old record and the new one.
    at_once = done.code == -signal.SIGKILL or fault is FAULTS["SIGINT twice"] or bool(fault.disk or fault.limit)
    if at_once:
        records = checks.without_replaced(records, erred)
    ordered = this.ordered and not (at_once and erred)
    this.note(checks.check_records(this.plan, records, complete=complete, ordered=ordered))
    whole = before[: before.rfind(b"\n") + 1]
    moved = erred or this.plan.ordered  # a prompt that was not run before comes between others
    if not fault.fails and not (checks.have_all(records, earlier, erred) if moved else after.startswith(whole)):
        this.note(["records that were in the output have been changed"])


def _records(this: Round, output: str, *, may_be_cut: bool) -> list[Record]:
    path = this.folder / "out" / output
    content = path.read_bytes() if path.exists() else b""
    return checks.read_lines(content, may_be_cut=may_be_cut)[0]


# --- the end --------------------------------------------------------------------------------------


def _check_all(this: Round, outputs: list[str]) -> Iterator[str]:
    """Yields what is wrong after the last attempt."""
    plan, out = this.plan, this.folder / "out"
    files = [out / output for output in outputs if (out / output).exists()]
    if len(outputs) > 1:
        merged = run("ae-merge", *files, "--prompts", this.folder / "input.jsonl", cwd=this.folder)
        if merged.code != 0:
            yield f"ae-merge exits {merged.code}: {merged.stderr}"
        content = merged.out
    else:
        content = b"".join(file.read_bytes() for file in files)
    records, problems = checks.read_lines(content, may_be_cut=False)
    yield from problems
    yield from checks.check_records(plan, records, complete=True, ordered=this.ordered)
    yield from checks.check_outcomes(plan, records, disturbed=this.disturbed)
    yield from checks.check_files(plan, this.folder, outputs)


@contextmanager
def round_folder(base: Path, number: int) -> Iterator[Path]:
    """Yields a new directory for a round; it is removed unless it holds a file `keep`."""
    folder = base / str(number)  # short: the paths of sockets have a limit
    folder.mkdir()
    try:
        yield folder
    finally:
        if not (folder / "keep").exists():
            shutil.rmtree(folder, ignore_errors=True)


def keep(this: Round) -> None:
    """Keeps the directory of a failed round."""
    (this.folder / "keep").write_text(json.dumps(this.plan.__dict__, indent=2))


def report(this: Round) -> str:
    """Returns a failed round as text."""
    lines = [f"round {this.plan.number} FAILED: {this.plan.name}"]
    lines += [f"  {problem}" for problem in this.problems]
    for number, done in enumerate(this.attempts, 1):
        lines.append(f"  attempt {number}: exit code {done.code} after {done.seconds:.1f} s: {' '.join(done.command)}")
        lines += [f"    {line}" for line in done.stderr.splitlines()[:8]]
    lines.append(f"  its files: {this.folder}")
    lines.append(f"  again: make chaos SEED={this.plan.seed} ROUND={this.plan.number}")
    return "\n".join(lines)
