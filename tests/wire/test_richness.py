"""How much a trajectory tells: what its record notes, else what its steps are."""

from __future__ import annotations

import pytest

from agenteval.adapters.trajectory import richness_of


@pytest.mark.parametrize(
    ("types", "found"),
    [
        ([], "minimal"),
        (["message", "message"], "messages-only"),
        (["message", "thought"], "full"),
        (["tool_call"], "full"),
        (["plan"], "full"),
        ([None], "messages-only"),
        (["of another harness"], "messages-only"),
    ],
)
def test_what_the_steps_show(types: list[str | None], found: str) -> None:
    assert richness_of(None, types) == found


@pytest.mark.parametrize(
    ("noted", "found"),
    [
        ("minimal", "minimal"),
        ("messages-only", "messages-only"),
        ("full", "full"),
        ("rich", "full"),
        (["full"], "full"),
    ],
)
def test_what_the_record_notes_counts_first(noted: object, found: str) -> None:
    assert richness_of(noted, ["thought"]) == found
