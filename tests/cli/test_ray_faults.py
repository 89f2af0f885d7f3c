"""ae-ray on a real cluster: a driver is killed, a reader stops, Ctrl-C comes twice, many records: make test-cluster."""

from __future__ import annotations

import os
import signal
import socket
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support.ray_nodes import TwoNodes
from tests.support.tool import BIN, Record, read, run, start, write
from tests.support.watching import Running, expect_gone, sleepers, until

pytestmark = pytest.mark.cluster
SLOW = 180.0
MANY = 20_000


def prompts(count: int) -> list[dict[str, str]]:
    return [{"id": f"p{number}", "input": f"question {number}"} for number in range(count)]


def lines(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0


def test_a_driver_that_is_killed_and_resumed(two_nodes: TwoNodes, tmp_path: Path, mark: str) -> None:
    """The agents of a driver that is gone end, and --resume pays for no record twice."""
    write(tmp_path / "prompts.jsonl", *prompts(40))
    waits = f"test -e {tmp_path}/go || sleep {mark} & wait"
    agent = f'echo "$PROMPT" >> {tmp_path}/paid; case $PROMPT in *" "[0-5]) ;; *) {waits};; esac; echo fine'
    args = ("prompts.jsonl", "--address", two_nodes.address, "-j", 3, "-o", "out.jsonl", "--resume")
    command = ("--", "ae-run", "--shell", agent)
    with Running("ae-ray", *args, *command, cwd=tmp_path) as running:
        until(lambda: lines(tmp_path / "out.jsonl") == 6, "the first six records are written", SLOW)
        until(lambda: len(sleepers(mark)) == 3, "the agents of all slots run", SLOW)
        running.signal(signal.SIGKILL)
        running.process.wait()
    expect_gone(mark, SLOW)
    kept = [record["id"] for record in read(tmp_path / "out.jsonl")]
    (tmp_path / "go").touch()
    run("ae-ray", *args, *command, cwd=tmp_path, timeout=SLOW).expect(0)
    found = [record["id"] for record in read(tmp_path / "out.jsonl")]
    assert found[: len(kept)] == kept and sorted(found) == sorted(prompt["id"] for prompt in prompts(40))
    paid = (tmp_path / "paid").read_text().split("\n")
    again = {line for line in paid if line and paid.count(line) > 1}
    assert len(again) <= 2 * 3, "only what was under way is run again"


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGKILL])
def test_a_cluster_that_is_being_started_is_ended(signum: int, tmp_path: Path, mark: str) -> None:
    """Ray's own agents notice the end of their node only a minute after."""
    write(tmp_path / "prompts.jsonl", *prompts(1))
    args = ("prompts.jsonl", "--address", "local", "-j", 1, "--", "ae-run", "--shell", "echo fine")
    with Running("ae-ray", *args, cwd=tmp_path, env={"MARK": mark}) as running:
        until(lambda: any("dashboard/agent.py" in line for line in started(mark).values()), "the agents start", SLOW)
        running.signal(signum)
        running.process.wait()
    until(lambda: not started(mark), "nothing of the cluster is left", 30)


