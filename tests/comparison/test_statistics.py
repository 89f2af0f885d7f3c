"""Statistics against hand-checked and published values."""

from __future__ import annotations

import math
import subprocess
import sys

import pytest

from agenteval.statistics import samples as stats
from agenteval.statistics.intervals import wilson
from agenteval.statistics.paired import sign_test


@pytest.mark.parametrize(
    ("values", "expected"),
    [([], None), ([3.0], 3.0), ([0.1] * 10, 0.1), ([1e16, 1.0, -1e16], 1 / 3)],
)
def test_mean(values: list[float], expected: float | None) -> None:
    assert stats.mean(values) == expected


@pytest.mark.parametrize(
    ("n", "p", "expected"),
    [
        *[(0, 0.5, None), (1, 0.99, 1), (2, 0.5, 2), (10, 0.5, 6), (10, 0.9, 10), (10, 0.99, 10), (100, 0.9, 91)],
        *[(4, 1, 4), (100, 0.99, 100), (101, 0.5, 51), (1000, 0.9, 901)],
    ],
)
def test_percentile_is_the_element_at_floor_np(n: int, p: float, expected: int | None) -> None:
    assert stats.percentile(range(1, n + 1), p) == expected


def test_variance() -> None:
    assert stats.variance([2, 4, 4, 4, 5, 5, 7, 9]) == pytest.approx(32 / 7)


def ways_of_at_most(most: int, count: int) -> int:
    """The sum of math.comb(count, k) up to `most`, each from the one before."""
    total = ways = 1
    for k in range(most):
        ways = ways * (count - k) // (k + 1)
        total += ways
    return total


@pytest.mark.parametrize(
    ("b", "c", "expected"),
    [
        (0, 0, 1.0),
        (7, 7, 1.0),
        (0, 5, 2 / 2**5),
        (6, 0, 2 / 2**6),
        (1, 9, 2 * 11 / 2**10),
        (2, 10, 2 * (1 + 12 + 66) / 2**12),
        (4, 5, 1.0),
        (10, 20, 0.09873714670538902),
        (59, 121, 2 * sum(math.comb(180, k) for k in range(60)) / 2**180),
        (4340, 4539, 2 * ways_of_at_most(4340, 8879) / 2**8879),
    ],
)
def test_sign_test_is_the_exact_binomial(b: int, c: int, expected: float) -> None:
    assert sign_test(b, c) == pytest.approx(expected, rel=1e-9)


def test_sign_test_of_a_million() -> None:
    assert sign_test(0, 1_000_000) == 0.0
    z = (1000 - 1) / math.sqrt(801_000)  # with the correction for continuity the normal is close enough here
    assert sign_test(400_000, 401_000) == pytest.approx(math.erfc(z / math.sqrt(2)), rel=1e-4)


@pytest.mark.parametrize(
    ("passed", "count", "low", "high"),
    [  # Newcombe 1998, Table I, method 3, and the closed forms at 0 and n
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718),
        (1, 1, 0.2065, 1.0),
        (20, 20, 0.8389, 1.0),
    ],
)
def test_wilson(passed: int, count: int, low: float, high: float) -> None:
    assert wilson(passed / count, count) == pytest.approx((low, high), abs=5e-5)


def test_numpy_is_imported_only_to_resample() -> None:
    code = (
        "import sys, agenteval.cli.tools.compare; from agenteval.statistics.paired import compare_paired; "
        "compare_paired([1.0, 0.5]); "
        "sys.exit('numpy' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
