"""ae-run: prompts → raw: run each prompt through an agent and keep what it printed."""

from typing import Any

from agenteval.agents.run_settings import RunSettings
from agenteval.cli.agent_options import agent_options
from agenteval.cli.agent_runs import run_prompts
from agenteval.cli.options import input_argument
from agenteval.cli.tool import tool
from agenteval.streams.source import Source


@tool("ae-run")
@input_argument("PROMPTS")
@agent_options
def main(path: str | None, **options: Any) -> int:
    """Run each prompt through an agent and write its raw output as JSONL.

    PROMPTS is a JSONL file (or stdin) with {"id": "a", "input": "…"} on each line; a list as input holds the turns of
    one session. Name the agent with exactly one of -s, --simple, --shell and -- CMD. CMD is a program that speaks the
    Agent Client Protocol on stdin and stdout; it may read and write files in its working directory, and is granted
    every permission it asks for.

    Examples:
      ae-run prompts.jsonl -s claude -j 4 --workspace-dir ws -o raw.jsonl
      ae-run prompts.jsonl -s claude -j 4 --workspace-dir ws -o raw.jsonl --resume
      ae-run prompts.jsonl --simple "echo {}" | ae-extract -s text
      ae-run prompts.jsonl -j 2 --workspace-dir ws -- ae-headless -s claude | ae-extract -s acp
      jq -c 'select(.metadata.category == "ui")' prompts.jsonl | ae-run --shell 'my-agent "$PROMPT"'

    An agent that fails, crashes or times out is data: its record has `errors` and the exit code stays 0 (see -e). Its
    whole process tree is terminated when it exits, when it times out, and when this tool ends.

    Agents run with your permissions, and the bundled adapters turn off their confirmation prompts: give each its own
    directory (--workspace-dir), and confine them with --sandbox.
    """
    return run_prompts(Source(path), RunSettings(**options))
