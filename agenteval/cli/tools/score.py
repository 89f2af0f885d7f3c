"""ae-score: graded results or trials → evaluation.json: means, a combined score, and whether criteria are met."""

import time
from collections.abc import Callable, Mapping
from typing import Any

import click

from agenteval.cli.options import F, NumberRange, input_argument, output_option, progress_option, strict_option
from agenteval.cli.report_options import form_option
from agenteval.cli.tool import tool
from agenteval.errors import FAILED, OK, UserError
from agenteval.models.tokens import count_tokens
from agenteval.reports.evaluation import FORMS, EvaluationReport, remarks
from agenteval.streams.console import Console, Ending
from agenteval.streams.output import Output
from agenteval.streams.source import Source, read_checked
from agenteval.wikipedia.score import (
    Criterion,
    ScoreRules,
    ScoreWeights,
    Scoring,
    check_criteria,
    in_words,
    load_criteria,
    parse_minimum,
)
from agenteval.wire.evaluation import Evaluation, EvaluationMetadata

NAME = "ae-score"
MOST_WEIGHT = 10


def count_text(text: str, model: str) -> int:
    """Counts the tokens of a text, for an agent that reports none; loads the vocabulary at first use."""
    return count_tokens(text, model).tokens


def own_metadata(texts: tuple[str, ...]) -> dict[str, str]:
    """Parses KEY=VALUE; the exponents have their own options."""
    pairs = [text.partition("=") for text in texts]
    for text, (key, equals, _) in zip(texts, pairs, strict=True):
        if not (key and equals):
            raise UserError(f"--meta {text}: write KEY=VALUE")
        if key in ScoreWeights._fields:
            raise UserError(f"--meta {text}: use --{key}")
    return {key: value for key, _, value in pairs}


def evaluate(scoring: Scoring, criteria: list[Criterion], given: Mapping[str, str], now: float) -> Evaluation:
    """Returns the evaluation of all questions; metadata given by the user takes precedence over the records'."""
    metadata: dict[str, Any] = {name: given.get(name, scoring.agreed(name)) for name in scoring.metadata}
    summary = scoring.summary()
    return Evaluation(
        timestamp=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now)),
        num_questions=len(scoring.results),
        summary=summary,
        metadata=EvaluationMetadata(**metadata, **scoring.rules.weights._asdict()),
        criteria=check_criteria(criteria, summary) if criteria else None,
        results=scoring.results,
    )


def report(evaluation: Evaluation, scoring: Scoring, given: Mapping[str, str], console: Console) -> bool:
    """Reports what the means leave out and which criteria are met; returns whether all are."""
    for remark in remarks(evaluation):
        console.say(remark)
    for name, values in scoring.metadata.items():
        if len(values) > 1 and name not in given:
            console.say(f"the records disagree on {name} ({', '.join(values)}, …): set it with --meta {name}=…")
    criteria = evaluation.criteria or []
    for result in criteria:
        console.say(in_words(result, evaluation.num_questions))
    return all(result.met for result in criteria)


def weight_option(name: str, default: float, of: str) -> Callable[[F], F]:
    """--alpha, --beta or --gamma."""
    return click.option(
        f"--{name}",
        type=NumberRange(0, MOST_WEIGHT),
        default=default,
        metavar="X",
        help=f"Exponent of {of} in the combined score.",
    )


