"""svg: one picture for a README or a pull request: ranking, Pareto front of quality and cost, all pairs, prompts

Nothing in it runs or is loaded, and it follows the theme of the reader. Of two runs it has no prompts.
"""

from collections.abc import Iterator, Sequence
from itertools import groupby

from agenteval import __version__
from agenteval.comparison.figures import Report
from agenteval.comparison.ranking import by_names, difference_of, front_of, measure_name, ranked_runs
from agenteval.comparison.verdicts import capitalized, claim
from agenteval.reports.drawing import LETTER, Shape, front_plot, markup, plain, rate_scale, text_width
from agenteval.reports.forms import ReportContext
from agenteval.reports.run_columns import INTERVAL, ranking_table
from agenteval.reports.terminal import wrap
from agenteval.streams.text import clip, counted, one_line, visible
from agenteval.wire.comparison import RunRanking
from agenteval.wire.row import ERROR, FAIL, FLAKY, PASS

WIDE, EDGE, LINE, SIZE = 900, 24, 18, 13
HALF = 430  # width of the plot and of the matrix
RANK, NAME, DRAWN = 50, 216, 130  # width of the places, of a name and of an interval
BOLDER = 1.08  # bold letters are wider
WEIGHT = {INTERVAL: 1.9, "n": 0.6, "Cost of a pass": 1.4}  # how wide a column is beside others
MOST_IN_MATRIX = 16
NOT_GRADED = "none"
CELLS = {PASS: "pass", FLAKY: "flaky", FAIL: "fail", ERROR: "error"}
LEGEND = {
    "pass": "passes",
    "flaky": "some trials pass",
    "fail": "does not pass",
    "error": "agent failed",
    NOT_GRADED: "not graded, or missing",
}
LIGHT = (
    "--bg:#fff;--text:#1a1f26;--dim:#566070;--line:#d9dee5;--accent:#0a58ca;--soft:#9db9e6;--gain:#15702f;--loss:#b8202b;"
    "--gain-soft:#e3f5e8;--loss-soft:#fdebec;--pass:#3f9e58;--flaky:#9a7bd8;--fail:#d9606a;--error:#e5ac4d;--none:#c3cad4"
)
DARK = (
    "--bg:#0e1116;--text:#e5eaf0;--dim:#9aa5b3;--line:#2e3641;--accent:#79b0ff;--soft:#31507d;--gain:#56d364;--loss:#ff8078;"
    "--gain-soft:#12301c;--loss-soft:#3c1618;--pass:#2f8a48;--flaky:#8a68d0;--fail:#bf4a54;--error:#c98f2e;--none:#4a5361"
)
STYLE = f"""svg{{{LIGHT}}}@media(prefers-color-scheme:dark){{svg{{{DARK}}}}}
text{{font:{SIZE}px system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans",Arial,sans-serif;fill:var(--text)}}
.page{{fill:var(--bg)}}.title{{font-size:20px;font-weight:650}}.dim,.tick{{fill:var(--dim)}}.strong{{font-weight:600}}
.head{{fill:var(--dim);font-size:11px;font-weight:600}}.small,.tick,.label{{font-size:11px}}
.tiny{{font-size:9.5px}}.rule,.grid{{stroke:var(--line)}}.bar{{fill:var(--soft)}}.mark{{fill:var(--accent)}}
.front-line{{fill:none;stroke:var(--gain);stroke-dasharray:4 3}}.whisker{{stroke:var(--dim);opacity:.6}}
.point.front{{fill:var(--gain)}}.point.behind{{fill:var(--bg);stroke:var(--dim);stroke-width:1.5}}
.gain{{fill:var(--gain);font-weight:600}}.loss{{fill:var(--loss);font-weight:600}}
.same{{fill:var(--line);opacity:.4}}.gain-soft{{fill:var(--gain-soft)}}.loss-soft{{fill:var(--loss-soft)}}
""" + "".join(f".{name}{{fill:var(--{name})}}" for name in LEGEND)


def render(report: Report, _context: ReportContext) -> Iterator[bytes]:
    """Yields the picture: parts one below the other."""
    ranking = report.ranking or ranking_of_two(report)
    title = f"{counted(len(report.meta.runs), 'run')}, {counted(report.meta.prompt_count, 'prompt')}"
    parts, down = [], 0.0
    for shapes, height in (heading(title, ranking), places(ranking), middle(report, ranking), strip(ranking), foot()):
        parts.append(f'<g transform="translate(0 {down:.1f})">\n{chr(10).join(markup(shapes))}\n</g>\n')
        down += height
    size = f'viewBox="0 0 {WIDE} {down:.0f}" width="{WIDE}" height="{down:.0f}"'
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-labelledby="t d">',
        f'<title id="t">{plain(title)}</title>\n<desc id="d">{plain(ranking.headline)}</desc>',
        f'<style>{STYLE}</style>\n<rect class="page" width="100%" height="100%"/>',
        f"{''.join(parts)}</svg>\n",
    ]
    yield "\n".join(lines).encode()


