"""Workspaces: a directory per prompt, named after its id, filled from the template, never outside its base.

Workspaces.make creates one before an agent starts: it replaces what an earlier run of the suite left there, and uses
what the user put there as it is. Markers tell the two apart: files DIR/.agenteval/<name> beside the workspaces, where
neither an agent nor git sees them. With --workspace-git all files are committed and their baseline is kept
(workspace_changes.py), so that what the agent changes can be found.
"""

import errno
import fcntl
import hashlib
import os
import re
import shutil
import stat
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from agenteval.agents.prompts import template_place
from agenteval.agents.workspace_changes import FOLDER, drop_baseline, keep_baseline
from agenteval.agents.workspace_git import (
    OWN_CONFIG,
    GitOutcome,
    RunGit,
    commit_all,
    find_work_tree,
    git_environment,
    git_error,
    repository_of,
)
from agenteval.errors import CannotGoOn, UserError, WorkspaceError
from agenteval.processes.process import Command, find_program
from agenteval.processes.scratch import remove_tree
from agenteval.processes.supervisor import ProcessSupervisor
from agenteval.streams.files import copy_regular, create_file, is_regular, open_regular, read_regular, replace_file
from agenteval.streams.text import one_line, parse_milliseconds
from agenteval.wire.records import PromptWorkspace

LONGEST_NAME = 100
DIGEST_LENGTH = 32  # hexadecimal digits: 128 bits
CLONE_TIMEOUT = SETUP_TIMEOUT = 600.0
GIT_OUTPUT = 1 << 28
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)
PREFIX = "prompt-"
HOME_ENDING = ".home"  # of the HOME beside a workspace (--isolate)
COPIED = (stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK)
GIT_FILES = ("config", "config.worktree")
# A work tree elsewhere: a copy of the repository would still use the original's.
WORK_TREE_ELSEWHERE = re.compile(r"^\s*(\[core\]\s*)?worktree\s*=", re.IGNORECASE | re.MULTILINE)
LARGEST_MARKER = 1 << 12
MADE = "user.agenteval"  # extended attribute of a directory that the suite made


def workspace_name(prompt_id: str, trial: int | None = None, *, ignores_case: bool = False) -> str:
    """Returns `prompt-<id>[-trial-<n>]`, with a digest if the id is not a safe file name, so that two never collide.

    Where the file system ignores case, an id with capital letters or a dot at its end is not safe either.
    """
    safe = re.sub(r"[^A-Za-z0-9._-]", "_", prompt_id)[:LONGEST_NAME]
    looks_changed = re.search(r"-[0-9a-f]{32}$" if trial else r"-([0-9a-f]{32}|trial-\d+)$|\.home$", safe) is not None
    same_as_another = ignores_case and (safe != safe.lower() or safe.endswith("."))
    if safe != prompt_id or looks_changed or same_as_another:
        safe = f"{safe}-{hashlib.sha256(prompt_id.encode()).hexdigest()[:DIGEST_LENGTH]}"
    return f"{PREFIX}{safe}" + (f"-trial-{trial}" if trial is not None else "")


class SetupFailed(Exception):
    """The setup of a prompt's workspace has failed: its record says so, and no agent is started."""


