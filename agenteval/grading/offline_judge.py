"""The judge of `ae-grader-judge --offline`: compares the words of an answer with those of the question and reference.

It is called like a model: the messages come from grading/judge.py, the answer is the JSON that it asks for. It counts
words and cannot tell a true sentence from a false one with the same words, so every reasoning says that it is
rule-based. Its few rules of English and its token counts serve the offline Wikipedia agent, too.
"""

import re
import unicodedata
from collections.abc import Collection
from functools import lru_cache
from typing import Any

from agenteval.models.chat import FunctionCall, ModelAnswer, TokenUsage
from agenteval.models.tokens import OFFLINE, count_tokens
from agenteval.streams.jsonl import encode
from agenteval.streams.text import counted
from agenteval.wire.records import Record

SECTION = re.compile(r"^<<<(QUESTION|ANSWER|REFERENCE) (\S+)>>>\n(.*?)\n?^<<<END \2>>>$", re.MULTILINE | re.DOTALL)
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


def judge(messages: list[Record], **_options: object) -> ModelAnswer:
    """Returns the verdict on the case in the last message, as JSON."""
    return offline_answer(messages, encode(verdict(**read_case(messages[-1]["content"]))).decode())


def read_case(text: str) -> dict[str, str]:
    """Returns question, answer and reference ("" if missing): the sections with the same mark as the first one."""
    found = list(SECTION.finditer(text))
    marked = {one[1]: one[3] for one in reversed(found) if one[2] == found[0][2]}
    return {name: marked.get(name.upper(), "") for name in ("question", "answer", "reference")}


def verdict(question: str, answer: str, reference: str) -> dict[str, Any]:
    """Returns scores from 0 to 1, with the facts behind them as reasoning."""
    every = [sentence for line in answer.splitlines() for sentence in sentences(line)]
    kept = [sentence for sentence in every if not INJECTION.search(sentence)]
    if not roots(" ".join(kept)):
        accuracy, completeness, relevance, facts = 0.0, 0.0, 0.0, ["there is no answer"]
    elif DECLINES.search(" ".join(kept)):
        accuracy, completeness, relevance, facts = 0.5, 0.0, 0.2, ["the answer says that it does not know"]
    else:
        accuracy, completeness, relevance, facts = _measure(question, kept, reference)
    if ignored := len(every) - len(kept):
        facts.append(f"left out, as it addresses the judge: {counted(ignored, 'sentence')}")
    overall = 0.4 * accuracy + 0.3 * completeness + 0.3 * relevance
    return {
        "overall_score": round(min(overall, MOST_WHEN_WRONG) if accuracy <= WRONG else overall, 2),
        "accuracy": round(accuracy, 2),
        "completeness": round(completeness, 2),
        "relevance": round(relevance, 2),
        "reasoning": f"rule-based offline judge: {'; '.join(facts)}",
    }


def _measure(question: str, kept: list[str], reference: str) -> tuple[float, float, float, list[str]]:
    """Returns accuracy, completeness and relevance of an answer with content, and the facts behind them."""
    answer = " ".join(kept)
    asked, wanted, given = key_roots(question), key_roots(reference), frozenset(roots(answer))
    on_topic = share(asked, given)
    facts = [f"{on_topic:.0%} of the question's key words are in the answer"]
    if wanted:
        shared = share(wanted, given)
        same = min(1.0, shared / PARAPHRASE)
        accuracy, completeness = same * _numbers(reference, answer), 0.7 * same + 0.3 * on_topic
        facts.append(f"{shared:.0%} of the reference's")
    else:
        new = min(1.0, len(given - asked) / ENOUGH_WORDS)
        accuracy, completeness = 0.4 + 0.3 * on_topic + 0.2 * new, on_topic * new
        facts.append("there is no reference, so accuracy is a guess")
    useful = [sentence for sentence in kept if (asked | wanted).intersection(roots(sentence))]
    facts.append(counted(len(answer.split()), "word"))
    return accuracy, completeness, (on_topic + len(useful) / len(kept)) / 2, facts


def _numbers(reference: str, answer: str) -> float:
    """Returns 1 if the answer has the numbers of the reference; less if it has others instead."""
    wanted, given = set(NUMBER.findall(reference)), set(NUMBER.findall(answer))
    return 0.6 + 0.4 * len(wanted & given) / len(wanted) if wanted and given else 1.0


# --- token counts ---------------------------------------------------------------------------------

MESSAGE_TOKENS = 3  # around each message and before the reply, in the chat format of OpenAI's models


