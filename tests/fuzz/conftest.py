"""The server that runs the tools, one for all tests of this folder in a worker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.fuzz.server import ToolServer


@pytest.fixture(scope="session")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ToolServer]:
    """Runs tools in a directory of their own."""
    server = ToolServer(tmp_path_factory.mktemp("fuzz"))
    yield server
    server.close()
