"""What would be started for a prompt: command, directory and names of variables, without starting it."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator

from agenteval.agents.environment import SOCKETS, TEMPORARY, Environment
from agenteval.agents.kinds import DEFAULT_TIMEOUT, AcpAgent, Agent
from agenteval.processes.tree import VARIABLE
from agenteval.wire.records import Record

ADDED = ("PWD", TEMPORARY, SOCKETS, VARIABLE)  # variables that every agent gets


def planned_start(
    prompt: Record, agent: Agent, cwd: str, environment: Environment, timeout: float | None, trial: int | None = None
) -> Record:
    """Returns the start of an agent for the first turn of a prompt; later ones may need what the agent answers.

    `stdin` is false if it is closed, the number of bytes of a prompt, or true for a conversation.
    """
    texts = prompt["input"] if isinstance(prompt["input"], list) else [prompt["input"]]
    stdin: bool | int = True
    if isinstance(agent, AcpAgent):
        program, argv, own = agent.program, agent.argv, dict[str, str]()
    else:
        first = agent.open().next_command(texts[0], cwd)
        program, argv, own = first.program, first.argv, first.env
        stdin = False if first.stdin is None else len(first.stdin)
    names = {*({} if environment.alone else os.environ), *environment.with_own(own), *ADDED}
    return {
        "id": prompt["id"],
        **({} if trial is None else {"trial": trial}),
        "command": argv,
        "program": program,
        "cwd": cwd,
        "env": sorted(names),
        "stdin": stdin,
        "turns": len(texts),
        "timeout": prompt.get("timeout") or timeout or agent.timeout or DEFAULT_TIMEOUT,
    }


def start_lines(start: Record) -> Iterator[str]:
    """Yields a start for people, with the command as one would type it in a shell."""
    trial = f", trial {start['trial']}" if "trial" in start else ""
    turns = f", the first of {start['turns']} turns" if start["turns"] > 1 else ""
    yield f"{start['id']}{trial}{turns}, {start['timeout']:g} ms a turn"
    yield f"  cd {shlex.quote(start['cwd'])}"
    yield f"  {shlex.join(start['command'])}"
    if start["stdin"] is not False:
        yield "  stdin: " + ("a conversation" if start["stdin"] is True else f"{start['stdin']} bytes")
    yield f"  variables: {' '.join(start['env'])}"
