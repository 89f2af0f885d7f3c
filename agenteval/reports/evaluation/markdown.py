"""markdown: summary, criteria and remarks, then a row per question"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from agenteval.reports.evaluation_facts import EvaluationReport, asked, cells, facts, figures, remarks
from agenteval.reports.forms import ReportContext
from agenteval.reports.markup import inline, page, table
from agenteval.wikipedia.score import in_words


def render(report: EvaluationReport, _context: ReportContext) -> Iterator[bytes]:
    """Yields the evaluation as markdown."""
    evaluation, own = report
    about = [("Questions", str(evaluation.num_questions)), *facts(evaluation, own), ("Made", evaluation.timestamp)]
    head = ["# Evaluation", "", *(f"- {inline(name)}: {inline(value)}" for name, value in about)]
    means = [[name, value, str(n)] for name, value, n in figures(evaluation)]
    rows = [[inline(asked(result)), *cells(result)] for result in evaluation.results]
    titles = ["Question", "Hit rate", "MRR", "Judge", "Tokens", "Combined"]
    sections = [
        head,
        ["## Summary", "", *table(["", "Value", "Questions"], means)],
        _list("## Criteria", [in_words(result, evaluation.num_questions) for result in evaluation.criteria or ()]),
        _list("## Remarks", remarks(evaluation)),
        ["## Questions", "", *table(titles, rows)] if rows else [],
    ]
    yield page(sections).encode()


def _list(title: str, lines: Sequence[str]) -> list[str]:
    return [title, "", *(f"- {inline(line)}" for line in lines)] if lines else []
