"""Right if the answer ends with what was asked for; half right if it only mentions it."""

from __future__ import annotations

from typing import Any


def grade(record: dict[str, Any]) -> dict[str, Any]:
    answer, wanted = record["output"].strip().rstrip("."), record["hint"]
    if answer == wanted or answer.endswith(f" {wanted}"):
        return {"pass": True, "score": 1.0, "reasoning": f"ends with {wanted!r}"}
    mentioned = wanted.casefold() in answer.casefold()
    why = f"{'mentions, but does not end' if mentioned else 'does not end'} with {wanted!r}"
    return {"pass": False, "score": 0.5 if mentioned else 0.0, "reasoning": why}
