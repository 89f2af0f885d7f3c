"""ae-sandbox and --sandbox, with real bubblewrap: what a command sees behind the wall, and how it ends."""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from agenteval.agents.sandbox import follow, installations, programs_of, programs_of_line
from tests.support.tool import Record, jsonl, run, script, start, write
from tests.support.watching import PATIENCE, until, with_time_enough

NOBODY = 65534


def _works() -> bool:
    bwrap = shutil.which("bwrap")
    wall = ("--ro-bind", "/", "/", "--unshare-pid", "--proc", "/proc", "true")
    return bwrap is not None and subprocess.run([bwrap, *wall], capture_output=True).returncode == 0


bubblewrap = pytest.mark.skipif(not _works(), reason="bubblewrap is not installed, or cannot make namespaces here")


@pytest.fixture
def token() -> Iterator[str]:
    """A duration for `sleep` that identifies the processes of one test; those that still run afterwards are killed."""
    word = f"9{time.time_ns() % 10**12:012}"
    yield word
    for pid in sleepers(word):
        os.kill(pid, signal.SIGKILL)


def sleepers(token: str) -> list[int]:
    found = subprocess.run(["pgrep", "-fx", f"sleep {token}"], capture_output=True, text=True)
    return [int(pid) for pid in found.stdout.split()]


def wait_for(number: int, token: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while len(sleepers(token)) != number:
        assert time.monotonic() < deadline, f"{sleepers(token)} are sleeping, expected {number}"
        time.sleep(0.02)


# --- ae-sandbox ---------------------------------------------------------------------------------


@bubblewrap
def test_what_a_command_sees(tmp_path: Path) -> None:
    home, work, other = (tmp_path / name for name in ("home", "work", "other"))
    for folder in (home, work, other):
        folder.mkdir()
        (folder / "file").write_text("mine\n")
    seen = (
        'cat; echo err >&2; echo "$PLAIN/${SECRET-unset}/${XDG_CONFIG_HOME-unset}"; cat file; '
        f"cat {home}/file {tmp_path}/hidden 2>&1; cat {other}/file; "
        f"echo new >> file; (echo x > {other}/new) 2>/dev/null || echo read-only; "
        "for place in /usr/x /etc/x /x /proc/sys/kernel/core_pattern; do\n"
        "    (: >> $place) 2>/dev/null && echo wrote $place; done\n"
        f"cat /etc/shadow; kill -0 {os.getpid()} && echo sees processes; "
        "test -d $TMPDIR && echo t > $TMPDIR/t && echo h > ~/h && ls ~; exit 7"
    )
    (tmp_path / "hidden").write_text("hint\n")
    env = {"HOME": str(home), "SECRET": "not-for-it", "PLAIN": "a b", "XDG_CONFIG_HOME": str(home)}
    done = run(
        "ae-sandbox", "--readable", other, "--env", "PLAIN", "--", "sh", "-c", seen, stdin="in\n", cwd=work, env=env
    )
    gone = "No such file or directory"
    assert done.expect(7).stdout.splitlines() == [
        "in",
        "a b/unset/unset",
        "mine",
        f"cat: {home}/file: {gone}",
        f"cat: {tmp_path}/hidden: {gone}",
        "mine",
        "read-only",
        "h",
    ], done
    assert done.messages[0] == "err"
    assert (work / "file").read_text() == "mine\nnew\n"
    assert not (other / "new").exists()
    kept = run("ae-sandbox", "--home", home, "--writable", other, "--", "sh", "-c", f"touch ~/h {other}/o", cwd=work)
    kept.expect(0, stderr="")
    assert (home / "h").exists() and (other / "o").exists()


@bubblewrap
@pytest.mark.parametrize(("given", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGKILL, -9)])
def test_a_signal_ends_everything_inside(tmp_path: Path, token: str, given: int, code: int) -> None:
    inside = f"trap 'echo bye; exit' TERM; sleep {token} & setsid sleep {token} & echo up; wait"
    process = start("ae-sandbox", "--", "sh", "-c", inside, cwd=tmp_path)
    assert (stdout := process.stdout)
    until(lambda: select.select([stdout], [], [], 0)[0], "it has printed, which it does last")
    wait_for(2, token)
    process.send_signal(given)
    out, _err = process.communicate(timeout=PATIENCE)
    wait_for(0, token)
    assert process.returncode == code
    assert out == (b"up\n" if given == signal.SIGKILL else b"up\nbye\n"), "it has time to clean up"


