"""ae-adapters: the adapter schemas that ship with the suite."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from agenteval.adapters.bundled import bundled_adapters, bundled_path
from agenteval.adapters.schema_file import parse_headless
from agenteval.cli.options import Names, output_option
from agenteval.cli.startup import click
from agenteval.cli.tool import tool
from agenteval.errors import OK, UserError, nearest
from agenteval.streams.jsonl import encode
from agenteval.streams.output import Output
from agenteval.streams.text import clip, pad
from agenteval.wire.richness import richness_of

WIDEST = 44  # of a column in a pipe; what is longer moves the rest of its line
TITLES = ("ADAPTER", "TELLS", "TRIED ON", "WHAT IT IS")


class AdapterEntry(msgspec.Struct, rename="camel"):
    """What the list says of one adapter; `kind` is the trajectoryRichness of what it reads."""

    name: str
    kind: str
    proven_on: str | None
    session_mode: str
    command: list[str]
    description: str


@tool("ae-adapters")
@click.argument(
    "name",
    metavar="[NAME]",
    required=False,
    type=Names(lambda: {entry.name: summary_of(entry) for entry in entries()}),
)
@click.option("--json", "as_json", is_flag=True, help="The list, or the entry of NAME, as JSON.")
@output_option
def main(name: str | None, as_json: bool, output: str | None, debug: bool) -> int:
    """List the adapter schemas that come with the suite, or print one to start your own from.

    Without a NAME: each adapter, how much it tells (full: thoughts and tool calls; messages-only),
    the program and version it was tried on, and what it is for. A terminal shows of each what fits
    on a line, a pipe gets it whole. With a NAME: its schema, as it is. `ae-run -s NAME` uses it.

    Examples:
      ae-adapters
      ae-adapters codex
      ae-adapters claude | jq '.autoApprove += ["--model", "opus"]' > my.json
      ae-adapters --json | jq -r '.[] | select(.kind == "full") | .name'
    """
    page = None
    if name is not None:
        page = as_json_text(entry_of(name)) if as_json else schema_file(name)
    target = Output(output)
    target.write_bytes(page or (as_json_text(entries()) if as_json else listing(columns_of(target))))
    target.close()
    return OK


def entries() -> list[AdapterEntry]:
    """All adapters, by name."""
    return [entry_of(name) for name in bundled_adapters()]


def entry_of(name: str) -> AdapterEntry:
    """What the list says of one; UserError if there is none."""
    config = parse_headless(schema_file(name), name)
    types = ["message", *(event.emit_as for event in config.output_events or [])]
    kind = richness_of("full" if config.output_mode == "passthrough" else None, types)
    return AdapterEntry(
        config.name, kind, config.proven_on, config.session_mode, config.command, config.description or ""
    )


def summary_of(entry: AdapterEntry) -> str:
    """The first sentence of its description."""
    return entry.description.partition(". ")[0].rstrip(".")


def columns_of(target: Output) -> int | None:
    """How wide the terminal is; None where nobody looks."""
    if not target.isatty():
        return None
    import shutil  # its compression modules cost 5 ms

    return shutil.get_terminal_size((100, 24)).columns


def listing(columns: int | None) -> bytes:
    """A line per adapter: whole, or with a header and cut to so many columns."""
    if columns is None:
        rows = [(entry.name, entry.kind, entry.proven_on or "-", summary_of(entry)) for entry in entries()]
        return _lines(_aligned(rows, WIDEST))
    rows = [TITLES, *((entry.name, entry.kind, tried_on(entry), aim_of(entry)) for entry in entries())]
    return _lines(clip(line, columns) for line in _aligned(rows, columns))


def tried_on(entry: AdapterEntry) -> str:
    """The program and its version, without the owner of the package; how many programs, if several."""
    tried = (entry.proven_on or "-").split(", ")
    return tried[0].rpartition("/")[2] if len(tried) == 1 else f"{len(tried)} programs"


def aim_of(entry: AdapterEntry) -> str:
    """What it is, without the name where that stands beside it."""
    return summary_of(entry).removeprefix(f"{entry.name}: ").removeprefix(f"{entry.name}, ")


def _aligned(rows: list[tuple[str, str, str, str]], widest: int) -> Iterator[str]:
    widths = [min(widest, max(map(len, column))) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join(pad(cell, width) for cell, width in zip(row, widths, strict=True)).rstrip()


def _lines(lines: Iterable[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


def as_json_text(told: AdapterEntry | list[AdapterEntry]) -> bytes:
    """One entry or all, as JSON for people too."""
    return msgspec.json.format(encode(msgspec.to_builtins(told)), indent=2) + b"\n"


def schema_file(name: str) -> bytes:
    """The file of one adapter; UserError with the names that come close."""
    if name not in bundled_adapters():
        raise UserError(f'no adapter is named "{name}"; {nearest(name, bundled_adapters())}')
    with open(bundled_path(name), "rb") as file:
        return file.read()