class Workspaces:
    """Creates and removes the workspaces below a base directory, each with the content of the template.

    A directory that is there and that the suite did not make is used as it is and never removed, unless `fresh`;
    `report` takes a line about the first of them.
    """

    def __init__(
        self,
        base: str,
        template: str | None,
        processes: ProcessSupervisor,
        *,
        git: bool = False,
        fresh: bool = False,
        run_id: str | None = None,
        report: Callable[[str], None] = lambda _line: None,
        dress: Callable[[str], None] | None = None,
        boundary: bool = False,
    ) -> None:
        if not base:
            raise UserError("--workspace-dir: the name is empty; name a directory")
        self.base = os.path.abspath(base)
        self.git, self.fresh, self.report = git, fresh, report
        self.dress, self.boundary = dress, boundary  # what a variant puts there; whether it must be a repository
        if git:
            find_program("git")
        self.processes = processes
        self.markers = Markers(self.base, run_id)
        self._made: set[str] = set()  # in this run
        self._baselines: dict[str, str] = {}  # of workspaces with an agent in it
        self._reported = threading.Lock()
        if os.path.isfile(self.base):
            raise UserError(f"--workspace-dir {base}: is a file; name a directory")
        try:
            os.makedirs(self.base, exist_ok=True)
            if not os.access(self.base, os.R_OK | os.W_OK | os.X_OK):
                raise PermissionError(None, "cannot create directories there (Permission denied)")
            self.markers.prepare()
        except OSError as error:
            raise UserError(f"--workspace-dir {base}: {error.strerror}") from None
        self.ignores_case = self.markers.ignores_case()
        try:
            self.fill = _filler(template, self)
        except OSError as error:
            raise UserError(f"--workspace-template {template}: {error.filename}: {error.strerror}") from None
        self.template = template

    def path(self, prompt_id: str, trial: int | None = None) -> str:
        """Returns the path of a prompt's workspace."""
        return os.path.join(self.base, workspace_name(prompt_id, trial, ignores_case=self.ignores_case))

    def repository_around(self) -> str | None:
        """Returns the repository that git would find from a workspace, None if each workspace is one itself."""
        template = self.template
        cloned = template and (_is_bare_repository(template) or not os.path.isdir(template))
        if self.git or self.boundary or cloned or (template and os.path.lexists(os.path.join(template, ".git"))):
            return None
        return find_work_tree(self.base)

    def make(self, prompt_id: str, key: int, trial: int | None = None, given: PromptWorkspace | None = None) -> str:
        """Creates a workspace, replaces that of an earlier run, and returns its path; WorkspaceError if that fails.

        `given` is what the prompt says about it; SetupFailed if its setup fails.
        """
        path, given = self.path(prompt_id, trial), given or PromptWorkspace()
        with self._workspace_errors():
            made = self._make(path)
            try:
                if made:
                    self._filler_of(given)(path, key)
                    self._set_up(path, key, given, prompt_id)
                    self._dress(path)
                self._begin(path, key, self.git if given.git is None else given.git)
            except OSError:
                if made:
                    with suppress(OSError):  # if it was removed meanwhile, git would have made it without a marker
                        remove_tree(path)
                raise
        return path

    def make_home(self, prompt_id: str, trial: int | None = None) -> str:
        """Creates the HOME of a session beside its workspace, which has been made; returns its path."""
        path = self.path(prompt_id, trial) + HOME_ENDING
        with self._workspace_errors():
            if os.path.lexists(path):
                if not (self.fresh or self._is_ours(path)):
                    raise FileExistsError(f"{path} was not created by the suite; --fresh-workspaces replaces it")
                remove_tree(path)
            self.markers.make(path)
            self._made.add(path)
            os.chmod(path, 0o700)
        return path

    @contextmanager
    def _workspace_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            where = error.filename2 or error.filename
            reason = f"{error.strerror}: {where}" if error.strerror and where else error.strerror or str(error)
            raise WorkspaceError(reason, full=self._is_full(error)) from None

    def _make(self, path: str) -> bool:
        """Creates a directory; returns False if there is one of the user's."""
        os.makedirs(self.base, exist_ok=True)  # an agent may have removed more than its own
        self.markers.prepare()
        if not self.markers.claim(path):
            raise CannotGoOn(
                f"{path}: another run is using it; wait for that run, or name another --workspace-dir (runs of "
                f"different prompts may share one)"
            )
        if os.path.lexists(path) and not (self.fresh or self._is_ours(path)):
            self._keep(path)
            return False
        if os.path.lexists(path):
            remove_tree(path)
        self.markers.make(path)
        self._made.add(path)
        return True

    def _filler_of(self, given: PromptWorkspace) -> Callable[[str, int], None]:
        if given.template is None:
            return self.fill
        try:
            return _filler(template_place(given.template, given.base or ""), self)
        except UserError as error:
            raise WorkspaceError(str(error).replace("--workspace-template", "template", 1)) from None

    def _set_up(self, path: str, key: int, given: PromptWorkspace, prompt_id: str) -> None:
        """Runs the setup of a prompt in its workspace, outside the agent's time, and ends what it leaves running."""
        if given.setup is None:
            return
        env = {"AE_ID": prompt_id, "AE_PROMPTS": given.base or ""}
        limit = parse_milliseconds(given.timeout) if isinstance(given.timeout, str) else given.timeout
        shell = Command(find_program("sh"), ["sh", "-c", f"exec 1>&2\n{given.setup}"], path, env)
        outcome = self.processes.run(key, shell, timeout=limit / 1000 if limit else SETUP_TIMEOUT, max_output=0)
        if outcome.left_helpers:
            self.processes.terminate_tree(key)
        if outcome.exit_code == 0 and not outcome.timed_out:
            return
        how = "took too long" if outcome.timed_out else outcome.error or f"exited with code {outcome.exit_code}"
        last = outcome.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2]
        raise SetupFailed(f"workspace: the setup command {how}{f': {one_line(last, 200)}' if last else ''}")

    def _dress(self, path: str) -> None:
        """Adds the files of a variant, and what keeps git from looking above the workspace."""
        if self.dress:
            self.dress(path)
        if self.boundary and not os.path.lexists(git := os.path.join(path, ".git")):
            for part in ("objects", "refs"):  # the least that git takes for a repository
                os.makedirs(os.path.join(git, part))
            replace_file(os.path.join(git, "HEAD"), b"ref: refs/heads/main\n")

    def _begin(self, path: str, key: int, git: bool) -> None:
        """Records the state of a workspace before the agent runs."""
        drop_baseline(path)
        if git:  # all files, in a new repository if there is none; what they are now is kept outside of it
            with tempfile.TemporaryDirectory(dir=self.processes.scratch.folder()) as folder:
                commit_all(path, folder, self._git_of(key))
            self._baselines[path] = keep_baseline(path)

    def _is_full(self, error: OSError) -> bool:
        """Whether no other workspace can be made either; git says so in its own words."""
        if error.errno in FULL or any(os.strerror(number) in str(error) for number in FULL):
            return True
        with suppress(OSError):
            left = os.statvfs(self.base)
            return left.f_bavail == 0 or (left.f_files > 0 and left.f_favail == 0)
        return False

    def leave(self, prompt_id: str, trial: int | None = None) -> str | None:
        """Takes note that the agent has ended; returns the digest of the workspace's baseline, if it has one.

        If the agent made its directory anew, that is one of the suite's, too.
        """
        path = self.path(prompt_id, trial)
        if path in self._made and not self.markers.has(path):
            with suppress(OSError):
                self.markers.put(path)
        return self._baselines.pop(path, None)

    def remove(self, prompt_id: str, trial: int | None = None) -> None:
        """Removes a workspace that the suite made, as far as it can be."""
        workspace = self.path(prompt_id, trial)
        for path in (workspace, workspace + HOME_ENDING):
            if self._is_ours(path) and os.path.lexists(path):
                with suppress(OSError):
                    remove_tree(path)
                    self.markers.drop(path)

    def _is_ours(self, path: str) -> bool:
        return path in self._made or self.markers.has(path)

    def _keep(self, path: str) -> None:
        """Checks that an agent can run in what the user put there, and reports the first of such directories."""
        if not os.path.isdir(path):
            raise NotADirectoryError(
                f"{path} is not a directory, and was not created by the suite; --fresh-workspaces replaces it"
            )
        if self.dress:
            raise FileExistsError(
                f"{path} was not created by the suite, and would have to be changed for the variant; "
                f"--fresh-workspaces replaces it"
            )
        if self._reported.acquire(blocking=False):
            without = ", without the contents of --workspace-template" if self.template else ""
            if self.boundary and not os.path.lexists(os.path.join(path, ".git")):
                without += ", and read files above them"
            self.report(
                f"{path} already exists and was not created by the suite: agents run in such directories as "
                f"they are{without} (--fresh-workspaces replaces them)"
            )

    def clone(self, repository: str, path: str, key: int, *options: str) -> None:
        """Clones a repository; git runs as a process of agent `key`."""
        arguments = ["clone", "--quiet", "--template=", "--origin=origin", *options, "--", repository, path]
        done = self._git_of(key)([*OWN_CONFIG, *arguments], self.base, git_environment(clone=True), b"")
        if done.code != 0:
            raise git_error(done)

    def detach(self, source: str, path: str, key: int) -> None:
        """Copies a directory whose repository is elsewhere: clones that, then copies the files as they are."""
        self.clone(source, path, key, "--no-checkout")
        within = repository_of(path, self._git_of(key))
        within("remote", "remove", "origin")  # nothing may be pushed there
        git = os.path.join(source, ".git")
        copy_tree(source, path, lambda path: path == git or _points_outside(path, source))
        within("reset", "--quiet")

    def _git_of(self, key: int) -> RunGit:
        """Returns a function that runs git as a process of agent `key`, so that it ends with the tool."""

        def run(arguments: list[str], cwd: str, env: dict[str, str], stdin: bytes) -> GitOutcome:
            command = Command(find_program("git"), ["git", *arguments], cwd, env, stdin or None, alone=True)
            outcome = self.processes.run(key, command, timeout=CLONE_TIMEOUT, max_output=GIT_OUTPUT)
            problem = outcome.error.encode() if outcome.error else outcome.stderr
            return GitOutcome(None if outcome.error else outcome.exit_code, outcome.stdout, problem)

        return run


