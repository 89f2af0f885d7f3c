"""The page that the rig for real agents writes."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.agent_rig.catalogue import AGENTS
from tests.agent_rig.install import ROOT, NotInstalled, python_between
from tests.agent_rig.scenarios import SCENARIOS
from tests.agent_rig.table import Row, load, page


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
    assert {scenario for scenario, problems in row.problems.items() if not problems} == set(SCENARIOS) - set(
        row.left_out
    )


def test_another_version_has_its_own_row_and_a_refused_flag_is_one_note() -> None:
    refusal = "errors: ['exited with code 1 (it refuses --new of the adapter claude, which was proven on 2)']"
    old = Row("claude", "1.0", "2026-11-17", True, ["thoughts"], {"tool": [refusal], "500": [refusal, "other"]})
    text = page([old._replace(version="2", problems={"tool": []})], [old], ["tool", "500"])
    now, _, others = text.partition("## Other versions")
    assert "| claude | 2 | pass | - | 2026-11-17 |" in now and "- claude does not report thoughts." in now
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
