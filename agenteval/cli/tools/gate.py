"""ae-gate: results or trials → does the run meet your thresholds?"""

import math
import os
from collections.abc import Sequence

import click

from agenteval.cli.options import (
    NumberRange,
    Parsed,
    input_argument,
    max_line_option,
    output_option,
    strict_option,
)
from agenteval.cli.tool import tool
from agenteval.comparison.gate import (
    COST_NAME,
    NAMES,
    OLD_NAME,
    TIMES,
    Checked,
    GateRule,
    RunFigures,
    Threshold,
    check_run,
    is_known,
    is_rate,
)
from agenteval.errors import FAILED, OK, CannotGoOn, UserError, nearest
from agenteval.reports.figures import UNKNOWN, duration_text, significant
from agenteval.reports.forms import ReportContext, context_of
from agenteval.reports.markup import inline, table
from agenteval.reports.run_summary import grade_facts, run_facts
from agenteval.reports.terminal import DIM, GREEN, RED, paint, wrap
from agenteval.streams.console import Console
from agenteval.streams.files import make_directories
from agenteval.streams.output import Output, open_to_append
from agenteval.streams.rows import NO_GROUP, KeyUse, groups_at, read_rows
from agenteval.streams.source import Source
from agenteval.streams.text import (
    GAP,
    as_lines,
    counted,
    first_few,
    number_in,
    one_line,
    parse_milliseconds,
    width,
)
from agenteval.wire.row import Row

NAME = "ae-gate"
PASS, FAIL = "pass", "FAIL"
NAME_SHOWN = 60
DIGITS, MOST_DIGITS = 3, 10
EXIT_1 = (
    "a condition is not met, a figure is unknown, too few records are graded, no record has the key given with --by, "
    "or some lines were refused"
)


# --- conditions ---------------------------------------------------------------------------------


def parse_condition(text: str) -> tuple[str, float]:
    """Parses NAME=VALUE into the name of a figure and a limit; raises ValueError if it is invalid."""
    name, equals, value = text.partition("=")
    if not is_known(name):
        raise ValueError(unknown_figure(name, equals + value))
    if not equals:
        raise ValueError(f"{text} has no value; write {name}=VALUE")
    if name in TIMES and value[-1:].isalpha():
        return name, parse_milliseconds(value)
    limit = number_in(value)
    if is_rate(name) and value.endswith("%") and 0 <= number_in(value[:-1]) <= 100:
        raise ValueError(f"{text}: {name} is between 0 and 1: write {name}={number_in(value[:-1]) / 100:g}")
    if not math.isfinite(limit):
        raise ValueError(f"{text}: {value!r} is not a number")
    if is_rate(name) and not 0 <= limit <= 1:
        meant = f": write {name}={limit / 100:g}" if 1 < limit <= 100 else ""
        raise ValueError(f"{text}: {name} is between 0 and 1{meant}")
    return name, limit


def unknown_figure(name: str, rest: str) -> str:
    """Returns the message about an unknown figure, with the name that was probably meant."""
    if old := OLD_NAME.fullmatch(name):
        return f"there is no figure {name!r}: write pass{'@' if old[1] == 'At' else '^'}{old[2]}{rest}"
    return f"there is no figure {name!r}; {nearest(name, NAMES)}"


SHOWN = 3  # ids in a message
CONDITION = Parsed("condition", parse_condition)


# --- the work -----------------------------------------------------------------------------------


def read_figures(source: Source, console: Console, use: KeyUse | None) -> tuple[RunFigures, dict[str, RunFigures]]:
    """Returns the figures of the whole file and, with `use`, of each category; {} if no record has the key."""
    whole, groups = RunFigures(), dict[str, RunFigures]()
    seen, repeated = set[int](), list[str]()
    for row in read_rows(source, Row, console, keys=[use.key] if use else []):
        whole.add(row)
        if (mark := hash(row.id)) in seen:
            repeated.append(row.id)
        seen.add(mark)
        if use is not None:
            use.add(row.metadata)
            for group in groups_at(row.metadata, use.key) or [NO_GROUP]:
                groups.setdefault(group, RunFigures()).add(row)
    if repeated:
        ids = first_few(repeated, SHOWN)
        console.say(
            f"{source.name}: {counted(len(repeated), 'record')} with the id of an earlier one: {ids}; all are counted"
        )
    return whole, {} if use and use.complaint() else groups


