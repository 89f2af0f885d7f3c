"""ae-adapters: the adapter schemas that come with the suite."""

from collections.abc import Iterator

import click
import msgspec

from agenteval.adapters.schema_file import bundled_adapters, bundled_path, parse_headless
from agenteval.adapters.trajectory import richness_of
from agenteval.cli.options import Names, output_option
from agenteval.cli.tool import OF_LISTS, tool
from agenteval.errors import OK, UserError, nearest
from agenteval.streams.output import Output
from agenteval.streams.text import as_lines, clip, pad, pretty_json, terminal_columns

WIDEST = 44  # width of a column in a pipe; a longer cell shifts the rest of its line
TITLES = ("ADAPTER", "TRAJECTORY", "TESTED WITH", "WHAT IT IS")


class AdapterEntry(msgspec.Struct, rename="camel"):
    """The entry of one adapter; `kind` is the trajectoryRichness of its results."""

    name: str
    kind: str
    proven_on: str | None
    session_mode: str
    command: list[str]
    description: str


@tool("ae-adapters", exit_status=OF_LISTS)
@click.argument(
    "name", metavar="[NAME]", required=False, type=Names(lambda: {entry.name: summary_of(entry) for entry in entries()})
)
@click.option("--json", "as_json", is_flag=True, help="Print the list, or the entry of NAME, as JSON.")
@output_option
def main(name: str | None, as_json: bool, output: str | None, debug: bool) -> int:
    """List the adapter schemas that come with the suite, or print one to start your own from.

    Without a NAME: each adapter, what its trajectories contain (full: thoughts and tool calls; or messages-only), the
    program and version it was tested with, and what it is for. On a terminal, lines are cut to its width; in a pipe
    they are not. With a NAME: that adapter's schema file. `ae-run -s NAME` uses it.

    Examples:
      ae-adapters
      ae-adapters codex
      ae-adapters claude | jq '.autoApprove += ["--model", "opus"]' > my.json
      ae-adapters --json | jq -r '.[] | select(.kind == "full") | .name'
    """
    page = None
    if name is not None:
        page = pretty_json(entry_of(name)) if as_json else schema_file(name)
    target = Output(output)
    target.write_bytes(page or (pretty_json(entries()) if as_json else listing(target.isatty())))
    target.close()
    return OK


def entries() -> list[AdapterEntry]:
    """Returns all adapters, by name."""
    return [entry_of(name) for name in bundled_adapters()]


def entry_of(name: str) -> AdapterEntry:
    """Returns the entry of one adapter; raises UserError if it does not exist."""
    config = parse_headless(schema_file(name), name)
    types = ["message", *(event.emit_as for event in config.output_events or [])]
    kind = richness_of("full" if config.output_mode == "passthrough" else None, types)
    return AdapterEntry(
        config.name, kind, config.proven_on, config.session_mode, config.command, config.description or ""
    )


def summary_of(entry: AdapterEntry) -> str:
    """Returns the first sentence of the description."""
    return entry.description.partition(". ")[0].rstrip(".")


def listing(in_terminal: bool) -> bytes:
    """Returns a line per adapter: in full or, for a terminal, with a header and cut to its width."""
    if not in_terminal:
        rows = [(entry.name, entry.kind, entry.proven_on or "-", summary_of(entry)) for entry in entries()]
        return as_lines(_aligned(rows, WIDEST))
    columns = terminal_columns()
    rows = [TITLES, *((entry.name, entry.kind, tried_on(entry), aim_of(entry)) for entry in entries())]
    return as_lines(clip(line, columns) for line in _aligned(rows, columns))


def tried_on(entry: AdapterEntry) -> str:
    """Returns the tested program and its version, without the package's owner; their number if there are several."""
    tried = (entry.proven_on or "-").split(", ")
    return tried[0].rpartition("/")[2] if len(tried) == 1 else f"{len(tried)} programs"


def aim_of(entry: AdapterEntry) -> str:
    """Returns the summary without the name, which is shown beside it."""
    return summary_of(entry).removeprefix(f"{entry.name}: ").removeprefix(f"{entry.name}, ")


def _aligned(rows: list[tuple[str, str, str, str]], widest: int) -> Iterator[str]:
    widths = [min(widest, max(map(len, column))) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join(pad(cell, width) for cell, width in zip(row, widths, strict=True)).rstrip()


def schema_file(name: str) -> bytes:
    """Returns the file of one adapter; raises UserError with similar names if it does not exist."""
    if name not in bundled_adapters():
        raise UserError(f'no adapter is named "{name}"; {nearest(name, bundled_adapters())}')
    with open(bundled_path(name), "rb") as file:
        return file.read()
