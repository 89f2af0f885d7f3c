"""examples/container, with the engines that can run a container here; without one, only what in-container asks for."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tests.support.tool import ROOT, Done, read, run, script, start, write

EXAMPLE = ROOT / "examples" / "container"
IN_CONTAINER = EXAMPLE / "in-container"
# Where a container may not raise its limits, or the kernel has cgroups of both versions, podman's defaults do not work.
MODEST = '[containers]\ndefault_ulimits = ["nofile=1024:1024", "nproc=4096:4096"]\n[engine]\nruntime = "runc"\n'
# What an engine needs to know of our environment.
PASSED_ON = ("DOCKER_HOST", "XDG_RUNTIME_DIR", "CONTAINERS_CONF", "DBUS_SESSION_BUS_ADDRESS")


@dataclass(frozen=True)
class Engine:
    """A container engine that works: its command, what it needs in the environment, and an image with busybox."""

    words: list[str]
    env: dict[str, str]
    image: str

    @property
    def settings(self) -> dict[str, str]:
        return {**self.env, "CONTAINER_ENGINE": shlex.join(self.words), "CONTAINER_IMAGE": self.image}

    def __call__(self, *arguments: object) -> str:
        command = [*self.words, *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **self.env}, timeout=120)
        if done.returncode != 0:
            raise OSError(f"{shlex.join(command)}: {done.stderr.strip()}")
        return done.stdout

    def containers(self) -> list[str]:
        """All that in-container has made and that are still there, running or not."""
        return self("ps", "-aq", "--filter", "label=agenteval").split()

    def add(self, image: str, folder: Path, *names: str) -> Engine:
        """The same engine with another image, which has executables of a folder besides."""
        lines = [f"FROM {self.image}", *(f"COPY {name} /usr/local/bin/{name}" for name in names)]
        (folder / "Containerfile").write_text("\n".join(lines))
        self("build", "-f", folder / "Containerfile", "-t", image, folder)
        return replace(self, image=image)


@pytest.fixture(scope="module", params=["podman", "docker"])
def engine(request: pytest.FixtureRequest) -> Iterator[Engine]:
    busybox = shutil.which("busybox")
    if shutil.which(request.param) is None or busybox is None:
        pytest.skip(f"{request.param} or busybox is not on PATH")
    folder = Path(tempfile.mkdtemp(prefix="ae-engine-"))  # pytest would remove its own while something is mounted there
    try:
        found = _working_engine(request.param, folder, _root_file_system(busybox, folder))
        yield found
        for arguments in (*(("rm", "-f", name) for name in found.containers()), ("rmi", "-f", found.image)):
            with contextlib.suppress(OSError):
                found(*arguments)
    finally:
        for place in [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines() if str(folder) in line]:
            subprocess.run(["umount", "-l", place], check=False)
        shutil.rmtree(folder, ignore_errors=True)


def _root_file_system(busybox: str, folder: Path) -> Path:
    """An archive of all that an image needs: busybox, by all its names."""
    archive = folder / "busybox.tar"
    names = subprocess.run([busybox, "--list"], capture_output=True, text=True, check=True).stdout.split()
    with tarfile.open(archive, "w") as tar:
        folder_of_all = tarfile.TarInfo("bin")
        folder_of_all.type, folder_of_all.mode = tarfile.DIRTYPE, 0o755
        tar.addfile(folder_of_all)
        tar.add(os.path.realpath(busybox), "bin/busybox")
        for name in {"sh", *names} - {"busybox"}:
            link = tarfile.TarInfo(f"bin/{name}")
            link.type, link.linkname = tarfile.SYMTYPE, "busybox"
            tar.addfile(link)
    return archive


def _working_engine(name: str, folder: Path, root: Path) -> Engine:
    env = {variable: os.environ[variable] for variable in PASSED_ON if variable in os.environ}
    image = f"localhost/agenteval-test-{os.getpid()}"
    if name == "podman":
        (folder / "containers.conf").write_text(MODEST)
        words = ["podman", "--root", str(folder / "root"), "--runroot", str(folder / "run")]
        modest = {**env, "CONTAINERS_CONF": str(folder / "containers.conf")}
        candidates = [Engine(words, env, image), Engine(words, modest, image)]
    else:
        candidates = [Engine([name], env, image)]
    why = ""
    for candidate in candidates:
        try:
            candidate("import", root, image)
            candidate("run", "--rm", "--network", "none", "--memory", "64m", image, "true")
            return candidate
        except (OSError, subprocess.TimeoutExpired) as error:
            why = str(error)
    pytest.skip(f"{name} cannot run a container here: {why}")


@pytest.fixture
def token() -> Iterator[str]:
    """A duration for `sleep` that identifies the processes of one test; those that still run afterwards are killed."""
    word = f"9{time.time_ns() % 10**12:012}"
    yield word
    for pid in sleepers(word):
        os.kill(pid, signal.SIGKILL)


def sleepers(token: str) -> list[int]:
    """Processes, in containers too, that have the token on their command line, and are none of ours."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            words = path.read_bytes().split(b"\0")
            if b"sleep" in words and token.encode() in words:
                found.append(int(path.parent.name))
    return found


