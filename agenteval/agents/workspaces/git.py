"""How this suite runs git: in an environment of its own, with settings of its own."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, MutableMapping
from typing import NamedTuple

TIMEOUT = 60

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
ISOLATED = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_ALLOW_PROTOCOL": "",  # none: a word would name one that is allowed
    "GIT_NO_LAZY_FETCH": "1",  # of a partial clone: a fetch runs what the repository's configuration names
    "GIT_OPTIONAL_LOCKS": "0",
}

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


# --- run git ------------------------------------------------------------------------------------


class GitOutcome(NamedTuple):
    """How a git process ended, and what it printed."""

    code: int | None
    stdout: bytes
    stderr: bytes


def git_error(failed: GitOutcome) -> OSError:
    """Returns the error that git reports, on one line."""
    return OSError(" ".join(failed.stderr.decode("utf-8", "replace").split()) or "git failed")


RunGit = Callable[[list[str], str, dict[str, str], bytes], GitOutcome]
"""Runs git with these arguments, in a directory, in an environment, with that on stdin."""


def run_git(arguments: list[str], cwd: str, env: dict[str, str], stdin: bytes) -> GitOutcome:
    """Runs git as a child of this process."""
    import subprocess  # which a tool that runs agents does without

    done = subprocess.run(["git", *arguments], cwd=cwd, env=env, input=stdin, capture_output=True, timeout=TIMEOUT)
    return GitOutcome(done.returncode, done.stdout, done.stderr)


class Git(NamedTuple):
    """Runs git in a work tree, with the git directory that the variables name."""

    top: str
    variables: dict[str, str]
    settings: tuple[str, ...] = tuple(OWN_CONFIG)
    run: RunGit = run_git

    def __call__(self, *arguments: str, cwd: str | None = None, stdin: str = "", also: int = 0) -> str:
        """Returns what git prints; OSError unless its exit code is 0 or `also` (which means no)."""
        environment = {**git_environment(), "GIT_WORK_TREE": self.top, **self.variables}
        done = self.run([*self.settings, *arguments], cwd or self.top, environment, os.fsencode(stdin))
        if done.code not in (0, also):
            raise git_error(done)
        return os.fsdecode(done.stdout)

    def items(self, *arguments: str, cwd: str | None = None, stdin: Iterable[str] = (), also: int = 0) -> list[str]:
        """Returns the items that git prints; they and the items of stdin are separated as by -z."""
        return self(*arguments, cwd=cwd, stdin="".join(f"{item}\0" for item in stdin), also=also).split("\0")[:-1]

    def commit(self, name: str) -> str | None:
        """Returns the id of a commit, None if there is none of that name."""
        return self("rev-parse", "--verify", "--quiet", name, also=1).strip() or None

    def path(self, name: str) -> str:
        """Returns the path of something in the git directory."""
        return os.path.join(self.top, self("rev-parse", "--git-path", name).removesuffix("\n"))
