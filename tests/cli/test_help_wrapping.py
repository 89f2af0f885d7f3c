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
  ae-example --one 'a -b | c' --two "it's \\" -d" --three value | next -x 1 | and --one-more  # why
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
  this is a command that must not be wrapped at all
  # why
  ae-example --one 'a -b | c' --two "it's \\" -d" --three value | next -x 1 \\
      | and --one-more"""


def test_paragraphs_and_definitions_are_wrapped_and_long_examples_broken_as_a_shell_reads_them() -> None:
    assert wrap_page(PAGE, 28) == WRAPPED
    head, tail = "\nExamples:\n", WRAPPED.partition("\nExamples:\n")[2]
    assert wrap_page(PAGE, 80) == PAGE.partition(head)[0] + head + tail


def test_the_width_is_that_of_the_terminal(tmp_path: Path) -> None:
    lines = on_terminal("ae-balance", "--help", cwd=tmp_path, columns=46).expect(0).stdout.splitlines()
    text = [line for line in lines if not line.startswith("  ae-") and not line.startswith("  cat ")]
    assert max(map(len, text)) <= 46 and sum(len(line) > 38 for line in text) > 5, text
