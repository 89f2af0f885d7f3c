"""parquet: a table for DuckDB, pandas or Spark: a row per record or trial (extra `parquet`)"""

from collections.abc import Callable, Iterable, Iterator
from io import BytesIO
from typing import Any

from agenteval import __version__
from agenteval.errors import MissingExtra, UserError
from agenteval.reports.answers import ReportedAnswer
from agenteval.reports.figures import group_name
from agenteval.reports.forms import ReportContext
from agenteval.reports.reader import RowReader
from agenteval.streams.jsonl import encode

ROWS = 1000  # of a group at most, and less if they are large
BYTES = 16 << 20  # of text in a group
TEXT, TEXTS, FLAG, WHOLE, NUMBER, TIME = "text", "texts", "flag", "whole", "number", "time"

Cell = Callable[[ReportedAnswer], Any]


def json_text(value: Any) -> str | None:
    """The value as JSON; None if there is none."""
    return None if value is None else encode(value).decode()


COLUMNS: dict[str, tuple[str, Cell]] = {
    "id": (TEXT, lambda answer: answer.row.id),
    "trial": (WHOLE, lambda answer: answer.trial),
    "input": (TEXT, lambda answer: answer.row.turns("\n") or None),
    "hint": (TEXT, lambda answer: answer.row.hint),
    "output": (TEXT, lambda answer: answer.attempt.output),
    "status": (TEXT, lambda answer: answer.status),
    "pass": (FLAG, lambda answer: answer.attempt.grade.pass_ if answer.attempt.grade else None),
    "score": (NUMBER, lambda answer: answer.attempt.grade.score if answer.attempt.grade else None),
    "reasoning": (TEXT, lambda answer: answer.attempt.score.reasoning if answer.attempt.score else None),
    "scores": (TEXT, lambda answer: json_text(answer.attempt.scores)),
    "grader_error": (TEXT, lambda answer: answer.attempt.why_not_graded),
    "errors": (TEXTS, lambda answer: answer.attempt.failures),
    "tool_errors": (FLAG, lambda answer: answer.attempt.tool_errors),
    "duration_ms": (NUMBER, lambda answer: answer.attempt.duration),
    "input_tokens": (NUMBER, lambda answer: answer.usage("input_tokens")),
    "output_tokens": (NUMBER, lambda answer: answer.usage("output_tokens")),
    "cached_tokens": (NUMBER, lambda answer: answer.usage("cached_tokens")),
    "cost_usd": (NUMBER, lambda answer: answer.usage("cost_usd")),
    "started": (TIME, lambda answer: None if answer.start is None else int(answer.start)),
    "agent": (TEXT, lambda answer: answer.metadata.get("agent") and answer.agent),
    "model": (TEXT, lambda answer: answer.model),
    "steps": (WHOLE, lambda answer: len(answer.steps)),
    "tools": (TEXTS, lambda answer: [step.name for step in answer.steps if step.type == "tool_call" and step.name]),
    "metadata": (TEXT, lambda answer: json_text(answer.row.metadata)),
    "trajectory": (TEXT, lambda answer: json_text(answer.attempt.trajectory)),
}


def render(results: RowReader, context: ReportContext) -> Iterator[bytes]:
    """Yields the file, a group of rows at a time; memory holds one group."""
    if context.terminal:
        raise UserError("parquet is binary and stdout is a terminal: write it to a file with -o FILE")
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise MissingExtra("-f parquet needs the pyarrow package", "parquet") from None
    types = {TEXT: pyarrow.string(), TEXTS: pyarrow.list_(pyarrow.string()), FLAG: pyarrow.bool_()}
    types |= {WHOLE: pyarrow.int64(), NUMBER: pyarrow.float64(), TIME: pyarrow.timestamp("ms", tz="UTC")}
    columns = COLUMNS | {"category": (TEXT, lambda answer: group_name(answer.row.metadata, context.by) or None)}
    schema = pyarrow.schema({name: types[kind] for name, (kind, _) in columns.items()}, {"agenteval": __version__})
    sink = _Sink()
    with parquet.ParquetWriter(sink, schema, compression="zstd") as writer:
        for group in groups(results.answers()):
            arrays = [pyarrow.array([cell(one) for one in group], types[kind]) for kind, cell in columns.values()]
            writer.write_table(pyarrow.Table.from_arrays(arrays, schema=schema))
            yield sink.take()
    yield sink.take()


class _Sink(BytesIO):
    """A file that is written in pieces, which are removed and yielded in between."""

    taken = 0

    def tell(self) -> int:
        return self.taken + super().tell()

    def close(self) -> None:
        """Does nothing, because the last piece has not been removed yet."""

    def take(self) -> bytes:
        piece = self.getvalue()
        self.taken += len(piece)
        self.seek(0)
        self.truncate()
        return piece


def groups(answers: Iterable[ReportedAnswer]) -> Iterator[list[ReportedAnswer]]:
    """The answers in groups of a limited size."""
    group: list[ReportedAnswer] = []
    size = 0
    for answer in answers:
        group.append(answer)
        size += len(answer.attempt.output) + sum(
            len(step.content or "") + (len(step.output) if isinstance(step.output, str) else 1000)
            for step in answer.steps
        )
        if len(group) >= ROWS or size >= BYTES:
            yield group
            group, size = [], 0
    if group:
        yield group
