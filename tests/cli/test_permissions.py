"""On a terminal, tools that run agents say once that these have all permissions, unless something protects."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agenteval.agents.kinds import AcpAgent, ShellAgent, TemplateAgent, in_container
from tests.support.tool import Done, on_terminal, run, script, write

NOTICE = "agents work in this directory"


def shown(tmp_path: Path, tool: str, *args: str) -> Done:
    prompts = write(tmp_path / "prompts.jsonl", *({"id": str(n), "input": "x"} for n in range(3)))
    there = [] if "--resume" in args else ["--overwrite"]
    return on_terminal(tool, prompts, "-o", "out.jsonl", *there, *args, cwd=tmp_path)


@pytest.mark.parametrize("tool", ["ae-run", "ae-capture", "ae-trials"])
def test_danger_is_said_once_on_a_terminal(tool: str, tmp_path: Path) -> None:
    agent = ("--simple", "echo {}")
    (line,) = [line for line in shown(tmp_path, tool, *agent).expect(0).stdout.splitlines() if NOTICE in line]
    assert line.startswith(f"{tool}: ") and f"({tmp_path}) with your permissions" in line and "--workspace-dir" in line
    assert NOTICE not in shown(tmp_path, tool, *agent, "--workspace-dir", "ws").expect(0).stdout
    assert shown(tmp_path, tool, *agent, "--no-progress").expect(0).stdout == ""
    done = run(tool, "prompts.jsonl", "-o", "new.jsonl", *agent, cwd=tmp_path).expect(0, stderr="")
    assert done.stdout == ""


def test_it_names_the_directory_that_agents_work_in(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    assert f"({tmp_path}/there)" in shown(tmp_path, "ae-run", "--simple", "echo {}", "-c", "there").expect(0).stdout


def test_nothing_is_said_where_nothing_is_run(tmp_path: Path) -> None:
    shown(tmp_path, "ae-run", "--simple", "echo {}").expect(0)
    again = shown(tmp_path, "ae-run", "--simple", "echo {}", "--resume").expect(0).stdout
    assert "nothing to do" in again and NOTICE not in again


def test_a_container_is_a_protection(tmp_path: Path) -> None:
    """Of a schema, of --simple and of --shell; a prompt or an argument is no container."""
    script(tmp_path / "ae-sandbox", 'shift; echo "$*"')
    assert NOTICE not in shown(tmp_path, "ae-run", "--simple", "./ae-sandbox my-agent {}").expect(0).stdout
    schema = {
        "version": 1,
        "name": "mine",
        "command": ["./ae-sandbox", "agent"],
        "sessionMode": "stream",
        "prompt": {"flag": "-p"},
        "outputEvents": [],
    }
    (tmp_path / "mine.json").write_text(json.dumps(schema))
    assert NOTICE not in shown(tmp_path, "ae-run", "-s", "mine.json").expect(0).stdout
    assert NOTICE in shown(tmp_path, "ae-run", "--simple", "echo docker {}").expect(0).stdout


@pytest.mark.parametrize(
    "line, contained",
    [
        ('./ae-sandbox my-agent "$PROMPT"', True),
        ('cd x && /usr/bin/docker run --rm image "$PROMPT"', True),
        ('podman run image "$PROMPT" | tail -1', True),
        ('my-agent "$PROMPT"', False),
        ('my-docker-agent "$PROMPT"', False),
    ],
)
def test_containers_in_a_shell_line(line: str, contained: bool) -> None:
    assert in_container(ShellAgent(line)) is contained


def test_containers_in_a_command() -> None:
    env = TemplateAgent("env podman {}")
    assert not in_container(env), "only the first word is a program for sure"
    assert not in_container(AcpAgent(["env", "docker"]))
