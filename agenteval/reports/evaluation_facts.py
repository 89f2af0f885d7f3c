"""What every form of an evaluation shows: remarks, metadata, the figures of the summary and of each question."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from agenteval.reports.figures import number, whole
from agenteval.streams.text import clip, first_few, one_line
from agenteval.wire.evaluation import Evaluation, QuestionScore

IDS_SHOWN = 5
ID_WIDTH = 40
METADATA = {
    "ground_truth_file": "Ground truth",
    "search_mode": "Search mode",
    "model": "Model",
    "judge_model": "Judge",
}
REMARKS = {  # by the field of a question that is true where it holds
    "failed": "the agent failed on {}",
    "grader_errors": "a grader erred on {}: no value there",
    "tokens_not_positive": "the agent's tokens are not above 0 on {}: no combined score there",
    "tokens_missing": "only part of the tokens is reported for {}: their number is not known",
    "negative_duration": "the duration is negative on {}: the clock was set back, so it is not known",
    "tokens_approximate": "no tokens reported for {}: question and answer were counted, fewer than were used",
}
GRADERS = {"hit_rate": "sources=ae-grader-sources", "judge_score": "judge=ae-grader-judge"}


class EvaluationReport(NamedTuple):
    """An evaluation, and the metadata that the user added to it."""

    evaluation: Evaluation
    own: Mapping[str, str]


def remarks(evaluation: Evaluation) -> list[str]:
    """What the means leave out, and which values in them are estimates."""
    counts, results = evaluation.summary.counts, evaluation.results
    about = {name: [each.id for each in results if getattr(each, name)] for name in REMARKS}
    notes = [REMARKS[name].format(which(ids, evaluation)) for name, ids in about.items() if ids]
    for name, grader in GRADERS.items():
        if results and not getattr(counts, name):
            notes.append(f"no record has a {name}: grade with ae-grade -g {grader}")
    return notes


def which(ids: Sequence[str], evaluation: Evaluation) -> str:
    """`2 of 20 questions (q1, q2)`."""
    names = first_few([clip(one_line(id, ID_WIDTH), ID_WIDTH) for id in ids], IDS_SHOWN)
    return f"{len(ids)} of {evaluation.num_questions} questions ({names})"


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
