"""Text for a terminal: colours, lines broken at its width, and the bar chart of ae-balance."""

from collections.abc import Iterator

from agenteval.streams.text import clip, one_line, pad, width
from agenteval.wire.balance import Balance

GREEN, RED, YELLOW, CYAN = "\x1b[32m", "\x1b[31m", "\x1b[33m", "\x1b[36m"
BOLD, DIM, PLAIN = "\x1b[1m", "\x1b[2m", "\x1b[0m"
MOST_NAME = 24
BAR, SHORT_BAR = "█", "▌"
FEW = "  few"


def paint(text: str, color: str, wanted: bool) -> str:
    """The text in that colour, if colours are wanted."""
    return f"{color}{text}{PLAIN}" if wanted and text else text


def wrap(text: str, columns: int) -> list[str]:
    """One line of text as lines of at most `columns` columns, broken at spaces if possible."""
    lines, line, room = [], "", max(2, columns)  # 2: a wide character must fit
    for word in _pieces(text, room):
        if line and width(line) + width(word.rstrip()) > room:
            lines.append(line.rstrip())
            line, word = "", word.lstrip()
        line += word
    return [*lines, line.rstrip()]


def _pieces(text: str, room: int) -> Iterator[str]:
    """The words of a text, each with the spaces before it; too wide words are split."""
    word, used = "", 0
    for char in text:
        size = width(char)
        if (char == " " and word.strip()) or used + size > room:
            yield word
            word, used = "", 0
        word, used = word + char, used + size
    if word:
        yield word


def hanging(title: str, text: str, column: int, columns: int) -> list[str]:
    """A title and its text, which begins in that column and is wrapped there; below the title on a narrow terminal."""
    if columns - column < 24:
        return [title, *("  " + line for line in wrap(text, columns - 2))]
    first, *more = wrap(text, columns - column)
    return [title + " " * (column - width(title)) + first, *(" " * column + line for line in more)]


# --- bars -----------------------------------------------------------------------------------------


def chart(balance: Balance, columns: int) -> list[str]:
    """A line per category, the longest bar as long as the columns allow; underrepresented ones are marked."""
    names = [one_line(category.name, MOST_NAME) for category in balance.categories]
    name_size = min(MOST_NAME, max(map(width, names), default=0))
    count_size = len(f"{max((category.count for category in balance.categories), default=0):,}")
    lines = []
    for name, category in zip(names, balance.categories, strict=True):
        head = f"{pad(clip(name, name_size), name_size)}  {category.count:>{count_size},}  {category.percentage:>5.1f}%"
        mark = FEW if category.name in balance.underrepresented else ""
        room = columns - 1 - len(FEW) - name_size - count_size - 12
        line = f"{head}  {bar(category.count, balance.categories[0].count, room)}{mark}"
        lines.append(clip(line.rstrip(), columns - 1))
    return lines


def bar(count: int, largest: int, room: int) -> str:
    """A bar in proportion to the largest count; never empty if there is room."""
    return BAR * (count * max(0, room) // largest) or (SHORT_BAR if room > 0 else "")
