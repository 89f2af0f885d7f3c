"""Which prompts have a reference that can be graded, and which references pass: on one machine or many."""

from agenteval.streams.console import Console
from agenteval.streams.text import clip, counted, first_few
from agenteval.wire.records import ON_OUTPUT, Record

IDS_SHOWN = 5
ID_WIDTH = 40


def is_on_output(check: Record) -> bool:
    """Whether a check needs only the output."""
    return check.get("type") in ON_OUTPUT


def solution_in(prompt: Record) -> str | None:
    """Returns the directory with the reference solution of a Harbor task, if the prompt is one."""
    found = (check.get("solution") for check in prompt.get("checks") or [] if check.get("type") == "harbor")
    return next(filter(None, found), None)


def has_reference(prompt: Record) -> bool:
    """Whether a prompt has a reference that a grader can judge."""
    checks = prompt.get("checks")
    is_answer = prompt.get("reference") is not None and (not checks or any(map(is_on_output, checks)))
    return is_answer or solution_in(prompt) is not None


def not_validated(count: int) -> str:
    """Returns the message about prompts without a reference."""
    has, was = ("has", "was") if count == 1 else ("have", "were")
    return f"{counted(count, 'prompt')} {has} no reference, and {was} not validated"


class ValidationCounts:
    """Counts prompts without a reference and references that passed; names those that did not."""

    def __init__(self) -> None:
        self.without = self.passed = self.ungraded = 0
        self.not_passed: list[str] = []

    def wants(self, prompt: Record, _in_shard: bool) -> bool:
        """Returns whether a prompt has a reference that can be graded, and counts those that have none."""
        has_one = has_reference(prompt)
        self.without += not has_one
        return has_one

    def add(self, validated: Record) -> None:
        """Counts one more record of the output."""
        if validated.get("graderError") or "pass" not in validated:
            self.ungraded += 1
        elif validated["pass"]:
            self.passed += 1
        else:
            self.not_passed.append(validated["id"])

    @property
    def total(self) -> int:
        """The number of references."""
        return self.passed + len(self.not_passed) + self.ungraded

    def report(self, console: Console, name: str) -> bool:
        """Reports how many prompts have no reference, and which references did not pass; returns whether all did."""
        if not self.total and not console.refused:
            missing = 'no prompt has a "reference", an answer that must pass' if self.without else "contains no prompts"
            console.say(f"{name}: {missing}: nothing was validated")
            return not self.without
        if self.without:
            console.say(not_validated(self.without))
        parts = []
        if self.not_passed:
            names = [clip(id, ID_WIDTH) for id in self.not_passed]
            parts.append(f"{len(names):,} did not pass ({first_few(names, IDS_SHOWN)})")
        if self.ungraded:
            parts.append(f"{self.ungraded} could not be graded")
        if parts:
            console.say(", ".join([f"{self.passed} of {self.total} references passed", *parts]))
        return not parts
