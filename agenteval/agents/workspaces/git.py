"""Git as this suite runs it: what it gets to see of the user's environment and settings, and what it may not do."""

from __future__ import annotations

import os
from collections.abc import Mapping, MutableMapping

START = "refs/agenteval/start"  # the commit that --workspace-git makes: what an agent found

# Which repository, of which the tool may be a hook, is meant: nothing for whoever works in a directory of his own.
WHICH_REPOSITORY = (
    *("GIT_DIR", "GIT_WORK_TREE", "GIT_IMPLICIT_WORK_TREE", "GIT_COMMON_DIR", "GIT_INDEX_FILE", "GIT_PREFIX"),
    *("GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_QUARANTINE_PATH", "GIT_NAMESPACE"),
    *("GIT_GRAFT_FILE", "GIT_SHALLOW_FILE", "GIT_REPLACE_REF_BASE", "GIT_INTERNAL_SUPER_PREFIX"),
)
# What a git of ours may know of the user's: where git itself is and, for a clone, how to get at a repository.
FOR_ALL = ("GIT_EXEC_PATH",)
FOR_CLONES = (
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
    "core.excludesFile": os.devnull,  # these two have a default in the user's home
    "core.attributesFile": os.devnull,
    "gc.auto": "0",  # it would go on in the background, while the agent works
    "maintenance.auto": "false",
}
OWN_CONFIG = [argument for name, value in _CONFIG.items() for argument in ("-c", f"{name}={value}")]


def git_environment(ours: Mapping[str, str] = os.environ, *, clone: bool = False) -> dict[str, str]:
    """The whole environment of a git of ours; only one that clones may use the user's configuration."""
    kept = FOR_ALL + FOR_CLONES if clone else FOR_ALL
    environment = {name: value for name, value in ours.items() if not name.startswith("GIT_") or name.startswith(kept)}
    return {**environment, **({} if clone else ISOLATED), "GIT_TERMINAL_PROMPT": "0"}


def forget_repository(environment: MutableMapping[str, str]) -> None:
    """Take away what makes every git below work on the repository whose hook we are."""
    for name in WHICH_REPOSITORY:
        environment.pop(name, None)
