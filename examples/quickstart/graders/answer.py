"""Is the answer right? A Python file with a `grade` function is the quickest grader to write and to run.

A numeric hint is compared with the last number in the output: exactly, or within the prompt's
`tolerance` (a fraction: 0.01 is 1%). Any other hint must occur in the output as a word.
"""

import re
from typing import Any

NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")


def grade(record: dict[str, Any]) -> dict[str, Any]:
    """Returns the grader result: `pass`, `score` from 0 to 1, and `reasoning` for the reader of the report."""
    output, hint = record.get("output") or "", record.get("hint") or ""
    if record.get("errors"):
        return verdict(False, f"the agent failed: {record['errors'][0]}")
    if NUMBER.fullmatch(hint):
        return grade_number(output, value(hint), record.get("tolerance") or 0)
    found = re.search(rf"\b{re.escape(hint)}\b", output, re.IGNORECASE) is not None
    return verdict(found, f"says {hint}" if found else f"does not say {hint}")


def grade_number(output: str, expected: float, tolerance: float) -> dict[str, Any]:
    numbers = NUMBER.findall(output)
    if not numbers:
        return verdict(False, f"no number, expected {expected:.12g}")
    got = value(numbers[-1])
    near = abs(got - expected) <= tolerance * abs(expected)
    return verdict(near, f"got {got:.12g}, expected {expected:.12g}")


def value(digits: str) -> float:
    return float(digits.replace(",", ""))


def verdict(passed: bool, reasoning: str) -> dict[str, Any]:
    return {"pass": passed, "score": 1.0 if passed else 0.0, "reasoning": reasoning}