# --- which workspaces the suite has made ----------------------------------------------------------


class Markers:
    """The markers below a base directory, and a lock on each workspace that this process uses."""

    def __init__(self, base: str, run_id: str | None = None) -> None:
        self.folder = os.path.join(base, FOLDER)
        self.run_id = run_id  # of the run that makes workspaces; the second line of their markers
        self._locks: int | None = None
        self._opening = threading.Lock()

    def claim(self, path: str) -> bool:
        """Locks a workspace until this process ends; returns False if another process has it.

        The lock is that of a byte in one file, named by the workspace: thousands need one descriptor. Processes that
        share a directory but no prompt, as those of several shards, do not meet.
        """
        with self._opening:
            if self._locks is None:
                try:
                    self._locks = open_regular(self._own("locks"), os.O_RDWR | os.O_CREAT)
                except PermissionError:  # an agent may have changed its mode
                    os.unlink(self._own("locks"))
                    self._locks = open_regular(self._own("locks"), os.O_RDWR | os.O_CREAT)
        try:
            fcntl.lockf(self._locks, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, _place_of(path))
        except OSError as error:
            return error.errno not in (errno.EACCES, errno.EAGAIN)  # else a file system without locks
        return True

    def is_claimed(self, path: str) -> bool:
        """Whether another process uses a workspace; to be called before this one claims any."""
        free = self.claim(path)
        if free and self._locks is not None:
            fcntl.lockf(self._locks, fcntl.LOCK_UN, 1, _place_of(path))
        return not free

    def prepare(self) -> None:
        """Makes the folder of markers, which git ignores; raises OSError if that cannot be."""
        if os.path.islink(self.folder):
            raise OSError(None, f"its {FOLDER} is a symbolic link; remove that")
        if not os.path.isdir(self.folder):
            os.makedirs(self.folder, exist_ok=True)
            replace_file(os.path.join(self.folder, ".gitignore"), b"*\n")

    def ignores_case(self) -> bool:
        """Whether the file system takes `A` and `a` for the same name; a guess until the folder is there."""
        if not os.path.isdir(self.folder):
            return sys.platform == "darwin"
        return os.path.exists(os.path.join(os.path.dirname(self.folder), FOLDER.upper()))

    def make(self, path: str) -> None:
        """Makes a workspace, marked before it is at its place: what a crash leaves never looks like the user's."""
        self.prepare()
        new = os.path.join(self.folder, f"new-{os.path.basename(path)}")
        if os.path.lexists(new):
            remove_tree(new)
        os.mkdir(new)
        try:
            self._write_marker(path, new)
            os.rename(new, path)
        except OSError:
            with suppress(OSError):
                os.rmdir(new)
            raise

    def put(self, path: str) -> None:
        """Marks a workspace that is there as made by the suite."""
        self.prepare()
        self._write_marker(path, path)

    def has(self, path: str) -> bool:
        """Whether the suite has made what is at that path now."""
        try:
            identity, _, _run = read_regular(self._marker(path), LARGEST_MARKER).partition(b"\n")
            return identity == _identity(path).encode()
        except OSError:
            return False

    def drop(self, path: str) -> None:
        """Forgets a workspace that is removed."""
        with suppress(OSError):
            os.unlink(self._marker(path))

    def _write_marker(self, path: str, directory: str) -> None:
        if sys.platform == "linux":
            with suppress(OSError):
                os.setxattr(directory, MADE, b"made", follow_symlinks=False)
        run = f"{self.run_id}\n" if self.run_id else ""
        replace_file(self._own(os.path.basename(path)), f"{_identity(directory)}\n{run}".encode())

    def _marker(self, path: str) -> str:
        return os.path.join(self.folder, os.path.basename(path))

    def _own(self, name: str) -> str:
        """Returns the path of a file of ours in the folder; what an agent put in its place is removed."""
        path = os.path.join(self.folder, name)
        if os.path.lexists(path) and not is_regular(path):
            remove_tree(path)
        return path


