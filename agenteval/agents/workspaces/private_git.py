"""A git directory of our own for a work tree whose repository others have written: template authors and agents.

That repository's configuration, hooks, attributes and index may run programs or hide changes. Of it we use only the
objects, the names of commits and the settings that describe the file system; no command that touches files runs in it.
"""

from __future__ import annotations

import glob
import os
import shutil

from agenteval.agents.workspaces.git import OWN_CONFIG, Git, RunGit, run_git

# Settings that describe the file system and the checkout; none of them runs a program.
KEPT_SETTINGS = r"^core\.(filemode|symlinks|ignorecase|precomposeunicode|autocrlf|eol)$"
FIRST_COMMIT = "As the agent found it"


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
    """Returns the index entries of what a sparse checkout leaves out: it is not in the work tree, and not deleted."""
    if theirs("config", "--type=bool", "core.sparseCheckout", also=1).strip() != "true":
        return []
    index, folder = theirs.path("index"), ours.variables["GIT_DIR"]
    copy = os.path.join(folder, "their-index")
    for part in glob.glob(os.path.join(glob.escape(os.path.dirname(index)), "sharedindex.*")):
        shutil.copy(part, folder)
    if not os.path.exists(index):
        return []
    shutil.copyfile(index, copy)
    reading = ours._replace(variables={**ours.variables, "GIT_INDEX_FILE": copy})
    return [line[2:] for line in reading.items("ls-files", "-t", "--stage", "-z") if line.startswith("S ")]


def commit_all(top: str, folder: str, run: RunGit) -> None:
    """Commits all files of a work tree, in a new repository if it has none; obeys nothing that is configured there."""
    theirs = repository_of(top, run)
    if not os.path.lexists(os.path.join(top, ".git")):
        theirs("init", "--quiet", "--template=")  # nobody else has written it, so it needs no private one
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
