"""ae-headless: command lines served over the Agent Client Protocol, to our client, to the SDK's, and by hand."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from agenteval.adapters.reader import Adapter, Reading, result_of
from agenteval.adapters.schema_file import load_adapter
from agenteval.adapters.trajectory import Trajectory
from agenteval.agents.acp.server import LiveTrajectory, result_chunk
from tests.support.tool import BIN, ROOT, TIMEOUT, Record, clean_env, jsonl, on_terminal, run, script
from tests.support.transcripts import compiled_once
from tests.support.watching import Running, expect_gone, marked, sleepers, until, with_time_enough

DATA = ROOT / "tests" / "data"
TRANSCRIPTS = sorted(path for pattern in ("*.jsonl", "aider*.txt") for path in (DATA / "transcripts").glob(pattern))


def schema_of(name: str) -> Path:
    """Returns the schema file of an agent."""
    return ROOT / "agenteval" / "adapters" / "schemas" / f"{name}.json"


def write_schema(path: Path, command: list[str], name: str = "text", **fields: Any) -> Path:
    """Writes a schema like the named one, for another command."""
    schema = {**json.loads(schema_of(name).read_text()), "command": command, **fields}
    schema = {key: value for key, value in schema.items() if value is not None}
    path.write_text(json.dumps(schema))
    return path


def comparable(steps: list[Record]) -> list[Record]:
    """Returns the steps without the fields that differ from run to run; the call of a sub-agent by its step."""
    calls = {step["callId"]: {"parentId": step["stepId"]} for step in steps if "callId" in step}
    left_out = ("timestamp", "duration", "callId")
    kept = [{key: value for key, value in step.items() if key not in left_out} for step in steps]
    return [step | calls.get(step.get("parentId"), {}) for step in kept]


# --- trajectories as updates --------------------------------------------------------------------


def read_back(adapter: Adapter, lines: list[str]) -> tuple[list[Record], str, str]:
    """Returns the trajectory that the adapter acp reads from the updates, the output, and the last message."""
    updates: list[Record] = []
    reader = Reading(adapter, LiveTrajectory("s", updates.append))
    reader.begin_turn()
    for line in lines:
        reader.take([line])
    reader.end_turn()
    sent = [json.dumps({"method": "session/update", "params": {"update": update}}) for update in updates]
    return compiled_once("acp").read(sent, record_id="s").trajectory, reader.output, reader.last_message()


@pytest.mark.parametrize("transcript", TRANSCRIPTS, ids=lambda path: path.stem)
def test_updates_give_the_same_trajectory(transcript: Path) -> None:
    adapter = compiled_once(str(schema_of(transcript.stem.partition("-")[0])))
    lines = transcript.read_text().splitlines()
    direct = adapter.read(lines, record_id="s")
    steps, output, _ = read_back(adapter, lines)
    assert comparable(steps) == comparable(direct.trajectory)
    assert output == direct.output


def test_plain_text_is_sent_line_by_line() -> None:
    for lines in (["a", "b"], ["", "", "a", "", "b", ""], ["", ""], []):
        direct = load_adapter("text").read(lines, record_id="s")
        steps, output, last = read_back(load_adapter("text"), lines)
        assert (steps, output) == (direct.trajectory, direct.output)
        assert last == direct.output


def test_calls_plans_and_empty_messages_survive() -> None:
    def deeds(out: Trajectory) -> None:
        out.begin_turn()
        out.text("message", "")
        out.text("message", "second")
        out.piece("thought", "half ")
        out.piece("thought", "and half")
        out.text("thought", "half and half")
        out.plan([{"text": "look", "completed": True}, "go", {"content": "x", "priority": "high", "status": "pending"}])
        out.plan([{"content": "x", "priority": "high", "status": "pending"}])
        out.call("1", "read", {"path": None, "n": 10**30})
        out.call("1", "read", {"path": "a"})
        out.call(None, "run", None)
        out.report("1", None, None, [{"type": "text"}], None, None, None, "completed")
        out.report("1", None, None, {"again": None}, None, None, None, "completed")
        out.report(None, "run", None, "no", None, True, None, "completed")
        out.report("9", "late", {"a": 1}, None, "in_progress", None, None, "pending")
        out.report("9", None, None, "more", "unchanged", None, None, "pending")
        out.report("8", "pending", {"b": 1}, None, "pending", None, None, "pending")
        out.end_turn()

    updates: list[Record] = []
    plain, live = Trajectory("s"), LiveTrajectory("s", updates.append)
    deeds(plain)
    deeds(live)
    assert live.steps == plain.steps
    sent = [json.dumps({"method": "session/update", "params": {"update": update}}) for update in updates]
    got = load_adapter("acp").read(sent, record_id="s")
    assert comparable(got.trajectory) == comparable(plain.steps)
    assert got.tool_errors


PIECES = {"match": {"path": "$.t", "value": "say"}, "emitAs": "message", "delta": True, "extract": {"content": "$.x"}}
NESTED = [
    {"match": {"path": "$.t", "value": "call"}, "emitAs": "tool_call", "extract": {"id": "$.id", "title": "'Task'"}},
    {"match": {"path": "$.t", "value": "sub"}, "emitAs": "message", "extract": {"content": "$.x", "parent": "$.of"}},
]


def sent_by(rules: list[Record], *events: Record, tmp_path: Path) -> list[Record]:
    """Returns the updates that these events give."""
    schema = write_schema(tmp_path / "mine.json", ["true"], outputMode=None, outputEvents=rules)
    updates: list[Record] = []
    reader = Reading(load_adapter(str(schema)), LiveTrajectory("s", updates.append))
    reader.begin_turn()
    for event in events:
        reader.take([json.dumps(event)])
    reader.end_turn()
    json.dumps(updates, ensure_ascii=False).encode()  # no half is left
    return updates


@pytest.mark.parametrize(
    ("pieces", "sent"),
    [
        (["a\ud83d", "\ude00b"], ["a", "😀b"]),
        (["\ud83d", "\ude00"], ["", "😀"]),
        (["a\ud83d", "b"], ["a", "\ufffdb"]),
        (["a\ud83d"], ["a", "\ufffd"]),
        (["\ud83d\ude00", "\ud83d", "\ude00\ud83d", "\ude01"], ["😀", "😀", "😁"]),
        (["\ude00", "é"], ["\ufffd", "é"]),
    ],
)
def test_halves_of_a_character_are_joined_before_they_are_sent(
    pieces: list[str], sent: list[str], tmp_path: Path
) -> None:
    updates = sent_by([PIECES], *({"t": "say", "x": piece} for piece in pieces), tmp_path=tmp_path)
    assert [update["content"]["text"] for update in updates] == sent


@pytest.mark.parametrize("cuts", [(1,), (10,), (19,), (3, 7), (1, 2, 3, 18)])
def test_a_secret_in_pieces_is_not_sent(cuts: tuple[int, ...], tmp_path: Path) -> None:
    secret = "ghs_abcdefghijklmnop"
    ends = [0, *cuts, len(secret)]
    parts = [secret[start:end] for start, end in zip(ends, ends[1:], strict=False)]
    parts = [f"key: {parts[0]}", *parts[1:-1], f"{parts[-1]} and ghs_", "abc."]
    events = " ".join(f"'{json.dumps({'t': 'say', 'x': part})}'" for part in parts)
    schema = write_schema(tmp_path / "s.json", SHELL, sessionMode="stream", outputMode=None, outputEvents=[PIECES])
    with Running("ae-headless", "-s", schema, cwd=tmp_path, env={"SOME_API_KEY": secret}) as server:
        session = open_session(server, tmp_path)
        prompt(server, session, f"printf '%s\\n' {events}", 3)
        _last, updates = answer(server, 3)
    sent = "".join(update["content"]["text"] for update in updates)
    assert sent == "key: [redacted:SOME_API_KEY] and ghs_abc."


def test_steps_of_a_sub_agent_are_sent_with_their_call(tmp_path: Path) -> None:
    events = [{"t": "call", "id": "c1"}, {"t": "sub", "x": "inner", "of": "c1"}, {"t": "say", "x": "outer"}]
    updates = sent_by([*NESTED, PIECES], *events, tmp_path=tmp_path)
    lines = [json.dumps({"params": {"update": update}}) for update in updates]
    got = load_adapter("acp").read(lines)
    assert [(step.get("content"), step.get("parentId")) for step in got.trajectory] == [
        (None, None),
        ("inner", "s-step-1"),
        ("outer", None),
    ]
    assert got.trajectory[0]["callId"] == "s-step-1" and got.output == "outer"


def test_a_result_for_a_person_is_no_step() -> None:
    line = json.dumps({"method": "session/update", "params": {"update": result_chunk("42")}})
    assert load_adapter("acp").read([line]).trajectory == []


# --- both ends ----------------------------------------------------------------------------------


def players(tmp_path: Path) -> list[tuple[Path, Any]]:
    """Returns schemas whose command plays a transcript, each with prompts."""
    data = DATA / "transcripts"
    # The text of the prompt, which is the last argument, names the transcript.
    player = script(tmp_path / "player", f'for last; do :; done; cat "{data}/$last.jsonl"; printf "%s\\n" "$*" >>calls')
    text = script(tmp_path / "text", 'echo "$@" >>calls; printf "\\n\\nfirst\\n\\nthe answer to %s\\n" "$*"')
    only = {"type": "result", "result": "only a result"}
    result = script(tmp_path / "result", f"echo '{json.dumps(only)}'; echo >>calls")
    return [
        (write_schema(tmp_path / "claude.json", [str(player)], "claude"), ["claude-resume1", "claude-resume2"]),
        (write_schema(tmp_path / "codex.json", [str(player)], "codex", resume=None), "codex-toolfail"),
        (write_schema(tmp_path / "text.json", [str(text)]), ["one", "two"]),
        (write_schema(tmp_path / "result.json", [str(result)], "claude"), "anything"),
    ]


def test_through_the_protocol_comes_what_comes_directly(tmp_path: Path) -> None:
    for schema, prompt in players(tmp_path):
        records = jsonl({"id": "a", "input": prompt})
        raw = run("ae-run", "-s", schema, stdin=records, cwd=tmp_path).expect(0, stderr="").records
        direct = result_of(raw[0], load_adapter(str(schema)))
        raw = run("ae-run", "--", "ae-headless", "-s", schema, stdin=records, cwd=tmp_path).expect(0, stderr="").records
        served = result_of(raw[0], load_adapter("acp"))
        assert comparable(served["trajectory"]) == comparable(direct["trajectory"]), schema
        assert direct["trajectory"] or schema.stem == "result"
        for field in ("output", "toolErrors", "errors", "input"):
            assert served.get(field) == direct.get(field), (schema, field)
        for field in ("inputTokens", "outputTokens", "cachedTokens", "costUsd"):
            assert served["timing"].get(field) == direct["timing"].get(field), (schema, field)
        calls = (tmp_path / "calls").read_text().splitlines()
        half = len(calls) // 2
        assert half and calls[:half] == calls[half:], "the command lines are the same, resuming included"
        (tmp_path / "calls").unlink()


def test_a_failing_command_line_is_an_error_the_client_shows(tmp_path: Path) -> None:
    failing = script(tmp_path / "failing", "echo half; echo the reason >&2; exit 3")
    schema = write_schema(tmp_path / "s.json", [str(failing)])
    records = jsonl({"id": "a", "input": ["x", "y"]})
    (raw,) = run("ae-run", "--", "ae-headless", "-s", schema, stdin=records, cwd=tmp_path).expect(0).records
    assert raw["errors"] == ["turn 1 of 2: session/prompt failed: exited with code 3: the reason (code -32603)"], (
        "and the second turn is skipped"
    )
    assert load_adapter("acp").read(raw["rawLines"]).output == "half"


# --- by hand ------------------------------------------------------------------------------------


def request(number: Any, method: str, **params: Any) -> Record:
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


def open_session(server: Running, cwd: Path, number: int = 2) -> str:
    server.feed(request(number, "session/new", cwd=str(cwd), mcpServers=[]))
    name: str = server.record()["result"]["sessionId"]
    return name


def prompt(server: Running, session: str, text: str, number: int) -> None:
    server.feed(request(number, "session/prompt", sessionId=session, prompt=[{"type": "text", "text": text}]))


def answer(server: Running, number: int) -> tuple[Record, list[Record]]:
    """Returns the answer to a request, and the updates before it."""
    updates = []
    while (message := server.record()).get("id") != number:
        updates.append(message["params"]["update"])
    return message, updates


SHELL = ["sh", "-c", 'eval "$1"', "sh"]


@pytest.fixture
def shell(tmp_path: Path) -> Path:
    """Returns a schema whose agent runs the prompt as a shell line; without history, which is no shell code."""
    return write_schema(tmp_path / "shell.json", SHELL, sessionMode="stream")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Starts one server for the tests that do not end it."""
    cwd = tmp_path_factory.mktemp("server")
    schema = write_schema(cwd / "shell.json", SHELL, sessionMode="stream")
    with Running("ae-headless", "-s", schema, cwd=cwd) as running:
        yield running
        done = running.end()
        assert (done.code, done.out, done.err) == (0, b"", b""), done


