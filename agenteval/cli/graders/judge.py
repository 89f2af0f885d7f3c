"""ae-grader-judge: how good is the answer, in the eyes of a model?"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack

from agenteval.cli.options import MILLISECONDS, NumberRange, concurrency_option, input_argument, output_option
from agenteval.cli.startup import click
from agenteval.cli.tool import tool
from agenteval.errors import UserError
from agenteval.grading.judge import (
    FURTHER,
    MATERIAL,
    PROMPT,
    Cache,
    Judge,
    Panel,
    Prices,
    Together,
    Verdict,
    one_by_one,
)
from agenteval.grading.serve import answer_all
from agenteval.models.chat import Model, ModelError, needs_openai

MODEL_VARIABLE = "DEFAULT_JUDGE_MODEL"
DEFAULT_MODEL = "gpt-4o-mini"
OFFLINE = "offline"


def read_text(path: str) -> str:
    """The text of a file; UserError when it cannot be read."""
    try:
        with open(path, encoding="utf-8") as file:
            return file.read().strip()
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise UserError(f"{path}: not UTF-8 text") from None


def instructions_from(prompt: str | None, rubric: str | None) -> str:
    """The system message: how to judge, further criteria and, whatever is replaced, how the material is fenced."""
    parts = [read_text(prompt or PROMPT)]
    if rubric:
        is_file = os.path.exists(rubric) or rubric.endswith((".txt", ".md"))
        parts.append(f"{FURTHER}\n{read_text(rubric) if is_file else rubric}")
    return "\n\n".join([*parts, read_text(MATERIAL)])


def prices_from(texts: Sequence[str]) -> Prices:
    """What `[MODEL=]IN/OUT` says, by model; UserError when it says nothing of the kind."""
    prices: dict[str | None, tuple[float, float]] = {}
    for text in texts:
        name, _, numbers = text.rpartition("=")
        try:
            sent, got = map(float, numbers.split("/"))
        except ValueError:
            sent = got = -1.0
        if not (0 <= sent < float("inf") and 0 <= got < float("inf")):
            raise UserError(
                f"--price {text}: give dollars per million tokens as IN/OUT or MODEL=IN/OUT, such as 0.15/0.60"
            )
        prices[name or None] = (sent, got)
    return prices


def cache_in(directory: str | None) -> Cache | None:
    """The cache, its directory made where it is missing; UserError when nothing can be kept there."""
    if directory is None:
        return None
    try:
        os.makedirs(directory, exist_ok=True)
    except OSError as error:
        raise UserError(f"{directory}: {error.strerror}") from None
    if not os.access(directory, os.W_OK | os.X_OK):
        raise UserError(f"{directory}: cannot be written to")
    return Cache(directory)


def side_by_side(limit: int) -> Together:
    """Asks several judges at a time."""
    from concurrent.futures import ThreadPoolExecutor

    threads = ThreadPoolExecutor(limit)

    def together(questions: Sequence[Callable[[], Verdict]]) -> list[Verdict]:
        return [asked.result() for asked in [threads.submit(question) for question in questions]]

    return together


def offline_server(stack: ExitStack) -> str:
    """The address of a server in this process that judges by rules."""
    from agenteval.wikipedia.offline.chatserver import chat_model
    from agenteval.wikipedia.offline.serving import serving

    return f"{stack.enter_context(serving(chat_model()))}/v1"


def models_at(server: str | None, names: Sequence[str], patience: float, retries: int) -> list[Model]:
    """The models, at the user's server unless one is given; UserError when they cannot be asked."""
    key = OFFLINE if server else None
    try:
        return [
            Model(name, base_url=server, api_key=key, timeout=patience / 2, retries=retries, patience=patience)
            for name in names
        ]
    except ModelError as error:
        raise UserError(f"{error} (--offline judges by rules, without a key)") from None


