"""parquet: a table for DuckDB, pandas or Spark: a row per record or trial (extra `parquet`)"""

from __future__ import annotations

from collections.abc import Iterator

from agenteval.errors import MissingExtra, UserError
from agenteval.reports.exports.answers import read_answers
from agenteval.reports.forms import ReportContext
from agenteval.reports.result_reader import ResultReader


def render(results: ResultReader, context: ReportContext) -> Iterator[bytes]:
    """Yields the file in pieces; memory holds one group of rows."""
    if context.terminal:
        raise UserError("parquet is binary and stdout is a terminal: write it to a file with -o FILE")
    try:
        from agenteval.reports.exports.columns import parquet_pieces
    except ImportError:
        raise MissingExtra("-f parquet needs the package pyarrow", "parquet") from None
    yield from parquet_pieces(read_answers(results), context.by)