@bubblewrap
def test_what_is_left_running_ends_with_the_command(tmp_path: Path, token: str) -> None:
    done = run("ae-sandbox", "--", "sh", "-c", f"setsid sleep {token} & kill -9 $$", cwd=tmp_path)
    assert (done.code, sleepers(token)) == (128 + 9, []), done


@bubblewrap
def test_without_root(tmp_path: Path) -> None:
    if os.getuid() != 0:
        pytest.skip("every test here runs without root")
    tool = (
        f"import os, sys; sys.path[0] = {str(Path(__file__).parents[2])!r}\n"
        "import encodings.ascii, encodings.latin_1, encodings.unicode_escape\n"  # is not readable later on
        "from agenteval.cli.tools.sandbox import main\n"
        f"os.setgroups([]); os.setgid({NOBODY}); os.setuid({NOBODY})\n"
        "main(sys.argv[1:])"
    )
    with tempfile.TemporaryDirectory(prefix="ae-sandbox-") as work:
        os.chmod(work, 0o777)
        hidden = Path(work).with_name(f"{Path(work).name}-other")
        hidden.write_text("hidden\n")
        words = (
            f"id -u; cat {hidden}; touch made; (: >> /proc/sys/kernel/core_pattern) 2>/dev/null; kill -0 1 && echo $$"
        )
        done = subprocess.run(
            [sys.executable, "-c", tool, "--", "sh", "-c", words], cwd=work, capture_output=True, text=True, timeout=30
        )
        hidden.unlink()
        assert done.stdout == f"{NOBODY}\n2\n", done
        assert os.listdir(work) == ["made"]


def test_usage(tmp_path: Path) -> None:
    for name in ("true", "sh"):
        os.symlink(str(shutil.which(name)), tmp_path / name)
    nothing = {"PATH": str(tmp_path)}
    run("ae-sandbox", "--", "true", env=nothing).expect(2).says("bwrap", "not installed: apt-get install bubblewrap")
    prompts = write(tmp_path / "prompts.jsonl", {"id": "a", "input": "hi"})
    agent = ("--shell", "touch started", "--workspace-dir", tmp_path / "ws")
    done = run("ae-run", prompts, "--sandbox", *agent, cwd=tmp_path, env=nothing)
    done.expect(2).says("--sandbox bwrap: bwrap is not installed")
    assert not (tmp_path / "ws").exists()
    run("ae-sandbox", env=nothing).expect(2).says("name the command after --")
    run("ae-sandbox", "--engine", "docker", "--", "true", env=nothing).expect(2).says("install docker")
    run("ae-run", prompts, "--sandbox-net", "none", *agent, cwd=tmp_path).expect(2).says(
        "--sandbox-net needs --sandbox"
    )
    script(tmp_path / "bwrap", "echo 'bwrap: setting up uid map: Permission denied' >&2; exit 1")
    run("ae-sandbox", "--", "true", env=nothing).expect(2).says("bwrap does not work here", "uid map")
    run("ae-run", prompts, "--sandbox", *agent[:2], cwd=tmp_path).expect(2).says("--workspace-dir DIR, or --cwd DIR")
    inside = ("ae-run", prompts, "--sandbox", *agent[:2], "-c", tmp_path)
    run(*inside, cwd=tmp_path).expect(2).says("agents could read", "prompts.jsonl")


