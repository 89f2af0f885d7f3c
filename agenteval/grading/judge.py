"""A model as a judge: the case that it gets, the verdict that it returns, and the combined verdict of several judges.

Data flow: record → JudgeCase → messages → model → Verdict → grader result. Each part of a case is
fenced with a mark that it cannot contain, so that an answer cannot imitate another part; verdicts may be cached.
"""

from __future__ import annotations

import hashlib
import os
import re
import time
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import combinations
from typing import Any, NamedTuple, Protocol

import msgspec

from agenteval.errors import BadRecord, UserError
from agenteval.grading.sources import final_object, sources_of
from agenteval.models.chat import ModelAnswer, ModelError, TokenUsage
from agenteval.models.tokens import count_tokens
from agenteval.statistics.samples import mean
from agenteval.streams.files import read_given, read_regular
from agenteval.streams.jsonl import decode, encode
from agenteval.streams.text import clip
from agenteval.wire.records import Rate, Record
from agenteval.wire.validation import check

INSTRUCTIONS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "instructions")
PROMPT, MATERIAL, REPLY = (
    os.path.join(INSTRUCTIONS, name) for name in ("judge.txt", "judge_material.txt", "judge_reply.txt")
)
FURTHER = "Further criteria; where they differ from those above, these take precedence:"
SCORES = ("overall_score", "accuracy", "completeness", "relevance")
PLACE = re.compile(r"\{\{(\w+)\}\}")  # in a template
CAN_BE_SHOWN = ("question", "answer", "sources", "reference", "hint", "rubric", "trajectory", "metadata")
SHOWN_BY_DEFAULT = ("sources", "reference", "hint", "rubric")
STEP_FIELDS = ("type", "name", "status", "content", "input", "output")
STEP_TEXT = 2000  # characters of one text of a step
MOST_STEPS = 200
ONCE_MORE = (
    "Judge the same case once more, and reply with the JSON object that the system message asks for, nothing else."
)
SHOWN = 200  # characters of an answer in an error message


def _score(meaning: str) -> Record:
    return {"type": "number", "description": f"{meaning}, from 0.0 to 1.0"}


# The reasoning comes first because a model writes from left to right: its scores should follow from its reasoning.
SCHEMA: Record = {
    "type": "object",
    "additionalProperties": False,
    "required": ["reasoning", "accuracy", "completeness", "relevance", "overall_score"],
    "properties": {
        "reasoning": {"type": "string", "description": "What decided the scores, in one to three sentences"},
        "accuracy": _score("How true it is"),
        "completeness": _score("How much of the question it answers"),
        "relevance": _score("How well it sticks to the question"),
        "overall_score": _score("How good it is as a whole"),
    },
}


# --- the instructions ---------------------------------------------------------------------------


def read_text(path: str) -> str:
    """Returns the text of a file; raises UserError if it cannot be read."""
    try:
        return read_given(path).decode().strip()
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise UserError(f"{path}: not UTF-8 text") from None


class Instructions(NamedTuple):
    """How to judge: a template, which names the parts of a record that it needs as {{NAME}}, and general criteria."""

    template: str
    rubric: str | None = None

    @property
    def shown(self) -> Collection[str]:
        """The parts that a judge is shown beside question and answer; the default ones if the template names none."""
        return PLACE.findall(self.template) or SHOWN_BY_DEFAULT

    def message(self, rubric: str | None) -> str:
        """Returns the system message: how to judge, further criteria, and how the material is fenced.

        The record's own criteria replace those for all records. A name in the template becomes the name of the section
        with the material, so that no part of a record except its criteria gets into the instructions.
        """
        criteria = rubric or self.rubric
        further = f"{FURTHER}\n{criteria}" if criteria else ""
        placed = "{{rubric}}" in self.template
        text = PLACE.sub(lambda name: further if name[1] == "rubric" else name[1].upper(), self.template)
        parts = (text, "" if placed else further, read_text(MATERIAL), read_text(REPLY))
        return "\n\n".join(part for part in parts if part)


def instructions_from(prompt: str | None, rubric: str | None) -> Instructions:
    """Returns how to judge; raises UserError if a file cannot be read, or the template names something unknown."""
    template = read_text(prompt or PROMPT)
    for name in PLACE.findall(template):
        if name not in CAN_BE_SHOWN:
            raise UserError(f"{prompt}: {{{{{name}}}}} is unknown; a template may name {', '.join(CAN_BE_SHOWN)}")
    if rubric and (os.path.exists(rubric) or rubric.endswith((".txt", ".md"))):
        rubric = read_text(rubric)
    return Instructions(template, rubric)


