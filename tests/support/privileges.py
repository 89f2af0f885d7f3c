"""Runs commands subject to file modes even if the tests run as root, and removes very deep trees.

    run(*unprivileged(), BIN / "ae-run", …)
    with removed(tmp_path / "ws"): …

A test is skipped if root cannot drop its capabilities.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest


def unprivileged() -> list[str]:
    """Returns the words to put before a command; none for an ordinary user."""
    if os.geteuid() != 0:
        return []
    setpriv = shutil.which("setpriv")
    if setpriv is None:
        pytest.skip("root, and no setpriv to run without privileges")
    return [setpriv, "--bounding-set=-all", "--inh-caps=-all"]


@contextlib.contextmanager
def removed(path: Path) -> Iterator[Path]:
    """Removes the path afterwards: pytest cannot remove a deep tree that a failed test leaves."""
    try:
        yield path
    finally:
        subprocess.run(["rm", "-rf", path], check=True)
