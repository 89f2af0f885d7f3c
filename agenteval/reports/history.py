"""The history of an evaluation, as ae-history writes it: a table, a page, markdown or JSON, from one set of cells."""

from collections.abc import Iterator, Sequence
from html import escape

from agenteval import __version__
from agenteval.comparison.verdicts import points
from agenteval.reports.drawing import text_width
from agenteval.reports.figures import UNKNOWN, dollars, duration_text, percent, percent_span, whole
from agenteval.reports.forms import ReportContext
from agenteval.reports.markup import inline, page
from agenteval.reports.markup import table as markdown_table
from agenteval.reports.terminal import BOLD, GREEN, RED, hanging, paint, wrap
from agenteval.statistics.intervals import bounds
from agenteval.streams.text import GAP, as_lines, first_few, in_columns, one_line, pretty_json, visible, width
from agenteval.wire.history import History, HistoryChange, HistoryRun

TITLES = (
    *("", "#", "Started", "Run", "Agent", "Model", "Version"),
    *("Prompts", "Pass rate", "95% interval", "Change", "p50", "Tokens", "Cost"),
)
NAMES = 7  # the first columns hold names
SAME = (4, 5, 6)  # said once if they are the same in all runs
DROPPED = ("Version", "Model", "Agent", "Tokens", "Cost", "p50", "95% interval", "Started")  # on a narrow terminal
MOST_NAME, IDS_SHOWN, INDENT, COLUMN = 28, 20, "  ", 10
BLOCKS = "▁▂▃▄▅▆▇█"
ESTIMATED = "* estimated at list prices, not billed"


def json(history: History, _context: ReportContext) -> Iterator[bytes]:
    """json: the history as `ae-schemas History` describes it"""
    yield pretty_json(history)


# --- what all of them show ----------------------------------------------------------------------


def mark(change: HistoryChange | None) -> str:
    """The sign of a change; empty if there is none."""
    return "" if change is None else "▲" if change.difference > 0 else "▼"


def cells(run: HistoryRun, history: History) -> list[str]:
    """The cells of a run, a mark first if a change begins with it; what is not known is a dash."""
    change = next((one for one in history.changes if one.number == run.number), None)
    started = UNKNOWN if run.started is None else run.started[:16].replace("T", " ")
    names = [one_line(name, MOST_NAME) if name else UNKNOWN for name in (run.agent, run.model, run.agent_version)]
    return [
        *(mark(change), str(run.number), started, one_line(run.name, MOST_NAME), *names),
        *(whole(run.prompts), percent(run.pass_rate), percent_span(bounds(run.interval))),
        points(run.change).removesuffix(" points"),
        *(duration_text(run.p50), whole(run.tokens), dollars(run.cost, 2) + "*" * run.cost_estimated),
    ]


def flips(change: HistoryChange) -> list[tuple[str, list[str]]]:
    """The prompts that flipped at a change, under a title for each direction."""
    return [(title, ids) for title, ids in (("Pass lost", change.lost), ("Passes now", change.gained)) if ids]


def summary(history: History) -> str:
    """The summary as a sentence."""
    return f"{history.summary[:1].upper()}{history.summary[1:]}."


def columns(rows: Sequence[Sequence[str]]) -> list[int]:
    """The places of the columns in which some run has a value."""
    return [at for at in range(len(TITLES)) if {row[at] for row in rows} - {"", UNKNOWN}]


def marks_near(change: HistoryChange, history: History) -> list[str]:
    """What else changed in the first run after a change."""
    return history.runs[change.number - 1].marks


def outcome(history: History) -> list[str]:
    """The lines of --fail-if-worse, if it was asked for."""
    if history.reasons is None:
        return []
    return history.reasons or [f"{history.runs[-1].name} is not worse than {history.baseline}"]


# --- table --------------------------------------------------------------------------------------


def table(history: History, context: ReportContext) -> Iterator[bytes]:
    """table: for a terminal: the curve, what changed and when, a line per run"""
    lines = wrap(summary(history), context.width)
    curve = sparkline([run.pass_rate for run in history.runs], context.width)
    lines = [*lines, curve] if len(history.runs) > 1 else lines
    for change in history.changes:
        lines += ["", *_change_lines(change, history, context)]
    rows = [cells(run, history) for run in history.runs]
    if rows:
        lines += ["", *_run_lines(rows, context)]
    lines += [line for text in outcome(history) for line in ("", *wrap(one_line(text, 4000), context.width))]
    yield as_lines(lines)


