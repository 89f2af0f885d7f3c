"""The server that runs the tools, one for all tests of this folder in a worker; how many examples were tried."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.fuzz.checks import LONG, LONGEST, TRIED
from tests.fuzz.server import ToolServer


@pytest.fixture(scope="session")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ToolServer]:
    """Runs tools in a directory of their own."""
    server = ToolServer(tmp_path_factory.mktemp("fuzz"))
    yield server
    server.close()


@pytest.fixture(autouse=True)
def _count_examples(request: pytest.FixtureRequest) -> Iterator[None]:
    """Notes in the report of a test how many examples it has tried."""
    TRIED.examples = TRIED.left_out = 0
    yield
    request.node.user_properties += [("examples", TRIED.examples), ("left out", TRIED.left_out)]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Reports how many examples were tried, and of which tests some were left out for lack of time."""
    ended = [report for reports in terminalreporter.stats.values() for report in reports]
    ended = [report for report in ended if isinstance(report, pytest.TestReport) and report.when == "teardown"]
    tried = [(report.nodeid, dict(report.user_properties)) for report in ended]
    if LONG:
        count = sum(int(str(found.get("examples", 0))) for _, found in tried)
        terminalreporter.write_line(f"{count} examples in {len(tried)} tests")
        for name, found in tried:
            if found.get("left out"):
                terminalreporter.write_line(f"{name}: only {found['examples']} examples in {LONGEST:.0f} s")
