"""ae-grader-git: what changed in the agent's working directory, and does a command pass there?"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import time
from contextlib import suppress
from typing import Any

import click

from agenteval.agents.workspace_changes import changed_files
from agenteval.agents.workspace_git import forget_repository
from agenteval.cli.options import MILLISECONDS, input_argument, output_option
from agenteval.cli.tool import OF_GRADING, tool
from agenteval.grading.serve import answer_all
from agenteval.processes.scratch import Scratch
from agenteval.processes.tree import VARIABLE, mark_of
from agenteval.streams.text import first_few
from agenteval.wire.records import Record

SHOWN = 5  # file names of each kind in the reasoning
KEPT = 8192  # bytes of what the command printed last
POLL = 0.05  # seconds between two looks whether a command that prints nothing has ended


def grade_git(
    record: Record,
    scratch: Scratch,
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
        files = changed_files(cwd, digest if isinstance(digest, str) else None, scratch)._asdict()
    except (subprocess.SubprocessError, OSError) as error:
        return {"error": f"what changed in {cwd}: {error}"}
    checks = {"": allow_unchanged or any(files.values())}  # by the message if it does not hold
    checks |= {f"{name} is missing": os.path.exists(os.path.join(cwd, name)) for name in require}
    outcome: Record = {f"files{kind.capitalize()}": names for kind, names in files.items()}
    if command is not None:
        code, printed = _run(command, cwd, command_timeout / 1000)
        outcome |= {"command": command, "exitCode": code, "commandPassed": code == 0, "output": printed}
        ended = "takes too long" if code is None else f"exits with {code}"
        checks[f"`{command}` {ended}"] = code == 0
    broken = [name for name, holds in checks.items() if not holds]
    seen = "; ".join(f"{kind}: {first_few(names, SHOWN)}" for kind, names in files.items() if names)
    return {
        "pass": not broken,
        "score": (len(checks) - len(broken)) / len(checks),
        "reasoning": "; ".join(filter(None, [*broken, seen or "no file changed"])),
        "outcome": outcome,
    }


def _run(command: str, cwd: str, timeout: float) -> tuple[int | None, str]:
    """Returns the command's exit code, None if it took too long, and the end of what it printed.

    It is killed with its process group then; a process that has left the group and holds the pipe is not waited for.
    """
    environment = dict(os.environ)
    forget_repository(environment)
    environment.setdefault(VARIABLE, str(mark_of(os.getpid(), 0)))  # unless it is that of ae-grade
    deadline = time.monotonic() + timeout
    with subprocess.Popen(
        ["sh", "-c", command],
        cwd=cwd,
        env=environment,
        start_new_session=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    ) as process:
        assert process.stdout is not None
        tail = _Tail(process.stdout.fileno())
        try:
            while process.poll() is None and (left := deadline - time.monotonic()) > 0 and tail.open:
                tail.read(min(POLL, left))
            with suppress(subprocess.TimeoutExpired):
                process.wait(max(0.0, deadline - time.monotonic()))
        finally:
            code = process.returncode
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        while tail.open and tail.read(0):
            pass
    return code, tail.text()


class _Tail:
    """The end of what comes out of a pipe, however much that is."""

    def __init__(self, fd: int) -> None:
        self.fd, self.data = fd, b""
        self.open, self.cut = True, False
        self.poller = select.poll()
        self.poller.register(fd, select.POLLIN)

    def read(self, seconds: float) -> bool:
        """Waits so long at most; returns whether there was something to read."""
        if not self.poller.poll(max(0.0, seconds) * 1000):
            return False
        piece = os.read(self.fd, 1 << 16)
        self.open = bool(piece)
        self.cut |= len(self.data) + len(piece) > KEPT
        self.data = (self.data + piece)[-KEPT:]
        return True

    def text(self) -> str:
        """Returns it as text; where the start is missing, from the first whole line on."""
        data = self.data.partition(b"\n")[2] or self.data if self.cut else self.data
        return data.decode("utf-8", "replace")


@tool("ae-grader-git", exit_status=OF_GRADING)
@input_argument("RECORDS")
@click.option("--command", metavar="SH", help="Shell command that must succeed in cwd, such as the test suite.")
@click.option(
    "--command-timeout",
    type=MILLISECONDS,
    default=50_000,
    help="Limit of the command; one that takes longer does not count as success.",
)
@click.option("--require", multiple=True, metavar="FILE", help="A file that must exist afterwards; repeatable.")
@click.option("--allow-unchanged", is_flag=True, help="Pass also if no file was changed.")
@output_option
def main(path: str | None, output: str | None, debug: bool, **checks: Any) -> int:
    """Grade what an agent did to its working directory, as git sees it.

    Looks at the record's `cwd`: files created, changed and deleted, and whether a command succeeds
    there. A workspace of --workspace-git is compared with what the agent found, of which the suite
    keeps a list outside of it (DIR/.agenteval): whatever the agent commits, resets or ignores counts.
    Any other repository is compared with its last commit. New files that a .gitignore covered at the
    start do not count. Passes if something changed and every check holds; the score is the share of
    checks that hold. The files are in `outcome`, with the command's exit code and the end of its output.

    Examples:
      ae-grade results.jsonl -g ae-grader-git
      ae-grade results.jsonl -g "git=ae-grader-git --command 'make test'"
      ae-grade results.jsonl -g "git=ae-grader-git --require README.md --command 'pytest -q'"
    """
    from agenteval.processes.guardian import guarded_scratch

    with guarded_scratch() as scratch:
        return answer_all(lambda record: grade_git(record, scratch, **checks), path, output)
