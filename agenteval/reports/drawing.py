"""Drawings as data: the plot of quality against cost as a list of shapes, which the svg form writes as text and the
script of the page makes elements of. So both have one layout, and text of others is escaped in one place for each."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from itertools import pairwise
from typing import NamedTuple

from agenteval.reports.figures import dollars, duration_text, whole
from agenteval.streams.text import clip, visible, width
from agenteval.wire.comparison import RunRanking

LETTER = 0.57  # of the font's size: how wide a letter is on average
LEFT, RIGHT, TOP, BOTTOM = 44.0, 12.0, 18.0, 38.0
POINT = 5.0
LABEL = 11.0  # font size
LONGEST = (24, 16, 10)  # letters of a label: the longest that finds a place
WIDE = 4.0  # a largest amount so many times the smallest is shown on a log scale
AXES = {"cost": "cost of a prompt", "tokens": "tokens of a prompt", "time": "median time"}


class Shape(NamedTuple):
    """An element of SVG: its name, attributes, text, and what is shown when one points at it."""

    tag: str
    attributes: dict[str, str | float]
    text: str = ""
    title: str = ""


class Box(NamedTuple):
    """A rectangle that labels must not overlap."""

    x: float
    y: float
    width: float
    height: float

    def overlap(self, other: "Box") -> float:
        """The area of the intersection."""
        across = min(self.x + self.width, other.x + other.width) - max(self.x, other.x)
        down = min(self.y + self.height, other.y + other.height) - max(self.y, other.y)
        return max(0.0, across) * max(0.0, down)


def markup(shapes: Iterable[Shape]) -> Iterator[str]:
    """Yields the shapes as SVG text."""
    for shape in shapes:
        attributes = "".join(f' {name}="{_value(value)}"' for name, value in shape.attributes.items())
        title = f"<title>{plain(shape.title)}</title>" if shape.title else ""
        yield f"<{shape.tag}{attributes}>{title}{plain(shape.text)}</{shape.tag}>"


def _value(value: str | float) -> str:
    return escape(visible(value)) if isinstance(value, str) else f"{value:.4g}" if abs(value) < 1 else f"{value:.1f}"


def plain(text: str) -> str:
    """Text of others for SVG and HTML: no markup, no control characters."""
    return escape(visible(text.encode(errors="replace").decode()))


def text_width(text: str, size: float) -> float:
    """About how wide a text is; fonts differ."""
    return width(text) * LETTER * size


# --- quality against cost -----------------------------------------------------------------------


class Scale(NamedTuple):
    """Where values are between two ends, on a plain or a logarithmic scale, and where its ticks are."""

    low: float
    high: float
    start: float
    end: float
    log: bool
    ticks: list[float]

    def at(self, value: float) -> float:
        """The coordinate of a value."""
        low, high, value = (math.log(one) if self.log else one for one in (self.low, self.high, value))
        return self.start + (self.end - self.start) * ((value - low) / (high - low) if high > low else 0.5)


def front_plot(ranking: RunRanking, across: float, down: float) -> list[Shape]:
    """Quality against cost in a space of this size: each run with its interval, the front as a dashed line."""
    front = ranking.front
    if front is None:
        return []
    values = {one.run: one.value for one in ranking.runs if one.run in front.amounts and one.value is not None}
    intervals = {one.run: one.interval for one in ranking.runs if one.interval and one.run in values}
    ends = [bound for found in intervals.values() for bound in (found.low, found.high)] or list(values.values())
    y = rate_scale(min(ends), max(ends), down - BOTTOM, TOP)
    x = amount_scale(list(front.amounts.values()), LEFT + 10, across - RIGHT - 10)
    shapes = []
    for tick in y.ticks:
        at = y.at(tick)
        shapes.append(Shape("line", {"class": "grid", "x1": LEFT, "x2": across - RIGHT, "y1": at, "y2": at}))
        shown = f"{tick:.2f}" if ranking.measure == "Score" else f"{tick:.0%}"
        shapes.append(Shape("text", {"class": "tick", "x": LEFT - 6, "y": at + 4, "text-anchor": "end"}, shown))
    for tick in x.ticks:
        at = x.at(tick)
        shapes.append(Shape("line", {"class": "grid", "x1": at, "x2": at, "y1": TOP, "y2": down - BOTTOM}))
        shapes.append(
            Shape(
                "text",
                {"class": "tick", "x": at, "y": down - BOTTOM + 15, "text-anchor": "middle"},
                tick_text(front.against, tick),
            )
        )
    axis = AXES[front.against] + (", log scale" if x.log else "")
    middle: dict[str, str | float] = {"x": (LEFT + across - RIGHT) / 2, "y": down - 5, "text-anchor": "middle"}
    shapes.append(Shape("text", {"class": "tick", **middle}, axis))
    places = {run: (x.at(front.amounts[run]), y.at(value)) for run, value in values.items()}
    line = " ".join(f"{places[run][0]:.1f},{places[run][1]:.1f}" for run in front.runs)
    shapes.append(Shape("polyline", {"class": "front-line", "points": line}))
    taken = []
    for run, (at, height) in places.items():
        low, high = (y.at(intervals[run].low), y.at(intervals[run].high)) if run in intervals else (height, height)
        on = "front" if run in front.runs else "behind"
        about = f"{run}: {_rate(ranking, values[run])}, {_amount(front.against, front.amounts[run])}"
        about += " (on the front)" if run in front.runs else ""
        shapes.append(Shape("line", {"class": f"whisker {on}", "x1": at, "x2": at, "y1": low, "y2": high}))
        shapes.append(Shape("circle", {"class": f"point {on}", "cx": at, "cy": height, "r": POINT}, title=about))
        taken += [Box(at - POINT, height - POINT, 2 * POINT, 2 * POINT), Box(at - 1, high, 2, low - high)]
    taken += [box for one, other in pairwise(front.runs) for box in along(places[one], places[other])]
    room = Box(LEFT, 2, across - LEFT - 2, down - BOTTOM - 2)
    return [*shapes, *labels(places, taken, room)]


def along(start: tuple[float, float], end: tuple[float, float]) -> Iterator[Box]:
    """Yields small boxes on the line between two points, for labels to keep off it."""
    steps = max(1, round(math.dist(start, end) / 6))
    for at in range(1, steps):
        x, y = (first + (last - first) * at / steps for first, last in zip(start, end, strict=True))
        yield Box(x - 2, y - 2, 4, 4)


def tick_text(against: str, value: float) -> str:
    """An amount on the axis."""
    if against == "cost":
        return f"${value:g}"
    return whole(value) if against == "tokens" else duration_text(value)


def _rate(ranking: RunRanking, value: float) -> str:
    return f"{value:.3f}" if ranking.measure == "Score" else f"{value:.1%}"


def _amount(against: str, value: float) -> str:
    return (
        dollars(value)
        if against == "cost"
        else f"{whole(value)} tokens"
        if against == "tokens"
        else duration_text(value)
    )


def labels(places: Mapping[str, tuple[float, float]], taken: list[Box], room: Box) -> Iterator[Shape]:
    """Yields the label of each point, beside, above or below it, where it overlaps least; long names are shortened."""
    for run, (x, y) in places.items():
        best: tuple[float, Box, str] | None = None
        for longest in LONGEST:
            text = clip(visible(run), longest)
            size, gap = text_width(text, LABEL), POINT + 3
            starts = [
                *((x + gap, y - 6), (x - gap - size, y - 6), (x + gap, y - 16), (x + gap, y + 4)),
                *((x - gap - size, y - 16), (x - gap - size, y + 4), (x - size / 2, y - 20), (x - size / 2, y + 8)),
            ]
            for left, top in starts:
                box = Box(left, top, size, LABEL + 1)
                outside = box.width * box.height - box.overlap(room)
                cost = 3 * outside + sum(box.overlap(other) for other in taken)
                if best is None or cost < best[0] - 1:
                    best = cost, box, text
            if best and best[0] < 1:
                break
        if best:
            _, box, text = best
            taken.append(box)
            title = run if text != visible(run) else ""
            yield Shape("text", {"class": "label", "x": box.x, "y": box.y + LABEL - 1.5}, text, title)


def rate_scale(low: float, high: float, start: float, end: float) -> Scale:
    """A scale of rates with round ends and at most seven ticks."""
    step = next(step for step in (0.01, 0.02, 0.05, 0.1, 0.2) if (high - low) / step <= 6)
    first, last = math.floor(low / step), math.ceil(high / step)
    last += first == last
    first, last = max(0, first), min(round(1 / step), last)
    first -= first == last
    ticks = [at * step for at in range(first, last + 1)]
    return Scale(ticks[0], ticks[-1], start, end, log=False, ticks=ticks)


def amount_scale(amounts: Sequence[float], start: float, end: float) -> Scale:
    """A scale of amounts from 0 up: logarithmic if they are far apart and none is 0; at most six ticks."""
    low, high = min(amounts), max(amounts)
    if low > 0 and high / low > WIDE:
        for steps in ((1, 2, 5), (1, 3), (1,)):
            every = [
                step * 10.0**power
                for power in range(math.floor(math.log10(low)), 1 + math.ceil(math.log10(high)))
                for step in steps
            ]
            ticks = [tick for tick in every if low * 0.95 <= tick <= high * 1.05]
            if len(ticks) <= 5:
                break
        return Scale(low, high, start, end, log=True, ticks=ticks[:: math.ceil(len(ticks) / 6)])
    step = 10.0 ** math.floor(math.log10(high / 2)) if high > 0 else 1.0
    step = next((step * times for times in (1, 2, 5, 10, 20) if high / (step * times) <= 5), step)
    last = math.ceil(high / step - 1e-9) or 1
    return Scale(0.0, last * step, start, end, log=False, ticks=[at * step for at in range(last + 1)])
