"""A model as the judge of all rubrics of one record in one call, for the checks of type `judge`.

Data flow: record and rubrics → messages (the criteria in the system message, the record fenced as in judge.py) → model
→ one score per rubric. A reply that cannot be read is asked for once more.
"""

import os
import re
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from agenteval.errors import BadRecord
from agenteval.grading.judge import INSTRUCTIONS, MATERIAL, ONCE_MORE, AskJudge, case_of, fenced, read_text
from agenteval.grading.prompt_checks import Opinion
from agenteval.grading.sources import final_object
from agenteval.models.chat import ModelError
from agenteval.models.tokens import OFFLINE
from agenteval.streams.text import one_line
from agenteval.wire.records import Rate, Record
from agenteval.wire.validation import check

SHOWN = ("sources", "reference", "hint", "trajectory")
HOW_TO_REPLY = (
    'How to reply: with one JSON object and nothing else: {{"criteria": [{{"number": 1, "reasoning": string, "score": '
    "number from 0.0 to 1.0}}, …]}}, with one item for each of the {count} criteria, in their order."
)
SCHEMA: Record = {
    "type": "object",
    "additionalProperties": False,
    "required": ["criteria"],
    "properties": {
        "criteria": {
            "type": "array",
            "items": {
                "type": "object",
                "additionalProperties": False,
                "required": ["number", "reasoning", "score"],
                "properties": {
                    "number": {"type": "integer"},
                    "reasoning": {"type": "string"},
                    "score": {"type": "number", "description": "How well the answer meets it, from 0.0 to 1.0"},
                },
            },
        }
    },
}


class JudgedRubric(msgspec.Struct):
    """The judge's opinion on one rubric."""

    number: int
    score: Rate
    reasoning: str


class JudgedRubrics(msgspec.Struct):
    """The judge's reply."""

    criteria: list[JudgedRubric]


class RubricJudge(NamedTuple):
    """A model that judges by rubrics."""

    name: str
    ask: AskJudge
    temperature: float

    def __call__(self, record: Record, rubrics: Sequence[str]) -> tuple[list[Opinion], Record]:
        """Returns an opinion on each rubric, and what the judge used; raises BadRecord if it gave none."""
        case = case_of(record, SHOWN)
        if not case.parts["ANSWER"].strip():
            return [Opinion(0.0, "there is no answer to judge") for _ in rubrics], {}
        listed = "\n".join(f"{number}. {' '.join(text.split())}" for number, text in enumerate(rubrics, 1))
        system = [read_text(os.path.join(INSTRUCTIONS, "rubrics.txt")), f"Criteria:\n{listed}", read_text(MATERIAL)]
        messages: list[Record] = [
            {"role": "system", "content": "\n\n".join([*system, HOW_TO_REPLY.format(count=len(rubrics))])},
            {"role": "user", "content": fenced(case)},
        ]
        used = {"judge_model": self.name, "input_tokens": 0, "output_tokens": 0}
        try:
            try:
                return self._opinions(messages, len(rubrics), used), used
            except BadRecord as problem:
                again = {"role": "user", "content": f"{problem}\n{ONCE_MORE}"}
                return self._opinions([*messages, again], len(rubrics), used), used
        except (BadRecord, ModelError) as error:
            raise BadRecord(f"{self.name}: {error}") from None

    def _opinions(self, messages: list[Record], count: int, used: Record) -> list[Opinion]:
        answer = self.ask(messages, temperature=self.temperature, schema=SCHEMA, schema_name="criteria")
        if answer.usage is not None:
            used["input_tokens"] += answer.usage.input
            used["output_tokens"] += answer.usage.output
        found = final_object(answer.text)
        if self.name == OFFLINE and found is not None and "overall_score" in found:
            return [Opinion(found["overall_score"], found["reasoning"])] * count
        if found is None:
            raise BadRecord(f"the judge's answer is not the JSON object asked for: {one_line(answer.text, 200)}")
        criteria = sorted(check(found, JudgedRubrics).criteria, key=lambda one: one.number)
        if [one.number for one in criteria] != list(range(1, count + 1)):
            raise BadRecord(f"the judge's answer does not have one score for each of the {count} criteria")
        return [Opinion(one.score, re.sub(r"\s+", " ", one.reasoning)) for one in criteria]
