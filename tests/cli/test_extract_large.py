"""ae-extract of a large file, which two processes share: the same bytes, messages and exit codes as one alone."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.support.tool import BIN, run
from tests.support.watching import Running, until

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/task").exists() or len(os.sched_getaffinity(0)) < 2, reason="needs two processors, and /proc"
)
AE_EXTRACT = str(BIN / "ae-extract")  # by its path: it has no children but its own
SECRET = "sk-secret-value-0123456789"
EVENT = {"type": "assistant", "message": {"role": "assistant", "content": [{"type": "text", "text": "word " * 200}]}}
END = {"type": "result", "subtype": "success", "is_error": False, "result": "done", "session_id": "s"}


def raw(number: int, **fields: Any) -> str:
    lines = [json.dumps(event) for event in (EVENT, EVENT, EVENT, END)]
    timing = {"start": 1, "end": 2, "total": 1}
    return json.dumps({"id": f"r{number}", "input": "x", "rawLines": lines, "timing": timing, **fields})


def large(path: Path, lines: dict[int, str] | None = None, count: int = 5_000) -> Path:
    """Writes 18 MB of raw records, some lines replaced by others."""
    usual = raw(0)
    with path.open("w") as file:
        for number in range(count):
            file.write((lines or {}).get(number, usual.replace('"r0"', f'"r{number}"', 1)))
            file.write("\n")
    return path


ODD = {
    9: "not JSON",
    2_000: "",
    2_001: '{"id": "no lines"}',
    2_500: raw(2_500, metadata={"big": 2**70, "small": 1e-300}, errors=["failed"], output=SECRET),
    3_333: raw(3_333).replace("word", "\\\\ud800", 1),
    4_999: "[1]",
}


@pytest.fixture(scope="module")
def usual(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return large(tmp_path_factory.mktemp("usual") / "raw.jsonl")


@pytest.mark.parametrize("options", [[], ["--keep-raw"], ["--strict"], ["--progress"]], ids="".join)
def test_as_one_process_alone(tmp_path: Path, options: list[str]) -> None:
    path = large(tmp_path / "raw.jsonl", ODD)
    env = {"MY_API_KEY": SECRET}
    one, two = (run("ae-extract", path, "-s", "claude", "-j", n, *options, env=env) for n in (1, 2))
    assert (two.out, two.err, two.code) == (one.out, one.err, 1)
    if not options:
        assert len(one.records) == 4_996
        assert one.messages[0] == f"ae-extract: {path}:10: not JSON: Expecting value at column 1"
        assert one.records[one.ids.index("r2500")]["metadata"]["big"] == 2**70
        assert SECRET not in one.stdout


def test_a_schema_that_takes_nothing_is_reported_once(usual: Path) -> None:
    one, two = (run("ae-extract", usual, "-s", "codex", "-j", n).expect(0) for n in (1, 2))
    assert (two.out, two.err) == (one.out, one.err)
    assert two.stderr.count("takes nothing") == 1


def children(pid: int) -> list[int]:
    try:
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def worker_of(tool: Running) -> int:
    """Returns the process that shares the work, once there is one; after that the tool waits for us to read on."""
    read = 0
    while not (found := children(tool.pid)):
        assert (piece := os.read(tool.stdout.fileno(), 1 << 14)), f"no second process, {read} bytes read"
        read += len(piece)
    return found[0]


def expect_end(pid: int) -> None:
    until(lambda: not Path(f"/proc/{pid}/exe").is_symlink(), "the end of the worker", within=10)


def test_a_killed_worker_costs_nothing(usual: Path, tmp_path: Path) -> None:
    with Running(AE_EXTRACT, usual, "-s", "claude", cwd=tmp_path) as tool:
        os.kill(worker_of(tool), signal.SIGKILL)
        rest = tool.process.communicate(timeout=60)[0]
        assert tool.process.returncode == 0
    ids = [json.loads(line)["id"] for line in rest.splitlines()[1:]]  # of the first, part may have been read
    assert ids == [f"r{number}" for number in range(5_000 - len(ids), 5_000)]
    assert len(ids) > 4_000


@pytest.mark.parametrize("signum", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_the_worker_ends_with_the_tool(usual: Path, tmp_path: Path, signum: signal.Signals) -> None:
    with Running(AE_EXTRACT, usual, "-s", "claude", cwd=tmp_path) as tool:
        worker = worker_of(tool)
        tool.process.send_signal(signum)
        expect_end(worker)
        assert tool.process.wait(30) == {signal.SIGKILL: -9, signal.SIGTERM: 143, signal.SIGINT: 130}[signum]


def test_a_closed_pipe_ends_both(usual: Path, tmp_path: Path) -> None:
    with Running(AE_EXTRACT, usual, "-s", "claude", cwd=tmp_path) as tool:
        worker = worker_of(tool)
        tool.stdout.close()
        assert tool.process.wait(30) == 0
        expect_end(worker)


def test_a_small_file_needs_no_worker(tmp_path: Path) -> None:
    path = large(tmp_path / "raw.jsonl", count=1_500)
    with (
        Running(AE_EXTRACT, path, "-s", "claude", cwd=tmp_path) as tool,
        pytest.raises(AssertionError, match="no second"),
    ):
        worker_of(tool)
