"""ae-balance: categories counted, positive and negative cases, and the suggestions."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from agenteval.reports.terminal import bar, chart
from agenteval.review.balance import PromptCounts, kind_of
from agenteval.streams.rows import groups_at, value_at
from agenteval.streams.text import width
from agenteval.wire.balance import Balance
from tests.support.tool import Record, jsonl, on_terminal, run, write


def balance(*metadata: Record | None, key: str = "category", threshold: float = 50) -> Balance:
    counts = PromptCounts(key)
    for number, one in enumerate(metadata):
        counts.add({"id": str(number), "input": "x", "metadata": one})
    return counts.balance(threshold)


def of(**counts: int) -> list[Record]:
    """So many prompts of each category, all of them in turn positive and negative."""
    names = [name for name, count in counts.items() for _ in range(count)]
    return [{"category": name, "type": ("positive", "negative")[at % 2]} for at, name in enumerate(names)]


def counts(found: Balance) -> list[tuple[str, int, float]]:
    return [(category.name, category.count, category.percentage) for category in found.categories]


# --- one prompt ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "metadata, key, value",
    [
        ({"a": 1}, "a", 1),
        ({"a": {"b": {"c": "deep"}}}, "a.b.c", "deep"),
        ({"a.b": "flat", "a": {"b": "deep"}}, "a.b", "flat"),
        ({"a": "text"}, "a.b", None),
        ({"a": ["list"]}, "a.0", None),
        ({}, "a", None),
        ({"": "empty"}, "", "empty"),
    ],
)
def test_value_at(metadata: Record, key: str, value: Any) -> None:
    assert value_at(metadata, key) == value


@pytest.mark.parametrize(
    "value, names",
    [
        ("ui", ["ui"]),
        (" ui ", ["ui"]),
        (7, ["7"]),
        (1.5, ["1.5"]),
        (True, ["true"]),
        (["b", "a", "b", None], ["b", "a"]),
        ([["x"], {"y": 1}], ['["x"]', '{"y":1}']),
        (None, []),
        ("", []),
        ([], []),
    ],
)
def test_groups_at(value: Any, names: list[str]) -> None:
    assert groups_at({"key": value}, "key") == names


@pytest.mark.parametrize(
    "metadata, kind",
    [
        ({"type": "positive"}, "positive"),
        ({"expected": "negative"}, "negative"),
        ({"type": " Negative "}, "negative"),
        ({"type": "positive", "expected": "negative"}, "positive"),
        ({"type": "edge", "expected": "negative"}, "negative"),
        ({"type": ["positive"]}, None),
        ({"expected": {"answer": 1}}, None),
        ({}, None),
    ],
)
def test_kind_of(metadata: Record, kind: str | None) -> None:
    assert kind_of(metadata) == kind


# --- all of them --------------------------------------------------------------------------------


def test_largest_first_and_equal_ones_as_they_appear() -> None:
    found = balance(*of(b=1, c=2, a=1, d=2))
    assert counts(found) == [("c", 2, 33.3), ("d", 2, 33.3), ("b", 1, 16.7), ("a", 1, 16.7)]


def test_uncategorized_is_listed_but_no_category() -> None:
    found = balance(*of(a=9, b=1), None, {}, {"category": None})
    assert counts(found) == [("a", 9, 69.2), ("(uncategorized)", 3, 23.1), ("b", 1, 7.7)]
    assert found.uncategorized == 3
    assert found.underrepresented == ["b"]
    assert any("(uncategorized)" in text for text in found.suggestions) is False


@pytest.mark.parametrize(
    "sizes, threshold, few",
    [
        ({"a": 6, "b": 2}, 50, []),  # half of an even share of four is enough
        ({"a": 7, "b": 1}, 50, ["b"]),
        ({"a": 5, "b": 3}, 80, ["b"]),
        ({"a": 5, "b": 3}, 0, []),
        ({"a": 4, "b": 4}, 100, []),
        ({"a": 4, "b": 4}, 101, ["a", "b"]),
        ({"a": 4}, 100, []),
    ],
)
def test_underrepresented(sizes: dict[str, int], threshold: float, few: list[str]) -> None:
    assert balance(*of(**sizes), threshold=threshold).underrepresented == few


def test_a_list_counts_in_each_of_its_categories() -> None:
    found = balance({"category": ["a", "b"]}, {"category": ["a"]}, {"category": "b"}, {"category": "b"})
    assert counts(found) == [("b", 3, 75), ("a", 2, 50)]
    assert found.total_cases == 4
    assert found.underrepresented == []


@pytest.mark.parametrize(
    "kinds, expected",
    [
        (["positive"] * 3 + ["negative"], (3, 1, 0, 3)),
        (["positive", "negative", "negative", "edge"], (1, 2, 1, 0.5)),
        (["positive"], (1, 0, 0, None)),
        ([None, "other"], (0, 0, 2, None)),
        (["negative"], (0, 1, 0, 0)),
        (["positive"] * 2 + ["negative"] * 3, (2, 3, 0, 0.67)),
    ],
)
def test_positive_and_negative(kinds: list[str | None], expected: tuple[Any, ...]) -> None:
    cases = balance(*({"type": kind} for kind in kinds)).cases
    assert (cases.positive, cases.negative, cases.other, cases.ratio) == expected


@pytest.mark.parametrize(
    "metadata, says",
    [
        ([], ["There are no test cases"]),
        (of(a=12, b=12), ["The test set is well balanced"]),
        (of(a=18, b=3), ["more test cases for: b", "85.7% of the cases are in 'a'"]),
        (of(a=10, b=10, c=2), ["more test cases for: c", "fewer than 3 cases reveal little: c"]),
        (of(a=5, b=5), ["With 10 cases"]),
        ([{"category": "a"}, {"category": "b"}] * 12, ["No case is marked negative"]),
        ([{"category": "a", "type": "negative"}, {"category": "b"}] * 12, ["No case is marked positive"]),
        ([*of(a=12, b=12), {}], ["Cases without metadata.category: 1"]),
        (
            [{"kategory": "a", "type": "negative"}] * 30,
            ["No case has metadata.category; the keys found are: kategory, type", "pos"],
        ),
        ([None] * 30, ["No case has metadata.category, nor any other metadata", "negative"]),
        (
            [{"category": n, "type": "negative"} for n in range(30)],
            ["0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 20 more", "positive"],
        ),
    ],
)
def test_suggestions(metadata: list[Record], says: list[str]) -> None:
    found = balance(*metadata).suggestions
    assert len(found) == len(says), found
    assert all(part in text for part, text in zip(says, found, strict=True)), found


# --- the chart ----------------------------------------------------------------------------------


@pytest.mark.parametrize("columns", [20, 40, 80, 200])
def test_chart_fits(columns: int) -> None:
    names = {"ui": 1200, "a very long name of a category indeed": 3, "日本語の名前": 700}
    lines = chart(balance(*of(**names)), columns)
    assert len(lines) == 3
    assert all(width(line) < columns for line in lines), lines


def test_chart() -> None:
    assert chart(balance(*of(logic=4, ui=8, x=1)), 60) == [
        f"ui     8   61.5%  {'█' * 36}",
        f"logic  4   30.8%  {'█' * 18}",
        f"x      1    7.7%  {'█' * 4}  few",
    ]
    assert chart(balance(), 60) == []


@pytest.mark.parametrize("count, shown", [(100, "█" * 10), (55, "█" * 5), (1, "▌")])
def test_bar(count: int, shown: str) -> None:
    assert bar(count, 100, 10) == shown
    assert bar(count, 100, -3) == ""


# --- the tool -----------------------------------------------------------------------------------

PROMPTS = [{"id": str(n), "input": "x", "metadata": one} for n, one in enumerate(of(ui=3, api=1))]


def test_json_is_the_same_every_time_and_the_chart_is_for_people(tmp_path: Path) -> None:
    source = write(tmp_path / "prompts.jsonl", *PROMPTS)
    plain = run("ae-balance", source, cwd=tmp_path).expect(0, stderr="")
    assert plain.stdout.startswith('{\n  "totalCases": 4,\n  "key": "category",\n  "categories": [\n    {\n')
    assert run("ae-balance", source, env={"PYTHONHASHSEED": "7"}).out == plain.out
    shown = on_terminal("ae-balance", source, "-o", "balance.json", cwd=tmp_path, env={"NO_COLOR": "1"})
    assert (tmp_path / "balance.json").read_bytes() == plain.out
    assert re.match(r"ui   3   75\.0%  █+\napi  1   25\.0%  █+\n- ", shown.stdout), shown
    assert "\x1b" not in shown.stdout
    assert on_terminal("ae-balance", source, cwd=tmp_path, env={"NO_COLOR": "1"}).stdout == shown.stdout
    assert on_terminal("ae-balance", source, "-f", "json", cwd=tmp_path).stdout.startswith(plain.stdout)
    run("ae-balance", source, "-o", "balance.xlsx", cwd=tmp_path).expect(2).says("no format has this extension")
    dumb = on_terminal("ae-balance", source, "-o", "balance.json", cwd=tmp_path, env={"TERM": "dumb"})
    assert dumb.stdout == ""


def test_a_category_cannot_drive_the_terminal(tmp_path: Path) -> None:
    write(tmp_path / "p.jsonl", {"id": "a", "input": "x", "metadata": {"category": "\x1b[2Jevil\r\n\u202eno"}})
    shown = on_terminal("ae-balance", "p.jsonl", "-o", "/dev/null", cwd=tmp_path)
    assert "\x1b" not in shown.stdout and "\r" not in shown.stdout and "\u202e" not in shown.stdout, shown


def test_bad_lines_and_duplicates_are_reported_and_the_rest_is_counted(tmp_path: Path) -> None:
    write(tmp_path / "p.jsonl", PROMPTS[0], {"id": "9"}, {**PROMPTS[0], "input": "again"}, PROMPTS[3], "[]")
    done = run("ae-balance", "p.jsonl", cwd=tmp_path).expect(1)
    assert done.messages == [
        'ae-balance: p.jsonl:2: "input" is missing',
        'ae-balance: p.jsonl:3: duplicate id "0"',
        "ae-balance: p.jsonl:5: a record must be a JSON object, got a list",
    ]
    assert json.loads(done.stdout)["totalCases"] == 2
    strict = run("ae-balance", "--strict", "p.jsonl", cwd=tmp_path).expect(1)
    assert strict.out == b"" and strict.messages[0] == done.messages[0]


@pytest.mark.parametrize("value", ["-1", "nan", "inf", "half"])
def test_threshold_is_a_percentage(value: str) -> None:
    run("ae-balance", "--threshold", value, stdin=jsonl(*PROMPTS)).expect(2).says("--threshold", value)


def test_refused_input_leaves_the_output_alone(tmp_path: Path) -> None:
    (tmp_path / "out.json").write_text("precious")
    write(tmp_path / "p.jsonl", "{broken")
    run("ae-balance", "p.jsonl", "--strict", "-o", "out.json", cwd=tmp_path).expect(1)
    assert (tmp_path / "out.json").read_text() == "precious"


def test_the_short_name_of_the_threshold(tmp_path: Path) -> None:
    prompts = jsonl(*({"id": str(n), "input": "x", "metadata": {"category": "a" if n < 3 else "b"}} for n in range(4)))
    for percent, few in ((40, []), (60, ["b"])):
        (found,) = [json.loads(run("ae-balance", "-t", percent, stdin=prompts, cwd=tmp_path).expect(0).out)]
        assert found["underrepresented"] == few
