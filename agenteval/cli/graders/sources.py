"""ae-grader-sources: does the answer use the expected sources, and how high does it rank them?"""

import click

from agenteval.cli.options import NumberRange, count_option, input_argument, output_option
from agenteval.cli.tool import OF_GRADING, tool
from agenteval.grading.serve import answer_all
from agenteval.grading.sources import grade_sources


@tool("ae-grader-sources", exit_status=OF_GRADING)
@input_argument("RECORDS")
@click.option(
    "--from",
    "where",
    type=click.Choice(["auto", "answer", "trajectory"]),
    default="auto",
    help="Where to look for the sources.",
)
@count_option("--k", least=1, help="Only the first N sources count.  [default: all]")
@click.option(
    "--min-recall",
    type=NumberRange(0, 1),
    default=0.0,
    show_default=False,
    metavar="R",
    help="Share of the expected sources that must be found to pass; 1 means all.  [default: any one]",
)
@click.option(
    "--page-tool",
    "page_tools",
    multiple=True,
    metavar="NAME",
    help="A tool that fetches pages; repeatable.  [default: names with get_page, read_page, open_page or fetch]",
)
@output_option
def main(
    path: str | None,
    where: str,
    k: int | None,
    min_recall: float,
    page_tools: tuple[str, ...],
    output: str | None,
    debug: bool,
) -> int:
    """Grade whether an answer uses the expected sources: hit rate, MRR and more, by rules alone.

    The expected sources are `expected_sources`, at the top level of the record or in its metadata: a list of
    titles (or of objects with `title` or `url`), or one title. A record without them is a grader error, not a pass: a
    lost expectation would raise the hit rate unnoticed.

    The sources of an answer, best first, are the record's `sources_used` or `sources`; else, if `output` is or ends
    with a JSON object, those in that object; else the pages read. An empty list means that the answer cites nothing.
    --from answer uses only the first two, --from trajectory only the pages read: calls of page tools that completed,
    in order, by the title in the tool's output, else in its input.

    Two titles mean the same page if they differ only in
      case, surrounding or repeated spaces, underscores for spaces
      typographic dashes, apostrophes and quotation marks; composed or decomposed accents
      percent-encoding; or being a link (wiki/Title, https://en.wikipedia.org/wiki/Title#Section)
      a trailing "(disambiguation)"
      a redirect that occurred in this run: the agent asked for "Nudging" and got "Nudge theory"
    Nothing else matches: "Behavior" is not "Behaviour", a plural is not its singular. Duplicates count once.

    In `outcome`, over all sources or the first N (--k):
      hit_rate   1 if any expected source is found, else 0; its mean is the hit rate
      mrr        1 / rank of the first expected source, 0 if there is none; its mean is the MRR
      precision  share of the sources that were expected (of those given, even if fewer than N)
      recall     share of the expected sources that are found
      ndcg       binary gains discounted by log2(rank + 1), relative to the best order
      found, expected, sources (titles), ranks (expected title to rank or null), k
    pass means a hit, and score is mrr: the pass rate of a file is its hit rate, and its mean score the MRR.

    Examples:
      ae-grade results.jsonl -g ae-grader-sources
      ae-grade results.jsonl -g "sources=ae-grader-sources --k 3 --min-recall 1"
      ae-grade results.jsonl -g "read=ae-grader-sources --from trajectory" | jq .scores.read.outcome.ranks
      echo '{"expected_sources":["Nudge theory"],"sources_used":["Nudge_theory"]}' | ae-grader-sources
    """
    return answer_all(
        lambda record: grade_sources(record, where=where, k=k, min_recall=min_recall, page_tools=page_tools),
        path,
        output,
    )
