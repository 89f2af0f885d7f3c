"""ae-balance: prompts → how evenly they cover their categories."""

import click

from agenteval.agents.prompts import Prompts
from agenteval.cli.options import NumberRange, input_argument, output_option, strict_option
from agenteval.cli.report_options import form_option
from agenteval.cli.tool import tool
from agenteval.errors import FAILED, OK
from agenteval.reports.balance import FORMS
from agenteval.reports.terminal import chart
from agenteval.review.balance import PromptCounts
from agenteval.streams.console import Console
from agenteval.streams.output import Output
from agenteval.streams.rows import KeyUse, grouped_metadata
from agenteval.streams.source import Source


@tool("ae-balance", exit_status={1: "finished, but some lines were refused, or no prompt has the key given with --key"})
@input_argument("PROMPTS")
@click.option("-k", "--key", metavar="KEY", help="Metadata key; a.b means b inside a.  [default: category]")
@click.option(
    "-t",
    "--threshold",
    type=NumberRange(0),
    default=50,
    metavar="PERCENT",
    help="A category with less than this share of an even distribution is underrepresented.",
)
@form_option(FORMS, "json")
@output_option
@strict_option
def main(
    path: str | None, key: str | None, threshold: float, form: str | None, output: str | None, strict: bool, debug: bool
) -> int:
    """Report how evenly a set of prompts covers its categories.

    PROMPTS is a file, or stdin. A prompt's category is its metadata.category, or the value of --key: a string, a
    number, or a list, which puts the prompt into each of its categories. Prompts without a category are listed as
    (uncategorized) and do not count towards the even share.

    `cases` counts positive and negative cases: prompts whose metadata.type (else metadata.expected)
    is "positive" or "negative". Their ratio is null if there are no negative cases.

    A line that is not a prompt, or has the id of an earlier one, is refused and not counted. A bar is shown for each
    category: in the report on a terminal, on stderr if the report goes elsewhere.

    Examples:
      ae-balance prompts.jsonl -o balance.json
      ae-balance prompts.jsonl --key difficulty.level --threshold 80
      cat suite-a.jsonl suite-b.jsonl | ae-balance | jq -r '.suggestions[]'
    """
    form = FORMS.choose(form, output, "json")
    console = Console("ae-balance", strict=strict, output=output)
    source = Source(path)
    target = Output(output, inputs=[source], lazy=True)
    counts = PromptCounts(key or "category")
    use = KeyUse("--key", counts.key)
    for prompt in Prompts(source, console):
        counts.add(prompt)
        use.add(grouped_metadata(prompt, counts.key))
    found = counts.balance(threshold)
    target.open()
    FORMS.write(form, found, target)
    if form != "table":
        console.show(lambda columns: [*chart(found, columns), *(f"- {text}" for text in found.suggestions)])
    complaint = use.complaint() if key else None
    if complaint:
        console.say(complaint)
    return FAILED if console.refused or complaint else OK
