"""Which prompts have a reference that can be graded, for ae-validate-refs on one machine or many."""

from agenteval.streams.text import counted
from agenteval.wire.records import ON_OUTPUT, Record


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
