"""ae-score: an evaluation as JSON, as markdown, or as a table for a terminal."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from agenteval.reports.figures import UNKNOWN, number, whole
from agenteval.reports.forms import ReportContext, ReportForms
from agenteval.reports.markup import inline, page, table
from agenteval.streams.text import (
    GAP,
    aligned,
    as_lines,
    clip,
    counted,
    first_few,
    in_columns,
    one_line,
    pretty_json,
    width,
)
from agenteval.wikipedia.score import in_words
from agenteval.wire.evaluation import Evaluation, QuestionScore

IDS_SHOWN = 5
ID_WIDTH = 40
LEAST_QUESTION = 12
TITLES = ("HIT", "MRR", "JUDGE", "TOKENS", "COMBINED", "QUESTION")
METADATA = {
    "ground_truth_file": "Ground truth",
    "search_mode": "Search mode",
    "model": "Model",
    "judge_model": "Judge",
}
REMARKS = {  # by the field of a question that is true where the remark applies
    "failed": "the agent failed on {}",
    "grader_errors": "a grader erred on {}: no value there",
    "tokens_not_positive": "the agent's tokens are not above 0 on {}: no combined score there",
    "tokens_missing": "only part of the tokens is reported for {}: their number is unknown",
    "negative_duration": "the duration is negative on {}: the clock was set back, so it is unknown",
    "tokens_approximate": "no tokens reported for {}: those of question and answer were counted, fewer than were used",
}
GRADERS = {"hit_rate": "sources=ae-grader-sources", "judge_score": "judge=ae-grader-judge"}


class EvaluationReport(NamedTuple):
    """An evaluation, and the metadata that the user added to it."""

    evaluation: Evaluation
    own: Mapping[str, str]


# --- forms --------------------------------------------------------------------------------------


def as_json(report: EvaluationReport, _context: ReportContext) -> Iterator[bytes]:
    """json: the evaluation as `ae-schemas Evaluation` describes it, with the user's own metadata"""
    record = msgspec.to_builtins(report.evaluation)
    record["metadata"] |= report.own
    yield pretty_json(record)


def as_markdown(report: EvaluationReport, _context: ReportContext) -> Iterator[bytes]:
    """markdown: summary, criteria and remarks, then a row per question"""
    evaluation, own = report
    total = evaluation.num_questions
    about = [("Questions", str(total)), *facts(evaluation, own), ("Made", evaluation.timestamp)]
    means = [[name, value, str(n)] for name, value, n in figures(evaluation)]
    rows = [[inline(asked(result)), *cells(result)] for result in evaluation.results]
    titles = ["Question", "Hit rate", "MRR", "Judge", "Tokens", "Combined"]
    sections = [
        ["# Evaluation", "", *(f"- {inline(name)}: {inline(value)}" for name, value in about)],
        ["## Summary", "", *table(["", "Value", "Questions"], means)],
        ["## Criteria", "", *(f"- {inline(in_words(result, total))}" for result in evaluation.criteria or ())],
        ["## Remarks", "", *(f"- {inline(remark)}" for remark in remarks(evaluation))],
        ["## Questions", "", *(table(titles, rows) if rows else ())],
    ]
    yield page(section for section in sections if len(section) > 2).encode()


def as_table(report: EvaluationReport, context: ReportContext) -> Iterator[bytes]:
    """table: for a terminal: summary, then a line per question"""
    evaluation, own = report
    failed = evaluation.summary.counts.failed
    head = [("Questions", f"{evaluation.num_questions}" + (f", {counted(failed, 'agent')} failed" if failed else ""))]
    head += [(name, value if value == UNKNOWN else f"{value} over {n}") for name, value, n in figures(evaluation)]
    head += [(one_line(name, context.width), one_line(value, context.width)) for name, value in facts(evaluation, own)]
    head += [("Criterion", in_words(result, evaluation.num_questions)) for result in evaluation.criteria or ()]
    yield as_lines(aligned(head))
    if evaluation.results:
        yield as_lines(["", *_question_lines(evaluation, context.width)])


def _question_lines(evaluation: Evaluation, total: int) -> Iterator[str]:
    """The titles, then a line per question, cut to the width of the terminal."""
    rows = [TITLES, *((*cells(result), one_line(asked(result), total)) for result in evaluation.results)]
    sizes = [max(map(width, column)) for column in zip(*rows, strict=True)][:-1]
    room = max(LEAST_QUESTION, total - sum(sizes) - len(GAP) * len(sizes))
    return (in_columns(row, [*sizes, room], range(len(sizes))) for row in rows)


FORMS = ReportForms(json=as_json, markdown=as_markdown, table=as_table)


# --- what the forms show ------------------------------------------------------------------------


def facts(evaluation: Evaluation, own: Mapping[str, str]) -> list[tuple[str, str]]:
    """Names and values of what was evaluated and how; what is not known is left out."""
    metadata = evaluation.metadata
    known = [(title, value) for name, title in METADATA.items() if (value := getattr(metadata, name)) is not None]
    formula = f"hit rate^{metadata.alpha:g} x judge^{metadata.gamma:g} / (tokens/1000)^{metadata.beta:g}"
    return [*known, *own.items(), ("Formula", formula)]


def figures(evaluation: Evaluation) -> list[tuple[str, str, int]]:
    """Name, value and number of questions behind it, for each figure of the summary."""
    summary, counts = evaluation.summary, evaluation.summary.counts
    return [
        ("Hit rate", number(summary.avg_hit_rate), counts.hit_rate),
        ("MRR", number(summary.avg_mrr), counts.mrr),
        ("Judge score", number(summary.avg_judge_score), counts.judge_score),
        ("Combined score", number(summary.avg_combined_score), counts.combined_score),
        ("Best combined score", number(summary.best_combined_score), counts.combined_score),
        ("Tokens per question", whole(summary.avg_num_tokens), counts.num_tokens),
        ("Tokens in total", whole(summary.total_tokens), counts.num_tokens),
    ]


def cells(result: QuestionScore) -> list[str]:
    """The figures of a question; an estimated number of tokens has a ~."""
    rough = "~" if result.tokens_approximate else ""
    rates = [number(value) for value in (result.hit_rate, result.mrr, result.judge_score)]
    return [*rates, rough + whole(result.num_tokens), number(result.combined_score)]


def asked(result: QuestionScore) -> str:
    """The question, and what went wrong with it."""
    return f"{result.question} (agent failed: {'; '.join(result.errors)})" if result.errors else result.question


def remarks(evaluation: Evaluation) -> list[str]:
    """What the means leave out, and which values in them are estimates."""
    counts, results = evaluation.summary.counts, evaluation.results
    about = {name: [each.id for each in results if getattr(each, name)] for name in REMARKS}
    notes = [REMARKS[name].format(_which(ids, evaluation)) for name, ids in about.items() if ids]
    for name, grader in GRADERS.items():
        if results and not getattr(counts, name):
            notes.append(f"no record has a {name}; grade them with ae-grade -g {grader}")
    return notes


def _which(ids: Sequence[str], evaluation: Evaluation) -> str:
    """`2 of 20 questions (q1, q2)`."""
    names = first_few([clip(one_line(id, ID_WIDTH), ID_WIDTH) for id in ids], IDS_SHOWN)
    return f"{len(ids)} of {evaluation.num_questions} questions ({names})"
