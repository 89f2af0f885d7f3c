"""Run something as one whom file modes concern, also where the tests run as root; and leave no tree that is too deep.

    run(*unprivileged(), BIN / "ae-run", …)
    with removed(tmp_path / "ws"): …

A test is skipped where root cannot give up what makes it root.
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
    """What to put before a command; nothing for an ordinary user."""
    if os.geteuid() != 0:
        return []
    setpriv = shutil.which("setpriv")
    if setpriv is None:
        pytest.skip("root, and no setpriv to run without privileges")
    return [setpriv, "--bounding-set=-all", "--inh-caps=-all"]


@contextlib.contextmanager
def removed(path: Path) -> Iterator[Path]:
    """The path, which is gone afterwards: pytest cannot remove a deep tree that a failed test leaves."""
    try:
        yield path
    finally:
        subprocess.run(["rm", "-rf", path], check=True)