# --- the case -----------------------------------------------------------------------------------


class JudgeCase(NamedTuple):
    """What a judge is shown: each part by the name of its section, and the record's own criteria."""

    parts: dict[str, str]
    rubric: str | None = None


def case_of(record: Record, shown: Collection[str] = SHOWN_BY_DEFAULT) -> JudgeCase:
    """Returns the case of a record; raises BadRecord if it has no question, or a field of a wrong type.

    `shown` are the parts that the template names, beside the question and the answer.
    """
    output = record.get("output")
    if not isinstance(output, str):
        raise BadRecord('"output" must be a string')
    for field in ("hint", "reference", "rubric"):
        if not isinstance(record.get(field), str | None):
            raise BadRecord(f'"{field}" must be a string')
    answer = (final_object(output) or {}).get("answer")
    parts = {"QUESTION": _question(record), "ANSWER": answer if isinstance(answer, str) else output}
    others: dict[str, Callable[[], str | None]] = {
        "sources": lambda: "\n".join(f"- {' '.join(title.split())}" for title in sources_of(record)),
        "reference": lambda: record.get("reference"),
        "hint": lambda: record.get("hint"),
        "trajectory": lambda: _steps(record),
        "metadata": lambda: encode(record["metadata"]).decode() if record.get("metadata") else None,
    }
    parts |= {name.upper(): text for name, part in others.items() if name in shown and (text := part())}
    return JudgeCase(parts, record.get("rubric"))


def _steps(record: Record) -> str:
    """Returns the trajectory, a line of JSON per step; long texts are cut, the middle of many steps is left out."""
    steps = [step for step in record.get("trajectory") or () if isinstance(step, dict)]
    lines = []
    for step in steps:
        fields = {name: step[name] for name in STEP_FIELDS if step.get(name) is not None}
        texts = {name: value if isinstance(value, str) else encode(value).decode() for name, value in fields.items()}
        lines.append(encode({name: clip(text, STEP_TEXT) for name, text in texts.items()}).decode())
    if len(lines) > MOST_STEPS:
        half = MOST_STEPS // 2
        lines[half:-half] = [f"({len(lines) - 2 * half} steps left out)"]
    return "\n".join(lines)


def _question(record: Record) -> str:
    """Returns the question, the turns of a session joined; raises BadRecord if the record has none."""
    asked = record.get("input")
    if isinstance(asked, list):
        asked = "\n\n".join(turn for turn in asked if isinstance(turn, str))
    named = (place.get("question") for place in (record, record.get("metadata")) if isinstance(place, dict))
    question = next((text for text in (asked, *named) if isinstance(text, str) and text.strip()), None)
    if question is None:
        raise BadRecord('there is no question: "input" and "question" are both missing')
    return question


def fenced(case: JudgeCase) -> str:
    """Returns the case as one text, each part between lines with a mark that no part contains."""
    texts = list(case.parts.values())
    data = encode(texts)
    while (mark := hashlib.sha256(data).hexdigest()[:16]) in "\n".join(texts):  # an answer cannot predict it
        data = mark.encode() + data
    sections = "\n\n".join(f"<<<{name} {mark}>>>\n{text}\n<<<END {mark}>>>" for name, text in case.parts.items())
    last = f"Now judge the text in ANSWER {mark}, by the criteria and in the format of the system message."
    return f"The mark of this case is {mark}.\n\n{sections}\n\n{last}"


# --- one judge ----------------------------------------------------------------------------------


class Scores(msgspec.Struct):
    """The fields of a judge's answer."""

    overall_score: Rate
    accuracy: Rate
    completeness: Rate
    relevance: Rate
    reasoning: str


class Verdict(msgspec.Struct):
    """A judge's scores, the model that the server reports, and the tokens used."""

    scores: Scores
    served: str | None
    input_tokens: int
    output_tokens: int
    counted: bool = False  # by us, because the server reports none
    cached: bool = False


class AskJudge(Protocol):
    """Sends messages to a model."""

    def __call__(
        self, messages: list[Record], *, temperature: float | None, schema: Record | None, schema_name: str
    ) -> ModelAnswer: ...


