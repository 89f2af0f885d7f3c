"""A file of the wrong kind is named once, with the tool that reads it; times have units; -o after -- is noticed."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
from pathlib import Path

import pytest

from agenteval.streams.text import parse_milliseconds
from tests.support.tool import Record, jsonl, run, write

PROMPT: Record = {"id": "a", "input": "x"}
RAW = {**PROMPT, "rawLines": ["x"], "timing": {"start": 0, "end": 1}}
RESULT = {**PROMPT, "output": "x", "trajectory": []}
TRIALS = {**PROMPT, "k": 1, "trials": [{"trialNum": 1, "output": "x"}]}
READERS: dict[str, list[object]] = {
    "ae-format": [],
    "ae-summarize": [],
    "ae-score": [],
    "ae-calibrate": [],
    "ae-grade": ["-g", "ae-grader-hint"],
}


@pytest.mark.parametrize("tool", READERS)
@pytest.mark.parametrize(
    ("record", "says"),
    [
        (RAW, "contains raw records from ae-run; turn them into results with ae-extract"),
        (PROMPT, "contains prompts; run them with ae-run"),
    ],
)
def test_readers_of_results_name_another_kind_once(tool: str, record: Record, says: str, tmp_path: Path) -> None:
    file = write(tmp_path / "in.jsonl", *({**record, "id": str(number)} for number in range(9)))
    (tmp_path / "old").write_text("precious")
    run(tool, file, *READERS[tool], "-o", "old", cwd=tmp_path).expect(2).says("in.jsonl: ", says)
    assert (tmp_path / "old").read_text() == "precious"


@pytest.mark.parametrize(("record", "says"), [(RAW, "contains raw records"), (PROMPT, "contains prompts")])
def test_ae_compare_names_another_kind_once(record: Record, says: str, tmp_path: Path) -> None:
    results = write(tmp_path / "results.jsonl", RESULT)
    other = write(tmp_path / "other.jsonl", record)
    for files in ([results, other], [other, results], [other, other]):
        run("ae-compare", *files, cwd=tmp_path).expect(2).says("other.jsonl: ", says)
    graded = write(tmp_path / "graded.jsonl", {**record, "score": {"pass": True, "score": 1.0}})
    run("ae-compare", graded, graded, cwd=tmp_path).expect(0)


@pytest.mark.parametrize(
    ("record", "says"), [(RESULT, "contains results"), (PROMPT, "contains prompts"), (TRIALS, "trials")]
)
def test_ae_extract_names_another_kind_once(record: Record, says: str, tmp_path: Path) -> None:
    (tmp_path / "old").write_text("precious")
    done = run("ae-extract", "-s", "text", "-o", "old", stdin=jsonl(record, record), cwd=tmp_path)
    done.expect(2).says("stdin: ", says)
    assert (tmp_path / "old").read_text() == "precious"


@pytest.mark.parametrize("tool", [*READERS, "ae-run", "ae-extract"])
@pytest.mark.parametrize(("indent", "advice"), [(None, "convert it with jq -c '.[]' in.json"), (2, "jq -c '.[]'")])
def test_a_json_array_is_met_with_advice(tool: str, indent: int | None, advice: str, tmp_path: Path) -> None:
    (tmp_path / "in.json").write_text(json.dumps([RESULT, RESULT], indent=indent))
    agents: dict[str, list[object]] = {"ae-run": ["--simple", "echo {}"], "ae-extract": ["-s", "text"]}
    more = agents.get(tool) or READERS[tool]
    run(tool, "in.json", *more, cwd=tmp_path).expect(2).says("in.json: contains a JSON array", advice)


def test_pretty_printed_json_is_met_with_advice(tmp_path: Path) -> None:
    (tmp_path / "in.json").write_text(json.dumps(RESULT, indent=2))
    run("ae-format", "in.json", cwd=tmp_path).expect(2).says(
        "in.json: contains JSON that spans several lines", "jq -c . in"
    )


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (
            b"id,input,hint\r\na,what?,x\r\n",
            "looks like CSV, not like one JSON object per line; turn it into prompts with ae-prompts csv",
        ),
        (b'"id";"input"\n"a";"b"\n', "looks like CSV"),
        (b"id\tmy input\na\tb\n", "looks like CSV"),
        (gzip.compress(b'{"id": "a", "input": "x"}\n' * 500, mtime=0), "is compressed; read it with gzip -dc in |"),
        (bz2.compress(b'{"id": "a", "input": "x"}\n'), "bzip2 -dc in |"),
        (lzma.compress(b'{"id": "a", "input": "x"}\n'), "xz -dc in |"),
        (b"\x28\xb5\x2f\xfd\x24\x00\x01\x00", "zstd -dc in |"),
    ],
    ids=["csv", "quoted", "tabs", "gzip", "bzip2", "xz", "zstd"],
)
def test_what_is_no_json_lines_at_all_is_told_once(content: bytes, says: str, tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(content)
    run("ae-run", "in", "--simple", "echo {}", cwd=tmp_path).expect(2).says("ae-run: in: ", says)


@pytest.mark.parametrize("line", ["not a record", "yes,it is", "id", "{a,b}", '{"id": "a", "input"'])
def test_a_line_that_is_no_header_is_a_refused_line(line: str, tmp_path: Path) -> None:
    (tmp_path / "in").write_text(line + "\n")
    run("ae-run", "in", "--simple", "echo {}", cwd=tmp_path).expect(1).says("in:1: not JSON")


def test_a_later_line_of_another_kind_is_a_refused_line(tmp_path: Path) -> None:
    done = run("ae-format", stdin=jsonl(RESULT, RAW, RESULT), cwd=tmp_path).expect(1)
    assert len(done.records) == 2 and done.messages == ['ae-format: stdin:2: "output" is missing']


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [("500", 500), ("500ms", 500), ("30s", 30_000), ("1.5s", 1500), ("5m", 300_000), ("2h", 7_200_000), ("1e3", 1000)],
)
def test_times_have_units(text: str, milliseconds: float) -> None:
    assert parse_milliseconds(text) == milliseconds


@pytest.mark.parametrize("text", ["", "s", "0", "0s", "-1s", "nan", "inf", "infm", "5x", "5 d", "m5"])
def test_what_is_no_time(text: str) -> None:
    with pytest.raises(ValueError, match="30s"):
        parse_milliseconds(text)


def test_a_timeout_with_a_unit(tmp_path: Path) -> None:
    done = run("ae-run", "--shell", "sleep 60", "-t", "0.2s", stdin=jsonl(PROMPT), cwd=tmp_path).expect(0)
    assert done.records[0]["errors"] == ["timeout: not done after 200 ms"]


def test_an_output_option_after_the_dashes_is_noticed(tmp_path: Path) -> None:
    done = run("ae-run", "--", "false", "-o", "out.jsonl", stdin=jsonl(PROMPT), cwd=tmp_path).expect(0)
    moved = "ae-run -o out.jsonl -- false"
    assert done.messages[0] == f"ae-run: -o after -- goes to the agent; to give it to ae-run: {moved}"
    done = run("ae-run", "-o", "out.jsonl", "--", "false", "-o", "x", stdin=jsonl(PROMPT), cwd=tmp_path).expect(0)
    assert "after --" not in done.stderr
