"""The bar chart of ae-balance: a bar per category, for a terminal."""

from __future__ import annotations

from agenteval.streams.text import clip, one_line, pad, width
from agenteval.wire.balance import Balance

MOST_NAME = 24
BAR, SHORT_BAR = "█", "▌"
FEW = "  few"


def chart(balance: Balance, columns: int) -> list[str]:
    """Returns a line per category, the longest bar as long as the columns allow; underrepresented ones are marked."""
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
    """Returns a bar in proportion to the largest count; never empty if there is room."""
    return BAR * (count * max(0, room) // largest) or (SHORT_BAR if room > 0 else "")
