"""Golden files: sh runs golden/<tool>/<case>.cmd with <case>.in on stdin, and it prints exactly <case>.out.

The command runs in a new directory with the suite on PATH and the folder of the case in $CASE. To accept the current
output of the tools: AE_GOLDEN=write pytest tests/test_golden.py; then read the diff.
"""

from __future__ import annotations

import difflib
import os
from pathlib import Path

import pytest

from tests.support.tool import TOOLS, run

GOLDEN = Path(__file__).parent / "golden"
CASES = sorted(GOLDEN.glob("ae-*/*.cmd"))


@pytest.mark.parametrize("command", CASES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_golden(command: Path, tmp_path: Path) -> None:
    expected = command.with_suffix(".out")
    done = run(
        "/bin/sh",
        "-c",
        command.read_text(),
        stdin=command.with_suffix(".in"),
        cwd=tmp_path,
        env={"CASE": str(command.parent)},
    ).expect(0)
    if os.environ.get("AE_GOLDEN") == "write":
        expected.write_bytes(done.out)
    difference = "".join(
        difflib.unified_diff(
            expected.read_bytes().decode().splitlines(keepends=True),
            done.out.decode().splitlines(keepends=True),
            f"{command.parent.name}/{expected.name}",
            "what it prints now",
        )
    )
    assert done.out == expected.read_bytes(), f"{difference}{done}"


def test_every_case_is_whole() -> None:
    files = {path for folder in GOLDEN.glob("ae-*") for path in folder.iterdir()}
    stems = {path.with_suffix("") for path in CASES}
    assert {path.with_suffix("") for path in files if path.suffix in (".cmd", ".in", ".out")} == stems
    assert all(stem.with_suffix(suffix).exists() for stem in stems for suffix in (".cmd", ".in", ".out"))
    assert {stem.parent.name for stem in stems} <= set(TOOLS)
