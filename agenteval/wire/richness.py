"""How rich a trajectory is: the value of `metadata.trajectoryRichness` in a result."""

from collections.abc import Iterable
from typing import Literal

Richness = Literal["full", "messages-only", "minimal"]

_RICHNESS: dict[object, Richness] = {"full": "full", "messages-only": "messages-only", "minimal": "minimal"}
_MORE_THAN_MESSAGES = frozenset(("thought", "tool_call", "plan"))


def richness_of(noted: object, step_types: Iterable[str | None]) -> Richness:
    """Returns what the record already notes if that is a richness, else what the types of its steps show."""
    if isinstance(noted, str) and noted in _RICHNESS:
        return _RICHNESS[noted]
    found: Richness = "minimal"
    for kind in step_types:
        if kind in _MORE_THAN_MESSAGES:
            return "full"
        found = "messages-only"
    return found
