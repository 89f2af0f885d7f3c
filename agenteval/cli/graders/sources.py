"""ae-grader-sources: does the answer use the expected sources, and at which ranks?"""

from __future__ import annotations

import click

from agenteval.cli.options import NumberRange, count_option, input_argument, output_option
from agenteval.cli.tool import OF_GRADING, tool
from agenteval.errors import BadRecord
from agenteval.grading.serve import answer_all
from agenteval.grading.sources import (
    RankedSources,
    expected_of,
    hit_rate,
    mrr,
    ndcg,
    precision,
    rank_expected,
    recall,
    redirects_of,
    sources_of,
)
from agenteval.streams.text import counted, first_few, one_line, preview
from agenteval.wire.records import Record

SHOWN = 5
TITLE_WIDTH = 80


def grade_sources(
    record: Record,
    *,
    where: str = "auto",
    k: int | None = None,
    min_recall: float = 0.0,
    page_tools: tuple[str, ...] = (),
) -> Record:
    """Passes if an expected source is among the sources; a record without expected sources is an error."""
    try:
        expected = expected_of(record)
    except BadRecord as error:
        return {"error": str(error)}
    if not expected:
        return {"error": 'no expected sources: put "expected_sources" into the prompt or its metadata'}
    sources = sources_of(record, where, page_tools)
    ranked = rank_expected(sources, expected, k, redirects_of(record, page_tools))
    return {
        "pass": bool(ranked.found) and recall(ranked) >= min_recall,
        "score": mrr(ranked),
        "reasoning": explain(ranked, min_recall),
        "outcome": {
            "hit_rate": hit_rate(ranked),
            "mrr": mrr(ranked),
            "precision": precision(ranked),
            "recall": recall(ranked),
            "ndcg": ndcg(ranked),
            "found": ranked.found,
            "expected": list(ranked.ranks),
            "sources": ranked.sources,
            "ranks": ranked.ranks,
            "k": k,
        },
    }


def explain(ranked: RankedSources, min_recall: float) -> str:
    """Returns which expected sources were found at which ranks, and which are missing."""
    found = [f"{_quoted(title)} at rank {rank}" for title, rank in ranked.ranks.items() if rank]
    missing = [_quoted(title) for title, rank in ranked.ranks.items() if not rank]
    among = f"among {counted(len(ranked.sources), 'source')}"
    parts = [f"found {first_few(found, SHOWN)} {among}"] if found else []
    if missing:
        parts.append(f"did not find {first_few(missing, SHOWN)}" + ("" if found else f" {among}"))
    if found and recall(ranked) < min_recall:
        parts.append(f"recall {recall(ranked):.2f} is below {min_recall:g}")
    return "; ".join(parts)


def _quoted(title: str) -> str:
    return f'"{preview(one_line(title, TITLE_WIDTH), TITLE_WIDTH)}"'


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
    help="Share of the expected sources that must be found to pass; 1 is all.  [default: any one]",
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
    titles (or of objects with `title` or `url`), or one title. A record without them is a grader error, not a
    pass: an expectation that got lost would raise the hit rate unnoticed.

    The sources of an answer, best first, are the record's `sources_used` or `sources`; else, if `output` is or
    ends with a JSON object, those of that object; else the pages read. An empty list means that the answer
    cites nothing. --from answer uses only the first two, --from trajectory only the pages read: calls of page
    tools that completed, in order, by the title in the tool's output, else in its input.

    Two titles are the same page if they differ only in
      case, surrounding or repeated spaces, underscores for spaces
      typographic dashes, apostrophes and quotation marks; composed or decomposed accents
      percent-encoding; being a link (wiki/Title, https://en.wikipedia.org/wiki/Title#Section)
      a trailing "(disambiguation)"
      a redirect that occurred in this run: the agent asked for "Nudging" and got "Nudge theory"
    Nothing else: "Behavior" is not "Behaviour", a plural is not its singular. Duplicates count once.

    In `outcome`, over all sources or the first N (--k):
      hit_rate   1 if any expected source is found, else 0; its mean is the hit rate
      mrr        1 / rank of the first expected source, 0 if there is none; its mean is the MRR
      precision  share of the sources that were expected (of those given, even if fewer than N)
      recall     share of the expected sources that are found
      ndcg       binary gains discounted by log2(rank + 1), relative to the best order
      found, expected, sources (titles), ranks (expected title to rank or null), k
    pass means a hit and score is mrr: the pass rate of a file is its hit rate, its mean score the MRR.

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