def test_a_conversation_by_hand(shell: Path, tmp_path: Path) -> None:
    with Running("ae-headless", "-s", shell, "-v", cwd=tmp_path) as server:
        server.feed(request(1, "initialize", protocolVersion=99))
        hello = server.record()
        assert hello["result"]["protocolVersion"] == 1, "our version, whatever the client's"
        assert hello["result"]["agentCapabilities"]["loadSession"] is False
        session = open_session(server, tmp_path)
        prompt(server, session, "pwd", 3)
        last, updates = answer(server, 3)
        assert last["result"] == {"stopReason": "end_turn", "content": [{"type": "text", "text": str(tmp_path)}]}
        assert [update["content"]["text"] for update in updates] == [str(tmp_path)]
        done = server.end()
        assert done.code == 0
        assert done.out == b"", "stdout carries the protocol and nothing else"
        assert done.messages == [f"ae-headless: {session}: in {tmp_path}: sh -c 'eval \"$1\"' sh pwd"]


def test_updates_go_out_while_the_command_line_prints(server: Running, tmp_path: Path) -> None:
    session = open_session(server, tmp_path)
    prompt(server, session, "echo one; while [ ! -e go ]; do sleep 0.02; done; echo two", 3)
    assert server.record()["params"]["update"]["content"]["text"] == "one"
    (tmp_path / "go").touch()
    last, updates = answer(server, 3)
    assert [update["content"]["text"] for update in updates] == ["\ntwo"]


