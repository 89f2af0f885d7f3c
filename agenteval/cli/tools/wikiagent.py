"""ae-wikiagent: a question → an answer from Wikipedia, with every step as an event."""

import os
from functools import partial
from typing import Any

import click

from agenteval.cli.options import Parsed, count_option
from agenteval.cli.tool import tool
from agenteval.errors import FAILED, OK, UserError
from agenteval.models.chat import Model, ModelError
from agenteval.streams.output import Output
from agenteval.streams.source import Source, text_lines
from agenteval.streams.text import parse_milliseconds
from agenteval.wikipedia.agent import MODES, AgentConversation, AskModel, SearchableWiki, wiki_tools
from agenteval.wikipedia.offline import OfflineWiki, bundled
from agenteval.wikipedia.offline import ask as ask_rules
from agenteval.wikipedia.wiki import Wiki

DEFAULT_MODEL = "gpt-4o-mini"

EXIT_STATUS = {
    0: "the last event is a result with an answer",
    1: "the last event is a result with the error of the model, the wiki or the network",
}


def parse_seconds(text: str) -> float:
    """Returns a time of at least a second, from seconds or a number with a unit."""
    seconds = parse_milliseconds(text if text[-1:].isalpha() else f"{text}s") / 1000
    if seconds < 1:
        raise ValueError(f"{text!r} is less than a second")
    return seconds


@tool("ae-wikiagent", exit_status=EXIT_STATUS)
@click.argument("words", metavar="[QUESTION]", nargs=-1)
@click.option("-p", "--prompt", metavar="QUESTION", help="The question.  [default: the argument, else stdin]")
@click.option("--model", default=DEFAULT_MODEL, envvar="AE_WIKIAGENT_MODEL", metavar="NAME", help="The model to ask.")
@click.option(
    "--mode",
    type=click.Choice(list(MODES)),
    default="evaluation",
    envvar="AE_WIKIAGENT_MODE",
    help="How much to search and read.",
)
@click.option(
    "--offline", is_flag=True, envvar="AE_WIKIAGENT_OFFLINE", help="Use rules instead of a model, and bundled articles."
)
@count_option("--max-steps", least=1, default=12, help="Maximum number of model turns.")
@click.option("--temperature", type=float, default=0.1, metavar="X", help="Temperature of the model.")
@click.option("--language", default="en", metavar="CODE", help="Language of the Wikipedia to use.")
@click.option("--api-url", metavar="URL", help="Use another MediaWiki: the URL of its api.php.")
@click.option(
    "--user-agent", metavar="TEXT", help="Who you are, for the operators of the wiki: a name and a contact address."
)
@count_option("--text-limit", least=0, default=6000, help="Characters to read of each page; 0: no limit.")
@click.option("--pause", type=click.FloatRange(0), default=0.1, metavar="S", help="Seconds between calls to the wiki.")
@click.option(
    "--timeout",
    type=Parsed("s", parse_seconds),
    default=60.0,
    help="Time limit per model request: 30s, 5m; a bare number is seconds.",
)
def main(words: tuple[str, ...], prompt: str | None, debug: bool, **options: Any) -> int:
    """Answer a question from Wikipedia: search, read pages, and answer with sources.

    Prints one JSON event per line as it happens: thoughts, each tool call with its input, each result,
    and last {"type": "result", "result": {answer, confidence, sources_used, reasoning}, "usage": …}.
    `ae-run -s wikiagent` runs it over prompts, `ae-extract -s wikiagent` reads it. The tools are
    wikipedia_search(query) and wikipedia_get_page(title).

    Examples:
      ae-wikiagent --offline "Why do people fear losses more than they enjoy gains?"
      ae-wikiagent -p "What is the anchoring effect?" --model gpt-4o --mode research
      ae-run prompts.jsonl -s wikiagent -j 4 | ae-extract -s wikiagent -o results.jsonl

    Any model with the OpenAI chat API works: set OPENAI_API_KEY, and OPENAI_BASE_URL for another server.
    AE_WIKIAGENT_MODEL, AE_WIKIAGENT_MODE and AE_WIKIAGENT_OFFLINE=1 set options from the environment. With --offline,
    rules replace the model and bundled articles replace Wikipedia: it needs no key and no network.
    """
    question = read_question(words, prompt)
    output = Output()
    failed = True
    for event in conversation(**options).answer(question):
        output.write(event)
        failed = bool(event.get("is_error"))
    return FAILED if failed else OK


def read_question(words: tuple[str, ...], prompt: str | None) -> str:
    """Returns the question from the argument, -p or stdin."""
    if words and prompt is not None:
        raise UserError("give the question as an argument or with -p, not both")
    given = " ".join(words) if words else prompt
    text = "\n".join(text_lines(Source(None))) if given in (None, "-") else given
    if not text or not text.strip():
        raise UserError("the question is empty")
    return text.strip()


def conversation(
    model: str,
    mode: str,
    max_steps: int,
    temperature: float,
    offline: bool,
    timeout: float,
    text_limit: int,
    **wiki: Any,
) -> AgentConversation:
    """Returns a conversation with the model and wiki of the options; `wiki` are the parameters of Wiki."""
    source: SearchableWiki
    ask: AskModel
    if offline:
        ask, source = ask_rules, OfflineWiki(bundled(), text_limit)
    else:
        ask, source = live_model(model, temperature, timeout), Wiki(**wiki, text_limit=text_limit)
    tools = wiki_tools(source, MODES[mode].results)
    return AgentConversation(ask, tools, mode=mode, steps=max_steps, session=os.urandom(8).hex())


def live_model(name: str, temperature: float, timeout: float) -> AskModel:
    """Returns the model on the server that the environment names."""
    try:
        model = Model(name, timeout=timeout)
    except ModelError as error:
        raise UserError(f"{error}; or use --offline") from None
    return partial(model.ask, temperature=temperature)
