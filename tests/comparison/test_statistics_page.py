"""docs/statistics.md: every example of the page is recomputed."""

from __future__ import annotations

import re
from typing import Any

import pytest

from agenteval.statistics import distributions, intervals, paired, samples
from agenteval.wire.differences import ConfidenceInterval
from tests.support.tool import ROOT

PAGE = ROOT / "docs" / "statistics.md"
MODULES = (distributions, intervals, paired, samples)
EXAMPLES = re.findall(r"^>>> (.*)\n(.*)$", PAGE.read_text(), re.MULTILINE)


def shown(value: Any) -> str:
    """The value as the page writes it."""
    if isinstance(value, ConfidenceInterval):
        return f"{value.low:.3f} to {value.high:.3f}"
    if isinstance(value, float):
        return f"{value:.3f}"
    return ", ".join(map(shown, value)) if isinstance(value, list) else str(value)


@pytest.mark.parametrize(("expression", "expected"), EXAMPLES)
def test_the_examples_of_the_page(expression: str, expected: str) -> None:
    names = {name: value for module in MODULES for name, value in vars(module).items()}
    assert shown(eval(expression, names)) == expected


def test_the_page_has_examples_and_measurements() -> None:
    assert len(EXAMPLES) >= 15
    assert "| pass rate, difference |" in PAGE.read_text(), "make coverage writes the table"