def test_bad_messages_are_answered_and_survived(server: Running, tmp_path: Path) -> None:
    bad: list[tuple[Any, int]] = [
        ("{broken", -32700),
        ("\x00", -32700),
        ('"\\ud800"', -32700),
        ([], -32600),
        (7, -32600),
        *((line, -32600) for line in ("null", "true", '"text"', "[null]")),
        (request(1, ["x"]), -32600),  # type: ignore[arg-type]
        ({"id": {}, "method": "initialize"}, -32600),
        ({"id": 1, "method": "initialize", "params": 3}, -32600),
        (request(1, "no/such"), -32601),
        (request(1, "session/load", sessionId="x", cwd="/", mcpServers=[]), -32601),
        (request(1, "session/resume", sessionId="x"), -32601),
        (request(1, "session/new", cwd=7), -32602),
        (request(1, "session/new", cwd="relative", mcpServers=[]), -32602),
        (request(1, "session/new", cwd="/no/such", mcpServers=[]), -32602),
        (request(1, "session/prompt", sessionId="none", prompt=[]), -32602),
        (request(1, "session/prompt", sessionId=[]), -32602),
        (request(1, "initialize"), -32602),
        (request(1, "initialize", protocolVersion=-1), -32602),
    ]
    for message, code in bad:
        server.feed(message)
        assert server.record()["error"]["code"] == code, message
    server.feed({"method": "session/cancel", "params": {"sessionId": "none"}})
    server.feed({"method": "no/such"}, {"id": 5, "result": 1}, {"id": [1], "error": {}}, {})
    server.feed({"method": "session/prompt", "params": {}}, {"method": "session/new"})
    session = open_session(server, tmp_path)
    image = {"type": "image", "data": "", "mimeType": "image/png"}
    wrong: list[Any] = [[image], [{"type": "text", "text": 7}], ["text"], "text", {}, None]
    for given in wrong:
        server.feed(request(3, "session/prompt", sessionId=session, prompt=given))
        assert server.record()["error"]["code"] == -32602
    blocks = [
        {"type": "text", "text": "echo"},
        {"type": "resource_link", "name": "x", "uri": "file:///x"},
        {"type": "resource", "resource": {"uri": "file:///y", "text": "echo embedded"}},
    ]
    server.feed(request(4, "session/prompt", sessionId=session, prompt=blocks))
    assert "embedded" in json.dumps(answer(server, 4))


