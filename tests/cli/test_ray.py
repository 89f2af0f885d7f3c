"""ae-ray: a filter on the nodes of a cluster; each id once, whatever dies.

What needs no cluster is tested with slots that answer at once and with real filters; the rest on a Ray cluster of two
nodes on this machine, with `make test-cluster`.
"""

from __future__ import annotations

import io
import math
import os
import re
import select
import signal
import socket
import stat
import sys
import tarfile
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from agenteval.cli import node
from agenteval.cli.tools import ray
from agenteval.cluster import dispatch, remote, worker
from agenteval.cluster.ray_cluster import RayCluster, SlotRequest, named_files
from agenteval.cluster.remote import ClusterAgents
from agenteval.cluster.slots import Slots
from agenteval.cluster.worker import RUNS_VARIABLE, Answers, FilterAnswer, Node, NodeAnswer, NodeWorker
from agenteval.errors import Stopped, UserError
from agenteval.streams.console import Console
from agenteval.wire.records import RUN_ID_VARIABLE
from tests.support.ray_nodes import TwoNodes
from tests.support.tool import BIN, Done, Record, read, run, script, write
from tests.support.watching import PATIENCE, Running, expect_gone, sleepers, until

SLOW = 120.0  # seconds for what takes a few: the machine may be busy
PROMPTS = [{"id": f"p{number}", "input": f"question {number}", "hint": "question"} for number in range(12)]

# --- the command line ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("args", "says"),
    [
        ([], "give a tool after --"),
        (["--", "ae-run", "-o", "x"], "-o after -- would act on the nodes: put it before --"),
        (["--", "ae-run", "-ox"], "-o after -- would act on the nodes: put it before --"),
        (["--", "ae-run", "-j2"], "-j after -- would act on the nodes: put it before --"),
        (["--", "ae-run", "-s", "no-such", "--agent-arg", "-json"], 'no adapter schema is named "no-such"'),
        (["--env", "NOT_THERE", "--", "grep", "-only"], "--env NOT_THERE: is not set"),
        (["--", "ae-grade", "results.jsonl", "-g", "x"], "ae-grade gets its records from ae-ray"),
        (["--", "ae-grade", "--labels", "x"], "--labels would be counted on each node"),
        (
            ["--", "ae-grade", "--max-failures", "3"],
            "These have it: ae-capture, ae-run, ae-trials (try 'ae-grade --help')",
        ),
        (["-o", "x", "--resume", "--", "ae-extract"], "--resume is for tools that run agents and for ae-grade"),
        (
            ["--", "ae-run", "--workspace-dir", "a/../../ws", "--shell", "true"],
            "leads out of the directory that this run",
        ),
        (["--", "ae-run", "--shard=1/2"], "ae-ray distributes the records itself"),
        (
            ["--", "ae-run", "prompts.jsonl", "--shell", "true"],
            "ae-run gets its prompts from ae-ray: give the file before",
        ),
        (["--", "ae-grade", "-g", "x", "--strict"], "--strict of ae-grade would stop one node"),
        (["--env", "KEY=secret", "--", "cat"], "--env KEY: give only the name"),
        (["--env", "NOT_THERE", "--", "cat"], "--env NOT_THERE: is not set"),
        (["--resources", "cpu", "--", "cat"], "'cpu' is not NAME=AMOUNT"),
        (["--file", "../x", "--", "cat"], "--file ../x: give a path below this directory"),
    ],
)
def test_wrong_usage(args: list[str], says: str, tmp_path: Path) -> None:
    run("ae-ray", *args, cwd=tmp_path).expect(2).says(says)


def test_without_ray_the_extra_is_named(tmp_path: Path) -> None:
    (tmp_path / "ray.py").write_text("raise ImportError('No module named ray')")
    done = run("ae-ray", "--", "cat", cwd=tmp_path, env={"PYTHONPATH": str(tmp_path)}).expect(2)
    done.says("needs Ray", "pip install", "[ray]")


RAY = """
import os, signal, sys
shutdown = lambda: None
def init(**settings):
    print(settings["_temp_dir"], file=sys.stderr, flush=True)
    {fails}
"""
FAILURES = {
    "raise Exception('no')": (2, "--address local: no"),
    "os.kill(os.getpid(), signal.SIGTERM)": (143, ""),
    "os.kill(os.getpid(), signal.SIGKILL)": (-9, ""),
}


@pytest.mark.parametrize("fails", FAILURES)
@pytest.mark.parametrize("length", [1, 60])
def test_no_temporary_file_is_left_when_no_cluster_can_be_started(fails: str, length: int, tmp_path: Path) -> None:
    """The paths of sockets have a limit, too: below a long TMPDIR, no cluster could be started."""
    (tmp_path / "ray.py").write_text(RAY.replace("{fails}", fails))
    code, message = FAILURES[fails]
    with tempfile.TemporaryDirectory(prefix="r" * length, dir="/tmp") as folder:
        env = {"PYTHONPATH": str(tmp_path), "TMPDIR": folder}
        done = run("ae-ray", "--address", "local", "--", "cat", cwd=tmp_path, env=env).expect(code)
        used = Path(done.messages[0])
        assert used.parent == (Path(folder) if length == 1 else Path("/tmp")) and message in done.stderr, done
        until(lambda: not used.exists(), "its directory is removed")


@pytest.mark.parametrize("scheme", ["", "ray://", "RAY_ADDRESS="])
def test_an_address_where_nothing_listens_is_refused_at_once(scheme: str, tmp_path: Path) -> None:
    (tmp_path / "ray.py").write_text("shutdown = lambda: None\ninit = lambda **settings: print('Ray tries')")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"  # nobody else gets it meanwhile
        env = {"PYTHONPATH": str(tmp_path)}
        if scheme == "RAY_ADDRESS=":
            done = run("ae-ray", "--", "cat", cwd=tmp_path, env={**env, "RAY_ADDRESS": address})
        else:
            address = scheme + address
            done = run("ae-ray", "--address", address, "--", "cat", cwd=tmp_path, env=env)
    done.expect(2).says(f"--address {address}: Connection refused (--address local starts a cluster here)")


