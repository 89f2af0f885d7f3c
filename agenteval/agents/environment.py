"""The environment that agents run in: ours with additions, or as good as none."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from agenteval.errors import UserError

# What a program cannot do without, or finds its own files by.
ESSENTIAL = ("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "TERM", "TMPDIR", "TZ")


class Environment(NamedTuple):
    """Variables to set; `alone`: there are no others. What the user `chose` by name counts more than a schema's."""

    variables: dict[str, str] = {}
    chosen: dict[str, str] = {}
    alone: bool = False

    def with_own(self, own: Mapping[str, str]) -> dict[str, str]:
        """The variables to set for a command that has some of its own."""
        return {**self.variables, **own, **self.chosen}


def agent_environment(named: Iterable[str], *, clean: bool, ours: Mapping[str, str] = os.environ) -> Environment:
    """The environment of `--env NAME[=VALUE]` and --clean-env; a NAME that is not set is a UserError."""
    variables = {}
    if clean:
        essential = (name for name in ours if name in ESSENTIAL or name.startswith("LC_"))
        variables = {name: ours[name] for name in essential}
    chosen = {}
    for text in named:
        name, equals, value = text.partition("=")
        if not name or "\0" in text:
            raise UserError(f"--env {text}: give NAME or NAME=VALUE")
        if not equals and name not in ours:
            raise UserError(f"--env {name}: it is not set; set it, or say --env {name}=VALUE")
        chosen[name] = value if equals else ours[name]
    return Environment(variables, chosen, clean)