def test_cancel_ends_the_tree_and_the_session_goes_on(server: Running, tmp_path: Path) -> None:
    with marked() as mark:
        session = open_session(server, tmp_path)
        stubborn = f"sh -c \"trap '' TERM; sleep {mark}\" &"
        prompt(server, session, f"echo half; {stubborn} sleep {mark}; echo never", 3)
        until(lambda: len(sleepers(mark)) == 2, "it runs")
        prompt(server, session, "echo second", 4)
        server.feed({"method": "session/cancel", "params": {"sessionId": session}})
        refused, updates = answer(server, 4)
        assert "cancel it first" in refused["error"]["message"]
        assert answer(server, 3)[0]["result"] == {"stopReason": "cancelled"}
        prompt(server, session, "sleep 0.2; echo third", 5)
        last, updates = answer(server, 5)
        assert last["result"]["stopReason"] == "end_turn", "the next turn is not cancelled with the first"
        assert [update["content"]["text"] for update in updates] == ["third"]
        expect_gone(mark)


def test_a_failed_turn_leaves_nothing_for_the_next(server: Running, tmp_path: Path) -> None:
    session = open_session(server, tmp_path)
    for number, line in ((3, "echo one; exit 3"), (4, "printf 'no end'; kill -9 $$"), (5, "")):
        prompt(server, session, line, number)
        last, updates = answer(server, number)
        assert ("error" in last, len(updates)) == (line != "", line != "")
    prompt(server, session, "echo half; trap 'echo late; exit' TERM; while :; do sleep 0.02; done", 6)
    assert server.record()["params"]["update"]["content"]["text"] == "half"
    server.feed({"method": "session/cancel", "params": {"sessionId": session}})
    last, _ = answer(server, 6)
    assert last["result"] == {"stopReason": "cancelled"}
    prompt(server, session, "echo two", 7)
    last, updates = answer(server, 7)
    assert [update["content"]["text"] for update in updates] == ["two"]
    assert last["result"]["content"][0]["text"] == "two"


