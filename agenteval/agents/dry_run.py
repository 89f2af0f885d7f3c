"""--dry-run: what would be started for a prompt, made by the code that starts agents (kinds.py, session.py)."""

import shlex
from collections.abc import Iterator

from msgspec import structs

from agenteval.agents.kinds import AcpAgent, Agent, first_invocation
from agenteval.agents.session import Conditions, turn_timeout, turns_of
from agenteval.processes.process import ANSWER_FILE
from agenteval.processes.supervisor import environment_of
from agenteval.streams.jsonl import encode
from agenteval.wire.records import Record


def planned_start(
    prompt: Record, agent: Agent, cwd: str, conditions: Conditions, trial: int | None = None, home: str | None = None
) -> Record:
    """Returns the start of an agent for the first turn of a prompt, without secrets; `home` is that of its session.

    `stdin` is false if it is closed, the number of bytes of a prompt, or true for a conversation.
    """
    texts = turns_of(prompt)
    temporary = "TMPDIR" if conditions.environment.needs_temporary(agent.env) else None  # its name is not known yet
    additions, env, unset = conditions.surroundings.planned(cwd, home) if conditions.surroundings else ([], {}, ())
    invocation = first_invocation(agent, texts, cwd, additions)
    invocation = structs.replace(invocation, env={**invocation.env, **env})
    command = conditions.environment.command(invocation, cwd, temporary, frozenset(unset))
    command = conditions.behind_wall(command, invocation, home or "HOME", filter(None, [temporary]))
    stdin: bool | int = False if command.stdin is None else len(command.stdin)
    argv = [word.replace(ANSWER_FILE, "ANSWER_FILE") for word in command.argv]
    return {
        "id": prompt["id"],
        **({} if trial is None else {"trial": trial}),
        "command": conditions.redact.value(argv),
        "program": command.program,
        "cwd": cwd,
        **({} if home is None else {"home": home}),
        "env": sorted(environment_of(command)),
        "stdin": True if isinstance(agent, AcpAgent) else stdin,
        "turns": len(texts),
        "timeout": turn_timeout(prompt, conditions.limits, agent),
    }


def start_lines(start: Record) -> Iterator[str]:
    """Yields a start for people, with the command as one would type it in a shell."""
    trial = f", trial {start['trial']}" if "trial" in start else ""
    turns = f", the first of {start['turns']} turns" if start["turns"] > 1 else ""
    yield f"{start['id']}{trial}{turns}, {start['timeout']:g} ms a turn"
    if "variant" in start:
        yield f"  variant: {encode(start['variant']).decode()}"
    yield f"  cd {shlex.quote(start['cwd'])}"
    yield f"  {shlex.join(start['command'])}"
    if start["stdin"] is not False:
        yield "  stdin: " + ("a conversation" if start["stdin"] is True else f"{start['stdin']} bytes")
    yield f"  variables: {' '.join(start['env'])}"