def append_summary(path: str, text: str) -> None:
    """Appends the markdown to a file, as GitHub's job summaries need; creates the file and its directories."""
    try:
        make_directories(path)
        with os.fdopen(open_to_append(path), "wb") as file:
            file.write(text.encode())
    except OSError as error:
        raise CannotGoOn(f"{path}: {error.strerror}") from None


# --- as text ------------------------------------------------------------------------------------


def amount(name: str, value: float, digits: int = DIGITS) -> str:
    """Returns the value of a figure in its unit, with that many significant digits."""
    if name == COST_NAME:
        return f"${significant(value, digits)}"
    if name not in TIMES:
        return significant(value, digits)
    if value < 1000 or digits > DIGITS:
        return f"{significant(value, digits)} ms" if value < 1000 else f"{significant(value / 1000, digits)} s"
    return f"{significant(value / 1000, digits)} s" if value < 60_000 else duration_text(value)


def value_text(checked: Checked) -> str:
    """Returns the figure of a condition, with enough digits to differ from its limit if the two differ."""
    name, limit, value = checked.condition.name, checked.condition.limit, checked.figure.value
    if value is None:
        return UNKNOWN
    more = range(DIGITS, MOST_DIGITS) if value != limit else ()
    texts = (amount(name, value, digits) for digits in more)
    return next((text for text in texts if text != as_given(name, limit)), amount(name, value))


def as_given(name: str, limit: float) -> str:
    """Returns a limit with all of its digits, in the unit of its figure."""
    in_minutes = name in TIMES and 60_000 <= limit < 3_600_000 and limit % 1000 == 0
    return amount(name, limit, DIGITS if in_minutes else MOST_DIGITS)


def limit_text(condition: Threshold) -> str:
    """Returns the limit of a condition as the user gave it, in the unit of its figure."""
    return f"{'≥' if condition.least else '≤'} {as_given(condition.name, condition.limit)}"


def interval_text(checked: Checked) -> str:
    """Returns the interval of a figure, low to high; "" if it has none."""
    return " to ".join(amount(checked.condition.name, end) for end in checked.figure.interval or ())


def lines(checked: Checked, context: ReportContext) -> list[str]:
    """Returns a condition as one line or, on a narrow terminal, several."""
    figure, condition = checked.figure, checked.condition
    group = f"[{one_line(checked.group, NAME_SHOWN)[:NAME_SHOWN]}] " if checked.group else ""
    word = PASS if checked.holds else FAIL
    if figure.value is None:
        statement, details = f"{group}{condition.name} {limit_text(condition)}: unknown", figure.over
    else:
        statement, details = f"{group}{condition.name} {value_text(checked)} {limit_text(condition)}", figure.over
        details += f"; 95% interval {interval_text(checked)}" if figure.interval is not None else ""
        details += f", {checked.bound} bound counts" if checked.bound else ""
    mark = paint(word, GREEN if checked.holds else RED, context.color)
    room = context.width - len(word) - len(GAP)
    if not context.terminal or width(f"{statement} ({details})") <= room:
        return [f"{mark}{GAP}{statement} {paint(f'({details})', DIM, context.color)}"]
    first, *more = wrap(statement, room)
    more += [paint(line, DIM, context.color) for line in wrap(details, room)]
    return [f"{mark}{GAP}{first}", *(" " * (len(word) + len(GAP)) + line for line in more)]


def job_summary(run: RunFigures, checks: Sequence[Checked], title: str, passed: bool) -> str:
    """Returns the outcome as markdown, for the summary of a CI job."""
    rows = [
        [
            "✅" if found.holds else "❌",
            f"`{found.condition.name} {limit_text(found.condition)}`"
            + (f" ({inline(found.group)})" if found.group else ""),
            inline(value_text(found)),
            inline(interval_text(found)),
            inline(found.figure.over),
        ]
        for found in checks
    ]
    heading = f"### {inline(title)}: gate {'passed' if passed else 'not passed'}"
    facts = [f"- **{name}**: {inline(value)}" for name, value in grade_facts(run.summary) + run_facts(run.summary)]
    header = ["", "Condition", "Value", "95% interval", "Over"]
    return "\n".join([heading, "", *table(header, rows, names=2), "", *facts, "", ""])


