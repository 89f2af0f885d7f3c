"""ae-grader-hint: does the output contain the hint?"""

from __future__ import annotations

import re

from agenteval.cli.options import input_argument, output_option
from agenteval.cli.startup import click
from agenteval.cli.tool import tool
from agenteval.errors import UserError
from agenteval.grading.serve import answer_all
from agenteval.wire.records import Record


def grade_hint(record: Record, *, exact: bool = False, regex: bool = False, ignore_case: bool = False) -> Record:
    """Pass when the output has the hint; without a hint there is nothing to miss, as in the seed."""
    output, hint = record.get("output") or "", record.get("hint")
    for field, value in (("output", output), ("hint", hint)):
        if not isinstance(value, str | None):
            return {"error": f'"{field}" must be a string'}
    if not hint:
        return {"pass": True, "score": 1.0, "reasoning": "no hint to look for"}
    if regex:
        try:
            found = re.search(hint, output, re.IGNORECASE if ignore_case else 0) is not None
        except re.error as error:
            return {"error": f"the hint is no regular expression: {error}"}
    else:
        wanted, given = (hint.casefold(), output.casefold()) if ignore_case else (hint, output)
        found = wanted.strip() == given.strip() if exact else wanted in given
    verb = "matches" if regex else "equals" if exact else "contains"
    negated = {"matches": "does not match", "equals": "is not", "contains": "does not contain"}[verb]
    return {
        "pass": found,
        "score": 1.0 if found else 0.0,
        "reasoning": f"output {verb if found else negated} the hint {hint!r}",
    }


@tool("ae-grader-hint")
@input_argument("RECORDS")
@click.option("--exact", is_flag=True, help="The output must equal the hint, but for surrounding space.")
@click.option("--regex", is_flag=True, help="The hint is a regular expression to be found in the output.")
@click.option("-i", "--ignore-case", is_flag=True, help="Upper and lower case are the same.")
@output_option
def main(path: str | None, exact: bool, regex: bool, ignore_case: bool, output: str | None, debug: bool) -> int:
    """Grade whether the output contains the hint.

    Reads grader inputs, one JSON object per line, and answers each with one grader result. A record
    without a hint passes.

    Examples:
      ae-grade results.jsonl -g ae-grader-hint
      ae-grade results.jsonl -g "hint=ae-grader-hint --ignore-case"
      echo '{"id":"a","output":"It is 42.","hint":"4[0-9]"}' | ae-grader-hint --regex
    """
    if exact and regex:
        raise UserError("--exact and --regex exclude each other")
    return answer_all(
        lambda record: grade_hint(record, exact=exact, regex=regex, ignore_case=ignore_case), path, output
    )
