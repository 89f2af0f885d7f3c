"""The pages under docs/ are what the code says today."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from agent_rig.catalogue import AGENTS
from agent_rig.scenarios import SCENARIOS
from agent_rig.table import INTRO
from tests.support.tool import ROOT, run


def test_the_pages_are_up_to_date() -> None:
    done = subprocess.run([sys.executable, ROOT / "docs" / "build.py", "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_page_of_tested_agents_explains_the_scenarios_of_today() -> None:
    """docs/agents.md holds measured results; its introduction and its columns come from the code."""
    page = (ROOT / "docs" / "agents.md").read_text()
    assert page.startswith(INTRO), "change docs/agents.md together with INTRO, or run make test-agents"
    assert f"| agent | version | {' | '.join(SCENARIOS)} | run on |" in page
    assert set(re.findall(r"^\| (\S+) \| \d+\.", page, re.MULTILINE)) == set(AGENTS)


def test_an_adapter_in_ten_minutes(tmp_path: Path) -> None:
    """Every shell block of docs/adapters.md, typed one after the other in an empty directory."""
    page = (ROOT / "docs" / "adapters.md").read_text()
    fenced = re.findall(r"^```(\w*)\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    blocks = [text for language, text in fenced if language == "sh"]
    shown = [text for language, text in fenced if language == ""]
    assert (len(blocks), len(shown)) == (6, 3)
    if shutil.which("jq") is None:
        pytest.skip("jq is not on PATH")
    made, seen, started, ruled, resumed, kept = [
        run("/bin/sh", "-e", "-c", block, cwd=tmp_path).expect(0) for block in blocks
    ]
    assert all(done.stderr == "" for done in (made, seen, started, ruled, kept))
    assert made.stdout == "" and seen.stdout.count("\n") == 7
    first, last = shown[0].split("     …\n")
    assert started.stdout.startswith(first) and started.stdout.endswith(last), started
    assert ruled.stdout == shown[1]
    assert resumed.stderr.replace(str(tmp_path), "/tmp/demo") + resumed.stdout == shown[2], resumed
    assert kept.stdout.startswith("same\n        1 of 7 lines matched no rule") and "1 passed" in kept.stdout, kept
