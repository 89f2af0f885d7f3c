"""otlp: OpenTelemetry traces (OTLP/JSON, GenAI conventions), a line per record or trial"""

from collections.abc import Iterator
from hashlib import sha256
from typing import Any

from agenteval import __version__
from agenteval.reports.answers import ReportedAnswer
from agenteval.reports.conversation import PENDING, text_of
from agenteval.reports.forms import ReportContext
from agenteval.reports.reader import RowReader
from agenteval.streams.jsonl import encode
from agenteval.wire.records import Record, Step
from agenteval.wire.row import ERROR, Number

INTERNAL = 1
STATUS_ERROR = 2
PROVIDERS = {"claude": "anthropic", "gpt": "openai", "gemini": "gcp.gemini", "mistral": "mistral_ai", "grok": "x_ai"}
OTHER = "_OTHER"  # what the conventions have for a value that is not known


def render(results: RowReader, _context: ReportContext) -> Iterator[bytes]:
    """Yields a line per answer, as it comes."""
    for answer in results.answers():
        yield encode({"resourceSpans": [resource_spans(answer)]}) + b"\n"


def resource_spans(answer: ReportedAnswer) -> Record:
    """The trace of one answer: a span for the run, and one for each tool call below it, or below that of the caller."""
    trace = identifier(answer, "trace", 16)
    spans = [run_span(answer, trace)]
    callers: dict[str, Record] = {}
    for number, step in enumerate(answer.steps, 1):
        if step.type == "tool_call":
            spans.append(tool_span(answer, step, number, callers.get(step.parent_id or "", spans[0])))
            callers |= {step.call_id: spans[-1]} if step.call_id else {}
    resource = attributes({"service.name": answer.agent, "service.version": answer.agent_version})
    scope = {"name": "agenteval", "version": __version__}
    return {"resource": {"attributes": resource}, "scopeSpans": [{"scope": scope, "spans": spans}]}


# --- spans --------------------------------------------------------------------------------------


def run_span(answer: ReportedAnswer, trace: str) -> Record:
    """The span of the run of the agent; the verdicts are its events."""
    row, attempt = answer
    failed = answer.status == ERROR
    timed_out = failed and (answer.metadata.get("timedOut") or "timed out" in attempt.failures[0])
    span = {
        "traceId": trace,
        "spanId": identifier(answer, "run", 8),
        "name": f"invoke_agent {answer.agent}",
        "kind": INTERNAL,
        **times(startTime=answer.start, endTime=answer.end or answer.start),
        "attributes": attributes(
            {
                "gen_ai.operation.name": "invoke_agent",
                "gen_ai.provider.name": provider(answer.model),
                "gen_ai.agent.name": answer.agent,
                "gen_ai.agent.version": answer.agent_version,
                "gen_ai.conversation.id": answer.id,
                "gen_ai.request.model": answer.model,
                "gen_ai.usage.input_tokens": answer.tokens("input_tokens"),
                "gen_ai.usage.output_tokens": answer.tokens("output_tokens"),
                "gen_ai.usage.cache_read.input_tokens": answer.tokens("cached_tokens"),
                "gen_ai.input.messages": chat_parts("user", row.turns("\n\n")),
                "gen_ai.output.messages": chat_parts("assistant", attempt.output),
                "error.type": ("timeout" if timed_out else "agent_failed") if failed else None,
                "agenteval.prompt.id": answer.row.id,
                "agenteval.trial": answer.trial,
                "agenteval.status": answer.status,
                "agenteval.cost_usd": answer.usage("cost_usd"),
            }
        ),
        "events": list(evaluations(answer)),
    }
    return span | ({"status": {"code": STATUS_ERROR, "message": attempt.failures[0]}} if failed else {})


def tool_span(answer: ReportedAnswer, step: Step, number: int, parent: Record) -> Record:
    """The span of a tool call; a call never answered lasts until the run ends."""
    name, failed = step.name or "tool", step.status == "failed"
    start = answer.time_of(step) or answer.start
    lasted = max(step.duration or 0, 0)
    end = answer.end if step.status in PENDING else None if start is None else start + lasted
    span = {
        "traceId": parent["traceId"],
        "spanId": identifier(answer, f"step {number}", 8),
        "parentSpanId": parent["spanId"],
        "name": f"execute_tool {name}",
        "kind": INTERNAL,
        **times(startTime=start, endTime=end),
        "attributes": attributes(
            {
                "gen_ai.operation.name": "execute_tool",
                "gen_ai.tool.name": name,
                "gen_ai.tool.call.id": f"call_{number}",
                "gen_ai.tool.call.arguments": None if step.input is None else text_of(step.input),
                "gen_ai.tool.call.result": None if step.output is None else text_of(step.output),
                "error.type": "tool_error" if failed else None,
                "agenteval.tool.status": step.status,
            }
        ),
    }
    return span | ({"status": {"code": STATUS_ERROR}} if failed else {})


def evaluations(answer: ReportedAnswer) -> Iterator[Record]:
    """An event per verdict: of each grader and of all together, and the error of a grader that erred."""
    attempt = answer.attempt
    if answer.status == ERROR:
        return
    event = {**times(time=answer.end or answer.start), "name": "gen_ai.evaluation.result"}
    grades = dict(attempt.scores or {})
    if attempt.grade is not None and len(grades) != 1:
        grades["score"] = attempt.grade
    for name, grade in grades.items():
        verdict = {
            "gen_ai.evaluation.name": name,
            "gen_ai.evaluation.score.value": float(grade.score),
            "gen_ai.evaluation.score.label": "pass" if grade.pass_ else "fail",
            "gen_ai.evaluation.explanation": grade.reasoning,
        }
        yield {**event, "attributes": attributes(verdict)}
    if attempt.why_not_graded is not None:
        error = {"error.type": "grader_error", "gen_ai.evaluation.explanation": attempt.why_not_graded}
        yield {**event, "attributes": attributes({"gen_ai.evaluation.name": "score", **error})}


def identifier(answer: ReportedAnswer, what: str, size: int) -> str:
    """An id of `size` bytes, as hex; always the same for a record, but different for another run of it."""
    seed = "\0".join((answer.id, str(answer.start), answer.agent, what))
    return sha256(seed.encode(errors="surrogatepass")).hexdigest()[: 2 * size]


def times(**milliseconds: Number | None) -> Record:
    """The known times in nanoseconds, as strings: OTLP/JSON writes 64-bit integers so."""
    return {
        f"{name}UnixNano": str(round(value * 1000) * 1000) for name, value in milliseconds.items() if value is not None
    }


def attributes(values: Record) -> list[Record]:
    """The attributes that are known."""
    return [{"key": key, "value": _typed(value)} for key, value in values.items() if value is not None]


def _typed(value: Any) -> Record:
    """A value with its type; integers are strings."""
    if isinstance(value, int):
        return {"intValue": str(value)}
    return {"doubleValue": value} if isinstance(value, float) else {"stringValue": value}


def chat_parts(role: str, text: str) -> str | None:
    """A message in the form of the GenAI conventions, as JSON; None if there is no text."""
    parts = [{"type": "text", "content": text}]
    finish = {"finish_reason": "stop"} if role == "assistant" else {}
    return encode([{"role": role, "parts": parts, **finish}]).decode() if text else None


def provider(model: str | None) -> str:
    """The provider, by the name of the model: openai/gpt-5 and gpt-5 are OpenAI's."""
    name, separator, _ = (model or "").partition("/")
    found = next((known for start, known in PROVIDERS.items() if name.startswith(start)), OTHER)
    return name if separator and name else found
