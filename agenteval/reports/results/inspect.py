"""inspect: a log of inspect_ai (JSON), for `inspect view`; the trials of a prompt are epochs"""

from collections.abc import Iterator
from hashlib import sha256
from typing import Any

from agenteval import __version__
from agenteval.comparison.run_summary import Mean
from agenteval.reports.answers import ReportedAnswer, iso
from agenteval.reports.conversation import AgentTurn, exchanges
from agenteval.reports.forms import ReportContext
from agenteval.reports.reader import RowReader
from agenteval.streams.jsonl import encode
from agenteval.streams.spool import Spool
from agenteval.wire.records import Record
from agenteval.wire.row import ERROR, LABEL, Number, agent_name, first_text

CORRECT, INCORRECT = "C", "I"  # the values by which inspect_ai counts accuracy
UNKNOWN_MODEL = "none/none"  # how inspect_ai names the model of an evaluation that has none


def render(results: RowReader, context: ReportContext) -> Iterator[bytes]:
    """Yields the log: its results come before the samples, which wait in a temporary file."""
    spool, totals = Spool(), Totals()
    for answer in results.answers():
        spool.keep((b",\n" if totals.samples else b"") + encode(sample(answer)))
        totals.add(answer)
    yield encode(header(totals, context))[:-1] + b',"samples":[\n'
    yield from spool.pieces()
    yield b"]}\n"


# --- the header ---------------------------------------------------------------------------------


class Totals:
    """What the header says of all samples."""

    def __init__(self) -> None:
        self.samples = self.completed = self.prompts = 0
        self.epochs = 1
        self.agent = self.model = ""
        self.start: Number | None = None
        self.end: Number | None = None
        self.means: dict[str, Mean] = {}
        self.usage: dict[str, dict[str, int]] = {}

    def add(self, answer: ReportedAnswer) -> None:
        """Adds a sample."""
        self.samples += 1
        self.prompts += answer.trial in (None, 1)
        self.completed += answer.status != ERROR
        self.epochs = max(self.epochs, answer.trial or 1)
        label = first_text(answer.metadata, LABEL) or agent_name(answer.metadata) or ""
        self.agent, self.model = self.agent or label, self.model or answer.model or ""
        if answer.start is not None:
            self.start = answer.start if self.start is None else min(self.start, answer.start)
        if answer.end is not None:
            self.end = answer.end if self.end is None else max(self.end, answer.end)
        for name, score in scores_of(answer).items():
            value = score["value"]
            self.means.setdefault(name, Mean()).add(float(value == CORRECT) if isinstance(value, str) else value)
        for model, counts in model_usage(answer).items():
            sums = self.usage.setdefault(model, {})
            for name, count in counts.items():
                sums[name] = sums.get(name, 0) + count


def header(totals: Totals, context: ReportContext) -> Record:
    """All of the log but its samples."""
    name = totals.agent or "agenteval"
    created = iso(totals.start) if totals.start is not None else context.generated
    identity = sha256(f"{context.source}\0{created}\0{name}".encode(errors="replace")).hexdigest()[:22]
    times = {"started_at": created, "completed_at": created if totals.end is None else iso(totals.end)}
    return {
        "version": 2,
        "status": "success",
        "eval": {
            "eval_id": identity,
            "run_id": identity,
            "created": created,
            "task": name,
            "task_id": identity,
            "task_version": 0,
            "dataset": {"name": context.source, "samples": totals.prompts},
            "model": totals.model or UNKNOWN_MODEL,
            "config": {"epochs": totals.epochs},
            "packages": {"agenteval": __version__},
        },
        "plan": {"name": "plan", "steps": [{"solver": name, "params": {}}], "config": {}},
        "results": {
            "total_samples": totals.samples,
            "completed_samples": totals.completed,
            "scores": [_total_score(name, mean, totals.samples) for name, mean in totals.means.items()],
        },
        "stats": {**times, "model_usage": totals.usage},
    }


