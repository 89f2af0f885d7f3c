"""The pages under docs/ are what the code says today."""

from __future__ import annotations

import subprocess
import sys

from tool import ROOT


def test_the_pages_are_up_to_date() -> None:
    done = subprocess.run([sys.executable, ROOT / "docs" / "build.py", "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