@tool("ae-grader-judge")
@input_argument("RECORDS")
@click.option(
    "--model",
    multiple=True,
    metavar="NAME",
    help=f"The judge; repeat it for several.  [default: ${MODEL_VARIABLE}, else {DEFAULT_MODEL}]",
)
@click.option("--offline", is_flag=True, help="Judge by rules, without a model, a key or a network.")
@click.option("--prompt", metavar="FILE", help="How to judge, in place of the text that comes with the suite.")
@click.option("--rubric", metavar="FILE|TEXT", help="Further criteria, added to the prompt.")
@click.option(
    "--threshold",
    type=NumberRange(0, 1),
    default=0.75,
    show_default=True,
    metavar="X",
    help="The overall score from which on an answer passes.",
)
@click.option(
    "--temperature",
    type=NumberRange(0, 2),
    default=0.1,
    show_default=True,
    metavar="X",
    help="Left out where the model takes none.",
)
@concurrency_option("Requests", default=4)
@click.option("--cache", metavar="DIR", help="Keep verdicts here; what was judged before costs nothing.")
@click.option(
    "--price", multiple=True, metavar="[MODEL=]IN/OUT", help="Dollars per million tokens, for cost_usd; repeatable."
)
@click.option(
    "--timeout",
    type=MILLISECONDS,
    default=50_000,
    show_default=True,
    help="Limit for a record, retries included (one try gets half of it); less than -t of ae-grade.",
)
@click.option(
    "--retries",
    type=click.IntRange(0),
    default=4,
    show_default=True,
    metavar="N",
    help="Further tries after a 429, a 5xx or a time-out.",
)
@click.option("--any-model", is_flag=True, help="Take the verdict also when the server used another model.")
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
    """Grade answers with a model as the judge: overall score, accuracy, completeness, relevance, reasoning.

    The judge sees the question (`input`, else `question`), the answer (`output`, or `answer` where the output is a
    JSON object that has one), its sources and the record's `reference`, fenced so that an answer cannot give orders.
    The overall score is the score. Needs OPENAI_API_KEY; OPENAI_BASE_URL names any other server of that API (one on
    this machine needs no key). Rate limits, server errors and time-outs are tried again, Retry-After is honoured.

    Scores, models, tokens and cost are in `outcome`; cost_usd is null without --price. A verdict that cannot be read,
    has scores outside 0 to 1 or comes from another model is an error, not a zero. Several judges: the score is their
    mean, pass what more than half of them say; each is in outcome.judges, how far they agree in outcome.agreement.
    With --cache a verdict given before is marked `cached`, tells the tokens it took then, and costs 0.

    Examples:
      ae-grade results.jsonl -g judge=ae-grader-judge
      ae-grade results.jsonl -g "judge=ae-grader-judge --model gpt-4o --cache .judged --price 2.50/10"
      ae-grade results.jsonl -g "judge=ae-grader-judge --model gpt-4o-mini --model gpt-4o -j 8"
      ae-grader-judge --offline --rubric 'Answers must name a year.' results.jsonl
    """
    names = model or (OFFLINE if offline else os.environ.get(MODEL_VARIABLE) or DEFAULT_MODEL,)
    if offline and model:
        raise UserError("--offline is a judge of its own: leave --model out")
    if len(set(names)) < len(names):
        raise UserError("--model: each judge once; the same one twice is the same opinion")
    instructions, kept = instructions_from(prompt, rubric), cache_in(cache)
    prices = prices_from((*price, f"{OFFLINE}=0/0"))
    needs_openai()
    rounds = -(-len(names) // concurrency)  # how often a judge waits for another: the limit is for all of them
    together = side_by_side(concurrency) if len(names) > 1 and concurrency > 1 else one_by_one
    with ExitStack() as stack:
        server = offline_server(stack) if offline else None
        models = models_at(server, names, timeout / 1000 / rounds, retries)
        place = OFFLINE if offline else models[0].base_url
        judges = [Judge(one.name, one.ask, instructions, temperature, place, kept, any_model) for one in models]
        panel = Panel(judges, threshold, prices, together)
        return answer_all(panel.grade, path, output, ahead=max(1, concurrency // len(names)))
