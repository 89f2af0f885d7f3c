"""What ae-grader-git checks: the changes in an agent's working directory, and a command that must succeed there.

The directory itself is only read. The command runs in a copy, with hidden tests copied over it, so that it changes
nothing that the user or the next grader looks at.
"""

import os
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple

from msgspec.structs import replace

from agenteval.agents.kinds import TEMPORARY, agent_environment
from agenteval.agents.sandbox import Sandbox, programs_of_line
from agenteval.agents.workspace_changes import changed_files
from agenteval.agents.workspace_git import find_work_tree
from agenteval.agents.workspaces import copy_over, copy_workspace, run_of_workspace
from agenteval.errors import BadRecord
from agenteval.processes.process import STDERR_TAIL, Command, find_program
from agenteval.processes.scratch import remove_tree
from agenteval.processes.supervisor import ProcessSupervisor
from agenteval.streams.files import create_file
from agenteval.streams.jsonl import encode
from agenteval.streams.text import first_few
from agenteval.wire.records import Record

SHOWN = 5  # file names of each kind in the reasoning
CACHES = frozenset(("__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache"))  # left by any run of a test
FIELD = re.compile(r"\{([\w.-]+)\}")  # in the path of --tests


def grade_git(
    record: Record,
    processes: ProcessSupervisor,
    *,
    command: str | None,
    command_timeout: float,
    tests: str | None,
    require: tuple[str, ...],
    allow_unchanged: bool,
    sandbox: Sandbox | None = None,
) -> Record:
    """Passes if something changed, every required file exists and the command succeeds in a copy."""
    try:
        cwd = directory_of(record)
        hidden = tests_of(record, tests) if tests else None
    except BadRecord as error:
        return {"error": str(error)}
    digest = _metadata(record).get("workspaceBaseline")
    try:
        files = changed_files(cwd, digest if isinstance(digest, str) else None, processes.scratch)._asdict()
    except (subprocess.SubprocessError, OSError) as error:
        return {"error": f"cannot tell what changed in {cwd}: {error}"}
    files["created"] = [name for name in files["created"] if not CACHES.intersection(name.split("/"))]
    checks = {"": allow_unchanged or any(files.values())}  # by the message for a failure
    checks |= {f"{name} is missing": os.path.exists(os.path.join(cwd, name)) for name in require}
    outcome: Record = {f"files{kind.capitalize()}": names for kind, names in files.items()}
    if command is not None:
        try:
            problem, code, printed = run_in_copy(record, cwd, command, command_timeout, hidden, processes, sandbox)
        except OSError as error:
            return {"error": f"cannot copy {cwd}: {error}"}
        outcome |= {"command": command, "exitCode": code, "commandPassed": code == 0, "output": printed}
        checks[f"`{command}` {problem}"] = code == 0
    broken = [name for name, holds in checks.items() if not holds]
    seen = "; ".join(f"{kind}: {first_few(names, SHOWN)}" for kind, names in files.items() if names)
    return {
        "pass": not broken,
        "score": (len(checks) - len(broken)) / len(checks),
        "reasoning": "; ".join(filter(None, [*broken, seen or "no file changed"])),
        "outcome": outcome,
    }


def directory_of(record: Record) -> str:
    """Returns the directory that the agent worked in; raises BadRecord if it is gone or belongs to another run."""
    cwd = record.get("cwd")
    if not isinstance(cwd, str | None):
        raise BadRecord('"cwd" must be a string')
    if not cwd:
        raise BadRecord('"cwd" is missing: where the agent worked is unknown')
    if not os.path.isdir(cwd):
        raise BadRecord(f"{cwd} no longer exists, so what the agent did there cannot be graded (see --keep-workspaces)")
    recorded = _metadata(record).get("runId")
    there = run_of_workspace(os.path.abspath(cwd))
    if recorded and there and recorded != there:
        raise BadRecord(
            f"{cwd} belongs to another run ({there}, this record to {recorded}): give each run its own --workspace-dir"
        )
    return cwd


def _metadata(record: Record) -> Record:
    metadata = record.get("metadata")
    return metadata if isinstance(metadata, dict) else {}