@pytest.mark.parametrize(
    ("printed", "advice"),
    [
        ("try 1 of 20", " (--address local"),
        ("Unauthenticated: InvalidAuthToken", ": it asks for a token: set RAY_AUTH"),
    ],
)
def test_a_cluster_that_does_not_let_us_in(printed: str, advice: str, tmp_path: Path) -> None:
    """Ray's libraries print each try, past Python; one line says what to do."""
    fails = f"import os\ndef init(**settings):\n    os.write(2, b'{printed}\\n')\n    raise Exception('no way')\n"
    (tmp_path / "ray.py").write_text(f"{fails}shutdown = lambda: None\n")
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        done = run("ae-ray", "--address", address, "--", "cat", cwd=tmp_path, env={"PYTHONPATH": str(tmp_path)})
    done.expect(2).says(f"--address {address}: no way{advice}")


def test_files_that_a_command_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "project").mkdir()
    (tmp_path / "ws").mkdir()
    for name in ("grader.py", "style.sh", "schema.json", "unused"):
        (tmp_path / name).touch()
    graders = ["-g", "./grader.py", "-g", "style=./style.sh --strict", "--workspace-template=project"]
    command = ["ae-capture", "-s", "schema.json", *graders, "--workspace-dir", "ws", "-g", "/etc/passwd", "-g", "'"]
    assert sorted(set(named_files(command))) == ["grader.py", "project", "schema.json", "style.sh"]


# --- simulated nodes: all real but Ray ------------------------------------------------------------


def simulated(nodes: str, *args: object, cwd: Path, **settings: Any) -> Done:
    """Runs ae-ray with nodes that are threads; their processes are real (tests/support/simulated_cluster.py)."""
    python = [sys.executable, "-m", "tests.support.simulated_cluster", nodes]
    env = {"PYTHONPATH": str(BIN.parent), **settings.pop("env", {})}
    return run(*python, *args, cwd=cwd, env=env, timeout=SLOW, **settings)


def refused(nodes: str, *args: object, cwd: Path, says: str, env: dict[str, str] | None = None) -> None:
    """Expects a usage error that says so, in one line."""
    done = simulated(nodes, *args, cwd=cwd, env=env or {}).expect(2)
    assert len(done.messages) == 1 and done.stderr.startswith("ae-ray: ") and says in done.stderr, done


def program(folder: Path, source: str) -> dict[str, str]:
    """Makes the agent `myagent`; returns the environment in which it is found."""
    (folder / "bin").mkdir()
    script(folder / "bin" / "myagent", source)
    return {"PATH": f"{folder / 'bin'}:{os.environ['PATH']}"}


AGENT = ("--shell", 'myagent "$PROMPT"')


def test_the_run_is_that_of_the_tool(tmp_path: Path) -> None:
    """Same records as without a cluster; --resume has the same words: nothing to do, another agent, graded again."""
    write(tmp_path / "prompts.jsonl", *PROMPTS)
    env = program(tmp_path, f'echo "you asked $1"; echo "$1" >> {tmp_path}/paid')
    command = ["ae-capture", *AGENT, "-g", "ae-grader-hint"]
    expected = run(*command[:1], "prompts.jsonl", *command[1:], cwd=tmp_path, env=env).expect(0)
    args = ("prompts.jsonl", "-j", 8, "--keep-order", "-o", "out.jsonl")
    simulated("a,b", *args, "--", *command, cwd=tmp_path, env=env).expect(0, stderr="")
    records = read(tmp_path / "out.jsonl")
    assert {record["metadata"].pop("node") for record in records} == {"a", "b"}
    assert plain(records) == plain(expected.records)
    again = simulated("a,b", *args, "--resume", "--", *command, cwd=tmp_path, env=env).expect(0)
    assert again.stderr == "ae-ray: out.jsonl: 12 kept, nothing to do\n"
    another = ("--resume", "--", "ae-capture", "--shell", "other", "-g", "ae-grader-hint")
    refused("a", *args, *another, cwd=tmp_path, says="its records were made with another command")
    other = ["ae-capture", *AGENT, "-g", "ae-grader-hint --ignore-case"]
    graded = simulated("a,b", *args, "--resume", "--", *other, cwd=tmp_path, env=env).expect(0)
    assert "12 graded again" in graded.stderr and len((tmp_path / "paid").read_text().splitlines()) == 2 * 12
    refused("a", *args, "--", *command, cwd=tmp_path, env=env, says="already contains records; --resume continues")


def test_what_concerns_the_whole_run(tmp_path: Path) -> None:
    """Failures are counted over all nodes, and an early end needs no cluster of its own."""
    write(tmp_path / "prompts.jsonl", *PROMPTS)
    fails = ("--shell", "exit 3")
    for options, count, says in [
        (["--max-failures", "2", "--keep-going"], 2, "stopped after 2 failed agents"),
        ([], 5, "the first 5 agents failed in the same way"),
        (["--strict"], 1, "stopped by --strict"),
    ]:
        done = simulated("a,b", "prompts.jsonl", "-j", 1, "--", "ae-run", *fails, *options, cwd=tmp_path).expect(1)
        assert len(done.records) == count and says in done.stderr, done
    write(tmp_path / "many.jsonl", *({"id": str(number), "input": "x", "hint": "no"} for number in range(60)))
    early = ["ae-capture", "--simple", "echo {}", "-g", "ae-grader-hint", "--stop-when-known", "--threshold", "0.9"]
    done = simulated("a,b", "many.jsonl", "-j", 2, "--", *early, cwd=tmp_path).expect(0)
    assert 6 <= len(done.records) < 60 and "worse" in done.stderr or "below" in done.stderr, done
    usage = ("--shell", "true")
    for option in ("-j", "-o", "--resume"):
        refused("a", "prompts.jsonl", "--", "ae-run", option, "1", *usage, cwd=tmp_path, says="put it before --")