RESULTS = {
    "match": {"path": "$.t", "value": "back"},
    "emitAs": "tool_call",
    "extract": {"id": "$.id", "title": "'Task'", "output": "$.x", "status": "'completed'"},
}


@pytest.mark.parametrize("how", ["exit 3", "kill -9 $$", 'printf \'{"t": "say\'; exit 1', "exec sleep 60"])
def test_updates_of_a_failed_turn_do_not_come_in_the_next(how: str, tmp_path: Path) -> None:
    """It fails after pieces of a message, of which the last ends in half a character, and an unanswered tool call."""
    rules = [PIECES, NESTED[0], RESULTS]
    schema = write_schema(tmp_path / "s.json", SHELL, sessionMode="stream", outputMode=None, outputEvents=rules)
    call = '{"t": "call", "id": "c1"}'
    pieces = [call, '{"t": "say", "x": "old "}', '{"t": "say", "x": "words \\ud83d"}']

    def check(*limit: object) -> None:
        with Running("ae-headless", "-s", schema, *limit, cwd=tmp_path) as server:
            session = open_session(server, tmp_path)
            lines = " ".join(f"'{piece}'" for piece in pieces)
            prompt(server, session, f"printf '%s\\n' {lines}; {how}", 3)
            failed, old = answer(server, 3)
            assert "error" in failed and json.dumps(old).count("words ") == 1
            for number in (4, 5):
                back = '{"t": "back", "id": "c1", "x": "new"}'
                prompt(server, session, f"printf '%s\\n' '{call}' '{back}' '{pieces[1]}'", number)
                last, new = answer(server, number)
                assert last["result"]["content"] == [{"type": "text", "text": "old "}]
                kinds = [update["sessionUpdate"] for update in new]
                assert kinds == ["tool_call", "tool_call_update", "agent_message_chunk"], new
                idents = [{update.get("messageId"), update.get("toolCallId")} - {None} for update in (*old, *new)]
                assert set().union(*idents[: len(old)]).isdisjoint(set().union(*idents[len(old) :]))
                old += new

    with_time_enough(partial(check, "-t"), 3000) if "sleep" in how else check()


