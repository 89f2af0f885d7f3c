"""ae-grader-hint: does the output contain the hint?"""

import click

from agenteval.cli.options import input_argument, output_option
from agenteval.cli.tool import OF_GRADING, tool
from agenteval.errors import UserError
from agenteval.grading.checks import grade_hint
from agenteval.grading.serve import answer_all


@tool("ae-grader-hint", exit_status=OF_GRADING)
@input_argument("RECORDS")
@click.option("--exact", is_flag=True, help="The output must equal the hint, apart from surrounding whitespace.")
@click.option("--regex", is_flag=True, help="The hint is a regular expression to search for in the output.")
@click.option("--case", is_flag=True, help="Distinguish upper and lower case.  [default: ignore case]")
@click.option("-i", "--ignore-case", is_flag=True, hidden=True, expose_value=False)  # of earlier versions
@output_option
def main(path: str | None, output: str | None, debug: bool, **options: bool) -> int:
    """Grade whether the output contains the hint.

    Reads grader inputs, one JSON object per line, and answers each with one grader result. A record without a `hint`
    cannot be judged: that is a grader error, which suggests a field that may be meant (`expected`).

    Examples:
      ae-grade results.jsonl -g ae-grader-hint
      ae-grade results.jsonl -g "hint=ae-grader-hint --case"
      echo '{"id":"a","output":"It is 42.","hint":"4[0-9]"}' | ae-grader-hint --regex
    """
    if options["exact"] and options["regex"]:
        raise UserError("--exact and --regex cannot be used together")
    return answer_all(lambda record: grade_hint(record, **options), path, output)
