"""Starts a process with posix_spawn of the C library, called so that other threads go on meanwhile.

`os.posix_spawn` holds the lock of the interpreter until the new process has loaded its program. With glibc it is
called directly; elsewhere, os.posix_spawn serves.
"""

from __future__ import annotations

import errno
import os
import signal
import sys
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

# An agent starts with the default of the signals that Python or the tool ignore or handle. Those that have it already
# are named, too: for each signal that is not named, glibc makes two system calls instead of one.
SETTABLE = signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}
DEFAULTED = [
    *(signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGPIPE, signal.SIGXFSZ),
    *sorted(one for one in SETTABLE if signal.getsignal(one) == signal.SIG_DFL),
]
FLAGS = 0x80 | 0x08 | 0x04  # POSIX_SPAWN_SETSID, _SETSIGMASK and _SETSIGDEF of glibc's spawn.h
OBJECT_SIZE = 512  # bytes: glibc's posix_spawnattr_t has 336, its sigset_t 128, its posix_spawn_file_actions_t 80
MOST_KEPT = 64  # combinations of descriptors, and of names of variables: the same come again
ENCODING, ERRORS = sys.getfilesystemencoding(), sys.getfilesystemencodeerrors()  # as os.fsencode, without its call

OWN_LIMITS = (errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE)  # of processes, memory, open files

Redirections = tuple[int, int, int]
"""The descriptors that become stdin, stdout and stderr."""


class Command(msgspec.Struct, frozen=True):
    """What to start: the program's path, then its argument list."""

    program: str
    argv: list[str]
    cwd: str
    env: dict[str, str]
    stdin: bytes | None = None
    alone: bool = False  # the environment is `env` only, nothing is inherited


class Spawner:
    """Starts processes in sessions of their own, with no signal blocked or ignored; used by one thread at a time."""

    def __init__(self) -> None:
        self._inherited = dict(os.environb)  # as bytes: os.environ would decode and encode it for each process

    def spawn(self, command: Command, env: Mapping[str, str], redirections: Redirections) -> int:
        """Returns the pid of a new process; raises OSError or ValueError if it cannot be started.

        Its environment is `env` and, unless the command runs alone, what is inherited. This process may change to its
        directory to start it there.
        """
        os.chdir(command.cwd)  # also if we are in it already: it may have been removed and made again since
        own = {os.fsencode(name): os.fsencode(value) for name, value in env.items()}
        return os.posix_spawn(
            command.program,
            command.argv,
            own if command.alone else {**self._inherited, **own},
            file_actions=[(os.POSIX_SPAWN_DUP2, fd, number) for number, fd in enumerate(redirections)],
            setsid=True,
            setsigmask=[],
            setsigdef=DEFAULTED,
        )


class GlibcSpawner(Spawner):
    """Calls posix_spawn of glibc; what it is given is kept, as far as it comes again."""

    def __init__(self, library: Any) -> None:
        import ctypes

        super().__init__()
        self._library = library
        self._texts, self._buffer = ctypes.c_char_p, ctypes.create_string_buffer
        self._pid = ctypes.c_int()
        self._pid_pointer = ctypes.byref(self._pid)
        self._prepared: dict[tuple[Redirections, str], Any] = {}
        self._program, self._argv = "", [""]  # those of the last process
        self._environments: dict[tuple[bool, tuple[str, ...]], tuple[int, Any]] = {}
        signals, self._attributes = self._buffer(OBJECT_SIZE), self._buffer(OBJECT_SIZE)
        library.posix_spawnattr_init(self._attributes)
        library.sigemptyset(signals)
        library.posix_spawnattr_setsigmask(self._attributes, signals)
        for one in DEFAULTED:
            library.sigaddset(signals, int(one))
        library.posix_spawnattr_setsigdefault(self._attributes, signals)
        library.posix_spawnattr_setflags(self._attributes, ctypes.c_short(FLAGS))

    def spawn(self, command: Command, env: Mapping[str, str], redirections: Redirections) -> int:
        names = (command.alone, tuple(env))
        first, environment = self._environments.get(names) or self._make_environment(*names)
        environment[first : first + len(env)] = _encoded(map("=".join, env.items()), len(env))
        if command.argv != self._argv or command.program != self._program:  # those of a grader are always the same
            self._set_arguments(command.program, command.argv)
        actions = self._prepared.get((redirections, command.cwd)) or self._prepare(redirections, command.cwd)
        error = self._library.posix_spawn(
            *(self._pid_pointer, self._path, actions, self._attributes, self._arguments, environment)
        )
        if error:
            raise OSError(error, os.strerror(error), command.program)
        return self._pid.value

    def _set_arguments(self, program: str, argv: list[str]) -> None:
        if not argv or not argv[0]:
            raise ValueError("the first argument, the name of the program, is empty")
        self._path, *words = _encoded((program, *argv), 1 + len(argv))
        self._arguments = (self._texts * (1 + len(argv)))(*words)  # which ends with a null pointer
        self._program, self._argv = program, list(argv)

    def _make_environment(self, alone: bool, names: tuple[str, ...]) -> tuple[int, Any]:
        """Returns an array of what is inherited, with room for these names, and the first index of that."""
        if len(self._environments) == MOST_KEPT:
            self._environments.clear()
        if not all(name and "=" not in name[1:] for name in names):
            raise ValueError("illegal environment variable name")
        own = set(map(os.fsencode, names))
        inherited = [b"%b=%b" % entry for entry in self._inherited.items() if not alone and entry[0] not in own]
        made = len(inherited), (self._texts * (len(inherited) + len(names) + 1))(*inherited)
        self._environments[alone, names] = made
        return made

    def _prepare(self, redirections: Redirections, cwd: str) -> Any:
        """Returns the file actions that change the directory and make descriptors stdin, stdout and stderr."""
        if len(self._prepared) == MOST_KEPT:
            for old in self._prepared.values():
                self._library.posix_spawn_file_actions_destroy(old)
            self._prepared.clear()
        actions = self._buffer(OBJECT_SIZE)
        self._library.posix_spawn_file_actions_init(actions)
        error = self._library.posix_spawn_file_actions_addchdir_np(actions, os.fsencode(cwd))
        for number, fd in enumerate(redirections):
            error = error or self._library.posix_spawn_file_actions_adddup2(actions, fd, number)
        if error:
            raise OSError(error, os.strerror(error))
        self._prepared[redirections, cwd] = actions
        return actions


def _encoded(texts: Iterable[str], number: int) -> list[bytes]:
    """Returns so many texts as the system takes them; raises ValueError if one has a null byte."""
    words = "\0".join(texts).encode(ENCODING, ERRORS).split(b"\0") if number else []
    if len(words) != number:
        raise ValueError("embedded null byte")
    return words


def new_spawner() -> Spawner:
    """Returns what starts processes best on this system."""
    if sys.platform == "linux":
        import ctypes

        library = ctypes.CDLL(None)
        if hasattr(library, "gnu_get_libc_version") and hasattr(library, "posix_spawn_file_actions_addchdir_np"):
            return GlibcSpawner(library)
    return Spawner()
