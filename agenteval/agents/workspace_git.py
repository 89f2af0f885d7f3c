"""How the suite runs git: never by the rules of the user, of a template's author or of an agent.

git runs in an environment of its own (git_environment), with settings of its own (OWN_CONFIG). The configuration,
hooks, attributes and index of a repository that others have written may run programs or hide changes. So we work on
such a work tree with a git directory of our own (private_git); of the repository itself we use only the objects, the
names of commits and the settings that describe the file system. No command that touches files runs in it.
"""

import glob
import os
import subprocess
from collections.abc import Callable, Iterable, Mapping, MutableMapping
from typing import NamedTuple

from agenteval.streams.files import copy_regular

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
# Settings that describe the file system and the checkout; none of them runs a program.
KEPT_SETTINGS = r"^core\.(filemode|symlinks|ignorecase|precomposeunicode|autocrlf|eol)$"
FIRST_COMMIT = "As the agent found it"


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


RunGit = Callable[[list[str], str, dict[str, str], bytes], GitOutcome]
"""Runs git with these arguments, in a directory, in an environment, with that on stdin."""


def run_git(arguments: list[str], cwd: str, env: dict[str, str], stdin: bytes) -> GitOutcome:
    """Runs git as a child of this process."""
    done = subprocess.run(["git", *arguments], cwd=cwd, env=env, input=stdin, capture_output=True, timeout=TIMEOUT)
    return GitOutcome(done.returncode, done.stdout, done.stderr)


def git_error(failed: GitOutcome) -> OSError:
    """Returns the error that git reports, on one line."""
    return OSError(" ".join(failed.stderr.decode("utf-8", "replace").split()) or "git failed")


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
        """Returns the id of the commit with that name, or None."""
        return self("rev-parse", "--verify", "--quiet", name, also=1).strip() or None

    def path(self, name: str) -> str:
        """Returns the path of something in the git directory."""
        return os.path.join(self.top, self("rev-parse", "--git-path", name).removesuffix("\n"))


# --- repositories that others have written ------------------------------------------------------


def repository_of(top: str, run: RunGit = run_git) -> Git:
    """Returns the repository of a work tree; git itself would trust its core.worktree setting."""
    return Git(top, {"GIT_DIR": os.path.join(top, ".git")}, run=run)


def private_git(theirs: Git, folder: str) -> Git:
    """Makes a git directory below a folder that has the objects of another, and returns it; its index is empty."""
    kept = [item.replace("\n", "=", 1) for item in theirs.items("config", "-z", "--get-regexp", KEPT_SETTINGS, also=1)]
    settings = (*OWN_CONFIG, *(argument for item in kept for argument in ("-c", item)))
    kind = theirs("rev-parse", "--show-object-format").strip()
    ours = empty_git(theirs.top, folder, kind, theirs.run)._replace(settings=settings)
    return ours._replace(variables={**ours.variables, "GIT_OBJECT_DIRECTORY": theirs.path("objects")})


def empty_git(top: str, folder: str, kind: str = "sha1", run: RunGit = run_git) -> Git:
    """Makes an empty git directory below a folder for a work tree, and returns it."""
    ours = Git(top, {"GIT_DIR": os.path.join(folder, "git")}, run=run)
    ours("init", "--quiet", "--template=", f"--object-format={kind}")
    return ours


def left_out(theirs: Git, ours: Git) -> list[str]:
    """Returns the index entries of files that a sparse checkout leaves out: not in the work tree, yet not deleted."""
    if theirs("config", "--type=bool", "core.sparseCheckout", also=1).strip() != "true":
        return []
    index, folder = theirs.path("index"), ours.variables["GIT_DIR"]
    copy = os.path.join(folder, "their-index")
    for part in glob.glob(os.path.join(glob.escape(os.path.dirname(index)), "sharedindex.*")):
        copy_regular(part, os.path.join(folder, os.path.basename(part)))
    if not os.path.exists(index):
        return []
    copy_regular(index, copy)
    reading = ours._replace(variables={**ours.variables, "GIT_INDEX_FILE": copy})
    return [line[2:] for line in reading.items("ls-files", "-t", "--stage", "-z") if line.startswith("S ")]


def commit_all(top: str, folder: str, run: RunGit) -> None:
    """Commits all files of a work tree, in a new repository if it has none; obeys nothing that is configured there."""
    theirs = repository_of(top, run)
    if not os.path.lexists(os.path.join(top, ".git")):
        theirs("init", "--quiet", "--template=")  # only we have written it: no private one is needed
        theirs("add", "--all", "--force")
        theirs("update-ref", "HEAD", _commit_index(theirs))
        return
    ours = private_git(theirs, folder)
    skipped = left_out(theirs, ours)
    index = theirs.path("index")
    if os.path.lexists(index):
        os.unlink(index)  # a link would lead git elsewhere; a submodule in it would be asked what it thinks has changed
    ours = ours._replace(variables={**ours.variables, "GIT_INDEX_FILE": index})
    ours("add", "--all", "--force")
    if skipped:
        ours.items("update-index", "-z", "--index-info", stdin=skipped)
        names = (entry.partition("\t")[2] for entry in skipped)
        ours.items("update-index", "-z", "--skip-worktree", "--stdin", stdin=names)
    theirs("update-ref", "HEAD", _commit_index(ours, theirs.commit("HEAD")))


def _commit_index(git: Git, parent: str | None = None) -> str:
    """Makes a commit of what is in the index, and returns its id."""
    parents = ("-p", parent) if parent else ()
    return git("commit-tree", git("write-tree").strip(), *parents, "-m", FIRST_COMMIT).strip()
