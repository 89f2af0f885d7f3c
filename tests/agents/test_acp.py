"""ae-run as a client of the Agent Client Protocol: real agents that behave, misbehave, ask, crash and hang."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agenteval.adapters.reader import Reading, result_of
from agenteval.adapters.schema_file import load_adapter
from agenteval.agents.acp.client import Client, RequestHandler
from agenteval.agents.acp.rpc import find_message
from tests.support.tool import BIN, ROOT, TIMEOUT, Done, Record, jsonl, run, write
from tests.support.watching import TRIES, Running, expect_gone, in_time, marked, sleepers, until

DATA = ROOT / "tests" / "data"
AGENT = [sys.executable, str(DATA / "acp_agent.py")]


def actions(*some: Any) -> str:
    """Returns a prompt with actions for the scripted agent."""
    return json.dumps(some)


def talk(tmp_path: Path, *prompts: Any, options: list[str] | None = None, start: list[str] | None = None) -> Done:
    """Runs ae-run over prompts with the scripted agent."""
    records = [{"id": f"p{n}", "input": prompt} for n, prompt in enumerate(prompts)]
    return run("ae-run", *(options or []), "--", *AGENT, *(start or []), stdin=jsonl(*records), cwd=tmp_path)


def one(tmp_path: Path, *some: Any, options: list[str] | None = None, start: list[str] | None = None) -> Record:
    """Returns the raw record of one prompt."""
    (record,) = talk(tmp_path, actions(*some), options=options, start=start).expect(0).records
    return record


def by_itself(attempt: Callable[[], Record]) -> Record:
    """Returns the first record of an agent that has exited by itself: it has half a second, which may be too short."""
    for _ in range(TRIES - 1):
        if (raw := attempt())["signal"] is None:
            return raw
    return attempt()


def reading(raw: Record) -> Reading:
    return load_adapter("acp").read(raw["rawLines"], raw["lineTimes"], [turn["lines"] for turn in raw["turns"]], "a")


def messages(raw: Record) -> list[Any]:
    """Returns the messages of the agent, each of which is JSON."""
    return [json.loads(step["content"]) for step in reading(raw).trajectory if step["type"] == "message"]


# --- the way it should be -----------------------------------------------------------------------


def test_a_turn(tmp_path: Path) -> None:
    raw = by_itself(lambda: talk(tmp_path, "hello").expect(0, stderr="").records[0])
    assert [json.loads(line).get("id") for line in raw["rawLines"]] == [1, 2, None, 3], "every line as it came"
    assert "errors" not in raw
    assert (raw["exitCode"], raw["signal"], raw["timedOut"]) == (0, None, False)
    assert raw["cwd"] == str(tmp_path)
    assert len(raw["lineTimes"]) == 4
    assert raw["turns"] == [
        {"lines": 4, "exitCode": 0, "signal": None, "timedOut": False, "total": raw["turns"][0]["total"]}
    ]
    timing = raw["timing"]
    assert 0 < timing["sessionCreation"] <= timing["firstResponse"] <= timing["total"]
    assert reading(raw).output == "echo: hello"


def test_turns_are_one_process_and_one_session(tmp_path: Path) -> None:
    raw = by_itself(lambda: talk(tmp_path, ["one", "two", "three"]).expect(0, stderr="").records[0])
    assert [turn["lines"] for turn in raw["turns"]] == [4, 2, 2]
    assert [turn["exitCode"] for turn in raw["turns"]] == [None, None, 0]
    steps = reading(raw).trajectory
    assert [step["content"] for step in steps] == ["echo: one", "echo: two", "echo: three"]
    assert reading(raw).output == "echo: three"


def test_many_at_once_in_their_workspaces(tmp_path: Path) -> None:
    prompts = [actions(["cwd"], ["ask", "fs/write_text_file", {"path": "x.txt", "content": str(n)}]) for n in range(6)]
    done = talk(tmp_path, *prompts, options=["-j", "3", "--workspace-dir", "ws"]).expect(0, stderr="")
    assert sorted(done.ids) == [f"p{n}" for n in range(6)]
    for raw in done.records:
        assert reading(raw).trajectory[0]["content"] == str(tmp_path / "ws" / f"prompt-{raw['id']}")
        assert (tmp_path / "ws" / f"prompt-{raw['id']}" / "x.txt").read_text() == raw["id"][1:]


def test_run_extract_and_capture_give_the_same(tmp_path: Path) -> None:
    prompts = jsonl({"id": "a", "input": ["hello", "again"]})
    raw = run("ae-run", "--", *AGENT, stdin=prompts, cwd=tmp_path).expect(0)
    (extracted,) = run("ae-extract", "-s", "acp", stdin=raw.out, cwd=tmp_path).expect(0, stderr="").records
    (captured,) = run("ae-capture", "--", *AGENT, stdin=prompts, cwd=tmp_path).expect(0, stderr="").records
    assert extracted["output"] == captured["output"] == "echo: again"
    assert extracted["metadata"].pop("runId") != captured["metadata"].pop("runId")
    assert extracted["metadata"] == captured["metadata"]
    assert extracted["metadata"]["agent"] == "acp"


def test_the_sdks_echo_agent(tmp_path: Path) -> None:
    (tmp_path / "note.txt").write_text("a note")
    prompts = jsonl({"id": "a", "input": ["hello", "again"]})
    agent = [sys.executable, str(DATA / "acp_echo_agent.py")]
    (raw,) = run("ae-run", "--", *agent, stdin=prompts, cwd=tmp_path).expect(0, stderr="").records
    assert "errors" not in raw, raw
    assert [step["content"] for step in reading(raw).trajectory] == ["hello (a note)", "again (a note)"]


def test_other_lines_on_stdout_are_kept_and_passed_over(tmp_path: Path) -> None:
    noise = ["DEBUG: starting", "", "{broken", "[1, 2]", "null", '"text"', "{}", '{"jsonrpc": "2.0"}', "\x00\xff"]
    raw = one(tmp_path, *(["put", line] for line in noise), ["message", "good"])
    assert "errors" not in raw, raw
    assert raw["rawLines"][2:-2] == noise
    assert reading(raw).output == "good"


def test_an_agent_that_stays_is_ended_which_is_no_failure(tmp_path: Path) -> None:
    with marked() as mark:
        raw = one(tmp_path, ["start", "sleep", mark], ["message", "done"], ["stay"])
        assert "errors" not in raw, raw
        assert raw["signal"] == "SIGTERM", "the record says how it ended"
        assert reading(raw).output == "done"
        expect_gone(mark)


def test_an_exit_code_after_the_last_answer_is_no_failure(tmp_path: Path) -> None:
    last = {"jsonrpc": "2.0", "id": 3, "result": {"stopReason": "end_turn"}}
    raw = by_itself(lambda: one(tmp_path, ["message", "done"], ["put", json.dumps(last)], ["exit", 3]))
    assert "errors" not in raw, raw
    assert raw["exitCode"] == 3


def test_an_answer_without_a_line_end_before_the_exit(tmp_path: Path) -> None:
    last = json.dumps({"id": 3, "result": {"stopReason": "end_turn"}})
    raw = one(tmp_path, ["message", "done"], ["flood", 1, last], ["exit", 0])
    assert "errors" not in raw, raw
    assert raw["rawLines"][-1] == last


# --- what goes wrong ----------------------------------------------------------------------------

ENDINGS: dict[str, tuple[list[Any], str]] = {
    "JSON-RPC error": (
        [["message", "half"], ["fail", {"code": -32603, "message": "Internal error", "data": {"details": "no model"}}]],
        "session/prompt failed: Internal error: no model (code -32603)",
    ),
    "no error object": ([["fail", "boom"]], 'session/prompt failed: "boom"'),
    "refusal": ([["answer", {"stopReason": "refusal"}]], "refused to continue (stopReason refusal)"),
    "cancelled": ([["answer", {"stopReason": "cancelled"}]], "as cancelled, although it was not asked to"),
    "max_tokens": ([["answer", {"stopReason": "max_tokens"}]], "token limit"),
    "max_turn_requests": ([["answer", {"stopReason": "max_turn_requests"}]], "limit of model requests"),
    "crash": (
        [["message", "half"], ["stderr", "first\nthe reason\n"], ["exit", 7]],
        "exited with code 7 before it answered session/prompt: the reason",
    ),
    "quiet exit": ([["exit", 0]], "exited with code 0 before it answered session/prompt"),
    "unknown id": ([["answer_as", 99]], "answered a request that was not sent (id 99)"),
    "strange id": ([["answer_as", {"a": [1]}]], 'answered a request that was not sent (id {"a":[1]})'),
    "early answer": ([["answer_as", 4]], "answered a request that was not sent (id 4)"),
    "parse error": (
        [["send", {"id": None, "error": {"code": -32700, "message": "Parse error"}}], ["sleep", 9]],
        "could not read session/prompt: Parse error (code -32700)",
    ),
    "closed stdout": ([["close"], ["sleep", 99]], "closed its stdout before it answered session/prompt"),
}


@pytest.fixture(scope="module")
def endings(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Record]:
    """Returns the raw record of each of ENDINGS; a second turn must not be reached."""
    prompts = [{"id": name, "input": [actions(*some), "too late"]} for name, (some, _) in ENDINGS.items()]
    cwd = tmp_path_factory.mktemp("endings")
    done = run("ae-run", "-j", "4", "--", *AGENT, stdin=jsonl(*prompts), cwd=cwd).expect(0)
    return {raw["id"]: raw for raw in done.records}


@pytest.mark.parametrize("name", ENDINGS)
def test_endings(name: str, endings: dict[str, Record]) -> None:
    raw = endings[name]
    (error,) = raw["errors"]
    assert error.startswith("turn 1 of 2: ") and ENDINGS[name][1] in error, raw
    assert len(raw["turns"]) == 1, "later turns are skipped"
    assert raw["turns"][0]["lines"] == len(raw["rawLines"])
    assert raw["timedOut"] is False


@pytest.mark.parametrize(
    ("start", "error"),
    [
        (["initialize", {"protocolVersion": 2}], "speaks version 2 of the Agent Client Protocol, not 1"),
        (["initialize", {"protocolVersion": "x"}], 'speaks version "x"'),
        (["new", {}], "answered session/new without a sessionId"),
        (["new", "?"], "answered session/new without a sessionId"),
        (
            ["exit", 0],
            "exited with code 0 before it answered initialize; if it does not speak ACP, use --simple or --shell",
        ),
        (["put", "no protocol"], None),
        (["initialize", None], None),
    ],
)
def test_beginnings(start: list[Any], error: str | None, tmp_path: Path) -> None:
    raw = one(tmp_path, ["message", "good"], start=[json.dumps(start)])
    if error is None:
        assert "errors" not in raw
    else:
        assert len(raw["errors"]) == 1 and error in raw["errors"][0], raw
        assert "sessionCreation" not in raw["timing"]


def test_login_is_explained(tmp_path: Path) -> None:
    start = [
        json.dumps(
            ["initialize", {"protocolVersion": 1, "authMethods": [{"id": "o", "name": "OAuth"}, {"id": "key"}]}]
        ),
        json.dumps(["new_error", {"code": -32000, "message": "Authentication required"}]),
    ]
    (error,) = one(tmp_path, start=start)["errors"]
    assert error == (
        "session/new failed: Authentication required (code -32000); "
        "log in with the agent's own command first (it offers: OAuth, key)"
    )


def test_programs_that_speak_something_else(tmp_path: Path) -> None:
    for command, error in (
        (["sleep", "99"], "timeout: initialize not answered within 300 ms"),
        (["cat"], "initialize failed: Method not found: initialize (code -32601)"),
        (
            ["echo", "hello"],
            "exited with code 0 before it answered initialize; if it does not speak ACP, use --simple or --shell",
        ),
        (["sh", "-c", "echo oops >&2; exit 3"], "exited with code 3 before it answered initialize: oops"),
        (["sh", "-c", "kill -9 $$"], "killed by SIGKILL before it answered initialize"),
        (["/dev/null/x"], None),
    ):
        prompts = jsonl({"id": "a", "input": "x"})
        limit = "300" if command[0] == "sleep" else "20s"
        done = run("ae-run", "-t", limit, "--", *command, stdin=prompts, cwd=tmp_path)
        if error is None:
            done.expect(2).says("no such command")
        else:
            assert done.expect(0).records[0]["errors"] == [error], done


def test_an_answer_twice_or_with_its_number_as_text(tmp_path: Path) -> None:
    again = json.dumps({"id": 2, "result": {"sessionId": "other"}})
    raw = one(tmp_path, ["put", again], ["answer_as", "3"], ["message", "good"])
    assert "errors" not in raw, raw


def test_timeout_holds_per_turn(tmp_path: Path) -> None:
    def seconds(limit: int) -> float | None:
        slow = actions(["sleep", limit / 2900], ["message", "slow"])
        (raw,) = talk(tmp_path, [slow, slow, slow], options=["-t", str(limit)]).expect(0).records
        assert "errors" not in raw or raw["timedOut"], raw
        return None if raw["timedOut"] else raw["timing"]["total"] / limit

    assert in_time(seconds, 1450) > 1


def test_timeout_in_the_second_turn(tmp_path: Path) -> None:
    def attempt(limit: int) -> Record | None:
        with marked() as mark:
            hang = actions(["message", "half"], ["start", "sleep", mark], ["sleep", 99])
            (raw,) = talk(tmp_path, ["first", hang, "third"], options=["-t", str(limit)]).expect(0).records
            expect_gone(mark)
        assert raw["errors"][0].endswith(f" not answered within {limit} ms")
        raw["errors"] = [error.removesuffix(f" within {limit} ms") for error in raw["errors"]]
        return raw if len(raw["turns"]) == 2 and raw["turns"][1]["lines"] else None

    raw = in_time(attempt, 1000)
    assert raw["errors"] == ["turn 2 of 3: timeout: session/prompt not answered"]
    assert [turn["timedOut"] for turn in raw["turns"]] == [False, True]
    assert [turn["lines"] for turn in raw["turns"]] == [4, 1], "what came before is kept"
    assert raw["timedOut"] is True


def test_late_updates_belong_to_the_next_turn_or_the_last(tmp_path: Path) -> None:
    answer = json.dumps({"id": 3, "result": {"stopReason": "end_turn"}})
    first = actions(["message", "one"], ["put", answer], ["message", "late"], ["answer_as", 3])
    (raw,) = talk(tmp_path, [first, "two"]).expect(0).records
    assert "errors" not in raw, raw
    assert [step["content"] for step in reading(raw).trajectory][0] == "one"
    assert reading(raw).output.endswith("echo: two")


# --- what the agent asks ------------------------------------------------------------------------

OPTIONS = [
    {"optionId": "never", "name": "No", "kind": "reject_always"},
    {"optionId": "no", "name": "No", "kind": "reject_once"},
    {"optionId": "ever", "name": "Yes", "kind": "allow_always"},
    {"optionId": "yes", "name": "Yes", "kind": "allow_once"},
]


@pytest.mark.parametrize(
    ("options", "allowed", "denied"),
    [
        (OPTIONS, "yes", "no"),
        (OPTIONS[:3], "ever", "no"),
        (OPTIONS[:1], None, "never"),
        ([{"optionId": "some", "kind": "allow_for_now"}], "some", None),
        ([], None, None),
        ("nonsense", None, None),
        ([7, {"optionId": "x"}], None, None),
    ],
)
def test_permission(options: Any, allowed: str | None, denied: str | None, tmp_path: Path) -> None:
    request = {"id": "a", "method": "session/request_permission", "params": {"options": options}}
    for deny, chosen in ((False, allowed), (True, denied)):
        answer = json.loads(RequestHandler(str(tmp_path), deny=deny).serve(request))
        outcome = {"outcome": "cancelled"} if chosen is None else {"outcome": "selected", "optionId": chosen}
        assert answer == {"jsonrpc": "2.0", "id": "a", "result": {"outcome": outcome}}


def test_permission_in_a_run(tmp_path: Path) -> None:
    request = ["ask", "session/request_permission", {"options": OPTIONS}, "an id as text"]
    assert messages(one(tmp_path, request)) == [{"result": {"outcome": {"outcome": "selected", "optionId": "yes"}}}]
    denied = one(tmp_path, request, options=["--deny-permissions"])
    assert messages(denied) == [{"result": {"outcome": {"outcome": "selected", "optionId": "no"}}}]


def test_deny_permissions_needs_an_agent_that_asks(tmp_path: Path) -> None:
    run("ae-run", "--simple", "echo {}", "--deny-permissions", cwd=tmp_path).expect(2).says("--deny-permissions", "--")


def test_files(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\nthree\nfour\n")
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    raw = one(
        tmp_path,
        ["ask", "fs/read_text_file", {"path": str(tmp_path / "a.txt")}],
        ["ask", "fs/read_text_file", {"path": str(tmp_path / "a.txt"), "line": 2, "limit": 2}],
        ["ask", "fs/read_text_file", {"path": "a.txt", "line": 9}],
        ["ask", "fs/write_text_file", {"path": str(tmp_path / "new" / "dir" / "b.txt"), "content": "wörld"}],
        ["ask", "fs/write_text_file", {"path": "a.txt", "content": "short"}],
        ["ask", "fs/write_text_file", {"path": "link/c.txt", "content": "through a link that stays inside"}],
        ["ask", "fs/read_text_file", {"path": "real/../link/c.txt"}],
    )
    texts = [message["result"].get("content") for message in messages(raw)]
    through = "through a link that stays inside"
    assert texts == ["one\ntwo\nthree\nfour\n", "two\nthree\n", "", None, None, None, through]
    assert (tmp_path / "new" / "dir" / "b.txt").read_text() == "wörld"
    assert (tmp_path / "a.txt").read_text() == "short"
    assert (tmp_path / "real" / "c.txt").read_text() == through


def test_nothing_outside_is_read_or_written(tmp_path: Path) -> None:
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    inside.mkdir()
    outside.mkdir()
    (outside / "secret").write_text("secret")
    (inside / "file-link").symlink_to(outside / "secret")
    (inside / "directory-link").symlink_to(outside)
    (inside / "dangling").symlink_to(outside / "new")
    os.mkfifo(inside / "fifo")
    paths = [
        "../outside/secret",
        str(outside / "secret"),
        str(inside / ".." / "outside" / "secret"),
        "file-link",
        "directory-link/secret",
        "directory-link/sub/new",
        "dangling",
        "fifo",
        "/dev/zero",
        "/dev/null",
        "",
        ".",
        "a\0b",
        "/",
        str(inside),
        f"{inside}-beside/new",
    ]
    asked = [["ask", "fs/read_text_file", {"path": path}] for path in paths]
    asked += [["ask", "fs/write_text_file", {"path": path, "content": "changed"}] for path in paths]
    raw = one(tmp_path, *asked, options=["-c", "inside"])
    assert "errors" not in raw, raw
    answers = messages(raw)
    assert len(answers) == len(asked)
    assert [answer for answer in answers if "error" not in answer] == []
    assert all(answer["error"]["message"] for answer in answers)
    assert (outside / "secret").read_text() == "secret"
    assert sorted(path.name for path in tmp_path.rglob("*")) == sorted(
        ["inside", "outside", "secret", "file-link", "directory-link", "dangling", "fifo"]
    )


def test_bad_and_unknown_requests(tmp_path: Path) -> None:
    raw = one(
        tmp_path,
        ["ask", "terminal/create", {"command": "id"}],
        ["ask", "no/such", None],
        ["ask", "fs/read_text_file", {"path": 7}],
        ["ask", "fs/read_text_file", []],
        ["ask", "fs/read_text_file", {"path": "missing"}],
        ["ask", "fs/read_text_file", {"path": "x", "line": "2"}],
        ["ask", "fs/write_text_file", {"path": "x"}],
        ["ask", ["no", "text"], {}],
    )
    codes = [message["error"]["code"] for message in messages(raw)]
    assert codes == [-32601, -32601, -32602, -32602, -32002, -32602, -32602, -32601]


def test_a_large_file(tmp_path: Path) -> None:
    (tmp_path / "good").write_text("x" * (5 << 20))
    with open(tmp_path / "huge", "wb") as file:
        file.truncate(1 << 40)
    raw = one(tmp_path, *[["ask", "fs/read_text_file", {"path": name}] for name in ("good", "good", "huge")])
    first, second, huge = messages(raw)
    assert len(first["result"]["content"]) == len(second["result"]["content"]) == 5 << 20
    assert "larger than" in huge["error"]["message"]


def test_an_agent_that_asks_and_does_not_read_the_answers(tmp_path: Path) -> None:
    (tmp_path / "good").write_text("x" * (5 << 20))

    def errors(limit: int) -> list[str] | None:
        raw = one(tmp_path, ["ask_much", 3000, "good"], ["sleep", 99], options=["-t", str(limit)])
        return [error.replace(str(limit), "LIMIT") for error in raw["errors"]] if raw["turns"][0]["lines"] > 2 else None

    assert in_time(errors, 1500) == ["timeout: session/prompt not answered within LIMIT ms"]


def test_a_flood(tmp_path: Path) -> None:
    raw = one(tmp_path, ["flood", 300_000, "x" * 99 + "\n"], options=["--max-output", "1M"])
    assert raw["errors"] == ["output exceeded 1048576 bytes (--max-output); the agent was terminated"]
    assert len("\n".join(raw["rawLines"])) <= 1 << 20
    raw = one(tmp_path, ["flood", 300_000, "x" * 99], options=["--max-output", "1M"])
    assert "output exceeded" in raw["errors"][0]


# --- nothing is left ----------------------------------------------------------------------------


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_nothing_survives_the_tool(signum: int, tmp_path: Path) -> None:
    with marked() as mark, Running("ae-run", "-j", "2", "--", *AGENT, mark, cwd=tmp_path) as tool:
        hang = actions(["start", "sleep", mark], ["sleep", 99])
        tool.feed({"id": "a", "input": hang}, {"id": "b", "input": hang})
        until(lambda: len(sleepers(mark)) == 2, "both agents have started a helper")
        tool.signal(signum)
        tool.process.wait(TIMEOUT)
        expect_gone(mark)


def test_what_an_agent_leaves_running_ends_with_its_prompt(tmp_path: Path) -> None:
    with marked() as mark, Running("ae-run", "--", *AGENT, cwd=tmp_path) as tool:
        tool.feed({"id": "a", "input": actions(["start", "sleep", mark], ["message", "done"])})
        assert "errors" not in tool.record()
        assert sleepers(mark) == set()
        assert tool.end().code == 0


# --- the command line ---------------------------------------------------------------------------


def test_the_command_after_two_dashes(tmp_path: Path) -> None:
    prompts = write(tmp_path / "prompts.jsonl", {"id": "a", "input": actions(["message", "x"])})
    for arguments in (["prompts.jsonl", "-j", "2"], ["-j", "2", "prompts.jsonl"], ["-"], []):
        done = run("ae-run", *arguments, "--", *AGENT, "--", "-s", "--version", stdin=prompts, cwd=tmp_path).expect(0)
        assert "errors" not in done.records[0]
    run("ae-run", "prompts.jsonl", *AGENT, cwd=tmp_path).expect(2).says("put -- before the command")
    run("ae-run", "prompts.jsonl", "--", cwd=tmp_path).expect(2).says("command is missing")
    run("ae-run", "prompts.jsonl", "--", "no-such-agent", cwd=tmp_path).expect(2).says("no-such-agent", "not found")
    run("ae-run", "-s", "claude", "--", "cat", cwd=tmp_path).expect(2).says("-s and --")


# --- reading ------------------------------------------------------------------------------------


def read(*updates: Any, answer: Any = None) -> Reading:
    """Reads these updates and the answer to session/prompt with the adapter acp."""
    lines = [{"method": "session/update", "params": {"sessionId": "s", "update": update}} for update in updates]
    last = {"id": 3, "result": answer or {"stopReason": "end_turn"}}
    return load_adapter("acp").read([json.dumps(line) for line in [*lines, last]])


def chunk(text: str, kind: str = "message", **fields: Any) -> Record:
    return {"sessionUpdate": f"agent_{kind}_chunk", "content": {"type": "text", "text": text}, **fields}


def texts(got: Reading) -> list[tuple[str, str]]:
    return [(step["type"], step["content"]) for step in got.trajectory]


def test_chunks_are_joined() -> None:
    got = read(chunk("I ", "thought"), chunk("think", "thought"), chunk("so "), chunk("I am"), chunk("?", "thought"))
    assert texts(got) == [("thought", "I think"), ("message", "so I am"), ("thought", "?")]
    assert got.output == "so I am"


def test_a_message_ends_where_another_begins() -> None:
    got = read(chunk("a", messageId="1"), chunk("b", messageId="1"), chunk("c", messageId="2"), chunk("d"))
    assert texts(got) == [("message", "ab"), ("message", "cd")]
    assert got.output == "cd", "the last message is the output"


def test_a_tool_call_is_one_step() -> None:
    got = read(
        {"sessionUpdate": "tool_call", "toolCallId": "1", "title": "Read a.txt", "kind": "read", "rawInput": {"p": 1}},
        {"sessionUpdate": "tool_call", "toolCallId": "2", "title": "Run", "status": "pending"},
        {"sessionUpdate": "tool_call_update", "toolCallId": "2", "rawInput": {"c": "ls"}},
        {"sessionUpdate": "tool_call_update", "toolCallId": "1", "status": "in_progress"},
        {"sessionUpdate": "tool_call_update", "toolCallId": "1", "content": [{"type": "content"}]},
        {"sessionUpdate": "tool_call_update", "toolCallId": "1", "status": "completed", "rawOutput": "text"},
        {"sessionUpdate": "tool_call_update", "toolCallId": "1", "_meta": {"late": True}},
        {"sessionUpdate": "tool_call_update", "toolCallId": "2", "status": "failed"},
        {"sessionUpdate": "tool_call", "toolCallId": "3", "kind": "fetch"},
        {"sessionUpdate": "tool_call", "toolCallId": "4", "title": "Bash(ls)", "name": "bash", "status": "in_progress"},
    )
    brief = [[step.get(key) for key in ("name", "status", "input", "output")] for step in got.trajectory]
    assert brief == [
        ["Read a.txt", "completed", {"p": 1}, "text"],
        ["Run", "failed", {"c": "ls"}, None],
        ["fetch", "pending", None, None],
        ["bash", "in_progress", None, None],
    ]
    assert got.tool_errors


def test_plans_usage_and_cost() -> None:
    entries = [{"content": "look", "priority": "high", "status": "pending"}]
    usage = {"totalTokens": 175, "inputTokens": 100, "outputTokens": 50, "cachedReadTokens": 20, "cachedWriteTokens": 5}
    got = read(
        {"sessionUpdate": "plan", "entries": entries},
        {"sessionUpdate": "usage_update", "used": 1, "size": 2, "cost": {"amount": 0.25, "currency": "USD"}},
        {"sessionUpdate": "available_commands_update", "availableCommands": []},
        answer={"stopReason": "end_turn", "usage": usage},
    )
    assert got.trajectory == [{"type": "plan", "entries": entries, "stepId": "-step-1"}]
    assert got.usage == {"inputTokens": 125, "outputTokens": 50, "cachedTokens": 20, "costUsd": 0.25}


@pytest.mark.parametrize(
    ("agent", "turns", "tool", "usage"),
    [
        (
            "claude",
            [21, 7],
            ["Bash", "completed", {"command": "echo hi > hello.txt && echo wrote-it"}, "wrote-it"],
            {"inputTokens": 6000, "outputTokens": 171, "cachedTokens": 1500, "costUsd": 0.02865},
        ),
        (
            "gemini",
            [9, 2],
            ["echo hi > hello.txt && echo wrote-it", "completed", None, []],
            {"inputTokens": 3600, "outputTokens": 171},
        ),
        (
            "opencode",
            [16, 4],
            [
                "bash",
                "completed",
                {"command": "echo hi > hello.txt && echo wrote-it", "cwd": "/tmp/ows/ws/prompt-g1"},
                {"output": "wrote-it\n", "metadata": {"output": "wrote-it\n", "exit": 0, "truncated": False}},
            ],
            {"inputTokens": 2400, "outputTokens": 90, "cachedTokens": 1000, "costUsd": pytest.approx(0.002592)},
        ),
    ],
)
def test_what_real_agents_print(agent: str, turns: list[int], tool: list[Any], usage: Record) -> None:
    lines = (DATA / "acp" / f"{agent}.jsonl").read_text().splitlines()
    got = load_adapter("acp").read(lines, None, turns, "a")
    kinds = [step["type"] for step in got.trajectory]
    assert kinds == ["thought", "message", "tool_call", "message", "message"]
    assert [got.trajectory[2].get(key) for key in ("name", "status", "input", "output")] == tool
    assert got.trajectory[1]["content"] == "I'll create the file now."
    assert got.output.startswith("FOLLOWUP seen") and got.output.endswith("The answer is still 42.")
    assert got.usage == usage


NAMES = {"opencode": "OpenCode", "claude": "@agentclientprotocol/claude-agent-acp", "gemini": "gemini-cli"}


@pytest.mark.parametrize("tool", ["ae-capture", "ae-trials"])
def test_the_agent_is_called_what_it_calls_itself(tool: str, tmp_path: Path) -> None:
    prompts = jsonl({"id": "a", "input": "hello"})
    command = [BIN / "ae-headless", "-s", "text-of-mine.json"]
    schema = {"version": 1, "name": "my-agent", "command": ["echo"], "sessionMode": "iterative", "outputMode": "text"}
    (tmp_path / "text-of-mine.json").write_text(json.dumps({**schema, "prompt": {"flag": ""}}))
    (record,) = run(tool, "--", *command, stdin=prompts, cwd=tmp_path).expect(0).records
    assert record["metadata"]["agent"] == "my-agent"


@pytest.mark.parametrize("agent", NAMES)
def test_the_names_of_real_agents(agent: str) -> None:
    lines = (DATA / "acp" / f"{agent}.jsonl").read_text().splitlines()
    raw = {"id": "a", "input": "x", "rawLines": lines, "timing": {}, "metadata": {"agent": "acp"}}
    assert result_of(raw, load_adapter("acp"))["metadata"]["agent"] == NAMES[agent]


def test_the_older_dialect() -> None:
    got = read(
        chunk("thinking", "thought"),
        {"sessionUpdate": "agent_tool_call", "toolCall": {"name": "Read", "status": "pending"}},
        {"sessionUpdate": "agent_tool_call", "toolCall": {"name": "Read", "status": "completed"}},
        {"sessionUpdate": "agent_plan", "content": {"type": "text", "text": "a plan"}},
        chunk("not the output"),
        answer={"content": [{"type": "text", "text": "the "}, {"type": "text", "text": "output"}]},
    )
    assert got.output == "the output"
    kinds = [(step["type"], step.get("status"), step.get("entries")) for step in got.trajectory]
    assert kinds == [
        ("thought", None, None),
        ("tool_call", "completed", None),
        ("plan", None, ["a plan"]),
        ("message", None, None),
    ]


def test_the_older_dialect_in_a_run(tmp_path: Path) -> None:
    action = actions(["message", "working"], ["answer", {"content": [{"type": "text", "text": "42"}]}])
    (raw,) = talk(tmp_path, [action, action]).expect(0).records
    assert "errors" not in raw, raw
    assert reading(raw).output == "42"


# --- the client by itself -----------------------------------------------------------------------

HOSTILE = [
    b"",
    b"{",
    b"{}",
    b"[]",
    b'{"id": true, "result": 1}',
    b'{"id": 1.5, "result": {}}',
    b'{"id": 1}',
    b'{"id": 1, "result": [1, 2]}',
    b'{"id": 1, "error": null}',
    b'{"id": [], "method": 7, "params": "x"}',
    b'{"id": null, "method": "fs/read_text_file"}',
    b'{"method": null, "id": 1}',
    b'{"method": "session/update", "params": 3}',
    b'{"id": 1, "result": {"protocolVersion": NaN, "authMethods": [1, null, {}], "sessionId": {"x": 1}}}',
    b'{"id": "\\ud800", "method": "x"}',
    b'{"id": 2, "result": {"sessionId": ["x"], "stopReason": ["refusal"]}}',
    b'{"id": 3, "result": {"stopReason": {}}}',
    b'{"id": 99999999999999999999999999, "result": null}',
    b'{"a":' * 5000,
    b"\xff\xfe\x00",
]


def test_no_line_breaks_the_client(tmp_path: Path) -> None:
    for first in HOSTILE:
        for second in HOSTILE:
            client = Client(["x", "y"], str(tmp_path), deny=False)
            for line in (first, b'{"id": 1, "result": {}}', second, *HOSTILE):
                for word in client.reply_to(line, True).splitlines():
                    assert find_message(word) is not None
