"""Faults: what is done to a tool while it runs. Each is drawn by its weight and says which exit codes it allows."""

from __future__ import annotations

import atexit
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from tests.chaos.processes import command_of, handles, has_open, is_guardian, is_stopped, of_round

SMALL_DISK = 48 << 10  # bytes: a few records
FILE_LIMIT = 6 << 10
WORKERS = ("FilterWorker", "NodeWorker")
DAY = 86_400  # seconds
SECOND_LONGEST = 90.0  # seconds that a second tool may take
FORGED = b'{"id":"forged","input":"i","score":{"pass":true,"score":1.0}}\n'


@dataclass
class Target:
    """A running tool and the directories of its round."""

    process: subprocess.Popen[bytes]
    mark: str
    folder: Path
    rng: random.Random
    output: str = "out.jsonl"
    longest: float = 0.9  # seconds until the fault, at most
    argv: list[str] = field(default_factory=list)
    env: dict[str, str] = field(default_factory=dict)
    forged: bool = False  # whether others have written into the output while the tool had it open
    removed_late: bool = False  # whether the output was removed when the tool did not have it open

    def wait(self, seconds: float) -> bool:
        """Waits; returns whether the tool still runs."""
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(seconds)
        return self.process.poll() is None

    def wait_until_started(self) -> bool:
        """Waits until the tool handles signals: while Python itself starts, Ctrl-C shows a traceback of it."""
        while self.process.poll() is None:
            if handles(self.process.pid, signal.SIGTERM):
                return True
            time.sleep(0.005)
        return False

    def others(self) -> list[int]:
        """Returns the other processes of the round: agents, graders and what they started; of Ray, the workers."""
        found = of_round(self.mark, self.folder)
        own = found.pop(self.process.pid, None)  # the guardian has the same command line
        return [pid for pid, line in found.items() if line != own and _is_no_part_of_ray(line)]

    def guardians(self) -> list[int]:
        """Returns the guardian of the tool."""
        return [pid for pid in of_round(self.mark, self.folder) if is_guardian(pid)]


def _is_no_part_of_ray(line: str) -> bool:
    return any(name in line for name in WORKERS) or not (line.startswith("ray::") or "/ray" in line)


@dataclass
class Fault:
    """What is done to the tool, and the exit codes it may then have besides 0 and 1."""

    act: Callable[[Target], None]
    weight: float = 1.0
    codes: tuple[int, ...] = ()  # 2: what was killed is the start of a grader, to see whether it can be loaded
    stdout: str = "file"  # or closed, slow: a pipe
    stdin: str = "file"  # or slow: a pipe
    fails: bool = False  # whether records may have `errors` or `graderError`, or be missing, because of it
    limit: int | None = None  # RLIMIT_FSIZE
    alone: bool = False  # not with a second output, which it would cost, too
    disk: int | None = None  # size of the file system of the output, which root can mount
    env: Callable[[Path], dict[str, str]] = lambda _folder: {}  # more variables for the tool


def _later(act: Callable[[Target], None]) -> Callable[[Target], None]:
    """Returns the act, done at a random moment; not at all if the tool ends before."""

    def wait_and_act(target: Target) -> None:
        if target.wait(target.rng.uniform(0.0, target.longest)):
            act(target)

    return wait_and_act


def _send(signum: int) -> Callable[[Target], None]:
    def send(target: Target) -> None:
        if signum != signal.SIGINT or target.wait_until_started():
            target.process.send_signal(signum)

    return _later(send)


def _kill_group(target: Target) -> None:
    os.killpg(target.process.pid, signal.SIGKILL)


def _interrupt_twice(target: Target) -> None:
    if not target.wait_until_started():
        return
    target.process.send_signal(signal.SIGINT)
    if target.wait(target.rng.uniform(0.0, 0.3)):
        target.process.send_signal(signal.SIGINT)


def _stop_for_a_while(pids: list[int], target: Target) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP)
    time.sleep(target.rng.uniform(0.05, 0.4))
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


def _stop_tool(target: Target) -> None:
    _stop_for_a_while([target.process.pid], target)


def _stop_others(target: Target) -> None:
    others = target.others() + target.guardians()
    _stop_for_a_while(target.rng.sample(others, min(len(others), 3)), target)


