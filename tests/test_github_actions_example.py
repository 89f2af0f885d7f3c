"""examples/github-actions: the workflow is valid, and its steps work one after another."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agenteval.reports.forms import ReportForms
from tests.support.tool import ROOT, read, run

FOLDER = ROOT / "examples" / "github-actions"
WORKFLOW = FOLDER / "evaluate.yml"


def workflow() -> Any:
    yaml = pytest.importorskip("ruamel.yaml", reason="needs the extra references: ruamel.yaml reads the workflow")
    return yaml.YAML(typ="safe").load(WORKFLOW)


def test_the_workflow_follows_githubs_schema() -> None:
    pytest.importorskip("check_jsonschema", reason="needs the extra references: check-jsonschema")
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.github-workflows", str(WORKFLOW)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_its_steps_run_one_after_another(tmp_path: Path) -> None:
    found = workflow()
    here = shutil.copytree(FOLDER, tmp_path / found["defaults"]["run"]["working-directory"])
    env = {**found["env"], "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md")}
    steps = [step for step in found["jobs"]["evaluate"]["steps"] if "run" in step]
    assert [step["name"] for step in steps][0] == "Install" and "pip install" in steps[0]["run"]
    shown = {}
    for step in steps[1:]:
        lines = step["run"]
        if "junit" not in ReportForms("results").names():
            lines = "\n".join(line for line in lines.split("\n") if "junit" not in line)
        shown[step["name"]] = run("/bin/bash", "-e", "-o", "pipefail", "-c", lines, cwd=here, env=env).expect(0)
    assert [record["score"]["pass"] for record in read(here / "build" / "graded.jsonl")] == [True, True, False]
    assert "== largest" in shown["Show what did not pass"].stdout
    assert shown["Gate"].stdout.startswith("pass  passRate 0.667 ≥ 0.6 (2 of 3 passed")
    assert "gate passed" in (tmp_path / "summary.md").read_text()
    uploads = found["jobs"]["evaluate"]["steps"][-1]["with"]["path"].split()
    made = [path for path in uploads if (tmp_path / path).exists()]
    assert made == [path for path in uploads if "junit" not in path or "junit" in ReportForms("results").names()]


def test_its_gate_stops_a_bad_agent(tmp_path: Path) -> None:
    gate = next(step for step in workflow()["jobs"]["evaluate"]["steps"] if step.get("name") == "Gate")
    (tmp_path / "build").mkdir()
    record = {"id": "a", "output": "x", "score": {"pass": False, "score": 0}, "timing": {"start": 0, "end": 5}}
    (tmp_path / "build" / "graded.jsonl").write_text(json.dumps(record))
    env = {"GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md")}
    done = run("/bin/bash", "-e", "-c", gate["run"], cwd=tmp_path, env=env).expect(1)
    assert "FAIL  passRate 0 ≥ 0.6 " in done.stdout and "gate not passed" in (tmp_path / "summary.md").read_text()
