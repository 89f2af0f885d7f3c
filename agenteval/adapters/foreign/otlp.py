"""OpenTelemetry traces as OTLP/JSON, by the GenAI conventions → results: one per outermost invoke_agent span."""

from collections.abc import Iterator
from typing import Any

from agenteval.adapters.imported import ImportedResult, as_object, objects
from agenteval.adapters.values import as_text, epoch_milliseconds, total
from agenteval.errors import BadRecord
from agenteval.streams.jsonl import decode
from agenteval.streams.text import whole_number
from agenteval.wire.records import Record

USAGE = {
    "inputTokens": "gen_ai.usage.input_tokens",
    "outputTokens": "gen_ai.usage.output_tokens",
    "cachedTokens": "gen_ai.usage.cache_read.input_tokens",
}
AGENT, TOOL = "invoke_agent", "execute_tool"
STATUS_ERROR = (2, "STATUS_CODE_ERROR")


class Span:
    """A span with its attributes as plain values."""

    def __init__(self, span: Record) -> None:
        self.id, self.parent = as_text(span.get("spanId")), as_text(span.get("parentSpanId"))
        self.start = epoch_milliseconds(span.get("startTimeUnixNano"))
        self.end = epoch_milliseconds(span.get("endTimeUnixNano"))
        self.attributes = {as_text(one.get("key")): _value(one.get("value")) for one in objects(span.get("attributes"))}
        self.operation = self.attributes.get("gen_ai.operation.name")
        status = as_object(span.get("status"))
        self.failed = status.get("code") in STATUS_ERROR or "error.type" in self.attributes
        self.message = as_text(status.get("message")) or self.text("error.type")

    def text(self, key: str) -> str:
        """Returns an attribute as text."""
        return as_text(self.attributes.get(key))

    def json(self, key: str) -> Any:
        """Returns an attribute, the value of its JSON if it is such a text."""
        value = self.attributes.get(key)
        try:
            return decode(value) if isinstance(value, str) else value
        except BadRecord:
            return value


def results_of(document: Record) -> list[Record]:
    """Returns the results of the traces in a document, each of which it holds as a whole."""
    if not isinstance(document.get("resourceSpans"), list):
        raise BadRecord("not OTLP/JSON: resourceSpans is missing")
    spans = {
        (as_text(span.get("traceId")), as_text(span.get("spanId"))): Span(span)
        for resource in objects(document["resourceSpans"])
        for scope in objects(resource.get("scopeSpans"))
        for span in objects(scope.get("spans"))
    }
    results = []
    for (trace, _), root in spans.items():
        if root.operation == AGENT and not any(one.operation == AGENT for one in _above(root, trace, spans)):
            below = [(one, list(_above(one, trace, spans))) for (other, _), one in spans.items() if other == trace]
            results.append(_result(root, [(one, path) for one, path in below if root in path], trace))
    return results


def _above(span: Span, trace: str, spans: dict[tuple[str, str], Span]) -> Iterator[Span]:
    """Yields the spans around a span, the nearest first."""
    seen = {id(span)}
    while span.parent and (found := spans.get((trace, span.parent))) is not None and id(found) not in seen:
        seen.add(id(found))
        yield found
        span = found


def _result(root: Span, below: list[tuple[Span, list[Span]]], trace: str) -> Record:
    built = ImportedResult(root.text("gen_ai.conversation.id") or trace, root.text("gen_ai.agent.name") or "unknown")
    built.metadata = {
        "model": root.attributes.get("gen_ai.request.model"),
        "agentVersion": root.attributes.get("gen_ai.agent.version"),
    }
    built.at(root.end)
    built.at(root.start)
    below.sort(key=lambda one: one[0].start or 0)
    chats = [span for span, _ in below if span.operation not in (AGENT, TOOL)]
    asked = next((found for span in (root, *chats) if (found := list(_parts(span, "input", "user")))), [])
    for part in asked:
        built.turn(as_text(part.get("content")))
    for span, path in below:
        first = len(built.out.steps)
        _add_span(built, span)
        callers = [one.text("gen_ai.tool.call.id") for one in path if one.operation == TOOL]
        for step in built.out.steps[first:] if callers else ():
            step["parentId"] = callers[0]
    built.output = "".join(as_text(part.get("content")) for part in _parts(root, "output", "assistant")) or None
    for name, key in USAGE.items():
        built.usage[name] = root.attributes.get(key, total(*(span.attributes.get(key) for span in chats)))
    if root.failed:
        built.errors = [root.message or "the agent reports an error"]
    return built.result()


def _add_span(built: ImportedResult, span: Span) -> None:
    built.at(span.start)
    out = built.out
    if span.operation == TOOL:
        ident, name = span.attributes.get("gen_ai.tool.call.id"), span.attributes.get("gen_ai.tool.name")
        given, answer = span.json("gen_ai.tool.call.arguments"), span.attributes.get("gen_ai.tool.call.result")
        out.call(ident, name, given)
        status = span.attributes.get("agenteval.tool.status")
        if answer is not None or span.failed or status not in ("pending", "in_progress"):
            took = None if span.start is None or span.end is None else span.end - span.start
            out.settle(ident, name, None, "failed" if span.failed else "completed", answer, took)
    elif span.operation != AGENT:
        for part in _parts(span, "output", "assistant"):
            kind = part.get("type")
            if kind == "tool_call":
                out.call(part.get("id"), part.get("name"), part.get("arguments"))
            elif kind in ("text", "reasoning", "thinking"):
                out.text("message" if kind == "text" else "thought", part.get("content"))


def _parts(span: Span, which: str, role: str) -> Iterator[Record]:
    """Yields the parts of the messages of a role, in the form of the conventions."""
    for message in objects(span.json(f"gen_ai.{which}.messages")):
        if message.get("role") == role:
            yield from (part for part in objects(message.get("parts")) if part.get("type") != "tool_call_response")


def _value(value: Any) -> Any:
    """Returns a typed value of OTLP/JSON as a plain one."""
    kind, inner = next(iter(as_object(value).items()), ("", None))
    if kind == "intValue":
        number = whole_number(str(inner).removeprefix("-"))
        return -number if number and str(inner).startswith("-") else number
    if kind == "arrayValue":
        return [_value(one) for one in objects((inner or {}).get("values"))]
    if kind == "kvlistValue":
        return {as_text(one.get("key")): _value(one.get("value")) for one in objects((inner or {}).get("values"))}
    return inner