def started(mark: str) -> dict[str, str]:
    """Returns the processes with that mark in their environment: pid → command line."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if f"MARK={mark}".encode() in (folder / "environ").read_bytes():
                found[folder.name] = (folder / "cmdline").read_bytes().decode("utf-8", "replace")
    return found


def test_a_reader_that_stops_holds_the_agents_back(two_nodes: TwoNodes, tmp_path: Path) -> None:
    write(tmp_path / "prompts.jsonl", *prompts(400))
    agent = f"echo x >> {tmp_path}/started; head -c 20000 /dev/zero | tr '\\0' y; echo"
    args = ("prompts.jsonl", "--address", two_nodes.address, "-j", 3, "--", "ae-run", "--shell", agent)
    with Running("ae-ray", *args, cwd=tmp_path) as running:
        until(lambda: lines(tmp_path / "started") > 3, "agents run", SLOW)
        stalled = until(lambda: unchanged(tmp_path / "started"), "no more agents start", SLOW)
        assert stalled < 100, "a pipe and what is under way"
        found = [running.record(SLOW)["id"] for _ in range(400)]
        done = running.end(SLOW)
    assert done.code == 0 and sorted(found) == sorted(prompt["id"] for prompt in prompts(400)), done.stderr


def unchanged(path: Path) -> int:
    """Returns the number of lines if it has not changed for some seconds, else 0."""
    before = lines(path)
    time.sleep(5)
    return before if lines(path) == before else 0


def test_a_second_ctrl_c_ends_it_at_once(two_nodes: TwoNodes, tmp_path: Path, mark: str) -> None:
    agent = f"trap '' INT TERM; sleep {mark}"
    args = ("--address", two_nodes.address, "-j", 2, "--", "ae-run", "--shell", agent)
    with Running("ae-ray", *args, cwd=tmp_path) as running:
        running.feed(*prompts(4))
        until(lambda: len(sleepers(mark)) == 2, "two agents run", SLOW)
        running.signal(signal.SIGINT)
        running.signal(signal.SIGINT)
        done = running.end(SLOW)
    assert done.code in (130, -signal.SIGINT), done
    expect_gone(mark, SLOW)


def test_the_address_of_a_client(two_nodes: TwoNodes, tmp_path: Path) -> None:
    write(tmp_path / "prompts.jsonl", *prompts(6))
    (tmp_path / "grader.py").write_text('def grade(record):\n    return {"pass": True, "score": 1.0}\n')
    command = ("--", "ae-capture", "--simple", "echo {}", "-g", "grader.py")
    args = ("prompts.jsonl", "--address", two_nodes.client_address, "-j", 2, "--keep-order", *command)
    done = run("ae-ray", *args, cwd=tmp_path, timeout=SLOW).expect(0)
    assert done.ids == [prompt["id"] for prompt in prompts(6)] and all(one["score"]["pass"] for one in done.records)


def test_a_cluster_that_asks_for_a_token(tmp_path: Path) -> None:
    """`ray start` makes one if its user has a token; Ray uses that unasked for the cluster of this machine only."""
    pytest.importorskip("ray", reason="Ray is not installed: make test-cluster")
    write(tmp_path / "prompts.jsonl", *prompts(1))
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
    token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "t" * 64}
    command = [Path(sys.executable).with_name("ray"), "start", "--head", "--block", "--num-cpus=1"]
    command += ["--include-dashboard=false", "--disable-usage-stats", "--node-ip-address=127.0.0.1"]
    tool = str(BIN / "ae-ray")  # by its path: started and not forked, as Ray reads the token when it is loaded
    args = ("prompts.jsonl", "--address", address, "--", "ae-run", "--simple", "echo {}")
    with tempfile.TemporaryDirectory(prefix="ray-", dir="/tmp") as folder:  # the paths of sockets have a limit
        command += [f"--port={address.rpartition(':')[2]}", f"--temp-dir={folder}"]
        head = start("/usr/bin/env", *command, cwd=tmp_path, env=token)
        try:
            until(lambda: listens(address), "the cluster", SLOW)
            without = run(tool, *args, cwd=tmp_path, timeout=SLOW).expect(2)
            done = run(tool, *args, cwd=tmp_path, timeout=SLOW, env=token).expect(0, stderr="")
        finally:
            head.terminate()  # it ends the cluster
            head.communicate(timeout=SLOW)
    assert "it asks for a token: set RAY_AUTH_MODE=token, and " in without.says(f"--address {address}: ")
    assert [one["rawLines"] for one in done.records] == [["question 0"]]


def listens(address: str) -> bool:
    host, _, port = address.partition(":")
    with suppress(OSError), socket.create_connection((host, int(port)), 1):
        return True
    return False


TIMING = {"start": 1, "end": 2, "total": 1}


@pytest.mark.parametrize(
    ("command", "record"),
    [
        (("ae-extract", "-s", "text"), {"input": "q", "rawLines": ["answer"], "timing": TIMING}),
        (("ae-grade", "-g", "ae-grader-hint"), {"input": "q", "hint": "q", "output": "q", "trajectory": []}),
    ],
)
def test_many_trivial_records_equal_those_of_the_filter(
    command: tuple[str, ...], record: Record, two_nodes: TwoNodes, tmp_path: Path
) -> None:
    write(tmp_path / "records.jsonl", *({"id": f"p{n}", **record} for n in range(MANY)))
    expected = run(command[0], "records.jsonl", *command[1:], cwd=tmp_path, timeout=SLOW).expect(0)
    args = ("records.jsonl", "--address", two_nodes.address, "-j", os.cpu_count() or 2, "--keep-order", "--", *command)
    done = run("ae-ray", *args, cwd=tmp_path, timeout=4 * SLOW).expect(0)
    assert done.out == expected.out
