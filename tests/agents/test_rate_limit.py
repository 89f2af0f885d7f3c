"""The rate limiter: starts are evenly spaced, and held back while a provider is overloaded."""

from __future__ import annotations

import pytest

from agenteval.agents.session import RateLimiter, parse_rate

RATES = {"2/s": 2.0, "30/min": 0.5, "90/m": 1.5, "3600/h": 1.0, "0.5/s": 0.5, " 1/S ": 1.0}


@pytest.mark.parametrize("text", RATES)
def test_rates(text: str) -> None:
    assert parse_rate(text) == RATES[text]


@pytest.mark.parametrize("text", ["", "5", "5/", "/s", "0/s", "-1/s", "5/day", "a/s", "1e9999/s", "5 /s"])
def test_texts_that_are_no_rate(text: str) -> None:
    with pytest.raises(ValueError, match="not a rate"):
        parse_rate(text)


def test_starts_are_evenly_spread_and_never_caught_up() -> None:
    now = [100.0]
    pacer = RateLimiter(2.0, lambda: now[0])
    assert [pacer.wait() for _ in range(3)] == [0.0, 0.5, 1.0]
    now[0] = 110.0
    assert [pacer.wait() for _ in range(2)] == [0.0, 0.5], "what was not used is gone"


def test_a_hold_voids_the_slots_assigned_before() -> None:
    now = [0.0]
    pacer = RateLimiter(2.0, lambda: now[0])
    assert [pacer.wait() for _ in range(3)] == [0.0, 0.5, 1.0]
    pacer.hold(5.0)
    assert pacer.holds == 1
    assert [pacer.wait() for _ in range(2)] == [5.0, 5.5], "instead of the slots assigned before"


def test_a_hold_is_for_all() -> None:
    now = [0.0]
    pacer = RateLimiter(None, lambda: now[0])
    assert pacer.wait() == 0.0
    pacer.hold(5.0)
    pacer.hold(2.0)
    assert pacer.wait() == 5.0
    now[0] = 6.0
    assert pacer.wait() == 0.0
