"""ae-grader-git: what changed in the agent's working directory, and does a command pass there?"""

from __future__ import annotations

import os
from typing import Any

import click

from agenteval.agents.workspace_git import forget_repository
from agenteval.cli.options import MILLISECONDS, input_argument, output_option
from agenteval.cli.tool import OF_GRADING, tool
from agenteval.grading.serve import answer_all
from agenteval.grading.workspace import grade_git
from agenteval.processes.supervisor import ProcessSupervisor


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
    forget_repository(os.environ)  # of a hook that we may run in
    processes = ProcessSupervisor()
    try:
        return answer_all(lambda record: grade_git(record, processes, **checks), path, output)
    finally:
        processes.close()
