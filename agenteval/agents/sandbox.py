"""The sandbox around a command, built by bubblewrap, podman or docker: for ae-sandbox and for --sandbox.

Data flow: `find_sandbox` makes sure that the engine works and finds the files of the programs that are to run →
`Sandbox.behind` turns a command into the one that starts it in the sandbox. bubblewrap is started in place of the
command, and its processes are found and ended like any other's. A container is not a child process of ours:
ae-sandbox starts and ends it (`run_behind`).
"""

import os
import re
import select
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from glob import escape, glob

import msgspec
from msgspec.structs import replace

from agenteval.errors import CannotGoOn, Stopped, UserError
from agenteval.processes.pool import exit_at_once_on_signals, raise_on_signals
from agenteval.processes.process import Command, describe_start_failure, find_program
from agenteval.processes.supervisor import ProcessSupervisor

BUBBLEWRAP = "bwrap"
CONTAINERS = ("podman", "docker")
ENGINES = (BUBBLEWRAP, *CONTAINERS)
NETWORKS = ("none", "host")

# What every command sees of this machine, read-only; where one is a symbolic link, the link.
SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/opt", "/nix", "/gnu", "/snap")
# Of /etc, what root could read.
HIDDEN = (
    "/etc/shadow",
    "/etc/shadow-",
    "/etc/gshadow",
    "/etc/gshadow-",
    "/etc/ssh",
    "/etc/ssl/private",
    "/etc/sudoers",
)
# Links to what is outside of SYSTEM on some systems: name servers and certificates.
LINKED = ("/etc/resolv.conf", "/etc/localtime", "/etc/ssl/certs", "/etc/ssl/ca-bundle.pem")
# Variables that name certificates, which a program needs on a network with a proxy.
CERTIFICATES = ("SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
# Variables that name directories of the user's, which are not there.
OUTSIDE = (
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_STATE_HOME",
    "XDG_CACHE_HOME",
    "XDG_RUNTIME_DIR",
    "DBUS_SESSION_BUS_ADDRESS",
)
OF_THE_IMAGE = frozenset(("PATH", "HOME", "SHELL", "USER", "LOGNAME"))  # variables that an image has its own of
CAN_MOUNT = 1 << 21  # CAP_SYS_ADMIN
CHECK_TIMEOUT = 60.0  # seconds for an engine to say that it works
CONTAINER_GRACE = 1.0  # seconds between SIGTERM and the end of a container; we get SIGKILL after two
# A container ends with its first process, which is this one: it starts the command, passes SIGTERM on to it, exits
# with its exit code, and exits when we are gone, of which the end of a pipe tells.
LIFELINE = "/run/agenteval-lifeline"
FIRST_PROCESS = f"""
exec 3<&0 4>&2 2>/dev/null
"$@" <&3 2>&4 3<&- 4>&- &
command=$!
exec 3<&-
trap "exit 137" USR1
trap "kill -TERM $command" TERM INT
{{ exec 5<{LIFELINE}; read -r _ <&5; kill -USR1 $$; }} &
while :; do wait $command; code=$?; kill -0 $command || exit $code; done
"""


class Sandbox(msgspec.Struct, frozen=True):
    """A sandbox that works: its engine, and what is seen through it."""

    engine: str
    program: str  # the engine's path
    net: str
    image: str | None = None
    image_id: str | None = None
    arguments: tuple[str, ...] = ()  # more words for the `run` of podman or docker
    read: tuple[str, ...] = ()  # files and directories to be readable, besides the programs'
    places: tuple[str, ...] = ()  # those of the programs
    links: dict[str, str] = {}  # symbolic links that lead to them

    @property
    def identity(self) -> str:
        """Returns what tells this sandbox from another: an agent in another one is another agent."""
        return " ".join(filter(None, [self.engine, f"net={self.net}", self.image_id, *self.arguments, *self.read]))

    def showing(self, programs: Iterable[str]) -> "Sandbox":
        """Returns the sandbox with the installations of programs readable: names on PATH, and paths."""
        links, places = installations(programs) if self.engine == BUBBLEWRAP else ({}, ())
        return replace(self, links=links, places=places)

    def mounting(self, places: Mapping[str, str]) -> "Sandbox":
        """Returns the sandbox of a container with directories at other paths in it, where the image may be written to.

        Such a container runs the tests of a task, which expect the system that they were written for.
        """
        mounts = [f"type=bind,source={source},target={target}" for target, source in places.items()]
        words = [word for mount in mounts for word in ("--mount", mount)]
        return replace(self, arguments=(*self.arguments, "--read-only=false", *words))

    def behind(
        self, command: Command, home: str, write: Iterable[str] = (), named: Iterable[str] | None = None
    ) -> Command:
        """Returns how to start a command in the sandbox; it may write to its directory, HOME and `write`.

        `named` are the variables that a container gets: all that the command sets if None.
        """
        writable = list(dict.fromkeys([command.cwd, home, *write]))
        if self.engine != BUBBLEWRAP:
            return self._by_tool(command, home, writable, command.env if named is None else named)
        temporary = command.env.get("TMPDIR") or ("" if command.alone else os.environ.get("TMPDIR", ""))
        words = [
            *self._system(),
            *(word for link, target in self.links.items() for word in ("--symlink", target, link)),
            *(word for place in (*self.places, *self.read) for word in ("--ro-bind", place, place)),
            *(["--tmpfs", temporary] if temporary and temporary not in writable else []),
            *(word for place in writable for word in ("--bind", place, place)),
            *("--remount-ro", "/", "--chdir", command.cwd),
            *(word for name in OUTSIDE if name not in command.env for word in ("--unsetenv", name)),
        ]
        env = {**command.env, "HOME": home}
        argv = [BUBBLEWRAP, *words, "--", command.program, *command.argv[1:]]
        return replace(command, program=self.program, argv=argv, env=env, answers=home)

    def _system(self) -> list[str]:
        """Returns the words for namespaces, system, /proc, /dev and /tmp."""
        words = ["--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try", "--cap-drop", "ALL"]
        words += [] if _can_mount() else ["--unshare-user"]
        words += ["--unshare-net"] if self.net == "none" else []
        for place in filter(os.path.exists, SYSTEM):
            words += ["--symlink", os.readlink(place), place] if os.path.islink(place) else ["--ro-bind", place, place]
        words += ["--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--tmpfs", "/var/tmp", "--dir", "/run"]
        if os.getuid() == 0:  # root may write there even without capabilities, and so have the kernel run a program
            words += ["--ro-bind", "/proc/sys", "/proc/sys"]
            for place in HIDDEN:
                if os.path.exists(place):
                    words += ["--tmpfs", place] if os.path.isdir(place) else ["--ro-bind", os.devnull, place]
        certificates = filter(None, map(os.environ.get, CERTIFICATES))
        for place in dict.fromkeys(map(os.path.realpath, (*LINKED, *certificates))):
            words += [] if is_system(place) or not os.path.exists(place) else ["--ro-bind", place, place]
        return words

    def _by_tool(self, command: Command, home: str, writable: list[str], named: Iterable[str]) -> Command:
        """Returns the ae-sandbox that starts a container; the engine needs the user's own HOME and environment."""
        env = {name: command.env[name] for name in named if name in command.env and name not in OF_THE_IMAGE}
        options = {
            "--writable": [place for place in writable if place not in (home, command.cwd)],
            "--readable": self.read,
            "--env": sorted(env),
            "--engine-arg": self.arguments,
        }
        words = ["--engine", self.engine, "--image", self.image or "", "--net", self.net, "--home", home]
        words += [word for option, values in options.items() for value in values for word in (option, value)]
        argv = ["ae-sandbox", *words, "--", *command.argv]
        return Command(find_program("ae-sandbox"), argv, command.cwd, env, command.stdin, answers=home)


# --- which engine -------------------------------------------------------------------------------


def find_sandbox(
    engine: str,
    net: str,
    image: str | None = None,
    *,
    read: Sequence[str] = (),
    arguments: Sequence[str] = (),
    option: str = "--sandbox",
) -> Sandbox:
    """Returns a sandbox whose engine works, "" for the one that is installed; UserError says what to do if none is.

    `option` is the one that names the engine.
    """
    of_image = "--image" if option == "--engine" else "--sandbox-image"
    if not engine:
        engine = next((name for name in (CONTAINERS if image else ENGINES) if shutil.which(name)), BUBBLEWRAP)
    program = shutil.which(engine)
    if program is None:
        how = "apt-get install bubblewrap, dnf install bubblewrap" if engine == BUBBLEWRAP else f"install {engine}"
        raise UserError(f"{option} {engine}: {engine} is not installed: {how}")
    if image is not None and engine == BUBBLEWRAP:
        raise UserError(f"{of_image} is for podman and docker; in a bwrap sandbox a command sees this system")
    if image is None and engine != BUBBLEWRAP:
        raise UserError(f"{option} {engine} needs {of_image} IMAGE, with the command in it")
    if missing := next((place for place in read if not os.path.exists(place)), None):
        raise UserError(f"{missing}: no such file or directory to show in the sandbox")
    read = tuple(map(os.path.abspath, read))
    sandbox = Sandbox(engine, program, net, image, arguments=tuple(arguments), read=read)
    if image is not None:
        found = _ask([program, "image", "inspect", "--format", "{{.Id}}", image])
        if found.returncode:
            raise UserError(f"{option} {engine}: {_last_line(found)} (to get an image: {engine} pull {image})")
        return replace(sandbox, image_id=found.stdout.strip())
    command = Command(find_program("true"), ["true"], "/tmp", {}, alone=True)
    found = _ask(sandbox.behind(command, "/tmp").argv)
    if found.returncode:
        advice = "it needs user namespaces, or root with CAP_SYS_ADMIN"
        raise UserError(f"{option} bwrap does not work here: {_last_line(found)} ({advice})")
    return sandbox


def _ask(argv: list[str]) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(argv, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=CHECK_TIMEOUT)
    except (OSError, subprocess.TimeoutExpired) as error:
        return subprocess.CompletedProcess(argv, 1, "", str(error))


def _last_line(done: subprocess.CompletedProcess[str]) -> str:
    return (done.stderr.strip() or "it printed nothing").splitlines()[-1]


def _can_mount() -> bool:
    """Whether bubblewrap can do without a user namespace: root in most containers cannot."""
    with open("/proc/self/status", encoding="utf-8") as file:
        return bool(int(re.findall(r"^CapEff:\s*(\w+)", file.read(), re.MULTILINE)[0], 16) & CAN_MOUNT)


# --- the installation of a program --------------------------------------------------------------


def programs_of(words: Sequence[str]) -> list[str]:
    """Returns what a command line of a user's names as programs: the command, and files by an absolute path."""
    return [*words[:1], *(word for word in words[1:] if os.path.isabs(word) and os.path.isfile(word))]


def programs_of_line(line: str) -> list[str]:
    """Returns what in a shell line may be a program: names on PATH, and absolute paths."""
    words = dict.fromkeys(re.findall(r"[\w./+-]+", line))
    return [word for word in words if (os.path.isfile(word) if os.path.isabs(word) else shutil.which(word))]


def installations(programs: Iterable[str]) -> tuple[dict[str, str], tuple[str, ...]]:
    """Returns the symbolic links and the files and directories of programs and of what interprets them."""
    links: dict[str, str] = {}
    places: dict[str, None] = {}
    todo = [name for name in programs if name]
    seen = set()
    while todo:
        name = todo.pop()
        path = os.path.abspath(name) if "/" in name else shutil.which(name)
        if path is None or path in seen or not os.path.isfile(path):
            continue
        seen.add(path)
        file = follow(path, links)
        environment = os.path.dirname(os.path.dirname(path))
        if os.path.exists(os.path.join(environment, "pyvenv.cfg")):  # its python is a link out of it
            places[follow(environment, links)] = None
        places[package_of(file)] = None
        todo += interpreter_of(file)
    kept = [place for place in places if not is_system(place)]
    kept = [place for place in kept if not any(is_below(place, other) for other in kept if other != place)]
    shown = {link: to for link, to in links.items() if not is_system(link) and not is_any_below(link, kept)}
    return shown, tuple(kept)


def follow(path: str, links: dict[str, str]) -> str:
    """Returns where a path leads, and adds the symbolic links on the way to `links`."""
    reached, todo = "/", path.split("/")
    while todo:
        part = todo.pop(0)
        step = os.path.normpath(os.path.join(reached, part))
        if os.path.islink(step):
            links[step] = target = os.readlink(step)
            reached, todo = "/" if os.path.isabs(target) else reached, target.split("/") + todo
        else:
            reached = step
    return reached


def package_of(file: str) -> str:
    """Returns the directory that a program was installed with, or the file itself if it needs no other."""
    parts = file.split("/")
    if "node_modules" in parts:
        return "/".join(parts[: parts.index("node_modules") + 1])  # with what it depends on
    home, folder = os.path.expanduser("~"), os.path.dirname(file)
    prefix = os.path.dirname(folder)
    owned = glob(f"{escape(prefix)}/lib/python3*/os.py") or os.path.isdir(f"{prefix}/lib/node_modules")
    if os.path.basename(folder) == "bin" and owned and prefix not in (home, f"{home}/.local"):
        return prefix  # that of a Python or a node
    below = os.path.relpath(folder, home).split("/")
    if len(below) > 1 and re.match(r"\.[^.]", below[0]):
        return folder  # ~/.local/share/NAME/versions/1.0
    return file


def interpreter_of(file: str) -> list[str]:
    """Returns the programs that the #! line of a script names."""
    try:
        with open(file, "rb") as script:
            first = script.readline(512)
    except OSError:
        return []
    words = os.fsdecode(first[2:]).split() if first.startswith(b"#!") else []
    if words and os.path.basename(words[0]) == "env":
        words = [word for word in words[1:] if not word.startswith("-") and "=" not in word]
    return words[:1]


def is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder}/")