@tool(NAME, exit_status={1: "finished, but some lines were refused or a criterion was not met"})
@input_argument("GRADED")
@weight_option("alpha", ScoreWeights().alpha, "the hit rate")
@weight_option("beta", ScoreWeights().beta, "the tokens")
@weight_option("gamma", ScoreWeights().gamma, "the judge's score")
@click.option(
    "--criteria", metavar="NAME|FILE", help="Exit 1 unless these are met: minimum, target, or a JSON file of minima."
)
@click.option(
    "--min", "minima", multiple=True, metavar="NAME=VALUE", help="Exit 1 if this mean is below VALUE; repeatable."
)
@click.option("--no-judge-tokens", is_flag=True, help="Count only the agent's tokens, not the judge's.")
@click.option("--meta", multiple=True, metavar="KEY=VALUE", help="Add to the metadata; repeatable.")
@form_option(FORMS, "json")
@output_option
@strict_option
@progress_option
def main(
    path: str | None,
    alpha: float,
    beta: float,
    gamma: float,
    criteria: str | None,
    minima: tuple[str, ...],
    no_judge_tokens: bool,
    meta: tuple[str, ...],
    form: str | None,
    output: str | None,
    strict: bool,
    progress: bool | None,
    debug: bool,
) -> int:
    """Evaluate graded results: means, one combined score, and whether criteria are met.

    GRADED is the output of ae-grade, results or trials (or stdin). Each trial counts as a question named ID#N. For
    each question:
      hit_rate, mrr   from the outcome of the grader named `sources` (ae-grader-sources), else its score
      judge_score     outcome.overall_score of the one named `judge` (ae-grader-judge), else its score
      num_tokens      the agent's input and output tokens plus the judge's (see --no-judge-tokens). If the agent
                      reports none, those of question and answer are counted instead: fewer than it used, and
                      marked tokens_approximate. If only part of them is reported, num_tokens is null and left out
                      of the means
      combined_score  hit_rate^alpha * judge_score^gamma / (num_tokens/1000)^beta
    If no grader has that name, one whose outcome has hit_rate or overall_score is used.

    Missing is not zero: a value that a question lacks (not graded, or the grader erred) is null and left
    out of the means; summary.counts has the number of questions behind each. Without tokens above 0 there
    is no combined score. A question on which the agent failed counts with the values its graders gave it, is marked
    `failed` with its errors, and is named on stderr. best_combined_score is that of the best question.

    The fields and criteria are those of the reference evaluation of a Wikipedia agent. Its sample (1.42 at
    hit rate 1, judge 0.85 and 2500 tokens) does not follow from its formula, which gives 0.50; ae-score
    uses the formula. Its target of 1.20 needs fewer than 700 tokens even if all else is perfect.

    Criteria (strictly greater; results in `criteria` and on stderr):
      minimum  avg_hit_rate > 0.8, avg_mrr > 0.7, avg_judge_score > 0.75
      target   avg_hit_rate > 0.9, avg_mrr > 0.85, avg_judge_score > 0.85, avg_combined_score > 1.2
      FILE     {"avg_hit_rate": 0.8, "best_combined_score": 0.5}
    --min requires at least VALUE: hit_rate, mrr, judge_score, combined_score (avg_hit_rate, … are the
    same), best_combined_score. A value that no question has meets no criterion.

    Metadata: ground_truth_file, search_mode, model (from fields or metadata of these names in the records)
    and judge_model (from the judge), if all records that have a value agree, or as given with --meta.

    Examples:
      ae-score graded.jsonl --criteria minimum -o evaluation.json
      ae-score graded.jsonl --min hit_rate=0.9 --min judge_score=0.7 --meta ground_truth_file=ground_truth.json
      ae-score graded.jsonl --beta 0 -f table | less -S
      ae-grade results.jsonl -g sources=ae-grader-sources -g judge=ae-grader-judge | ae-score -o evaluation.md
    """
    form = FORMS.choose(form, output, "json")
    wanted = [*(load_criteria(criteria) if criteria else ()), *map(parse_minimum, minima)]
    given = own_metadata(meta)
    console = Console(NAME, progress=progress, strict=strict, output=output)
    source = Source(path)
    target = Output(output, inputs=[source], lazy=True)
    scoring = Scoring(ScoreRules(ScoreWeights(alpha, beta, gamma), count_text, judge_tokens=not no_judge_tokens))
    console.begin(None, "records")
    for record, results in read_checked(source, scoring.add, console):
        console.advance(record["id"], Ending.AGENT_FAILED if any(result.failed for result in results) else None)
    console.finish()
    evaluation = evaluate(scoring, wanted, given, time.time())
    target.open()
    own = {key: value for key, value in given.items() if key not in scoring.metadata}
    FORMS.write(form, EvaluationReport(evaluation, own), target)
    all_met = report(evaluation, scoring, given, console)
    return OK if all_met and not console.refused else FAILED
