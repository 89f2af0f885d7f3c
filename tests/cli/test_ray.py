"""ae-ray: a filter on the nodes of a cluster; each id once, whatever dies.

What needs no cluster is tested with slots that answer at once and with real filters; the rest on a Ray cluster of two
nodes on this machine, with `make test-cluster`.
"""

from __future__ import annotations

import os
import re
import signal
import tempfile
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from agenteval.cluster.dispatch import Dispatcher, Task, read_tasks
from agenteval.cluster.ray_cluster import named_files
from agenteval.cluster.worker import FilterAnswer, FilterWorker
from agenteval.errors import UserError
from agenteval.streams.console import Console
from agenteval.streams.output import read_written
from agenteval.streams.source import Source
from agenteval.wire.records import RUN_ID_VARIABLE
from tests.support.ray_nodes import TwoNodes
from tests.support.tool import BIN, Record, read, run, write
from tests.support.watching import Running, expect_gone, sleepers, until

SLOW = 120.0  # seconds for what takes a few: the machine may be busy
PROMPTS = [{"id": f"p{number}", "input": f"question {number}", "hint": "question"} for number in range(12)]

# --- the command line ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("args", "says"),
    [
        ([], "give a filter after --"),
        (["--", "ae-run", "-o", "x"], "-o of ae-run would act on the nodes: put it before --"),
        (["--env", "KEY=secret", "--", "cat"], "--env KEY: give only the name"),
        (["--env", "NOT_THERE", "--", "cat"], "--env NOT_THERE: not set"),
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


def test_files_that_a_command_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "project").mkdir()
    (tmp_path / "ws").mkdir()
    for name in ("grader.py", "style.sh", "schema.json", "unused"):
        (tmp_path / name).touch()
    graders = ["-g", "./grader.py", "-g", "style=./style.sh --strict", "--workspace-template=project"]
    command = ["ae-capture", "-s", "schema.json", *graders, "--workspace-dir", "ws", "-g", "/etc/passwd", "-g", "'"]
    assert sorted(set(named_files(command))) == ["grader.py", "project", "schema.json", "style.sh"]


# --- the filter on a node -----------------------------------------------------------------------


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[Callable[..., FilterWorker]]:
    started: list[FilterWorker] = []

    def start(*command: str) -> FilterWorker:
        started.append(FilterWorker([str(BIN / command[0]), *command[1:]], str(tmp_path)))
        return started[-1]

    yield start
    for one in started:
        one.finish()


def test_a_filter_answers_many_records_and_exits(worker: Callable[..., FilterWorker]) -> None:
    one = worker("ae-run", "--shell", 'echo "$WORD"')
    one.prepare({"WORD": "handed over"})
    answers = [one.process(name, f'{{"id":"{name}","input":"x"}}'.encode()) for name in ("a", "b")]
    assert all(answer.line and b"handed over" in answer.line for answer in answers), answers
    assert one.finish().code == 0


def test_all_slots_are_one_run(worker: Callable[..., FilterWorker]) -> None:
    slots = [worker("ae-run", "--shell", "env") for _ in range(2)]
    for slot in slots:
        slot.prepare({RUN_ID_VARIABLE: "one"})
    lines = [slot.process("a", b'{"id":"a","input":"x"}').line or b"" for slot in slots]
    assert all(b'"runId":"one"' in line and RUN_ID_VARIABLE.encode() not in line for line in lines), lines


def test_a_prompt_that_was_edited_is_done_again(tmp_path: Path) -> None:
    prompts = [{"id": name, "input": f"say {name}"} for name in "abc"]
    options = ["--simple", "echo {}", "-o", "out", "--resume"]
    run("ae-capture", write(tmp_path / "prompts", *prompts[:2]), *options, cwd=tmp_path).expect(0)
    written = read_written(str(tmp_path / "out"))
    edited = write(tmp_path / "edited", prompts[0] | {"input": "say z"}, *prompts[1:])
    tasks = read_tasks(Source(str(edited)), written, Console("ae-ray"))
    assert [task.id for task in tasks] == ["a", "c"]


def test_a_refused_record_has_no_answer_and_costs_no_other(worker: Callable[..., FilterWorker]) -> None:
    one = worker("ae-grade", "-g", "ae-grader-hint")
    good = b'{"id":"a","output":"x","hint":"x"}'
    assert one.process("a", good).line
    refused = one.process("b", b'{"id":"b","output":7}')
    assert (refused.line, refused.refused) == (None, True) and "stdin:2" in refused.messages[0], refused
    assert one.process("a", good).line


def test_a_filter_that_dies_is_started_again(worker: Callable[..., FilterWorker]) -> None:
    one = worker("ae-run", "--shell", 'case "$PROMPT" in bad) kill -9 $PPID; sleep 60;; esac; echo fine')
    died = one.process("a", b'{"id":"a","input":"bad"}')
    assert (died.line, died.refused, died.code) == (None, False, -signal.SIGKILL), died
    assert one.process("b", b'{"id":"b","input":"good"}').line


def test_a_filter_with_wrong_usage_and_one_that_is_missing(worker: Callable[..., FilterWorker]) -> None:
    assert worker("ae-run").process("a", b'{"id":"a","input":"x"}').code == 2
    assert worker("no-such-filter").process("a", b'{"id":"a","input":"x"}').code == 127


# --- handing out --------------------------------------------------------------------------------