def is_any_below(path: str, folders: Iterable[str]) -> bool:
    return any(is_below(path, folder) for folder in folders)


def is_system(path: str) -> bool:
    """Whether a path is of the system, which every command sees."""
    return is_any_below(path, SYSTEM)


# --- ae-sandbox ---------------------------------------------------------------------------------


def run_behind(sandbox: Sandbox, command: Command, home: str | None, write: Sequence[str]) -> int:
    """Runs a command in the sandbox on our stdin, stdout and stderr; returns its exit code, 128 + N for signal N."""
    processes = ProcessSupervisor()
    name = f"agenteval-{os.urandom(8).hex()}"
    raise_on_signals()
    try:
        home = home or processes.scratch.new_directory()
        if sandbox.engine == BUBBLEWRAP:
            temporary = processes.scratch.new_directory()
            given = replace(command, env={"TMPDIR": temporary, **command.env})
            started = sandbox.behind(given, home, [*write, temporary])
        else:
            lifeline = processes.scratch.new_name()
            os.mkfifo(lifeline)
            os.chmod(lifeline, 0o644)
            os.open(lifeline, os.O_RDWR)  # is closed when we end, however that is
            started = in_container(sandbox, command, name, home, write, lifeline)
        child = processes.start(processes.new_agent_key(), started, 0, 1, 2)
        poll = select.poll()
        poll.register(child.ended, select.POLLIN)
        poll.poll()
        status, _left = processes.collect(child)
        return status if status >= 0 else 128 - status
    except (OSError, ValueError) as error:
        raise CannotGoOn(describe_start_failure(error, command.argv[0], command.cwd)) from None
    except Stopped:
        exit_at_once_on_signals()
        if sandbox.engine != BUBBLEWRAP:  # whose client may be killed while the container runs on
            processes.terminate_tree(None, CONTAINER_GRACE)
            _ask([sandbox.program, "rm", "--force", name])
        raise
    finally:
        processes.close()


