"""Going on with an output file: whether it is of the same agent, and what is left to do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from agenteval.errors import BadRecord, UserError
from agenteval.streams.jsonl import decode_record
from agenteval.streams.output import Output
from agenteval.streams.source import RAW, RESULTS, TRIALS, kind_of
from agenteval.wire.records import Record

if TYPE_CHECKING:
    from agenteval.agents.identity import AgentIdentity

WRITES = {"ae-run": RAW, "ae-capture": RESULTS, "ae-trials": TRIALS, "ae-grade": RESULTS}


def refuse_another_agent(path: str, agents: Iterable[tuple[str | None, str]], identity: AgentIdentity) -> None:
    """Raises UserError if a file has records of another agent, or of the same with another command or schema."""
    for name, digest in agents:
        if digest != identity.digest:
            same = name == identity.name
            other = (
                f"{name} with another command or schema" if same else f"{name or 'another agent'}, not {identity.name}"
            )
            raise UserError(f"{path}: its records are of {other}; write to another file, or go on with --force")


def refuse_another_kind(path: str | None, tool: str) -> None:
    """Raises UserError if a file to go on with has records that this tool does not write."""
    if path is None:
        return
    with suppress(OSError, BadRecord), open(path, "rb") as file:
        kind = kind_of(decode_record(file.readline()))
        if kind not in (None, WRITES[tool]):
            raise UserError(f"{path}: {kind}; give {tool} another file")


def describe_resumption(output: Output, left: int | None, *, retry_failed: bool) -> str | None:
    """Returns what is done, what of it failed and what is left (None: not known yet); None if nothing is done."""
    done, failed = len(output.written.ids), len(output.written.failed)
    if not done:
        return None
    parts = [f"{output.name}: {done} done"]
    if failed:
        parts.append(f"{failed} of them failed{', run again' if retry_failed else ' (--retry-failed runs them again)'}")
    if left is not None:
        parts.append(f"{left} to run" if left else "nothing left to do")
    return ", ".join(parts)


def without_written(batches: Iterable[list[Record]], output: Output) -> Iterator[list[Record]]:
    """Returns the records that the output does not have yet.

    Of an id that occurs several times, as many are left out as have been written: the first, for order is kept.
    """
    if not output.written.ids:
        return iter(batches)
    return _skip_written(batches, dict(output.written.ids))


def _skip_written(batches: Iterable[list[Record]], written: dict[str, int]) -> Iterator[list[Record]]:
    for batch in batches:
        left = []
        for record in batch:
            if count := written.get(record["id"]):
                written[record["id"]] = count - 1
            else:
                left.append(record)
        if left:
            yield left
