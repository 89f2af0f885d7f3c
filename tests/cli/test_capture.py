"""ae-capture: one process gives what ae-run | ae-extract | ae-grade give."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest

from tests.support.tool import (
    PASSES,
    ROOT,
    TIMEOUT,
    Done,
    Record,
    jsonl,
    meeting,
    python_script,
    read,
    run,
    script,
    start,
    write,
)
from tests.support.watching import expect_gone, marked, sleepers, until, with_time_enough

PROMPTS: list[Record] = [
    {"id": "one", "input": "first", "hint": "first", "metadata": {"category": "a"}, "tags": ["x"], "own": {"b": 1}},
    {"id": "turns", "input": ["alpha", "beta"], "hint": "beta", "reference": "beta"},
    {"id": "fails", "input": "crash", "hint": "crash"},
    {"id": "slow", "input": "sleep", "timeout": 1000},
    {"id": "missed", "input": "other", "hint": "not there"},
]

# Speaks as Claude Code does, calls a tool whose result comes later, resumes a session, fails and hangs on request.
AGENT = """
import json, sys, time
text = sys.argv[-1]
def say(**event): print(json.dumps(event), flush=True)
say(type="system", subtype="init", session_id="s1")
say(type="assistant", message={"content": [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "I look"},
    {"type": "tool_use", "id": "t1", "name": "Read", "input": {"file_path": "/a"}}]})
if text == "sleep": time.sleep(60)
say(type="user", message={"content": [{"type": "tool_result", "tool_use_id": "t1", "content": "42"}]})
if text == "crash": sys.exit("out of luck")
say(type="result", subtype="success", result=text, session_id="s1", usage={"input_tokens": 7, "output_tokens": 3})
"""


def claude_with(folder: Path) -> Path:
    """The bundled claude schema, with a program of ours as its command."""
    agent = python_script(folder / "agent", AGENT)
    schema = json.loads((ROOT / "agenteval" / "adapters" / "schemas" / "claude.json").read_text())
    return write(folder / "claude.json", json.dumps({**schema, "command": [str(agent)]}))


@pytest.fixture
def claude(tmp_path: Path) -> Path:
    return claude_with(tmp_path)


@pytest.fixture(scope="module")
def piped(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], tuple[Path, bytes]]:
    """For a time limit of the slow prompt: a folder to capture in, and what ae-run | ae-extract give there, once."""

    @cache
    def piped_once(limit: int) -> tuple[Path, bytes]:
        folder = tmp_path_factory.mktemp("piped")
        write(folder / "prompts.jsonl", *(one | {"timeout": limit} if "timeout" in one else one for one in PROMPTS))
        write_graders(folder)
        claude_with(folder)
        return folder, results_of(folder, ["-s", "claude.json", "-j", "4", "--workspace-dir", "ws"], "claude.json")

    return piped_once


def timeless(value: Any) -> Any:
    """A record without what differs from run to run; the order of its fields is kept to be compared too."""
    if isinstance(value, dict):
        times = (
            "start",
            "end",
            "total",
            "sessionCreation",
            "firstResponse",
            "timestamp",
            "duration",
            "lineTimes",
            "runId",
        )
        return [(key, timeless(inner)) for key, inner in value.items() if key not in times]
    return [timeless(inner) for inner in value] if isinstance(value, list) else value


def results_of(folder: Path, agent: list[str], schema: str) -> bytes:
    """What the first two tools give, one after the other."""
    raw = run("ae-run", "prompts.jsonl", "--keep-order", *agent, cwd=folder).expect(0)
    return run("ae-extract", "-s", schema, stdin=raw.out, cwd=folder).expect(0, stderr="").out


GRADERS: dict[str, list[str]] = {
    "none": [],
    "bundled": ["-g", "ae-grader-hint"],
    "process": ["-g", "./grader.sh"],
    "several": ["-g", "hint=ae-grader-hint", "-g", "sh=./grader.sh", "-g", "py=grade.py"],
    "broken": ["-g", "./broken.sh", "-g", "hint=ae-grader-hint"],
}


@pytest.mark.parametrize("graders, workers", [(name, 1 if name == "several" else 4) for name in GRADERS])
def test_the_same_records_as_the_pipeline(
    graders: str, workers: int, piped: Callable[[int], tuple[Path, bytes]]
) -> None:
    with_time_enough(lambda limit: check_the_same_records(graders, workers, *piped(limit)), 1000)


def check_the_same_records(graders: str, workers: int, folder: Path, results: bytes) -> None:
    agent = ["-s", "claude.json", "-j", str(workers), "--workspace-dir", "ws"]
    captured = run("ae-capture", "prompts.jsonl", "--keep-order", *agent, *GRADERS[graders], cwd=folder)
    captured.expect(1 if graders == "broken" else 0)
    graded = run("ae-grade", *GRADERS[graders], stdin=results, cwd=folder).out if graders != "none" else results
    assert timeless(captured.records) == timeless([json.loads(line) for line in graded.splitlines()]), captured
    assert captured.ids == [prompt["id"] for prompt in PROMPTS]
    first, turns, fails, slow, _ = captured.records
    assert [step["type"] for step in first["trajectory"]] == ["thought", "message", "tool_call"], "not an empty case"
    assert turns["output"] == "beta"
    assert fails["errors"] == ["exited with code 1: out of luck"]
    assert slow["metadata"]["timedOut"] is True


def write_graders(folder: Path) -> None:
    script(folder / "grader.sh", 'jq -c "{pass: (.output != \\"\\"), score: 0.5, outcome: {seen: .id}}"')
    script(
        folder / "broken.sh", 'case "$(cat)" in *\'"id":"turns"\'*) exit 3;; esac; echo \'{"pass": true, "score": 1}\''
    )
    write(folder / "grade.py", "def grade(record): return {'pass': True, 'score': 1.0, 'reasoning': record['id']}")


@pytest.mark.parametrize("option", ["--simple", "--shell"])
def test_agents_that_just_print(option: str, tmp_path: Path) -> None:
    write(tmp_path / "prompts.jsonl", *PROMPTS[:2])
    agent = [option, {"--simple": "echo got {}", "--shell": 'echo "got $PROMPT"; echo done'}[option]]
    captured = run("ae-capture", "prompts.jsonl", *agent, cwd=tmp_path).expect(0, stderr="")
    results = results_of(tmp_path, agent, "text")
    assert timeless(captured.records) == timeless([json.loads(line) for line in results.splitlines()])


def test_keep_raw(claude: Path, tmp_path: Path) -> None:
    [with_raw] = run("ae-capture", "-s", claude, "--keep-raw", stdin=jsonl(PROMPTS[0]), cwd=tmp_path).expect(0).records
    raw = run("ae-run", "-s", claude, stdin=jsonl(PROMPTS[0]), cwd=tmp_path).expect(0)
    [kept] = run("ae-extract", "-s", claude, "--keep-raw", stdin=raw.out, cwd=tmp_path).records
    assert timeless(with_raw) == timeless(kept)
    assert len(with_raw["rawLines"]) == 4


COUNTED = """
import os
from agenteval.adapters.reader import Reading
add_turn = Reading.add_turn
def counted(self, *args):
    os.write(2, b"read\\n")
    add_turn(self, *args)