def offline_answer(
    messages: list[Record], text: str, calls: list[FunctionCall] | None = None, tools: list[Record] | None = None
) -> ModelAnswer:
    """Returns an answer of the model "offline" with its token usage, counted as a model of OpenAI's would."""
    sent = MESSAGE_TOKENS + _count(encode(tools).decode() if tools else "")
    for message in messages:
        called = "".join(c["function"]["name"] + c["function"]["arguments"] for c in message.get("tool_calls", ()))
        sent += MESSAGE_TOKENS + sum(map(_count, (message["role"], message["content"] or "", called)))
    calls = calls or []
    received = _count(text) + sum(_count(call.name) + _count(call.arguments) for call in calls)
    return ModelAnswer(text, calls, TokenUsage(sent, received), OFFLINE, "tool_calls" if calls else "stop")


def _count(text: str) -> int:
    return count_tokens(text, OFFLINE).tokens if text else 0


# --- English --------------------------------------------------------------------------------------

WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")
# Function words, and words that occur in many questions and say little about their subjects.
COMMON = """
a about according across actually after again against ago all almost already also although always am among an and
another any are around as at away be because become becomes been before behind being between both but by can could did
do does during each either else especially even ever every exactly for from get gets getting go goes going had has have
having he her here him his how i if in into is it its itself just let like may me might must my never no not now of off
often on once only or other others our ourselves out over perhaps please quite rather really same shall she should
simply since so some someone something sometimes still such than that the their them themselves then there these they
this those though through thus to today together toward towards until up upon us usually very via was we well were what
whatever when where whether which while who whom whose why will with within without would yet you your yourself affect
answer ask best better call cause certain come consider define definition describe differ difference different discuss
enough example explain explanation famous find first follow give good happen help idea important include influence
instead keep kind know lead less list long look lot main make many matter mean meaning more most much name need new next
nothing one own people person play point possible prefer put question reason relate result right role say see seem
several show sort take talk tell tend term thing think time too turn two type under use usual want way whole word work
"""
ENDINGS = (
    *("ization", "ation", "ment", "ness", "ance", "ence", "able", "ible", "ally", "ing", "ion", "ive"),
    *("ity", "ful", "ous", "ize", "ty", "ed", "er", "or", "al", "ly", "ic", "y", "e"),
)
SHORTEST_ROOT = 4
SENTENCE_END = re.compile(r"(?:(?<=[.!?])|(?<=[.!?][\"')\]”’]))\s+(?=[\"'(\[“‘]?[A-Z0-9])")
ABBREVIATION = re.compile(r"(?:\b[A-Z]|\b(?:Mr|Mrs|Ms|Dr|Prof|St|No|vs|etc|cf|e\.g|i\.e|U\.S|Inc|Ltd|Co|Jr|Sr))\.$")


def words(text: str) -> list[str]:
    """Returns the words of a text in lower case, without accents and possessive endings."""
    plain = "".join(char for char in unicodedata.normalize("NFKD", text) if not unicodedata.combining(char))
    return [re.sub(r"['’]s?$", "", word) for word in WORD.findall(plain.lower())]


@lru_cache(maxsize=1 << 14)
def root(word: str) -> str:
    """Returns the stem of a word, the same for its inflected and derived forms, in American spelling."""
    if len(word) > 4 and word.endswith("ies"):
        word = word[:-3] + "y"
    elif len(word) > 4 and word.endswith(("sses", "shes", "ches", "xes", "iases")):
        word = word[:-2]
    elif len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is", "ias")):
        word = word[:-1]
    found = re.sub(r"(?<=\w{3})is(?=e|ing|ation)", "iz", re.sub(r"(?<=\w{3})our", "or", word))
    for _ in range(2):
        shorter = (found.removesuffix(ending) for ending in ENDINGS if found.endswith(ending))
        found = next((short for short in shorter if len(short) >= SHORTEST_ROOT), found)
    return found[:-1] if len(found) > SHORTEST_ROOT and found[-1] == found[-2] and found[-1] not in "sl" else found


def roots(text: str) -> list[str]:
    """Returns the roots of the words of a text in order, without common words in any form."""
    return [one for one in map(root, words(text)) if one not in COMMON_ROOTS]


COMMON_ROOTS = frozenset(map(root, words(COMMON)))


def key_roots(text: str) -> frozenset[str]:
    """Returns the roots of a text; of all its words if it has only common ones."""
    return frozenset(roots(text) or map(root, words(text)))


def share(wanted: Collection[str], found: Collection[str]) -> float:
    """Returns the share of the wanted roots that were found, from 0 to 1; 0 if none is wanted."""
    return sum(one in found for one in wanted) / len(wanted) if wanted else 0.0


def sentences(paragraph: str) -> list[str]:
    """Splits a paragraph into sentences; initials and common abbreviations do not end one."""
    found: list[str] = []
    for piece in SENTENCE_END.split(" ".join(paragraph.split())):
        if found and ABBREVIATION.search(found[-1]):
            found[-1] += f" {piece}"
        elif piece:
            found.append(piece)
    return found
