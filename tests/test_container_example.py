"""examples/container, and ae-sandbox with the engines that can run a container here; else only what it asks for."""

from __future__ import annotations

import contextlib
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

from tests.support.tool import BIN, ROOT, Done, read, run, script, start, write

EXAMPLE = ROOT / "examples" / "container"
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
    def name(self) -> str:
        return Path(self.words[0]).name

    @property
    def settings(self) -> list[str]:
        """The options of a run in its containers."""
        return ["--sandbox", self.name, "--sandbox-image", self.image, "--sandbox-net", "none"]

    def __call__(self, *arguments: object) -> str:
        command = [*self.words, *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **self.env}, timeout=120)
        if done.returncode != 0:
            raise OSError(f"{shlex.join(command)}: {done.stderr.strip()}")
        return done.stdout

    def containers(self) -> list[str]:
        """All that ae-sandbox has made and that are still there, running or not."""
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
        found = working_engine(request.param, folder, _root_file_system(busybox, folder))
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


def working_engine(name: str, folder: Path, root: Path) -> Engine:
    env = {variable: os.environ[variable] for variable in PASSED_ON if variable in os.environ}
    image = f"localhost/agenteval-test-{os.getpid()}"
    if name == "podman":
        (folder / "containers.conf").write_text(MODEST)
        (folder / "bin").mkdir()
        own = f"{shutil.which(name)} --root {folder}/root --runroot {folder}/run"
        words = [str(script(folder / "bin" / name, f'exec {own} "$@"'))]
        env["PATH"] = f"{folder}/bin:{BIN}:{os.environ['PATH']}"
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


def in_container(engine: Engine, *words: str, cwd: Path, stdin: str = "", **env: str) -> Done:
    options = ("--engine", engine.name, "--image", engine.image)
    return run("ae-sandbox", *options, *words, cwd=cwd, stdin=stdin, env={**engine.env, **env})


def without_times(text: str) -> str:
    return re.sub(r" +[\d.]+ m?s\b", " TIME", text)


# --- the example --------------------------------------------------------------------------------


