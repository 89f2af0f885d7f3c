"""The forms of a report and its summary, as pure functions."""

from __future__ import annotations

import csv
import io
import json
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

import msgspec
import pytest

from agenteval.cli.report_options import form_list
from agenteval.comparison.run_summary import RunSummary
from agenteval.reports.figures import duration_text
from agenteval.reports.forms import HERE, ReportContext, ReportForms
from agenteval.reports.reader import RowReader as ResultReader
from agenteval.reports.run_summary import grade_facts, run_facts
from agenteval.streams.console import Console
from agenteval.streams.source import Source
from agenteval.streams.text import clip, one_line, pad, visible, width
from agenteval.wire.row import Row
from tests.support.tool import jsonl, run

PASS = {"pass": True, "score": 1.0, "reasoning": "good"}
FAIL = {"pass": False, "score": 0.5}
BROKEN = {"pass": False, "score": 0.0, "reasoning": "grader error: exit 1"}


def row(**fields: Any) -> Row:
    return msgspec.convert({"id": "a", "output": "o", **fields}, Row)


def report(form: str, *records: dict[str, Any], width: int = 100) -> str:
    """The records in that form."""
    with tempfile.NamedTemporaryFile("w") as file:
        file.writelines(json.dumps({"id": "a", "output": "o", **record}) + "\n" for record in records)
        file.flush()
        reader = ResultReader(Source(file.name), Console("t"))
        return b"".join(ReportForms("results").render(form)(reader, ReportContext(width))).decode()


def summary_of(*rows: Row) -> RunSummary:
    summary = RunSummary()
    for each in rows:
        summary.add(each)
    return summary


KINDS = sorted({path.parent.name for path in Path(HERE).glob("*/*.py") if "\ndef render(" in path.read_text()})


@pytest.mark.parametrize("kind", KINDS)
def test_every_form_has_a_render_and_says_what_it_is(kind: str) -> None:
    forms = ReportForms(kind)
    assert forms.names()
    for name in forms.names():
        module = sys.modules[forms.render(name).__module__]
        assert (module.__doc__ or "").startswith(f"{name}: "), module
        assert " ".join(forms.description(name)) in " ".join((module.__doc__ or "").split()), module


@pytest.mark.parametrize(
    ("asked", "output", "chosen"),
    [
        (None, None, "json"),
        (None, "report.md", "markdown"),
        (None, "report.MD", "markdown"),
        (None, "report.markdown", "markdown"),
        (None, "a.md/report", "json"),
        (None, "report.json", "json"),
        (None, "report.txt", "table"),
        ("json", "report.md", "json"),
        ("markdown", "report.json", "markdown"),
    ],
)
def test_choosing_a_form(asked: str | None, output: str | None, chosen: str) -> None:
    assert ReportForms("comparison").choose(asked, output, "json") == chosen


def test_a_new_form_is_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "kind").mkdir()
    (tmp_path / "kind" / "shout.py").write_text('"""shout: in capitals,\nloud"""\n')
    monkeypatch.setattr("agenteval.reports.forms.HERE", str(tmp_path))
    forms = ReportForms("kind")
    assert forms.names() == ["shout"]
    assert forms.description("shout") == ["in capitals,", "loud"]
    assert forms.choose(None, "report.shout", "other") == "shout"
    assert form_list(forms) == "shout  in capitals,\n         loud"


# --- rows -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("timing", "duration", "tokens"),
    [
        (None, None, None),
        ({}, None, None),
        ({"total": 12}, 12, None),
        ({"total": 0, "start": 5, "end": 9}, 0, None),
        ({"start": 5, "end": 9, "inputTokens": 0}, 4, None),
        ({"start": 5, "outputTokens": 3}, None, None),
        ({"inputTokens": 2, "outputTokens": 3}, None, 5),
        ({"total": -1, "start": 5, "end": 9}, None, None),  # the clock was set back
        ({"start": 9, "end": 5}, None, None),
    ],
)
def test_what_was_measured(timing: Any, duration: float | None, tokens: float | None) -> None:
    [attempt] = row(timing=timing).attempts
    assert (attempt.duration, attempt.tokens) == (duration, tokens)


@pytest.mark.parametrize(("given", "joined"), [(None, ""), ("one", "one"), (["one", "two"], "one | two")])
def test_turns(given: Any, joined: str) -> None:
    assert row(input=given).turns(" | ") == joined


