"""The rig for real agents: the page that it writes, and what its scenarios find, with a small agent."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.agent_rig import runner
from tests.agent_rig.catalogue import AGENTS, MODEL, TOKENS, Agent
from tests.agent_rig.install import ROOT, NotInstalled, python_between
from tests.agent_rig.poison import needs_wall
from tests.agent_rig.runner import problems_of, schema_of
from tests.agent_rig.scenarios import SCENARIOS
from tests.agent_rig.table import Row, load, page
from tests.cli.test_sandbox import bubblewrap
from tests.support import rig_agent


def test_the_page_is_that_of_the_stored_results() -> None:
    rows = load(ROOT / "tests" / "agent_rig" / "results.json")
    others = [row for name, row in sorted(rows.items()) if name not in AGENTS]
    written = page([rows[name] for name in AGENTS if name in rows], others, list(SCENARIOS))
    assert (ROOT / "docs" / "agents.md").read_text() == written
    assert [row.version for name, row in rows.items() if name in AGENTS and row.not_run] == []


@pytest.mark.parametrize("name", AGENTS)
def test_each_scenario_was_passed_or_does_not_apply_for_a_reason(name: str) -> None:
    row = load(ROOT / "tests" / "agent_rig" / "results.json")[name]
    assert row.version.startswith(AGENTS[name].version) and row.left_out == AGENTS[name].cannot
    passed = {scenario for scenario, problems in row.problems.items() if not problems}
    assert passed == set(SCENARIOS) - set(row.left_out)


def test_another_version_has_its_own_row_and_a_refused_flag_is_one_note() -> None:
    refusal = (
        "errors: ['exited with code 1 (it does not accept --new from the adapter claude, which was tested with 2)']"
    )
    old = Row("claude", "1.0", "2026-11-17", True, ["thoughts"], {"tool": [refusal], "500": [refusal, "other"]})
    text = page([old._replace(version="2", problems={"tool": []})], [old], ["tool", "500"])
    now, _, others = text.partition("## Other versions")
    assert "| claude | 2 | pass | not run | 2026-11-17 |" in now and "- claude does not report thoughts." in now
    assert "| claude | 1.0 | **fail** | **fail** | 2026-11-17 |" in others
    assert [line for line in others.splitlines() if line.startswith("-")] == [
        "- claude@1.0 does not run: it refuses --new, and `errors` of the record says so."
    ]


def test_an_agent_that_needs_a_newer_python_gets_the_newest_that_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pythons = {
        "path/python3.31": "echo Python 3.31.4",
        "path/python3.33": "echo 'pyenv: python3.33: command not found' >&2; exit 127",
        "pyenv/versions/3.32.0/bin/python3": "echo Python 3.32.0",
        "pyenv/versions/2.7.18/bin/python3": "echo Python 2.7.18",
    }
    for name, script in pythons.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path / "pyenv"))
    assert python_between((3, 0)) == sys.executable
    assert python_between((3, 30)) == str(tmp_path / "pyenv/versions/3.32.0/bin/python3")
    assert python_between((3, 30), (3, 32)) == str(tmp_path / "path/python3.31")
    with pytest.raises(NotInstalled, match=r"no Python 3\.29 or newer, below 3\.31, on PATH or in pyenv"):
        python_between((3, 29), (3, 31))
    with pytest.raises(NotInstalled, match=r"no Python 3\.33 or newer on PATH or in pyenv"):
        python_between((3, 33))


@pytest.mark.parametrize("name", AGENTS)
def test_what_an_adapter_does_not_take_is_left_out_for_a_reason(name: str) -> None:
    schema = json.loads(schema_of(AGENTS[name]).read_bytes())
    fields = {"model": "model", "instructions": "instructions", "skill": "skills", "mcp": "mcp"}
    assert {scenario for scenario, field in fields.items() if field not in schema} == fields.keys() & AGENTS[
        name
    ].cannot.keys()


def test_the_page_names_the_agents_for_which_a_scenario_proves_less() -> None:
    walled = [name for name, agent in AGENTS.items() if needs_wall(schema_of(agent))]
    harmless = [name for name, agent in AGENTS.items() if agent.harmless]
    unable = [name for name, agent in AGENTS.items() if agent.without_tools and not agent.reading]
    assert (walled, harmless, unable) == (["pi", "gptme"], ["llm", "mini-swe-agent"], ["llm"]), "change INTRO, too"


SCHEMA: dict[str, Any] = {
    "version": 1,
    "name": "fake",
    "command": ["fake"],
    "sessionMode": "iterative",
    "prompt": {"flag": "--"},
    "outputEvents": [
        {"match": {"path": "$.type", "value": "text"}, "emitAs": "message", "extract": {"content": "$.text"}},
        {
            "match": {"path": "$.type", "value": "tool"},
            "emitAs": "tool_call",
            "extract": {"title": "$.name", "input": "$.input", "output": "$.output", "status": "'completed'"},
        },
    ],
    "home": {
        "keys": {".fake/config.json": ["url", "model"]},
        "reads": [".claude/CLAUDE.md", ".fake/config.json"],
        "above": ["AGENTS.md"],
        "boundary": "git",
    },
    "model": {"args": ["--model", "{model}"]},
    "instructions": {"workspace": "AGENTS.md"},
    "skills": {"workspace": ".fake/skills"},
    "mcp": {"home": ".fake/config.json"},
}
FOUND = {
    "poisoned": ["with --isolate: ../AGENTS.md, a hook ran, an MCP server started, ~/.claude/CLAUDE.md"],
    "memory": [
        "the first session left nothing, so that nothing is proven",
        "the second session saw what the first left",
        "the first session left it in N files of the user's, such as ~/.agents/AGENTS.md",
    ],
    "model": [f'the requests name ["{MODEL}", "{MODEL}"]'],
    "instructions": ["the instructions are not in a request"],
    "skill": ["the skill is not in a request"],
    "mcp": [
        'output is "I have no tool rig_lookup."',
        "the server was not started with the variable of its configuration",
        "the result of the tool is not in a request",
        "the result is not in the trajectory: []",
    ],
    "sandbox": ["a file of the user's was read", "metadata.sandbox is missing"],
}


@bubblewrap
@pytest.mark.parametrize("scenario", FOUND)
def test_a_scenario_passes_and_finds_what_is_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scenario: str
) -> None:
    monkeypatch.setattr(runner, "RUNS", tmp_path / "runs")
    program, schema = tmp_path / "bin/fake", tmp_path / "fake.json"
    program.parent.mkdir()
    program.write_text(f"#!{sys.executable}\n" + Path(rig_agent.__file__).read_text())
    program.chmod(0o755)
    schema.write_text(json.dumps(SCHEMA))
    config = {"url": "{url}", "model": MODEL}
    server = {"command": "{python}", "args": ["{server}", "{started}"]}
    agent = Agent(
        "fake",
        "local",
        str(program.parent),
        "1",
        env={"USERS": str(tmp_path / "runs/fake" / scenario / "home")},
        files={".fake/config.json": json.dumps(config)},
        poison={".fake/config.json": json.dumps({**config, "hooks": ["{hook}"], "mcpServers": {"own": server}})},
        unreported=frozenset({TOKENS}),
        schema=str(schema),
    )
    assert problems_of(agent, SCENARIOS[scenario]) == []
    if scenario == "sandbox":
        found = problems_of(agent, SCENARIOS[scenario]._replace(options=("--isolate",)))
    else:
        found = problems_of(agent._replace(env={**agent.env, "FAULTY": "1"}), SCENARIOS[scenario])
    assert [re.sub(r"\d+ files", "N files", problem) for problem in found] == FOUND[scenario]
