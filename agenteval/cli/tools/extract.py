"""ae-extract: raw → results: read what an agent printed with its adapter schema."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING

from agenteval.adapters.bundled import load_adapter
from agenteval.adapters.extract import result_of
from agenteval.cli.options import input_argument, keep_raw_option, output_option, progress_option, strict_option
from agenteval.cli.startup import click
from agenteval.cli.tool import tool
from agenteval.errors import FAILED, OK
from agenteval.streams.console import Console
from agenteval.streams.output import Output
from agenteval.streams.source import Source, read_records
from agenteval.wire.adapter_schema import HeadlessAdapter
from agenteval.wire.records import Raw

if TYPE_CHECKING:
    from agenteval.adapters.explain.listing import Explainer


@tool("ae-extract")
@input_argument("RAW")
@click.option("-s", "--schema", required=True, metavar="FILE|NAME", help="The schema of the agent that ae-run ran.")
@keep_raw_option
@click.option("--explain", is_flag=True, help="Show which rule of the schema takes which raw line, and what.")
@output_option
@strict_option
@progress_option
def main(
    path: str | None,
    schema: str,
    keep_raw: bool,
    explain: bool,
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
    adapter = load_adapter(schema)
    source = Source(path)
    target = Output(output, inputs=[source])
    console.begin(None, "records")
    explainer = explaining(adapter.config, schema) if explain else None
    unread, read = 0, False  # records with lines of which the schema took nothing; whether it took something of any
    for raw in read_records(source, Raw, console):
        if explainer is not None:
            write_lines(target, explainer.explain(raw))
        else:
            result = result_of(raw, adapter, keep_raw=keep_raw)
            target.write(result)
            read = read or bool(result["trajectory"] or result["output"] or result.get("errors"))
            unread += not read and any(raw["rawLines"])
        console.advance(label=raw["id"])
    if explainer is not None:
        write_lines(target, explainer.ending())
    console.finish()
    if unread and not read:
        console.say(f"the schema {schema} took nothing from any line; with --explain you see why")
    target.close()
    return FAILED if console.refused else OK


def explaining(config: HeadlessAdapter, source: str) -> Explainer:
    """What explains records by a schema; loaded only where it is asked for."""
    from agenteval.adapters.explain.listing import Explainer

    return Explainer(config, source)


def write_lines(target: Output, lines: Iterator[str]) -> None:
    """Writes lines as they come, many at a time."""
    while some := list(islice(lines, 1000)):
        target.write_bytes("".join(f"{line}\n" for line in some).encode())