@pytest.mark.parametrize("agent", [AGENT, ("--simple", "myagent {}")], ids=["fails", "cannot start"])
def test_a_node_without_the_agent_gets_no_more(agent: tuple[str, str], tmp_path: Path) -> None:
    """Its records go elsewhere, and that is reported once."""
    env = {**program(tmp_path, "echo fine"), "PYTHONPATH": str(BIN.parent)}
    python = [sys.executable, "-m", "tests.support.simulated_cluster", "a,b:/usr/bin:/bin"]
    found: list[Record] = []
    with Running(*python, "-j", 4, "--", "ae-run", *agent, cwd=tmp_path, env=env) as running:

        def one_more() -> bool:
            running.feed({"id": str(len(found)), "input": "x"})
            found.append(running.record(SLOW))
            return bool(select.select([running.stderr], [], [], 0)[0])

        until(one_more, "a message", SLOW)
        for _ in range(20):
            one_more()
        done = running.end(SLOW).expect(0)
    assert all(record["rawLines"] == ["fine"] for record in found), (found, done)
    assert {record["metadata"]["node"] for record in found} == {"a"}
    assert len(done.messages) == 1 and "b: gets no more records: " in done.stderr and "myagent" in done.stderr, done


def test_a_failed_record_waits_for_a_node_whose_worker_starts_late(tmp_path: Path) -> None:
    """The node that starts first may be the one without the agent: five such failures would end the run."""
    env = {**program(tmp_path, "echo fine"), "PYTHONPATH": str(BIN.parent)}
    (tmp_path / "other").mkdir()
    script(tmp_path / "other" / "myagent", f"echo x >> {tmp_path}/failed; exit 3")
    python = [
        sys.executable,
        "-m",
        "tests.support.simulated_cluster",
        f"late+,first:{tmp_path / 'other'}:/usr/bin:/bin",
    ]
    with Running(*python, "-j", 2, "--", "ae-run", *AGENT, cwd=tmp_path, env=env) as running:
        running.feed({"id": "p", "input": "x"})
        until((tmp_path / "failed").exists, "the first node tries it")
        (tmp_path / "late").touch()
        record = running.record(SLOW)
        running.end(SLOW).expect(0, stderr="")
    assert (record["rawLines"], record["metadata"]["node"]) == (["fine"], "late")


def test_no_record_waits_for_a_node_without_room() -> None:
    """Its slot has not started after the patience of the run: then the failure counts."""
    nodes = iter(["first", "second"])

    class Slot(ReadySlot):
        def prepare(self) -> Future[Any]:
            return Future() if self.node == "second" else super().prepare()

    console = Console("ae-ray", progress=False)
    slots = Slots(lambda _excluded: Slot(nodes), 2, 1, console, patience=0.2, all_nodes=lambda: {"first", "second"})
    slots.start()
    first = slots.take()
    slots.give_back(first)
    assert slots.take_elsewhere(slots.node_of(first)) is None


def test_a_record_that_fails_everywhere_is_tried_twice_at_most_five_times_a_node(tmp_path: Path) -> None:
    """Agents cost money: once another node has failed in the same way five times, a node is no longer doubted."""
    write(tmp_path / "prompts.jsonl", *({"id": str(number), "input": "x"} for number in range(40)))
    agent = ("--keep-going", "--shell", f"echo x >> {tmp_path}/paid; exit 3")
    done = simulated("a,b", "prompts.jsonl", "-j", 2, "--", "ae-run", *agent, cwd=tmp_path).expect(0)
    assert len(done.records) == 40 and 40 + 5 <= paid(tmp_path) <= 40 + 2 * (5 + 1), done


def test_nodes_without_the_agent_are_an_error(tmp_path: Path) -> None:
    write(tmp_path / "prompts.jsonl", *PROMPTS)
    done = simulated("a,b", "prompts.jsonl", "--", "ae-run", "--simple", "no-such-agent {}", cwd=tmp_path).expect(2)
    assert "no-such-agent" in done.stderr and "no other node is left" in done.stderr, done


def test_a_reason_to_leave_nodes_out_is_shown_once(tmp_path: Path) -> None:
    """Either it is that of all nodes, which is an error, or the others are named at the end."""
    records = [{**prompt, "output": "x"} for prompt in PROMPTS]
    write(tmp_path / "results.jsonl", *records)
    args = ("results.jsonl", "-j", 6, "--", "ae-grade", "-g", "no-such-grader")
    done = simulated("a,b,c", *args, cwd=tmp_path).expect(2)
    assert len(done.messages) == 2 and "gets no more records: the command cannot run" in done.messages[0], done
    assert done.stderr.count("no-such-grader") == 1 and done.messages[1] == "ae-ray: no other node is left", done
    env = program(tmp_path, "cat > /dev/null; sleep 0.1; echo '{\"pass\":true}'")
    some = simulated("a,b:/usr/bin:/bin,c:/usr/bin:/bin", *args[:-1], "myagent", cwd=tmp_path, env=env).expect(0)
    assert ids(some.records) == ids(PROMPTS) and some.stderr.count("myagent") == 1, some
    says = r"ae-ray: [bc]: got no more records either, for the same reason as the first"
    assert len(some.messages) == 2 and re.fullmatch(says, some.messages[1]), some


@pytest.mark.parametrize("command", [("ae-run", "--shell", "echo fine"), ("ae-grade", "-g", "ae-grader-hint")])
def test_workers_that_die_cost_no_record(command: tuple[str, ...], tmp_path: Path) -> None:
    records = [{**prompt, "output": "a question", "trajectory": []} for prompt in PROMPTS]
    write(tmp_path / "records.jsonl", *(PROMPTS if command[0] == "ae-run" else records))
    done = simulated("a,b!", "records.jsonl", "-j", 4, "--keep-order", "--", *command, cwd=tmp_path).expect(0)
    assert done.ids == [prompt["id"] for prompt in PROMPTS] and all("errors" not in record for record in done.records)


