"""The schema format: what is wrong is refused by name, and every field is described."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agenteval.adapters.reader import result_of
from agenteval.adapters.schema_file import parse_adapter
from agenteval.errors import UserError
from agenteval.wire.adapter_schema import SUITE_METADATA
from tests.support.schema_building import adapter
from tests.support.tool import ROOT, jsonl, run
from tests.support.wrong_schemas import BAD_PATHS, MISSPELT, OWN, WRONG


@pytest.mark.parametrize(("fields", "message"), WRONG, ids=[message for _, message in WRONG])
def test_a_wrong_schema_is_refused_by_the_name_of_the_field(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError) as error:
        adapter(**fields)
    assert str(error.value) == f"my.json: {message}"


@pytest.mark.parametrize(("fields", "field"), BAD_PATHS, ids=[field for _, field in BAD_PATHS])
def test_a_wrong_path_is_refused(fields: dict[str, Any], field: str) -> None:
    with pytest.raises(UserError) as error:
        adapter(**fields)
    assert str(error.value).startswith(f"my.json: {field}: ")
    assert "is not a JSONPath (" in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(("fields", "message"), MISSPELT, ids=[message for _, message in MISSPELT])
def test_a_misspelt_field_is_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError) as error:
        adapter(**fields)
    assert str(error.value) == f"my.json: {message}"


@pytest.mark.parametrize("fields", OWN, ids=[" ".join(fields) for fields in OWN])
def test_fields_of_ones_own_are_let_through(fields: dict[str, Any]) -> None:
    assert adapter(**fields).config.name == "my"


def test_schemas_that_were_there_before_are_not_refused() -> None:
    paths = [ROOT / "bench" / "claude-agent-eval-harness.json", *ROOT.glob("agenteval/adapters/schemas/*.json")]
    for path in [*paths, *(ROOT / "examples" / "quickstart" / f"{name}.json" for name in ("careful", "hasty"))]:
        assert parse_adapter(path.read_bytes(), path.name).config.version == 1


def test_the_names_of_the_suite_are_those_it_writes() -> None:
    ending: dict[str, Any] = {"exitCode": 1, "signal": "SIGTERM", "timedOut": True}
    run = ("runId", "suiteVersion", "agentCommand", "agentDigest", "promptDigest", "fieldsDigest", "workspaceDir")
    more = ("sandbox", "isolated", "variant", "agentSetup", "skillsUsed", "stopWhenKnown", "workspaceBaseline")
    metadata = {**dict.fromkeys((*run, *more), "0"), "agentArgs": ["--model"], "graderDigests": {}}
    turns = [{"lines": 0}, {"lines": 0}]
    raw = {
        "id": "i",
        "input": ["x", "y"],
        "rawLines": [],
        "turns": turns,
        "timing": {},
        "metadata": metadata,
        **ending,
    }
    assert set(result_of(raw, adapter())["metadata"]) == SUITE_METADATA | {"agent"}


def test_what_looks_like_a_placeholder_and_is_none() -> None:
    resume = {"command": ["sh", "-c", "agent resume {sessionId} ${id} {} '{print $1}'"]}
    assert adapter(resume=resume).config.resume is not None, "the id in the command is enough"


NOT_JSON: list[tuple[bytes, str]] = [
    (b"", ": is empty"),
    (b"\xef\xbb\xbf \n", ": is empty"),
    (b"[]", ": an adapter schema must be an object, got a list"),
    (b'{"version": 1}', ": name is missing"),
    (b"{", ":1:2: not JSON: the file ends too early"),
    (b'{"version": 1,\n "name": "my', ":2:10: not JSON: unterminated string"),
    (b'{\n  "version": 1\n  "name": "my"\n}', ":3:3: not JSON: expecting ',' delimiter"),
    (b'{\n  "version": one\n}', ":2:14: not JSON: expecting value"),
    ('{"é": "ü" "name"}'.encode(), ":1:11: not JSON: expecting ',' delimiter"),
    (b'\xef\xbb\xbf{"a": 1}}', ":1:9: not JSON: extra data"),
    (b"// mine\n{}", ":1:1: not JSON: expecting value (JSON has no comments)"),
    (
        b'{\n  # mine\n  "version": 1}',
        ":2:3: not JSON: expecting property name enclosed in double quotes (JSON has no comments)",
    ),
    (b'{"a": 1}\n/* end */', ":2:1: not JSON: extra data (JSON has no comments)"),
    (b'{"a":\n NaN}', ":2:2: not JSON: invalid character"),
    (b'{"a": 1e999}', ": not JSON: Number out of range"),
    (b'{\n"a": "\xff"}', ":2:7: not UTF-8: byte 0xff"),
    (b"[" * 99999, ": cannot be read as JSON: nested too deeply"),
    (b'{"a": "\\ud83d"}', ": cannot be read as JSON: contains half of a surrogate pair (\\ud800 to \\udfff)"),
]


@pytest.mark.parametrize(("data", "message"), NOT_JSON, ids=[message for _, message in NOT_JSON])
def test_what_is_no_schema_is_refused_with_its_place(data: bytes, message: str) -> None:
    with pytest.raises(UserError) as error:
        parse_adapter(data, "my.json")
    assert str(error.value) == f"my.json{message}"


def test_a_comma_too_many() -> None:
    for data in (b'{\n"a": 1,\n}', b'{"a": [1,\n2,\n]}'):  # versions of Python do not agree on the line
        with pytest.raises(UserError, match=r"^my\.json:[23]:\d+: not JSON: a comma with nothing after it$"):
            parse_adapter(data, "my.json")


TIMING = {"start": 0, "end": 1, "total": 1}


def test_a_file_with_the_name_of_a_bundled_schema(tmp_path: Path) -> None:
    """It wins; what is wrong with it is reported with how to name the other one."""
    (tmp_path / "claude").write_text("#!/bin/sh\n")
    raw = jsonl({"id": "a", "input": "x", "rawLines": ['{"type":"result","result":"yes"}'], "timing": TIMING})
    refused = run("ae-extract", "-s", "claude", stdin=raw, cwd=tmp_path).expect(2)
    refused.says("./claude (a file here; for the bundled schema use -s bundled:claude)")
    found = run("ae-extract", "-s", "bundled:claude", stdin=raw, cwd=tmp_path).expect(0, stderr="").records
    assert found[0]["output"] == "yes"
