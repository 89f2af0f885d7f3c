"""The environment and the settings with which this suite runs git."""

from __future__ import annotations

import os
from collections.abc import Mapping, MutableMapping

START = "refs/agenteval/start"  # the commit of --workspace-git: the files that an agent starts with

# Set by git for hooks. When we run inside a hook, neither agents nor our own git may inherit them.
REPOSITORY_VARIABLES = (
    *("GIT_DIR", "GIT_WORK_TREE", "GIT_IMPLICIT_WORK_TREE", "GIT_COMMON_DIR", "GIT_INDEX_FILE", "GIT_PREFIX"),
    *("GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_QUARANTINE_PATH", "GIT_NAMESPACE"),
    *("GIT_GRAFT_FILE", "GIT_SHALLOW_FILE", "GIT_REPLACE_REF_BASE", "GIT_INTERNAL_SUPER_PREFIX"),
)
# The GIT_ variables that our git inherits: where git itself is and, to clone, how to reach a repository.
INHERITED = ("GIT_EXEC_PATH",)
INHERITED_TO_CLONE = (
    *("GIT_SSH", "GIT_ASKPASS", "GIT_SSL", "GIT_HTTP", "GIT_PROXY", "GIT_ALLOW_PROTOCOL", "GIT_PROTOCOL", "GIT_LFS"),
    *("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM"),
    *("GIT_CONFIG_COUNT", "GIT_CONFIG_KEY_", "GIT_CONFIG_VALUE_"),
)
ISOLATED = {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull, "GIT_ALLOW_PROTOCOL": "none"}

_CONFIG = {
    "user.name": "agenteval",
    "user.email": "agenteval@localhost",
    "commit.gpgSign": "false",
    "init.defaultBranch": "main",
    "core.autocrlf": "false",
    "core.hooksPath": os.devnull,
    "core.fsmonitor": "false",
    "core.excludesFile": os.devnull,  # this and the next have defaults in the user's home
    "core.attributesFile": os.devnull,
    "gc.auto": "0",  # it would run in the background while the agent works
    "maintenance.auto": "false",
}
OWN_CONFIG = [argument for name, value in _CONFIG.items() for argument in ("-c", f"{name}={value}")]


def git_environment(ours: Mapping[str, str] = os.environ, *, clone: bool = False) -> dict[str, str]:
    """Returns the whole environment of our git; only to clone does it have the user's configuration."""
    kept = INHERITED + INHERITED_TO_CLONE if clone else INHERITED
    environment = {name: value for name, value in ours.items() if not name.startswith("GIT_") or name.startswith(kept)}
    return {**environment, **({} if clone else ISOLATED), "GIT_TERMINAL_PROMPT": "0"}


def forget_repository(environment: MutableMapping[str, str]) -> None:
    """Removes the variables that make git in every child process use the repository whose hook we run in."""
    for name in REPOSITORY_VARIABLES:
        environment.pop(name, None)


def find_work_tree(path: str) -> str | None:
    """Returns the directory with a .git, this one or the nearest above it; None if there is none."""
    while not os.path.lexists(os.path.join(path, ".git")):
        path, below = os.path.dirname(path), path
        if path == below:
            return None
    return path