Reading.add_turn = counted
from agenteval.cli.tools.{tool} import main
main()
"""


@pytest.mark.parametrize(
    ("tool", "args", "turns", "times"),
    [
        ("run", [], 1, 1),
        ("run", [], 3, 3),
        ("run", ["--retries", "1"], 1, 1),
        ("capture", [], 1, 1),
        ("capture", [], 3, 3),
        ("capture", ["--retries", "1"], 3, 3),
        ("capture", ["--retries", "1"], 1, 1),
        ("capture", ["--retries", "1", "--extract", "text"], 1, 2),
        ("trials", ["-k", "2", "--retries", "1"], 1, 2),
    ],
)
def test_output_is_parsed_once_and_only_if_something_in_it_is_needed(
    tool: str, args: list[str], turns: int, times: int, claude: Path, tmp_path: Path
) -> None:
    """A turn is parsed once: for the id of its session, which names the log, and with --retries for an overload."""
    counted = python_script(tmp_path / "counted", COUNTED.format(tool=tool))
    prompt = jsonl({"id": "a", "input": ["x"] * turns})
    done = run(str(counted), "-s", claude, *args, stdin=prompt, cwd=tmp_path).expect(0)
    assert done.messages == ["read"] * times, done


def test_another_schema_to_read_the_output_with(claude: Path, tmp_path: Path) -> None:
    command = f"{tmp_path}/agent -p {{}}"
    [read_as] = run("ae-capture", "--simple", command, "--extract", claude, stdin=jsonl(PROMPTS[0])).expect(0).records
    assert (read_as["output"], read_as["timing"]["inputTokens"]) == ("first", 7)
    [plain] = run("ae-capture", "--simple", command, stdin=jsonl(PROMPTS[0])).expect(0).records
    assert plain["output"].startswith('{"type": "system"')
    run("ae-capture", "--simple", command, "--extract", "nope", stdin=jsonl(PROMPTS[0])).expect(2).says("nope")


def test_a_grader_sees_the_workspace(tmp_path: Path) -> None:
    write(tmp_path / "prompts.jsonl", *({"id": str(n), "input": str(n)} for n in range(4)))
    grader = script(
        tmp_path / "grader", 'cd "$(jq -r .cwd)" && jq -nc --rawfile f made "{pass: true, score: 1, reasoning: \\$f}"'
    )
    agent = ["--shell", 'printf "$PROMPT" > made', "--workspace-dir", "ws", "-j", "4"]
    done = run("ae-capture", "prompts.jsonl", *agent, "-g", grader, cwd=tmp_path).expect(0, stderr="")
    assert {record["id"]: record["score"]["reasoning"] for record in done.records} == {str(n): str(n) for n in range(4)}


def test_graders_run_side_by_side_with_agents(tmp_path: Path) -> None:
    """Three graders and an agent wait for each other: the fourth agent ends when the graders of the others run."""
    prompts = jsonl(*({"id": str(n), "input": "last" if n == 3 else "x"} for n in range(4)))
    wait = meeting(4, tmp_path)
    grader = script(tmp_path / "grader", f'{wait}; echo \'{{"pass": true, "score": 1}}\'')
    agent = f'test "$PROMPT" = x || {{ {wait}; }}'
    done = run("ae-capture", "--shell", agent, "-j", 4, "-t", "20s", "-g", grader, stdin=prompts).expect(0)
    assert len(done.records) == 4 and not any("errors" in record for record in done.records), done


def test_exit_codes(tmp_path: Path) -> None:
    prompts = jsonl({"id": "a", "input": "x"})
    capture = ("ae-capture", "--shell", "exit 3")
    assert run(*capture, stdin=prompts).expect(0).records[0]["errors"] == ["exited with code 3"]
    run(*capture, "-e", stdin=prompts).expect(1)
    run("ae-capture", "--shell", "true", "-g", "false", stdin=prompts).expect(1).says(
        "grader false: exited with code 1"
    )
    run("ae-capture", "--shell", "true", "-g", "ae-grader-hint", "-e", stdin=prompts).expect(1).says(
        'a: grader hint: the record has no "hint"'
    )
    run("ae-capture", "--shell", "true", "-g", "./nope", stdin=prompts).expect(2).says("./nope")


def test_strict_stops_at_the_first_failure(tmp_path: Path) -> None:
    write(tmp_path / "prompts.jsonl", *({"id": str(n), "input": str(n)} for n in range(9)))
    for how in (["--shell", '[ "$PROMPT" != 2 ]'], ["--shell", "true", "-g", "./second.sh"]):
        script(tmp_path / "second.sh", "jq -e -c 'if .id == \"2\" then error else {pass: true, score: 1} end'")
        done = run("ae-capture", "prompts.jsonl", "--strict", *how, cwd=tmp_path).expect(1)
        assert done.ids == ["0", "1", "2"], done


def test_a_wrong_grader_leaves_the_output_alone(tmp_path: Path) -> None:
    out = write(tmp_path / "out", "precious")
    write(tmp_path / "bad.py", "def grade(record:\n")
    for grader in ("bad.py", "nobody"):
        run("ae-capture", "--shell", "true", "-g", grader, "-o", out, stdin=jsonl(PROMPTS[0]), cwd=tmp_path).expect(2)
        assert out.read_text() == "precious\n"


def test_resume_runs_and_grades_the_rest(tmp_path: Path) -> None:
    write(tmp_path / "prompts.jsonl", *PROMPTS)
    capture = ["ae-capture", "prompts.jsonl", "--shell", "echo $PROMPT >> ran; echo out", "-g", "./passes"]
    script(tmp_path / "passes", PASSES)
    first = run(*capture, cwd=tmp_path).out.splitlines(keepends=True)
    (tmp_path / "ran").unlink()
    (tmp_path / "out").write_bytes(first[0] + first[2][:40])
    run(*capture, "-o", "out", "--resume", cwd=tmp_path).expect(0).says("out: 1 kept, 4 new")
    assert [record["id"] for record in read(tmp_path / "out")] == ["one", "turns", "fails", "slow", "missed"]
    assert (tmp_path / "ran").read_text().split() == ["alpha", "beta", "crash", "sleep", "other"]


@pytest.mark.parametrize("where", ["agent", "grader", "stream grader"])
@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_nothing_survives(where: str, signum: signal.Signals, tmp_path: Path) -> None:
    with marked() as mark:
        sleeper = python_script(tmp_path / "sleeper", f"import subprocess; subprocess.run(['sleep', '{mark}'])")
        args = ["--simple", f"{sleeper} {{}}" if where == "agent" else "echo {}"]
        if where != "agent":
            args += ["-g", str(sleeper), *(["--stream"] if where == "stream grader" else [])]
        process = start("ae-capture", *args, "-o", "out", stdin=jsonl(*PROMPTS[:2]), cwd=tmp_path)
        assert process.stdin
        process.stdin.write(jsonl(*PROMPTS[:2]).encode())
        process.stdin.close()
        until(lambda: sleepers(mark), "it has started")
        process.send_signal(signum)
        code = process.wait(TIMEOUT)
        assert code == (-9 if signum == signal.SIGKILL else 128 + signum)
        expect_gone(mark)
        assert (tmp_path / "out").read_bytes() == b"", "a record cut short is not written"
        for stream in (process.stdout, process.stderr):
            assert stream
            stream.close()


def test_first_record_is_out_before_the_second_prompt_is_in(tmp_path: Path) -> None:
    with start("ae-capture", "--simple", "echo {}", "-g", "ae-grader-hint", cwd=tmp_path) as process:
        assert process.stdin and process.stdout
        for prompt in PROMPTS[:2]:
            process.stdin.write(jsonl(prompt).encode())
            process.stdin.flush()
            assert json.loads(process.stdout.readline())["id"] == prompt["id"]
        process.stdin.close()
        assert process.wait(TIMEOUT) == 0


def test_stream_grader_is_started_once_per_worker(tmp_path: Path) -> None:
    grader = python_script(
        tmp_path / "grader",
        "import sys\nopen('starts', 'a').write('x')\n"
        'for line in sys.stdin: print(\'{"pass": true, "score": 1}\', flush=True)',
    )
    prompts = jsonl(*({"id": str(n), "input": "x"} for n in range(20)))
    args = ["--simple", "echo {}", "-j", "3", "--stream", "-g", str(grader)]
    done: Done = run("ae-capture", *args, stdin=prompts, cwd=tmp_path).expect(0, stderr="")
    assert len(done.records) == 20
    assert 1 <= len((tmp_path / "starts").read_text()) <= 3
    assert sys.executable in grader.read_text()


def test_a_timeout_in_a_tool_is_a_tool_error(tmp_path: Path) -> None:
    """Only there: a turn that timed out after its last tool call has no tool error."""
    call = '{"type":"assistant","message":{"content":[{"type":"tool_use","id":"t","name":"Bash","input":{}}]}}'
    reply = '{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t","content":"done"}]}}'
    for lines, expected in (([call], True), ([call, reply], False)):
        agent = "; ".join([*(f"echo '{line}'" for line in lines), "sleep 60"])
        with_time_enough(partial(check_tool_errors, agent, expected, tmp_path), 2000)


def check_tool_errors(agent: str, expected: bool, folder: Path, limit: int) -> None:
    args = ("--shell", agent, "--extract", "claude", "-t", limit)
    record = run("ae-capture", *args, stdin=jsonl({"id": "a", "input": "x"}), cwd=folder).expect(0).records[0]
    assert record["metadata"]["timedOut"] and [step["type"] for step in record["trajectory"]] == ["tool_call"]
    assert record["toolErrors"] is expected, record


def test_a_result_as_prompt_has_nothing_of_its_run(tmp_path: Path, claude: Path) -> None:
    """Whatever a run writes into metadata is of that run: arguments, workspace, model, how the agent ended."""
    prompt = {"id": "turns", "input": ["a", "b"], "metadata": {"category": "a", "turnCount": "the user's"}}
    given = ["-s", claude, "--agent-arg", "--model", "--agent-arg", "opus", "--workspace-dir", "ws", "--workspace-git"]
    first = run("ae-capture", *given, "-o", "first.jsonl", stdin=jsonl(prompt), cwd=tmp_path).expect(0)
    (result,) = read(tmp_path / "first.jsonl")
    assert {"agentArgs", "workspaceDir", "workspaceBaseline", "turnSteps"} <= result["metadata"].keys(), first
    result["metadata"] |= {"model": "opus", "agentVersion": "1"}
    write(tmp_path / "first.jsonl", result)
    (raw,) = run("ae-run", "first.jsonl", "--simple", "echo {}", cwd=tmp_path).expect(0).records
    written = {"runId", "suiteVersion", "agent", "agentCommand", "agentDigest", "promptDigest", "fieldsDigest"}
    written |= {"isolated"}
    assert raw["metadata"].keys() == {"category", *written}
    (again,) = run("ae-capture", "first.jsonl", "--simple", "echo {}", cwd=tmp_path).expect(0).records
    (anew,) = run("ae-capture", "--simple", "echo {}", stdin=jsonl(prompt), cwd=tmp_path).expect(0).records
    assert again["metadata"] | {"runId": ""} == anew["metadata"] | {"runId": ""} and again.keys() == anew.keys()