def test_any_json_value_as_a_line_is_answered_or_ignored(server: Running, tmp_path: Path) -> None:
    values: list[Any] = [
        None,
        True,
        0,
        -1.5,
        1e300,
        "",
        "x",
        [],
        [[]],
        {},
        {"id": None},
        {"method": None},
        {"params": None},
    ]
    odd: list[Any] = [None, 7, "x", [], {}]
    values += [{"method": "session/prompt", "id": value, "params": value} for value in odd]
    values += [{"method": "session/prompt", "id": 1, "params": {"sessionId": value}} for value in odd]
    values += [{"method": value, "id": 1} for value in odd]
    server.feed(*map(json.dumps, values))
    server.feed(request("last", "initialize", protocolVersion=1))
    while (message := server.record()).get("id") != "last":
        assert isinstance(message["error"]["code"], int), message
        assert "internal" not in message["error"]["message"], message


def test_a_session_without_a_directory(shell: Path, tmp_path: Path) -> None:
    with Running("ae-headless", "-s", shell, cwd=tmp_path) as server:
        server.feed({"id": 1, "method": "session/new"}, request(2, "session/new"))
        for name in [server.record()["result"]["sessionId"] for _ in range(2)]:
            prompt(server, name, "pwd", 3)
            assert answer(server, 3)[0]["result"]["content"][0]["text"] == str(tmp_path), "where the server was started"


def test_sessions_are_continued_by_their_id(tmp_path: Path) -> None:
    event = '{"type":"result","result":"%s","session_id":"own"}'
    agent = script(tmp_path / "agent", f"printf '{event}\\n' \"$*\"")
    schema = write_schema(tmp_path / "s.json", [str(agent)], "claude", output=None, autoApprove=None)
    replies: list[Record] = []
    for _process in range(2):
        with Running("ae-headless", "-s", schema, cwd=tmp_path) as server:
            server.feed(request(1, "initialize", protocolVersion=1))
            capabilities = server.record()["result"]["agentCapabilities"]
            assert capabilities["loadSession"] is True and capabilities["sessionCapabilities"] == {"resume": {}}
            server.feed(request(2, "session/load", sessionId="session-1", cwd=str(tmp_path), mcpServers=[]))
            assert server.record()["error"]["code"] == -32002, "nothing was opened under this id"
            if replies:
                server.feed(request(3, "session/load", sessionId=replies[0]["_meta"]["sessionId"]))
                session = server.record()["result"]["sessionId"]
            else:
                session = open_session(server, tmp_path)
            for number, method in enumerate(("load", "resume"), 4):
                prompt(server, session, "hello", number)
                replies.append(answer(server, number)[0]["result"])
                server.feed(request(9, f"session/{method}", sessionId=session, cwd=str(tmp_path), mcpServers=[]))
                assert server.record()["result"] == {"sessionId": session}
    texts = [reply["content"][0]["text"] for reply in replies]
    assert texts == ["-- hello", *["--resume own -- hello"] * 3]