# --- the installation of a program --------------------------------------------------------------


def test_the_installation_of_a_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "home"
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("PATH", f"{home}/.local/bin:{home}/node/bin:/usr/bin")
    package = home / "node" / "lib" / "node_modules" / "@x" / "agent"
    environment, python = home / "venvs" / "tool", home / "pythons" / "3.12"
    versions = home / ".local" / "share" / "native" / "versions"
    for folder in (package, environment / "bin", python / "bin", python / "lib/python3.12", versions / "1"):
        folder.mkdir(parents=True)
    for folder in (home / "node" / "bin", home / ".local" / "bin", home / "project"):
        folder.mkdir(exist_ok=True, parents=True)
    script(home / "node" / "bin" / "node", "")
    (package / "cli.js").write_text("#!/usr/bin/env -S node --flag\n")
    (package / "cli.js").chmod(0o755)
    (home / ".local" / "bin" / "agent").symlink_to("../../node/lib/node_modules/@x/agent/cli.js")
    (environment / "pyvenv.cfg").touch()
    (python / "lib" / "python3.12" / "os.py").touch()
    script(python / "bin" / "python3.12", "")
    (environment / "bin" / "python").symlink_to(python / "bin" / "python3.12")
    (environment / "bin" / "tool").write_text(f"#!{environment}/bin/python\n")
    (environment / "bin" / "tool").chmod(0o755)
    (home / ".local" / "bin" / "tool").symlink_to(environment / "bin" / "tool")
    script(versions / "1" / "native", "")
    (home / ".local" / "bin" / "native").symlink_to(versions / "1" / "native")
    own = script(home / "project" / "agent", "")

    def found(*programs: str) -> tuple[set[str], set[str]]:
        links, places = installations(programs)
        return {path.removeprefix(f"{home}/") for path in links}, {path.removeprefix(f"{home}/") for path in places}

    assert found("agent") == ({".local/bin/agent"}, {"node"}), "node, and the packages installed with it"
    assert found("tool") == ({".local/bin/tool"}, {"venvs/tool", "pythons/3.12"})
    assert found("native") == ({".local/bin/native"}, {".local/share/native/versions/1"})
    assert found(str(own)) == (set(), {"project/agent"}), "not what lies beside it"
    assert found("sh", "no-such-program") == (set(), set())
    assert programs_of(["python3", str(own), "{}", "relative", "/no/such"]) == ["python3", str(own)]
    assert programs_of_line(f"cat x | agent -p; {own} && exit") == ["cat", "agent", str(own)]
    links: dict[str, str] = {}
    assert follow(str(home / ".local" / "bin" / "agent"), links) == str(package / "cli.js")


# --- --sandbox ----------------------------------------------------------------------------------


