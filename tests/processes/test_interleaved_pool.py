"""An interleaved pool: the cases of interleaved_pool_cases.py, and the tools that use it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.tool import ROOT, Record, jsonl, read, run, write

CASES = Path(__file__).with_name("interleaved_pool_cases.py")


def test_cases() -> None:
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", str(CASES)]
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"


@pytest.mark.parametrize("concurrency", [1, 2, 6])
def test_a_file_and_a_pipe_give_the_same_records(tmp_path: Path, concurrency: int) -> None:
    """A tool that writes to a file, or to nowhere, attends to several processes in one thread."""
    prompts = write(tmp_path / "prompts.jsonl", *({"id": f"p{n}", "input": f"{n}", "hint": f"{n}"} for n in range(40)))
    agent = ("--shell", 'echo "$PROMPT"; [ "$PROMPT" != 7 ] || sleep 0.2; exit $((PROMPT % 3))', "-j", concurrency)
    run("ae-run", prompts, *agent, "-o", tmp_path / "raw.jsonl").expect(0)
    piped = run("ae-run", prompts, *agent).expect(0)

    def essence(records: list[Record]) -> list[list[object]]:
        return sorted([record.get(field) for field in ("id", "rawLines", "exitCode", "errors")] for record in records)

    assert essence(read(tmp_path / "raw.jsonl")) == essence(piped.records)
    assert len(piped.records) == 40
    grader = tmp_path / "grader.sh"
    grader.write_text('#!/bin/sh\ncat > /dev/null\n[ $$ != 0 ] && echo \'{"pass": true, "score": 0.5}\'\n')
    grader.chmod(0o755)
    results = write(tmp_path / "results.jsonl", *({"id": f"p{n}", "input": "", "output": f"{n}"} for n in range(40)))
    graded = run("ae-grade", results, "-g", grader, "-j", concurrency)
    run("ae-grade", results, "-g", grader, "-j", concurrency, "-o", tmp_path / "graded.jsonl").expect(0)
    assert read(tmp_path / "graded.jsonl") == graded.expect(0).records
    assert jsonl(*graded.records).count("0.5") == 40
