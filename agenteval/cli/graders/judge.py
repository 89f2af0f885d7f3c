"""ae-grader-judge: how good is the answer, as judged by one or more models?"""

import os
from collections.abc import Sequence
from functools import partial

import click

from agenteval.cli.options import (
    MILLISECONDS,
    NumberRange,
    concurrency_option,
    count_option,
    input_argument,
    output_option,
)
from agenteval.cli.tool import OF_GRADING, tool
from agenteval.errors import UserError
from agenteval.grading.judge import Judge, Panel, Prices, VerdictCache, instructions_from
from agenteval.grading.offline_judge import judge as judge_by_rules
from agenteval.grading.serve import DEFAULT_MODEL, MODEL_VARIABLE, answer_all
from agenteval.models.chat import Model, ModelError
from agenteval.models.tokens import OFFLINE


def prices_from(texts: Sequence[str]) -> Prices:
    """Parses `[MODEL=]IN/OUT` into prices by model; raises UserError for anything else."""
    prices: dict[str | None, tuple[float, float]] = {}
    for text in texts:
        name, _, numbers = text.rpartition("=")
        try:
            sent, received = map(float, numbers.split("/"))
        except ValueError:
            sent = received = -1.0
        if not (0 <= sent < float("inf") and 0 <= received < float("inf")):
            raise UserError(
                f"--price {text}: give dollars per million tokens as IN/OUT or MODEL=IN/OUT, such as 0.15/0.60"
            )
        prices[name or None] = (sent, received)
    return prices


def open_models(names: Sequence[str], patience: float, retries: int) -> list[Model]:
    """Returns the models on the user's server; raises UserError if they cannot be asked."""
    try:
        return [Model(name, timeout=patience / 2, retries=retries, patience=patience) for name in names]
    except ModelError as error:
        raise UserError(f"{error} (--offline judges by rules, without a key)") from None


@tool("ae-grader-judge", exit_status=OF_GRADING)
@input_argument("RECORDS")
@click.option(
    "--model",
    multiple=True,
    metavar="NAME",
    help=f"Model to judge with; repeat it for several judges.  [default: ${MODEL_VARIABLE}, else {DEFAULT_MODEL}]",
)
@click.option("--offline", is_flag=True, help="Judge by rules, without a model, key or network.")
@click.option("--prompt", metavar="FILE", help="Instructions for the judge, in place of the bundled ones.")
@click.option("--rubric", metavar="FILE|TEXT", help="Further criteria, added to the prompt.")
@click.option(
    "--threshold", type=NumberRange(0, 1), default=0.75, metavar="X", help="Lowest overall score that passes."
)
@click.option(
    "--temperature",
    type=NumberRange(0, 2),
    default=0.1,
    metavar="X",
    help="Temperature; not sent to models that refuse it.",
)
@concurrency_option("requests", default=4)
@click.option("--cache", metavar="DIR", help="Cache verdicts in DIR; a case that was judged before costs nothing.")
@click.option(
    "--price", multiple=True, metavar="[MODEL=]IN/OUT", help="Dollars per million tokens, for cost_usd; repeatable."
)
@click.option(
    "--timeout",
    type=MILLISECONDS,
    default=50_000,
    help="Time limit per record, retries included (one attempt gets half of it); must be below ae-grade's -t. A bare "
    "number is ms.",
)
@count_option("--retries", least=0, default=4, help="Number of retries after a 429, a 5xx or a timeout.")
@click.option("--any-model", is_flag=True, help="Accept a verdict even if the server used another model.")
@output_option
def main(
    path: str | None,
    model: tuple[str, ...],
    offline: bool,
    prompt: str | None,
    rubric: str | None,
    threshold: float,
    temperature: float,
    concurrency: int,
    cache: str | None,
    price: tuple[str, ...],
    timeout: float,
    retries: int,
    any_model: bool,
    output: str | None,
    debug: bool,
) -> int:
    """Grade answers with a model as judge: overall score, accuracy, completeness, relevance, reasoning.

    The judge sees the question (`input`, else `question`), the answer (`output`, or `answer` if the output is a JSON
    object that has one), its sources and the record's `reference` and `hint`, enclosed in a delimiter so that an
    answer cannot pose as instructions. A --prompt that names {{sources}}, {{reference}}, {{hint}}, {{rubric}},
    {{trajectory}} or {{metadata}} gets exactly these. A record's own `rubric` takes precedence over --rubric. The
    overall score becomes the record's score. The judge needs OPENAI_API_KEY; OPENAI_BASE_URL names any other server
    with that API (one on this machine needs no key). Requests are retried after rate limits, server errors and
    timeouts; Retry-After is honoured.

    Scores, models, tokens and cost are in `outcome`; cost_usd is null without --price. A judge whose reply cannot be
    read is asked once more. A verdict that still cannot be read, has scores outside 0 to 1 or comes from another
    model is an error, not a zero. With several judges the score is their mean, and the answer passes if more than
    half of them pass it; outcome.judges lists each, outcome.agreement their agreement. With --cache, a verdict given
    before is marked `cached`, shows the tokens it used then, and costs 0. --offline needs no model, key or network:
    rules compare words, which says little about truth.

    Examples:
      ae-grade results.jsonl -g judge=ae-grader-judge
      ae-grade results.jsonl -g "judge=ae-grader-judge --model gpt-4o --cache .judged --price 2.50/10"
      ae-grade results.jsonl -g "judge=ae-grader-judge --model gpt-4o-mini --model gpt-4o -j 8"
      ae-grader-judge --offline --rubric 'Answers must name a year.' results.jsonl
    """
    names = model or (os.environ.get(MODEL_VARIABLE) or DEFAULT_MODEL,)
    if offline and model:
        raise UserError("--offline judges by rules, without a model: leave out --model")
    if len(set(names)) < len(names):
        raise UserError("--model: give each judge once; the same model twice is one opinion")
    instructions = instructions_from(prompt, rubric)
    cached = None if cache is None else VerdictCache(cache)
    rounds = -(-len(names) // concurrency)  # the time limit is for all rounds together
    patience = timeout / 1000 / rounds
    judge = partial(
        Judge, instructions=instructions, temperature=temperature, cache=cached, any_model=any_model, patience=patience
    )
    prices = prices_from((*price, f"{OFFLINE}=0/0"))
    if offline:
        panel = Panel([judge(OFFLINE, judge_by_rules, server=OFFLINE)], threshold, prices)
        return answer_all(panel.grade, path, output)
    models = open_models(names, patience, retries)
    judges = [judge(one.name, one.ask, server=one.base_url) for one in models]
    panel = Panel(judges, threshold, prices, at_once=min(concurrency, len(judges)))
    return answer_all(panel.grade, path, output, ahead=max(1, concurrency // len(names)))
