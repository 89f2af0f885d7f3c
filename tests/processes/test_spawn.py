"""Starting processes: the direct call of glibc's posix_spawn gives a process the same as os.posix_spawn does."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from agenteval.processes.spawn import MOST_KEPT, Command, GlibcSpawner, Spawner, new_spawner

SHOW = """
import json, os, signal, sys
ignored = [int(one) for one in signal.valid_signals() if signal.getsignal(one) == signal.SIG_IGN]
json.dump({
    "argv": sys.argv[1:],
    "env": {name: value for name, value in os.environ.items() if name.startswith("SPAWN_")},
    "inherits": "SPAWN_OUTER" in os.environ,
    "leads a session": os.getsid(0) == os.getpid(),
    "blocked": [int(one) for one in signal.pthread_sigmask(signal.SIG_BLOCK, [])],
    "ignored": [one for one in ignored if one not in (signal.SIGPIPE, signal.SIGXFSZ)],  # by Python itself
    "stdin": os.read(0, 100).decode(),
    "descriptors": sorted(map(int, os.listdir("/proc/self/fd")))[:3],
}, sys.stdout)
"""

pytestmark = pytest.mark.skipif(not isinstance(new_spawner(), GlibcSpawner), reason="this C library is not glibc")


@pytest.fixture(params=["glibc", "os"])
def spawner(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Spawner]:
    monkeypatch.setenv("SPAWN_OUTER", "ä\udcff")
    monkeypatch.chdir(Path.cwd())  # where it is again after the test
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    yield new_spawner() if request.param == "glibc" else Spawner()
    signal.signal(signal.SIGINT, before)


def shown_by(spawner: Spawner, argv: list[str], env: dict[str, str], *, alone: bool = False) -> dict[str, object]:
    """Returns what a process finds that is started with these arguments and variables."""
    given, stdin = os.pipe()
    os.write(stdin, b"given")
    os.close(stdin)
    ours, stdout = os.pipe()
    command = Command(sys.executable, ["python", "-c", SHOW, *argv], "/", env, alone=alone)
    pid = spawner.spawn(command, env, (given, stdout, 2))
    os.close(stdout)
    os.close(given)
    with open(ours, "rb") as file:
        printed = file.read()
    assert os.waitpid(pid, 0)[1] == 0
    return dict(json.loads(printed))


def test_what_a_process_gets(spawner: Spawner) -> None:
    shown = shown_by(spawner, ["a b", "ö"], {"SPAWN_OWN": "x=y"})
    assert shown == {
        "argv": ["a b", "ö"],
        "env": {"SPAWN_OUTER": "ä\udcff", "SPAWN_OWN": "x=y"},
        "inherits": True,
        "leads a session": True,
        "blocked": [],
        "ignored": [],
        "stdin": "given",
        "descriptors": [0, 1, 2],
    }


def test_the_next_process_gets_its_own_variables(spawner: Spawner) -> None:
    for env in ({"SPAWN_A": "1"}, {"SPAWN_A": "2"}, {"SPAWN_OUTER": "3"}, {}, {"SPAWN_B": "", "SPAWN_A": "4"}):
        assert shown_by(spawner, [], env)["env"] == {"SPAWN_OUTER": "ä\udcff"} | env


def test_a_process_alone_inherits_nothing(spawner: Spawner) -> None:
    shown = shown_by(spawner, [], {"SPAWN_OWN": "1"}, alone=True)
    assert (shown["env"], shown["inherits"]) == ({"SPAWN_OWN": "1"}, False)


def test_more_combinations_than_are_kept(spawner: Spawner) -> None:
    held = [os.dup(1) for _ in range(MOST_KEPT + 2)]
    for fd in held:
        env = {f"SPAWN_{fd}": "1"}
        pid = spawner.spawn(Command("/bin/true", ["true"], "/", env), env, (0, fd, 2))
        assert os.waitpid(pid, 0)[1] == 0
        os.close(fd)
    assert shown_by(spawner, [], {"SPAWN_LAST": "1"})["stdin"] == "given"


def test_each_process_runs_in_its_own_directory(spawner: Spawner, tmp_path: Path) -> None:
    here = Path.cwd()
    for number in range(MOST_KEPT + 2):
        directory = tmp_path / f"ä{number}"
        directory.mkdir()
        command = Command("/bin/sh", ["sh", "-c", "pwd >here"], str(directory), {})
        assert os.waitpid(spawner.spawn(command, {}, (0, 1, 2)), 0)[1] == 0
        assert (directory / "here").read_text() == f"{directory}\n"
        if isinstance(spawner, GlibcSpawner):
            assert Path.cwd() == here
    with pytest.raises(FileNotFoundError):
        spawner.spawn(Command("/bin/true", ["true"], str(tmp_path / "missing"), {}), {}, (0, 1, 2))


def test_a_program_that_cannot_be_started(spawner: Spawner, tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("echo")
    (tmp_path / "data").write_bytes(b"\x00\x01")
    (tmp_path / "data").chmod(0o755)
    for program, argument, expected in (
        (tmp_path / "missing", "", FileNotFoundError),
        (tmp_path / "plain", "", PermissionError),
        (tmp_path, "", PermissionError),
        (tmp_path / "data", "", OSError),
        (Path("/bin/true"), "x" * (1 << 17), OSError),
    ):
        with pytest.raises(OSError) as raised:
            spawner.spawn(Command(str(program), ["x", argument], "/", {}), {}, (0, 1, 2))
        assert type(raised.value) is expected
        assert raised.value.filename == str(program)


@pytest.mark.parametrize(
    ("program", "argv", "env"),
    [
        ("/bin/true", ["true", "a\0b"], {}),
        ("/bin/tr\0ue", ["true"], {}),
        ("/bin/true", ["true"], {"NAME": "a\0b"}),
        ("/bin/true", ["true"], {"NA\0ME": "b"}),
        ("/bin/true", ["true"], {"NA=ME": "b"}),
        ("/bin/true", ["true"], {"": "b"}),
        ("/bin/true", ["true", "\ud800"], {}),
        ("/bin/true", [""], {}),
        ("/bin/true", [], {}),
    ],
)
def test_what_no_process_can_be_given(spawner: Spawner, program: str, argv: list[str], env: dict[str, str]) -> None:
    with pytest.raises(ValueError):
        spawner.spawn(Command(program, argv, "/", env), env, (0, 1, 2))