def ranking_of_two(report: Report) -> RunRanking:
    """Two runs as a ranking without prompts, with the verdict on them."""
    ranked = ranked_runs(report)
    [pair] = report.statistics.pairs
    front = front_of(report, ranked)
    return RunRanking(measure=measure_name(report), headline=claim(pair), runs=ranked, front=front, prompts=[])


Part = tuple[list[Shape], float]
"""What is drawn, and how high it is."""


def text(x: float, y: float, content: str, style: str = "", anchor: str = "start", title: str = "") -> Shape:
    """A line of text."""
    return Shape("text", {"class": style, "x": x, "y": y, "text-anchor": anchor}, content, title)


def fitted(label: str, room: float, size: float = SIZE) -> tuple[str, str]:
    """A name in that room, and its whole if it had to be cut; the ranking has it whole."""
    shown = clip(visible(label), max(2, int(room / (LETTER * size))))
    return shown, label if shown != visible(label) else ""


# --- the parts ----------------------------------------------------------------------------------


def heading(title: str, ranking: RunRanking) -> Part:
    """How many runs and prompts, and what there is to say."""
    lines = wrap(one_line(f"{capitalized(ranking.headline)}.", 1000), int((WIDE - 2 * EDGE) / (LETTER * SIZE)))
    shapes = [text(EDGE, 34, title, "title")]
    shapes += [text(EDGE, 58 + at * LINE, line) for at, line in enumerate(lines)]
    return shapes, 58 + len(lines) * LINE + 4


def places(ranking: RunRanking) -> Part:
    """The ranking: a row per run with its interval drawn; long names take several lines."""
    titles, rows, estimated = ranking_table(ranking)
    ends = [bound for one in ranking.runs if one.interval for bound in (one.interval.low, one.interval.high)]
    left = EDGE + RANK + NAME
    scale = rate_scale(min(ends, default=0.0), max(ends, default=1.0), left, left + DRAWN)
    columns = [at for at, title in enumerate(titles) if at > 1]
    room = (WIDE - EDGE - left - DRAWN) / max(1, sum(WEIGHT.get(titles[at], 1.0) for at in columns))
    rights, right = dict[int, float](), float(left + DRAWN)
    for at in columns:
        right += room * WEIGHT.get(titles[at], 1.0)
        rights[at] = right
    shapes = [text(EDGE, 14, "Rank", "head"), text(EDGE + RANK, 14, f"Run, by {ranking.measure.lower()}", "head")]
    shapes += [text(rights[at], 14, titles[at], "head", "end") for at in columns]
    low, high = (f"{end:.2f}" if ranking.measure == "Score" else f"{end:.0%}" for end in (scale.low, scale.high))
    shapes += [text(left, 14, low, "tick"), text(left + DRAWN, 14, high, "tick", "end")]
    y = 22.0
    for one, row in zip(ranking.runs, rows, strict=True):
        shapes.append(Shape("line", {"class": "rule", "x1": EDGE, "x2": WIDE - EDGE, "y1": y, "y2": y}))
        names = wrap(one_line(one.run, 400), int((NAME - 14) / (LETTER * SIZE * BOLDER)))
        middle = y + 5 + len(names) * LINE / 2
        shapes += [text(EDGE, middle + 4, row[0], "strong")]
        shapes += [text(EDGE + RANK, y + 18 + at * LINE, line, "strong") for at, line in enumerate(names)]
        shapes += [
            text(rights[at], middle + 4, row[at], "dim" if titles[at] == INTERVAL else "", "end") for at in columns
        ]
        if one.interval and one.value is not None:
            first, last, mark = scale.at(one.interval.low), scale.at(one.interval.high), scale.at(one.value)
            bar = {"x": first, "y": middle - 3, "width": last - first, "height": 6.0, "rx": 3.0}
            shapes.append(Shape("rect", {"class": "bar", **bar}))
            shapes.append(
                Shape("rect", {"class": "mark", "x": mark - 1.5, "y": middle - 6, "width": 3.0, "height": 12.0})
            )
        y += len(names) * LINE + 10
    note = "* estimated at list prices, not billed" if estimated else ""
    return [*shapes, *([text(EDGE, y + 12, note, "dim small")] if note else [])], y + (30 if note else 16)