def sparkline(rates: Sequence[float | None], columns: int) -> str:
    """A block per run, from the lowest to the highest pass rate; the last ones, if there are more than columns."""
    shown = rates[-columns:]
    known = [rate for rate in shown if rate is not None]
    low, high = min(known, default=0.0), max(known, default=0.0)
    steps = (len(BLOCKS) - 1) / (high - low) if high > low else 0.0
    return "".join(" " if rate is None else BLOCKS[round((rate - low) * steps)] for rate in shown)


def _change_lines(change: HistoryChange, history: History, context: ReportContext) -> list[str]:
    color = (GREEN if change.difference > 0 else RED) + BOLD
    start = f"{mark(change)} Run {change.number}"
    first, *more = hanging(start, change.sentence, COLUMN, context.width)
    lines = [paint(start, color, context.color) + first.removeprefix(start), *more]
    shown = [("With", first_few(marks_near(change, history), IDS_SHOWN))] if marks_near(change, history) else []
    shown += [(title, f"{len(ids):,}: {first_few(ids, IDS_SHOWN)}") for title, ids in flips(change)]
    for title, text in shown:
        lines += hanging(INDENT + title, one_line(text, 4000), COLUMN + 4, context.width)
    return lines


def _run_lines(rows: Sequence[Sequence[str]], context: ReportContext) -> list[str]:
    known = columns(rows)
    alike = [at for at in SAME if len(rows) > 1 and len({row[at] for row in rows}) == 1 and at in known]
    sizes = [
        max(width(title), *(width(row[at]) for row in rows)) if at in known and at not in alike else 0
        for at, title in enumerate(TITLES)
    ]
    for title in DROPPED:
        if sum(size + len(GAP) for size in sizes if size) - len(GAP) > context.width:
            sizes[TITLES.index(title)] = 0
    right = {1, *range(NAMES, len(TITLES))}
    title, *lines = [in_columns(row, sizes, right) for row in ([name.upper() for name in TITLES], *rows)]
    if alike:
        same = ", ".join(f"{TITLES[at].lower()} {rows[0][at]}" for at in alike)
        lines += ["", *wrap(f"All runs: {same}.", context.width)]
    if sizes[-1] and any(row[-1].endswith("*") for row in rows):
        lines += wrap(ESTIMATED, context.width)
    return [paint(title, BOLD, context.color), *lines]


# --- markdown -----------------------------------------------------------------------------------


def markdown(history: History, _context: ReportContext) -> Iterator[bytes]:
    """markdown: for a pull request: what changed and when, a row per run"""
    changes = []
    for change in history.changes:
        changes += [f"- **{mark(change)} Run {change.number}**: {inline(change.sentence)}"]
        changes += [f"  - With {inline(text)}" for text in marks_near(change, history)]
        for title, ids in flips(change):
            changes.append(f"  - {title}, {len(ids):,}: {inline(first_few(ids, IDS_SHOWN))}")
    rows = [cells(run, history) for run in history.runs]
    shown = columns(rows)
    titles, names = [TITLES[at] for at in shown], sum(at < NAMES for at in shown)
    estimated = [inline(ESTIMATED)] if any(run.cost_estimated for run in history.runs) else []
    sections = [
        ["# History", "", inline(summary(history))],
        [inline(line) for line in outcome(history)],
        ["## Changes", "", *changes] if changes else [],
        ["## Runs", "", *markdown_table(titles, ([inline(row[at]) for at in shown] for row in rows), names)]
        if rows
        else [],
        estimated,
    ]
    yield page(sections).encode()


# --- html ---------------------------------------------------------------------------------------