def _total_score(name: str, mean: Mean, samples: int) -> Record:
    """The mean of one score over the samples that have it."""
    metric = "accuracy" if name == "pass" else "mean"
    return {
        "name": name,
        "scorer": name,
        "scored_samples": mean.count,
        "unscored_samples": samples - mean.count,
        "params": {},
        "metrics": {metric: {"name": metric, "value": mean.value, "params": {}}},
    }


# --- samples ------------------------------------------------------------------------------------


def sample(answer: ReportedAnswer) -> Record:
    """One sample: the conversation, the scores, and the error of an agent that failed."""
    row, attempt = answer
    message = {"role": "assistant", "content": attempt.output, "source": "generate"}
    choice = {"message": message, "stop_reason": "stop"}
    record: Record = {
        "id": answer.row.id,
        "epoch": answer.trial or 1,
        "uuid": sha256(f"{answer.id}\0{answer.start}".encode(errors="replace")).hexdigest()[:22],
        "input": row.turns("\n\n"),
        "target": row.hint or "",
        "messages": _messages(answer),
        "output": {"model": answer.model or UNKNOWN_MODEL, "choices": [choice], "completion": attempt.output},
        "scores": scores_of(answer),
        "metadata": {**answer.metadata, "agenteval": answer.verdict()},
        "model_usage": model_usage(answer),
        "store": {},
        "events": [],
    }
    if answer.start is not None:
        record["started_at"] = iso(answer.start)
    if answer.end is not None:
        record["completed_at"] = iso(answer.end)
    if attempt.duration is not None:
        record["total_time"] = record["working_time"] = attempt.duration / 1000
    if answer.status == ERROR:
        record["error"] = dict.fromkeys(("message", "traceback", "traceback_ansi"), "\n".join(attempt.failures))
    return record


def _messages(answer: ReportedAnswer) -> list[Record]:
    """The conversation; thoughts are parts of the content."""
    found: list[Record] = []
    for exchange in exchanges(answer):
        found.append({"role": "user", "content": exchange.user})
        for turn in exchange.turns:
            found.append(_assistant_message(turn))
            found += [
                {
                    "role": "tool",
                    "content": call.result or "",
                    "tool_call_id": call.id,
                    "function": call.name,
                    **({"error": {"type": "unknown", "message": call.result or "failed"}} if call.failed else {}),
                }
                for call in turn.calls
            ]
    return [{"id": f"message_{number}", **message} for number, message in enumerate(found, 1)]


def _assistant_message(turn: AgentTurn) -> Record:
    thoughts = [{"type": "reasoning", "reasoning": thought} for thought in turn.thoughts]
    content: Any = [*thoughts, {"type": "text", "text": turn.text}] if thoughts else turn.text
    calls = [
        {"id": call.id, "function": call.name, "arguments": call.arguments, "type": "function"} for call in turn.calls
    ]
    return {"role": "assistant", "content": content, **({"tool_calls": calls} if calls else {})}


def scores_of(answer: ReportedAnswer) -> Record:
    """`pass` and `score`, and the score of each grader; nothing where there is no verdict."""
    attempt = answer.attempt
    if attempt.grade is None:
        return {}
    reasoning = attempt.score.reasoning if attempt.score else None

    def score(value: str | float, reasoning: str | None) -> Record:
        return {"value": value, "answer": attempt.output, **({"explanation": reasoning} if reasoning else {})}

    found = {
        "pass": score(CORRECT if attempt.grade.pass_ else INCORRECT, reasoning),
        "score": score(attempt.grade.score, reasoning),
    }
    for name, grade in (attempt.scores or {}).items():
        found.setdefault(name, score(grade.score, grade.reasoning) | {"metadata": {"pass": grade.pass_}})
    return found


def model_usage(answer: ReportedAnswer) -> dict[str, dict[str, int]]:
    """The tokens of the model that ran; nothing if they are not known."""
    given, taken, cached = (answer.tokens(f"{name}_tokens") for name in ("input", "output", "cached"))
    if given is None and taken is None:
        return {}
    counts = {"input_tokens": given or 0, "output_tokens": taken or 0, "total_tokens": (given or 0) + (taken or 0)}
    return {answer.model or UNKNOWN_MODEL: counts | ({} if cached is None else {"input_tokens_cache_read": cached})}
