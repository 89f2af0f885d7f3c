"""Settings for all tests."""

from __future__ import annotations

import atexit
import gc
import os
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from agenteval.streams.patterns import Pattern
from tests.support.browser import SKIPPED
from tests.support.ray_nodes import two_nodes as two_nodes
from tests.support.signals import heed_signals
from tests.support.watching import marked

settings.register_profile("suite", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("suite")  # no time limits: the machine may be busy

heed_signals()


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Removes variables that a developer's shell may export and that the tools read."""
    for name in [name for name in os.environ if name.startswith(("COMPARE_", "_AE_"))]:
        monkeypatch.delenv(name)


@pytest.fixture
def mark() -> Iterator[str]:
    """A number to `sleep` for that marks a test's processes; any left over are killed after the test."""
    with marked() as number:
        yield number


@pytest.fixture
def short_searches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Gives each search of a regular expression in this process 0.2 s: a slow one takes all the time it is given."""
    search = Pattern._within

    def search_briefly(pattern: Pattern, method: Any, text: str, at: int, seconds: float) -> Any:
        return search(pattern, method, text, at, min(0.2, seconds))

    monkeypatch.setattr(Pattern, "_within", search_briefly)


def pytest_xdist_auto_num_workers() -> int:
    """Returns two workers more than there are processors: tests mostly wait for processes."""
    return (os.cpu_count() or 1) + 2


def pytest_configure(config: pytest.Config) -> None:
    """Lets each worker collect from another file on: what one has compiled, the others find in __pycache__."""
    worker = getattr(config, "workerinput", None)
    if worker and config.args == config.getini("testpaths"):
        files = sorted(str(path) for folder in config.args for path in Path(folder).rglob("test_*.py"))
        first = len(files) * int(worker["workerid"].removeprefix("gw")) // worker["workercount"]
        config.args = files[first:] + files[:first]


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collects without the garbage collector, which would search all tests collected so far, again and again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(50_000)  # as the tools do: a tenth of the time of tests within the process went into it
        gc.enable()


def pytest_sessionfinish() -> None:
    """Searches for garbage once, which reports what was not closed; pytest would search the same five times more."""
    gc.collect()
    gc.freeze()
    atexit.register(gc.unfreeze)  # duckdb complains about its own objects that are left when Python ends


ON_REQUEST = {
    "cluster": "starts a Ray or Slurm cluster: make test-cluster",
    "network": "needs the internet or a key: pytest -m network",
}


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Gives all workers the same order. Skips tests with a marker of ON_REQUEST, unless `pytest -m` selects them."""
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: str(item.path))
    for name, reason in ON_REQUEST.items():
        if name not in config.option.markexpr:
            for item in items:
                if item.get_closest_marker(name):
                    item.add_marker(pytest.mark.skip(reason=reason))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Reports in one line that the tests of the page did not run, where there is no browser."""
    skipped = [report for report in terminalreporter.stats.get("skipped", []) if SKIPPED in str(report.longrepr)]
    if skipped:
        terminalreporter.write_line(f"{len(skipped)} tests skipped: {SKIPPED}")
