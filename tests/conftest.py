"""Settings for all tests."""

from __future__ import annotations

import os

import pytest


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a developer's shell exports must not reach the tools."""
    for name in [name for name in os.environ if name.startswith(("COMPARE_", "_AE_"))]:
        monkeypatch.delenv(name)


def pytest_xdist_auto_num_workers() -> int:
    """One more than there are processors: a test waits for its processes most of the time."""
    return (os.cpu_count() or 1) + 1