def middle(report: Report, ranking: RunRanking) -> Part:
    """Quality against cost, and beside it each against each."""
    high, shapes = 0.0, []
    if ranking.front:
        high = 300.0
        shapes = [text(EDGE, 14, f"Quality and {ranking.front.against}; filled: the Pareto front", "head")]
        shapes += [
            shape._replace(attributes=moved(shape, EDGE - 6, 20)) for shape in front_plot(ranking, HALF - 20, high - 24)
        ]
    if len(ranking.runs) <= MOST_IN_MATRIX:
        left = EDGE + HALF + 12 if shapes else EDGE
        matrix = list(matrix_shapes(report, ranking, left))
        shapes, high = [*shapes, *matrix], max(high, 50.0 + 22 * len(ranking.runs))
    return shapes, high + 14


def moved(shape: Shape, across: float, down: float) -> dict[str, str | float]:
    """The attributes of a shape in another place."""
    return {**shape.attributes, "transform": f"translate({across} {down})"}


def matrix_shapes(report: Report, ranking: RunRanking, left: float) -> Iterator[Shape]:
    """Yields the differences of every two runs in points, row minus column, coloured where shown."""
    runs, pairs = [one.run for one in ranking.runs], by_names(report.statistics.pairs)
    yield text(left, 14, "All pairs: points, row minus column", "head")
    names = 128.0 if len(runs) <= 8 else 92.0
    size = (WIDE - EDGE - left - names) / len(runs)
    for at, row in enumerate(runs):
        y = 28 + 22.0 * (at + 1)
        name, whole_name = fitted(f"{at + 1}. {row}", names - 8, 11)
        yield text(left, y + 15, name, "small", title=whole_name)
        yield text(left + names + size * (at + 0.5), 42, str(at + 1), "head", "middle")
        for other, column in enumerate(runs):
            x = left + names + size * other
            box: dict[str, str | float] = {"x": x + 1, "y": y + 1, "width": size - 2, "height": 20.0}
            if row == column:
                yield Shape("rect", {"class": "same", **box})
                continue
            difference, better = difference_of(pairs, row, column)
            tone = "" if better is None else "gain" if better == row else "loss"
            digits = 1 if size > 38 else 0
            shown = "–" if difference is None else f"{difference * 100:+z.{digits}f}"
            if tone:
                yield Shape("rect", {"class": f"{tone}-soft", **box})
            yield text(
                x + size / 2,
                y + 15,
                shown,
                f"{'small' if size > 30 else 'tiny'} {tone or 'dim'}",
                "middle",
                f"{row} against {column}",
            )


def strip(ranking: RunRanking) -> Part:
    """Every prompt in every run, the hardest on the left; nothing of two runs."""
    prompts = list(ranking.prompts)
    if not prompts:
        return [], 0.0
    names, left = 180.0, EDGE + 190.0
    step = (WIDE - EDGE - left) / len(prompts)
    shapes = [text(EDGE, 14, "Prompts x runs, the hardest on the left", "head")]
    used: set[str] = set()
    for at, one in enumerate(ranking.runs):
        y = 24.0 + 18 * at
        name, whole_name = fitted(f"{at + 1}. {one.run}", names, 11)
        shapes.append(text(EDGE, y + 11, name, "small", title=whole_name))
        cells = [CELLS.get(prompt.statuses[one.run], NOT_GRADED) for prompt in prompts]
        used |= set(cells)
        kinds = dict.fromkeys(cells)
        shapes += [Shape("path", {"class": kind, "d": cell_path(cells, kind, left, y, step)}) for kind in kinds]
    y = 24.0 + 18 * len(ranking.runs) + 12
    x = left
    for kind in (kind for kind in LEGEND if kind in used):
        box: dict[str, str | float] = {"x": x, "y": y - 9, "width": 10.0, "height": 10.0, "rx": 2.0}
        shapes += [Shape("rect", {"class": kind, **box}), text(x + 15, y, LEGEND[kind], "dim small")]
        x += 30 + text_width(LEGEND[kind], 11)
    return shapes, y + 14


def cell_path(cells: Sequence[str], kind: str, left: float, y: float, step: float) -> str:
    """The cells of one kind as a path, equal neighbours joined."""
    parts, at = [], 0
    for found, group in groupby(cells):
        count = len(list(group))
        if found == kind:
            parts.append(f"M{left + at * step:.1f} {y:g}h{count * step:.2f}v15h{-count * step:.2f}z")
        at += count
    return "".join(parts)


def foot() -> Part:
    """How it was made."""
    how = "95% intervals; ranks and colours by verdicts adjusted for the number of pairs (Holm)."
    return [text(EDGE, 10, f"{how} agenteval {__version__}", "dim small")], 26
