"""The rule judge: how well an answer's words fit the question and the reference, as a stand-in for a model that reads.

It counts words; it cannot tell a true sentence from a false one with the same words, and says what it is in every
reasoning. The material comes between fences with a mark (judging.py); nothing in it is taken for an order.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from agenteval.wikipedia.offline.english import coverage, roots, sentences, weighted_terms

NAMES = "QUESTION|ANSWER|SOURCES|REFERENCE"
SECTION = re.compile(rf"^<<<({NAMES}) (\S+)>>>\n(.*?)\n?^<<<END \2>>>$", re.MULTILINE | re.DOTALL)
SAME_IN_OTHER_WORDS = 0.5  # of a reference's words: who says the same in other words has about so many of them
ENOUGH_WORDS = 12  # new ones, for an answer that says something
WRONG, MOST_WHEN_WRONG = 0.3, 0.3
DECLINES = re.compile(
    r"\b(do(es)? not|don't|doesn't|cannot|can't|could not|couldn't|unable to) (answer|know|find|say)\b"
    r"|\bfound (no|nothing)\b|\bno (information|answer|page)\b|\bI have no\b",
    re.IGNORECASE,
)
ORDERS = re.compile(
    r"\b(ignore|disregard|forget)\b.{0,40}\b(instruction|above|previous|prior|criteria|rubric)"
    r"|\b(give|award|assign|return|output|set|grant)\b.{0,60}\b(scores?|full marks|1\.0|100%|perfect)\b"
    r"|\b(overall_score|accuracy|completeness|relevance)\W{1,4}(is|=|:)?\W*\d|<<<",
    re.IGNORECASE | re.DOTALL,
)
NUMBER = re.compile(r"\d+(?:[.,]\d+)*")


class OfflineCase(NamedTuple):
    """What is to be judged; the reference and the sources may be empty."""

    question: str
    answer: str
    sources: list[str]
    reference: str


def read_case(text: str) -> OfflineCase | None:
    """The case that the fenced sections of a message make; None where there is no question or no answer in fences."""
    found = list(SECTION.finditer(text))
    marked = {one[1]: one[3] for one in reversed(found) if one[2] == found[0][2]}
    if not {"QUESTION", "ANSWER"} <= marked.keys():
        return None
    listed = (line.lstrip("-*• ").strip() for line in marked.get("SOURCES", "").splitlines())
    return OfflineCase(
        marked["QUESTION"], marked["ANSWER"], [line for line in listed if line], marked.get("REFERENCE", "")
    )


def verdict(case: OfflineCase) -> dict[str, Any]:
    """Scores from 0 to 1 and what they come from."""
    kept, orders = _without_orders(case.answer)
    if not roots(kept):
        return _told(0.0, 0.0, 0.0, ["there is no answer", *_about(orders)])
    if DECLINES.search(kept):
        return _told(0.5, 0.0, 0.2, ["the answer says that it has none", *_about(orders)])
    measured = _measure(case, kept)
    return _told(*measured[:3], [*measured[3], *_about(orders)])


def _without_orders(answer: str) -> tuple[str, int]:
    """The answer without sentences that address the judge, and how many those were."""
    every = [sentence for line in answer.splitlines() for sentence in sentences(line)]
    kept = [sentence for sentence in every if not ORDERS.search(sentence)]
    return " ".join(kept), len(every) - len(kept)


def _about(orders: int) -> list[str]:
    return [f"left out, as it addresses the judge: {orders} sentence{'s'[: orders > 1]}"] if orders else []


def _measure(case: OfflineCase, answer: str) -> tuple[float, float, float, list[str]]:
    """Accuracy, completeness and relevance of an answer that says something, and the facts behind them."""
    asked, told = weighted_terms(case.question), frozenset(roots(answer))
    on_topic = coverage(asked, told)
    new = min(1.0, len(told - asked.keys()) / ENOUGH_WORDS)
    says = [f"{on_topic:.0%} of the question's key words are in the answer"]
    if case.reference.strip():
        wanted = weighted_terms(case.reference)
        shared = coverage(wanted, told)
        same = min(1.0, shared / SAME_IN_OTHER_WORDS)
        accuracy = same * _numbers(case.reference, answer)
        completeness = 0.7 * same + 0.3 * on_topic
        says.append(f"{shared:.0%} of the reference's")
    else:
        wanted = {}
        accuracy = 0.35 + 0.2 * on_topic + 0.15 * new + (0.2 if _fitting(case, told) else 0.0)
        completeness = on_topic * new
        says.append("there is no reference, so that accuracy is a guess")
    serving = [sentence for sentence in sentences(answer) if {*asked, *wanted} & set(roots(sentence))]
    relevance = (on_topic + len(serving) / len(sentences(answer))) / 2
    says.append(f"{len(case.sources)} source{'s'[: len(case.sources) != 1]}, {len(answer.split())} words")
    return accuracy, completeness, relevance, says


def _numbers(reference: str, answer: str) -> float:
    """1 where the answer has the numbers of the reference; less where it gives others in their place."""
    wanted, told = set(NUMBER.findall(reference)), set(NUMBER.findall(answer))
    if not wanted or not told or wanted <= told:
        return 1.0
    return 0.6 + 0.4 * len(wanted & told) / len(wanted)


def _fitting(case: OfflineCase, told: frozenset[str]) -> bool:
    """Whether a source is about what the question or the answer speaks of."""
    spoken = told | weighted_terms(case.question).keys()
    return any(set(roots(source)) & spoken for source in case.sources)


def _told(accuracy: float, completeness: float, relevance: float, says: list[str]) -> dict[str, Any]:
    overall = 0.4 * accuracy + 0.3 * completeness + 0.3 * relevance
    if accuracy <= WRONG:
        overall = min(overall, MOST_WHEN_WRONG)
    return {
        "overall_score": round(overall, 2),
        "accuracy": round(accuracy, 2),
        "completeness": round(completeness, 2),
        "relevance": round(relevance, 2),
        "reasoning": f"rule-based offline judge: {'; '.join(says)}",
    }
