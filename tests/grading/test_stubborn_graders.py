"""Graders that do not keep to the protocol: -t holds, answers are limited, no verdict goes to another record."""

from __future__ import annotations

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
    done = graded(tmp_path, 3, "--stream", "-t", 2000, "-g", grader).expect(1)
    assert done.ids == ["r0", "r1", "r2"], done
    erred = [record["graderError"] for record in done.records if "graderError" in record]
    assert erred and all(error in text for text in erred), done
    assert all(record["score"]["pass"] for record in done.records if "score" in record), done
    expect_gone(mark)


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
