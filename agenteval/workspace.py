"""A fresh directory per prompt, named after its id and never outside its base."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import sys
from collections.abc import Callable

from agenteval.agents import find_program
from agenteval.errors import UserError
from agenteval.process import Command
from agenteval.processes import Processes

LONGEST_NAME = 100
CLONE_TIMEOUT = 600.0
# Commits work without the user's name, signature, hooks or templates; a clone needs none of it.
OWN_CONFIG = ["-c", "user.name=agenteval", "-c", "user.email=agenteval@localhost", "-c", "commit.gpgsign=false"]
OWN_CONFIG += ["-c", "core.hooksPath=/dev/null", "-c", "init.defaultBranch=main", "-c", "core.autocrlf=false"]


def workspace_name(prompt_id: str, trial: int | None = None) -> str:
    """`prompt-<id>[-trial-<n>]`; an id that is no safe file name keeps a digest, so that two never collide."""
    safe = re.sub(r"[^A-Za-z0-9._-]", "_", prompt_id)[:LONGEST_NAME]
    looks_digested = re.search(r"-[0-9a-f]{8}$", safe) is not None
    case_is_lost = sys.platform == "darwin" and safe != safe.lower()
    if safe != prompt_id or looks_digested or case_is_lost:
        safe = f"{safe}-{hashlib.sha256(prompt_id.encode()).hexdigest()[:8]}"
    return f"prompt-{safe}" + (f"-trial-{trial}" if trial is not None else "")


class Workspaces:
    """Makes the directories below a base, each with the template's content."""

    def __init__(self, base: str, template: str | None, processes: Processes, *, git: bool = False) -> None:
        self.base = os.path.abspath(base)
        self.git = git
        if git:
            find_program("git")
        self.processes = processes
        try:
            os.makedirs(self.base, exist_ok=True)
        except OSError as error:
            raise UserError(f"--workspace-dir {base}: {error.strerror}") from None
        self.fill = _filler(template, self)
        self.template = template

    def path(self, prompt_id: str, trial: int | None = None) -> str:
        """Where a prompt's workspace is."""
        return os.path.join(self.base, workspace_name(prompt_id, trial))

    def repository_around(self) -> str | None:
        """The git repository that agents may take for their own; None where there is none, or each workspace is one."""
        if self.git or (self.template and _is_repository(self.template)):
            return None
        path = self.base
        while not os.path.lexists(os.path.join(path, ".git")):
            parent = os.path.dirname(path)
            if parent == path:
                return None
            path = parent
        return path

    def make(self, prompt_id: str, key: int, trial: int | None = None) -> str:
        """An empty or freshly filled directory; one left by an earlier run is replaced. OSError if it cannot be."""
        path = self.path(prompt_id, trial)
        if os.path.islink(path):
            os.unlink(path)
        elif os.path.isdir(path):
            shutil.rmtree(path)
        self.fill(path, key)
        if self.git:
            self._commit(path, key)
        return path

    def remove(self, prompt_id: str, trial: int | None = None) -> None:
        """Remove a workspace; what cannot be removed stays."""
        shutil.rmtree(self.path(prompt_id, trial), ignore_errors=True)

    def _commit(self, path: str, key: int) -> None:
        """Make it a repository of one commit, so that what an agent changes can be told."""
        if not os.path.lexists(os.path.join(path, ".git")):
            self._run_git(["init", "--quiet"], path, key)
        self._run_git(["add", "--all", "--force"], path, key)
        self._run_git(["commit", "--quiet", "--allow-empty", "--no-verify", "-m", "As the agent found it"], path, key)

    def clone(self, repository: str, path: str, key: int) -> None:
        """A git clone, run like any process of this prompt."""
        self._run_git(["clone", "--quiet", "--", repository, path], self.base, key)

    def _run_git(self, arguments: list[str], cwd: str, key: int) -> None:
        command = Command(find_program("git"), ["git", *OWN_CONFIG, *arguments], cwd, {"GIT_TERMINAL_PROMPT": "0"})
        outcome = self.processes.run(key, command, timeout=CLONE_TIMEOUT, max_output=1 << 20)
        if outcome.exit_code != 0:
            reason = outcome.error or outcome.stderr.decode("utf-8", "replace").strip() or f"git {arguments[0]} failed"
            raise OSError(" ".join(reason.split()))


def _filler(template: str | None, workspaces: Workspaces) -> Callable[[str, int], None]:
    if template is None:
        return lambda path, _key: os.mkdir(path)
    if os.path.isdir(template) and not _is_bare_repository(template):
        source = os.path.abspath(template)
        if os.path.commonpath([source, workspaces.base]) == source:
            raise UserError(f"--workspace-template {template}: holds the workspace directory, and would copy itself")
        return lambda path, _key: _copy(source, path)
    if not os.path.isdir(template) and not re.search(r"://|^[\w.-]+@?[\w.-]*:", template):
        raise UserError(f"--workspace-template {template}: no such directory or git repository")
    find_program("git")
    repository = os.path.abspath(template) if os.path.isdir(template) else template
    return lambda path, key: workspaces.clone(repository, path, key)


def _copy(source: str, path: str) -> None:
    try:
        shutil.copytree(source, path, symlinks=True)
    except shutil.Error as error:
        raise OSError(str(error.args[0][0][2])) from None


def _is_repository(template: str) -> bool:
    """Whether what a workspace starts with is a repository: a clone of one, or a copy."""
    return _is_bare_repository(template) or not os.path.isdir(template) or os.path.lexists(f"{template}/.git")


def _is_bare_repository(path: str) -> bool:
    return os.path.isfile(os.path.join(path, "HEAD")) and os.path.isdir(os.path.join(path, "objects"))
