"""ae-grader-checks: each type of check on records that pass and that do not, what is refused, and graders left out."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from agenteval.errors import BadRecord
from agenteval.grading.prompt_checks import parsed_checks
from tests.support.model_server import answering, completion
from tests.support.tool import jsonl, run, write

CALLS = [
    {"type": "tool_call", "name": "Read", "input": {"path": "/w/.claude/skills/pdf/SKILL.md"}, "status": "completed"},
    {"type": "tool_call", "name": "Bash", "input": {"command": 'echo "hi"\npytest -q'}, "status": "failed"},
    {"type": "message", "content": "done"},
    {"type": "tool_call", "name": "Skill", "input": {"skill": "docs:xlsx"}, "status": "completed"},
    {"type": "tool_call", "name": "exec", "input": "cd .codex/skills/sql && cat SKILL.md", "status": "completed"},
    {"type": "tool_call", "name": "Write", "input": {"path": "skills/new/SKILL.md"}, "status": "completed"},
    {"type": "tool_call", "name": "sh", "input": "cat > skills/made/SKILL.md <<E", "status": "completed"},
]
TIMING = {"total": 3000, "inputTokens": 90, "outputTokens": 10, "costUsd": 0.5}

# type and parameters → whether the check passes on the record below
TABLE: list[tuple[dict[str, Any], bool]] = [
    ({"type": "contains", "value": "Paris"}, True),
    ({"type": "contains", "value": "paris"}, False),
    ({"type": "contains", "value": "paris", "ignoreCase": True}, True),
    ({"type": "contains", "value": ["Rome", "Paris"]}, True),
    ({"type": "contains", "value": ["Rome", "Oslo"]}, False),
    ({"type": "not-contains", "value": "Rome"}, True),
    ({"type": "not-contains", "value": ["Rome", "Paris"]}, False),
    ({"type": "equals", "value": 'It is Paris. {"n": 1}'}, True),
    ({"type": "equals", "value": "Paris"}, False),
    ({"type": "starts-with", "value": "It is"}, True),
    ({"type": "starts-with", "value": "it is"}, False),
    ({"type": "regex", "value": r"P\w+s"}, True),
    ({"type": "regex", "value": r"^Paris"}, False),
    ({"type": "not-regex", "value": r"\d{2}"}, True),
    ({"type": "not-regex", "value": "PARIS", "ignoreCase": True}, False),
    ({"type": "json-schema", "schema": {"required": ["n"], "properties": {"n": {"type": "integer"}}}}, True),
    ({"type": "json-schema", "schema": {"required": ["m"]}}, False),
    ({"type": "tool-called", "tool": "Bash"}, True),
    ({"type": "tool-called", "tool": "ba*", "ignoreCase": True}, True),
    ({"type": "tool-called", "tool": "Bash", "input": '"hi"\npytest'}, True),
    ({"type": "tool-called", "tool": "Bash", "input": "npm"}, False),
    ({"type": "tool-called", "tool": "Bash", "min": 2}, False),
    ({"type": "tool-called", "tool": "*", "max": 5}, False),
    ({"type": "tool-called", "tool": "*", "min": 6, "max": 6}, True),
    ({"type": "tool-not-called", "tool": "WebFetch"}, True),
    ({"type": "tool-not-called", "tool": "Bash"}, False),
    ({"type": "tool-not-called", "tool": "Bash", "input": "npm"}, True),
    ({"type": "tool-order", "tools": ["Read", "Skill"]}, True),
    ({"type": "tool-order", "tools": ["Skill", "Read"]}, False),
    ({"type": "tool-order", "tools": ["Read", "Read"]}, False),
    ({"type": "skill-used", "skill": "pdf"}, True),
    ({"type": "skill-used", "skill": "xlsx"}, True),
    ({"type": "skill-used", "skill": "sql"}, True),
    ({"type": "skill-used", "skill": "pd"}, False),
    ({"type": "skill-used", "skill": "new"}, False),
    ({"type": "skill-used", "skill": "made"}, False),
    ({"type": "skill-not-used", "skill": "docx"}, True),
    ({"type": "skill-not-used", "skill": "pdf"}, False),
    ({"type": "file-exists", "path": "out/a.txt"}, True),
    ({"type": "file-exists", "path": "out"}, True),
    ({"type": "file-exists", "path": "b.txt"}, False),
    ({"type": "file-exists", "path": "outside"}, False),
    ({"type": "file-contains", "path": "out/a.txt", "value": "two"}, True),
    ({"type": "file-contains", "path": "out/a.txt", "value": "three"}, False),
    ({"type": "file-contains", "path": "out/a.txt", "regex": "^one"}, True),
    ({"type": "file-contains", "path": "out", "value": "two"}, False),
    ({"type": "file-contains", "path": "pipe", "value": "two"}, False),
    ({"type": "command", "run": 'test "$AE_ID" = a && grep -q two out/a.txt && touch new'}, True),
    ({"type": "command", "run": "exit 3"}, False),
    ({"type": "max-duration", "value": 3000}, True),
    ({"type": "max-duration", "value": "2s"}, False),
    ({"type": "max-tokens", "value": 100}, True),
    ({"type": "max-tokens", "value": 99}, False),
    ({"type": "max-cost", "value": 0.5}, True),
    ({"type": "max-cost", "value": 0.4}, False),
    ({"type": "group", "threshold": 0.5, "checks": [{"type": "contains", "value": v} for v in ("Paris", "x")]}, True),
    ({"type": "group", "threshold": 0.6, "checks": [{"type": "contains", "value": v} for v in ("Paris", "x")]}, False),
]


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("workspace")
    (folder / "out").mkdir()
    (folder / "out/a.txt").write_text("one\ntwo\n")
    (folder / "outside").symlink_to("/etc/hostname")
    os.mkfifo(folder / "pipe")
    output = 'It is Paris. {"n": 1}\n'
    return {"id": "a", "input": "?", "output": output, "trajectory": CALLS, "cwd": str(folder), "timing": TIMING}


def test_every_type_passes_and_fails(record: dict[str, Any]) -> None:
    done = run("ae-grader-checks", stdin=jsonl(*({**record, "checks": [check]} for check, _ in TABLE))).expect()
    for (check, expected), graded in zip(TABLE, done.records, strict=True):
        assert graded.get("pass") is expected, (check, graded)
        assert graded["outcome"]["checks"][0]["reason"]
    assert {check["type"] for check, _ in TABLE} == {check["type"] for check, passes in TABLE if not passes}
    assert not os.path.exists(os.path.join(record["cwd"], "new"))  # commands run in a copy


def test_unknown_limits_do_not_pass() -> None:
    checks = [{"type": f"max-{name}", "value": 5} for name in ("duration", "tokens", "cost")]
    partial = {"inputTokens": 1, "outputTokens": 1, "tokensPartial": True}
    records = [{"id": "a", "output": "x", "checks": checks, "timing": timing} for timing in ({}, partial)]
    assert [graded["score"] for graded in run("ae-grader-checks", stdin=jsonl(*records)).expect().records] == [0, 0]


@pytest.mark.parametrize(
    ("checks", "named"),
    [
        (None, 'no "checks"'),
        ([], "non-empty"),
        ([{"value": "x"}], '"type"'),
        ([{"type": "contain", "value": "x"}], "did you mean contains"),
        ([{"type": "contains"}], '"value" is missing'),
        ([{"type": "contains", "value": "x", "weigth": 2}], "weigth"),
        ([{"type": "contains", "value": "x", "weight": 0}], '"weight"'),
        ([{"type": "regex", "value": "("}], "not a regular expression"),
        ([{"type": "json-schema", "schema": {"type": "text"}}], "not a JSON Schema"),
        ([{"type": "file-exists", "path": "../x"}], "within the workspace"),
        ([{"type": "file-contains", "path": "x"}], 'either "value" or "regex"'),
        ([{"type": "max-duration", "value": "fast"}], "not a time"),
        ([{"type": "tool-called", "tool": "x", "min": 3, "max": 2}], '"max" is 2'),
        ([{"type": "group", "checks": [{"type": "regex", "value": "["}]}], "not a regular expression"),
    ],
)
def test_what_is_wrong_with_a_check_is_named(checks: object, named: str) -> None:
    with pytest.raises(BadRecord, match=named):
        parsed_checks({"id": "a", "checks": checks})


def test_weights_and_required() -> None:
    checks = [
        {"type": "contains", "value": "x", "weight": 3},
        {"type": "contains", "value": "y", "required": False, "name": "mentions y"},
    ]
    done = run("ae-grader-checks", stdin=jsonl({"id": "a", "output": "x", "checks": checks})).expect()
    graded = done.records[0]
    assert (graded["pass"], graded["score"]) == (True, 0.75)
    assert graded["reasoning"] == "1/2 checks; mentions y: the output does not contain 'y'"


def test_g_may_be_left_out_where_every_prompt_has_checks(tmp_path: Path) -> None:
    prompts = [{"id": str(n), "input": f"say {n}", "checks": [{"type": "contains", "value": "1"}]} for n in (1, 2)]
    path, agent = write(tmp_path / "prompts.jsonl", *prompts), ("--simple", "echo {}")
    results = [{**prompt, "output": prompt["input"]} for prompt in prompts]
    for done in (
        run("ae-capture", path, *agent).expect(),
        run("ae-capture", *agent, stdin=jsonl(*prompts)).expect(),
        run("ae-grade", stdin=jsonl(*results)).expect(),
    ):
        assert {record["id"]: record["score"]["pass"] for record in done.records} == {"1": True, "2": False}
        assert "graded by the checks of the prompts (ae-grader-checks)" in done.stderr
    write(path, *prompts, {"id": "3", "input": "say 1"})
    done = run("ae-capture", path, *agent).expect()
    assert "1 prompt without checks, so nothing is graded" in done.stderr
    assert not any("score" in record for record in done.records)
    mixed = write(tmp_path / "results.jsonl", *results, {"id": "3", "output": "x"})
    run("ae-grade", mixed).expect(2).says("have no checks: name a grader with -g")


def test_wrong_checks_are_found_before_any_agent_starts(tmp_path: Path) -> None:
    good = {"id": "a", "input": f"{tmp_path}/started", "checks": [{"type": "not-contains", "value": "x"}]}
    wrong = {"id": "b", "input": "x", "checks": [{"type": "regex", "value": "("}]}
    path = write(tmp_path / "prompts.jsonl", good, wrong)
    done = run("ae-capture", path, "--strict", "--simple", "touch {}").expect(1)
    assert "prompts.jsonl:2: checks[0] (regex): not a regular expression" in done.stderr
    assert not (tmp_path / "started").exists()


def test_references_pass_the_checks_of_the_output() -> None:
    checks = [{"type": "contains", "value": "Paris"}, {"type": "file-exists", "path": "x"}]
    prompt = {"id": "a", "input": "?", "reference": "It is Paris", "checks": checks}
    assert run("ae-validate-refs", stdin=jsonl(prompt)).expect().records[0]["pass"] is True


def test_one_call_judges_all_rubrics_and_is_repeated_once() -> None:
    checks = [{"type": "judge", "rubric": "names a city"}, {"type": "judge", "rubric": "is short", "threshold": 0.5}]
    criteria = [{"number": 2, "reasoning": "long", "score": 0.4}, {"number": 1, "reasoning": "yes", "score": 1.0}]
    replies = [completion("no JSON"), completion(json.dumps({"criteria": criteria}))]
    with answering(*replies) as server:
        env = {"OPENAI_BASE_URL": server.url, "OPENAI_API_KEY": "k"}
        record = {"id": "a", "input": "Where?", "output": "In Paris.", "checks": checks}
        graded = run("ae-grader-checks", stdin=jsonl(record), env=env).expect().records[0]
    assert [check["pass"] for check in graded["outcome"]["checks"]] == [True, False]
    assert graded["outcome"]["checks"][1]["reason"] == "0.4 of 0.5: long"
    assert len(server.requests) == 2
    system = str(server.requests[0])
    assert "1. names a city" in system and "overall_score" not in system  # the reply of ae-grader-judge


def test_reports_show_each_check() -> None:
    checks = [{"type": "contains", "value": value, "name": f"says {value}"} for value in ("x", "y")]
    graded = run("ae-grade", stdin=jsonl({"id": "a", "input": "?", "output": "x", "checks": checks})).expect().out
    shown = {
        form: run("ae-format", "-f", form, stdin=graded).expect().stdout for form in ("table", "markdown", "junit")
    }
    assert "CHECKS" in shown["table"] and " 1/2 " in shown["table"]
    assert "- ✅ says x: the output contains 'x'\n- ❌ says y: the output does not contain 'y'" in shown["markdown"]
    assert """<property name="says y" value="fail: the output does not contain 'y'"/>""" in shown["junit"]
    plain = run("ae-format", "-f", "table", stdin=jsonl({"id": "a", "input": "?", "output": "x"})).expect().stdout
    assert "CHECKS" not in plain