WIDE, HIGH, LEFT, RIGHT, TOP, BOTTOM, FONT = 1000, 300, 46, 12, 34, 26, 11
STYLE = """
:root { --bg: #f5f6f8; --panel: #fff; --text: #1a1f26; --dim: #566070; --line: #d9dee5; --accent: #0a58ca;
  --up: #15702f; --down: #b8202b; color-scheme: light dark; }
@media (prefers-color-scheme: dark) { :root { --bg: #0e1116; --panel: #161b22; --text: #e5eaf0; --dim: #9aa5b3;
  --line: #2e3641; --accent: #79b0ff; --up: #56d364; --down: #ff8078; } }
body { margin: 0 auto; max-width: 1200px; padding: 20px 24px; background: var(--bg); color: var(--text);
  font: 14px/1.5 system-ui, sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 22px; margin: 0 0 4px; } h2 { font-size: 16px; margin: 20px 0 8px; }
.card { background: var(--panel); border: 1px solid var(--line); border-radius: 10px; padding: 12px 14px;
  margin: 12px 0; }
.card > :first-child { margin-top: 0; } .card > :last-child { margin-bottom: 0; }
.scroll { overflow-x: auto; } svg { width: 100%; min-width: 640px; height: auto; display: block; }
.dim { color: var(--dim); } .up { color: var(--up); fill: var(--up); } .down { color: var(--down); fill: var(--down); }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: right; padding: 3px 8px; border-bottom: 1px solid var(--line); white-space: nowrap; }
.name { text-align: left; }
svg text { fill: var(--dim); font-size: 11px; } .grid { stroke: var(--line); }
.curve { fill: none; stroke: var(--accent); stroke-width: 2; } .dot { fill: var(--accent); }
.interval { stroke: var(--accent); opacity: .35; stroke-width: 3; }
.level { stroke: var(--text); stroke-dasharray: 5 3; } .version { stroke: var(--dim); stroke-dasharray: 2 4; }
"""


def html(history: History, context: ReportContext) -> Iterator[bytes]:
    """html: a page: the curve with its changes and versions, prompts that flipped, every run; no scripts"""
    changes = "".join(_change_card(change, history) for change in history.changes)
    parts = [
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">",
        f"<title>History of {len(history.runs)} runs</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>",
        f"<h1>History</h1>\n<p>{_text(summary(history))}</p>",
        *(f"<p><strong>{_text(line)}</strong></p>" for line in outcome(history)),
        _curve_card(history) if history.runs else "",
        f"<h2>Changes</h2>\n{changes or '<p>No change is shown.</p>'}",
        f"<h2>Runs</h2>\n{_run_table(history)}" * bool(history.runs),
        f'<p class="dim">agenteval {__version__}, {_text(context.generated or history.generated_at)}</p>',
        "</main>\n</body>\n</html>\n",
    ]
    yield "\n".join(parts).encode(errors="replace")


def _curve_card(history: History) -> str:
    parts = ["Bars: 95% intervals."]
    parts += ["Dashed: the pass rate before and after a change."] if history.changes else []
    parts += ["Dotted: a change of agent, model or version."] if any(run.marks for run in history.runs) else []
    scroll = '<div class="card scroll" tabindex="0" role="region" aria-label="Curve">'
    return f'{scroll}{curve(history)}<p class="dim">{" ".join(parts)}</p></div>'


def _text(text: str) -> str:
    return escape(visible(text))


def _change_card(change: HistoryChange, history: History) -> str:
    direction = "up" if change.difference > 0 else "down"
    run = history.runs[change.number - 1]
    parts = [f'<h3><span class="{direction}">{mark(change)}</span> Run {run.number}, {_text(run.name)}</h3>']
    parts.append(f"<p>{_text(change.sentence)}</p>")
    parts += [f"<p>With {_text(text)}</p>" for text in marks_near(change, history)]
    for title, ids in flips(change):
        parts.append(f"<details><summary>{title}: {len(ids):,}</summary><p>{_text(', '.join(ids))}</p></details>")
    return f'<div class="card" id="run-{run.number}">{"".join(parts)}</div>\n'


def _run_table(history: History) -> str:
    rows = [cells(run, history) for run in history.runs]
    shown = columns(rows)

    def row(tag: str, texts: Sequence[str]) -> str:
        starts = [(at, f'<{tag} class="name">' if 1 < at < NAMES else f"<{tag}>") for at in shown]
        return "<tr>" + "".join(f"{start}{_text(texts[at])}</{tag}>" for at, start in starts) + "</tr>"

    body = "\n".join(row("td", texts) for texts in rows)
    note = f'<p class="dim">{ESTIMATED}</p>' if any(run.cost_estimated for run in history.runs) else ""
    head = row("th", ["Mark", *TITLES[1:]])
    scroll = '<div class="card scroll" tabindex="0" role="region" aria-label="Runs">'
    return f"{scroll}<table><thead>{head}</thead>\n<tbody>{body}</tbody></table>{note}</div>"