class FakeSlot:
    """A worker that answers at once, or as `answer` says: an exception is its death."""

    def __init__(self, answer: Callable[[str], FilterAnswer]) -> None:
        self.answer, self.killed = answer, False

    def prepare(self) -> Future[Any]:
        return self._done(lambda: "node")

    def process(self, record_id: str, line: bytes) -> Future[Any]:
        return self._done(lambda: self.answer(record_id))

    def finish(self) -> Future[Any]:
        return self._done(lambda: FilterAnswer(None, [], code=0))

    def kill(self) -> None:
        self.killed = True

    @staticmethod
    def _done(value: Callable[[], object]) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(value())
        except RuntimeError as error:
            future.set_exception(error)
        return future


def dispatch(
    answer: Callable[[str], FilterAnswer], count: int, *, retries: int = 2, keep_order: bool = False
) -> tuple[list[str], list[FakeSlot], Dispatcher]:
    """Returns what was written, the slots and the run."""
    written: list[str] = []
    slots: list[FakeSlot] = []

    def open_slot() -> FakeSlot:
        slots.append(FakeSlot(answer))
        return slots[-1]

    run = Dispatcher(
        open_slot,
        3,
        retries,
        lambda line: written.append(line.decode().strip()),
        lambda task, reason: f"{task.id} given up: {reason}".encode(),
        Console("ae-ray", progress=False),
        keep_order,
    )
    run.run(Task(str(number), b"{}") for number in range(count))
    return written, slots, run


def test_each_record_is_written_once_in_order() -> None:
    written, slots, run = dispatch(lambda record_id: FilterAnswer(record_id.encode(), []), 2000, keep_order=True)
    assert written == [str(number) for number in range(2000)]
    assert len(slots) == 3 and all(slot.killed for slot in slots) and not run.failed


@pytest.mark.parametrize("keep_order", [False, True])
@pytest.mark.parametrize("by", ["worker", "filter"])
def test_a_record_that_kills_its_workers_is_given_up(
    by: str, keep_order: bool, capfd: pytest.CaptureFixture[str]
) -> None:
    asked: list[str] = []

    def answer(record_id: str) -> FilterAnswer:
        asked.append(record_id)
        if record_id != "4":
            return FilterAnswer(record_id.encode(), [])
        if by == "worker":
            raise RuntimeError("The actor died")
        return FilterAnswer(None, [], code=-9)

    written, slots, run = dispatch(answer, 10, keep_order=keep_order)
    assert asked.count("4") == 3 and len(asked) == 12
    assert len(slots) == (6 if by == "worker" else 3)
    given_up = next(line for line in written if "given up" in line)
    assert "its worker died 3 times" in given_up and run.failed
    numbers = [line.partition(" ")[0] for line in written]
    assert sorted(numbers, key=int) == [str(number) for number in range(10)]
    assert not keep_order or numbers == sorted(numbers, key=int)
    assert "4: given up" in capfd.readouterr().err


def test_a_refused_record_is_left_out(capfd: pytest.CaptureFixture[str]) -> None:
    refusal = FilterAnswer(None, ["ae-grade: stdin:1: no output"], refused=True)
    written, _, _ = dispatch(
        lambda record_id: refusal if record_id == "1" else FilterAnswer(b"x" + record_id.encode(), []),
        4,
        keep_order=True,
    )
    assert written == ["x0", "x2", "x3"]
    assert capfd.readouterr().err == "ae-ray: ae-grade: 1: no output\n"


def test_wrong_usage_of_the_filter_ends_the_run() -> None:
    with pytest.raises(UserError, match="the command cannot run: ae-run: name one agent"):
        dispatch(lambda _id: FilterAnswer(None, ["ae-run: name one agent"], code=2), 4)


def test_a_cluster_without_room_is_mentioned_once(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Nothing happens until a worker starts: that is said, and the run goes on when one does."""
    monkeypatch.setattr("agenteval.cluster.dispatch.PATIENCE", 0.05)
    start: Future[Any] = Future()
    slot = FakeSlot(lambda record_id: FilterAnswer(record_id.encode(), []))
    slot.prepare = lambda: start  # type: ignore[method-assign]
    written: list[bytes] = []
    run_ = Dispatcher(lambda: slot, 1, 0, written.append, lambda _task, _reason: b"", Console("ae-ray", progress=False))
    threading.Timer(0.5, start.set_result, ["node"]).start()
    run_.run([Task("a", b"{}")])
    assert written == [b"a\n"]
    assert capfd.readouterr().err.count("no worker has started after 0.05 s: the cluster has no room") == 1


# --- a cluster ----------------------------------------------------------------------------------


def plain(value: Any) -> Any:
    """Returns records without times and directories."""
    if isinstance(value, dict):
        without = ("timing", "timestamp", "cwd")
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
    return next(one for one in parents(pid) if b"FilterWorker" in Path("/proc", str(one), "cmdline").read_bytes())


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
            until(lambda: len(busy & sleepers(mark)) == 3, "the agent of the worker is gone", SLOW)
        else:
            two_nodes.cluster.remove_node(two_nodes.nodes.pop(), allow_graceful=False)
            until(lambda: len(busy & sleepers(mark)) < 4, "the agents of the node are gone", SLOW)
            two_nodes.nodes.append(two_nodes.cluster.add_node(num_cpus=2))
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
