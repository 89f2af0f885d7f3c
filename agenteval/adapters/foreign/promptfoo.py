"""Results of promptfoo, as its `-o` writes them → results: one per prompt, provider and test."""

from contextlib import suppress

from agenteval.adapters.imported import ImportedResult, as_object, objects, verdict
from agenteval.adapters.values import as_text, epoch_milliseconds
from agenteval.errors import BadRecord
from agenteval.streams.jsonl import decode
from agenteval.wire.records import Record

ERROR = 2  # as failureReason: the provider failed; 1 is an assertion that does not hold
LONGEST = 1e12  # milliseconds: thirty years
USAGE = {"inputTokens": "prompt", "outputTokens": "completion", "cachedTokens": "cached"}


def results_of(document: Record) -> list[Record]:
    """Returns the results of a whole file, or of one line of JSONL; raises BadRecord if the document is neither."""
    found = document.get("results")
    rows = found.get("results") if isinstance(found, dict) else found
    if not isinstance(rows, list):
        if not {"provider", "success", "testIdx"} <= document.keys():
            raise BadRecord("not results of promptfoo: results is missing")
        rows = [document]
    facts = as_object(document.get("metadata"))
    began = epoch_milliseconds(facts.get("evaluationCreatedAt")) if "results" in document else None
    return [_result(row, began) for row in objects(rows)]


def _result(row: Record, began: int | None) -> Record:
    test, prompt, provider = (as_object(row.get(name)) for name in ("testCase", "prompt", "provider"))
    response, number = as_object(row.get("response")), (row.get("testIdx", 0), row.get("promptIdx", 0))
    ident = "-".join(str(one + 1) if type(one) is int else as_text(one) for one in number)
    agent = as_text(provider.get("label")) or as_text(provider.get("id")) or as_text(row.get("provider")) or "unknown"
    built = ImportedResult(ident, agent)
    built.metadata = {**as_object(test.get("metadata")), "test": test.get("description"), "prompt": prompt.get("label")}
    for text in _turns(as_text(prompt.get("raw"))):
        built.turn(text)
    for call in objects(as_object(response.get("metadata")).get("toolCalls")):
        built.out.set_parent(call.get("parentToolUseId"))
        built.out.call(call.get("id"), call.get("name"), call.get("input"))
        if call.get("output") is not None or call.get("is_error"):
            status = "failed" if call.get("is_error") else "completed"
            built.out.settle(call.get("id"), call.get("name"), None, status, call.get("output"), None)
    built.out.set_parent(None)
    built.output = as_text(response.get("output"))
    if built.output:
        built.out.text("message", built.output)
    _add_numbers(built, row, response, began)
    failed = row.get("failureReason") == ERROR or (row.get("error") and not row.get("gradingResult"))
    if failed or response.get("error"):
        built.errors = [as_text(row.get("error")) or as_text(response.get("error")) or "the provider failed"]
    _add_verdicts(built, as_object(row.get("gradingResult")))
    return built.result()


def _turns(raw: str) -> list[str]:
    """Returns what the user says: the prompt itself, or the user's part of it if it is a list of chat messages."""
    messages = []
    if raw.lstrip().startswith("["):
        with suppress(BadRecord):
            messages = objects(decode(raw))
    return [as_text(one.get("content")) for one in messages if one.get("role") == "user"] or [raw]


def _add_numbers(built: ImportedResult, row: Record, response: Record, began: int | None) -> None:
    """Adds tokens, cost and time; promptfoo writes 0 where it does not know them."""
    usage = as_object(row.get("tokenUsage")) or as_object(response.get("tokenUsage"))
    counts = {name: usage.get(theirs) for name, theirs in USAGE.items()}
    if any(counts.values()):
        built.usage = counts
    built.usage["costUsd"] = row.get("cost") or response.get("cost") or None
    took = row.get("latencyMs")
    if isinstance(took, (int, float)) and 0 <= took < LONGEST:
        built.start = began or 0
        built.end = built.start + round(took)


def _add_verdicts(built: ImportedResult, graded: Record) -> None:
    """Adds the verdict of each assertion; a test without one was not graded."""
    parts = objects(graded.get("componentResults"))
    for part in parts:
        assertion = as_object(part.get("assertion"))
        name = as_text(assertion.get("metric")) or as_text(assertion.get("type")) or "assertion"
        if (found := verdict(part.get("score"), part.get("pass"), part.get("reason"))) is not None:
            built.add_verdict(name, found)
    built.overall = verdict(graded.get("score"), graded.get("pass"), graded.get("reason")) if parts else None