def curve(history: History) -> str:
    """The pass rates with their intervals as SVG: levels between changes, versions as vertical lines."""
    limits = [bound for run in history.runs if run.interval for bound in (run.interval.low, run.interval.high)]
    low = min(0.9, int(min(limits, default=0.0) * 10) / 10)
    high = min(1.0, int(max(limits, default=1.0) * 10 + 1) / 10)
    step = (WIDE - LEFT - RIGHT) / max(1, len(history.runs))

    def x(number: float) -> float:
        return LEFT + (number - 0.5) * step

    def y(rate: float) -> float:
        return TOP + (high - rate) / (high - low) * (HIGH - TOP - BOTTOM)

    shapes = []
    for tenth in range(round(low * 10), round(high * 10) + 1):
        at = y(tenth / 10)
        shapes.append(f'<line class="grid" x1="{LEFT}" x2="{WIDE - RIGHT}" y1="{at:.1f}" y2="{at:.1f}"/>')
        shapes.append(f'<text x="{LEFT - 6}" y="{at + 4:.1f}" text-anchor="end">{tenth * 10}%</text>')
    free = 0.0  # where the name of a version overlaps no other
    for run in history.runs:
        if run.marks:
            at, what = x(run.number - 0.5), _text(", ".join(run.marks))
            version = one_line(run.marks[-1].partition(" → ")[2], 16)
            start = min(at + 3, WIDE - text_width(version, FONT))
            line = f'<line class="version" x1="{at:.1f}" x2="{at:.1f}" y1="{TOP}" y2="{HIGH - BOTTOM}"/>'
            shapes.append(f"<g><title>Run {run.number}: {what}</title>{line}")
            if start >= free:
                shapes.append(f'<text x="{start:.1f}" y="{TOP - 20}">{_text(version)}</text>')
                free = start + text_width(version, FONT) + 6
            shapes.append("</g>")
    for change in history.changes:
        spans = [(change.before, change.pass_rate_before), (change.after, change.pass_rate_after)]
        for (first, last), rate in spans:
            ends = f'x1="{x(first - 0.5):.1f}" x2="{x(last + 0.5):.1f}" y1="{y(rate):.1f}" y2="{y(rate):.1f}"'
            shapes.append(f'<line class="level" {ends}/>')
        direction = "up" if change.difference > 0 else "down"
        shapes.append(
            f'<text class="{direction}" x="{x(change.number):.1f}" y="{TOP - 5}" text-anchor="middle">{mark(change)} '
            f"{change.difference * 100:+.0f}<title>{_text(change.sentence)}</title></text>"
        )
    known = [(run, run.pass_rate) for run in history.runs if run.pass_rate is not None]
    line = " ".join(f"{x(run.number):.1f},{y(rate):.1f}" for run, rate in known)
    shapes.append(f'<polyline class="curve" points="{line}"/>')
    every = max(1, len(history.runs) // 15)
    for run, rate in known:
        across = f"{x(run.number):.1f}"
        found = run.interval
        span = (
            f'y1="{y(found.low):.1f}" y2="{y(found.high):.1f}"' if found else f'y1="{y(rate):.1f}" y2="{y(rate):.1f}"'
        )
        about = _text(f"Run {run.number}, {run.name}: {percent(rate)}, 95% interval {percent_span(bounds(found))}")
        shapes.append(f'<g><title>{about}</title><line class="interval" x1="{across}" x2="{across}" {span}/>')
        shapes.append(f'<circle class="dot" cx="{across}" cy="{y(rate):.1f}" r="3.5"/></g>')
        if (run.number - 1) % every == 0:
            shapes.append(f'<text x="{across}" y="{HIGH - 8}" text-anchor="middle">{run.number}</text>')
    described = _text("; ".join([history.summary, *(f"run {one.number}: {one.sentence}" for one in history.changes)]))
    return (
        f'<svg viewBox="0 0 {WIDE} {HIGH}" role="img" aria-labelledby="curve-title curve-text">'
        '<title id="curve-title">Pass rate of each run with its 95% interval</title>'
        f'<desc id="curve-text">{described}</desc>{"".join(shapes)}</svg>'
    )