def _stop_for_good(choose: Callable[[Target], list[int]]) -> Callable[[Target], None]:
    """Returns what stops processes and never lets them go on: a limit of time has to end them."""

    def stop(target: Target) -> None:
        for pid in choose(target):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)

    return _later(stop)


def _one_of_the_others(target: Target) -> list[int]:
    others = [pid for pid in target.others() if command_of(pid) != "git"]  # which has ten minutes
    return target.rng.sample(others, min(len(others), 1))


def _fill_and_empty(target: Target) -> None:
    """Fills the small disk of the output, and makes room again a moment later."""
    filler = target.folder / "out" / "filler"
    with suppress(OSError), filler.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))
    time.sleep(target.rng.uniform(0.0, 0.3))
    filler.unlink(missing_ok=True)


def _kill_some(target: Target) -> None:
    for _ in range(3):
        if others := target.others():
            with suppress(ProcessLookupError):
                os.kill(target.rng.choice(others), signal.SIGKILL)
        if not target.wait(0.1):
            return


def _kill_guardian(target: Target) -> None:
    for pid in target.guardians():
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _stop_then_kill(target: Target) -> None:
    """Kills a tool that cannot do anything more, with agents that are stopped."""
    for pid in [target.process.pid, *target.others()]:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP)
    target.process.kill()


def _remove(name: str) -> Callable[[Target], None]:
    return _later(lambda target: _remove_now(target, name))


def _remove_now(target: Target, name: str) -> None:
    path = target.folder / name.replace("OUTPUT", target.output)
    for one in [path] if path.is_dir() else list(path.parent.glob(path.name)):
        shutil.rmtree(one, ignore_errors=True) if one.is_dir() else one.unlink(missing_ok=True)


def _stop_if_open(target: Target) -> bool:
    """Stops the tool; returns whether it has its output open."""
    tool = target.process
    tool.send_signal(signal.SIGSTOP)
    while tool.poll() is None and not is_stopped(tool.pid):
        time.sleep(0.001)
    return has_open(tool.pid, target.folder / "out" / target.output)


def _remove_output(name: str) -> Callable[[Target], None]:
    """Returns what removes the output of a tool that is stopped meanwhile, and notes whether it can still notice that.

    It restores a file that is removed while it has it open. What happens to one that it has closed is not its concern.
    """

    def remove(target: Target) -> None:
        target.removed_late = not _stop_if_open(target)
        _remove_now(target, name)
        target.process.send_signal(signal.SIGCONT)

    return _later(remove)


def _write_everywhere(target: Target) -> None:
    """Adds to every file that an agent can reach: the output, journals, markers, locks, scratch files.

    The output only while the tool has it open: what happens to it before and after is not the tool's concern, nor is
    another output.
    """
    output = target.folder / "out" / target.output
    is_open = _stop_if_open(target)
    for place in (f"out/{target.output}*", "tmp/**/*", "ws/.agenteval/**/*"):
        for path in target.folder.glob(place):
            if path.is_file() and not path.is_symlink() and (path != output or is_open):
                with path.open("ab") as file:
                    file.write(FORGED if path == output else target.rng.choice([FORGED, b"\xff\xfe\n", b"no JSON"]))
    target.forged = is_open
    target.process.send_signal(signal.SIGCONT)


def _second_tool(target: Target) -> None:
    """Starts the same command a second time, on the same output."""
    second = subprocess.Popen(
        target.argv,
        cwd=target.folder,
        env=target.env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    try:
        said = second.communicate(timeout=SECOND_LONGEST)[1].decode("utf-8", "replace")
    except subprocess.TimeoutExpired:
        second.kill()
        raise AssertionError(f"a second tool did not end within {SECOND_LONGEST:.0f} s") from None
    refused = second.returncode == 2 and "another tool is writing to it" in said
    assert refused or (second.returncode in (0, 1) and "Traceback" not in said), f"{second.returncode}: {said}"


def _set_the_clock(target: Target) -> None:
    """Sets the clock of the tool and its agents forward and back until it ends."""
    while target.wait(target.rng.uniform(0.02, 0.2)):
        new = target.folder / "clock.new"
        new.write_text(str(target.rng.choice([0, 3 * DAY, -2000 * DAY, -10, 3600])))
        new.replace(target.folder / "clock")


def _with_a_clock(folder: Path) -> dict[str, str]:
    (folder / "clock").write_text("0")
    return {"LD_PRELOAD": str(clock_library()), "CHAOS_CLOCK": str(folder / "clock")}


@cache
def clock_library() -> Path | None:
    """Compiles what sets the clock of a process; None where there is no C compiler, or no LD_PRELOAD."""
    if sys.platform != "linux" or shutil.which("cc") is None:
        return None
    library = Path(tempfile.mkdtemp(prefix="ae-clock-")) / "clock.so"
    atexit.register(shutil.rmtree, library.parent, ignore_errors=True)
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, Path(__file__).with_name("clock.c")], check=True)
    library.parent.chmod(0o755)  # agents that become another user load it, too
    return library


