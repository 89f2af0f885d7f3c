"""Lines on two logarithmic axes, as SVG that follows the reader's light or dark theme."""

from __future__ import annotations

import math
from html import escape
from typing import NamedTuple

WIDTH, HEIGHT = 720, 420
LEFT, RIGHT, TOP, BOTTOM = 70, 190, 50, 55
COLOURS = ("#2563eb", "#dc2626", "#059669", "#d97706", "#7c3aed", "#64748b")
STYLE = """\
text{font:13px system-ui,sans-serif;fill:#1f2937}.title{font-size:15px;font-weight:600}
.grid{stroke:#9ca3af;stroke-opacity:.35}.line{fill:none;stroke-width:2}
@media(prefers-color-scheme:dark){text{fill:#e5e7eb}}"""


class Series(NamedTuple):
    """A line: its name, and its points."""

    name: str
    points: list[tuple[float, float]]


class Axis:
    """A logarithmic axis from pixel `first` to pixel `last`, over whole powers of ten."""

    def __init__(self, values: list[float], first: float, last: float) -> None:
        self.low, self.high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
        self.high = max(self.high, self.low + 1)
        self.first, self.last = first, last

    def at(self, value: float) -> float:
        """Returns the pixel of a value."""
        share = (math.log10(value) - self.low) / (self.high - self.low)
        return round(self.first + share * (self.last - self.first), 1)

    def ticks(self) -> list[float]:
        """Returns the powers of ten."""
        return [10.0**power for power in range(self.low, self.high + 1)]


def draw(title: str, across: str, up: str, series: list[Series]) -> str:
    """Returns the drawing; a table of the values follows as its description, for those who cannot see it."""
    points = [point for one in series for point in one.points]
    x = Axis([point[0] for point in points], LEFT, WIDTH - RIGHT)
    y = Axis([point[1] for point in points], HEIGHT - BOTTOM, TOP)
    described = "; ".join(f"{one.name}: {', '.join(f'{a:g}: {b:.3g}' for a, b in one.points)}" for one in series)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">',
        f"<title>{escape(title)}</title><desc>{escape(described)}</desc><style>{STYLE}</style>",
        f'<text class="title" x="{LEFT}" y="26">{escape(title)}</text>',
        f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 12}" text-anchor="middle">{escape(across)}</text>',
        f'<text x="{LEFT - 8}" y="{TOP - 10}" text-anchor="end">{escape(up)}</text>',
    ]
    for tick in x.ticks():
        parts.append(f'<path class="grid" d="M{x.at(tick)} {TOP}V{HEIGHT - BOTTOM}"/>')
        parts.append(f'<text x="{x.at(tick)}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{tick:,.15g}</text>')
    for tick in y.ticks():
        parts.append(f'<path class="grid" d="M{LEFT} {y.at(tick)}H{WIDTH - RIGHT}"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{y.at(tick) + 4}" text-anchor="end">{tick:,.15g}</text>')
    labels = _spread([y.at(one.points[-1][1]) for one in series])
    for one, label, colour in zip(series, labels, COLOURS, strict=False):
        path = "L".join(f"{x.at(a)} {y.at(b)}" for a, b in one.points)
        parts.append(f'<path class="line" stroke="{colour}" d="M{path}"/>')
        parts += [f'<circle cx="{x.at(a)}" cy="{y.at(b)}" r="3" fill="{colour}"/>' for a, b in one.points]
        end = WIDTH - RIGHT + 12
        parts.append(f'<path stroke="{colour}" stroke-width="2" d="M{end} {label}h14"/>')
        parts.append(f'<text x="{end + 20}" y="{label + 4}">{escape(one.name)}</text>')
    return "\n".join([*parts, "</svg>\n"])


def _spread(wanted: list[float], gap: float = 18) -> list[float]:
    """Returns places as near to the wanted ones as they can be without covering each other."""
    places = dict.fromkeys(range(len(wanted)), 0.0)
    last = -math.inf
    for index in sorted(places, key=lambda one: wanted[one]):
        last = places[index] = max(wanted[index], last + gap)
    over = max(0.0, last - (HEIGHT - BOTTOM))
    return [round(place - over, 1) for place in places.values()]
