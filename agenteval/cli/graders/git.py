"""ae-grader-git: what changed in the agent's working directory, and does a command pass there?"""

import os
from typing import Any

import click

from agenteval.agents.workspace_git import forget_repository
from agenteval.cli.options import MILLISECONDS, input_argument, output_option
from agenteval.cli.sandbox_options import sandbox_of_graders, sandbox_options
from agenteval.cli.tool import OF_GRADING, tool
from agenteval.errors import UserError
from agenteval.grading.serve import answer_all
from agenteval.grading.workspace import FIELD, grade_git
from agenteval.processes.supervisor import ProcessSupervisor


@tool("ae-grader-git", exit_status=OF_GRADING)
@input_argument("RECORDS")
@click.option(
    "--command",
    metavar="SH",
    help="Shell command that must succeed in a copy of the directory, such as the test suite.",
)
@click.option(
    "--command-timeout",
    type=MILLISECONDS,
    default=50_000,
    help="Time limit for the command; one that takes longer does not succeed. A bare number is ms.",
)
@click.option(
    "--tests",
    metavar="DIR",
    help="Hidden tests to add to the copy before the command runs; {id} and {FIELD} are replaced from the record.",
)
@click.option("--require", multiple=True, metavar="FILE", help="A file that must exist afterwards; repeatable.")
@click.option("--allow-unchanged", is_flag=True, help="Also pass if no file was changed.")
@sandbox_options("commands", net="none")
@output_option
def main(
    path: str | None,
    command: str | None,
    tests: str | None,
    sandbox: str | None,
    sandbox_net: str | None,
    sandbox_image: str | None,
    sandbox_read: tuple[str, ...],
    output: str | None,
    debug: bool,
    **checks: Any,
) -> int:
    """Grade what an agent did to its working directory, as git sees it.

    Looks at the record's `cwd`: files created, changed and deleted. A workspace made with --workspace-git is compared
    with what the agent found there, which the suite records outside of it (DIR/.agenteval), so whatever the agent
    commits, resets or ignores still counts. Any other repository is compared with its last commit. New files that a
    .gitignore covered at the start do not count, nor do __pycache__ and the like. A record passes if something
    changed and every check passes; the score is the share of checks that pass. `outcome` lists the files, with the
    command's exit code and the end of its output.

    --command runs in a copy of the directory, which is removed afterwards, so neither the evidence nor what the next
    grader sees is changed. AE_ID holds the record's id, AE_RECORD the path of a file with the record. The command may
    run code that the agent wrote: with --sandbox it sees only that copy, the system and its own program. A directory
    that is gone, or that a later run has reused, cannot be judged: that is a grader error.

    Examples:
      ae-grade results.jsonl -g ae-grader-git
      ae-grade results.jsonl -g "ae-grader-git --sandbox --command 'make test'"
      ae-grade results.jsonl -g "git=ae-grader-git --command 'make test'"
      ae-grade results.jsonl -g "git=ae-grader-git --require README.md --command 'pytest -q'"
      ae-grade results.jsonl -g "hidden=ae-grader-git --tests tests/{id} --command 'pytest -q tests'"
    """
    if tests is not None and command is None:
        raise UserError("--tests needs --command, to run the tests")
    if tests is not None and not FIELD.search(tests) and not os.path.isdir(tests):
        raise UserError(f"--tests {tests}: no such directory")
    if sandbox is not None and command is None:
        raise UserError("--sandbox needs --command, to run in the sandbox")
    wall = sandbox_of_graders(sandbox, sandbox_net, sandbox_image, sandbox_read)
    forget_repository(os.environ)  # if we run in one of its hooks
    processes = ProcessSupervisor()
    try:
        return answer_all(
            lambda record: grade_git(record, processes, command=command, tests=tests, sandbox=wall, **checks),
            path,
            output,
        )
    finally:
        processes.close()
