"""Cases in which agent-eval-harness 0.12.2 loses or misreads data, and this suite must not."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.support.tool import Record, jsonl, python_script, run, script, write
from tests.support.watching import TRIES, expect_gone

# --- one grader failure on record 2 of 4 --------------------------------------------------------

FRAGILE = """\
import json, sys
record = json.load(sys.stdin)
if record["id"] == "2":
    {failure}
print(json.dumps({{"pass": True, "score": 1.0}}))
"""


@pytest.mark.parametrize(
    "failure, says",
    [
        ('raise SystemExit("no such file: labels.csv")', "exited with code 1: no such file: labels.csv"),
        ("import os; os.kill(os.getpid(), 9)", "killed by SIGKILL"),
        ('print("I would say it passes"); raise SystemExit', "its answer is not JSON"),
        ("raise SystemExit", "it printed nothing"),
        ('print(json.dumps({"pass": True, "score": 7})); raise SystemExit', '"score" must be a number <= 1'),
        ("import time; time.sleep(60)", "timeout: not done after 4000 ms"),
    ],
)
def test_grader_failure_on_record_2_of_4_costs_only_record_2(failure: str, says: str, tmp_path: Path) -> None:
    grader = python_script(tmp_path / "grader", FRAGILE.format(failure=failure))
    results = jsonl(*({"id": str(number), "output": "x"} for number in range(1, 5)))
    limit = 4000 if "sleep" in failure else 60_000
    done = run("ae-grade", "-g", grader, "-t", limit, "-j", 2, stdin=results, cwd=tmp_path).expect(1)
    assert done.ids == ["1", "2", "3", "4"], done
    assert [record["score"]["pass"] for record in done.records if "score" in record] == [True] * 3, done
    assert ["graderError" in record for record in done.records] == [False, True, False, False], done
    done.says("2: grader grader: ", says)


# --- one bad line in the prompts ----------------------------------------------------------------


def test_one_bad_line_in_the_prompts_is_named_and_the_others_run(tmp_path: Path) -> None:
    write(tmp_path / "prompts.jsonl", {"id": "1", "input": "x"}, '{"id": "2", input: "y"}', {"id": "3", "input": "z"})
    done = run("ae-run", "prompts.jsonl", "--simple", "echo {}", cwd=tmp_path).expect(1)
    assert done.ids == ["1", "3"], done
    done.says("prompts.jsonl:2: not JSON")


# --- no prompt is code --------------------------------------------------------------------------

HOSTILE = [
    "$'; touch pwned; echo '",
    "'; touch pwned; '",
    '"; touch pwned; "',
    "$(touch pwned)",
    "`touch pwned`",
    "x\ntouch pwned\n",
    "| touch pwned",
    "&& touch pwned",
    "${IFS}touch${IFS}pwned",
    "\\'; touch pwned #",
    "$'\\047; touch pwned; \\047",
]


@pytest.mark.parametrize(
    "agent",
    [
        ["--simple", "printf %s {}"],
        ["--simple", "printf %s '{}'"],
        ["--simple", 'printf %s "{}"'],
        ["--simple", "sh -c 'printf %s \"$1\"' sh {}"],
        ["--shell", 'printf %s "$PROMPT"'],
    ],
    ids=" ".join,
)
def test_no_prompt_runs_as_code(agent: list[str], tmp_path: Path) -> None:
    prompts = jsonl(*({"id": str(number), "input": text} for number, text in enumerate(HOSTILE)))
    done = run("ae-run", *agent, stdin=prompts, cwd=tmp_path).expect(0, stderr="")
    expected = [text.removesuffix("\n").split("\n") for text in HOSTILE]
    assert [record["rawLines"] for record in done.records] == expected, done
    assert list(tmp_path.iterdir()) == [], "a prompt was run"


# --- a timeout with a grandchild that holds stdout ----------------------------------------------


@pytest.mark.parametrize(
    "grandchild",
    [
        "sleep {mark} &",
        "setsid sleep {mark} &",
        "(setsid sh -c 'trap \"\" TERM HUP INT; sleep {mark}' &)",
        "nohup setsid sh -c 'sleep {mark} & sleep {mark}' >/dev/null &",
    ],
)
def test_timeout_does_not_wait_for_a_grandchild_that_holds_stdout(grandchild: str, mark: str, tmp_path: Path) -> None:
    agent = script(tmp_path / "agent", f"echo started\n{grandchild.format(mark=mark)}\ntouch $1\nsleep {mark}")
    for limit in (300, 3_000, 20_000):  # a busy machine may need more time until both have started
        here = tmp_path / str(limit)
        here.mkdir()
        prompts = jsonl(*({"id": name, "input": name, "timeout": limit} for name in "12"))
        done = run("ae-run", "--simple", f"{agent} {{}}", "-j", 2, stdin=prompts, cwd=here).expect(0)
        if {path.name for path in here.iterdir()} >= {"1", "2"}:
            break
    assert sorted(done.ids) == ["1", "2"], done
    for record in done.records:
        assert record["timedOut"] is True and "timeout" in record["errors"][0], done
        assert record["rawLines"] == ["started"], "what was printed before the timeout is kept"
    expect_gone(mark, within=0)


def test_agent_that_leaves_a_helper_behind_is_done_when_it_ends(mark: str, tmp_path: Path) -> None:
    agent = script(tmp_path / "agent", f"sleep {mark} &\nsetsid sleep {mark} &\necho done")
    done = run("ae-run", "--simple", f"{agent} {{}}", stdin=jsonl({"id": "1", "input": "x"}), cwd=tmp_path)
    assert done.expect(0).records[0]["rawLines"] == ["done"] and "errors" not in done.records[0], done
    expect_gone(mark, within=0)


# --- everything the agent printed, and what it means --------------------------------------------

EVENTS: list[Record] = [
    {"type": "system", "subtype": "init", "session_id": "s1"},
    {
        "type": "assistant",
        "message": {
            "content": [
                {"type": "thinking", "thinking": "two files to read"},
                {"type": "tool_use", "id": "t1", "name": "Read", "input": {"file": "a.txt"}},
                {"type": "tool_use", "id": "t2", "name": "Read", "input": {"file": "b.txt"}},
            ]
        },
    },
    {"type": "user", "message": {"content": [{"type": "tool_result", "tool_use_id": "t2", "content": "content of b"}]}},
    {"type": "user", "message": {"content": [{"type": "tool_result", "tool_use_id": "t1", "content": "content of a"}]}},
    {"type": "assistant", "message": {"content": [{"type": "text", "text": "Both are read."}]}},
    {"type": "result", "result": "a and b", "usage": {"input_tokens": 120, "output_tokens": 34}},
]


def claude(tmp_path: Path) -> dict[str, str]:
    """Makes a program called claude that prints these events 20 ms apart; returns the PATH to find it."""
    (tmp_path / "bin").mkdir()
    lines = (f"sleep 0.02; cat <<'END'\n{json.dumps(event)}\nEND\n" for event in EVENTS)
    script(tmp_path / "bin" / "claude", "".join(lines))
    return {"PATH": f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}"}


def test_run_keeps_the_final_result_line(tmp_path: Path) -> None:
    done = run("ae-run", "-s", "claude", stdin=jsonl({"id": "1", "input": "x"}), cwd=tmp_path, env=claude(tmp_path))
    raw = done.expect(0, stderr="").records[0]
    assert [json.loads(line) for line in raw["rawLines"]] == EVENTS, done
    assert len(raw["lineTimes"]) == len(EVENTS) and raw["turns"][0]["lines"] == len(EVENTS), done


def test_last_line_without_a_newline_is_kept(tmp_path: Path) -> None:
    done = run("ae-run", "--simple", "printf 'a\\nb%s' {}", stdin=jsonl({"id": "1", "input": "!"}), cwd=tmp_path)
    assert done.expect(0).records[0]["rawLines"] == ["a", "b!"], done


def test_both_calls_of_a_tool_with_input_output_and_tokens(tmp_path: Path) -> None:
    env = claude(tmp_path)
    for _ in range(TRIES):  # a busy machine may read a line late, so that its call seems shorter than it was
        raw = run("ae-run", "-s", "claude", stdin=jsonl({"id": "1", "input": "x"}), cwd=tmp_path, env=env)
        times = raw.expect(0).records[0]["lineTimes"]
        if times[3] - times[1] >= 40:
            break
    result = run("ae-extract", "-s", "claude", stdin=raw.out, cwd=tmp_path).expect(0, stderr="").records[0]
    calls = [step for step in result["trajectory"] if step["type"] == "tool_call"]
    assert [(call["name"], call["input"], call["output"], call["status"]) for call in calls] == [
        ("Read", {"file": "a.txt"}, "content of a", "completed"),
        ("Read", {"file": "b.txt"}, "content of b", "completed"),
    ]
    assert [step["type"] for step in result["trajectory"]] == ["thought", "tool_call", "tool_call", "message"]
    assert [step["stepId"] for step in result["trajectory"]] == [f"1-step-{number}" for number in range(1, 5)]
    assert (result["timing"]["inputTokens"], result["timing"]["outputTokens"]) == (120, 34)
    assert result["output"] == "a and b"
    assert [call["duration"] for call in calls] == [times[3] - times[1], times[2] - times[1]]
    assert times[3] - times[1] >= 40, "the clock of a call runs from its line to that of its result"


# --- its own output is accepted by the tools that follow ----------------------------------------


def pipeline(tmp_path: Path, name: str, agent: str) -> Path:
    """run | extract | grade of three prompts, as a file."""
    prompts = write(
        tmp_path / "prompts.jsonl",
        {"id": "alpha", "input": "one", "hint": "one"},
        {"id": "beta", "input": ["two", "and two"], "hint": "two"},
        {"id": "gamma", "input": "three", "hint": "three", "metadata": {"category": "numbers"}},
    )
    line = f"ae-run {prompts.name} --shell '{agent}' | ae-extract -s text | ae-grade -g ae-grader-hint -o {name}.jsonl"
    run("/bin/sh", "-c", line, cwd=tmp_path).expect(0)
    return tmp_path / f"{name}.jsonl"


def test_run_extract_grade_feeds_compare_and_format(tmp_path: Path) -> None:
    pipeline(tmp_path, "good", 'echo "$PROMPT"')
    pipeline(tmp_path, "bad", 'echo nothing; test "$PROMPT" != three')
    report = json.loads(run("ae-compare", "good.jsonl", "bad.jsonl", cwd=tmp_path).expect(0, stderr="").stdout)
    assert report["meta"]["promptsWithAllRuns"] == 3
    assert report["quality"]["good"]["passRate"] == 1.0 and report["quality"]["bad"]["passRate"] == 0.0
    for style in ("jsonl", "csv", "markdown", "table"):
        done = run("ae-format", "bad.jsonl", "-f", style, cwd=tmp_path).expect(0, stderr="")
        assert [name for name in ("alpha", "beta", "gamma") if name not in done.stdout] == [], done
    again = run("ae-grade", "good.jsonl", "-g", "ae-grader-hint", cwd=tmp_path).expect(0, stderr="")
    assert [record["score"]["pass"] for record in again.records] == [True, True, True], again


def test_three_runs_are_compared_pairwise(tmp_path: Path) -> None:
    """A win of C is no tie of A and B: each pair has its own count."""

    def results(name: str, scores: list[float]) -> None:
        write(
            tmp_path / f"{name}.jsonl",
            *(
                {"id": str(number), "output": "x", "score": {"pass": score > 0.5, "score": score}}
                for number, score in enumerate(scores)
            ),
        )

    results("a", [0.9, 0.2, 0.4, 0.4])
    results("b", [0.1, 0.8, 0.2, 0.4])
    results("c", [1.0, 1.0, 1.0, 0.4])
    done = run("ae-compare", "a.jsonl", "b.jsonl", "c.jsonl", "-s", "statistical", cwd=tmp_path).expect(0, stderr="")
    pairs = json.loads(done.stdout)["headToHead"]["pairwise"]
    assert {(pair["runA"], pair["runB"]): (pair["aWins"], pair["bWins"], pair["ties"]) for pair in pairs} == {
        ("a", "b"): (2, 1, 1),
        ("a", "c"): (0, 3, 1),
        ("b", "c"): (0, 3, 1),
    }, done
