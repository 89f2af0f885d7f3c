"""atif: trajectories in the Agent Trajectory Interchange Format, a line per record or trial"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from agenteval.reports.answers import ReportedAnswer, iso
from agenteval.reports.conversation import AgentTurn, NumberedStep, ToolCall, agent_turns, exchanges, sub_agents
from agenteval.reports.forms import ReportContext
from agenteval.reports.reader import RowReader
from agenteval.streams.jsonl import encode
from agenteval.wire.records import Record

VERSION = "ATIF-v1.8"
Nested = Mapping[str, list[NumberedStep]]
UNKNOWN_VERSION = "unknown"  # the format wants a version of the agent


def render(results: RowReader, _context: ReportContext) -> Iterator[bytes]:
    """Yields a line per answer, as it comes."""
    for answer in results.answers():
        yield encode(_trajectory(answer)) + b"\n"


def _trajectory(answer: ReportedAnswer) -> Record:
    """The document of one answer, sub-agents included; what the format has no field for is in `extra`."""
    nested = sub_agents(answer)
    document = _document(answer, answer.id, _steps(answer, nested))
    workers = [
        _document(answer, _nested_id(answer, call), (_agent_step(turn, answer, nested) for turn in agent_turns(steps)))
        for call, steps in nested.items()
    ]
    return _known(
        **document,
        final_metrics=_known(
            total_prompt_tokens=answer.tokens("input_tokens"),
            total_completion_tokens=answer.tokens("output_tokens"),
            total_cached_tokens=answer.tokens("cached_tokens"),
            total_cost_usd=answer.usage("cost_usd"),
            total_steps=len(document["steps"]),
        ),
        extra=_known(
            prompt_id=answer.row.id,
            trial=answer.trial,
            hint=answer.row.hint,
            metadata=answer.row.metadata,
            duration_ms=answer.attempt.duration,
            errors=answer.attempt.failures or None,
            tool_errors=answer.attempt.tool_errors,
            **answer.verdict(),
        ),
        subagent_trajectories=workers or None,
    )


def _document(answer: ReportedAnswer, trajectory_id: str, steps: Iterable[Record]) -> Record:
    """What the trajectory of an agent and that of a sub-agent have both."""
    return {
        "schema_version": VERSION,
        "session_id": answer.id,
        "trajectory_id": trajectory_id,
        "agent": _known(name=answer.agent, version=answer.agent_version or UNKNOWN_VERSION, model_name=answer.model),
        "steps": [{"step_id": number, **step} for number, step in enumerate(steps, 1)],
    }


def _nested_id(answer: ReportedAnswer, call: str) -> str:
    """The id of the trajectory of the sub-agent that worked for a call."""
    return f"{answer.id}/{call}"


def _steps(answer: ReportedAnswer, nested: Nested) -> Iterator[Record]:
    """The steps of the user and the agent, without their numbers."""
    for at, exchange in enumerate(exchanges(answer)):
        start = None if at or answer.start is None else iso(answer.start)
        yield _known(timestamp=start, source="user", message=exchange.user)
        for turn in exchange.turns:
            yield _agent_step(turn, answer, nested)


def _agent_step(turn: AgentTurn, answer: ReportedAnswer, nested: Nested) -> Record:
    """One turn of the agent; the results of its calls, and who worked for them, are in the same step."""
    stamp = answer.time_of(turn.first) if turn.first else None
    workers = {one.id: _nested_id(answer, call) for one in turn.calls if (call := one.step.call_id or "") in nested}
    results = [
        _known(
            source_call_id=call.id,
            content=call.result,
            subagent_trajectory_ref=[{"trajectory_id": workers[call.id]}] if call.id in workers else None,
            extra={"is_error": True} if call.failed else None,
        )
        for call in turn.calls
        if call.result is not None or call.id in workers
    ]
    return _known(
        timestamp=None if stamp is None else iso(stamp),
        source="agent",
        message=turn.text,
        reasoning_content="\n\n".join(turn.thoughts) or None,
        tool_calls=[_tool_call(call) for call in turn.calls] or None,
        observation={"results": results} if results else None,
        extra={"plans": turn.plans} if turn.plans else None,
    )


def _tool_call(call: ToolCall) -> Record:
    extra = _known(status=call.step.status, duration_ms=call.step.duration)
    return _known(tool_call_id=call.id, function_name=call.name, arguments=call.arguments, extra=extra or None)


def _known(**fields: Any) -> Record:
    return {name: value for name, value in fields.items() if value is not None}