def _place_of(path: str) -> int:
    """Returns the number of the byte that is locked for a workspace."""
    return int.from_bytes(hashlib.sha256(os.fsencode(os.path.basename(path))).digest()[:7], "big")


def run_of_workspace(path: str) -> str | None:
    """Returns the id of the run that made a workspace; None if it is not one, or its run has no id."""
    try:
        marker = read_regular(os.path.join(os.path.dirname(path), FOLDER, os.path.basename(path)), LARGEST_MARKER)
        _identity, _, run = marker.decode().partition("\n")
        return run.strip() or None
    except (OSError, UnicodeDecodeError):
        return None


def _identity(path: str) -> str:
    """Returns what tells a directory from one that takes its place: a new one may get the inode of a removed one."""
    status = os.lstat(path)
    made = str(getattr(status, "st_birthtime", ""))  # which Python does not know on Linux
    if sys.platform == "linux":
        try:
            made = os.getxattr(path, MADE, follow_symlinks=False).decode()
        except PermissionError:  # its agent has made it unreadable
            made = "made"
        except OSError:  # it has no such attribute, or the file system has none
            made = ""
    return f"{status.st_dev} {status.st_ino} {made}"


# --- templates ----------------------------------------------------------------------------------


def _filler(template: str | None, workspaces: Workspaces) -> Callable[[str, int], None]:
    """Returns the function that creates a workspace at a path, as a process of an agent's key."""
    if template is None:
        return lambda _path, _key: None
    source, base = os.path.realpath(template.removeprefix("file://")), os.path.realpath(workspaces.base)
    copied = os.path.isdir(template) and not _is_bare_repository(template)
    if copied and os.path.commonpath([source, base]) == source:
        raise UserError(f"--workspace-template {template}: contains the workspace directory, and would copy itself")
    if os.path.isdir(source) and os.path.relpath(source, base).lower().startswith(PREFIX):
        raise UserError(
            f"--workspace-template {template}: is itself a workspace; copy it, or name another --workspace-dir"
        )
    if copied and not _is_linked(template, source):
        return lambda path, _key: copy_tree(source, path, lambda entry: _points_outside(entry, source))
    if not os.path.isdir(template) and not re.search(r"://|^[\w.-]+@?[\w.-]*:", template):
        raise UserError(f"--workspace-template {template}: no such directory or git repository")
    find_program("git")
    if copied:
        return lambda path, key: workspaces.detach(source, path, key)
    repository = source if os.path.isdir(template) else template
    return lambda path, key: workspaces.clone(repository, path, key)


