"""ae-prompts: another harness's suite, or a table → prompts with checks."""

import os

import click

from agenteval.cli.options import Names, output_option, strict_option
from agenteval.cli.tool import tool
from agenteval.errors import FAILED, OK, UserError, nearest
from agenteval.grading.prompt_checks import parsed_checks
from agenteval.streams.console import Console
from agenteval.streams.output import Output
from agenteval.suites.cases import Settings, converted
from agenteval.suites.formats import FORMATS, check_format


@tool("ae-prompts", exit_status={1: "finished, but some cases were refused; they are reported, all others are written"})
@click.argument("format_", metavar="FORMAT", type=Names(lambda: {name: one.title for name, one in FORMATS.items()}))
@click.argument("suite", metavar="PATH")
@click.option(
    "--skill-name",
    "skill",
    metavar="NAME",
    help="The skill that skill-creator's queries are about.  [default: from SKILL.md]",
)
@click.option("--image", metavar="IMAGE", help="The image built from the Dockerfile of Harbor tasks.")
@click.option("--on-host", is_flag=True, help="Run Harbor tasks on this machine instead of in their image.")
@output_option
@strict_option
def main(
    format_: str,
    suite: str,
    skill: str | None,
    image: str | None,
    on_host: bool,
    output: str | None,
    strict: bool,
    debug: bool,
) -> int:
    """Turn the suite of another harness into prompts with checks.

    FORMAT is one of:
      csv            a table: id, input, hint, reference, timeout, checks (contains, regex, …), other fields
      claude-evals   cases of `claude plugin eval`: a plugin, its evals/ or one case
      skill-creator  evals.json with prompts and expectations, or queries that should trigger the skill
      harbor         tasks with task.toml, instruction.md and tests/
      promptfoo      promptfooconfig.yaml: prompts, tests and assertions
      inspect        datasets of inspect_ai: JSON, JSON Lines or CSV

    What a prompt cannot express is reported for each case, counted at the end, and listed in metadata.notExpressed.
    An invalid case is reported with its place, and all others are written. Paths in the prompts are relative to the
    directory of -o FILE, or to the current directory without -o.

    Examples:
      ae-prompts csv questions.csv -o prompts.jsonl
      ae-prompts promptfoo promptfooconfig.yaml | ae-capture -s claude -o results.jsonl
      ae-prompts claude-evals my-plugin -o prompts.jsonl
    """
    if format_ not in FORMATS:
        if (meant := suite if suite in FORMATS else None) and os.path.exists(format_):
            raise UserError(f"the format comes first: ae-prompts {meant} {format_}")
        raise UserError(f'no format is named "{format_}"; {nearest(format_, FORMATS)}')
    if image and on_host:
        raise UserError(
            "--image and --on-host cannot be used together: a task runs either in its image or on this machine"
        )
    check_format(format_, suite)
    console = Console("ae-prompts", strict=strict, output=output)
    base = os.path.dirname(output) if output not in (None, "-") and output else ""
    settings = Settings(base or ".", skill, on_host, image)
    target = Output(output, lazy=True)
    chosen = FORMATS[format_]
    target.open()
    for prompt in converted(chosen.cases(suite), chosen.fill, settings, parsed_checks, console):
        target.write(prompt)
    target.close()
    return FAILED if console.refused else OK
