"""Write the pages that are made from the code: the wire format from its types, the tools from their help."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from agenteval.cli.suite import own_tools
from agenteval.wire.json_schema import SCHEMAS, schema_of

ROOT = Path(__file__).resolve().parent.parent
MADE = "<!-- Made by `make docs`; change the code, not this page. -->"

WIRE_HEAD = f"""# The wire format

{MADE}

JSON, camelCase, one record per line. Fields that the suite does not know pass through every stage untouched and in
order. A field without a dot is optional; one that is null or missing is not known, which is not the same as 0.
`ae-schemas NAME` prints each of these as JSON Schema 2020-12, to validate with in any language; this page and those
schemas are made from the types that check the input.
"""

TOOLS_HEAD = f"""# The tools

{MADE}

What each executable says with `--help`.
"""


# --- the wire format ----------------------------------------------------------------------------


def wire_format() -> Iterator[str]:
    """The page of records, each with the parts that are its own."""
    yield WIRE_HEAD
    shown: set[str] = set()
    for name in SCHEMAS:
        schema = schema_of(name)
        yield f"## {name}\n\n{schema['description']}\n"
        yield table(schema)
        for part, inner in schema.get("$defs", {}).items():
            if part not in shown and inner.get("properties"):
                shown.add(part)
                yield f"### {part}\n\n{inner['description']}\n"
                yield table(inner)


def table(schema: dict[str, Any]) -> str:
    """One row per field."""
    required = schema.get("required", ())
    rows = [
        f"| `{name}`{' •' if name in required else ''} | {type_of(field)} | {cell(field.get('description', ''))} |"
        for name, field in schema["properties"].items()
    ]
    return "\n".join(["| field | type | |", "|---|---|---|", *rows]) + "\n"


def cell(text: str) -> str:
    """Our own words, which may be markup, in a table."""
    return text.replace("|", r"\|")


def type_of(field: dict[str, Any]) -> str:
    """A field's type in a few words."""
    if "$ref" in field:
        return str(field["$ref"]).rpartition("/")[2]
    if "anyOf" in field:
        return " or ".join(type_of(choice) for choice in field["anyOf"])
    if "enum" in field:
        return " or ".join(f"`{value}`" for value in field["enum"])
    if "const" in field:
        return f"`{field['const']}`"
    if field.get("type") == "array":
        return f"list of {type_of(field['items'])}" if field.get("items") else "list"
    if field.get("type") == "object" and isinstance(field.get("additionalProperties"), dict):
        return f"object of {type_of(field['additionalProperties'])}"
    return str(field.get("type", "anything"))


# --- the tools ----------------------------------------------------------------------------------


def tools() -> Iterator[str]:
    """The page of help texts."""
    yield TOOLS_HEAD
    for name in own_tools():
        shown = subprocess.run([ROOT / "bin" / name, "--help"], capture_output=True, text=True, check=True).stdout
        yield f"## {name}\n\n```\n{shown.rstrip()}\n```\n"


PAGES = {"wire-format.md": wire_format, "tools.md": tools}


def main() -> None:
    """Write the pages; with --check only say which of them are not up to date."""
    stale = []
    for name, make in PAGES.items():
        page = ROOT / "docs" / name
        text = "\n".join(make())
        if not page.exists() or page.read_text(encoding="utf-8") != text:
            stale.append(name)
            if "--check" not in sys.argv:
                page.write_text(text, encoding="utf-8")
    if "--check" in sys.argv and stale:
        sys.exit(f"docs: not up to date: {', '.join(stale)}; run `make docs`")


if __name__ == "__main__":
    main()
