"""The worked examples of CONTRIBUTING.md, as files and changes."""

from __future__ import annotations

import re

from tests.support.tool import ROOT

CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text()


def _blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", CONTRIBUTING, re.DOTALL | re.MULTILINE)


def new_files() -> dict[str, str]:
    """Returns path → content of the files that the examples add."""
    return dict(block.removeprefix("# ").split("\n", 1) for block in _blocks("python"))


def scripts() -> dict[str, str]:
    """Returns the lines for [project.scripts]: executable → entry point."""
    return dict(line.replace('"', "").split(" = ") for block in _blocks("toml") for line in block.splitlines())


def changes() -> list[tuple[str, str, str]]:
    """Returns the changes to existing files: path, the lines before, the lines after."""
    (diff,) = _blocks("diff")
    found = []
    for path, change in re.findall(r"^--- (\S+)\n(.*?)(?=^--- |\Z)", diff, re.DOTALL | re.MULTILINE):
        lines = [(line[0], line[1:]) for line in change.splitlines(keepends=True)]
        before, after = ("".join(text for sign, text in lines if sign in kept) for kept in (" -", " +"))
        found.append((path, before, after))
    return found
