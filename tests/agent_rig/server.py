"""Serves the scripted model on loopback in every API that the agents use, and logs requests and replies."""

from __future__ import annotations

import gzip
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.agent_rig.apis import api_at
from tests.agent_rig.catalogue import MODEL, MODEL_2
from tests.agent_rig.conversation import Body, Usage
from tests.agent_rig.script import CODEWORD, REFUSAL, SIDE_USAGE, SUB_TASK, Script, reply_to
from tests.support.http_server import Request, Response, json_response, serving

MODEL_NAMES = (MODEL, MODEL_2)


class Spent(NamedTuple):
    """The tokens that the replies reported: for the task, and for requests beside it."""

    task: Usage
    side: Usage


class ScriptedModel:
    """Answers requests by the script; appends every request and reply to the log."""

    def __init__(self, script: Script, log: Path) -> None:
        self.script, self.log = script, log
        self.replies: list[Usage] = []
        self.refused = 0
        self.sub_agents = 0
        self.models: list[str] = []  # that each request for the task named
        self._seen: list[str] = []
        self.waiting = threading.Event()
        self._over = threading.Event()
        self._lock = threading.Lock()

    def __call__(self, request: Request) -> Response:
        body = _json(request)
        self._seen.append(json.dumps(body))
        response = self._respond(request, body)
        entry = {"path": request.path, "query": request.query, "body": body}
        answer = {"status": response.status, "reply": response.body.decode("utf-8", "replace")}
        with self._lock, self.log.open("a", encoding="utf-8") as file:
            file.write(json.dumps({**entry, **answer}) + "\n")
        return response

    def begin_session(self) -> None:
        """Forgets the requests and replies of an earlier session."""
        self.replies.clear()
        self.models.clear()
        self._seen.clear()

    def saw(self, text: str, beside: str = "") -> bool:
        """Returns whether the text was in a request of the session, of those that have `beside` in them."""
        return any(text in seen and beside in seen for seen in self._seen)

    def spent(self) -> Spent:
        """Returns the sums of the reported tokens, for the task and beside it."""
        side = [usage for usage in self.replies if usage == SIDE_USAGE]
        task = [usage for usage in self.replies if usage != SIDE_USAGE]
        return Spent(_sum(task), _sum(side))

    def stop(self) -> None:
        """Releases the requests that wait for a reply."""
        self._over.set()

    def _respond(self, request: Request, body: Body) -> Response:
        api = api_at(request.path)
        if api is None:
            return _other_endpoint(request)
        if self.script.status != 200:
            self.refused += 1
            return api.refuse(self.script.status, REFUSAL)
        asked = api.read(body)
        text = json.dumps(body)
        self.sub_agents += SUB_TASK in text and CODEWORD not in text
        reply = reply_to(asked, body, self.script)
        if reply is None:
            self.waiting.set()
            self._over.wait()
            return api.refuse(503, "the scenario is over")
        self.replies.append(reply.usage)
        if reply.usage != SIDE_USAGE:
            named = re.search(r"/models/([^/:]+):", request.path)
            self.models.append(named[1] if named else str(body.get("model")))
        return api.write(reply, body, request)


@contextmanager
def model_serving(script: Script, log: Path) -> Iterator[tuple[ScriptedModel, str]]:
    """Serves the model; yields it and its address."""
    model = ScriptedModel(script, log)
    with serving(model) as url:
        try:
            yield model, url
        finally:
            model.stop()


def _other_endpoint(request: Request) -> Response:
    """Answers requests beside the conversation: lists of models, token counts."""
    if request.path.endswith("/models"):
        return json_response({"object": "list", "data": [{"id": name, "object": "model"} for name in MODEL_NAMES]})
    if request.path.endswith("/count_tokens"):
        return json_response({"input_tokens": 1})
    if request.path.endswith(":countTokens"):
        return json_response({"totalTokens": 1})
    return json_response({"error": {"message": f"nothing at {request.path}"}}, 404)


def _json(request: Request) -> Body:
    """Returns the decoded body, {} if it is empty."""
    content = request.body
    if request.headers.get("content-encoding") == "gzip":
        content = gzip.decompress(content)
    body: Body = json.loads(content) if content else {}
    return body


def _sum(usages: list[Usage]) -> Usage:
    return Usage(*(sum(column) for column in zip(*usages, strict=True))) if usages else Usage(0, 0, 0, 0)
