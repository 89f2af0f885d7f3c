"""What ae-run does with each prompt: run it and write what its agent printed. ae-capture and ae-trials: graded_runs.py.

ae-ray calls it with `remote`, and agents run on other machines.
"""

from agenteval.agents.run import PromptRun, RemoteAgents
from agenteval.agents.run_settings import RunSettings
from agenteval.streams.console import Ending
from agenteval.streams.source import Source
from agenteval.wire.records import Record


def run_prompts(source: Source, settings: RunSettings, remote: RemoteAgents | None = None) -> int:
    """Runs the prompts and writes their raw records; returns the exit code."""
    run = PromptRun("ae-run", source, settings, validate=validate_checks, remote=remote)

    def run_prompt(prompt: Record) -> list[Record]:
        raw, _graded = run.earlier(prompt)
        if raw is None:
            raw = run.raw(prompt)
            if raw is None:
                return []
        run.remove_workspace(prompt, failed=bool(raw.get("errors")))
        return [raw]

    def emit(raw: Record) -> None:
        run.write(raw)
        ending = Ending.AGENT_FAILED if raw.get("errors") else None
        run.report(raw["id"], raw.get("errors"), ending, started=run.was_started(raw["id"]))

    return run(iter(run.prompts), run_prompt, emit, hold=lambda raw: run.save(raw, raw))


def validate_checks(prompt: Record) -> None:
    """Raises BadRecord if the checks of a prompt are wrong, before any agent is started."""
    if prompt.get("checks") is not None:
        from agenteval.grading.prompt_checks import parsed_checks  # few prompts carry checks

        parsed_checks(prompt)
