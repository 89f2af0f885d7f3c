"""The pages under docs/ are what the code says today."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tool import ROOT, run


def test_the_pages_are_up_to_date() -> None:
    done = subprocess.run([sys.executable, ROOT / "docs" / "build.py", "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_an_adapter_in_ten_minutes(tmp_path: Path) -> None:
    """Every shell block of docs/adapters.md, typed one after the other in an empty directory."""
    page = (ROOT / "docs" / "adapters.md").read_text()
    blocks = re.findall(r"```sh\n(.*?)```", page, re.DOTALL)
    assert len(blocks) == 5
    if shutil.which("jq") is None:
        pytest.skip("jq is not on PATH")
    first, *rest = [run("/bin/sh", "-e", "-c", block, cwd=tmp_path).expect(0, stderr="") for block in blocks]
    assert first.stdout == ""
    shown = page.partition("is read:\n\n```\n")[2].partition("```")[0].replace("     …\n", "").splitlines()
    assert [line for line in shown if line not in rest[1].stdout.splitlines()] == [], rest[1]
    lines = rest[2].stdout.splitlines()
    assert "1 of 7 lines matched no rule: no JSON object (1)" in rest[2].stdout
    assert lines[-6:] == [
        '"The answer is 42."',
        "120",
        '"tiny"',
        '["thought",null,null,null]',
        '["tool_call","shell","completed","42"]',
        '["message",null,null,null]',
    ]
    assert rest[3].stdout.startswith("same\n") and "1 passed" in rest[3].stdout, rest[3]