def _is_bare_repository(path: str) -> bool:
    return os.path.isfile(os.path.join(path, "HEAD")) and os.path.isdir(os.path.join(path, "objects"))


def _is_linked(template: str, source: str) -> bool:
    """Whether a copy of its .git would still use the original repository, as in a linked worktree or a submodule."""
    git = os.path.join(source, ".git")
    if os.path.isdir(git) and not os.path.islink(git):
        return _has_links(git) or any(_has_work_tree(os.path.join(git, name)) for name in GIT_FILES)
    if not os.path.lexists(git):
        return False
    if (target := _git_file(git)) is None or not os.path.isdir(os.path.join(source, target)):
        raise UserError(f"--workspace-template {template}: its .git points to no repository; remove or repair it")
    return True


def _has_links(folder: str) -> bool:
    """Whether there is a symbolic link at or below a directory: what git writes there may end up elsewhere."""
    with os.scandir(folder) as entries:
        return any(entry.is_symlink() or (entry.is_dir() and _has_links(entry.path)) for entry in entries)


def _has_work_tree(path: str) -> bool:
    if not os.path.isfile(path):
        return False
    return WORK_TREE_ELSEWHERE.search(read_regular(path, follow=True).decode("utf-8", "replace")) is not None


def _points_outside(path: str, root: str) -> bool:
    """Whether a path is a .git file or link to a repository outside the root, which a copy would share."""
    folder, name = os.path.split(path)
    if name != ".git" or (target := _git_file(path)) is None:
        return False
    there = os.path.realpath(os.path.join(folder, target))
    return os.path.isabs(target) or os.path.commonpath([there, root]) != root


