"""ae-merge: shards of one run → one file with every id once, in the order of the prompts."""

import click

from agenteval.agents.prompts import Prompts
from agenteval.cli.options import max_line_option, output_option, strict_option
from agenteval.cli.tool import tool
from agenteval.cluster.merge import PREFERENCES, ShardFile, ShardIndex, in_order, report
from agenteval.errors import FAILED, OK
from agenteval.streams.console import Console
from agenteval.streams.output import Output
from agenteval.streams.source import Source

EXIT_1 = "finished, but lines were refused, prompts have no record, or records with one id differ; they are reported"


@tool("ae-merge", exit_status={1: EXIT_1})
@click.argument("paths", metavar="[SHARDS]...", nargs=-1)
@click.option("--stdin", is_flag=True, hidden=True, expose_value=False)
@click.option("--prompts", metavar="FILE", help="The run's prompts: report what is missing, and restore their order.")
@click.option(
    "--prefer",
    type=click.Choice(PREFERENCES),
    help="Which of several differing records with one id to keep; ok: the one whose agent did not fail.",
)
@max_line_option
@output_option
@strict_option
def main(
    paths: tuple[str, ...],
    prompts: str | None,
    prefer: str | None,
    max_line: int,
    output: str | None,
    strict: bool,
    debug: bool,
) -> int:
    """Merge the shards of a run into one file: every id once.

    SHARDS are files of raw records, results or trials; stdin if missing or -. With --prompts the records are
    written in the order of the prompts, and missing ones are reported; otherwise in the order of the files. Records
    are not changed. One that occurs several times is written once. If its copies differ, that is a conflict: it is
    reported, and the first is kept unless --prefer says otherwise.

    Examples:
      ae-merge shard-*.jsonl --prompts prompts.jsonl -o all.jsonl
      ae-merge first.jsonl retried.jsonl --prefer ok -o all.jsonl
      cat shard-*.jsonl | ae-merge --prompts prompts.jsonl | ae-format -f table

    Only an index of the ids is kept in memory, not the records. To run what is missing, repeat the command of the run
    with -o all.jsonl --resume.
    """
    console = Console("ae-merge", strict=strict)
    shards = [ShardFile(path, max_line=max_line) for path in paths or ("-",)]
    expected = Source(prompts) if prompts is not None else None
    target = Output(output, inputs=[*shards, *([expected] if expected else [])], lazy=True)
    index = ShardIndex(shards, console, prefer)
    target.open()
    missing: list[str] = []
    for record in in_order(index, Prompts(expected, console) if expected else None, missing, console):
        target.write_bytes(record + b"\n")
    target.close()
    report(index, missing, prompts or "", console)
    return FAILED if console.refused or missing else OK
