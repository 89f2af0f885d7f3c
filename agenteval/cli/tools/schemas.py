"""ae-schemas: the wire format as JSON Schema, for other languages."""

from __future__ import annotations

import click

from agenteval.cli.options import Names, output_option
from agenteval.cli.tool import OF_LISTS, tool
from agenteval.errors import OK, UserError, nearest
from agenteval.streams.output import Output
from agenteval.streams.text import aligned, as_lines, pretty_json
from agenteval.wire.json_schema import OTHER_NAMES, SCHEMAS, schema_of, summary_of


@tool("ae-schemas", exit_status=OF_LISTS)
@click.argument(
    "name", metavar="[NAME]", required=False, type=Names(lambda: {name: summary_of(name) for name in SCHEMAS})
)
@click.option("--json", "as_json", is_flag=True, help="All schemas as one JSON object, by name.")
@output_option
def main(name: str | None, as_json: bool, output: str | None, debug: bool) -> int:
    """Export the wire format as JSON Schema (2020-12), for validation in any language.

    Without a NAME: the names and what they describe. With one: its schema, which refers to no other.
    Unknown fields are allowed everywhere, as the tools pass them through.

    Examples:
      ae-schemas
      ae-schemas CaptureResult --json
      ae-schemas --json -o schemas.json
      ae-schemas TrialResult | jq '.properties | keys'
    """
    page = text_of(name) if name is not None else everything() if as_json else listing()
    target = Output(output)
    target.write_bytes(page)
    target.close()
    return OK


def text_of(name: str) -> bytes:
    """One schema; UserError with the names that come close."""
    name = OTHER_NAMES.get(name, name)
    if name not in SCHEMAS:
        raise UserError(f'no schema is named "{name}"; {nearest(name, SCHEMAS)}')
    return pretty_json(schema_of(name))


def everything() -> bytes:
    """All schemas, by name."""
    return pretty_json({name: schema_of(name) for name in SCHEMAS})


def listing() -> bytes:
    """A line per schema: its name and what it describes."""
    return as_lines(aligned([(name, summary_of(name)) for name in SCHEMAS]))
