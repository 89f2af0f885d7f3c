"""How the suite scales: 1 000 to 1 000 000 records, and 1 to 500 agents at a time; drawn into docs/."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from html import escape
from typing import NamedTuple

from bench import measure, programs
from bench.findings import Finding
from bench.measure import MB, Job, Sample
from bench.programs import ROOT
from bench.setting import Setting

RECORDS = (1_000, 10_000, 100_000, 1_000_000)
SLOTS = (1, 2, 5, 10, 20, 50, 100, 200, 500)
NAP = 0.5  # seconds that each agent takes: they mostly wait, as real ones do
DOCS = os.path.join(ROOT, "docs")


def draw(setting: Setting) -> Iterator[Finding]:
    """Draws all curves; yields how the peak memory of each tool grows from the fewest to the most records."""
    times, sizes = _records(setting)
    _save("bench-seconds.svg", chart("Seconds for so many records", "records", "s", times))
    _save("bench-memory.svg", chart("Peak memory for so many records", "records", "MB", sizes))
    for time, size in zip(times, sizes, strict=True):
        (count, seconds), (_, peak) = time.points[-1], size.points[-1]
        yield Finding("curves", f"{time.name}, {count:,.0f} records", f"{count / seconds:,.0f}/s", peaks=f"{peak:.0f}")
    rates = _slots(setting)
    _save("bench-agents.svg", chart("Agents of half a second that end in a second", "at a time (-j)", "1/s", rates))
    for rate in rates:
        slots, ended = rate.points[-1]
        yield Finding("curves", f"{rate.name}, {slots:.0f} agents at a time", f"{ended:,.0f}/s")


def _records(setting: Setting) -> tuple[list[Series], list[Series]]:
    """Returns seconds and peak memory of tools that read small records."""
    found: dict[str, list[tuple[float, Sample]]] = {}
    for count in (setting.size(count) for count in RECORDS):
        raw, graded = setting.file("tiny-raw", count), setting.file("small-results", count)
        jobs = {
            "ae-extract": Job([programs.tool("ae-extract"), raw, "-s", "claude"]),
            "ae-grade": Job([programs.tool("ae-grade"), graded, "-g", "ae-grader-hint"]),
            "ae-summarize": Job([programs.tool("ae-summarize"), graded]),
            "ae-format -f csv": Job([programs.tool("ae-format"), graded, "-f", "csv"]),
        }
        if programs.has("jq"):
            jobs["jq -c ."] = programs.jq(graded)
        for name, job in jobs.items():
            sample = measure.run(job)
            measure.measured.append(measure.figures(f"{name}, {count} records", job, [sample]))
            found.setdefault(name, []).append((count, sample))
    times = [Series(name, [(count, one.wall) for count, one in points]) for name, points in found.items()]
    return times, [Series(name, [(count, one.peak / MB) for count, one in points]) for name, points in found.items()]


def _slots(setting: Setting) -> list[Series]:
    """Returns how many agents end in a second, by how many run at a time; agents that wait half a second."""
    found: dict[str, list[tuple[float, float]]] = {}
    for slots in (slots for slots in SLOTS if not setting.quick or slots <= 50):
        count = max(4, 4 * slots)
        prompts = setting.file("prompts", count)
        agent = f"sh -c 'exec sleep {NAP}' {{}}"
        jobs = {
            "ae-run": Job([programs.tool("ae-run"), prompts, "--simple", agent, "-j", str(slots)]),
            "xargs -P": Job(programs.xargs(slots, "sh", "-c", f"exec sleep {NAP}"), stdin=f"{prompts}.items"),
        }
        for name, job in jobs.items():
            sample = measure.run(job)
            measure.measured.append(measure.figures(f"{name}, {slots} at a time", job, [sample]))
            found.setdefault(name, []).append((slots, count / sample.wall))
    ideal = Series("without any cost", [(slots, slots / NAP) for slots, _ in found["ae-run"]])
    return [*(Series(name, points) for name, points in found.items()), ideal]


def _save(name: str, drawing: str) -> None:
    with open(os.path.join(DOCS, name), "w", encoding="utf-8") as file:
        file.write(drawing)


# --- lines on two logarithmic axes, as SVG that follows the reader's light or dark theme ------------

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


def chart(title: str, across: str, up: str, series: list[Series]) -> str:
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