# --- figures --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("milliseconds", "shown"),
    [
        (0, "0 ms"),
        (12.4, "12 ms"),
        (999.4, "999 ms"),
        (999.6, "1.00 s"),
        (1250, "1.25 s"),
        (59_994, "59.99 s"),
        (59_996, "1m 00s"),
        (200_000, "3m 20s"),
        (3_599_600, "1h 00m"),
        (7_500_000, "2h 05m"),
    ],
)
def test_duration_text(milliseconds: float, shown: str) -> None:
    assert duration_text(milliseconds) == shown


# --- the summary ----------------------------------------------------------------------------------


def test_what_was_not_graded_is_counted_apart() -> None:
    summary = summary_of(row(score=PASS), row(score=FAIL), row(), row(score=BROKEN, graderError=True))
    assert grade_facts(summary) == [
        ("Records", "4 (1 passed, 1 did not pass, 1 ungraded, 1 grader error)"),
        ("Pass rate", "1/2 (50.0%), 95% interval 9.5% to 90.5%"),
        ("Average score", "0.750 over 2"),
    ]


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ([], "0"),
        ([row(), row()], "2 (2 ungraded)"),
        ([row(score=BROKEN, graderError=True)], "1 (1 grader error)"),
    ],
)
def test_without_a_grade_there_is_no_rate(rows: list[Row], told: str) -> None:
    assert grade_facts(summary_of(*rows)) == [("Records", told)]


def test_an_agent_that_failed_has_not_passed_and_is_shown_apart() -> None:
    failed = {"pass": False, "score": 0.0, "reasoning": "agent failed: boom"}
    summary = summary_of(row(score=PASS), row(errors=["boom"]), row(errors=["boom"], score=failed))
    assert grade_facts(summary) == [
        ("Records", "3 (1 passed, 2 agents failed)"),
        ("Pass rate", "1/3 (33.3%), 95% interval 6.1% to 79.2%"),
        ("Average score", "0.333 over 3"),
    ]
    graded_all_the_same = summary_of(row(errors=["boom"], score=PASS, gradedFailed=True))
    assert grade_facts(graded_all_the_same)[0] == ("Records", "1 (1 passed)"), "--grade-failed"
    assert grade_facts(summary_of(row(errors=["boom"]), row())) == [("Records", "2 (1 agent failed, 1 ungraded)")]


def test_run_facts_say_over_how_many() -> None:
    measured = {"total": 100, "inputTokens": 1000, "outputTokens": 10, "cachedTokens": 5, "costUsd": 0.5}
    rows = [
        row(timing=measured),
        row(timing={"total": 300, "inputTokens": 3000}),
        row(errors=["boom"], toolErrors=True),
    ]
    assert run_facts(summary_of(*rows)) == [
        ("Tool errors", "in 1 of 3 records"),
        ("Duration", "p50 300 ms, p90 300 ms, p99 300 ms, over 2"),
        ("Input tokens", "4,000, mean 2,000 over 2"),
        ("Output tokens", "10, mean 10 over 1"),
        ("Cached tokens", "5, mean 5 over 1"),
        ("Cost", "$0.5000, mean $0.5000 over 1"),
    ]
    assert run_facts(summary_of(row())) == []


def test_a_grader_that_failed_costs_the_other_one_nothing() -> None:
    summary = summary_of(row(score=BROKEN, scores={"hint": PASS, "judge": BROKEN}, graderError=True))
    assert (summary.grades.count, summary.graders["hint"].count, summary.graders["judge"].count) == (0, 1, 0)


def test_error_of_agent_eval_harness_counts_as_a_failure() -> None:
    assert summary_of(row(error="boom"), row(errors=[]), row(error="")).agent_failures == 1


# --- csv ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "=1+1",
        "+1",
        "-1",
        "@SUM(A1)",
        "  =1+1",
        "\t=1",
        "\tx",
        "\rx",
        "\nx",
        "\n=1",
        "\u00a0=1",
        "\ufeff=1",
        "\u200b=1",
        "＝1+1",
        "＋1",
        "－1",
        "＠x",
        '=HYPERLINK("http://x","y")',
    ],
)
def test_a_spreadsheet_runs_nothing(text: str) -> None:
    assert csv_cells(output=text)[3] == "'" + text


