"""What the options of a run come to: the conditions of its agents, its graders, its journal."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from agenteval.agents.environment import agent_environment
from agenteval.agents.journal import Journal, StoredRaw, StoredResult
from agenteval.agents.kinds import AcpAgent, Agent, SchemaAgent, TemplateAgent
from agenteval.agents.rate_limit import RateLimiter
from agenteval.agents.session import Conditions, Limits
from agenteval.agents.warm_up import WarmUp
from agenteval.cli.agent_options import AgentSettings
from agenteval.errors import UserError
from agenteval.streams.output import Output
from agenteval.streams.redaction import Redactor

SHOWN = 3  # lines of the journal that are reported one by one

if TYPE_CHECKING:
    from agenteval.agents.workspaces import Workspaces
    from agenteval.grading.graders import GraderSpec
    from agenteval.processes.supervisor import ProcessSupervisor


def conditions_of(settings: AgentSettings, agent: Agent) -> Conditions:
    """Returns what the options say of every prompt; the agent's schema may have variables of its own."""
    if settings.workspace_dir is not None:
        from agenteval.agents.workspace_git import forget_repository

        forget_repository(os.environ)  # an agent in a directory of its own must not work on our repository
    environment = agent_environment(settings.env, clean=settings.clean_env)
    own = agent.config.env or {} if isinstance(agent, SchemaAgent) else {}
    secrets = {} if settings.no_redact else {**os.environ, **environment.with_own(own)}
    return Conditions(
        pacer=RateLimiter(settings.rate),
        limits=Limits(settings.timeout, settings.max_output, settings.retries, settings.retry_on),
        environment=environment,
        warm_up=WarmUp(_wants_warm_up(settings, agent)),
        redact=Redactor(secrets),
    )


def _wants_warm_up(settings: AgentSettings, agent: Agent) -> bool:
    """Returns what the user says or, if nothing, the agent's schema."""
    own = isinstance(agent, SchemaAgent) and agent.config.warm_up
    return own if settings.warm_up is None else settings.warm_up


def specs_of(settings: AgentSettings) -> list[GraderSpec]:
    """Returns the graders that the options name."""
    from agenteval.grading.graders import named_graders

    return named_graders(settings.grader, stream=settings.stream)


def program_of(agent: Agent) -> str:
    """Returns what to call an agent in a message."""
    if isinstance(agent, SchemaAgent):
        return agent.config.name
    return os.path.basename(agent.program) if isinstance(agent, (AcpAgent, TemplateAgent)) else "the agent"


def journal_beside(
    tool: str, settings: AgentSettings, output: Output, done: set[str], *, resume: bool
) -> Journal | None:
    """Returns a journal if the output is a file: a pipe or a device cannot be resumed, nor synced."""
    path = settings.output
    if path is None or path == "-" or (os.path.exists(path) and not os.path.isfile(path)):
        return None
    output.durable = not settings.no_sync
    folder = os.path.dirname(os.path.abspath(path))
    if os.path.isdir(folder) and not os.access(folder, os.W_OK):
        return None  # the output may be writable all the same; then there is no journal
    kind = StoredRaw if tool == "ae-run" else StoredResult
    journal = Journal(path, resume=resume, done=done, written=output.written.ids, tool=tool, kind=kind)
    journal.durable, journal.sync_output = output.durable, output.sync if output.durable else lambda: None
    return journal


def skipped_lines(journal: Journal) -> list[str]:
    """Returns what to say about lines of the journal that are of no use: the first of them, and how many there are."""
    left = len(journal.skipped) - SHOWN
    return [*journal.skipped[:SHOWN], *([f"{journal.name}: {left} more lines skipped"] if left > 0 else [])]


def workspace_option(settings: AgentSettings) -> str | None:
    """Returns an option that the user gave and that only makes sense for workspaces."""
    given = {
        "--workspace-template": settings.workspace_template,
        "--workspace-git": settings.workspace_git,
        "--fresh-workspaces": settings.fresh_workspaces,
        "--keep-workspaces": settings.keep_workspaces != "all",
    }
    return next((option for option, value in given.items() if value), None)


def open_workspaces(
    settings: AgentSettings, processes: ProcessSupervisor, say: Callable[[str], None]
) -> Workspaces | None:
    """Returns the workspaces that the options ask for; warns if they are inside a repository."""
    if settings.workspace_dir is None:
        return None
    from agenteval.agents.workspaces import Workspaces

    workspaces = Workspaces(
        settings.workspace_dir,
        settings.workspace_template,
        processes,
        git=settings.workspace_git,
        fresh=settings.fresh_workspaces,
        report=say,
    )
    if repository := workspaces.repository_around():
        say(
            f"{settings.workspace_dir} is inside the git repository {repository}, where some agents "
            "then work; --workspace-git makes each workspace its own"
        )
    return workspaces


def directory_of(path: str | None) -> str:
    """Returns the absolute path of --cwd, else of the current directory; UserError if there is none."""
    if path is not None and not os.path.isdir(path):
        raise UserError(f"--cwd {path}: no such directory")
    return os.path.abspath(path or os.curdir)
