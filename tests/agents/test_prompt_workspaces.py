"""Prompts that bring their workspace: template, git and setup, from the directory of the prompts file."""

from __future__ import annotations

import json
import os
from pathlib import Path

from tests.support.tool import Record, jsonl, run

HAS_A = [{"type": "file-contains", "path": "a.txt", "value": "hi"}]


def test_a_prompt_brings_its_workspace(tmp_path: Path) -> None:
    """Templates and setup work from the prompts file's directory; changed content runs a prompt again."""
    (tmp_path / "suite" / "tpl").mkdir(parents=True)
    (tmp_path / "suite" / "tpl" / "a.txt").write_text("hi\n")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "c.txt").write_text("c\n")
    setup = 'cat "$AE_PROMPTS"/tpl/a.txt > b.txt; echo $AE_ID >> b.txt'
    made = {"type": "file-contains", "path": "b.txt", "value": "hi\nset-up"}
    prompts: list[Record] = [
        {"id": "template", "input": "x", "workspace": "tpl", "checks": HAS_A},
        {"id": "set-up", "input": "x", "workspace": {"template": "tpl", "git": True, "setup": setup}, "checks": [made]},
        {"id": "fails", "input": "x", "workspace": {"setup": "echo no such thing; exit 3"}, "checks": HAS_A},
        {"id": "slow", "input": "x", "workspace": {"setup": "sleep 60", "timeout": "100ms"}, "checks": HAS_A},
        {"id": "missing", "input": "x", "workspace": "none", "checks": HAS_A},
        {"id": "typo", "input": "x", "workspace": {"tmplate": "tpl"}, "checks": HAS_A},
        {"id": "when", "input": "x", "workspace": {"setup": "true", "timeout": "soon"}, "checks": HAS_A},
        {"id": "default", "input": "x", "checks": [{"type": "file-exists", "path": "c.txt"}]},
    ]
    (tmp_path / "suite" / "p.jsonl").write_text(jsonl(*prompts))
    options = ("--simple", "echo {}", "--workspace-dir", "ws", "--workspace-template", "other", "-o", "r.jsonl")
    done = run("ae-capture", "suite/p.jsonl", *options, cwd=tmp_path).expect(1)
    results = {record["id"]: record for record in map(json.loads, (tmp_path / "r.jsonl").read_text().splitlines())}
    passing = {ident: record["score"]["pass"] for ident, record in results.items()}
    assert passing == {"template": True, "set-up": True, "fails": False, "slow": False, "default": True}
    assert results["fails"]["errors"] == ["workspace: the setup command exited with code 3: no such thing"]
    assert results["slow"]["errors"] == ["workspace: the setup command took too long"]
    assert (tmp_path / "ws" / "prompt-set-up" / ".git").is_dir()
    assert not (tmp_path / "ws" / "prompt-template" / ".git").exists()
    assert f"p.jsonl:5: workspace: {tmp_path}/suite/none: no such directory or git repository" in done.stderr
    assert "p.jsonl:6: workspace: unknown field 'tmplate'; did you mean template?" in done.stderr
    assert "p.jsonl:7: workspace: timeout: 'soon' is not a time" in done.stderr
    (tmp_path / "suite" / "tpl" / "a.txt").write_text("hi\nthere\n")
    again = run("ae-capture", "suite/p.jsonl", *options, "--resume", cwd=tmp_path).expect(1)
    assert "3 kept, 2 of them failed (--retry-failed runs them again), 2 changed and run again" in again.stderr


def test_without_workspaces_such_a_prompt_is_refused(tmp_path: Path) -> None:
    """Prompts on stdin count from the current directory."""
    (tmp_path / "tpl").mkdir()
    prompt = jsonl({"id": "a", "input": "ls", "workspace": "tpl"})
    run("ae-run", "--shell", '"$PROMPT"', stdin=prompt, cwd=tmp_path).expect(1).says("needs --workspace-dir DIR")
    done = run("ae-run", "--shell", "pwd", "--workspace-dir", "ws", stdin=prompt, cwd=tmp_path).expect(0)
    assert done.records[0]["workspace"]["base"] == os.path.realpath(tmp_path)


def test_hidden_tests_count_from_the_prompts_file(tmp_path: Path) -> None:
    (tmp_path / "suite" / "hidden").mkdir(parents=True)
    (tmp_path / "suite" / "hidden" / "test.sh").write_text("test -e made.txt\n")
    check = {"type": "command", "run": "sh test.sh", "tests": "hidden"}
    group = {"type": "group", "checks": [check]}
    prompts: list[Record] = [
        {"id": one, "input": one, "workspace": {}, "checks": [group]} for one in ("made.txt", "other.txt")
    ]
    (tmp_path / "suite" / "p.jsonl").write_text(jsonl(*prompts))
    agent = ("--shell", 'touch "$PROMPT"', "--workspace-dir", "ws")
    done = run("ae-capture", "suite/p.jsonl", *agent, cwd=tmp_path).expect(0)
    assert [record["score"]["pass"] for record in done.records] == [True, False]
