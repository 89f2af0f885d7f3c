"""Writes a man page for every executable from the help texts in docs/tools.md; `make man` and each build of a wheel do.

docs/tools.md is generated from `--help` and tests keep it up to date, so a build needs none of the packages that the
tools import. In a checkout with bin/ on PATH, `man ae-run` finds man/man1/ae-run.1; pip installs share/man/man1.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ROOT = Path(__file__).resolve().parent.parent
# What roff would read as a command, print as a typographic quote, or break copied commands with.
ESCAPES = {
    "\\": r"\(rs",
    "-": r"\-",
    "'": r"\(aq",
    "`": r"\(ga",
    "^": r"\(ha",
    "~": r"\(ti",
}
TERM = re.compile(r"  (\S.*?)(?:   *(\S.*))?")  # of a list in two columns: the term, and what it means if on that line


def escape(text: str) -> str:
    """Returns a line of text as roff, in which a dot at the start does not begin a request."""
    plain = "".join(ESCAPES.get(char, char if char.isascii() else rf"\[u{ord(char):04X}]") for char in text)
    return rf"\&{plain}" if plain.startswith(".") else plain


def sections(text: str) -> Iterator[tuple[str, list[str]]]:
    """Yields name and lines of each part of a help text: SYNOPSIS, DESCRIPTION, then those with a heading."""
    usage, _, rest = text.partition("\n\n")
    yield "SYNOPSIS", [" ".join(usage.removeprefix("Usage:").split())]
    name = "DESCRIPTION"
    lines: list[str] = []
    for line in rest.splitlines():
        if heading := re.fullmatch(r"(Examples|Options|Exit status):", line):
            yield name, lines
            name, lines = heading[1].upper(), []
        elif name == "EXAMPLES" and re.match(r"\S", line):  # prose after them
            yield name, lines
            name, lines = "NOTES", [line]
        else:
            lines.append(line)
    yield name, lines


def prose(lines: list[str]) -> Iterator[str]:
    """Yields paragraphs that may be filled; indented lines stay as they are."""
    literal = False
    for line in lines:
        if line and line.startswith(" ") != literal:
            literal = not literal
            yield from [".EX"] if literal else [".EE", ".PP"]
        if line:
            yield escape(line)
        elif not literal:
            yield ".PP"
    if literal:
        yield ".EE"


def definitions(lines: list[str]) -> Iterator[str]:
    """Yields a list of options or exit codes; a further line of a meaning is indented more than a term."""
    for line in lines:
        if found := TERM.fullmatch(line):
            yield from (".TP", rf"\fB{escape(found[1])}\fR")
        text = (found[2] or "") if found else line.strip()
        if text:
            yield escape(text)


BODIES = {"OPTIONS": definitions, "EXIT STATUS": definitions}


def man_page(name: str, text: str, others: list[str], version: str) -> str:
    """Returns the roff source of a tool's page."""
    parts = list(sections(text))
    description = next(lines for section, lines in parts if section == "DESCRIPTION")
    job = re.split(r"\. |: `", " ".join(description[: description.index("")]))[0].removesuffix(".")
    lines = [f'.TH {escape(name).upper()} 1 "" "agenteval {version}" "agenteval"', ".nh", ".ad l"]
    lines += [".SH NAME", rf"{escape(name)} \- {escape(job[0].lower() + job[1:])}"]
    for section, content in parts:
        while content and not content[-1]:
            content.pop()
        lines += [f".SH {section}", *BODIES.get(section, prose)(content)]
    references = [rf".BR {escape(other)} (1)" for other in others]
    lines += [".SH SEE ALSO", ",\n".join(references)]
    return "\n".join(lines) + "\n"


def man_pages(tools: str, version: str) -> dict[str, str]:
    """Returns name and source of every page, from the text of docs/tools.md."""
    helps = dict(re.findall(r"^## (ae[a-z-]*)\n\n```\n(.*?)^```$", tools, re.DOTALL | re.MULTILINE))
    pages = {}
    for name, text in helps.items():
        pages[name] = man_page(name, text, [other for other in helps if other != name], version)
    return pages


def write_man_pages(root: Path, version: str) -> None:
    """Writes man/man1 below `root`, and removes pages of tools that are gone."""
    pages = man_pages((root / "docs" / "tools.md").read_text(encoding="utf-8"), version)
    folder = root / "man" / "man1"
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in pages.items():
        (folder / f"{name}.1").write_text(text, encoding="ascii")
    for path in folder.glob("ae*.1"):
        if path.stem not in pages:
            path.unlink()


class BuildHook(BuildHookInterface[Any]):
    """Called by hatchling before it packs a wheel; shared-data in pyproject.toml adds the pages to it."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Writes the pages."""
        write_man_pages(Path(self.root), self.metadata.version)


if __name__ == "__main__":
    from agenteval import __version__

    write_man_pages(ROOT, __version__)
