"""The scripted model, served on loopback in every API that agents speak; it notes what it was asked and replied."""

from __future__ import annotations

import gzip
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from agent_rig.conversation import Body, Usage
from agent_rig.dialects import dialect_of
from agent_rig.script import ASIDE, REFUSAL, Script, reply_to
from agenteval.wikipedia.offline.serving import Request, Response, json_response, serving

MODELS = ("scripted-model",)


class Spent(NamedTuple):
    """The tokens that were said to have been used."""

    main: Usage
    aside: Usage


class Model:
    """Answers requests by the script; every request and reply is appended to the log."""

    def __init__(self, script: Script, log: Path) -> None:
        self.script, self.log = script, log
        self.replies: list[Usage] = []
        self.refused = 0
        self.waiting = threading.Event()
        self._over = threading.Event()
        self._lock = threading.Lock()

    def __call__(self, request: Request) -> Response:
        body = _json(request)
        response = self._respond(request, body)
        entry = {"path": request.path, "query": request.query, "body": body}
        answer = {"status": response.status, "reply": response.body.decode("utf-8", "replace")}
        with self._lock, self.log.open("a", encoding="utf-8") as file:
            file.write(json.dumps({**entry, **answer}) + "\n")
        return response

    def spent(self) -> Spent:
        """The sums of what was said to have been used, for the task and beside it."""
        aside = [usage for usage in self.replies if usage == ASIDE]
        main = [usage for usage in self.replies if usage != ASIDE]
        return Spent(_sum(main), _sum(aside))

    def stop(self) -> None:
        """Let go of those who wait."""
        self._over.set()

    def _respond(self, request: Request, body: Body) -> Response:
        dialect = dialect_of(request.path)
        if dialect is None:
            return _beside(request)
        if self.script.status != 200:
            self.refused += 1
            return dialect.refuse(self.script.status, REFUSAL)
        reply = reply_to(dialect.read(body), body, self.script)
        if reply is None:
            self.waiting.set()
            self._over.wait()
            return dialect.refuse(503, "the scenario is over")
        self.replies.append(reply.usage)
        return dialect.write(reply, body, request)


@contextmanager
def model_serving(script: Script, log: Path) -> Iterator[tuple[Model, str]]:
    """The model and its address."""
    model = Model(script, log)
    with serving(model) as url:
        try:
            yield model, url
        finally:
            model.stop()


def _beside(request: Request) -> Response:
    """What is asked beside the conversation: the models there are, and counts."""
    if request.path.endswith("/models"):
        return json_response({"object": "list", "data": [{"id": name, "object": "model"} for name in MODELS]})
    if request.path.endswith("/count_tokens"):
        return json_response({"input_tokens": 1})
    if request.path.endswith(":countTokens"):
        return json_response({"totalTokens": 1})
    return json_response({"error": {"message": f"nothing at {request.path}"}}, 404)


def _json(request: Request) -> Body:
    """The request's body; nothing where it has none."""
    content = request.body
    if request.headers.get("content-encoding") == "gzip":
        content = gzip.decompress(content)
    body: Body = json.loads(content) if content else {}
    return body


def _sum(usages: list[Usage]) -> Usage:
    return Usage(*(sum(column) for column in zip(*usages, strict=True))) if usages else Usage(0, 0, 0, 0)
