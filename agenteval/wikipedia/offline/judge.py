"""The rule judge: compares the words of an answer with those of the question and the reference.

It counts words: it cannot tell a true sentence from a false one with the same words, and every reasoning says that it
is rule-based. The case comes between fences with a mark (grading/judge.py); instructions in the material are ignored.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from agenteval.streams.text import counted
from agenteval.wikipedia.offline.english import coverage, roots, sentences, weighted_terms

SECTION = re.compile(
    r"^<<<(QUESTION|ANSWER|SOURCES|REFERENCE) (\S+)>>>\n(.*?)\n?^<<<END \2>>>$", re.MULTILINE | re.DOTALL
)
PARAPHRASE = 0.5  # share of a reference's words in an answer that says the same in other words
ENOUGH_WORDS = 12  # beyond those of the question, for an answer with content
WRONG, MOST_WHEN_WRONG = 0.3, 0.3
DECLINES = re.compile(
    r"\b(do(es)? not|don't|doesn't|cannot|can't|could not|couldn't|unable to) (answer|know|find|say)\b"
    r"|\bfound (no|nothing)\b|\bno (information|answer|page)\b|\bI have no\b",
    re.IGNORECASE,
)
INJECTION = re.compile(
    r"\b(ignore|disregard|forget)\b.{0,40}\b(instruction|above|previous|prior|criteria|rubric)"
    r"|\b(give|award|assign|return|output|set|grant)\b.{0,60}\b(scores?|full marks|1\.0|100%|perfect)\b"
    r"|\b(overall_score|accuracy|completeness|relevance)\W{1,4}(is|=|:)?\W*\d|<<<",
    re.IGNORECASE | re.DOTALL,
)
NUMBER = re.compile(r"\d+(?:[.,]\d+)*")


class OfflineCase(NamedTuple):
    """What is judged; the reference and the sources may be empty."""

    question: str
    answer: str
    sources: list[str]
    reference: str


def read_case(text: str) -> OfflineCase:
    """Reads the fenced sections of a message; only those with the mark of the first one count."""
    found = list(SECTION.finditer(text))
    marked = {one[1]: one[3] for one in reversed(found) if one[2] == found[0][2]}
    listed = (line.lstrip("-*• ").strip() for line in marked.get("SOURCES", "").splitlines())
    sources = [line for line in listed if line]
    return OfflineCase(marked.get("QUESTION", ""), marked.get("ANSWER", ""), sources, marked.get("REFERENCE", ""))


def verdict(case: OfflineCase) -> dict[str, Any]:
    """Returns scores from 0 to 1, with the facts behind them as reasoning."""
    answer, injections = _without_injections(case.answer)
    if not roots(answer):
        accuracy, completeness, relevance, facts = 0.0, 0.0, 0.0, ["there is no answer"]
    elif DECLINES.search(answer):
        accuracy, completeness, relevance, facts = 0.5, 0.0, 0.2, ["the answer says that it has none"]
    else:
        accuracy, completeness, relevance, facts = _measure(case, answer)
    if injections:
        facts.append(f"left out, as it addresses the judge: {counted(injections, 'sentence')}")
    overall = 0.4 * accuracy + 0.3 * completeness + 0.3 * relevance
    if accuracy <= WRONG:
        overall = min(overall, MOST_WHEN_WRONG)
    return {
        "overall_score": round(overall, 2),
        "accuracy": round(accuracy, 2),
        "completeness": round(completeness, 2),
        "relevance": round(relevance, 2),
        "reasoning": f"rule-based offline judge: {'; '.join(facts)}",
    }


def _without_injections(answer: str) -> tuple[str, int]:
    """Returns the answer without the sentences that address the judge, and their number."""
    every = [sentence for line in answer.splitlines() for sentence in sentences(line)]
    kept = [sentence for sentence in every if not INJECTION.search(sentence)]
    return " ".join(kept), len(every) - len(kept)


def _measure(case: OfflineCase, answer: str) -> tuple[float, float, float, list[str]]:
    """Returns accuracy, completeness and relevance of an answer with content, and the facts behind them."""
    asked, given = weighted_terms(case.question), frozenset(roots(answer))
    on_topic = coverage(asked, given)
    facts = [f"{on_topic:.0%} of the question's key words are in the answer"]
    wanted = weighted_terms(case.reference)
    if wanted:
        shared = coverage(wanted, given)
        same = min(1.0, shared / PARAPHRASE)
        accuracy = same * _numbers(case.reference, answer)
        completeness = 0.7 * same + 0.3 * on_topic
        facts.append(f"{shared:.0%} of the reference's")
    else:
        new = min(1.0, len(given - asked.keys()) / ENOUGH_WORDS)
        accuracy = 0.35 + 0.2 * on_topic + 0.15 * new + (0.2 if _source_fits(case, given) else 0.0)
        completeness = on_topic * new
        facts.append("there is no reference, so that accuracy is a guess")
    useful = [sentence for sentence in sentences(answer) if {*asked, *wanted} & set(roots(sentence))]
    relevance = (on_topic + len(useful) / len(sentences(answer))) / 2
    facts.append(f"{counted(len(case.sources), 'source')}, {counted(len(answer.split()), 'word')}")
    return accuracy, completeness, relevance, facts


def _numbers(reference: str, answer: str) -> float:
    """Returns 1 if the answer has the numbers of the reference; less if it gives others in their place."""
    wanted, given = set(NUMBER.findall(reference)), set(NUMBER.findall(answer))
    if not wanted or not given or wanted <= given:
        return 1.0
    return 0.6 + 0.4 * len(wanted & given) / len(wanted)


def _source_fits(case: OfflineCase, given: frozenset[str]) -> bool:
    """Whether a source's title shares a word with the question or the answer."""
    mentioned = given | weighted_terms(case.question).keys()
    return any(set(roots(source)) & mentioned for source in case.sources)
