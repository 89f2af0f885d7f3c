"""The environment variables of agents: those of this process with additions, or (--clean-env) only the essential."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

import msgspec

from agenteval.errors import UserError

TEMPORARY = "TMPDIR"
# tmux has its server's socket there. Agents with the same one would share a server, which ends with the first of them.
SOCKETS = "TMUX_TMPDIR"
# Kept by --clean-env: programs need them, or find their own files by them.
ESSENTIAL = ("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "TERM", TEMPORARY, "TZ")


class Environment(msgspec.Struct, frozen=True):
    """Variables to set. `alone`: no others are inherited. Those `chosen` with --env override a schema's."""

    variables: dict[str, str] = {}
    chosen: dict[str, str] = {}
    alone: bool = False

    def with_own(self, own: Mapping[str, str], temporary: str | None = None) -> dict[str, str]:
        """Returns the variables to set for a command whose schema sets some of its own.

        `temporary` is the directory that was made for its temporary files.
        """
        made = {} if temporary is None else {TEMPORARY: temporary, SOCKETS: temporary}
        return {**self.variables, **made, **own, **self.chosen}


def agent_environment(named: Iterable[str], *, clean: bool, ours: Mapping[str, str] = os.environ) -> Environment:
    """Returns the environment of `--env NAME[=VALUE]` and --clean-env; UserError for a NAME that is not set."""
    essential = {name: value for name, value in ours.items() if name in ESSENTIAL or name.startswith("LC_")}
    chosen = {}
    for text in named:
        name, equals, value = text.partition("=")
        if not name or "\0" in text:
            raise UserError(f"--env {text}: give NAME or NAME=VALUE")
        if not equals and name not in ours:
            raise UserError(f"--env {name}: it is not set; set it, or give --env {name}=VALUE")
        chosen[name] = value if equals else ours[name]
    return Environment(essential if clean else {}, chosen, clean)
