"""When to ask again: what a server says, and what we do where it says nothing."""

from __future__ import annotations

import time
from email.utils import formatdate

import pytest

from agenteval.models.retry import backoff, on_this_machine, retry_after


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("7", 7.0),
        ("0", 0.0),
        ("1.5", 1.5),
        (" 3 ", 3.0),
        ("-1", None),
        ("nan", None),
        ("inf", None),
        ("soon", None),
        ("", None),
        (formatdate(0, usegmt=True), 0.0),  # long past
        ("Thu, 99 Foo 2026 00:00:00 GMT", None),
    ],
)
def test_retry_after(value: str, seconds: float | None) -> None:
    assert retry_after({"Retry-After": value}) == seconds


def test_retry_after_a_date() -> None:
    wait = retry_after({"Retry-After": formatdate(time.time() + 10_000, usegmt=True)})
    assert wait is not None and 9_000 < wait <= 10_000
    assert retry_after({}) is None


def test_each_pause_is_longer_up_to_a_limit() -> None:
    pauses = [backoff(tries) for tries in range(1, 9)]
    assert all(0.75 * most <= pause <= most for pause, most in zip(pauses, [0.5, 1, 2, 4, 8, 8, 8, 8], strict=True))


@pytest.mark.parametrize(
    ("url", "here"),
    [
        ("http://127.0.0.1:8/x", True),
        ("http://127.1.2.3", True),
        ("http://localhost:1", True),
        ("http://[::1]:80/", True),
        ("https://en.wikipedia.org/w/api.php", False),
        ("http://localhost.example.org", False),
        ("http://127.evil.example/v1", False),
        ("http://127.0.0.1.evil.example/v1", False),
        ("nothing", False),
    ],
)
def test_on_this_machine(url: str, here: bool) -> None:
    assert on_this_machine(url) is here
