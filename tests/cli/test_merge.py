"""ae-merge: every id once, in the order of the prompts, with missing records and conflicts reported."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.support.tool import BIN, Done, Record, clean_env, jsonl, read, run, write

PROMPTS = [{"id": f"p{number}", "input": f"question {number}"} for number in range(9)]


def result(record_id: str, output: str = "o", **more: object) -> Record:
    return {"id": record_id, "input": "q", "output": output, "trajectory": [], **more}


def merge(folder: Path, *args: object) -> Done:
    return run("ae-merge", *args, cwd=folder)


@pytest.mark.parametrize("tool", ["ae-run", "ae-capture", "ae-trials"])
def test_the_shards_of_a_run_give_the_run(tool: str, tmp_path: Path) -> None:
    write(tmp_path / "prompts.jsonl", *PROMPTS)
    for number in (1, 2):
        agent = ("--simple", "echo {}", *(("-k", "2") if tool == "ae-trials" else ()))
        run(tool, "prompts.jsonl", *agent, "--shard", f"{number}/2", "-o", f"{number}.jsonl", cwd=tmp_path).expect(0)
    merge(tmp_path, "2.jsonl", "1.jsonl", "--prompts", "prompts.jsonl", "-o", "all.jsonl").expect(0, stderr="")
    lines = (tmp_path / "all.jsonl").read_bytes().splitlines()
    assert [record["id"] for record in read(tmp_path / "all.jsonl")] == [prompt["id"] for prompt in PROMPTS]
    shards = [(tmp_path / f"{number}.jsonl").read_bytes().splitlines() for number in (1, 2)]
    assert all(shards) and sorted(lines) == sorted(shards[0] + shards[1]), "the records are as they were"


def test_missing_and_unknown_records_are_reported(tmp_path: Path) -> None:
    write(tmp_path / "prompts.jsonl", *PROMPTS[:4])
    write(tmp_path / "a.jsonl", result("p2"), result("other"), result("p0"))
    done = merge(tmp_path, "a.jsonl", "--prompts", "prompts.jsonl").expect(1)
    assert done.ids == ["p0", "p2", "other"], done
    assert done.messages[0] == "ae-merge: prompts.jsonl: 1 record not among them, written last: other", done
    assert "2 prompts without a record: p1, p3;" in done.messages[1], done


def test_order_of_the_files_without_prompts(tmp_path: Path) -> None:
    write(tmp_path / "a.jsonl", result("z"), result("b"))
    (tmp_path / "b.jsonl").write_bytes(b"\xef\xbb\xbf" + jsonl(result("y")).encode()[:-1] + b" \r\n\n")
    assert merge(tmp_path, "a.jsonl", "b.jsonl").expect(0, stderr="").ids == ["z", "b", "y"]


def test_stdin_and_a_pipe_are_shards(tmp_path: Path) -> None:
    write(tmp_path / "a.jsonl", result("a"))
    command = f"echo '{jsonl(result('b')).strip()}' | {BIN / 'ae-merge'} a.jsonl -"
    shell = subprocess.run(["sh", "-c", command], cwd=tmp_path, env=clean_env(tmp_path), capture_output=True)
    done = Done(["ae-merge"], tmp_path, shell.returncode, shell.stdout, shell.stderr, 0)
    assert done.expect(0, stderr="").ids == ["a", "b"]


def test_a_repeated_record_is_written_once(tmp_path: Path) -> None:
    write(tmp_path / "a.jsonl", result("a"), result("b"))
    write(tmp_path / "b.jsonl", '{"trajectory": [],"output":"o", "input":"q","id":"a"}')  # the same in another form
    done = merge(tmp_path, "a.jsonl", "b.jsonl", "a.jsonl").expect(0)
    assert done.ids == ["a", "b"]
    done.says("3 repeated records left out, the same as before: a, a, b")


FAILED = result("a", "", errors=["timed out"])
TRIALS = [
    {"id": "a", "input": "q", "k": 1, "trials": [{"trialNum": 1, "output": text, **more}]}
    for text, more in (("", {"errors": ["x"]}), ("fine", {}))
]


@pytest.mark.parametrize(
    ("prefer", "records", "kept", "code"),
    [
        (None, [result("a", "1"), result("a", "2")], 0, 1),
        ("first", [result("a", "1"), result("a", "2")], 0, 0),
        ("last", [result("a", "1"), result("a", "2"), result("a", "3")], 2, 0),
        ("ok", [FAILED, result("a", "2")], 1, 0),
        ("ok", [result("a", "1"), FAILED], 0, 0),
        ("ok", [FAILED, result("a", "2"), result("a", "3")], 1, 1),
        ("ok", TRIALS, 1, 0),
    ],
)
def test_conflicts(prefer: str | None, records: list[Record], kept: int, code: int, tmp_path: Path) -> None:
    for number, record in enumerate(records):
        write(tmp_path / f"{number}.jsonl", record, result("b"))
    names = [f"{number}.jsonl" for number in range(len(records))]
    done = merge(tmp_path, *names, *(["--prefer", prefer] if prefer else [])).expect(code)
    assert done.records == [records[kept], result("b")], done
    if code:
        reported = [line for line in done.messages if '"id" a is also in' in line]
        assert len(reported) == 1 and reported[0].startswith(f"ae-merge: {len(records) - 1}.jsonl:1: "), done
    else:
        assert "decided by --prefer: a" in done.stderr, done


def test_a_shard_that_was_cut_off_costs_its_last_record_only(tmp_path: Path) -> None:
    write(tmp_path / "prompts.jsonl", *PROMPTS[:3])
    whole = jsonl(*(result(f"p{number}") for number in range(3)))
    (tmp_path / "a.jsonl").write_text(whole[:-20])
    done = merge(tmp_path, "a.jsonl", "--prompts", "prompts.jsonl").expect(1)
    assert done.ids == ["p0", "p1"]
    assert done.messages[0].startswith("ae-merge: a.jsonl:3: not JSON"), done
    assert "1 prompt without a record: p2" in done.messages[1], done


def test_an_output_that_is_a_shard_is_refused(tmp_path: Path) -> None:
    before = write(tmp_path / "a.jsonl", result("a")).read_bytes()
    merge(tmp_path, "a.jsonl", "-o", "a.jsonl").expect(2).says("a.jsonl")
    assert (tmp_path / "a.jsonl").read_bytes() == before


@pytest.mark.parametrize("value", [b'"\xff"', b'"\\ud83d"', b"1e400"])
def test_a_line_that_no_other_tool_reads_is_refused(value: bytes) -> None:
    done = run("ae-merge", stdin=b'{"id":"a","output":"x","z":' + value + b'}\n{"id":"b","output":"x"}\n').expect(1)
    assert done.ids == ["b"] and done.stderr.startswith("ae-merge: stdin:1: "), done