def test_a_record_that_kills_its_worker_is_given_up_alone(tmp_path: Path) -> None:
    agent = 'case "$PROMPT" in bad) kill -9 $PPID; sleep 60;; esac; echo fine'
    write(tmp_path / "prompts.jsonl", *PROMPTS[:5], {"id": "bad", "input": "bad"}, *PROMPTS[5:])
    done = simulated("a,b", "prompts.jsonl", "-j", 8, "--", "ae-capture", "--shell", agent, cwd=tmp_path).expect(1)
    failed = {record["id"]: record["errors"] for record in done.records if record.get("errors")}
    assert ids(done.records) == sorted([*ids(PROMPTS), "bad"]) and list(failed) == ["bad"], done
    assert "its worker died 3 times, last: the process on" in failed["bad"][0], failed


def test_finished_trials_are_kept(tmp_path: Path) -> None:
    """The driver is killed while the last trial of each prompt runs: only those run again."""
    write(tmp_path / "prompts.jsonl", *PROMPTS[:2])
    count = f'echo "$PROMPT" >> {tmp_path}/paid; [ $(grep -c "$PROMPT" {tmp_path}/paid) -lt 4 ]'
    agent = f"{count} || [ -e {tmp_path}/go ] || sleep 60; echo fine"
    args = ("prompts.jsonl", "-j", 2, "-o", "out.jsonl", "--resume", "--", "ae-trials", "-k", 4, "--shell", agent)
    python = [sys.executable, "-m", "tests.support.simulated_cluster", "a,b"]
    with Running(*python, *args, cwd=tmp_path, env={"PYTHONPATH": str(BIN.parent)}) as running:
        until(lambda: paid(tmp_path) == 8, "the last trials run", SLOW)
        until(lambda: lines(tmp_path / "out.jsonl.unfinished") >= 6, "the others are kept", SLOW)
        running.signal(signal.SIGKILL)
        running.process.wait()
    (tmp_path / "go").touch()
    simulated("a,b", *args, cwd=tmp_path).expect(0)
    assert paid(tmp_path) == 10 and [len(record["trials"]) for record in read(tmp_path / "out.jsonl")] == [4, 4]


def paid(folder: Path) -> int:
    return lines(folder / "paid")


