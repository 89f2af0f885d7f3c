"""--dry-run: what would be started for each prompt, as JSONL or, on a terminal, for people."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from agenteval.agents.dry_run import planned_start, start_lines
from agenteval.cli.resume import describe_resumption
from agenteval.errors import FAILED, OK
from agenteval.streams.guard import write_record
from agenteval.streams.output import Output
from agenteval.streams.text import visible
from agenteval.wire.records import Record

if TYPE_CHECKING:
    from agenteval.cli.prompt_run import PromptRun


def print_starts(run: PromptRun, items: Iterator[Any]) -> int:
    """Prints the start of each agent to stdout, even with -o; returns the exit code.

    An item is a prompt, or a prompt and the numbers of its trials.
    """
    if line := describe_resumption(run.output, run.prompts.total, retry_failed=run.settings.retry_failed):
        run.console.say(line)
    stdout, redact = Output(), run.conditions.redact
    for item in items:
        prompt, trials = item if isinstance(item, tuple) else (item, [None])
        for trial in trials:
            if run.unfinished(prompt, trial or 1)[0] is not None:
                continue  # an agent has answered it in an earlier run
            directory = _directory(run, prompt, trial)
            start = planned_start(prompt, run.agent, directory, run.conditions.environment, run.settings.timeout, trial)
            start["command"] = redact.value(start["command"])
            if stdout.isatty():
                stdout.write_bytes("".join(f"{visible(line)}\n" for line in start_lines(start)).encode())
            else:
                write_record(stdout, start, run.console)
    return FAILED if run.console.refused else OK


def _directory(run: PromptRun, prompt: Record, trial: int | None) -> str:
    """Returns where the agent would work; a workspace is not made."""
    if run.settings.workspace_dir is None:
        return run.cwd
    from agenteval.agents.workspaces import Markers, workspace_name

    base = os.path.abspath(run.settings.workspace_dir)
    return os.path.join(base, workspace_name(prompt["id"], trial, ignores_case=Markers(base).ignores_case()))
