"""junit: XML for CI servers: a suite per category (--by), a test case per record or trial"""

from __future__ import annotations

import re
from array import array
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from agenteval.reports.answers import ReportedAnswer, answers_in
from agenteval.reports.figures import group_name
from agenteval.reports.forms import ReportContext
from agenteval.reports.reader import RowReader
from agenteval.streams.spool import Spool
from agenteval.streams.text import one_line, preview, visible
from agenteval.wire.row import ERROR, FAIL, GRADER_ERROR, PASS, UNGRADED, Attempt, Row

LONGEST_MESSAGE = 300
LONGEST_OUTPUT = 10_000
NO_XML = re.compile("[\ud800-\udfff\ufffe\uffff]")  # not allowed in XML 1.0, besides control characters
ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "\r": "&#13;"})
LINE_ENDS = str.maketrans({"\n": "&#10;", "\t": "&#9;"})  # in attributes, a parser makes spaces of them


@dataclass
class Suite:
    """Counts of a suite, and where its test cases are in the spool: 16 bytes each."""

    statuses: Counter[str] = field(default_factory=Counter)
    milliseconds: float = 0.0
    places: array[int] = field(default_factory=lambda: array("q"))

    def add(self, attempts: Sequence[Attempt]) -> None:
        """Counts answers."""
        self.statuses.update(attempt.status for attempt in attempts)
        self.milliseconds += sum(attempt.duration or 0 for attempt in attempts)

    def counts(self) -> str:
        """The attributes that count its test cases; without `skipped`, which the root does not have."""
        errors = self.statuses[ERROR] + self.statuses[GRADER_ERROR]
        return (
            f'tests="{self.statuses.total()}" failures="{self.statuses[FAIL]}" errors="{errors}" '
            f'time="{seconds(self.milliseconds)}"'
        )

    def opening(self, name: str) -> str:
        """Its start tag."""
        return f'<testsuite name="{attribute(name)}" {self.counts()} skipped="{self.statuses[UNGRADED]}">\n'


def render(results: RowReader, context: ReportContext) -> Iterator[bytes]:
    """Yields the document: the counts of a suite come before its test cases, which wait in a temporary file."""
    spool, end = Spool(), 0
    total, suites = Suite(), dict[str, Suite]()
    for row in results.rows(Row):
        if not row.attempts:
            continue
        group = group_name(row.metadata, context.by) or f"no {context.by.removeprefix('metadata.')}"
        suite = suites.setdefault(group, Suite())
        suite.add(row.attempts)
        total.add(row.attempts)
        piece = _prompt_xml(row, group).encode()
        spool.keep(piece)
        suite.places.extend((end, len(piece)))
        end += len(piece)
    yield f'<?xml version="1.0" encoding="UTF-8"?>\n<testsuites name="agenteval" {total.counts()}>\n'.encode()
    for name, suite in suites.items():
        yield suite.opening(name).encode()
        file = spool.rewind()
        for offset, size in zip(suite.places[::2], suite.places[1::2], strict=True):
            file.seek(offset)
            yield file.read(size)
        yield b"</testsuite>\n"
    yield b"</testsuites>\n"


def _prompt_xml(row: Row, group: str) -> str:
    """The test case of a result; of trials, a suite of their own with the prompt's passRate as its property."""
    cases = "".join(_case_xml(answer, group) for answer in answers_in(row))
    if not row.is_trials:
        return cases
    suite = Suite()
    suite.add(row.attempts)
    rate = row.pass_rate
    shown = f'<properties><property name="passRate" value="{rate!r}"/></properties>\n' if rate is not None else ""
    return suite.opening(row.id) + shown + cases + "</testsuite>\n"


def _case_xml(answer: ReportedAnswer, group: str) -> str:
    """One test case: passed, or with the failure, the error, or why it is skipped."""
    attempt = answer.attempt
    time = "" if attempt.duration is None else f' time="{seconds(attempt.duration)}"'
    opening = f'<testcase name="{attribute(answer.id)}" classname="{attribute(group)}"{time}'
    found = [(one.name, f"{'pass' if one.passes else 'fail'}: {one.reason}") for one in attempt.checks]
    checks = "".join(f'<property name="{attribute(name)}" value="{attribute(what)}"/>' for name, what in found)
    properties = f"<properties>{checks}</properties>" if checks else ""
    if answer.status == PASS:
        return f"{opening}>{properties}</testcase>\n" if properties else f"{opening}/>\n"
    if answer.status == UNGRADED:
        return f'{opening}><skipped message="not graded"/></testcase>\n'
    element = "failure" if answer.status == FAIL else "error"
    kind = {FAIL: "did not pass", ERROR: "agent failed", GRADER_ERROR: "grader error"}[answer.status]
    message = attribute(one_line(answer.why or kind, LONGEST_MESSAGE)[:LONGEST_MESSAGE])
    output = f"<system-out>{text(preview(attempt.output, LONGEST_OUTPUT))}</system-out>" if attempt.output else ""
    return (
        f'{opening}>{properties}\n<{element} type="{kind}" message="{message}">{text(_details(answer))}</{element}>'
        f"{output}\n</testcase>\n"
    )


def _details(answer: ReportedAnswer) -> str:
    """All errors of the agent, or the score and the reasoning, of each grader if there are several."""
    attempt = answer.attempt
    if answer.status == ERROR:
        return "\n".join(attempt.failures)
    lines = [f"score {attempt.grade.score:g}"] if attempt.grade else []
    lines += [answer.why] if answer.why else []
    for name, grade in (attempt.scores or {}).items():
        verdict = "passed" if grade.pass_ else "did not pass"
        lines.append(f"{name}: {verdict}, score {grade.score:g}" + (f": {grade.reasoning}" if grade.reasoning else ""))
    return "\n".join(lines)


def seconds(milliseconds: float) -> str:
    """A time in seconds, as the schema wants it: at most three decimals."""
    return f"{milliseconds / 1000:.3f}"


def text(value: str) -> str:
    """The text as content of an element; characters that XML cannot have are replaced."""
    return NO_XML.sub("\ufffd", visible(value)).translate(ESCAPES)


def attribute(value: str) -> str:
    return text(value).translate(LINE_ENDS)
