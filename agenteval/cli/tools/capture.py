"""ae-capture: prompts → results: run, extract and, with graders, grade in one process."""

from __future__ import annotations

from typing import Any

from agenteval.adapters.extract import result_of
from agenteval.cli.agent_options import (
    AgentSettings,
    GraderSettings,
    agent_options,
    extraction_adapter,
    extraction_option,
    inline_grader_options,
)
from agenteval.cli.options import input_argument, keep_raw_option
from agenteval.cli.prompt_run import PromptRun
from agenteval.cli.tool import tool
from agenteval.processes.loop import Job
from agenteval.wire.records import Record


@tool("ae-capture")
@input_argument("PROMPTS")
@inline_grader_options
@extraction_option
@keep_raw_option
@agent_options
def main(
    path: str | None,
    grader: tuple[str, ...],
    stream: bool,
    grader_timeout: float,
    extract: str | None,
    keep_raw: bool,
    **options: Any,
) -> int:
    """Run each prompt through an agent and write its result: output, trajectory, times, tokens and score.

    The same records as ae-run | ae-extract | ae-grade give, from one process. PROMPTS is a JSONL file
    (or stdin): {"id": "a", "input": "…"} per line; a list as input gives the turns of one session.
    Name the agent with one of -s, --simple, --shell and -- CMD.

    Examples:
      ae-capture prompts.jsonl -s claude -j 4 -o results.jsonl
      ae-capture prompts.jsonl -s claude -j 4 -g ./grader.py -o results.jsonl --resume
      ae-capture prompts.jsonl --simple "echo {}" -g ae-grader-hint | ae-format -f table
      ae-capture prompts.jsonl --workspace-dir ws -g ae-grader-git -- ae-headless -s claude

    With -o FILE an answer is kept in FILE.unfinished until it is graded and written; --resume reads both,
    so that no agent that has answered is run again.

    An agent that fails is data: its record has `errors` and the exit code stays 0 (see -e). A grader
    that fails costs its record only: `graderError` is true there, and the exit code is 1.
    """
    run = PromptRun("ae-capture", path, AgentSettings(**options), GraderSettings(grader, stream, grader_timeout))
    adapter = extraction_adapter(run.agent, extract)

    def capture(prompt: Record) -> Job[Record | None]:
        result, graded = run.kept(prompt)
        if result is None:
            raw = yield from run.attempt(prompt)
            if raw is None:
                return None
            result = result_of(raw, adapter, keep_raw=keep_raw)
            if run.grading is not None:
                run.keep(prompt, result)
        if run.grading is not None and not graded:
            result = yield from run.grading.job(result)
        if result is not None:
            passed = run.grading is None or result["score"]["pass"]
            yield from run.settle(prompt, failed=bool(result.get("errors")) or not passed)
        return result

    def emit(result: Record) -> None:
        run.write(result)
        passed = result["score"]["pass"] if run.grading else True
        run.report(result["id"], result.get("errors"), passed=passed, grader_error=bool(result.get("graderError")))

    def hold(result: Record) -> None:
        run.keep(result, result, graded=run.grading is not None)

    return run(lambda prompt: [capture(prompt)], emit, hold=hold)