def lines(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0


def test_workspaces_come_home(tmp_path: Path) -> None:
    """Two runs share no directory on a node; what leads out of a workspace is not unpacked."""
    write(tmp_path / "prompts.jsonl", *PROMPTS[:2])
    agent = 'mkdir d; echo "$PROMPT" > d/f; ln -s d in; ln -s /etc/passwd out; mkfifo pipe; pwd'
    args = ("prompts.jsonl", "-j", 2, "--bring-workspaces", "home", "--", "ae-run", "--workspace-dir", "ws")
    done = simulated("a,b", *args, "--shell", agent, cwd=tmp_path).expect(0, stderr="")
    for record in done.records:
        place = Path(record["metadata"]["workspaceDir"])
        assert place == tmp_path / "home" / f"prompt-{record['id']}"
        assert sorted(path.name for path in place.iterdir()) == ["d", "in"]
        assert (place / "in" / "f").read_text() == f"{record['input']}\n"
        worked_in = Path(record["rawLines"][0])
        (of_run,) = (place for place in worked_in.parents if place.name == record["metadata"]["runId"])
        assert not of_run.exists(), "both workers have left it empty"
    refused("a,b", *args, "--shell", agent, cwd=tmp_path, says="home: is not empty")
    (tmp_path / "home" / "prompt-p0" / "more").touch()
    again = (*args[:3], "--bring-workspaces", "home", "-o", "out", "--resume", *args[5:])
    simulated("a,b", *again, "--shell", agent, cwd=tmp_path).expect(0)
    assert not (tmp_path / "home" / "prompt-p0" / "more").exists(), "replaced, because it was brought by ae-ray"
    retried = (*args[:3], "--bring-workspaces", "home", "-o", "out", *args[5:], "--retry-failed", "--shell", agent)
    simulated("a,b", *retried, cwd=tmp_path).expect(0, stderr="ae-ray: out: 2 kept, nothing to do\n")
    (tmp_path / "home" / ".agenteval-workspaces").unlink()
    refused("a,b", *again, "--shell", agent, cwd=tmp_path, says="home: is not empty")
    without = ("prompts.jsonl", "--bring-workspaces", "new", "--", "ae-run", "--shell", "true")
    refused("a", *without, cwd=tmp_path, says="--bring-workspaces needs --workspace-dir")


def test_a_workspace_that_cannot_be_unpacked_is_not_lost(tmp_path: Path) -> None:
    """Its node has it no longer: its archive is kept or, if that is impossible, the prompt has no record."""
    home = tmp_path / "home"
    home.mkdir()
    write(tmp_path / "prompts.jsonl", PROMPTS[0])
    for name in (".agenteval-workspaces", "prompt-p0.part"):
        (home / name).touch()
    args = ("prompts.jsonl", "--bring-workspaces", "home", "-o", "out", "--resume", "--", "ae-run", "--workspace-dir")
    done = simulated("a", *args, "ws", "--shell", "echo x > f", cwd=tmp_path).expect(0)
    assert "p0: its workspace could not be unpacked, and is in home/prompt-p0.tar.gz: " in done.stderr, done
    with tarfile.open(home / "prompt-p0.tar.gz") as archive:
        assert "./f" in archive.getnames()
    (tmp_path / "out").unlink()
    (home / "prompt-p0.tar.gz").unlink()
    (home / "prompt-p0.tar.gz").mkdir()
    done = simulated("a", *args, "ws", "--shell", "echo x > f", cwd=tmp_path).expect(1)
    assert done.stderr == "ae-ray: --bring-workspaces: cannot write home/prompt-p0.tar.gz: Is a directory\n", done
    assert (tmp_path / "out").read_bytes() == b""


def test_what_is_unpacked_stays_below_its_directory(tmp_path: Path) -> None:
    """A node is trusted no more than its agents: names and links that lead out, one of them by way of another."""
    secret = tmp_path / "secret"
    secret.write_text("s")
    entries: list[tuple[str, bytes, str, int]] = [  # name, type, what a link leads to, mode
        ("d", tarfile.DIRTYPE, "", 0o700),
        ("d/f", tarfile.REGTYPE, "", 0o6777),
        ("in", tarfile.SYMTYPE, "d", 0o777),
        ("d/g", tarfile.REGTYPE, "", 0),
        ("in/h", tarfile.REGTYPE, "", 0o644),
        ("hard", tarfile.LNKTYPE, "d/f", 0o6777),
        ("../out", tarfile.REGTYPE, "", 0o644),
        (f"{tmp_path}/out", tarfile.REGTYPE, "", 0o644),
        ("absolute", tarfile.SYMTYPE, str(secret), 0o777),
        ("absolute", tarfile.REGTYPE, "", 0o644),
        ("up", tarfile.SYMTYPE, "../..", 0o777),
        ("stolen", tarfile.LNKTYPE, "../../secret", 0o644),
        ("stolen", tarfile.LNKTYPE, "up/../secret", 0o644),
        ("pipe", tarfile.FIFOTYPE, "", 0o644),
        ("later", tarfile.SYMTYPE, "d/top/..", 0o777),  # which is d, until the next
        ("d/top", tarfile.SYMTYPE, "..", 0o777),
        ("later/out", tarfile.REGTYPE, "", 0o644),
    ]
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name, kind, link, mode in entries:
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname, entry.mode, entry.uid, entry.gid = kind, link, mode, 12345, 12345
            archive.addfile(entry)
    (tmp_path / "home").mkdir()
    place = Path(remote.unpack(packed.getvalue(), str(tmp_path / "home"), "prompt-p"))
    found = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*"))
    names = ("d", "d/f", "d/g", "d/top", "hard", "in")
    assert found == sorted(["secret", "home", "home/prompt-p", *(f"home/prompt-p/{name}" for name in names)])
    assert [stat.S_IMODE((place / "d" / name).stat().st_mode) for name in "fg"] == [0o755, 0o600]
    assert (place / "d" / "f").stat().st_uid == os.getuid() and secret.read_text() == "s"


def test_a_workspace_that_is_too_large_stays_where_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ws").mkdir()
    (tmp_path / "ws" / "f").write_text("x")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert set(node.pack(str(tmp_path / "ws"))) == {"packed"}
    monkeypatch.setattr(node, "MOST_PACKED", 10)
    assert node.pack(str(tmp_path / "ws")) == {"notPacked": f"{tmp_path / 'ws'}: is larger than 10 bytes"}
    assert len(list(tmp_path.glob("*.tar.gz"))) == 1, "the first one"


def test_a_packed_workspace_that_is_gone_does_not_stop_the_other_answers() -> None:
    """An exception would end the thread that reads the answers, and their records would wait for ever."""
    answer: Record = {"packed": "/nonexistent/ws.tar.gz"}
    assert worker._take_packed(answer) is None
    assert answer == {"notPacked": "/nonexistent/ws.tar.gz: No such file or directory"}


def test_two_runs_that_start_at_the_same_time_do_not_bring_to_one_directory(tmp_path: Path) -> None:
    """Both have found it empty when they looked at their options."""
    home = str(tmp_path / "home")
    ray.claim_directory(home, is_ours=False)
    with pytest.raises(UserError, match="another run brings its workspaces there; give a new or empty directory"):
        ray.claim_directory(home, is_ours=False)
    ray.claim_directory(home, is_ours=True)


def on_node(runs: Path, workspaces: str, agent: str) -> Done:
    """Runs what runs on a node, with one prompt."""
    node = [sys.executable, "-m", "agenteval.cli.node", "ae-run", "--keep-workspaces", "failed"]
    env = {"PYTHONPATH": str(BIN.parent), RUNS_VARIABLE: str(runs), RUN_ID_VARIABLE: "run"}
    request = {"key": "1", "prompt": PROMPTS[0], "trial": None}
    args = ("--workspace-dir", workspaces, "--shell", agent)
    return run(*node, *args, stdin=as_json(request) + "\n", cwd=runs, env=env, timeout=SLOW)


@pytest.mark.parametrize("what", ["a link", "a file", "writable"])
def test_workspaces_are_not_made_where_another_user_could_be(what: str, tmp_path: Path) -> None:
    """The name of their directory on a node is known, and everyone may create names beside it."""
    place = tmp_path / f"agenteval-{os.getuid()}"
    if what == "a link":
        (tmp_path / "elsewhere").mkdir()
        place.symlink_to("elsewhere")
    elif what == "a file":
        place.touch()
    else:
        place.mkdir()
        place.chmod(0o777)
    done = on_node(tmp_path, "ws", "echo fine").expect(2)
    says = {"a link": "is a symbolic link, not a directory", "a file": "is a file, not a directory"}
    assert f"{place} {says.get(what, 'can be written to by other users')}: remove it on that node" in done.stderr, done
    assert what != "a link" or not list((tmp_path / "elsewhere").iterdir())


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a directory away")
def test_workspaces_are_not_made_in_a_directory_of_another_user(tmp_path: Path) -> None:
    place = tmp_path / "agenteval-0"
    place.mkdir(mode=0o700)
    os.chown(place, 12345, -1)
    assert f"{place} belongs to another user: remove it" in on_node(tmp_path, "ws", "true").expect(2).stderr


def test_nothing_empty_is_left_on_a_node(tmp_path: Path) -> None:
    place = tmp_path / f"agenteval-{os.getuid()}"
    place.mkdir(mode=0o755)
    for workspaces in ("some/ws", "ws/", "."):
        on_node(tmp_path, workspaces, "echo fine").expect(0)
        assert list(place.iterdir()) == []
    assert place.stat().st_mode & 0o777 == 0o700
    on_node(tmp_path, "some/ws", "exit 3").expect(0)
    assert (place / "run" / "some" / "ws" / "prompt-p0").is_dir(), "a workspace that is kept"


def test_only_workspaces_that_are_kept_come_home(tmp_path: Path) -> None:
    write(tmp_path / "prompts.jsonl", *PROMPTS[:3])
    agent = ("--workspace-dir", "ws", "--keep-workspaces", "failed", "--shell", 'case "$PROMPT" in *1) exit 3; esac')
    args = ("prompts.jsonl", "--bring-workspaces", "home", "--", "ae-run", *agent)
    done = simulated("a", *args, cwd=tmp_path).expect(0)
    assert [path.name for path in (tmp_path / "home").glob("prompt-*")] == ["prompt-p1"], done


def test_filters_answer_in_batches(tmp_path: Path) -> None:
    """Refused records are left out, the first ten are named; the order is kept; a wrong command ends the run."""
    records: list[Record] = [{"id": str(n), "input": "x", "output": "x", "hint": "x"} for n in range(700)]
    bad = [str(number) for number in range(300, 700, 10)]
    for number in bad:
        records[int(number)]["output"] = 7
    write(tmp_path / "records.jsonl", *records)
    args = ("records.jsonl", "-j", 3, "--keep-order", "--", "ae-grade", "-g", "ae-grader-hint")
    done = simulated("a,b", *args, cwd=tmp_path).expect(1)
    assert done.ids == [record["id"] for record in records if record["id"] not in bad]
    assert done.messages[-1] == "ae-ray: 30 more refused lines, 40 in all (--debug shows each)", done
    named = re.findall(r'^ae-ray: ae-grade: (\d+): "output" must be a string', done.stderr, re.MULTILINE)
    assert len(done.messages) == 11 and len(set(named)) == 10 and set(named) <= set(bad), done  # any batch may be first
    wrong = simulated("a,b", "records.jsonl", "--", "ae-grade", "-g", "no-such-grader", cwd=tmp_path).expect(2)
    assert "no-such-grader" in wrong.stderr and wrong.out == b"", wrong
    write(tmp_path / "references.jsonl", PROMPTS[0], {**PROMPTS[1], "reference": "a question"})
    validate = ("references.jsonl", "--", "ae-validate-refs", "-g", "ae-grader-hint")
    done = simulated("a,b", *validate, cwd=tmp_path).expect(
        0, stderr="ae-ray: 1 prompt has no reference, and was not validated\n"
    )
    assert done.ids == ["p1"] and done.records[0]["pass"], done


@pytest.mark.parametrize("code", [0, 3])
def test_a_filter_that_ends_without_answers_is_given_up(code: int, tmp_path: Path) -> None:
    """Also if all slots are taken by such records: a second try must not wait for the slot of the first."""
    write(tmp_path / "records.jsonl", *PROMPTS[:3])
    args = ("records.jsonl", "-j", 1, "--", "sh", "-c", f"exit {code}")
    done = simulated("a", *args, cwd=tmp_path).expect(1)
    assert done.ids == [record["id"] for record in PROMPTS[:3]], done
    assert all(f"exited with code {code}" in record["errors"][0] for record in done.records), done


@pytest.mark.parametrize(
    ("quick", "slow", "sizes"), [(math.inf, math.inf, [1, 4, 16, 64, 256, 256, 256, 147]), (-1, -1, [1] * 1000)]
)
def test_quick_records_share_a_call(
    quick: float, slow: float, sizes: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch is a call over the network: while all are answered quickly, they grow up to 256 records."""
    monkeypatch.setattr(dispatch, "QUICK", quick)
    monkeypatch.setattr(dispatch, "SLOW", slow)
    called: list[int] = []

    def finished(value: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(value)
        return future

    class EchoSlot:
        def prepare(self) -> Future[Any]:
            return finished(Node("n", "n"))

        def call(self, method: str, *arguments: Any) -> Future[Any]:
            if method == "finish":
                return finished((0, []))
            (batch,) = arguments
            called.append(len(batch))
            return finished(Answers({n: FilterAnswer(task.line) for n, task in enumerate(batch)}, []))

        def kill(self) -> None:
            pass

    console = Console("ae-ray", progress=False)
    slots = Slots(lambda _excluded: EchoSlot(), 1, 1, console)
    slots.start()
    written: list[bytes] = []
    tasks = [dispatch.Task(f"p{n}", b"%d" % n) for n in range(1000)]
    dispatch.Dispatcher(slots, 0, written.append, lambda task, _why: task.line, console, keep_order=True).run(tasks)
    slots.stop()
    assert written == [task.line + b"\n" for task in tasks] and called == sizes


def test_a_cluster_without_room_is_mentioned_once(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing happens until a worker starts: that is said, and the run goes on when one does."""
    start: Future[Any] = Future()

    class LateSlot:
        def prepare(self) -> Future[Any]:
            return start

        def call(self, _method: str, *_arguments: Any) -> Future[Any]:
            raise AssertionError

        def kill(self) -> None:
            raise AssertionError

    console = Console("ae-ray", progress=False)
    slots = Slots(lambda _excluded: LateSlot(), 1, 1, console, patience=0.05)
    slots.start()
    say = console.say

    def begin() -> None:
        if not start.done():
            start.set_result(Node("n", "n"))

    def start_after(seconds: float) -> threading.Timer:
        timer = threading.Timer(seconds, begin)
        timer.start()
        return timer

    def say_and_start(message: str) -> None:
        say(message)
        start_after(0.5)  # time to say it again

    monkeypatch.setattr(console, "say", say_and_start)
    at_the_latest = start_after(PATIENCE)
    assert isinstance(slots.take(), LateSlot)
    at_the_latest.cancel()
    assert capfd.readouterr().err.count("no worker has started after 0.05 s; the cluster has no room") == 1


class ReadySlot:
    """A worker that is ready at once, on the next of these nodes, and is not to be called."""

    def __init__(self, nodes: Iterator[str]) -> None:
        self.node = next(nodes)

    def prepare(self) -> Future[Any]:
        ready: Future[Any] = Future()
        ready.set_result(Node(self.node, self.node))
        return ready

    def call(self, _method: str, *_arguments: Any) -> Future[Any]:
        raise AssertionError

    def kill(self) -> None:
        pass


def test_a_record_waits_for_a_place_on_another_node() -> None:
    """In a worker that is there: with --resources, there may be no room for another one until the run has ended."""
    nodes = iter(["a", "b"])

    slots = Slots(lambda _excluded: ReadySlot(nodes), 2, 1, Console("ae-ray", progress=False))
    slots.start()
    a, b = slots.take(), slots.take()
    slots.give_back(a)
    slots.give_back(b)
    assert slots.take_elsewhere(slots.node_of(a)) is b
    assert slots.take() is a, "it was given back"
    slots.give_back(a)
    slots.close(b)
    assert slots.take_elsewhere(slots.node_of(a)) is None


@pytest.mark.parametrize("kind", ["filter", "agent"])
def test_what_a_worker_of_a_node_had_that_is_left_out_is_tried_elsewhere(kind: str) -> None:
    """Even with --retries 0: its worker was killed, and did not die of it."""
    nodes, at_work = iter(["bad", "bad", "good", "good"]), iter([True, False])
    line = b'{"record": {"id": "p"}}'

    def now(answer: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(answer)
        return future

    class OneRecord:
        def __init__(self) -> None:
            self.node, self.killed = next(nodes), Future[Any]()

        def prepare(self) -> Future[Any]:
            return now(Node(self.node, self.node))

        def call(self, method: str, *_arguments: Any) -> Future[Any]:
            if self.node == "bad" and next(at_work):
                return self.killed
            code = None if self.node == "good" else 2
            if method == "send":
                return now(Answers({0: FilterAnswer(None if code else line, code=code)}, []))
            return now(NodeAnswer(None if code else line, [], code=code))

        def kill(self) -> None:
            if not self.killed.done():
                self.killed.set_exception(RuntimeError("it was killed"))

    console = Console("ae-ray", progress=False)
    slots = Slots(lambda _excluded: OneRecord(), 2, 1, console, all_nodes=lambda: {"good"})
    if kind == "filter":
        written: list[bytes] = []
        tasks = [dispatch.Task(name, b"{}") for name in "pq"]
        dispatcher = dispatch.Dispatcher(slots, 0, written.append, lambda _task, why: why.encode(), console)
        dispatcher._slots.finish = lambda: True  # type: ignore[method-assign]
        dispatcher.run(tasks)
        assert written == [line + b"\n"] * 2
    else:
        agents = ClusterAgents(lambda _run: slots, 0, console, None)
        agents.open("run")
        with ThreadPoolExecutor(2) as threads:
            answers = list(threads.map(lambda name: agents.answer({"id": name}, None), "pq"))
        assert [answer.died for answer in answers] == [None, None]


def test_a_worker_that_is_gone_still_has_a_node(capfd: pytest.CaptureFixture[str]) -> None:
    """Two workers of a node find at the same time that nothing works there: it is left out once, and by its name."""
    nodes = iter(["bad", "bad", "good", "good"])

    slots = Slots(
        lambda _excluded: ReadySlot(nodes), 2, 1, Console("ae-ray", progress=False), all_nodes=lambda: {"good"}
    )
    slots.start()
    for slot in (slots.take(), slots.take()):
        slots.exclude(slots.node_of(slot), "no")
    assert capfd.readouterr().err == "ae-ray: bad: gets no more records: no\n"


def test_nodes_that_a_slot_could_never_be_on_do_not_count() -> None:
    """Else a run would wait for ever once the only node with enough memory is left out."""
    node = {"NodeID": "a", "Alive": True, "Resources": {"CPU": 2.0, "memory": 4e9}}
    nodes = [node, {**node, "NodeID": "b", "Resources": {"CPU": 1.0, "memory": 8e9, "fpga": 1.0}}]
    nodes += [{**node, "NodeID": "dead", "Alive": False}, {**node, "NodeID": "head", "Resources": {"memory": 8e9}}]
    cluster = RayCluster.__new__(RayCluster)
    cluster._ray = SimpleNamespace(nodes=lambda: nodes)
    assert cluster.nodes(SlotRequest(0.01, 0, 0, {})) == {"a", "b"}
    assert cluster.nodes(SlotRequest(2, 0, 0, {})) == {"a"}
    assert cluster.nodes(SlotRequest(0.01, 0, 5 << 30, {})) == cluster.nodes(SlotRequest(1, 0, 0, {"fpga": 1})) == {"b"}
    assert cluster.nodes(SlotRequest(1, 1, 0, {})) == set()


def test_why_a_process_has_ended_is_read_to_the_end() -> None:
    """Its stdout may end before its stderr has been read, which tells why it ended."""
    worker = NodeWorker(["ae-run"], None)
    worker._command = ["sh", "-c", "exec >&-; { sleep 0.5; echo why >&2; } & exit 2"]
    worker.prepare({}, "n")
    assert worker.run("1", b"{}") == NodeAnswer(None, ["why"], code=2)


def test_no_worker_is_opened_or_called_after_the_end() -> None:
    """Records find their workers dead when the run has been stopped; a call of Ray could end the process."""
    nodes = iter(["first", "second"])
    slots = Slots(lambda _excluded: ReadySlot(nodes), 1, 1, Console("ae-ray", progress=False))
    slots.start()
    slot = slots.take()
    slots.stop()
    slots.give_back(slot)
    for late in (lambda: slots.replace(slot), slots.open_alone, slots.take, lambda: slots.call(slot, "run")):
        with pytest.raises(Stopped):
            late()
    assert next(nodes, None) == "second", "no other worker was opened"


# --- a cluster ----------------------------------------------------------------------------------


def plain(value: Any) -> Any:
    """Returns records without times and directories."""
    if isinstance(value, dict):
        without = ("timing", "timestamp", "cwd", "runId", "node")
        return {name: plain(inner) for name, inner in value.items() if name not in without}
    return [plain(inner) for inner in value] if isinstance(value, list) else value


def ids(records: list[Record]) -> list[str]:
    return sorted(str(record["id"]) for record in records)


@pytest.mark.cluster
def test_the_results_are_those_of_the_filter(two_nodes: TwoNodes, tmp_path: Path) -> None:
    write(tmp_path / "prompts.jsonl", *PROMPTS)
    (tmp_path / "grader.py").write_text(
        'def grade(record):\n    return {"pass": "7" in record["output"], "score": 0.5}\n'
    )
    command = ["ae-capture", "--simple", "echo you asked: {}", "-g", "grader.py"]
    expected = run(command[0], "prompts.jsonl", *command[1:], cwd=tmp_path).expect(0)
    done = run(
        *("ae-ray", "prompts.jsonl", "--address", two_nodes.address, "-j", 3, "--keep-order", "--", *command),
        cwd=tmp_path,
        timeout=SLOW,
    ).expect(0)
    assert plain(done.records) == plain(expected.records), done
    assert done.ids == [prompt["id"] for prompt in PROMPTS], done
    half = write(tmp_path / "out.jsonl", *done.records[:5])
    resumed = ["-o", half.name, "--resume", "--", *command]
    run(
        "ae-ray", "prompts.jsonl", "--address", two_nodes.address, "-j", 2, *resumed, cwd=tmp_path, timeout=SLOW
    ).expect(0)
    assert ids(read(half)) == ids(PROMPTS)


@pytest.mark.cluster
def test_variables_refused_records_and_records_that_kill(two_nodes: TwoNodes, tmp_path: Path) -> None:
    agent = 'case "$PROMPT" in bad) kill -9 $PPID; sleep 60;; esac; test "$MY_KEY" = "in the environment" && echo fine'
    prompts = [*PROMPTS, {"id": "bad", "input": "bad"}, {"id": "p3", "input": "again"}, {"id": "no input"}]
    done = run(
        *("ae-ray", "--address", two_nodes.address, "-j", 2, "--env", "MY_KEY", "--", "ae-run", "--no-redact"),
        *("--shell", agent),
        stdin="".join(f"{line}\n" for line in map(as_json, prompts)),
        cwd=tmp_path,
        env={"MY_KEY": "in the environment"},
        timeout=SLOW,
    ).expect(1)
    assert ids(done.records) == sorted([*ids(PROMPTS), "bad"]), done
    assert {record["id"]: record["rawLines"] for record in done.records if record["id"] != "bad"} == {
        prompt["id"]: ["fine"] for prompt in PROMPTS
    }
    (bad,) = [record for record in done.records if record["id"] == "bad"]
    assert "its worker died 3 times" in bad["errors"][0], bad
    assert 'duplicate id "p3"' in done.stderr and '"input" is missing' in done.stderr, done
    assert all(line.startswith("ae-ray: ") for line in done.messages), done


def as_json(record: Record) -> str:
    import json

    return json.dumps(record)


def parents(pid: int) -> Iterator[int]:
    """Yields the process and its ancestors."""
    while pid > 1:
        yield pid
        found = re.search(r"^PPid:\s+(\d+)", Path("/proc", str(pid), "status").read_text(), re.MULTILINE)
        pid = int(found[1]) if found else 0


def worker_of(pid: int) -> int:
    """Returns the Ray worker that a process descends from."""
    return next(one for one in parents(pid) if b"NodeWorker" in Path("/proc", str(one), "cmdline").read_bytes())


@pytest.mark.cluster
@pytest.mark.parametrize("what", ["worker", "node"])
def test_what_dies_costs_no_record(what: str, two_nodes: TwoNodes, tmp_path: Path, mark: str) -> None:
    """Every agent waits for a file; with all slots busy a worker or a node is killed, then the file is made."""
    waits = f"sleep {mark} & while ! test -e {tmp_path}/go; do sleep 0.2; done; kill $!"
    agent = f"test -e {tmp_path}/go || {{ {waits}; }}; echo fine"
    args = ("--address", two_nodes.address, "-j", 4, "--", "ae-run", "--shell", agent)
    with Running("ae-ray", *args, cwd=tmp_path) as running:
        running.feed(*PROMPTS)
        busy = until(lambda: found if len(found := sleepers(mark)) == 4 else set[int](), "four agents run", SLOW)
        if what == "worker":
            os.kill(worker_of(next(iter(busy))), signal.SIGKILL)
            until(lambda: len(busy & sleepers(mark)) == 2, "the agents of the worker are gone", SLOW)
        else:
            two_nodes.cluster.remove_node(two_nodes.nodes.pop(), allow_graceful=False)
            until(lambda: len(busy & sleepers(mark)) < 4, "the agents of the node are gone", SLOW)
            two_nodes.nodes.append(two_nodes.add())
        (tmp_path / "go").touch()
        found = [running.record(SLOW) for _ in PROMPTS]
        done = running.end(SLOW)
    assert ids(found) == ids(PROMPTS) and all(record["rawLines"] == ["fine"] for record in found), (found, done)
    assert done.code == 0 and done.out == b"", done


@pytest.mark.cluster
def test_ctrl_c_ends_every_agent(two_nodes: TwoNodes, tmp_path: Path, mark: str) -> None:
    args = ("--address", two_nodes.address, "-j", 3, "--", "ae-run", "--shell", f"sleep {mark}")
    with Running("ae-ray", *args, cwd=tmp_path) as running:
        running.feed(*PROMPTS)
        until(lambda: len(sleepers(mark)) == 3, "three agents run", SLOW)
        running.signal(signal.SIGINT)
        with suppress(BrokenPipeError):
            done = running.end(SLOW)
    assert done.code == 130 and "stopped by SIGINT" in done.stderr, done
    expect_gone(mark, SLOW)


@pytest.mark.cluster
def test_a_cluster_of_this_machine_ends_with_the_tool(tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="Ray is not installed: make test-cluster")
    write(tmp_path / "prompts.jsonl", *PROMPTS)
    environment = {"TMPDIR": str(tmp_path)} if len(str(tmp_path)) < 30 else {}
    args = ("--address", "local", "-j", 2, "prompts.jsonl", "--", "ae-run", "--simple", "echo {}")
    done = run("ae-ray", *args, cwd=tmp_path, env=environment, timeout=SLOW).expect(0, stderr="")
    assert ids(done.records) == ids(PROMPTS) and done.records[0]["cwd"] == str(tmp_path), done
    wrong = run("ae-ray", *args[:5], "--", "ae-run", cwd=tmp_path, timeout=SLOW).expect(2)
    assert "name one agent" in wrong.stderr and wrong.out == b"", wrong
