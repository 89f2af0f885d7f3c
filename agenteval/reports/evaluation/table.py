"""table: for a terminal: summary, then a line per question"""

from __future__ import annotations

from collections.abc import Iterator

from agenteval.reports.evaluation_facts import EvaluationReport, asked, cells, facts, figures
from agenteval.reports.figures import UNKNOWN
from agenteval.reports.forms import ReportContext
from agenteval.streams.text import GAP, aligned, as_lines, counted, in_columns, one_line, width
from agenteval.wikipedia.score import in_words
from agenteval.wire.evaluation import Evaluation

TITLES = ("HIT", "MRR", "JUDGE", "TOKENS", "COMBINED")
LEAST_QUESTION = 12


def render(report: EvaluationReport, context: ReportContext) -> Iterator[bytes]:
    """Yields the summary, then a line per question, cut to the width of the terminal."""
    evaluation, own = report
    failed = evaluation.summary.counts.failed
    head = [("Questions", f"{evaluation.num_questions}" + (f", {counted(failed, 'agent')} failed" if failed else ""))]
    head += [(name, value if value == UNKNOWN else f"{value} over {n}") for name, value, n in figures(evaluation)]
    head += [(one_line(name, context.width), one_line(value, context.width)) for name, value in facts(evaluation, own)]
    head += [("Criterion", in_words(result, evaluation.num_questions)) for result in evaluation.criteria or ()]
    yield as_lines(aligned(head))
    if evaluation.results:
        yield as_lines(["", *question_lines(evaluation, context.width)])


def question_lines(evaluation: Evaluation, total: int) -> Iterator[str]:
    """The titles, then a line per question."""
    rows = [[*TITLES, "QUESTION"]]
    rows += [[*cells(result), one_line(asked(result), total)] for result in evaluation.results]
    sizes = [max(map(width, column)) for column in zip(*rows, strict=True)][: len(TITLES)]
    room = max(LEAST_QUESTION, total - sum(sizes) - len(GAP) * len(sizes))
    return (in_columns(row, [*sizes, room], range(len(TITLES))) for row in rows)
