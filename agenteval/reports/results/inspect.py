"""inspect: a log of inspect_ai (JSON), for `inspect view`: messages, transcript and scores; trials are epochs"""

from collections.abc import Iterable, Iterator
from hashlib import sha256
from typing import Any

from agenteval import __version__
from agenteval.comparison.run_summary import Mean
from agenteval.reports.answers import LATEST, ReportedAnswer, iso
from agenteval.reports.conversation import AgentTurn, ToolCall, agent_turns, exchanges, sub_agents
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
    """The log without its samples."""
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
        "events": list(Transcript(answer).events()),
    }
    if answer.start is not None:
        record["started_at"] = iso(answer.start)
    if answer.end is not None:
        record["completed_at"] = iso(answer.end)
    if attempt.duration is not None:
        record["total_time"] = record["working_time"] = attempt.duration / 1000
    if answer.status == ERROR:
        record["error"] = _eval_error(attempt.failures)
    return record


def _messages(answer: ReportedAnswer) -> list[Record]:
    """The conversation; thoughts are parts of the content."""
    found: list[Record] = []
    for exchange in exchanges(answer):
        found.append({"role": "user", "content": exchange.user})
        for turn in exchange.turns:
            found.append(_assistant_message(turn))
            found += map(_tool_message, turn.calls)
    return [{"id": f"message_{number}", **message} for number, message in enumerate(found, 1)]


def _tool_message(call: ToolCall) -> Record:
    message = {"role": "tool", "content": call.result or "", "tool_call_id": call.id, "function": call.name}
    return message | ({"error": _tool_error(call)} if call.failed else {})


def _tool_error(call: ToolCall) -> Record:
    return {"type": "unknown", "message": call.result or "failed"}


def _assistant_message(turn: AgentTurn) -> Record:
    thoughts = [{"type": "reasoning", "reasoning": thought} for thought in turn.thoughts]
    content: Any = [*thoughts, {"type": "text", "text": turn.text}] if thoughts else turn.text
    calls = [
        {"id": call.id, "function": call.name, "arguments": call.arguments, "type": "function"} for call in turn.calls
    ]
    return {"role": "assistant", "content": content, **({"tool_calls": calls} if calls else {})}


class Transcript:
    """The events of a sample, in the order in which they happened: the viewer of inspect_ai opens on them.

    A turn of the agent is a call of the model, whose input is what is new since the last one: with the whole
    conversation in each, a log would grow with the square of its length. A sub-agent is a span.
    """

    def __init__(self, answer: ReportedAnswer) -> None:
        self._answer = answer
        self._start = answer.start or 0
        self._now = self._start  # milliseconds since 1970
        self._sub_agents = sub_agents(answer)
        self._span: str | None = None  # of the sub-agent that is at work
        self._number = 0

    def events(self) -> Iterator[Record]:
        """Yields the events."""
        answer = self._answer
        row, attempt = answer
        yield self._event("sample_init", sample={"input": row.turns("\n\n"), "target": row.hint or "", "id": row.id})
        for exchange in exchanges(answer):
            yield from self._turns([{"role": "user", "content": exchange.user}], exchange.turns)
        if answer.end is not None:
            self._now = max(self._now, answer.end)
        if answer.status == ERROR:
            yield self._event("error", error=_eval_error(attempt.failures))
        for name, score in scores_of(answer).items():
            yield self._event("score", score=score, scorer=name, target=row.hint or "")

    def _turns(self, new: list[Record], turns: Iterable[AgentTurn]) -> Iterator[Record]:
        model = self._answer.model or UNKNOWN_MODEL
        for turn in turns:
            said = turn.calls[0].step if turn.calls else turn.last
            message = _assistant_message(turn)
            choice = {"message": message, "stop_reason": "tool_calls" if turn.calls else "stop"}
            yield self._event(
                "model",
                until=self._answer.time_of(said) if said else None,
                model=model,
                input=new,
                tools=[],
                tool_choice="auto",
                config={},
                output={"model": model, "choices": [choice], "completion": turn.text},
            )
            for call in turn.calls:
                yield from self._call(call)
            new = list(map(_tool_message, turn.calls))

    def _call(self, call: ToolCall) -> Iterator[Record]:
        """Yields the events of a call, those of the sub-agent that worked for it included."""
        began = self._answer.time_of(call.step)
        if began is not None:
            self._now = max(self._now, began)
        nested = self._sub_agents.pop(call.step.call_id or "", [])
        inner = f"{self._span}.{call.id}" if self._span else call.id
        took = call.step.duration if call.step.duration is not None and call.step.duration >= 0 else 0
        yield self._event(
            "tool",
            until=None if nested else self._now + took,
            id=call.id,
            type="function",
            function=call.name,
            arguments=call.arguments,
            result=call.result or "",
            **({"error": _tool_error(call), "failed": True} if call.failed else {}),
            **({"agent": call.name, "agent_span_id": inner} if nested else {}),
        )
        if not nested:
            return
        outer, self._span = self._span, inner
        yield self._event("span_begin", id=inner, parent_id=outer, name=call.name, type="agent")
        asked = call.arguments.get("prompt")
        yield from self._turns([{"role": "user", "content": str(asked or call.name)}], agent_turns(nested))
        yield self._event("span_end", id=inner)
        self._span = outer

    def _event(self, kind: str, *, until: Number | None = None, **fields: Any) -> Record:
        """An event that begins now and, if it takes time, ends at `until`."""
        self._number += 1
        began = self._now
        event: Record = {"event": kind, "uuid": f"event_{self._number}", "span_id": self._span}
        event |= {"timestamp": iso(began), "working_start": (began - self._start) / 1000, **fields}
        if until is not None:
            self._now = max(began, min(until, LATEST - 1))
            event |= {"completed": iso(self._now), "working_time": (self._now - began) / 1000}
        return event


def _eval_error(failures: list[str]) -> Record:
    return dict.fromkeys(("message", "traceback", "traceback_ansi"), "\n".join(failures))


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
