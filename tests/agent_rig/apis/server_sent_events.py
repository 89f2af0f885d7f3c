"""Server-sent events."""

from __future__ import annotations

import json
from collections.abc import Iterable

from tests.agent_rig.conversation import Body
from tests.support.http_server import Response


def stream(events: Iterable[Body], *, named: bool, end: str = "") -> Response:
    """Returns all events as one response; with `named`, each has its type as its event name."""
    names = ((f"event: {event['type']}\n" if named else "", event) for event in events)
    body = "".join(f"{name}data: {json.dumps(event)}\n\n" for name, event in names)
    return Response(200, (body + end).encode(), "text/event-stream; charset=utf-8")
