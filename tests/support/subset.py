"""Compares JSON with the fields that are expected in it."""

from __future__ import annotations

from typing import Any

import pytest


def assert_contains(found: Any, expected: Any) -> None:
    """Asserts that every field of `expected` is in `found` with that value; more fields are allowed."""
    if isinstance(expected, dict):
        for key, value in expected.items():
            assert_contains(found[key], value)
    elif isinstance(expected, list):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            assert_contains(one, other)
    else:
        assert found == (pytest.approx(expected, rel=1e-12) if isinstance(expected, float) else expected)