def tests_of(record: Record, tests: str) -> str:
    """Returns the directory with the hidden tests of a record; its fields replace {id} and {FIELD} in the path."""

    def value(found: re.Match[str]) -> str:
        place: object = record
        for name in found[1].split("."):
            place = place.get(name) if isinstance(place, dict) else None
        if not isinstance(place, str | int):
            raise BadRecord(f'--tests {tests}: the record has no "{found[1]}"')
        return str(place)

    path = FIELD.sub(value, tests)
    if not os.path.isdir(path):
        raise BadRecord(f"--tests {path}: no such directory")
    return path


class WorkspaceCopy(NamedTuple):
    """A copy of the directory that an agent worked in, and the variables for a command in it."""

    folder: str
    """Where the copy is, with the record."""
    place: str
    """The agent's directory in it."""
    env: dict[str, str]


@contextmanager
def workspace_copy(
    record: Record, cwd: str, tests: str | None, processes: ProcessSupervisor
) -> Iterator[WorkspaceCopy]:
    """Yields a copy of the agent's directory with the tests over it, and removes it.

    Without a workspace, the copy is that of the whole repository that the directory belongs to.
    """
    cwd = os.path.realpath(cwd)
    top = cwd if _metadata(record).get("workspaceDir") else find_work_tree(cwd) or cwd
    folder = processes.scratch.new_directory()
    copy, stored = os.path.join(folder, os.path.basename(top) or "copy"), os.path.join(folder, "record.json")
    if copy == stored:
        copy += "-copy"
    try:
        copy_workspace(top, copy)
        place = os.path.normpath(os.path.join(copy, os.path.relpath(cwd, top)))
        if tests:
            copy_over(tests, place)
        with os.fdopen(create_file(stored), "wb") as file:
            file.write(encode(record) + b"\n")
        yield WorkspaceCopy(folder, place, {"AE_ID": str(record.get("id", "")), "AE_RECORD": stored})
    finally:
        with suppress(OSError):
            remove_tree(folder)


def run_in(
    copy: WorkspaceCopy,
    command: str,
    timeout: float,
    processes: ProcessSupervisor,
    sandbox: Sandbox | None = None,
) -> tuple[str, int | None, str]:
    """Runs a command in a copy, with the record's id in AE_ID and the path of a file with the record in AE_RECORD.

    In a sandbox it sees only the copy. Returns the same as `_run`.
    """
    # It prints to stderr because only the end of stderr is kept, however long it is.
    shell = Command(find_program("sh"), ["sh", "-c", f"exec 1>&2\n{command}"], copy.place, copy.env)
    if sandbox is not None:  # in which the agent's code sees no variables of the user
        home = os.path.join(copy.folder, "home-")
        variables = {**agent_environment((), clean=True).variables, **copy.env}
        os.makedirs(home, exist_ok=True)
        variables.pop(TEMPORARY, None)
        shell = replace(shell, env=variables, alone=True)
        shell = sandbox.showing(programs_of_line(command)).behind(shell, home, [copy.folder], copy.env)
    return _run(shell, timeout, processes)


def run_in_copy(
    record: Record,
    cwd: str,
    command: str,
    timeout: float,
    tests: str | None,
    processes: ProcessSupervisor,
    sandbox: Sandbox | None = None,
) -> tuple[str, int | None, str]:
    """Runs a command in a copy of the agent's directory with the tests over it, and removes the copy."""
    with workspace_copy(record, cwd, tests, processes) as copy:
        return run_in(copy, command, timeout, processes, sandbox)


def _run(shell: Command, timeout: float, processes: ProcessSupervisor) -> tuple[str, int | None, str]:
    """Runs a shell command, then terminates what it left running.

    Returns how it ended, its exit code (negative for a signal, None if it took too long) and the end of its output.
    """
    key = processes.new_agent_key()
    outcome = processes.run(key, shell, timeout=timeout / 1000, max_output=0)
    if outcome.left_helpers:
        processes.terminate_tree(key)
    printed = outcome.stderr
    if len(printed) == STDERR_TAIL:  # the beginning is missing: start at the first whole line
        printed = printed.partition(b"\n")[2] or printed
    code: int | None = None
    if outcome.timed_out:
        how = "took too long"
    elif outcome.signal:
        number = signal.Signals.__members__.get(outcome.signal)  # a real-time signal has no name
        how, code = f"was killed by {outcome.signal}", -number if number else None
    else:
        how, code = outcome.error or f"exited with code {outcome.exit_code}", outcome.exit_code
    return how, code, printed.decode("utf-8", "replace")