def in_container(
    sandbox: Sandbox, command: Command, name: str, home: str, write: Sequence[str], lifeline: str
) -> Command:
    """Returns the engine's command line that runs a command in a container of that name."""
    words = [
        *("run", "--rm", "--interactive", "--pull", "never", "--name", name, "--label", "agenteval"),
        *("--network", sandbox.net, "--stop-timeout", "0", "--memory", "2g", "--cpus", "1", "--pids-limit", "512"),
        *("--read-only", "--tmpfs", "/tmp", "--cap-drop", "ALL", "--security-opt", "no-new-privileges"),
        *("--user", f"{os.getuid()}:{os.getgid()}", "--workdir", command.cwd, "--env", f"HOME={home}"),
    ]
    if sandbox.engine == "podman" and os.getuid() != 0:
        words += ["--userns", "keep-id"]
    for place in dict.fromkeys((command.cwd, home, *write)):
        words += ["--mount", f"type=bind,source={place},target={place}"]
    for place in sandbox.read:
        words += ["--mount", f"type=bind,source={place},target={place},readonly"]
    words += ["--mount", f"type=bind,source={lifeline},target={LIFELINE}"]
    for variable in command.env:
        words += ["--env", variable]  # the name alone: every user of this machine can read a command line
    words += [*sandbox.arguments, sandbox.image or "", "/bin/sh", "-c", FIRST_PROCESS, "agenteval", *command.argv]
    return replace(command, program=sandbox.program, argv=[sandbox.engine, *words])
