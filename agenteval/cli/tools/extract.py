"""ae-extract: raw → results: parse what an agent printed, using its adapter schema."""

import os
from collections.abc import Iterable, Iterator
from itertools import islice

import click

from agenteval.adapters.explain import Explainer
from agenteval.adapters.reader import Adapter, failed_result, result_of
from agenteval.adapters.schema_file import SchemaFit, load_adapter
from agenteval.cli.options import (
    count_option,
    input_argument,
    keep_raw_option,
    max_steps_option,
    output_option,
    progress_option,
    redact_option,
    strict_option,
)
from agenteval.cli.tool import tool
from agenteval.errors import FAILED, OK
from agenteval.streams.console import Console
from agenteval.streams.output import Output, guarded, write_record
from agenteval.streams.redaction import Redactor
from agenteval.streams.source import Source, read_records
from agenteval.streams.text import visible
from agenteval.wire.adapter_schema import HeadlessAdapter
from agenteval.wire.records import Raw, Record


@tool("ae-extract")
@input_argument("RAW")
@click.option("-s", "--schema", required=True, metavar="FILE|NAME", help="Adapter schema of the agent that ae-run ran.")
@keep_raw_option
@max_steps_option
@click.option(
    "--explain", is_flag=True, help="Show which rule of the schema matches each raw line, and what it takes from it."
)
@count_option("-j", "--concurrency", least=1, default=1, help="Accepted for compatibility; has no effect.")
@redact_option
@output_option
@strict_option
@progress_option
def main(
    path: str | None,
    schema: str,
    keep_raw: bool,
    max_steps: int,
    explain: bool,
    concurrency: int,
    no_redact: bool,
    output: str | None,
    strict: bool,
    progress: bool | None,
    debug: bool,
) -> int:
    """Parse raw agent output into trajectories: thoughts, messages, tool calls, tokens, the answer.

    RAW is what ae-run wrote (or stdin). The schema is a file or a name: `claude`, `acp` for what
    `ae-run -- CMD` wrote, or `text` for an agent that just prints its answer. Unknown fields of the
    records pass through.

    Examples:
      ae-extract raw.jsonl -s claude -o results.jsonl
      ae-run prompts.jsonl -s claude | ae-extract -s claude | jq -r '.id + ": " + .output'
      ae-run prompts.jsonl --simple "echo {}" | ae-extract -s text
      ae-extract -s my.json --explain raw.jsonl | less
    """
    console = Console("ae-extract", progress=progress, strict=strict, output=output)
    redact = Redactor(None if no_redact else os.environ)
    console.redact = redact
    adapter = load_adapter(schema)
    adapter.max_steps = max_steps
    source = Source(path)
    target = Output(output, inputs=[source])
    target.encode = redact.line
    console.begin(None, "records")
    records = read_records(source, Raw, console)
    if explain:
        write_explanations(records, adapter.config, schema, target, console)
    else:
        write_results(records, adapter, SchemaFit(schema, console.say), target, console, keep_raw=keep_raw)
    console.finish()
    target.close()
    return FAILED if console.refused else OK


def write_results(
    records: Iterable[Record], adapter: Adapter, fit: SchemaFit, target: Output, console: Console, *, keep_raw: bool
) -> None:
    """Writes the result of each record, and notes whether the schema matches anything in them."""

    def failed(raw: Record, error: Exception) -> Record:
        return failed_result(raw, adapter, console.fault(raw["id"], error))

    for raw in records:
        result = guarded(raw, lambda raw: result_of(raw, adapter, keep_raw=keep_raw), failed)
        write_record(target, result, console)
        fit.add(raw, result)
        console.advance(raw["id"])
    fit.finish()


def write_explanations(
    records: Iterable[Record], config: HeadlessAdapter, schema: str, target: Output, console: Console
) -> None:
    """Writes what each rule reads from the lines of each record, then the rules that were never used."""
    explainer = Explainer(config, schema)

    def show(lines: Iterator[str]) -> None:
        """Writes lines as they arrive, many at a time, without secrets and control characters."""
        while some := list(islice(lines, 1000)):
            target.write_bytes("".join(f"{visible(console.redact(line))}\n" for line in some).encode())

    def failed(raw: Record, error: Exception) -> None:
        console.fault(raw["id"], error)

    for raw in records:
        guarded(raw, lambda raw: show(explainer.explain(raw)), failed)
        console.advance(raw["id"])
    show(explainer.ending())