def test_sessions_side_by_side(server: Running, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    one, two = open_session(server, tmp_path, 2), open_session(server, tmp_path / "other", 3)
    assert one != two
    prompt(server, one, "while [ ! -e go ]; do sleep 0.02; done; pwd", 4)
    prompt(server, two, "pwd; touch ../go", 5)
    messages = [server.record() for _ in range(4)]
    assert sorted(message["id"] for message in messages if "id" in message) == [4, 5]
    texts = {m["params"]["sessionId"]: m["params"]["update"]["content"]["text"] for m in messages if "params" in m}
    assert texts == {one: str(tmp_path), two: str(tmp_path / "other")}


def test_timeout(shell: Path, tmp_path: Path) -> None:
    def check(limit: int) -> None:
        with marked() as mark, Running("ae-headless", "-s", shell, "-t", limit, cwd=tmp_path) as server:
            session = open_session(server, tmp_path)
            prompt(server, session, f"echo half; sleep {mark}", 3)
            last, updates = answer(server, 3)
            assert last["error"]["message"] == f"timeout: not done after {limit} ms"
            assert [update["content"]["text"] for update in updates] == ["half"]
            expect_gone(mark)

    with_time_enough(check, 2000)


def test_an_agent_that_reports_an_error_each_time(tmp_path: Path) -> None:
    transcript = DATA / "transcripts" / "claude-http401.jsonl"
    reported = load_adapter("claude").read(transcript.read_text().splitlines()).errors[0]
    player = script(tmp_path / "player", f'cat "{transcript}"; exit $(cat code)')
    schema = write_schema(tmp_path / "s.json", [str(player)], "claude")
    with Running("ae-headless", "-s", schema, cwd=tmp_path) as server:
        session = open_session(server, tmp_path)
        for number, code in ((3, 0), (4, 0), (5, 1)):
            (tmp_path / "code").write_text(str(code))
            prompt(server, session, "x", number)
            message = answer(server, number)[0]["error"]["message"]
            assert message == (f"exited with code 1; {reported}" if code else reported)


def test_the_end_of_stdin_ends_everything(shell: Path, tmp_path: Path) -> None:
    with marked() as mark, Running("ae-headless", "-s", shell, cwd=tmp_path) as server:
        session = open_session(server, tmp_path)
        prompt(server, session, f"sleep {mark} & sleep {mark}", 3)
        until(lambda: len(sleepers(mark)) == 2, "it runs")
        done = server.end()
        assert done.code == 0
        assert done.records == [{"jsonrpc": "2.0", "id": 3, "result": {"stopReason": "cancelled"}}]
        expect_gone(mark)


def test_what_was_asked_before_the_end_is_answered(shell: Path, tmp_path: Path) -> None:
    asked = jsonl(request(1, "initialize", protocolVersion=1), "{broken")
    (tmp_path / "requests").write_text(asked)
    for stdin in (asked, tmp_path / "requests"):
        done = run("ae-headless", "-s", shell, stdin=stdin, cwd=tmp_path).expect(0, stderr="")
        assert sorted(record["id"] is None for record in done.records) == [False, True]


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_nothing_survives_a_signal(signum: int, shell: Path, tmp_path: Path) -> None:
    with marked() as mark, Running("ae-headless", "-s", shell, cwd=tmp_path) as server:
        session = open_session(server, tmp_path)
        prompt(server, session, f"setsid sleep {mark} & sleep {mark}", 3)
        until(lambda: len(sleepers(mark)) == 2, "it runs")
        server.signal(signum)
        assert server.process.wait(TIMEOUT) == (-signum if signum == signal.SIGKILL else 128 + signum)
        expect_gone(mark)


def test_nothing_survives_a_signal_to_the_client(shell: Path, tmp_path: Path) -> None:
    with marked() as mark, Running("ae-run", "--", "ae-headless", "-s", shell, cwd=tmp_path) as tool:
        tool.feed({"id": "a", "input": f"setsid sleep {mark} & sleep {mark}"})
        until(lambda: len(sleepers(mark)) == 2, "it runs")
        tool.signal(signal.SIGKILL)
        tool.process.wait(TIMEOUT)
        expect_gone(mark)


def test_a_client_that_has_gone(shell: Path, tmp_path: Path) -> None:
    with marked() as mark, Running("ae-headless", "-s", shell, cwd=tmp_path) as server:
        session = open_session(server, tmp_path)
        prompt(server, session, f"sleep 0.3; echo x; sleep {mark}", 3)
        server.stdout.close()
        assert server.process.wait(TIMEOUT) == 0
        assert server.stderr.read() == b""
        expect_gone(mark)


# --- the SDK's client ---------------------------------------------------------------------------


class Watcher:
    """A client for the SDK that records the updates."""

    def __init__(self) -> None:
        self.updates: list[Any] = []

    def on_connect(self, _conn: Any) -> None: ...

    async def session_update(self, session_id: str, update: Any, **_rest: Any) -> None:
        self.updates.append(update)


async def drive(schema: Path, cwd: Path, texts: list[str]) -> tuple[list[str], list[Any]]:
    import acp  # here: a second of work, for every process that collects tests
    from acp.schema import ClientCapabilities

    watcher = Watcher()
    command = [str(BIN / "ae-headless"), "-s", str(schema)]
    async with acp.spawn_agent_process(watcher, *command, env=clean_env(cwd)) as (agent, _process):  # type: ignore[arg-type]
        hello = await agent.initialize(protocol_version=1, client_capabilities=ClientCapabilities())
        assert hello.agent_info is not None and hello.agent_info.name == "claude"
        session = await agent.new_session(cwd=str(cwd), mcp_servers=[])
        reasons = []
        for text in texts:
            reply = await agent.prompt(session_id=session.session_id, prompt=[acp.text_block(text)])
            assert reply.usage is not None and reply.usage.output_tokens > 0
            reasons.append(reply.stop_reason)
        return [str(reason) for reason in reasons], watcher.updates


def test_the_sdks_client(tmp_path: Path) -> None:
    player = script(tmp_path / "player", f'for last; do :; done; cat "{DATA}/transcripts/$last"')
    schema = write_schema(tmp_path / "claude.json", [str(player)], "claude")
    reasons, updates = asyncio.run(drive(schema, tmp_path, ["claude-resume1.jsonl", "claude-resume2.jsonl"]))
    assert reasons == ["end_turn", "end_turn"]
    kinds = [update.session_update for update in updates]
    assert kinds.count("tool_call") >= 1 and kinds.count("tool_call_update") >= 1
    assert kinds[-1] == "agent_message_chunk"


# --- the command line ---------------------------------------------------------------------------


def test_on_a_terminal_it_explains_its_use(shell: Path, tmp_path: Path) -> None:
    done = on_terminal("ae-headless", "-s", shell, cwd=tmp_path)
    assert done.code == 2
    assert "terminal" in done.stdout and "ae-run -- ae-headless" in done.stdout, done


def test_it_needs_no_sdk(shell: Path, tmp_path: Path) -> None:
    (tmp_path / "hidden" / "acp").mkdir(parents=True)
    (tmp_path / "hidden" / "acp" / "__init__.py").write_text("raise ModuleNotFoundError('no acp', name='acp')")
    environment = {"PYTHONPATH": f"{tmp_path / 'hidden'}{os.pathsep}{ROOT}"}
    hello = jsonl(request(1, "initialize", protocolVersion=1))
    done = run("ae-headless", "-s", shell, stdin=hello, cwd=tmp_path, env=environment).expect(0, stderr="")
    assert done.records[0]["result"]["protocolVersion"] == 1


def test_wrong_schemas_are_refused_at_once(tmp_path: Path) -> None:
    for name, why in (
        ("no-such", "no adapter schema is named"),
        ("text", "has no command to run"),
        ("x.json", "No such file"),
    ):
        run("ae-headless", "-s", name, cwd=tmp_path).expect(2).says(why)
    run("ae-headless", cwd=tmp_path).expect(2).says("Missing option -s")
