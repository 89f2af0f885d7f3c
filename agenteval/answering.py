"""The bundled graders' loop: grader inputs on stdin, one result line each on stdout."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from agenteval.errors import FAILED, OK, BadRecord
from agenteval.records import Record
from agenteval.stream import Output, Source, decode_record


def answer_all(grade: Callable[[Record], Record], path: str | None, output: str | None) -> int:
    """Grade every record that comes in; one that cannot be read is answered with an error, and exit code 1."""
    source = Source(path)
    target = Output(output, inputs=[source])
    code = OK
    for record in _inputs(source):
        if isinstance(record, BadRecord):
            target.write({"error": str(record)})
            code = FAILED
        else:
            target.write(_answer(grade, record))
    target.close()
    return code


def _answer(grade: Callable[[Record], Record], record: Record) -> Record:
    """The result, or an error: a record with a field of an odd type costs only itself."""
    try:
        return grade(record)
    except (TypeError, ValueError, AttributeError, OSError) as error:
        return {"error": f"{type(error).__name__}: {error}"}


def _inputs(source: Source) -> Iterator[Record | BadRecord]:
    """Records, one per line; a lone record may also be spread over lines, as `jq .` prints it."""
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
                yield _whole(b"\n".join(lines), error)
                return


def _whole(text: bytes, error: BadRecord) -> Record | BadRecord:
    try:
        return decode_record(text)
    except BadRecord:
        return error