@pytest.mark.parametrize(
    "text",
    ["plain", "a=b", "1-1", "a@b", "'=x", 'say "hi"', "a,b", "a\nb", "a\r\nb", "a\rb", "é 日本 👩‍👧", '"', '"""'],
)
def test_other_text_is_as_it_was(text: str) -> None:
    assert csv_cells(output=text)[3] == text


def csv_cells(**fields: Any) -> list[str]:
    text = report("csv", fields)
    assert text.endswith("\r\n")
    [header, cells] = csv.reader(io.StringIO(text, newline=""), strict=True)
    assert len(header) == len(cells)
    return cells


def test_control_characters_become_pictures() -> None:
    assert csv_cells(output="a\0b\x1b[31m\x7f\x85é")[3] == "a␀b␛[31m␡\ufffdé"


@pytest.mark.parametrize(
    ("fields", "cells"),
    [
        ({}, ["a", "", "", "o", "", ""]),
        (
            {"input": ["x", "y"], "hint": "h", "toolErrors": False, "timing": {"total": 1200}, "score": PASS},
            ["a", "x | y", "h", "o", "false", "1200", "true", "1.0", "good"],
        ),
        ({"timing": {"total": 0.5}, "score": FAIL}, ["a", "", "", "o", "", "0.5", "false", "0.5", ""]),
        ({"timing": {"total": -0.5}}, ["a", "", "", "o", "", ""]),
        ({"score": BROKEN, "graderError": True}, ["a", "", "", "o", "", "", "", "", "exit 1"]),
    ],
)
def test_csv_cells(fields: dict[str, Any], cells: list[str]) -> None:
    found = csv_cells(**fields)
    assert found[: len(cells)] == cells and len(found) == len(cells) + 6  # status and the like: test_format.py


# --- markdown -------------------------------------------------------------------------------------


def test_no_output_ends_its_own_fence() -> None:
    outputs = ["x", "```", "````\n# out\n````", "a ` b", "~~~", "\r```\r# out", "`" * 600]
    sections = markdown(*({"output": output} for output in outputs)).split("### a\n\n")[1:]
    assert len(sections) == len(outputs)
    for section in sections:
        lines = section.removesuffix("\n\n---\n\n").split("\n")
        opened = re.match("`+", lines[2])
        assert opened is not None
        fences = re.compile(f" {{0,3}}`{{{len(opened[0])},}} *")
        assert [at for at, line in enumerate(lines) if at > 2 and fences.fullmatch(line)] == [len(lines) - 1]


def markdown(*records: dict[str, Any]) -> str:
    lines = jsonl(*({"id": "a", "output": "o", **record} for record in records))
    return run("ae-format", "-f", "markdown", stdin=lines).expect(0).stdout


def section_of(**fields: Any) -> str:
    return markdown(fields).partition("## Results\n\n")[2]


def test_section() -> None:
    text = section_of(
        id="a<b>",
        input=["x" * 60, "y" * 60],
        hint="h",
        score=FAIL,
        scores={"one|1": PASS, "two": FAIL},
        toolErrors=True,
        errors=["boom\n# no"],
        gradedFailed=True,
    )
    assert text == (
        f"### a&lt;b&gt;\n\n**Input**: {'x' * 60} → {'y' * 37}...\n\n**Hint**: h\n\n**Output**:\n\n```text\no\n```\n\n"
        "**Score**: ❌ 0.500 (FAIL)\n\n- **one\\|1** ✅ 1.000 (PASS): good\n- **two** ❌ 0.500 (FAIL)\n\n"
        "⚠️ **Tool errors detected**\n\n❌ **Agent failed**: boom<br>\\# no\n\n---\n\n"
    )


def test_odd_texts_in_a_section_are_no_markup() -> None:
    odd = "x\x00y\n_\x1b[0m\u2028<b>\u00a0"
    text = section_of(id=odd, input=[odd, ""], output=odd, score={**FAIL, "reasoning": odd})
    assert "### x␀y<br>\\_␛\\[0m<br>&lt;b&gt;\n" in text and "```text\nx␀y\n_␛[0m\u2028<b>\u00a0\n```" in text


