"""The file that -f html writes: its size, its limits, and what it has in it."""

from __future__ import annotations

import base64
import json
import re
import zlib
from pathlib import Path
from typing import Any

import msgspec
import pytest

from agenteval.comparison.run_summary import TrialPrompts
from agenteval.reports.figures import group_name
from agenteval.reports.forms import ReportContext, ReportForms
from agenteval.reports.page import document
from agenteval.reports.page.document import ChunkWriter
from agenteval.reports.page.overview import histogram
from agenteval.reports.reader import RowReader as ResultReader
from agenteval.streams.console import Console
from agenteval.streams.source import Source
from agenteval.wire.row import Row
from tests.support.page_records import every_status, result, trial
from tests.support.tool import BIN, Done, jsonl, peak_memory, run, write


def blocks(page: str, kind: str) -> list[Any]:
    """Returns the lines of all blocks of one kind."""
    found = re.findall(rf'<script type="text/plain" data-{kind}="(\d+),(\d+)">([^<]*)</script>', page)
    lines: list[Any] = []
    for first, count, data in found:
        assert int(first) == len(lines)
        lines += zlib.decompress(base64.b64decode(data)).decode().split("\n")[:-1]
        assert int(first) + int(count) == len(lines)
    return [json.loads(line) for line in lines]


def overview(page: str) -> Any:
    """Returns what the page shows before a record is opened."""
    found = re.search(r'<script type="application/json" id="overview">(.*?)</script>', page)
    assert found
    return json.loads(found[1])


def page_of(*records: Any, options: tuple[str, ...] = ()) -> Done:
    return run("ae-format", "-f", "html", *options, stdin=jsonl(*records))


def test_the_page_without_data_is_small() -> None:
    assert len(page_of().out) < 200_000


def test_a_file_and_a_pipe_make_the_same_page(tmp_path: Path) -> None:
    records = [*every_status(), "no json", {"id": "x"}, {"id": "last", "output": "é\u2028"}]
    file = write(tmp_path / "r.jsonl", *records)
    from_file = run("ae-format", file, "-f", "html", "-o", tmp_path / "new" / "page.html")
    from_pipe = page_of(*records)
    assert from_file.code == from_pipe.code == 1  # two lines are refused
    assert len(from_file.messages) == len(from_pipe.messages) == 2
    ids = [record["id"] for record in every_status()] + ["last"]
    for page in ((tmp_path / "new" / "page.html").read_text(), from_pipe.stdout):
        assert [row[0] for row in blocks(page, "rows")] == ids
        assert blocks(page, "records") == [*every_status(), {"id": "last", "output": "é\u2028"}]
        assert overview(page)["records"] == 7


def test_limit_lists_the_first_and_counts_all() -> None:
    page = page_of(*every_status(), options=("--limit", "2")).stdout
    assert len(blocks(page, "rows")) == len(blocks(page, "records")) == 2
    data = overview(page)
    assert (data["records"], data["listed"], data["tiles"][0]["value"]) == (6, 2, "50.0%")


def test_no_trajectories_leaves_out_the_steps() -> None:
    first = page_of(result("a", rawLines=["raw"]), options=("--no-trajectories",)).stdout
    [record] = blocks(first, "records")
    assert record == {name: value for name, value in result("a").items() if name != "trajectory"}
    [row] = blocks(first, "rows")
    assert row[8] == ["Bash", "Edit"]  # the tools can still be filtered by
    [record] = blocks(page_of(trial("t", [True]), options=("--no-trajectories",)).stdout, "records")
    assert "trajectory" not in record["trials"][0] and record["trials"][0]["output"] == "answer 1"


def test_rows_have_the_prompt_and_a_place_for_each_grader_and_check() -> None:
    checks = {"checks": [{"name": "b", "pass": False, "reason": ""}]}
    graded = {"pass": False, "score": 0.25, "outcome": checks}
    first = result("a", input=["one", "two\nthree"], score=graded, scores={"x": graded})
    second = result("b", scores={"y": {"pass": True, "score": 1.0}, "x": graded}, graderError="z: timed out")
    page = page_of(first, second).stdout
    assert overview(page)["fields"][10:13] == ["prompt", "graders", "checks"]
    assert [row[10:13] for row in blocks(page, "rows")] == [
        ["one two three", [[0, 1, 0.25]], [[0, 1, None]]],
        ["What is b?", [[0, 1, 0.25], [1, 1, 1.0]], [[0, 1, None]]],
    ]
    assert overview(page)["columns"] == {"graders": [["x", 2], ["y", 1]], "checks": [["b", 2]]}
    [row] = blocks(page_of(trial("t", [True, None, False])).stdout, "rows")
    assert row[-3:] == [1, 3, "pef"]