def wait_for(condition: bool, token: str, seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while bool(sleepers(token)) != condition:
        assert time.monotonic() < deadline, f"sleeping: {sleepers(token)}, expected: {condition}"
        time.sleep(0.05)


def in_container(engine: Engine, *command: str, cwd: Path, stdin: str = "", **settings: str) -> Done:
    return run(str(IN_CONTAINER), *command, cwd=cwd, stdin=stdin, env={**engine.settings, **settings})


def without_times(text: str) -> str:
    return re.sub(r" +[\d.]+ m?s\b", " TIME", text)


# --- the example --------------------------------------------------------------------------------


def test_the_walls_hold(engine: Engine, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(EXAMPLE, copy, ignore=shutil.ignore_patterns("build"))
    image = f"{engine.image}-probe"
    env = {**engine.settings, "CONTAINER_IMAGE": image, "BASE": engine.image}
    done = run("/usr/bin/env", "make", "show", cwd=copy, env=env, timeout=120).expect(0)
    engine("rmi", "-f", image)
    readme = (copy / "README.md").read_text()
    (table,) = re.findall(r"^```text\n(.*?)^```", readme, re.DOTALL | re.MULTILINE)
    assert without_times(table) in without_times(done.stdout), done
    graded = {record["id"]: record for record in read(copy / "build" / "graded.jsonl")}
    workspace = Path(graded["greeting"]["cwd"])
    assert (workspace / "hello.txt").read_text() == f"Hello from {workspace}.\n", "the same path inside and outside"
    assert (workspace / "hello.txt").stat().st_uid == os.getuid()
    assert graded["forever"]["metadata"]["timedOut"] is True
    assert "I started" not in done.stdout


def test_a_bundled_adapter_with_two_turns(engine: Engine, tmp_path: Path) -> None:
    """The recipe of the README; a session that the first turn left in its home is there in the second."""
    script(
        tmp_path / "claude",
        'case "$*" in *--resume*) answer="It was: $(cat ~/notes)";; *) answer=Noted.; echo "$*" > ~/notes;; esac\n'
        'printf \'{"type":"result","session_id":"s1","result":"%s","is_error":false}\\n\' "$answer"',
    )
    with_claude = engine.add(f"{engine.image}-claude", tmp_path, "claude")
    schema = {**json.loads(run("ae-adapters", "claude").stdout), "command": [str(IN_CONTAINER), "claude"]}
    (tmp_path / "claude.json").write_text(json.dumps(schema))
    prompts = write(tmp_path / "prompts.jsonl", {"id": "two", "input": ["the number is 42", "what did I say?"]})
    env = {**with_claude.settings, "CONTAINER_HOME": "keep"}
    done = run("ae-capture", prompts, "-s", "claude.json", "--workspace-dir", "ws", cwd=tmp_path, env=env, timeout=90)
    engine("rmi", "-f", with_claude.image)
    assert "the number is 42" in done.expect(0).records[0]["output"], done
    assert (tmp_path / "ws" / "prompt-two.home" / "notes").exists()


def test_an_agent_of_the_protocol(engine: Engine, tmp_path: Path) -> None:
    agent = script(
        tmp_path / "acp-agent",
        'while read -r line; do id=$(echo "$line" | sed -n \'s/.*"id": *\\([0-9]*\\).*/\\1/p\'); case $line in\n'
        '*\\"initialize\\"*) result=\'{"protocolVersion":1,"agentCapabilities":{}}\';;\n'
        '*session/new*) result=\'{"sessionId":"s1"}\';;\n'
        '*session/prompt*) printf \'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1","update":'
        '{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"I am in %s"}}}}\\n\' "$(pwd)"\n'
        '    result=\'{"stopReason":"end_turn"}\';;\n'
        "*) continue;; esac\n"
        'printf \'{"jsonrpc":"2.0","id":%s,"result":%s}\\n\' "$id" "$result"; done',
    )
    with_agent = engine.add(f"{engine.image}-acp", tmp_path, agent.name)
    prompts = write(tmp_path / "prompts.jsonl", {"id": "a", "input": "Where are you?"})
    env = {**with_agent.settings, "CONTAINER_STDIN": "pass"}
    command = ("ae-capture", prompts, "--workspace-dir", "ws", "--", IN_CONTAINER, agent.name)
    done = run(*map(str, command), cwd=tmp_path, env=env, timeout=90).expect(0)
    engine("rmi", "-f", with_agent.image)
    assert done.records[0]["output"] == f"I am in {done.records[0]['cwd']}", done


# --- in-container -------------------------------------------------------------------------------


def test_exit_code_output_and_stdin(engine: Engine, tmp_path: Path) -> None:
    done = in_container(engine, "sh", "-c", "echo out; echo err >&2; cat; exit 7", cwd=tmp_path, stdin="unread")
    assert (done.code, done.stdout, done.stderr) == (7, "out\n", "err\n"), done
    passed = in_container(engine, "cat", cwd=tmp_path, stdin="words\n", CONTAINER_STDIN="pass").expect(0)
    assert passed.stdout == "words\n"


def test_variables_get_in_by_name(engine: Engine, tmp_path: Path) -> None:
    names = {"CONTAINER_ENV": "DEMO_KEY PLAIN", "DEMO_KEY": "secret-0123456789", "PLAIN": "a b", "OTHER": "hidden"}
    done = in_container(engine, "sh", "-c", 'echo "$DEMO_KEY/$PLAIN/${OTHER-unset}"', cwd=tmp_path, **names)
    assert done.expect(0).stdout == "secret-0123456789/a b/unset\n"
    prompts = write(tmp_path / "prompts.jsonl", {"id": "a", "input": "echo $DEMO_KEY"})
    agent = ("--simple", f"{IN_CONTAINER} sh -c {{}}")
    recorded = run("ae-run", prompts, *agent, cwd=tmp_path, env={**engine.settings, **names}).expect(0)
    assert recorded.records[0]["rawLines"] == ["[redacted:DEMO_KEY]"]


def test_a_container_has_a_longest_life(engine: Engine, tmp_path: Path, token: str) -> None:
    done = in_container(engine, "sleep", token, cwd=tmp_path, CONTAINER_SECONDS="1")
    assert done.code == 137
    assert sleepers(token) == []


def test_a_timeout_ends_a_container_that_ignores_it(engine: Engine, tmp_path: Path, token: str) -> None:
    stubborn = f"trap '' TERM INT HUP; echo started; sleep {token} & sleep {token}; sleep {token}"
    prompts = write(tmp_path / "prompts.jsonl", {"id": "a", "input": stubborn}, {"id": "b", "input": f"sleep {token}"})
    agent = ("--simple", f"{IN_CONTAINER} sh -c {{}}", "--workspace-dir", "ws")
    done = run("ae-run", prompts, *agent, "-t", 6000, "-j", 2, cwd=tmp_path, env=engine.settings, timeout=60).expect(0)
    assert [record["timedOut"] for record in done.records] == [True, True]
    assert ["started"] in [record["rawLines"] for record in done.records]
    wait_for(False, token)


@pytest.mark.skipif(sys.platform != "linux", reason="nothing ends the agents of a tool that was killed")
def test_when_the_tool_is_killed(engine: Engine, tmp_path: Path, token: str) -> None:
    prompts = write(tmp_path / "prompts.jsonl", {"id": "a", "input": token})
    agent = ("--simple", f"{IN_CONTAINER} sleep {{}}")
    tool = start("ae-run", prompts, *agent, "-t", 100_000, cwd=tmp_path, env=engine.settings)
    wait_for(True, token)
    tool.kill()
    tool.communicate()
    wait_for(False, token)


def test_when_in_container_is_killed(engine: Engine, tmp_path: Path, token: str) -> None:
    process = start(str(IN_CONTAINER), "sleep", token, cwd=tmp_path, env=engine.settings, stdin=None)
    wait_for(True, token)
    process.kill()
    wait_for(False, token)
    process.communicate()


# --- without an engine --------------------------------------------------------------------------


def stand_in(folder: Path) -> dict[str, str]:
    """An engine that prints what it is asked to do."""
    folder.mkdir()
    script(folder / "podman", 'printf "%s\\n" "$@"')
    return {"PATH": f"{folder}:{os.defpath}"}


def test_what_the_engine_is_asked_for(tmp_path: Path) -> None:
    names = {"CONTAINER_ENV": "DEMO_KEY", "DEMO_KEY": "secret-0123456789", "CONTAINER_OPTIONS": "--gpus all"}
    done = run(str(IN_CONTAINER), "agent", "a b", cwd=tmp_path, env={**stand_in(tmp_path / "bin"), **names}).expect(0)
    words = done.stdout.splitlines()
    expected = {"--network": "none", "--memory": "2g", "--cpus": "1", "--pids-limit": "512", "--cap-drop": "ALL"}
    expected |= {"--volume": f"{tmp_path}:{tmp_path}", "--workdir": str(tmp_path), "--gpus": "all"}
    expected |= {"--user": f"{os.getuid()}:{os.getgid()}", "--security-opt": "no-new-privileges"}
    for option, value in expected.items():
        assert words[words.index(option) + 1] == value
    assert {"--rm", "--read-only", "DEMO_KEY"} <= set(words)
    assert "secret-0123456789" not in done.stdout, "every user of the machine can read a command line"
    assert words[-2:] == ["agent", "a b"]


def test_usage(tmp_path: Path) -> None:
    run(str(IN_CONTAINER), cwd=tmp_path, env=stand_in(tmp_path / "bin")).expect(125).says("name a command")
    (tmp_path / "none").mkdir()
    for name in ("sh", "od", "tr", "id"):
        os.symlink(str(shutil.which(name)), tmp_path / "none" / name)
    nothing = run(str(IN_CONTAINER), "agent", cwd=tmp_path, env={"PATH": str(tmp_path / "none")})
    nothing.expect(125).says("neither podman nor docker is on PATH")