@tool(NAME, exit_status={1: EXIT_1})
@input_argument("GRADED")
@click.option(
    "--min", "least", metavar="NAME=VALUE", type=CONDITION, multiple=True, help="Lowest value that passes; repeatable."
)
@click.option(
    "--max", "most", metavar="NAME=VALUE", type=CONDITION, multiple=True, help="Highest value that passes; repeatable."
)
@click.option(
    "--min-graded",
    metavar="SHARE",
    type=NumberRange(0, 1),
    default=0.95,
    help="Lowest share of records (or trials) that must have a grade; below it nothing passes.",
)
@click.option(
    "--confident", is_flag=True, help="The bound of the 95% interval must meet the limit, not just the value."
)
@click.option("--shown", is_flag=True, help="Fail only if the 95% interval shows that a condition is not met.")
@click.option("--by", metavar="KEY[,KEY]", help="Each category by this metadata key must also meet the conditions.")
@click.option("--summary", metavar="FILE", help="Append the outcome as markdown to FILE, such as $GITHUB_STEP_SUMMARY.")
@max_line_option
@output_option
@strict_option
def main(
    path: str | None,
    least: tuple[tuple[str, float], ...],
    most: tuple[tuple[str, float], ...],
    min_graded: float,
    confident: bool,
    shown: bool,
    by: str | None,
    summary: str | None,
    max_line: int,
    output: str | None,
    strict: bool,
    debug: bool,
) -> int:
    """Check a run against thresholds: print one line per condition, and exit 1 if one is not met.

    GRADED is a file of graded results or of trials; stdin if missing or -.

    Figures:
      passRate                share of graded records (or trials) that passed
      score                   mean score; an agent that failed counts as 0
      errorRate, errors       agents that failed: share, count
      toolErrorRate           share of records in which a tool call failed
      graderErrorRate, graderErrors, ungradedRate, ungraded, gradedRate, graded
                              records whose grader erred, without a grade, or with one: share or count
      p50, p90, p99           time of a record in milliseconds; a limit may have a unit (30s)
      costUsd, tokens         totals of what the agents reported
      pass@1 … pass@K         trials: at least one of that many passes, unbiased; K is the k of the file
      pass^1 … pass^K         trials: all of that many pass, unbiased
      passAtK, passExpK       trials: the mean of these fields in the records: 1-(1-p)^k and p^k, biased

    A condition on an unknown figure is not met: a cost that no agent reported, or pass^k of results. One line shows how
    many records are graded, and counts the others: ungraded, grader errors. If fewer than --min-graded are graded, that
    line fails, and so does the gate; a failed agent counts as graded and not passed.

    With --confident the interval decides: its lower bound for --min, its upper bound for --max. Counts and totals
    have no interval. The trials of a prompt are a cluster.

    With --shown it is the other way round: a condition fails only if the whole interval lies beyond its limit. Of
    many small categories (--by), some fall below the limit by chance, so their intervals are adjusted for the number
    of categories. A record whose category is a list counts in each of them.

    Examples:
      ae-gate graded.jsonl --min passRate=0.8 --max errorRate=0.02
      ae-gate graded.jsonl --min passRate=0.8 --confident --max costUsd=5 --max p90=30s
      ae-gate trials.jsonl --min 'pass^K=0.6' --by category --shown
      ae-gate graded.jsonl --min passRate=0.8 --min-graded 1 --summary "$GITHUB_STEP_SUMMARY"
    """
    if confident and shown:
        raise UserError("--confident passes only what is certain, --shown fails only what is certain: give one of them")
    if not least and not most:
        raise UserError("no condition: give --min NAME=VALUE or --max NAME=VALUE (--help lists the names)")

    conditions = [Threshold(*found, least=True) for found in least]
    conditions += [Threshold(*found, least=False) for found in most]
    console = Console(NAME, strict=strict, output=output)
    source = Source(path, max_line=max_line)
    target = Output(output, inputs=[source])
    use = KeyUse("--by", by) if by else None
    whole, groups = read_figures(source, console, use)
    checks = check_run(whole, groups, conditions, GateRule(confident, shown, min_graded))
    context = context_of(target)
    for checked in checks:
        target.write_bytes(as_lines(lines(checked, context)))
    target.close()
    if not whole.graded:
        console.say(f"{source.name}: nothing is graded, so nothing passes")
    complaint = use.complaint() if use else None
    if complaint:
        console.say(complaint)
    passed = bool(whole.graded) and all(found.holds for found in checks) and not complaint and not console.refused
    if summary:
        append_summary(summary, job_summary(whole, checks, os.path.basename(source.name), passed))
    return OK if passed else FAILED
