"""ae-grader-git: what changed in the agent's working directory, and does a command pass there?"""

from __future__ import annotations

import os
import signal
import subprocess

from agenteval.agents.workspaces.git import forget_repository
from agenteval.agents.workspaces.git_changes import changed_files
from agenteval.cli.options import MILLISECONDS, input_argument, output_option
from agenteval.cli.startup import click
from agenteval.cli.tool import tool
from agenteval.grading.serve import answer_all
from agenteval.wire.records import Record

SHOWN = 5


def grade_git(
    record: Record, *, command: str | None, command_timeout: float, require: tuple[str, ...], allow_none: bool
) -> Record:
    """Pass when something changed, every required file exists, and the command (a test suite) succeeds."""
    cwd = record.get("cwd")
    if not isinstance(cwd, str | None):
        return {"error": '"cwd" must be a string'}
    if not cwd or not os.path.isdir(cwd):
        return {"pass": False, "score": 0.0, "reasoning": f"no working directory to look at: {cwd or 'cwd is missing'}"}
    try:
        files = changed_files(cwd)._asdict()
    except (subprocess.SubprocessError, OSError) as error:
        return {"error": f"git status in {cwd}: {_why(error)}"}
    checks = {"changed something": allow_none or any(files.values())}
    checks |= {f"{name} exists": os.path.exists(os.path.join(cwd, name)) for name in require}
    outcome: Record = {**{f"files{kind.capitalize()}": names for kind, names in files.items()}}
    if command is not None:
        code = _run(command, cwd, command_timeout)
        outcome |= {"command": command, "exitCode": code, "commandPassed": code == 0}
        checks[f"`{command}` passes"] = code == 0
    failed = [name for name, passed in checks.items() if not passed]
    seen = "; ".join(f"{kind}: {_shorten(names)}" for kind, names in files.items() if names) or "no file changed"
    verdict = f"failed: {', '.join(failed)}. " if failed else ""
    score = (len(checks) - len(failed)) / len(checks)
    return {"pass": not failed, "score": score, "reasoning": verdict + seen, "outcome": outcome}


def _run(command: str, cwd: str, timeout: float) -> int | None:
    """The command's exit code; None when it took too long and was killed with all it started."""
    nothing = subprocess.DEVNULL
    environment = dict(os.environ)
    forget_repository(environment)
    process = subprocess.Popen(
        ["sh", "-c", command],
        cwd=cwd,
        env=environment,
        start_new_session=True,
        stdin=nothing,
        stdout=nothing,
        stderr=nothing,
    )
    try:
        return process.wait(timeout)
    except subprocess.TimeoutExpired:
        return None
    finally:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()


def _why(error: Exception) -> str:
    if isinstance(error, subprocess.CalledProcessError):
        return str(error.stderr.decode("utf-8", "replace").strip().partition("\n")[0])
    return str(error)


def _shorten(names: list[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more


@tool("ae-grader-git")
@input_argument("RECORDS")
@click.option("--command", metavar="SH", help="A shell line that must succeed in cwd, such as the test suite.")
@click.option(
    "--command-timeout",
    type=MILLISECONDS,
    default=50_000,
    show_default=True,
    help="A command that takes longer has failed.",
)
@click.option("--require", multiple=True, metavar="FILE", help="A file that must exist afterwards; repeatable.")
@click.option("--allow-unchanged", is_flag=True, help="Pass also when no file was changed.")
@output_option
def main(
    path: str | None,
    command: str | None,
    command_timeout: float,
    require: tuple[str, ...],
    allow_unchanged: bool,
    output: str | None,
    debug: bool,
) -> int:
    """Grade what an agent did to its working directory, as git sees it.

    Looks at the record's `cwd`: files created, changed and deleted since --workspace-git made its
    commit, or else since the last one, and whether a command succeeds there. New files that the
    .gitignore of that commit covers do not count. Passes when something changed and every check
    holds; the score is the share of checks that hold. The files are in `outcome`.

    Examples:
      ae-grade results.jsonl -g ae-grader-git
      ae-grade results.jsonl -g "git=ae-grader-git --command 'make test'"
      ae-grade results.jsonl -g "git=ae-grader-git --require README.md --command 'pytest -q'"
    """
    return answer_all(
        lambda record: grade_git(
            record,
            command=command,
            command_timeout=command_timeout / 1000,
            require=require,
            allow_none=allow_unchanged,
        ),
        path,
        output,
    )