def test_the_walls_hold(engine: Engine, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(EXAMPLE, copy, ignore=shutil.ignore_patterns("build"))
    image = f"{engine.image}-probe"
    env = {**engine.env, "CONTAINER_ENGINE": engine.name, "CONTAINER_IMAGE": image, "BASE": engine.image}
    done = run("/usr/bin/env", "make", "show", cwd=copy, env=env, timeout=120).expect(0)
    assert done.page() == copy / "build" / "report.html"
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
    """A session that the first turn left in its HOME is there in the second."""
    script(
        tmp_path / "claude",
        'case "$*" in *--resume*) answer="It was: $(cat ~/notes)";; *) answer=Noted.; echo "$*" > ~/notes;; esac\n'
        'printf \'{"type":"result","session_id":"s1","result":"%s","is_error":false}\\n\' "$answer"',
    )
    with_claude = engine.add(f"{engine.image}-claude", tmp_path, "claude")
    prompts = write(tmp_path / "prompts.jsonl", {"id": "two", "input": ["the number is 42", "what did I say?"]})
    options = (*with_claude.settings, "--workspace-dir", "ws")
    done = run("ae-capture", prompts, "-s", "bundled:claude", *options, cwd=tmp_path, env=engine.env, timeout=90)
    engine("rmi", "-f", with_claude.image)
    assert "the number is 42" in done.expect(0).records[0]["output"], done
    assert done.records[0]["metadata"]["sandbox"].startswith(f"{engine.name} net=none ")


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
    command = ("ae-capture", prompts, *with_agent.settings, "--workspace-dir", "ws", "--", agent.name)
    done = run(*map(str, command), cwd=tmp_path, env=engine.env, timeout=90).expect(0)
    engine("rmi", "-f", with_agent.image)
    assert done.records[0]["output"] == f"I am in {done.records[0]['cwd']}", done


# --- ae-sandbox ---------------------------------------------------------------------------------


def test_exit_code_output_stdin_and_variables(engine: Engine, tmp_path: Path) -> None:
    words = ("--env", "DEMO_KEY", "--env", "PLAIN=a b", "--", "sh", "-c")
    line = 'echo "$DEMO_KEY/$PLAIN/${OTHER-unset}"; echo err >&2; cat; echo made > made; test -d ~; exit 7'
    env = {"DEMO_KEY": "secret-0123456789", "OTHER": "hidden"}
    done = in_container(engine, *words, line, cwd=tmp_path, stdin="words\n", **env)
    assert (done.code, done.stdout, done.stderr) == (7, "secret-0123456789/a b/unset\nwords\n", "err\n"), done
    assert (tmp_path / "made").stat().st_uid == os.getuid()


def test_a_timeout_ends_a_container_that_ignores_it(engine: Engine, tmp_path: Path, token: str) -> None:
    stubborn = f"trap '' TERM INT HUP; echo started; sleep {token} & sleep {token}; sleep {token}"
    prompts = write(tmp_path / "prompts.jsonl", {"id": "a", "input": stubborn}, {"id": "b", "input": f"sleep {token}"})
    agent = ("--simple", "sh -c {}", *engine.settings, "--workspace-dir", "ws")
    done = run("ae-run", prompts, *agent, "-t", 6000, "-j", 2, cwd=tmp_path, env=engine.env, timeout=60).expect(0)
    assert [record["timedOut"] for record in done.records] == [True, True]
    assert ["started"] in [record["rawLines"] for record in done.records]
    wait_for(False, token)


@pytest.mark.skipif(sys.platform != "linux", reason="nothing ends the agents of a tool that was killed")
def test_when_the_tool_is_killed(engine: Engine, tmp_path: Path, token: str) -> None:
    prompts = write(tmp_path / "prompts.jsonl", {"id": "a", "input": token})
    agent = ("--simple", "sleep {}", *engine.settings, "--workspace-dir", "ws")
    tool = start("ae-run", prompts, *agent, "-t", 100_000, cwd=tmp_path, env=engine.env)
    wait_for(True, token)
    tool.kill()
    tool.communicate()
    wait_for(False, token)


@pytest.mark.parametrize("given", [signal.SIGTERM, signal.SIGKILL])
def test_when_ae_sandbox_is_ended(engine: Engine, tmp_path: Path, token: str, given: int) -> None:
    options = ("--engine", engine.name, "--image", engine.image)
    process = start("ae-sandbox", *options, "--", "sleep", token, cwd=tmp_path, env=engine.env)  # its stdin stays open
    wait_for(True, token)
    process.send_signal(given)
    wait_for(False, token)
    process.communicate()


# --- without an engine --------------------------------------------------------------------------


def stand_in(folder: Path) -> dict[str, str]:
    """An engine that has every image, and prints what it is asked to run."""
    folder.mkdir()
    for name in ("podman", "docker"):
        script(folder / name, 'if [ "$1" = image ]; then echo sha256:123; else printf "%s\\n" "$@"; fi')
    return {"PATH": f"{folder}:{os.defpath}"}


@pytest.mark.parametrize("engine", ["podman", "docker"])
def test_what_the_engine_is_asked_for(tmp_path: Path, engine: str) -> None:
    env = {**stand_in(tmp_path / "bin"), "DEMO_KEY": "secret-0123456789"}
    options = ("--engine", engine, "--image", "box", "--env", "DEMO_KEY", "--engine-arg=--gpus", "--engine-arg", "all")
    done = run("ae-sandbox", *options, "--", "agent", "a b", cwd=tmp_path, env=env).expect(0)
    words = done.stdout.splitlines()
    expected = {"--network": "none", "--memory": "2g", "--cpus": "1", "--pids-limit": "512", "--cap-drop": "ALL"}
    expected |= {"--mount": f"type=bind,source={tmp_path},target={tmp_path}", "--workdir": str(tmp_path)}
    expected |= {"--user": f"{os.getuid()}:{os.getgid()}", "--security-opt": "no-new-privileges", "--gpus": "all"}
    for option, value in expected.items():
        assert words[words.index(option) + 1] == value
    assert {"--rm", "--read-only", "DEMO_KEY", "never"} <= set(words)
    assert "secret-0123456789" not in done.stdout, "every user of the machine can read a command line"
    assert words[-2:] == ["agent", "a b"]
    prompts = write(tmp_path / "prompts.jsonl", {"id": "a", "input": "hello"})
    wall = ("--sandbox", engine, "--sandbox-image", "box", "--workspace-dir", "ws")
    agent = (prompts, "--simple", "agent {}", *wall)
    plan = run("ae-run", *agent, "--dry-run", cwd=tmp_path, env=env).expect(0).records[0]
    assert plan["command"][:5] == ["ae-sandbox", "--engine", engine, "--image", "box"]
    assert plan["command"][-2:] == ["agent", "hello"]
    raw = run("ae-run", *agent, cwd=tmp_path, env=env).expect(0).records[0]
    assert raw["metadata"]["sandbox"] == f"{engine} net=host sha256:123"
    assert raw["rawLines"][-2:] == ["agent", "hello"]


def test_an_image_that_is_missing(tmp_path: Path) -> None:
    env = stand_in(tmp_path / "bin")
    script(tmp_path / "bin" / "docker", "echo 'Error: No such image: box' >&2; exit 1")
    missing = run("ae-sandbox", "--engine", "docker", "--image", "box", "--", "true", env=env)
    missing.expect(2).says("No such image: box", "docker pull box")
    run("ae-sandbox", "--engine", "docker", "--", "true", env=env).expect(2).says("needs --image IMAGE")
