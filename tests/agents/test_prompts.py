"""The prompts of a run: shards."""

from __future__ import annotations

import pytest

from agenteval.agents.prompts import in_shard

# Machines with different versions share one run: these figures must never change.
SHARDS = {
    3: {"a": 2, "b": 2, "hello": 2, "case-000001": 3, "é": 1, "../x": 2, "🦆": 1},
    5: {"a": 1, "b": 2, "hello": 3, "case-000001": 3, "é": 2, "../x": 5, "🦆": 4},
}


@pytest.mark.parametrize("count", SHARDS)
def test_the_shard_of_an_id_is_the_same_in_every_version(count: int) -> None:
    found = {name: [n for n in range(1, count + 1) if in_shard(name, (n, count))] for name in SHARDS[count]}
    assert found == {name: [number] for name, number in SHARDS[count].items()}


def test_without_shards_every_id_is_taken() -> None:
    assert in_shard("a", None) and in_shard("a", (1, 1))
