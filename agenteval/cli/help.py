"""Wraps a help page to the width of the terminal.

Examples longer than 80 columns are broken between options with a backslash, so that they can be copied.
"""

import re
from collections.abc import Iterator
from itertools import groupby
from textwrap import wrap

from agenteval.streams.text import terminal_columns

WIDEST = 100
NO_TERMINAL = 80  # columns of a page that goes to a pipe
NARROW = 60  # columns below which an option and its text are not side by side
DEEP = 6  # columns by which the text below an option is indented
EXAMPLE = 80  # columns of an example
SHELL_WORD = re.compile(r"""(?:"(?:\\.|[^"\\])*"|'[^']*'|\\.|[^\s"'\\])+""")
DEFINITION = re.compile(r"(\s*\S+(?: \S+)*\s{2,})\S")  # a term, a gap, and its definition


def help_columns() -> int:
    """Returns the width of a help page: that of the terminal, up to a limit."""
    return min(WIDEST, terminal_columns(NO_TERMINAL))


def wrap_page(text: str, columns: int) -> str:
    """Returns the page with paragraphs and lists wrapped; those that fit are unchanged."""
    lines: list[str] = []
    heading = ""
    for indented, group in groupby(text.splitlines(), key=lambda line: line[:1] == " "):
        block = list(group)
        if indented and heading.startswith("Example"):
            lines += [part for line in block for part in wrap_example(line)]
        else:
            lines += [part for item in _items(block) for part in _wrap_item(item, columns)]
            heading = heading if indented else block[-1]
    return "\n".join(lines)


def wrap_example(line: str) -> list[str]:
    """Returns a command as lines that can be copied, broken before options and pipes if it is too long."""
    if len(line) <= EXAMPLE:
        return [line]
    indent = " " * _indent(line)
    parts: list[str] = []  # an option with its value, a command with its first arguments
    for word in SHELL_WORD.findall(line):
        if not parts or word.startswith(("-", "|", "&&", "#")):
            parts.append(word)
        else:
            parts[-1] += f" {word}"
    comment = [f"{indent}{parts.pop()}"] if parts[-1].startswith("#") else []
    lines = [indent + parts[0]]
    for part in parts[1:]:
        if len(lines[-1]) + len(part) + len("  \\") <= EXAMPLE:
            lines[-1] += f" {part}"
        else:
            lines[-1] += " \\"
            lines.append(f"{indent}    {part}")
    return comment + lines


def _items(block: list[str]) -> Iterator[list[str]]:
    """Yields the parts of a block that are wrapped separately: paragraphs, and list items with their lines."""
    least = min((_indent(line) for line in block if line.strip()), default=0)
    item: list[str] = []
    for line in block:
        starts = not line.strip() or (_indent(line) == least > 0) or line.lstrip().startswith("- ")
        if item and (starts or not item[-1].strip()):
            yield item
            item = []
        item.append(line)
    if item:
        yield item


def _wrap_item(item: list[str], columns: int) -> list[str]:
    if all(len(line) <= columns for line in item):
        return item
    indent, text = _indent(item[0]), " ".join(line.strip() for line in item)
    found = DEFINITION.match(item[0]) if indent else None
    if found is None:
        return wrap_words(text, columns, indent + 2 * (indent > 0 or text.startswith("- ")), first=indent)
    term = found[1].rstrip()
    hang = len(found[1]) if len(found[1]) <= columns // 2 else indent + 4
    lines = wrap_words(text[len(term.strip()) :], columns, hang)
    return [term.ljust(hang) + lines[0].lstrip(), *lines[1:]] if len(term) < hang else [term, *lines]


def wrap_words(text: str, columns: int, indent: int, first: int | None = None) -> list[str]:
    """Returns the wrapped lines of a text, with an indent, which may differ in the first; words are not broken."""
    start = " " * (indent if first is None else first)
    return wrap(
        " ".join(text.split()),
        columns,
        initial_indent=start,
        subsequent_indent=" " * indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def option_list(records: list[tuple[str, str]], columns: int) -> str:
    """Returns options with their texts below them, for a narrow terminal."""
    lines = [
        line
        for name, text in records
        for line in (*wrap_words(name, columns, 4, first=2), *wrap_words(text, columns, DEEP))
    ]
    return "".join(f"{line}\n" for line in lines)


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())