def test_several_graders_a_failed_grader_and_a_long_output() -> None:
    erred = {"score": BROKEN, "graderError": True, "output": "x" * 1234}
    text = markdown({"score": FAIL, "scores": {"a|b": PASS, "c": FAIL}}, erred)
    assert "\n| a\\|b | 1/1 | 100.0% | 20.7% to 100.0% | 1.000 |\n| c | 0/1 | 0.0% |" in text
    assert "Total: 2 test cases\n" in text
    last = text.rpartition("### a")[2]
    assert "**Score**: ⚠️ grader error: exit 1\n" in last and "FAIL" not in last
    assert "**Output** (first 500 of 1,234 characters):\n" in last and "x" * 500 + "...\n" in last


# --- table ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "columns"),
    [("abc", 3), ("日本", 4), ("e\u0301", 1), ("é", 1), ("👍", 2), ("ｆ", 2), ("", 0), ("\u1112\u1161", 2)],
)
def test_width(text: str, columns: int) -> None:
    assert width(text) == columns


@pytest.mark.parametrize(
    ("text", "columns", "shown"),
    [
        ("abc", 3, "abc"),
        ("abcd", 3, "ab…"),
        ("日本語", 6, "日本語"),
        ("日本語", 5, "日本…"),
        ("日本語", 4, "日…"),
        ("e\u0301e\u0301e\u0301", 2, "e\u0301…"),
        ("abc", 1, "…"),
        ("abc", 0, ""),
        ("日本", 1, "…"),
    ],
)
def test_clip(text: str, columns: int, shown: str) -> None:
    assert clip(text, columns) == shown
    assert width(pad(clip(text, columns), columns)) == columns


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\n\n a\tb\r\nc ", "a b c"),
        ("\x1b[2J\x1b]0;title\x07", "␛[2J␛]0;title␇"),
        ("\x9b31m", "\ufffd31m"),
        ("abc\u202edcb\u2066x", "abcdcbx"),
        ("👩\u200d👧 ☎\ufe0f", "👩👧 ☎"),
    ],
)
def test_one_line_cannot_drive_a_terminal(text: str, shown: str) -> None:
    assert one_line(text, 100) == shown


def test_visible_leaves_lines_alone() -> None:
    assert visible("a\tb\nc\r\né") == "a\tb\nc\r\né"


@pytest.mark.parametrize(
    ("fields", "word", "text"),
    [
        ({}, "-", "o"),
        ({"score": PASS}, "pass", "o"),
        ({"score": FAIL}, "FAIL", "o"),
        ({"score": {**FAIL, "reasoning": "why"}}, "FAIL", "why"),
        ({"score": BROKEN, "graderError": True}, "no grade", "exit 1"),
        ({"errors": ["boom"]}, "error", "boom"),
        ({"score": PASS, "error": "boom"}, "error", "boom"),
        ({"score": FAIL, "error": "boom", "gradedFailed": True}, "FAIL", "boom"),
    ],
)
def test_verdict_and_story(fields: dict[str, Any], word: str, text: str) -> None:
    line = report("table", {"id": "the-id", **fields}).splitlines()[-1]
    assert (line.partition("  the-id")[0].rstrip(), line.split()[-1]) == (word, text.split()[-1])


@pytest.mark.parametrize("total", [20, 30, 40, 60, 80, 140])
@pytest.mark.parametrize("size", [3, 6, 200])
def test_columns_fit_the_page(size: int, total: int) -> None:
    measured = {"total": 1234567, "inputTokens": 1000, "outputTokens": 9}
    for fields in ({}, {"score": FAIL}, {"score": FAIL, "timing": measured}):
        lines = report("table", {"id": "i" * size, "output": "word " * 50, **fields}, width=total).splitlines()
        assert [line for line in lines[lines.index("") :] if width(line) > total] == []


@pytest.mark.parametrize(
    "line, graded",
    [
        ('{"id":"a","output":"","score":{"pass":true,"score":1}}', True),
        ('{"id":"a","output":"","\\u0073core":{"pass":true,"score":1}}', True),
        ('{"id":"a","output":"the \\"score\\" is"}', False),
        ('{"id":"a","output":"","score":null}', False),
        ('{"id":"a","outcome":{"score":1}}', False),
        ('{"score":', False),
    ],
)
def test_whether_a_file_has_scores(tmp_path: Path, line: str, graded: bool) -> None:
    (tmp_path / "results.jsonl").write_text(f'{{"id":"b","output":""}}\n{line}\n')
    assert ResultReader(Source(str(tmp_path / "results.jsonl")), Console("t")).may_be_graded() is graded