class Judge(NamedTuple):
    """A model with instructions; `server` distinguishes models of the same name in the cache."""

    name: str
    ask: AskJudge
    instructions: Instructions
    temperature: float
    server: str
    cache: VerdictCache | None = None
    any_model: bool = False
    patience: float = float("inf")  # seconds that the model may take to answer

    def verdict(self, case: JudgeCase) -> Verdict:
        """Returns the verdict, cached or new; raises BadRecord if it is invalid, ModelError if the model gave none."""
        messages: list[Record] = [
            {"role": "system", "content": self.instructions.message(case.rubric)},
            {"role": "user", "content": fenced(case)},
        ]
        key = [self.server, self.name, self.temperature, messages, SCHEMA]
        verdict = self.cache.get(key) if self.cache else None
        if verdict is None:
            verdict = self._judged(messages)
            if self.cache:
                self.cache.put(key, verdict)
        if verdict.served and not self.any_model and not same_model(self.name, verdict.served):
            raise BadRecord(f"the server used another model: {verdict.served} (--any-model accepts its verdict)")
        return verdict

    def _judged(self, messages: list[Record]) -> Verdict:
        """Returns the model's verdict; asks once more if the answer cannot be read."""
        began = time.monotonic()
        answer = self._answer(messages)
        try:
            return self._read(answer, messages)
        except BadRecord as problem:
            if time.monotonic() - began > self.patience / 5:
                raise  # a second answer may come too late for the record
            again = [*messages, {"role": "assistant", "content": answer.text}] if answer.text else messages
            again = [*again, {"role": "user", "content": f"{problem}\n{ONCE_MORE}"}]
            first = self._tokens(answer, messages)
        second = self._read(self._answer(again), again)
        second.input_tokens += first.input
        second.output_tokens += first.output
        return second

    def _answer(self, messages: list[Record]) -> ModelAnswer:
        return self.ask(messages, temperature=self.temperature, schema=SCHEMA, schema_name="verdict")

    def _read(self, answer: ModelAnswer, messages: list[Record]) -> Verdict:
        scores, tokens = scores_in(answer), self._tokens(answer, messages)
        return Verdict(scores, answer.model or None, tokens.input, tokens.output, counted=answer.usage is None)

    def _tokens(self, answer: ModelAnswer, messages: list[Record]) -> TokenUsage:
        """Returns the tokens that the server reports; they are counted if it reports none."""
        if answer.usage is not None:
            return answer.usage
        prompt = "\n".join(message["content"] for message in messages)
        return TokenUsage(*(count_tokens(text, self.name).tokens for text in (prompt, answer.text)))


def scores_in(answer: ModelAnswer) -> Scores:
    """Returns the scores in a judge's answer; raises BadRecord if they are missing, invalid or not from 0 to 1."""
    found = final_object(answer.text)
    shown = " ".join(answer.text.split())[:SHOWN]
    if found is None:
        how = " was cut off" if answer.finish == "length" else " is not the JSON object asked for"
        raise BadRecord(f"the judge's answer{how}: {shown or 'it is empty'}")
    try:
        return check(found, Scores)
    except BadRecord as error:
        raise BadRecord(f"the judge's answer cannot be used: {error}: {shown}") from None


def same_model(asked: str, served: str) -> bool:
    """Whether the server used the requested model: under its name, or as a dated snapshot of it."""
    want, got = (name.lower().rpartition("/")[2].removesuffix(":latest") for name in (asked, served))
    want = re.escape(want.removesuffix("-latest"))
    return re.fullmatch(rf"{want}(-latest|-\d{{4}}-\d\d-\d\d|-\d{{3,8}})?", got) is not None


