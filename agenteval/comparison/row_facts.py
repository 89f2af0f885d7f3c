"""What is read of every record, a result or trials: its input, category and cluster, and the cost of its tokens."""

from __future__ import annotations

import sys
import zlib
from typing import Any, NamedTuple

from agenteval.models.prices import estimated_cost
from agenteval.streams.text import plain_text
from agenteval.wire.records import Input
from agenteval.wire.result_view import Measured


class RowOptions(NamedTuple):
    """Keys below `metadata`, as paths: the category of a prompt, and what prompts that belong together share."""

    by: tuple[str, ...] = ("category",)
    cluster_by: tuple[str, ...] | None = None


def metadata_path(key: str) -> tuple[str, ...]:
    """The path below `metadata` of a key with dots; a leading `metadata.` may be left out."""
    return tuple(key.removeprefix("metadata.").split("."))


def metadata_text(metadata: dict[str, Any] | None, path: tuple[str, ...] | None) -> str | None:
    """The value at a path below `metadata` as text; None if there is none."""
    value: Any = metadata if path else None
    for key in path or ():
        value = value.get(key) if isinstance(value, dict) else None
    return None if value is None else sys.intern(plain_text(value))


def input_digest(prompt: Input | None) -> int:
    """A checksum of the turns of a prompt; 0 if it is not known."""
    if prompt is None:
        return 0
    turns = [prompt] if isinstance(prompt, str) else prompt
    return zlib.crc32("\0".join(turns).encode(errors="surrogatepass")) or 1


class Expense(NamedTuple):
    """Tokens and cost of one run of an agent; `estimated` if the cost is that of the tokens by a price list."""

    tokens: float | None = None
    cost: float | None = None
    estimated: bool = False


def expense(timing: Measured | None, model: Any) -> Expense:
    """Tokens and cost as the agent reports them; without a cost, that of the tokens by the model's list price."""
    if timing is None:
        return Expense()
    given, taken = _amount(timing.input_tokens), _amount(timing.output_tokens)
    tokens = None if given is None and taken is None else (given or 0.0) + (taken or 0.0)
    cost = _amount(timing.cost_usd)
    if cost is not None or not isinstance(model, str) or given is None or taken is None:
        return Expense(tokens, cost)
    found = estimated_cost(model, given, taken, _amount(timing.cached_tokens) or 0.0)
    return Expense(tokens, found, estimated=found is not None)


def _amount(value: float | None) -> float | None:
    return float(value) if value is not None and value >= 0 else None