def test_a_page_that_would_be_too_large_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(document, "MOST_BYTES", 1000)
    monkeypatch.setattr(document, "MOST_ROWS", 40)
    monkeypatch.setattr(document, "ChunkWriter", lambda kind: ChunkWriter(kind, size=8000))
    source = Source(str(write(tmp_path / "r.jsonl", *(result(f"r{at}") for at in range(50)))))
    said: list[str] = []
    form = ReportForms("results").render("html")
    page = b"".join(form(ResultReader(source, Console("t")), ReportContext(say=said.append))).decode()
    assert len(blocks(page, "rows")) == 40
    left_out = 40 - len(blocks(page, "records"))
    assert 0 < left_out < 40
    assert f'id="left-out">{left_out}<' in page
    assert "first 40 of 50 records" in said[0] and f"{left_out} records" in said[1]
    assert len(said) == 2 and all("--limit" in text and "--no-trajectories" in text for text in said)


def test_memory_does_not_grow_with_the_records(tmp_path: Path) -> None:
    line = json.dumps(result("a", output="x" * 20_000)) + "\n"
    peaks = []
    for count in (200, 2500):
        file = tmp_path / f"{count}.jsonl"
        file.write_text("".join(line.replace('"a"', f'"a{at}"', 1) for at in range(count)))
        peaks.append(peak_memory(BIN / "ae-format", file, "-f", "html", cwd=tmp_path))
    assert peaks[1] < peaks[0] + 8_000 and peaks[1] < 40_000  # kB; the larger file has 55 MB


@pytest.mark.parametrize(
    ("metadata", "key", "group"),
    [
        ({"category": "ui"}, "category", "ui"),
        ({"category": "ui"}, "metadata.category", "ui"),
        ({"a": {"b": 3}}, "a.b", "3"),
        ({"a": True}, "a", "true"),
        ({"tags": ["x", "y", "x", None]}, "tags", "x, y"),
        ({"category": None}, "category", ""),
        ({"category": "a"}, "category.b", ""),
        (None, "category", ""),
    ],
)
def test_groups(metadata: Any, key: str, group: str) -> None:
    assert group_name(metadata, key) == group


@pytest.mark.parametrize(
    ("values", "counts"),
    [([5.0, 5.0], [2]), ([0.0, 1.0, 2.0, 4.0], [1, 1, 1, 1]), ([0.0, 1e308], [1, 0, 0, 1])],
)
def test_histograms_hold_every_value(values: list[float], counts: list[int]) -> None:
    assert histogram(values, bins=4)[1] == counts
    edges, wide, log = histogram([1.0, 10.0, 100.0, 1000.0, 0.0], bins=3)
    assert log and wide == [2, 1, 2] and edges[0] == 1.0


@pytest.mark.parametrize(
    ("passes", "status"),
    [
        ([True, True], "pass"),
        ([True, False], "flaky"),
        ([False, False], "fail"),
        ([None, None], "error"),
        ([True, None], "flaky"),
    ],
)
def test_the_status_of_trials(passes: list[bool | None], status: str) -> None:
    assert msgspec.convert(trial("a", passes), Row).status == status


def test_the_figures_of_trials_are_unbiased() -> None:
    found = TrialPrompts()
    for passes in ([True, False], [True, True], [False, False]):
        found.add(msgspec.convert(trial("a", passes), Row))
    at, every = found.estimate("@", found.k), found.estimate("^", found.k)
    assert at and (at.name, at.value, at.prompts) == ("pass@2", 2 / 3, 3)
    assert every and (every.name, every.value, every.prompts) == ("pass^2", 1 / 3, 3)
    assert found.prompts == 3
    assert found.counts == {(2, 2, 1): 1, (2, 2, 2): 1, (2, 2, 0): 1}
