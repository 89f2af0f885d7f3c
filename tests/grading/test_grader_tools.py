"""ae-grader-tools as a process."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.tool import Done, Record, jsonl, run

SEARCH, PAGE = "wikipedia_search", "wikipedia_get_page"


def calling(*calls: str, **more: Any) -> Record:
    """Returns a record with these calls: one with a ! failed, one with a ? was never answered."""
    status = {"!": "failed", "?": "pending"}
    steps = [
        {"type": "tool_call", "name": call.rstrip("!?"), "status": status.get(call[-1], "completed")} for call in calls
    ]
    return {"id": "a", "output": "x", "trajectory": [{"type": "thought", "content": "hm"}, *steps], **more}


def graded(record: Record, *options: object, cwd: Path | None = None) -> Record:
    (answer,) = run("ae-grader-tools", *options, stdin=jsonl(record), cwd=cwd).expect(0, stderr="").records
    return answer


CHECKS: list[tuple[str, tuple[str, ...], float, str]] = [
    # options, calls, score, what the reasoning says
    ("", (), 1, "all checks passed; called: nothing"),
    ("", ("a", "a", "b"), 1, "all checks passed; called: a 2x, b 1x"),
    ("", ("a", "b!", "b!"), 0, "tool calls failed: b 2x"),
    ("--allow-errors --require a", ("a", "b!"), 1, "all checks passed"),
    ("--require a", ("a",), 1, "all checks passed"),
    ("--require a", ("a?",), 1, "all checks passed"),
    ("--require a", ("b",), 1 / 2, "a was never called"),
    ("--require a", ("a!",), 0, "a was called once and failed; tool calls failed: a 1x"),
    ("--require a --require b", ("b",), 2 / 3, "a was never called"),
    ("--min a=2", ("a",), 1 / 2, "a was called once, required twice"),
    ("--min a=2", ("a", "b", "a"), 1, "all checks passed"),
    ("--min a=2 --allow-errors", ("a", "a!"), 0, "a was called twice, 1 of them failed, required twice"),
    ("--require a=3", ("a", "a"), 1 / 2, "a was called twice, required 3 times"),
    ("--max a=1", ("a", "a!"), 0, "a was called twice, at most once is allowed; tool calls failed: a 1x"),
    ("--max a=1", ("a",), 1, "all checks passed"),
    ("--forbid a", ("b",), 1, "all checks passed"),
    ("--forbid a", ("a",), 1 / 2, "a was called once, which is forbidden"),
    ("--forbid mcp__*", ("mcp__x__y",), 1 / 2, "mcp__* was called once, which is forbidden"),
    ("--require *_search=2", ("web_search", "wiki_search"), 1, "all checks passed"),
    ("--require a --require b --order", ("a", "b", "a"), 1, "all checks passed"),
    ("--require a --require b --order", ("b", "a", "b"), 3 / 4, "not called in the order a, b"),
    ("--min b=1 --require a --order", ("b", "a"), 1, "all checks passed"),
    ("--require a --require b --order", ("a",), 1 / 2, "b was never called; not called in the order a, b"),
    ("--require a --require b --order", (), 1 / 4, "a was never called; b was never called; not called in the order"),
]


@pytest.mark.parametrize("options, calls, score, says", CHECKS)
def test_checks(options: str, calls: tuple[str, ...], score: float, says: str) -> None:
    answer = graded(calling(*calls), *options.split())
    assert (answer["pass"], answer["score"]) == (score == 1, pytest.approx(score)), answer
    assert answer["reasoning"].startswith(says), answer


def test_the_seeds_functional_tests() -> None:
    """Search called, both tools used, several pages read, in that order."""
    options = ("--require", SEARCH, "--min", f"{PAGE}=2", "--order")
    assert graded(calling(SEARCH, PAGE, PAGE), *options)["pass"]
    answer = graded(calling(PAGE, SEARCH), *options)
    assert answer["outcome"] == {
        "calls": {PAGE: 1, SEARCH: 1},
        "missing": [PAGE],
        "failed": [],
        "checks": 4,
        "broken": [
            f"{PAGE} was called once, required twice",
            f"not called in the order {SEARCH}, {PAGE}",
        ],
    }
    assert answer["score"] == 0.5


def test_a_failure_that_only_the_record_tells_of() -> None:
    answer = graded(calling("a", toolErrors=True))
    assert not answer["pass"] and "toolErrors" in answer["reasoning"]


def test_without_a_trajectory_the_grader_errs() -> None:
    done = run("ae-grader-tools", stdin=jsonl({"id": "a", "output": "x"}, calling("a"))).expect(1, stderr="")
    assert "trajectory" in done.records[0]["error"] and done.records[1]["pass"]


# --- the structure of the output ----------------------------------------------------------------

SCHEMA = {
    "type": "object",
    "required": ["answer", "sources_used"],
    "properties": {"answer": {"type": "string"}, "sources_used": {"type": "array", "minItems": 1}},
}
GOOD = json.dumps({"answer": "x", "sources_used": ["A"]})


@pytest.mark.parametrize(
    "output, wrong",
    [
        (GOOD, []),
        (f"Here it is:\n```json\n{GOOD}\n```", []),
        ('{"answer": 7, "sources_used": []}', ["$.answer: 7 is not of type", "$.sources_used: []"]),
        ("[]", ["$: [] is not of type 'object'"]),
        ("no JSON", ["it is not JSON"]),
        ("", ["it is not JSON"]),
    ],
)
def test_structure(output: str, wrong: list[str], tmp_path: Path) -> None:
    (tmp_path / "schema.json").write_text(json.dumps(SCHEMA))
    answer = graded(calling(output=output), "--json-schema", "schema.json", cwd=tmp_path)
    found = answer["outcome"]["structure"]
    assert len(found) == len(wrong) and all(map(str.startswith, found, wrong)), answer
    assert (answer["pass"], answer["score"]) == (not wrong, 0.5 if wrong else 1.0)


def test_structure_of_a_huge_output_is_told_in_a_few_words(tmp_path: Path) -> None:
    (tmp_path / "schema.json").write_text('{"items": {"type": "string"}}')
    answer = graded(calling(output=json.dumps([[0] * 1000] * 1000)), "--json-schema", "schema.json", cwd=tmp_path)
    assert len(answer["outcome"]["structure"]) == 20
    assert len(json.dumps(answer)) < 8000


@pytest.mark.parametrize(
    "text, says",
    [
        ('{"type": "objct"}', "not a JSON Schema"),
        ("{", "not JSON"),
        ("[]", "a JSON Schema must be an object"),
        (None, "No such file"),
    ],
)
def test_schema_that_is_none(text: str | None, says: str, tmp_path: Path) -> None:
    if text is not None:
        (tmp_path / "schema.json").write_text(text)
    done = run("ae-grader-tools", "--json-schema", "schema.json", stdin=jsonl(calling()), cwd=tmp_path)
    done.expect(2).says("schema.json", says)


def test_schema_that_refers_to_elsewhere_or_to_itself(tmp_path: Path) -> None:
    """Nothing is fetched, and the grader ends."""

    def grade(ref: str) -> Done:
        (tmp_path / "schema.json").write_text(json.dumps({"$ref": ref}))
        return run("ae-grader-tools", "--json-schema", "schema.json", stdin=jsonl(calling(output="1")), cwd=tmp_path)

    grade("http://127.0.0.1:1/x").expect(2).says(
        "schema.json", "refers to something that it does not contain", "127.0.0.1"
    )
    assert "nested too deeply" in grade("#").expect(1, stderr="").records[0]["error"]


def test_without_jsonschema_it_says_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "schema.json").write_text("{}")
    (tmp_path / "jsonschema.py").write_text("raise ImportError")
    env = {"PYTHONPATH": str(tmp_path)}
    done = run("ae-grader-tools", "--json-schema", "schema.json", stdin=jsonl(calling()), cwd=tmp_path, env=env)
    done.expect(2).says("pip install", "[schema]'")
    assert run("ae-grader-tools", stdin=jsonl(calling()), cwd=tmp_path, env=env).expect(0).records[0]["pass"]


# --- options ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options, says",
    [
        ("--min a=x", "a=x is not NAME=N"),
        ("--min =2", "=2 is not NAME=N"),
        ("--min a=-1", "a=-1 is not NAME=N"),
        ("--max a", "a is not NAME=N"),
        ("--order", "--order needs two tools"),
        ("--order --require a", "--order needs two tools"),
        ("--allow-errors", "nothing to check"),
    ],
)
def test_options_that_make_no_sense(options: str, says: str) -> None:
    run("ae-grader-tools", *options.split(), stdin="").expect(2).says(says)
