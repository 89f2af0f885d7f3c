"""A real Chromium, driven by playwright: pages are opened from disk, and everything they ask for is recorded."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
ARGUMENTS = [
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
]
SKIPPED = "no Chromium: install it (apt-get install chromium) to run the tests of the html page"
READY = "html[data-ready=all]"


def find_chromium() -> str | None:
    """Returns the path of a Chromium; None if there is none, or no playwright to drive it."""
    try:
        import playwright.sync_api  # noqa: F401
    except ImportError:
        return None
    asked = os.environ.get("AE_CHROMIUM")
    return asked or next((found for name in NAMES if (found := shutil.which(name))), None)


@contextlib.contextmanager
def running_browser() -> Iterator[Any]:
    """Starts a browser; skips the test where there is none, unless AE_REQUIRE_BROWSER is set, which makes it fail."""
    chromium = find_chromium()
    if chromium is None:
        if os.environ.get("AE_REQUIRE_BROWSER"):
            pytest.fail("AE_REQUIRE_BROWSER is set, and no Chromium with the package playwright is here")
        pytest.skip(SKIPPED)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=ARGUMENTS)
        yield browser
        browser.close()


class OpenPage:
    """A page that was opened from disk."""

    def __init__(self, browser: Any, path: Path, **settings: Any) -> None:
        self.requests: list[str] = []
        self.failures: list[tuple[str, str]] = []  # address and reason
        self.messages: list[str] = []
        self.changed = False  # whether the context is no longer as a new one
        self.path = path
        self.context = browser.new_context(**{"viewport": {"width": 1280, "height": 800}, **settings})
        self.page = self.context.new_page()
        self.page.set_default_timeout(60_000)  # the machine may be busy
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("requestfailed", lambda request: self.failures.append((request.url, request.failure)))
        self.page.on("console", lambda message: self.messages.append(message.text))
        self.page.on("pageerror", lambda error: self.messages.append(str(error)))

    def start_over(self, path: Path) -> None:
        """Forgets what an earlier test has seen, and shows another file."""
        self.page.goto("about:blank")
        self.path, self.changed = path, False
        for seen in (self.requests, self.failures, self.messages):
            seen.clear()

    def go(self, fragment: str = "") -> Any:
        """Opens the page at a fragment, and returns it when all of it is loaded."""
        self.page.goto("about:blank")  # another fragment alone would not load it again
        self.page.goto(self.path.as_uri() + fragment)
        self.page.wait_for_selector(READY, state="attached")
        return self.page

    def ids(self) -> list[str]:
        """Returns the ids that the table lists, as far as they are on the screen."""
        return list(self.page.locator("table.rows a.id").all_text_contents())

    def wait_for_ids(self, ids: list[str]) -> None:
        """Waits until the table lists exactly these."""
        self.page.wait_for_function(
            "ids => JSON.stringify(Array.from(document.querySelectorAll('table.rows a.id'), a => a.textContent))"
            " === JSON.stringify(ids)",
            arg=ids,
        )

    def fragment(self) -> str:
        """Returns the fragment of the address."""
        return str(self.page.evaluate("location.hash"))

    def close(self) -> None:
        """Closes it."""
        self.context.close()
