"""ae-capture: prompts → results: run, extract and optionally grade, in one process."""

import shlex
from typing import Any

import click

from agenteval.agents.run_settings import RunSettings
from agenteval.cli.agent_options import (
    agent_options,
    extraction_option,
    inline_grader_options,
    stop_options,
)
from agenteval.cli.graded_runs import capture_prompts
from agenteval.cli.options import input_argument, keep_raw_option, max_steps_option
from agenteval.cli.tool import tool
from agenteval.errors import UserError
from agenteval.streams.jsonl import encode
from agenteval.streams.source import Source
from agenteval.streams.spool import file_with


@tool("ae-capture")
@input_argument("PROMPTS")
@click.option("-p", "--prompt", metavar="TEXT", help="Run this one prompt instead of a file of prompts.")
@inline_grader_options
@extraction_option
@max_steps_option
@keep_raw_option
@stop_options
@agent_options
def main(path: str | None, prompt: str | None, keep_raw: bool, **options: Any) -> int:
    """Run each prompt through an agent and write its result: output, trajectory, times, tokens and score.

    Writes the same records as ae-run | ae-extract | ae-grade, from one process. PROMPTS is a JSONL file (or stdin)
    with {"id": "a", "input": "…"} on each line; a list as input holds the turns of one session. Name the agent with
    exactly one of -s, --simple, --shell and -- CMD. Agents run with your permissions: give each its own directory
    (--workspace-dir), and confine them with --sandbox.

    Examples:
      ae-capture -p "What is 6 * 7?" -s claude | ae-show
      ae-capture prompts.jsonl -s claude -j 4 --workspace-dir ws -o results.jsonl
      ae-capture prompts.jsonl -s claude -j 4 --workspace-dir ws -g ./grader.py -o results.jsonl --resume
      ae-capture prompts.jsonl --simple "echo {}" -g ae-grader-hint | ae-format -f table
      ae-capture prompts.jsonl -s claude -g ./grader.py --against baseline.jsonl --stop-when-known -o new.jsonl
      ae-capture prompts.jsonl --workspace-dir ws -g ae-grader-git -- ae-headless -s claude

    With -o FILE an answer is kept in FILE.unfinished until it has been graded and written; --resume reads both files,
    so no agent that has answered is run again.

    With --stop-when-known the prompts run in random order, and no more are started once it is known whether the run
    passes more or less often than --against FILE on the same prompts, or than --threshold. The test allows for a look
    after every prompt: at most 5% of runs that do not differ are stopped. With --margin a run also ends once it is
    known to be worse by at most that much. ae-compare --fail-if-worse judges a stopped run by the rule that stopped
    it.

    An agent that fails is data: its record has `errors`, does not pass (see --grade-failed), and the exit
    code stays 0 (see -e). A grader error affects only its record, which then has no `score` but a `graderError` with
    the reason; the exit code is 1.
    """
    if prompt == "{}" and path is not None and options["simple"]:
        command = shlex.quote(f"{options['simple']} -p {{}}")
        raise UserError(f"-p {{}}: put quotes around the command of --simple: --simple {command}")
    if prompt is not None and path is not None:
        raise UserError(f"-p and {path} cannot be used together: give one prompt, or a file of prompts")
    given = None if prompt is None else file_with(encode({"id": "prompt", "input": prompt}) + b"\n")
    return capture_prompts(Source(path, opened=given), RunSettings(**options), keep_raw=keep_raw)
