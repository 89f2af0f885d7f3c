"""Graders that do not keep to the protocol: -t holds, answers are limited, no verdict goes to another record."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.support.tool import Done, run, script, write
from tests.support.watching import expect_gone

ANSWER = '{"pass": true, "score": 1.0}'
STREAMS = {
    "closes stdout and stays alive": ("exec >&-; exec sleep MARK", "closed its stdout without an answer"),
    "closes stdout after an answer": (f"read x; echo '{ANSWER}'; exec >&-; exec sleep MARK", "closed its stdout"),
    "answers without end": (f"exec yes '{ANSWER}'", "it printed more than one line"),
    "one line without end": ("exec cat /dev/zero", "its answer is longer than 16777216 bytes"),
    "messages without end": ("(yes >&2) & exec sleep MARK", "timeout: no answer within 2000 ms"),
}


def graded(tmp_path: Path, count: int, *args: object, timeout: float = 30) -> Done:
    records = write(tmp_path / "r.jsonl", *({"id": f"r{n}", "input": "x", "output": str(n)} for n in range(count)))
    return run("ae-grade", records, *args, cwd=tmp_path, timeout=timeout)


@pytest.mark.parametrize("kind", STREAMS)
def test_a_stream_grader_costs_its_record_and_no_more(kind: str, mark: str, tmp_path: Path) -> None:
    text, error = STREAMS[kind]
    grader = script(tmp_path / "grader.sh", text.replace("MARK", mark))
    limit = 2000 if "timeout" in error else 60_000  # the others have to start and answer, however busy the machine is
    done = graded(tmp_path, 3, "--stream", "-t", limit, "-g", grader).expect(1)
    assert done.ids == ["r0", "r1", "r2"], done
    erred = [record["graderError"] for record in done.records if "graderError" in record]
    assert erred and all(error in text for text in erred), done
    assert all(record["score"]["pass"] for record in done.records if "score" in record), done
    expect_gone(mark)


# Stops the processes of the tool that run our hosts of grader functions.
STOPS_THE_HOST = f"""#!{sys.executable} -IS
import os, signal, sys
print(sys.argv[1])
if sys.argv[1] == "stop":
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            parent = int(open(f"/proc/{{pid}}/stat").read().rpartition(")")[2].split()[1])
            if parent == os.getppid() and "_host." in open(f"/proc/{{pid}}/cmdline").read():
                os.kill(int(pid), signal.SIGSTOP)
        except OSError:
            pass
"""


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
@pytest.mark.parametrize("function", ["python", "javascript"])
def test_a_host_that_an_agent_stops_costs_its_record_and_no_more(function: str, tmp_path: Path) -> None:
    if function == "python":
        grader = tmp_path / "grader.py"
        grader.write_text(f"def grade(record):\n    return {ANSWER.replace('true', 'True')}\n")
    else:
        grader = tmp_path / "grader.mjs"
        grader.write_text(f"export const grade = () => ({ANSWER})\n")
    agent = script(tmp_path / "agent", STOPS_THE_HOST)
    prompts = write(tmp_path / "p.jsonl", *({"id": text, "input": text} for text in ("a", "stop", "b", "c")))
    limits = ("-j", 1, "--grader-timeout", "2s")
    done = run("ae-capture", prompts, "--simple", f"{agent} {{}}", "-g", grader, *limits, cwd=tmp_path).expect(1)
    assert done.ids == ["a", "stop", "b", "c"], done
    assert [record["id"] for record in done.records if "score" not in record] == ["stop"], done
    assert "timeout: no answer within 2000 ms" in done.records[1]["graderError"], done


FORKS = """
import os, time
{when_loaded}
def grade(record):
    number = int(record["output"])
    if number % 3 == 0 and os.fork() == 0:
        print("a fork")
        time.sleep(number % 5 / 1000)
    return {{"pass": True, "score": 1.0, "reasoning": record["id"]}}
"""


@pytest.mark.parametrize("when_loaded", ["", "os.fork()"])
def test_a_python_grader_that_forks_answers_each_record_once(when_loaded: str, tmp_path: Path) -> None:
    (tmp_path / "forks.py").write_text(FORKS.format(when_loaded=when_loaded))
    done = graded(tmp_path, 300, "-g", "forks.py", "-j", 2).expect(0)
    assert [record["score"]["reasoning"] for record in done.records] == [f"r{n}" for n in range(300)]


def test_a_python_grader_may_use_worker_processes(tmp_path: Path) -> None:
    (tmp_path / "pool.py").write_text(
        "import multiprocessing\n"
        "def grade(record):\n"
        "    with multiprocessing.get_context('fork').Pool(2) as pool:\n"
        "        squares = pool.map(abs, [-1, -2])\n"
        "    return {'pass': squares == [1, 2], 'score': 1.0, 'reasoning': record['id']}\n"
    )
    done = graded(tmp_path, 4, "-g", "pool.py").expect(0)
    assert [record["score"]["reasoning"] for record in done.records] == ["r0", "r1", "r2", "r3"]
    assert all(record["score"]["pass"] for record in done.records), done
