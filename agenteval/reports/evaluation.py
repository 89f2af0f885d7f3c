"""An evaluation for people: in words, as markdown, and as a table as wide as the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from agenteval.reports.comparison import NOTHING, number, page
from agenteval.reports.comparison import table as markdown_table
from agenteval.reports.markup import inline
from agenteval.streams.text import clip, one_line, pad, width
from agenteval.wikipedia.criteria import in_words
from agenteval.wire.evaluation import Evaluation, QuestionScore

IDS_SHOWN = 5
ID_WIDTH = 40
GAP = "  "
TITLES = ("HIT", "MRR", "JUDGE", "TOKENS", "COMBINED")
LEAST_QUESTION = 12
METADATA = {
    "ground_truth_file": "Ground truth",
    "search_mode": "Search mode",
    "model": "Model",
    "judge_model": "Judge",
}
GRADERS = {"hit_rate": "sources=ae-grader-sources", "judge_score": "judge=ae-grader-judge"}


# --- in words -----------------------------------------------------------------------------------


def remarks(evaluation: Evaluation) -> list[str]:
    """What a reader of the means must know: what they leave out, and what in them is rough."""
    counts, results = evaluation.summary.counts, evaluation.results
    told = []
    if counts.failed:
        told.append(f"the agent failed on {which([r.id for r in results if r.failed], evaluation)}")
    if counts.grader_errors:
        told.append(
            f"a grader failed on {which([r.id for r in results if r.grader_errors], evaluation)}: no value there"
        )
    if counts.tokens_not_positive:
        about = which([r.id for r in results if r.tokens_not_positive], evaluation)
        told.append(f"the agent's tokens are not above 0 on {about}: no combined score there")
    if counts.tokens_approximate:
        about = which([r.id for r in results if r.tokens_approximate], evaluation)
        told.append(f"no tokens reported for {about}: question and answer were counted, fewer than were used")
    for name, grader in GRADERS.items():
        if results and not getattr(counts, name):
            told.append(f"no record has a {name}: grade with ae-grade -g {grader}")
    return told


def which(ids: Sequence[str], evaluation: Evaluation) -> str:
    """`2 of 20 questions (q1, q2)`."""
    names = ", ".join(clip(one_line(id, ID_WIDTH), ID_WIDTH) for id in ids[:IDS_SHOWN])
    more = f" and {len(ids) - IDS_SHOWN} more" if len(ids) > IDS_SHOWN else ""
    return f"{len(ids)} of {evaluation.num_questions} questions ({names}{more})"


def facts(evaluation: Evaluation, own: Mapping[str, str]) -> list[tuple[str, str]]:
    """What was evaluated and how, as far as anybody knows."""
    metadata = evaluation.metadata
    told = [(title, value) for name, title in METADATA.items() if (value := getattr(metadata, name)) is not None]
    formula = f"hit rate^{metadata.alpha:g} x judge^{metadata.gamma:g} / (tokens/1000)^{metadata.beta:g}"
    return [*told, *own.items(), ("Formula", formula)]


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
        ("Tokens in all", whole(summary.total_tokens), counts.num_tokens),
    ]


def cells(result: QuestionScore) -> list[str]:
    """The figures of a question; a number of tokens that was counted here has a ~."""
    rough = "~" if result.tokens_approximate else ""
    rates = [number(value) for value in (result.hit_rate, result.mrr, result.judge_score)]
    return [*rates, rough + whole(result.num_tokens), number(result.combined_score)]


def whole(value: float | None) -> str:
    """A number of tokens."""
    return NOTHING if value is None else f"{value:,.0f}"


def asked(result: QuestionScore) -> str:
    """The question, and what went wrong with it."""
    return f"FAILED: {result.question} ({'; '.join(result.errors)})" if result.errors else result.question


# --- markdown -----------------------------------------------------------------------------------


def markdown(evaluation: Evaluation, own: Mapping[str, str]) -> str:
    """The whole evaluation, as text; `own` is metadata of the user's."""
    about = [("Questions", str(evaluation.num_questions)), *facts(evaluation, own), ("Made", evaluation.timestamp)]
    head = ["# Evaluation", "", *(f"- {inline(name)}: {inline(value)}" for name, value in about)]
    means = [[name, value, str(n)] for name, value, n in figures(evaluation)]
    rows = [[inline(asked(result)), *cells(result)] for result in evaluation.results]
    titles = ["Question", "Hit rate", "MRR", "Judge", "Tokens", "Combined"]
    return page(
        [
            head,
            ["## Summary", "", *markdown_table(["", "Value", "Questions"], means)],
            _list("## Criteria", [in_words(result, evaluation.num_questions) for result in evaluation.criteria or ()]),
            _list("## Remarks", remarks(evaluation)),
            ["## Questions", "", *markdown_table(titles, rows)] if rows else [],
        ]
    )


def _list(title: str, lines: Sequence[str]) -> list[str]:
    return [title, "", *(f"- {inline(line)}" for line in lines)] if lines else []


# --- a table ------------------------------------------------------------------------------------


def table(evaluation: Evaluation, own: Mapping[str, str], columns: int) -> str:
    """The summary, then a line per question; questions are cut to the columns."""
    failed = evaluation.summary.counts.failed
    head = [("Questions", f"{evaluation.num_questions}" + (f", {failed} failed" if failed else ""))]
    head += [(name, value if value == NOTHING else f"{value} over {n}") for name, value, n in figures(evaluation)]
    head += [(one_line(name, columns), one_line(value, columns)) for name, value in facts(evaluation, own)]
    head += [("Criterion", in_words(result, evaluation.num_questions)) for result in evaluation.criteria or ()]
    left = max(width(name) for name, _ in head)
    lines = [f"{pad(name, left)}{GAP}{value}" for name, value in head]
    return "".join(f"{line}\n" for line in [*lines, *([""] if evaluation.results else []), *_rows(evaluation, columns)])


def _rows(evaluation: Evaluation, columns: int) -> list[str]:
    if not evaluation.results:
        return []
    rows = [cells(result) for result in evaluation.results]
    sizes = [max(len(cell) for cell in column) for column in zip(TITLES, *rows, strict=True)]
    room = max(LEAST_QUESTION, columns - sum(sizes) - len(GAP) * len(sizes))
    questions = [one_line(asked(result), columns) for result in evaluation.results]
    texts = zip([TITLES, *rows], ["QUESTION", *questions], strict=True)
    return [
        GAP.join([*(f"{c:>{n}}" for c, n in zip(row, sizes, strict=True)), clip(text, room)]) for row, text in texts
    ]
