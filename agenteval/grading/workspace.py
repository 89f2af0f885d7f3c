"""What ae-grader-git checks: the changes in an agent's working directory, and a command that has to succeed there."""

from __future__ import annotations

import os
import signal
import subprocess

from agenteval.agents.workspace_changes import changed_files
from agenteval.processes.process import STDERR_TAIL, Command, find_program
from agenteval.processes.supervisor import ProcessSupervisor
from agenteval.streams.text import first_few
from agenteval.wire.records import Record

SHOWN = 5  # file names of each kind in the reasoning


def grade_git(
    record: Record,
    processes: ProcessSupervisor,
    *,
    command: str | None,
    command_timeout: float,
    require: tuple[str, ...],
    allow_unchanged: bool,
) -> Record:
    """Passes if something changed, every required file exists and the command succeeds."""
    cwd = record.get("cwd")
    if not isinstance(cwd, str | None):
        return {"error": '"cwd" must be a string'}
    if not cwd or not os.path.isdir(cwd):
        return {"pass": False, "score": 0.0, "reasoning": f"no working directory: {cwd or 'cwd is missing'}"}
    metadata = record.get("metadata")
    digest = metadata.get("workspaceBaseline") if isinstance(metadata, dict) else None
    try:
        files = changed_files(cwd, digest if isinstance(digest, str) else None, processes.scratch)._asdict()
    except (subprocess.SubprocessError, OSError) as error:
        return {"error": f"what changed in {cwd}: {error}"}
    checks = {"": allow_unchanged or any(files.values())}  # by the message if it does not hold
    checks |= {f"{name} is missing": os.path.exists(os.path.join(cwd, name)) for name in require}
    outcome: Record = {f"files{kind.capitalize()}": names for kind, names in files.items()}
    if command is not None:
        problem, code, printed = _run(command, cwd, command_timeout, processes)
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


def _run(command: str, cwd: str, timeout: float, processes: ProcessSupervisor) -> tuple[str, int | None, str]:
    """Runs a shell command to its end, then ends what it left running.

    Returns how it ended, its exit code (negative: a signal; None: it took too long) and the end of what it printed.
    """
    key = processes.new_agent_key()
    # It prints to stderr: of that only the end is kept, however much it is.
    shell = Command(find_program("sh"), ["sh", "-c", f"exec 1>&2\n{command}"], cwd, {})
    outcome = processes.run(key, shell, timeout=timeout / 1000, max_output=0)
    if outcome.left_helpers:
        processes.terminate_tree(key)
    printed = outcome.stderr
    if len(printed) == STDERR_TAIL:  # the beginning is missing: from the first whole line on
        printed = printed.partition(b"\n")[2] or printed
    code: int | None = None
    if outcome.timed_out:
        how = "takes too long"
    elif outcome.signal:
        number = signal.Signals.__members__.get(outcome.signal)  # a real-time signal has no name
        how, code = f"was killed by {outcome.signal}", -number if number else None
    else:
        how, code = outcome.error or f"exits with {outcome.exit_code}", outcome.exit_code
    return how, code, printed.decode("utf-8", "replace")