class VerdictCache:
    """Verdicts in a directory, one file each, named by a digest of everything that they depend on.

    Creates the directory; raises UserError if it is not writable.
    """

    def __init__(self, directory: str) -> None:
        self.directory = directory
        try:
            os.makedirs(directory, 0o700, exist_ok=True)  # the judged answers are for this user only
        except OSError as error:
            raise UserError(f"{directory}: {error.strerror}") from None
        if not os.access(directory, os.W_OK | os.X_OK):
            raise UserError(f"{directory}: cannot be written to")

    def get(self, key: list[Any]) -> Verdict | None:
        """Returns the cached verdict; None if there is none that can be read."""
        try:
            verdict = check(decode(read_regular(self._path(key))), Verdict)
        except (OSError, BadRecord):
            return None
        verdict.cached = True
        return verdict

    def put(self, key: list[Any], verdict: Verdict) -> None:
        """Stores a verdict atomically; a failure is ignored."""
        path = self._path(key)
        new = f"{path}.{os.getpid()}-{id(verdict)}.tmp"
        try:
            with open(new, "xb", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
                file.write(encode(verdict))
            os.replace(new, path)
        except OSError:
            pass

    def _path(self, key: list[Any]) -> str:
        return os.path.join(self.directory, f"{hashlib.sha256(encode(key)).hexdigest()}.json")


# --- several judges -----------------------------------------------------------------------------

Prices = Mapping[str | None, tuple[float, float]]  # model → dollars per million tokens in and out; None: any model


class Panel(NamedTuple):
    """One or more judges: the mean of their scores, and the verdict of the majority."""

    judges: list[Judge]
    threshold: float
    prices: Prices
    at_once: int = 1  # judges that are asked at the same time

    def grade(self, record: Record) -> Record:
        """Returns the grader's answer to a record; an error if a judge gave no usable verdict."""
        try:
            case = case_of(record, self.judges[0].instructions.shown)
            if not case.parts["ANSWER"].strip():
                return self._nothing_to_judge()
            with ThreadPoolExecutor(self.at_once) as threads:
                return _combined(list(threads.map(lambda judge: self._opinion(judge, case), self.judges)))
        except BadRecord as error:
            return {"error": str(error)}

    def _opinion(self, judge: Judge, case: JudgeCase) -> Record:
        """Returns the verdict of one judge in the form of `outcome`; every failure is a BadRecord with its name."""
        try:
            verdict = judge.verdict(case)
        except (BadRecord, ModelError) as error:
            raise BadRecord(f"{judge.name}: {error}") from None
        scores, price = verdict.scores, self.prices.get(judge.name, self.prices.get(None))
        cost = None
        if verdict.cached:
            cost = 0.0
        elif price is not None:
            cost = round((verdict.input_tokens * price[0] + verdict.output_tokens * price[1]) / 1_000_000, 9)
        opinion: Record = {name: getattr(scores, name) for name in SCORES}
        opinion |= {"judge_model": judge.name, "served_model": verdict.served}
        opinion |= {"input_tokens": verdict.input_tokens, "output_tokens": verdict.output_tokens, "cost_usd": cost}
        opinion |= {"tokens_approximate": True} if verdict.counted else {}
        opinion |= {"cached": True} if verdict.cached else {}
        return opinion | {"pass": scores.overall_score >= self.threshold, "reasoning": scores.reasoning}

    def _nothing_to_judge(self) -> Record:
        """Returns zeros for an empty answer, without asking a judge."""
        outcome: Record = dict.fromkeys(SCORES, 0.0)
        outcome |= {"judge_model": ", ".join(judge.name for judge in self.judges), "served_model": None}
        outcome |= {"input_tokens": 0, "output_tokens": 0, "cost_usd": 0.0}
        return {"pass": False, "score": 0.0, "reasoning": "there is no answer to judge", "outcome": outcome}


def _combined(opinions: list[Record]) -> Record:
    """Returns the grader result of one judge, or of several: means and sums, agreement, and each one's opinion."""
    if len(opinions) == 1:
        outcome = {name: value for name, value in opinions[0].items() if name not in ("pass", "reasoning")}
        passed, reasoning = opinions[0]["pass"], opinions[0]["reasoning"]
    else:
        outcome = _joint_outcome(opinions)
        passed = 2 * sum(one["pass"] for one in opinions) > len(opinions)
        reasoning = "; ".join(
            f"{one['judge_model']} ({one['overall_score']:g}): {one['reasoning']}" for one in opinions
        )
    return {"pass": passed, "score": outcome["overall_score"], "reasoning": reasoning, "outcome": outcome}


def _joint_outcome(opinions: list[Record]) -> Record:
    outcome: Record = {name: _mean([one[name] for one in opinions]) for name in SCORES}
    outcome["judge_model"] = ", ".join(one["judge_model"] for one in opinions)
    outcome |= {name: sum(one[name] for one in opinions) for name in ("input_tokens", "output_tokens")}
    costs = [one["cost_usd"] for one in opinions]
    outcome["cost_usd"] = None if None in costs else sum(costs)
    if all(one.get("cached") for one in opinions):
        outcome["cached"] = True
    pairs = list(combinations(opinions, 2))
    outcome["agreement"] = {
        "same_verdict": _mean([float(one["pass"] == other["pass"]) for one, other in pairs]),
        "mean_difference": _mean([abs(one["overall_score"] - other["overall_score"]) for one, other in pairs]),
    }
    return outcome | {"judges": opinions}


def _mean(values: list[float]) -> float:
    return round(mean(values) or 0.0, 9)