def _nothing(_target: Target) -> None:
    pass


FAULTS: dict[str, Fault] = {
    "none": Fault(_nothing, weight=0.5),
    "SIGKILL": Fault(_later(lambda target: target.process.kill()), weight=3, codes=(-9,)),
    "SIGKILL to the group": Fault(_later(_kill_group), codes=(-9,)),
    "SIGSTOP, then SIGKILL": Fault(_later(_stop_then_kill), codes=(-9,)),
    "SIGTERM": Fault(_send(signal.SIGTERM), codes=(143, -15)),
    "SIGINT": Fault(_send(signal.SIGINT), codes=(130, -2)),
    "SIGHUP": Fault(_send(signal.SIGHUP), codes=(129, -1)),
    "SIGINT twice": Fault(_later(_interrupt_twice), codes=(130, -2)),
    "SIGSTOP and SIGCONT": Fault(_later(_stop_tool), fails=True),
    "agents stopped": Fault(_later(_stop_others), fails=True),
    "agents killed": Fault(_later(_kill_some), codes=(2,), fails=True),
    "guardian killed": Fault(_later(_kill_guardian)),
    "guardian stopped for good": Fault(_stop_for_good(lambda target: target.guardians())),
    "agent or grader stopped for good": Fault(_stop_for_good(_one_of_the_others), codes=(2,), fails=True),
    "disk that fills and empties": Fault(_later(_fill_and_empty), fails=True, disk=8 * SMALL_DISK),
    "full disk": Fault(_nothing, weight=2, fails=True, disk=SMALL_DISK),
    "file size limit": Fault(_nothing, fails=True, limit=FILE_LIMIT),
    "closed pipe": Fault(_nothing, weight=1.5, stdout="closed"),
    "slow pipe": Fault(_nothing, stdout="slow"),
    "slow input": Fault(_nothing, stdin="slow"),
    "output removed": Fault(_remove_output("out/OUTPUT"), fails=True),
    "unfinished records removed": Fault(_remove("out/OUTPUT.unfinished"), fails=True),
    "output directory removed": Fault(_remove_output("out"), fails=True, alone=True),
    "working directory removed": Fault(_remove("here"), fails=True),
    "workspaces removed": Fault(_remove("ws"), fails=True),
    "a workspace removed": Fault(_remove("ws/prompt-p1*"), fails=True),
    "everything written to": Fault(_later(_write_everywhere), weight=2, fails=True),
    "a second tool": Fault(_later(_second_tool), codes=(2,), fails=True),
    "clock set forward and back": Fault(_set_the_clock, weight=2, env=_with_a_clock),
    "TMPDIR removed": Fault(_remove("tmp"), fails=True),
}


RAY_FAULTS = [
    "none",
    "SIGKILL",
    "SIGTERM",
    "SIGINT",
    "SIGINT twice",
    "SIGHUP",
    "agents killed",
    "closed pipe",
    "slow pipe",
]


def may_mount() -> bool:
    """Returns whether a small file system can be mounted here."""
    if os.geteuid() != 0 or shutil.which("mount") is None:
        return False
    return (
        subprocess.run(["unshare", "--mount", "mount", "-t", "tmpfs", "none", "/mnt"], capture_output=True).returncode
        == 0
    )


def possible_faults() -> list[str]:
    """Returns the names of the faults that can be had here."""
    mounts = may_mount()
    possible = [name for name, fault in FAULTS.items() if mounts or fault.disk is None]
    return [name for name in possible if FAULTS[name].env is not _with_a_clock or clock_library()]


def limit_files(limit: int | None) -> Callable[[], None] | None:
    """Returns what sets the limit in the process to be; SIGXFSZ is ignored in Python, so that writes fail."""
    if limit is None:
        return None
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
