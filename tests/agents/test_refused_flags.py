"""Agents of another version: flags that they refuse, starts that fail without output."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agenteval.agents.session import refused_flag
from tests.support.tool import run

ARGV = ["agent", "run", "--output-format", "stream-json", "--auto", "-p", "--skip-trust=yes"]


@pytest.mark.parametrize(
    ("text", "flag"),
    [
        ("error: unknown option '--output-format'", "--output-format"),
        ("error: unexpected argument '--auto' found", "--auto"),
        ("error: Found argument '--auto' which wasn't expected", "--auto"),
        ("agent: error: unrecognized arguments: --auto", "--auto"),
        ("Error: No such option: --skip-trust", "--skip-trust"),
        ("Unknown arguments: skip-trust, skipTrust", "--skip-trust"),
        ("Unknown argument: auto", "--auto"),
        ("flag provided but not defined: -p", "-p"),
        ("error: invalid value 'stream-json' for '--output-format'", "--output-format"),
        ("error: unknown option '--other'", None),
        ("error: unknown model", None),
        ("--auto    run without asking", None),
        ("  -h, --help\n  -p\n  --output-format\n  --skip-trust\n  --model, -m", "--auto"),
    ],
)
def test_the_flag_that_an_agent_refuses(text: str, flag: str | None) -> None:
    assert refused_flag(["Usage: agent", text], ARGV) == flag


SCHEMA = {
    "version": 1,
    "name": "mine",
    "provenOn": "mine 2.0",
    "command": ["./agent"],
    "sessionMode": "stream",
    "prompt": {"flag": ""},
    "autoApprove": ["--yes"],
    "outputEvents": [],
}


def write_agent(folder: Path, body: str) -> Path:
    agent, schema = folder / "agent", folder / "mine.json"
    agent.write_text(f"#!/bin/sh\n{body}\n")
    agent.chmod(0o755)
    schema.write_text(json.dumps(SCHEMA | {"command": [str(agent)]}))
    (folder / "prompts.jsonl").write_text('{"id":"a","input":"do it"}\n')
    return schema


def test_the_record_names_the_version_that_knows_the_flag(tmp_path: Path) -> None:
    schema = write_agent(tmp_path, "echo \"error: unknown option '--yes'\" >&2; exit 1")
    (record,) = run("ae-run", "prompts.jsonl", "-s", schema, cwd=tmp_path).records
    (error,) = record["errors"]
    assert error.startswith(
        "exited with code 1: error: unknown option '--yes' (it does not accept --yes from the adapter mine, "
    )
    assert "which was tested with mine 2.0" in error


@pytest.mark.parametrize(
    ("body", "attempts"),
    [
        ("exit 1", 2),
        ("echo 'SQLiteError: database is locked' >&2; exit 1", 2),
        ("echo 'no login' >&2; exit 1", None),
        ("echo '{}'; exit 1", None),
    ],
)
def test_an_exit_without_output_is_a_failed_start(tmp_path: Path, body: str, attempts: int | None) -> None:
    schema = write_agent(tmp_path, f"test -e again || {{ touch again; {body}; }}")
    (record,) = run("ae-run", "prompts.jsonl", "-s", schema, "--retries", "1", cwd=tmp_path).records
    assert record.get("attempts") == attempts
    assert ("errors" in record) == (attempts is None)


def test_arguments_of_the_users_own(tmp_path: Path) -> None:
    schema = write_agent(tmp_path, 'printf "%s\\n" "$@"')
    own = ["--agent-arg", "--model", "--agent-arg", "opus"]
    (record,) = run("ae-run", "prompts.jsonl", "-s", schema, *own, cwd=tmp_path).records
    assert record["rawLines"] == ["--yes", "--model", "opus", "do it"]
    assert record["metadata"]["agentArgs"] == ["--model", "opus"]
    without = run("ae-run", "prompts.jsonl", "-s", schema, cwd=tmp_path).records[0]["metadata"]
    assert "agentArgs" not in without
    assert without["agentDigest"] != record["metadata"]["agentDigest"]
    refused = run("ae-run", "prompts.jsonl", "--simple", "echo {}", *own, cwd=tmp_path)
    assert refused.code == 2
