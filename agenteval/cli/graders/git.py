"""ae-grader-git: what changed in the agent's working directory, and does a command pass there?"""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import suppress
from typing import Any

from agenteval.agents.workspaces.git import forget_repository
from agenteval.agents.workspaces.git_changes import changed_files
from agenteval.cli.options import MILLISECONDS, input_argument, output_option
from agenteval.cli.startup import click
from agenteval.cli.tool import tool
from agenteval.grading.serve import answer_all
from agenteval.streams.text import first_few
from agenteval.wire.records import Record

SHOWN = 5  # file names of each kind in the reasoning


def grade_git(
    record: Record, *, command: str | None, command_timeout: float, require: tuple[str, ...], allow_unchanged: bool
) -> Record:
    """Passes if something changed, every required file exists and the command succeeds."""
    cwd = record.get("cwd")
    if not isinstance(cwd, str | None):
        return {"error": '"cwd" must be a string'}
    if not cwd or not os.path.isdir(cwd):
        return {"pass": False, "score": 0.0, "reasoning": f"no working directory: {cwd or 'cwd is missing'}"}
    try:
        files = changed_files(cwd)._asdict()
    except (subprocess.SubprocessError, OSError) as error:
        return {"error": f"git status in {cwd}: {_message(error)}"}
    checks = {"changed something": allow_unchanged or any(files.values())}
    checks |= {f"{name} exists": os.path.exists(os.path.join(cwd, name)) for name in require}
    outcome: Record = {f"files{kind.capitalize()}": names for kind, names in files.items()}
    if command is not None:
        code = _exit_code(command, cwd, command_timeout / 1000)
        outcome |= {"command": command, "exitCode": code, "commandPassed": code == 0}
        checks[f"`{command}` passes"] = code == 0
    broken = [name for name, holds in checks.items() if not holds]
    seen = "; ".join(f"{kind}: {first_few(names, SHOWN)}" for kind, names in files.items() if names)
    return {
        "pass": not broken,
        "score": (len(checks) - len(broken)) / len(checks),
        "reasoning": (f"failed: {', '.join(broken)}. " if broken else "") + (seen or "no file changed"),
        "outcome": outcome,
    }


def _exit_code(command: str, cwd: str, timeout: float) -> int | None:
    """Returns the command's exit code; None if it took too long and was killed with its process group."""
    environment = dict(os.environ)
    forget_repository(environment)
    nothing = subprocess.DEVNULL
    with subprocess.Popen(
        ["sh", "-c", command],
        cwd=cwd,
        env=environment,
        start_new_session=True,
        stdin=nothing,
        stdout=nothing,
        stderr=nothing,
    ) as process:
        try:
            return process.wait(timeout)
        except subprocess.TimeoutExpired:
            return None
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def _message(error: Exception) -> str:
    if isinstance(error, subprocess.CalledProcessError):
        return str(error.stderr.decode("utf-8", "replace").strip().partition("\n")[0])
    return str(error)


@tool("ae-grader-git")
@input_argument("RECORDS")
@click.option("--command", metavar="SH", help="Shell command that must succeed in cwd, such as the test suite.")
@click.option("--command-timeout", type=MILLISECONDS, default=50_000, help="A command that takes longer has failed.")
@click.option("--require", multiple=True, metavar="FILE", help="A file that must exist afterwards; repeatable.")
@click.option("--allow-unchanged", is_flag=True, help="Pass also if no file was changed.")
@output_option
def main(path: str | None, output: str | None, debug: bool, **checks: Any) -> int:
    """Grade what an agent did to its working directory, as git sees it.

    Looks at the record's `cwd`: files created, changed and deleted since --workspace-git made its
    commit, or else since the last one, and whether a command succeeds there. New files that the
    .gitignore of that commit covers do not count. Passes if something changed and every check
    holds; the score is the share of checks that hold. The files are in `outcome`.

    Examples:
      ae-grade results.jsonl -g ae-grader-git
      ae-grade results.jsonl -g "git=ae-grader-git --command 'make test'"
      ae-grade results.jsonl -g "git=ae-grader-git --require README.md --command 'pytest -q'"
    """
    return answer_all(lambda record: grade_git(record, **checks), path, output)
