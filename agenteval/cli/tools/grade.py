"""ae-grade: results or trials → the same records, graded."""

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import click

from agenteval.agents.resume import refuse_another_kind
from agenteval.cli.options import (
    append_options,
    checks_grader,
    grade_failed_option,
    grader_option,
    grader_options,
    input_argument,
    output_option,
    progress_option,
    refuse_without,
    strict_grading_option,
    verdict_options,
)
from agenteval.cli.tool import OF_GRADING, tool
from agenteval.errors import FAILED, OK, CannotGoOn, Stopped, UserError
from agenteval.grading.resume import GradedRecords
from agenteval.grading.run import GraderRun
from agenteval.grading.verdict import check_gradable
from agenteval.review.calibration import read_labels
from agenteval.review.labels import LabelRules
from agenteval.streams.console import Console
from agenteval.streams.output import Output, open_output, write_record
from agenteval.streams.source import Source, read_batches
from agenteval.wire.records import Record


def label_rules(labels: str, path: str | None, resume: bool, console: Console) -> LabelRules:
    """Returns the rules that apply the labels of a file."""
    if resume:
        raise UserError(
            "--labels would change records that --resume keeps: grade first, then run ae-grade GRADED --labels FILE"
        )
    if labels == "-" and path in (None, "-"):
        raise UserError("RESULTS and --labels cannot both be stdin")
    return LabelRules(read_labels(Source(labels), console))


def apply_labels(rules: LabelRules, source: Source, target: Output, console: Console) -> int:
    """Writes the records with the labels applied and their other verdicts unchanged; returns the exit code."""
    target.open()
    console.begin(None, "records")
    for batch in read_batches(source, check_gradable, console, 1):
        for record in batch:
            target.begin()
            write_record(target, rules(record), console)
            console.advance(record["id"])
    console.finish()
    target.close()
    console.say(rules.report())
    return FAILED if console.refused else OK


@tool("ae-grade", exit_status=OF_GRADING)
@input_argument("RESULTS")
@grader_option
@grader_options
@verdict_options()
@grade_failed_option
@click.option("--labels", metavar="FILE", help="A person's verdicts, which overrule the graders'.")
@output_option
@append_options
@strict_grading_option
@progress_option
def main(
    path: str | None,
    output: str | None,
    append: bool,
    resume: bool,
    labels: str | None,
    strict: bool,
    progress: bool | None,
    debug: bool,
    **graders: Any,
) -> int:
    """Apply one or more graders to results or trials.

    RESULTS is JSONL with `id` and `output`, or the trials of ae-trials (or stdin). GRADER is an executable (grader
    input on stdin, result on stdout), a Python file with a `grade` function, package.module:function, a .js, .mjs or
    .ts module that exports `grade`, or one of the suite's graders (ae-grader-hint); quote it to pass arguments. A
    result is {"pass": true, "score": 1.0, "reasoning": "…"}; a missing score becomes 1 or 0. With several graders
    each verdict is kept in `scores`; the record passes if all of them pass it, and its score is their mean (see
    --weight). Each trial is graded, and passRate, passAtK and the like are recomputed. Records stay in order.

    Examples:
      ae-grade results.jsonl -g ae-grader-hint -o graded.jsonl
      ae-grade results.jsonl -g ./grader.py -g style=./style.sh -j 4 -o graded.jsonl --resume
      ae-grade results.jsonl -g ae-grader-hint -g style=./style.sh --weight hint=3 --informational style
      ae-grade trials.jsonl -g ./corrected.py --grader-timeout 2m -o graded.jsonl
      ae-extract raw.jsonl -s claude | ae-grade --stream -g ./loop.rb | ae-format -f table

    A record with `errors` (its agent failed) is not passed to any grader and does not pass, unless --grade-failed is
    given. A grader that crashes, times out or prints nonsense affects only that record: it is reported, has no
    `score` but a `graderError` with the reason, and the exit code is 1.

    --labels applies what a person has decided, in the HTML page of a run or with ae-calibrate: the label of a record
    or a trial (ID#N) overrules its verdict. `humanVerdict` holds the label and the verdict it overrules, and reports
    count it. Without -g the records keep their verdicts: nothing is graded again.
    """
    console = Console("ae-grade", progress=progress, strict=strict, output=output)
    source = Source(path)
    rules = label_rules(labels, path, resume, console) if labels is not None else None
    if rules and not graders["grader"]:
        refuse_without("-g GRADER", "stream", "concurrency", "timeout", "grade_failed", "no_redact")
        return apply_labels(rules, source, open_output(output, source, append=append, resume=False), console)
    graders["grader"] = graders["grader"] or checks_grader(source, console.say, required=True)
    refuse_another_kind(output if resume or append else None, "ae-grade")
    target = open_output(output, source, append=append, resume=resume)
    run = GraderRun(target, console, **graders, debug=debug)
    earlier = None
    if resume:
        target.resumed = False  # GradedRecords finds what is replaced
        earlier = GradedRecords(target, run.graders.digests, run.redact, merges=run.graders.keep_each)
    console.begin(None, "records")

    def undone(limit: int) -> Iterator[list[Record]]:
        batches = read_batches(source, check_gradable, console, limit)
        return earlier.undone(batches) if earlier else batches

    try:
        all_graded = run(undone, rules or (lambda graded: graded))
    except (Stopped, Exception):
        if earlier and earlier.is_intact():
            with suppress(OSError):  # a full disk: the next --resume does it
                earlier.put_in_place()
        raise
    try:
        target.close()
    except CannotGoOn:  # for example, it was removed and is another file now
        if earlier and earlier.is_intact():
            earlier.finish()
        raise
    if rules:
        console.say(rules.report())
    if earlier and (line := earlier.finish()):
        console.say(line)
    return OK if all_graded and not console.refused else FAILED
