"""The table that -f parquet writes: a row per answer, with pyarrow."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pyarrow
from pyarrow import parquet

from agenteval import __version__
from agenteval.reports.exports.answers import ExportedAnswer
from agenteval.reports.page.rows import group_of
from agenteval.streams.jsonl import encode

ROWS = 1000  # of a group at most, and less if they are large
BYTES = 16 << 20  # of text in a group

Cell = Callable[[ExportedAnswer], Any]


def json_text(value: Any) -> str | None:
    """The value as JSON; None if there is none."""
    return None if value is None else encode(value).decode()


COLUMNS: dict[str, tuple[pyarrow.DataType, Cell]] = {
    "id": (pyarrow.string(), lambda answer: answer.prompt_id),
    "trial": (pyarrow.int64(), lambda answer: answer.trial),
    "input": (pyarrow.string(), lambda answer: answer.result.turns("\n") or None),
    "hint": (pyarrow.string(), lambda answer: answer.result.hint),
    "output": (pyarrow.string(), lambda answer: answer.result.output),
    "status": (pyarrow.string(), lambda answer: answer.status),
    "pass": (pyarrow.bool_(), lambda answer: answer.result.grade.pass_ if answer.result.grade else None),
    "score": (pyarrow.float64(), lambda answer: answer.result.grade.score if answer.result.grade else None),
    "reasoning": (pyarrow.string(), lambda answer: answer.result.score.reasoning if answer.result.score else None),
    "scores": (pyarrow.string(), lambda answer: json_text(answer.result.scores)),
    "grader_error": (pyarrow.string(), lambda answer: answer.result.why_not_graded),
    "errors": (pyarrow.list_(pyarrow.string()), lambda answer: answer.result.failures),
    "tool_errors": (pyarrow.bool_(), lambda answer: answer.result.tool_errors),
    "duration_ms": (pyarrow.float64(), lambda answer: answer.result.duration),
    "input_tokens": (pyarrow.float64(), lambda answer: answer.usage("input_tokens")),
    "output_tokens": (pyarrow.float64(), lambda answer: answer.usage("output_tokens")),
    "cached_tokens": (pyarrow.float64(), lambda answer: answer.usage("cached_tokens")),
    "cost_usd": (pyarrow.float64(), lambda answer: answer.usage("cost_usd")),
    "started": (
        pyarrow.timestamp("ms", tz="UTC"),
        lambda answer: None if answer.start is None else int(answer.start),
    ),
    "agent": (pyarrow.string(), lambda answer: answer.metadata.get("agent") and answer.agent),
    "model": (pyarrow.string(), lambda answer: answer.model),
    "steps": (pyarrow.int64(), lambda answer: len(answer.steps)),
    "tools": (
        pyarrow.list_(pyarrow.string()),
        lambda answer: [step.name for step in answer.steps if step.type == "tool_call" and step.name],
    ),
    "metadata": (pyarrow.string(), lambda answer: json_text(answer.result.metadata)),
    "trajectory": (pyarrow.string(), lambda answer: json_text(answer.result.trajectory)),
}


class _Sink:
    """A file that is written in pieces, which are taken out in between."""

    closed = False

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._size = 0

    def write(self, data: Any) -> int:
        piece = bytes(data)
        self._pieces.append(piece)
        self._size += len(piece)
        return len(piece)

    def tell(self) -> int:
        return self._size

    def flush(self) -> None:
        """Does nothing."""

    def close(self) -> None:
        self.closed = True

    def take(self) -> bytes:
        pieces, self._pieces = self._pieces, []
        return b"".join(pieces)


def parquet_pieces(answers: Iterable[ExportedAnswer], by: str) -> Iterator[bytes]:
    """Yields the file, group of rows by group of rows."""
    category = (pyarrow.string(), lambda answer: group_of(answer.metadata, by) or None)
    columns: dict[str, tuple[pyarrow.DataType, Cell]] = COLUMNS | {"category": category}
    schema = pyarrow.schema({name: kind for name, (kind, _) in columns.items()}, {"agenteval": __version__})
    sink = _Sink()
    with parquet.ParquetWriter(sink, schema, compression="zstd") as writer:
        for group in groups(answers):
            arrays = [pyarrow.array([cell(one) for one in group], kind) for kind, cell in columns.values()]
            writer.write_table(pyarrow.Table.from_arrays(arrays, schema=schema))
            yield sink.take()
    yield sink.take()


def groups(answers: Iterable[ExportedAnswer]) -> Iterator[list[ExportedAnswer]]:
    """The answers in groups of a limited size."""
    group: list[ExportedAnswer] = []
    size = 0
    for answer in answers:
        group.append(answer)
        size += len(answer.result.output) + sum(
            len(step.content or "") + (len(step.output) if isinstance(step.output, str) else 1000)
            for step in answer.steps
        )
        if len(group) >= ROWS or size >= BYTES:
            yield group
            group, size = [], 0
    if group:
        yield group
