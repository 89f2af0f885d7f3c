"""One browser for all tests of a worker."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.browser import OpenPage, running_browser

Open = Callable[..., OpenPage]


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    with running_browser() as started:
        yield started


@pytest.fixture
def opened(browser: Any) -> Iterator[Open]:
    """Opens pages, and closes them after the test."""
    pages: list[OpenPage] = []

    def open_page(path: Path, **settings: Any) -> OpenPage:
        pages.append(OpenPage(browser, path, **settings))
        return pages[-1]

    yield open_page
    for page in pages:
        page.close()
