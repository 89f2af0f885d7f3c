"""No single record ends a run: an unexpected exception in the work on a record becomes its error.

Every tool works on a record inside `guarded`, and writes it with `write_record`. An error of the tool itself (a wrong
option, a full disk, a closed pipe) is not caught.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from agenteval.errors import ClosedPipe, UserError, WorkspaceError
from agenteval.streams.console import Console
from agenteval.streams.jsonl import encode
from agenteval.streams.output import Output
from agenteval.wire.records import Record

T = TypeVar("T")
R = TypeVar("R")

NOT_OF_THE_RECORD = (UserError, ClosedPipe, WorkspaceError)
EMPTY: dict[str, object] = {"input": "", "output": "", "trajectory": [], "rawLines": [], "lineTimes": [], "trials": []}


def guarded(item: T, work: Callable[[T], R], failed: Callable[[T, Exception], R]) -> R:
    """Returns the result of the work on an item; if it raises, what `failed` returns for the item and the error."""
    try:
        return work(item)
    except NOT_OF_THE_RECORD:
        raise
    except Exception as error:
        return failed(item, error)


def write_record(target: Output, record: Record, console: Console) -> None:
    """Writes a record; if it cannot be encoded, without the fields that cannot, and with an error that names them."""
    try:
        target.write(record)
    except NOT_OF_THE_RECORD:
        raise
    except Exception as error:
        target.write(without_unwritable(record, console.fault(str(record["id"]), error)))


def without_unwritable(record: Record, reason: str) -> Record:
    """Returns the record without the fields that cannot be encoded, and with the reason among its errors."""
    kept = {name: value for name, value in record.items() if _is_writable({name: value})}
    empty = {name: EMPTY[name] for name in record if name not in kept and name in EMPTY}
    lost = ", ".join(name for name in record if name not in kept)
    errors = [*(kept.get("errors") or ()), f"cannot be written: {lost} ({reason})"]
    return {**kept, **empty, "errors": errors}


def _is_writable(value: object) -> bool:
    try:
        encode(value)
    except Exception:
        return False
    return True
