"""junit: XML for CI servers: a suite per category (--by), a test case per record or trial"""

from __future__ import annotations

import re
from array import array
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from agenteval.reports.answers import ExportedAnswer, read_prompts
from agenteval.reports.forms import ReportContext
from agenteval.reports.page.rows import group_of
from agenteval.reports.result_reader import ResultReader
from agenteval.streams.files import Spool
from agenteval.streams.text import one_line, preview, visible
from agenteval.wire.result_view import ERROR, FAIL, GRADER_ERROR, PASS, UNGRADED

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

    def add(self, answer: ExportedAnswer) -> None:
        """Counts an answer."""
        self.statuses[answer.status] += 1
        self.milliseconds += answer.result.duration or 0

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


def render(results: ResultReader, context: ReportContext) -> Iterator[bytes]:
    """Yields the document: the counts of a suite come before its test cases, which wait in a temporary file."""
    spool, end = Spool(), 0
    total, suites = Suite(), dict[str, Suite]()
    for answers in read_prompts(results):
        if not answers:
            continue
        group = group_of(answers[0].metadata, context.by) or f"no {context.by.removeprefix('metadata.')}"
        suite = suites.setdefault(group, Suite())
        for answer in answers:
            suite.add(answer)
            total.add(answer)
        piece = prompt_xml(answers, group).encode()
        spool.keep(piece)
        suite.places.extend((end, len(piece)))
        end += len(piece)
    yield f'<?xml version="1.0" encoding="UTF-8"?>\n<testsuites name="agenteval" {total.counts()}>\n'.encode()
    for name, suite in suites.items():
        yield suite.opening(name).encode()
        yield from pieces(spool, suite.places)
        yield b"</testsuite>\n"
    yield b"</testsuites>\n"


def pieces(spool: Spool, places: array[int]) -> Iterator[bytes]:
    """What is in the spool at those places (offset, length, …)."""
    file = spool.rewind()
    for at in range(0, len(places), 2):
        file.seek(places[at])
        yield file.read(places[at + 1])


# --- test cases ---------------------------------------------------------------------------------


def prompt_xml(answers: list[ExportedAnswer], group: str) -> str:
    """The test case of a result; of trials, a suite of their own with the prompt's passRate as its property."""
    cases = "".join(case_xml(answer, group) for answer in answers)
    if answers[0].trial is None:
        return cases
    suite = Suite()
    for answer in answers:
        suite.add(answer)
    rate = answers[0].pass_rate
    shown = f'<properties><property name="passRate" value="{rate!r}"/></properties>\n' if rate is not None else ""
    return suite.opening(answers[0].prompt_id) + shown + cases + "</testsuite>\n"


def case_xml(answer: ExportedAnswer, group: str) -> str:
    """One test case: passed, or with the failure, the error, or why it is skipped."""
    result = answer.result
    time = "" if result.duration is None else f' time="{seconds(result.duration)}"'
    opening = f'<testcase name="{attribute(result.id)}" classname="{attribute(group)}"{time}'
    if answer.status == PASS:
        return f"{opening}/>\n"
    if answer.status == UNGRADED:
        return f'{opening}><skipped message="not graded"/></testcase>\n'
    element = "failure" if answer.status == FAIL else "error"
    kind = {FAIL: "did not pass", ERROR: "agent failed", GRADER_ERROR: "grader error"}[answer.status]
    message = attribute(one_line(answer.why or kind, LONGEST_MESSAGE)[:LONGEST_MESSAGE])
    output = f"<system-out>{text(preview(result.output, LONGEST_OUTPUT))}</system-out>" if result.output else ""
    return (
        f'{opening}>\n<{element} type="{kind}" message="{message}">{text(details(answer))}</{element}>'
        f"{output}\n</testcase>\n"
    )


def details(answer: ExportedAnswer) -> str:
    """All errors of the agent, or the score and the reasoning, of each grader if there are several."""
    result = answer.result
    if answer.status == ERROR:
        return "\n".join(result.failures)
    lines = [f"score {result.grade.score:g}"] if result.grade else []
    lines += [answer.why] if answer.why else []
    for name, grade in (result.scores or {}).items():
        verdict = "passed" if grade.pass_ else "did not pass"
        lines.append(f"{name}: {verdict}, score {grade.score:g}" + (f": {grade.reasoning}" if grade.reasoning else ""))
    return "\n".join(lines)


# --- XML ----------------------------------------------------------------------------------------


def seconds(milliseconds: float) -> str:
    """A time in seconds, as the schema wants it: at most three decimals."""
    return f"{milliseconds / 1000:.3f}"


def text(value: str) -> str:
    """The text as content of an element; characters that XML cannot have are replaced."""
    return NO_XML.sub("\ufffd", visible(value)).translate(ESCAPES)


def attribute(value: str) -> str:
    """The text as the value of an attribute."""
    return text(value).translate(LINE_ENDS)
