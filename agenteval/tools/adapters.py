"""ae-adapters: the adapter schemas that ship with the suite."""

from __future__ import annotations

import msgspec

from agenteval.adapter import bundled_adapters, bundled_path, tells
from agenteval.command import output_option, tool
from agenteval.completion import Names
from agenteval.errors import OK, UserError, nearest
from agenteval.headless import parse_headless
from agenteval.lightclick import click
from agenteval.stream import Output, encode

WIDEST = 44  # of a column; what is longer moves the rest of its line


class Entry(msgspec.Struct, rename="camel"):
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
@click.option("--json", "as_json", is_flag=True, help="The list as JSON, with the whole descriptions.")
@output_option
def main(name: str | None, as_json: bool, output: str | None, debug: bool) -> int:
    """List the adapter schemas that come with the suite, or print one to start your own from.

    Without a NAME: each adapter, how much it tells (full: thoughts and tool calls; messages-only), the program and
    version it was tried on, and what it is for. With one: its schema, as it is. `ae-run -s NAME` uses it.

    Examples:
      ae-adapters
      ae-adapters codex
      ae-adapters claude | jq '.autoApprove += ["--model", "opus"]' > my.json
      ae-adapters --json | jq -r '.[] | select(.kind == "full") | .name'
    """
    page = schema_file(name) if name is not None else as_list() if as_json else listing()
    target = Output(output)
    target.write_bytes(page)
    target.close()
    return OK


def entries() -> list[Entry]:
    """All adapters, by name."""
    configs = [parse_headless(schema_file(name), name) for name in bundled_adapters()]
    return [
        Entry(
            config.name, tells(config), config.proven_on, config.session_mode, config.command, config.description or ""
        )
        for config in configs
    ]


def summary_of(entry: Entry) -> str:
    """The first sentence of its description."""
    return entry.description.partition(". ")[0].rstrip(".")


def listing() -> bytes:
    """A line per adapter."""
    rows = [[entry.name, entry.kind, entry.proven_on or "-", summary_of(entry)] for entry in entries()]
    widths = [min(WIDEST, max(map(len, column))) for column in zip(*rows, strict=True)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "".join(f"{line}\n" for line in lines).encode()


def as_list() -> bytes:
    """All adapters as a list."""
    return msgspec.json.format(encode(msgspec.to_builtins(entries())), indent=2) + b"\n"


def schema_file(name: str) -> bytes:
    """The file of one adapter; UserError with the names that come close."""
    if name not in bundled_adapters():
        raise UserError(f'no adapter is named "{name}"; {nearest(name, bundled_adapters())}')
    with open(bundled_path(name), "rb") as file:
        return file.read()
