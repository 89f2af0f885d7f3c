"""The main loop of the bundled graders: grader inputs on stdin, one result line each on stdout."""

import os
from collections.abc import Callable, Iterator

from agenteval.errors import FAILED, OK, BadRecord
from agenteval.processes.pool import Pool
from agenteval.streams.jsonl import decode_record
from agenteval.streams.output import Output
from agenteval.streams.source import Source
from agenteval.wire.records import Record

Grade = Callable[[Record], Record]

ANNOUNCE_READY = "_AE_GRADER_READY"  # set by a tool that starts a bundled grader and expects a line before the answers
MODEL_VARIABLE = "DEFAULT_JUDGE_MODEL"  # names the judge if --model is not given
DEFAULT_MODEL = "gpt-4o-mini"


def answer_all(grade: Grade, path: str | None, output: str | None, *, ahead: int = 1) -> int:
    """Grades every record, in order; returns exit code 1 if an answer was an error.

    A grader that waits for a model may grade `ahead` records at a time, in threads.
    """
    source = Source(path)
    target = Output(output, inputs=[source])
    code = OK
    if os.environ.pop(ANNOUNCE_READY, None):
        (target if output is None else Output(None)).write({"ready": True})

    def write(answer: Record) -> None:
        nonlocal code
        code = FAILED if "error" in answer else code
        target.write(answer)

    pool: Pool[Record | BadRecord, Record] = Pool(
        lambda record: [_answer(grade, record)], write, workers=ahead, ordered=True
    )
    pool.run(_inputs(source), target.fd if target.may_block() else None)
    target.close()
    return code


def _answer(grade: Grade, record: Record | BadRecord) -> Record:
    """Returns the result, or an error for a bad line or a field of a wrong type."""
    if isinstance(record, BadRecord):
        return {"error": str(record)}
    try:
        return grade(record)
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}


def _inputs(source: Source) -> Iterator[Record | BadRecord]:
    """Yields the records, one per line; a single record may also be spread over lines, as `jq .` prints it."""
    batches = source.lines()
    for batch in batches:
        for number, line in batch:
            try:
                yield decode_record(line)
            except BadRecord as error:
                if number > 1 or line.strip() != b"{":
                    yield error
                    continue
                lines = [line, *(more for _, more in batch[1:]), *(more for rest in batches for _, more in rest)]
                try:
                    yield decode_record(b"\n".join(lines))
                except BadRecord:
                    yield error
                return
