"""Names of workspaces: safe, inside their base, never the same for two ids."""

from __future__ import annotations

import os
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agenteval.workspace import workspace_name

SAFE = re.compile(r"prompt-[A-Za-z0-9._-]+\Z")


@pytest.mark.parametrize("name", ["a", "fix-bug_2", "v1.0", "A", "0", "x" * 100, "-", ".", ".."])
def test_a_safe_id_is_its_own_name(name: str) -> None:
    assert workspace_name(name) == f"prompt-{name}"
    assert workspace_name(name, 3) == f"prompt-{name}-trial-3"


@pytest.mark.parametrize(
    "name", ["../../x", "a/b", "/etc/passwd", "é", "a b", "x" * 300, "a\0b", "a\nb", "日本", "\\", "*"]
)
def test_an_unsafe_id_keeps_a_digest(name: str) -> None:
    made = workspace_name(name)
    assert SAFE.match(made), made
    assert len(os.fsencode(made)) < 200
    assert made != f"prompt-{name}"
    assert workspace_name(name) == made, "not stable"


@given(st.lists(st.text(alphabet=st.characters(codec="utf-8"), min_size=1), min_size=2, max_size=20, unique=True))
@settings(max_examples=200, deadline=None)
def test_two_ids_never_share_a_workspace(ids: list[str]) -> None:
    names = [workspace_name(name) for name in ids]
    assert all(SAFE.match(name) for name in names)
    assert len(set(names)) == len(ids)


@pytest.mark.parametrize("name", ["a/b", "é", "x" * 300])
def test_an_id_that_looks_like_the_name_of_another(name: str) -> None:
    other = workspace_name(name).removeprefix("prompt-")
    assert workspace_name(other) != workspace_name(name)


def test_a_trial_is_not_the_workspace_of_another_id() -> None:
    assert workspace_name("a", 1) != workspace_name("a-trial-1", 1)
    assert len({workspace_name(name, trial) for name in ("a", "a-trial-1", "a-trial") for trial in (1, 2, 11)}) == 9
