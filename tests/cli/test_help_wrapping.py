"""How a help page is wrapped."""

from __future__ import annotations

from pathlib import Path

from agenteval.cli.help import wrap_page
from tests.support.tool import on_terminal

PAGE = """\
One line that is long enough to be wrapped here.

Short lines
stay.

Forms:
  csv    for spreadsheets, and a
         second line of it
  a-very-long-term-of-all  what it means

- an item of a list that is too long

Examples:
  this is a command that must not be wrapped at all
"""
WRAPPED = """\
One line that is long enough
to be wrapped here.

Short lines
stay.

Forms:
  csv    for spreadsheets,
         and a second line
         of it
  a-very-long-term-of-all
      what it means

- an item of a list that is
  too long

Examples:
  this is a command that must not be wrapped at all"""


def test_paragraphs_and_definitions_are_wrapped_and_examples_are_not() -> None:
    assert wrap_page(PAGE, 28) == WRAPPED
    assert wrap_page(PAGE, 80) == PAGE.rstrip("\n")


def test_the_width_is_that_of_the_terminal(tmp_path: Path) -> None:
    lines = on_terminal("ae-balance", "--help", cwd=tmp_path, columns=46).expect(0).stdout.splitlines()
    text = [line for line in lines if not line.startswith("  ae-") and not line.startswith("  cat ")]
    assert max(map(len, text)) <= 46 and sum(len(line) > 38 for line in text) > 5, text