@bubblewrap
def test_agents_see_neither_prompts_nor_each_other(tmp_path: Path) -> None:
    """Two turns of one session share a HOME; of another prompt, the prompts and the user's HOME nothing is seen."""
    installed = tmp_path / "home" / ".local" / "share" / "agent"
    installed.mkdir(parents=True)
    agent = script(
        installed / "run",
        '. "$(dirname "$(readlink -f "$0")")/library"; answer=$(says "$@" 2>&1 | tr "\\n" " "); '
        'printf \'{"type":"result","session_id":"s1","result":"%s","is_error":false}\\n\' "$answer"',
    )
    (installed / "library").write_text(
        "says() { echo made > made; cat ~/notes ../*/made $ROOT/prompts.jsonl $ROOT/home/.netrc\n"
        "echo $* | tr -cd '[:alnum:] ' > ~/notes; }"
    )
    (tmp_path / "home" / ".netrc").write_text("secret\n")
    launcher = tmp_path / "bin" / "claude"
    launcher.parent.mkdir()
    launcher.symlink_to(agent)
    prompts = write(
        tmp_path / "prompts.jsonl",
        {"id": "one", "input": ["number 42", "again"], "hint": "h"},
        {"id": "two", "input": "again", "hint": "h"},
    )
    env = {"HOME": str(tmp_path / "home"), "PATH": f"{launcher.parent}:{os.environ['PATH']}", "ROOT": str(tmp_path)}
    options = ("-s", "claude", "--sandbox", "--workspace-dir", "ws", "--keep-order")
    command = ("ae-capture", prompts, *options, "-o", "results.jsonl")
    run(*command, cwd=tmp_path, env=env).expect(0, stderr="")
    one, two = map(json.loads, (tmp_path / "results.jsonl").read_text().splitlines())
    gone = "No such file or directory"
    assert f"prompts.jsonl: {gone}" in two["output"] and f".netrc: {gone}" in two["output"], two
    assert f"/notes: {gone} made cat" in two["output"], "one file of that name: its own"
    assert "number 42" in one["output"], "the second turn finds what the first left in HOME"
    assert (tmp_path / "ws" / "prompt-one" / "made").exists()
    assert one["metadata"]["sandbox"] == "bwrap net=host"
    # Behind another wall it is another agent, and --resume does not mix the two.
    other = run(*command, "--resume", "--sandbox-net", "none", cwd=tmp_path, env=env)
    other.expect(2).says("another command")
    run(*command, "--resume", cwd=tmp_path, env=env).expect(0)
    kept = run("ae-capture", prompts, *options, "--isolate", cwd=tmp_path, env=env).expect(0).records
    assert "number 42" in kept[0]["output"] and f"/notes: {gone} made cat" in kept[1]["output"]
    assert "again" in (tmp_path / "ws" / "prompt-two.home" / "notes").read_text(), "the HOME that --isolate gives"
    plan = run("ae-run", prompts, *options, "--dry-run", cwd=tmp_path, env=env).expect(0).records[0]
    assert plan["command"][0] == "bwrap" and {"--unshare-pid", str(launcher)} < set(plan["command"])


@bubblewrap
def test_limits_hold_behind_the_wall(tmp_path: Path, token: str) -> None:
    ignoring = f"trap '' TERM; echo started; setsid sleep {token} & sleep {token} & while :; do sleep {token}; done"
    flushing = f"trap 'echo flushed; exit' TERM; echo started; sleep {token} & wait"
    leaving = f"setsid sleep {token} & echo done"
    flooding = "while :; do echo 0123456789; done"

    def check(limit: int) -> None:
        prompts = jsonl(
            {"id": "ignoring", "input": ignoring, "timeout": limit},
            {"id": "flushing", "input": flushing, "timeout": limit},
            {"id": "leaving", "input": leaving},
            {"id": "flooding", "input": flooding},
            {"id": "failing", "input": "echo oops >&2; exit 3"},
        )
        options = ("--sandbox", "--workspace-dir", "ws", "-j", 5, "--max-output", 10_000)
        done = run("ae-run", "--simple", "sh -c {}", *options, stdin=prompts, cwd=tmp_path).expect(0)
        raw: dict[str, Record] = {record["id"]: record for record in done.records}
        assert sleepers(token) == []
        assert raw["ignoring"]["timedOut"] and raw["ignoring"]["rawLines"] == ["started"]
        assert raw["flushing"]["timedOut"] and raw["flushing"]["rawLines"] == ["started", "flushed"]
        assert not raw["leaving"]["timedOut"] and raw["leaving"]["rawLines"] == ["done"]
        assert "exceeded 10000 bytes" in raw["flooding"]["errors"][0]
        assert (raw["failing"]["exitCode"], raw["failing"]["errors"]) == (3, ["exited with code 3: oops"])

    with_time_enough(check, 500)


