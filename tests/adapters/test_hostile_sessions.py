"""ae-import reads folders that agents wrote: whatever is in them, it ends, and costs the session that it belongs to."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from agenteval.adapters.sessions import logs
from agenteval.cli.tools.import_ import with_unique_ids
from agenteval.streams.console import Console
from agenteval.streams.files import LARGEST
from tests.adapters.test_sessions import logs_of
from tests.support.tool import Done, jsonl, run

ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT"


def session(name: str, *agents: tuple[str, str], cwd: str = "/w") -> str:
    """Returns a log of claude, with a call of each of these sub-agents (id of the call, and of the agent)."""
    of_all = {"sessionId": name, "cwd": cwd}
    events: list[object] = [{"type": "user", **of_all, "message": {"role": "user", "content": "hello"}}]
    for call, agent in agents:
        use = {"type": "tool_use", "id": call, "name": "Task", "input": {}}
        result = {"type": "tool_result", "tool_use_id": call, "content": "done"}
        events.append({"type": "assistant", **of_all, "message": {"id": call, "content": [use]}})
        message = {"role": "user", "content": [result]}
        events.append({"type": "user", **of_all, "message": message, "toolUseResult": {"agentId": agent}})
    return jsonl(*events)


def imported(path: Path, *options: str, program: str = "claude") -> Done:
    return run("ae-import", program, path, *options, cwd=path.parent, timeout=60)


def test_every_file_is_read_once_and_no_link_is_followed(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    (logs / "project").mkdir(parents=True)
    (logs / "project/a.jsonl").write_text(session("a"))
    os.link(logs / "project/a.jsonl", logs / "project/b.jsonl")
    for name in ("one", "two"):
        (logs / name).symlink_to(".")
        (logs / "project" / name).symlink_to("..")
    assert imported(logs).expect(0, stderr="").ids == ["a"]
    (logs / "project/c.jsonl").symlink_to("/dev/zero")
    os.mkfifo(logs / "project/d.jsonl")
    done = imported(logs).expect(1)
    assert done.ids == ["a"] and len(done.messages) == 2
    assert "c.jsonl: is a symbolic link, not a regular" in done.stderr
    assert "d.jsonl: is a named pipe, not a regular" in done.stderr


def test_sub_agents_that_name_each_other(tmp_path: Path) -> None:
    """Six calls in each of two logs that name each other would be 6^8 reads."""
    calls = [(f"call-{number}", "b") for number in range(6)]
    (tmp_path / "a.jsonl").write_text(session("a", *calls))
    (tmp_path / "agent-b.jsonl").write_text(session("a", *((call, "c") for call, _ in calls)))
    (tmp_path / "agent-c.jsonl").write_text(session("a", *((call, "b") for call, _ in calls)))
    (record,) = imported(tmp_path).expect(0).records
    assert len(record["trajectory"]) == 18, "each log is read once"


def test_a_view_that_never_ends_is_not_read(tmp_path: Path) -> None:
    path = next(logs_of("opencode", tmp_path).glob("*.db"))
    database = sqlite3.connect(path)
    columns = ", ".join(f"i AS {row[1]}" for row in database.execute("PRAGMA table_info(session)"))
    database.executescript(f"ALTER TABLE session RENAME TO kept; CREATE VIEW session AS {ENDLESS} {columns} FROM n;")
    database.close()
    assert imported(path, program="opencode").expect(1).says("opencode.db: not a database of sessions: ")


def test_a_query_has_a_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "ROW_SECONDS", 0.05)
    with pytest.raises(sqlite3.Error, match="a query took too long"):
        list(logs.rows(sqlite3.connect(":memory:"), f"{ENDLESS} count(*) FROM n"))


def test_a_signal_is_heard_during_a_query() -> None:
    """SQLite drops the exception of a signal that arrives in its callback; the tool sends the signal again."""
    code = f"""
import os, signal, sqlite3, sys, threading
from agenteval.adapters.sessions.logs import rows
from agenteval.cli.tool import _send_again, _stop
sys.unraisablehook = _send_again
signal.signal(signal.SIGINT, _stop)
threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
list(rows(sqlite3.connect(":memory:"), "{ENDLESS} count(*) FROM n"))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=30)
    assert done.stderr.endswith(b"agenteval.errors.Stopped: 2\n"), done.stderr


@pytest.mark.parametrize("kind", ["fifo", "bytes", "zero", "sparse"])
def test_the_file_that_names_a_project(kind: str, tmp_path: Path) -> None:
    folder = logs_of("gemini", tmp_path)
    before = imported(folder, program="gemini").expect(0)
    for file in folder.rglob(".project_root"):
        file.unlink()
        if kind == "fifo":
            os.mkfifo(file)
        elif kind == "bytes":
            file.write_bytes(b"/w\xff\xfe")
        elif kind == "zero":
            file.symlink_to("/dev/zero")
        else:
            os.truncate(os.open(file, os.O_CREAT | os.O_WRONLY), 3 << 30)
    done = imported(folder, program="gemini").expect(0 if kind == "bytes" else 1)
    if kind == "bytes":
        assert done.ids == before.ids
    else:
        assert ".project_root" in done.stderr


def test_a_line_and_a_cwd_that_cost_their_session_only(tmp_path: Path) -> None:
    (tmp_path / "good.jsonl").write_text(session("good", cwd=str(tmp_path)))
    (tmp_path / "nul.jsonl").write_text(session("nul", cwd=f"{tmp_path}/a\0b"))
    with (tmp_path / "sparse.jsonl").open("wb") as file:
        file.write(session("sparse", cwd=str(tmp_path)).encode() + b'{"x":"')
        file.truncate(LARGEST + (1 << 21))
        file.seek(0, os.SEEK_END)
        file.write(b'"}\n' + session("after").encode())
    done = imported(tmp_path, "--cwd", str(tmp_path)).expect(1)
    assert done.ids == ["good", "sparse"]
    assert "sparse.jsonl:2: longer than --max-line allows" in done.says()
    small = imported(tmp_path / "good.jsonl", "--max-line", "20").expect(1)
    assert "good.jsonl:1: longer than" in small.says()


def test_a_file_without_end(tmp_path: Path) -> None:
    with (tmp_path / "sparse.jsonl").open("wb") as file:
        file.truncate(3 << 30)
    (tmp_path / "good.jsonl").write_text(session("good"))
    done = imported(tmp_path).expect(1)
    assert done.ids == ["good"] and "sparse.jsonl:1: the line has more than 1,073,741,824 bytes" in done.says()


def test_repeated_ids_take_linear_time() -> None:
    """Looked at by what is done, not by the clock: each record asks for two numbers at most."""
    asked = 0

    class Ident(str):
        def __hash__(self) -> int:
            nonlocal asked
            asked += 1
            return super().__hash__()

    count = 300
    records = [{"id": Ident("a"), "trajectory": []} for _ in range(count)]
    ids = [record["id"] for record in with_unique_ids(iter(records), Console("ae-import", progress=False))]
    assert ids == ["a", *(f"a-{number}" for number in range(2, count + 1))]
    assert asked < 10 * count
