"""ae-schemas: the wire format as JSON Schema, for other languages."""

import os

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
@click.option("-j", "--json", "as_json", is_flag=True, help="Print all schemas as one JSON object, by name.")
@click.option("-s", "--split", is_flag=True, help="Write each schema to NAME.json in the directory given with -o.")
@click.option("-l", "--list", "as_list", is_flag=True, help="Print the names and what they describe (the default).")
@output_option
def main(name: str | None, as_json: bool, split: bool, as_list: bool, output: str | None, debug: bool) -> int:
    """Export the wire format as JSON Schema (2020-12), for validation in any language.

    Without a NAME, print the names and what they describe; with one, its schema, which is self-contained. Unknown
    fields are allowed everywhere, as the tools pass them through. Fields that the tools always write are required,
    although the tools also read files from other harnesses that lack some of them.

    Examples:
      ae-schemas
      ae-schemas CaptureResult --json
      ae-schemas --json -o schemas.json
      ae-schemas --split -o schemas/
      ae-schemas TrialResult | jq '.properties | keys'
    """
    if as_list and (name is not None or as_json or split):
        raise UserError("--list prints names only: leave it out to export schemas")
    if split:
        write_files(name, output)
        return OK
    if name is not None:
        page = text_of(name)
    elif as_json:
        page = pretty_json({one: schema_of(one) for one in SCHEMAS})
    else:
        page = as_lines(aligned([(one, summary_of(one)) for one in SCHEMAS]))
    write(page, output)
    return OK


def write(page: bytes, output: str | None) -> None:
    """Writes a page to a file, or to stdout."""
    target = Output(output)
    target.write_bytes(page)
    target.close()


def write_files(name: str | None, output: str | None) -> None:
    """Writes each schema into a file of its own."""
    if name is not None:
        raise UserError(f"--split writes all schemas: leave it out to write {name} with -o FILE, or leave out {name}")
    if output in (None, "-"):
        raise UserError("--split needs a directory: add -o DIR")
    for one in SCHEMAS:
        write(text_of(one), os.path.join(output or "", f"{one}.json"))


def text_of(name: str) -> bytes:
    """Returns one schema; raises UserError with similar names if it does not exist."""
    name = OTHER_NAMES.get(name, name)
    if name not in SCHEMAS:
        raise UserError(f'no schema is named "{name}"; {nearest(name, SCHEMAS)}')
    return pretty_json(schema_of(name))
