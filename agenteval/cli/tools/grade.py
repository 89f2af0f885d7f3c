"""ae-grade: results or trials → the same records, graded."""

from collections.abc import Iterator
from typing import Any

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
    strict_grading_option,
    verdict_options,
)
from agenteval.cli.tool import OF_GRADING, tool
from agenteval.errors import FAILED, OK
from agenteval.grading.resume import GradedRecords
from agenteval.grading.run import GraderRun
from agenteval.grading.verdict import check_gradable
from agenteval.streams.console import Console
from agenteval.streams.output import open_output
from agenteval.streams.source import Source, read_batches
from agenteval.wire.records import Record


@tool("ae-grade", exit_status=OF_GRADING)
@input_argument("RESULTS")
@grader_option(required=False)
@grader_options
@verdict_options()
@grade_failed_option
@output_option
@append_options
@strict_grading_option
@progress_option
def main(
    path: str | None,
    output: str | None,
    append: bool,
    resume: bool,
    strict: bool,
    progress: bool | None,
    debug: bool,
    **graders: Any,
) -> int:
    """Apply one or more graders to results or trials.

    RESULTS is JSONL with `id` and `output`, or the trials of ae-trials (or stdin). GRADER is an executable
    (grader input on stdin, result on stdout), a Python file with a `grade` function, package.module:function,
    a .js, .mjs or .ts module that exports `grade`, or one of the suite's own (ae-grader-hint), with
    arguments if quoted. A result is {"pass": true, "score": 1.0, "reasoning": "…"}; a missing score is 1
    or 0. With several graders each verdict is kept in `scores`, and `score` is pass = all, score = mean
    (see --weight). Each trial is graded, and passRate, passAtK and the like are computed anew. Order is kept.

    Examples:
      ae-grade results.jsonl -g ae-grader-hint -o graded.jsonl
      ae-grade results.jsonl -g ./grader.py -g style=./style.sh -j 4 -o graded.jsonl --resume
      ae-grade results.jsonl -g ae-grader-hint -g style=./style.sh --weight hint=3 --informational style
      ae-grade trials.jsonl -g ./corrected.py --grader-timeout 2m -o graded.jsonl
      ae-extract raw.jsonl -s claude | ae-grade --stream -g ./loop.rb | ae-format -f table

    A record with `errors` (its agent failed) is not given to any grader and does not pass, unless
    --grade-failed. A grader that crashes, times out or prints nonsense costs only that record: it has no
    `score`, `graderError` says why, it is reported, and the exit code is 1.
    """
    console = Console("ae-grade", progress=progress, strict=strict, output=output)
    source = Source(path)
    graders["grader"] = graders["grader"] or checks_grader(source, console.say, required=True)
    refuse_another_kind(output if resume or append else None, "ae-grade")
    target = open_output(output, source, append=append, resume=resume)
    run = GraderRun(target, console, **graders, debug=debug)
    earlier = None
    if resume:
        target.resumed = False  # what is replaced is found by GradedRecords
        earlier = GradedRecords(target, run.graders.digests, run.redact, merges=run.graders.keep_each)
    console.begin(None, "records")

    def undone(limit: int) -> Iterator[list[Record]]:
        batches = read_batches(source, check_gradable, console, limit)
        return earlier.undone(batches) if earlier else batches

    all_graded = run(undone, lambda graded: graded)
    target.close()
    if earlier and (line := earlier.finish()):
        console.say(line)
    return OK if all_graded and not console.refused else FAILED