@bubblewrap
def test_the_network(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        line = f"bash -c 'exec 3<>/dev/tcp/127.0.0.1/{port}' 2>/dev/null && echo reached || echo not: $PROMPT"
        prompts = write(tmp_path / "prompts.jsonl", {"id": "a", "input": "reached"})
        options = ("ae-run", prompts, "--shell", line, "--sandbox", "--workspace-dir", tmp_path / "ws")
        lines = [run(*options, "--sandbox-net", net).expect(0).records[0]["rawLines"] for net in ("host", "none")]
    assert lines == [["reached"], ["not: reached"]]


@bubblewrap
def test_the_answer_file_and_acp(tmp_path: Path) -> None:
    """An agent that writes its answer to a file can; so can one that converses, on its stdin."""
    schema = {
        "version": 1,
        "name": "filer",
        "command": [str(script(tmp_path / "filer", 'echo "{\\"text\\": \\"$4\\"}" > "$3"'))],
        "sessionMode": "iterative",
        "prompt": {"flag": ""},
        "output": {"flag": "--json", "fileFlag": "-o"},
        "outputMode": "passthrough",
    }
    (tmp_path / "filer.json").write_text(json.dumps(schema))
    prompts = write(tmp_path / "prompts.jsonl", {"id": "a", "input": "hello"})
    wall = ("--sandbox", "--workspace-dir", "ws")
    filed = run("ae-run", prompts, "-s", "filer.json", *wall, cwd=tmp_path).expect(0).records[0]
    assert filed["rawLines"] == ['{"text": "hello"}'], filed
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
    conversed = run("ae-capture", prompts, *wall, "--", agent, cwd=tmp_path).expect(0).records[0]
    assert conversed["output"] == f"I am in {conversed['cwd']}"


# --- graders ------------------------------------------------------------------------------------


@bubblewrap
def test_code_of_the_agent_runs_behind_the_wall(tmp_path: Path) -> None:
    """It sees the copy, the hidden tests in it and the record; neither the workspace, the user's files nor keys."""
    workspace, tests, tools = (tmp_path / name for name in ("ws", "tests", "tools"))
    for folder in (workspace, tests, tools):
        folder.mkdir()
    subprocess.run(["git", "init", "-q", workspace], check=True)
    (tests / "expected").write_text("42\n")
    (tmp_path / "secret").write_text("secret\n")
    script(tools / "same", 'cmp "$@"')  # a program of the user's own, on PATH
    script(
        workspace / "check.sh",
        f'echo "$KEY$(cat {tmp_path}/secret {workspace}/check.sh 2>&1 | grep -c "No such")"; echo 42 > made\n'
        'test -d ~ && test -n "$AE_ID" && grep -q "hint" "$AE_RECORD"',
    )
    record = {"id": "a", "input": "i", "output": "o", "hint": "hint", "cwd": str(workspace)}
    command = "sh check.sh && same made expected"
    env = {"PATH": f"{tools}:{os.environ['PATH']}", "KEY": "key-0123456789"}
    options = ("--sandbox", "--tests", tests, "--allow-unchanged", "--command", command)
    graded = run("ae-grader-git", *options, stdin=jsonl(record), cwd=tmp_path, env=env).expect(0).records[0]
    assert graded["pass"] and graded["outcome"]["output"] == "2\n", graded
    assert not (workspace / "made").exists()
    check = {"type": "command", "run": command, "tests": str(tests)}
    stdin = jsonl({**record, "checks": [check]})
    checked = run("ae-grader-checks", "--sandbox", stdin=stdin, cwd=tmp_path, env=env).expect(0).records[0]
    assert checked["pass"], checked
    without = jsonl({**record, "checks": [{**check, "run": "test -z $KEY"}]})
    assert not run("ae-grader-checks", stdin=without, cwd=tmp_path, env=env).expect(0).records[0]["pass"]
    run("ae-grader-git", "--sandbox-net", "none", stdin="").expect(2).says("no effect without --sandbox")
    run("ae-grader-git", "--sandbox", stdin="").expect(2).says("--sandbox needs --command")
