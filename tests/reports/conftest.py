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


@pytest.fixture(scope="session")
def pages(browser: Any) -> Iterator[dict[str, OpenPage]]:
    """The open pages by their settings, which tests use one after another: a new one costs half a second of CPU."""
    kept: dict[str, OpenPage] = {}
    yield kept
    for page in kept.values():
        page.close()


@pytest.fixture
def opened(browser: Any, pages: dict[str, OpenPage]) -> Iterator[Open]:
    """Shows files, each as if in a new page; one that has had a listener or a permission of a test is not kept."""
    used: list[str] = []

    def open_page(path: Path, **settings: Any) -> OpenPage:
        key = repr(sorted(settings.items()))
        assert key not in used, "a test that needs two pages at a time gives them other settings"
        used.append(key)
        if key not in pages:
            pages[key] = OpenPage(browser, path, **settings)
        pages[key].start_over(path)
        return pages[key]

    yield open_page
    for key in used:
        if pages[key].changed:
            pages.pop(key).close()