def _git_file(path: str) -> str | None:
    """Returns the path in a .git file or link; None if it is a directory or has no path."""
    if os.path.islink(path):
        return os.readlink(path)
    if not os.path.isfile(path):
        return None
    word, _space, target = read_regular(path).partition(b" ")
    return os.fsdecode(target.strip(b"\r\n")) if word == b"gitdir:" else None


# --- copies -------------------------------------------------------------------------------------


def copy_workspace(source: str, target: str) -> None:
    """Copies a workspace for a grader, without what it would share with other repositories.

    The objects of its repository are not copied: git reads them where they are, and never changes them.
    """
    objects = os.path.join(source, ".git", "objects")
    copy_tree(source, target, lambda path: path == objects or _points_outside(path, source))
    if os.path.isdir(objects):
        info = os.path.join(target, ".git", "objects", "info")
        os.makedirs(info)
        with os.fdopen(create_file(os.path.join(info, "alternates")), "wb") as file:
            file.write(os.fsencode(f"{os.path.realpath(objects)}\n"))


def copy_over(source: str, target: str) -> None:
    """Copies the content of a directory over another one: what is in its way is replaced, and no link is followed."""
    with os.scandir(source) as entries:
        for entry in entries:
            there = os.path.join(target, entry.name)
            is_folder = entry.is_dir(follow_symlinks=False)
            if os.path.lexists(there) and not (is_folder and os.path.isdir(there) and not os.path.islink(there)):
                remove_tree(there)
            if is_folder:
                os.makedirs(there, exist_ok=True)
                copy_over(entry.path, there)
            elif entry.is_symlink():
                os.symlink(os.readlink(entry.path), there)
            else:
                copy_regular(entry.path, there)


def copy_tree(source: str, target: str, leave: Callable[[str], bool] = lambda _path: False) -> None:
    """Copies a directory with its links, modes and times, without pipes, sockets, devices and what to `leave`."""

    def left(folder: str, names: list[str]) -> list[str]:
        paths = {name: os.path.join(folder, name) for name in names}
        return [
            name for name, path in paths.items() if leave(path) or stat.S_IFMT(os.lstat(path).st_mode) not in COPIED
        ]

    try:
        shutil.copytree(source, target, True, left, copy_regular, dirs_exist_ok=True)
    except shutil.Error as error:
        _source, _target, reason = error.args[0][0]  # the first of all that went wrong
        raise OSError(re.sub(r"^\[Errno \d+\] ", "", reason)) from None
    except RecursionError:
        raise OSError(f"{source}: its directories are nested too deeply to copy") from None
