"""ae-grade --resume: graded records are kept if the answer, the rest of the grader input and the graders are the same.

Data flow: the output is read once, into digests by id → each record of the input is looked up: it is kept, or graded
and appended to the file → at the end the file is put in the order of the input, without the records that were
replaced. Until then it has both, so that nothing that was paid for is lost; after Ctrl-C each new record replaces its
old one, and after a SIGKILL the next --resume does that.
"""

import os
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import pairwise

import msgspec

from agenteval.grading.verdict import without_verdicts
from agenteval.streams.digests import digest
from agenteval.streams.files import lines_of
from agenteval.streams.jsonl import decode_record
from agenteval.streams.output import Output, rewrite
from agenteval.streams.redaction import Redactor
from agenteval.wire.records import Record


class GradedRecord(msgspec.Struct, gc=False):
    """Where a graded record is in the output, with digests of its answer and its graders."""

    offset: int
    size: int
    answer: str
    graders: str
    erred: bool


class GradedRecords:
    """The records of an output that is resumed; `graders` are the digests of the graders by name."""

    def __init__(self, output: Output, graders: dict[str, str], redact: Redactor, *, merges: bool) -> None:
        self.output, self.graders, self.redact, self.merges = output, graders, redact, merges
        self.done: Counter[str] = Counter()
        self._size = 0
        self._left: dict[str, list[GradedRecord]] = {}  # by id, without those that are kept
        self._seen: set[str] = set()
        self._order: list[tuple[str, GradedRecord | None]] = []  # of the input; None for a record that is graded again
        self._read()

    def _read(self) -> None:
        for offset, line in lines_of(self.output.absolute, follow=True):
            if offset >= self.output.own_end:
                break
            if not line.strip():
                continue
            record = decode_record(line)
            graders = digest((record.get("metadata") or {}).get("graderDigests"))
            place = GradedRecord(offset, len(line), self._answer(record), graders, _has_grader_error(record))
            self._left.setdefault(record["id"], []).append(place)
            self._size = offset + len(line)

    def _answer(self, record: Record) -> str:
        return digest(self.redact.record(without_verdicts(record)))

    def undone(self, batches: Iterable[list[Record]]) -> Iterator[list[Record]]:
        """Yields the records that must be graded."""
        for batch in batches:
            if left := [record for record in batch if not self.keeps(record)]:
                yield left

    def keeps(self, record: Record) -> bool:
        """Returns whether the next record of the input stays as it was graded."""
        written = self._left.get(record["id"], [])
        self._seen.add(record["id"])
        earlier = (record.get("metadata") or {}).get("graderDigests") if self.merges else None
        graders = (digest({**(earlier or {}), **self.graders}), digest(None))  # an earlier version wrote none
        answer = self._answer(record)
        same = [one for one in written if one.answer == answer]
        found = next((one for one in same if one.graders in graders and not one.erred), None)
        self._order.append((record["id"], found))
        if found is not None:
            written.remove(found)
            self.done["kept"] += 1
            return True
        if not written:
            self.done["new"] += 1
        else:
            self.done["graded again" if same else "changed and graded again"] += 1
        return False

    def is_intact(self) -> bool:
        """Whether the records are where they were read, although another program may have touched the file."""
        return self.output.keeps_offsets(self._size)

    def finish(self) -> str | None:
        """Puts the output in order once all is graded; returns what was done, None if it had no record before."""
        new = iter(self._lines(self._size))
        gone = [one for id, left in self._left.items() if id not in self._seen for one in left]
        wanted = [(one.offset, one.size) if one else next(new) for _, one in self._order]
        wanted += [(one.offset, one.size) for one in gone]
        replaced = any(left for id, left in self._left.items() if id in self._seen)
        if replaced or any(later < earlier for earlier, later in pairwise(wanted)):
            rewrite(self.output.place, wanted)
        os.utime(self.output.place)  # even if nothing was left to do: make compares times
        if not self._size:
            return None
        parts = [f"{count:,} {what}" for what, count in sorted(self.done.items(), key=lambda item: item[0] != "kept")]
        if gone:
            parts.append(f"{len(gone):,} no longer in the input (kept)")
        if not any(what != "kept" for what in self.done):
            parts.append("nothing to do")
        return f"{self.output.name}: {', '.join(parts)}"

    def put_in_place(self) -> None:
        """Replaces old records by the new ones, after grading was stopped early."""
        new = self._lines(self._size)  # they come in the order of the input
        graded = [id for id, one in self._order if one is None][: len(new)]
        place: dict[int, tuple[int, int]] = {}
        for id, line in zip(graded, new, strict=True):
            if left := self._left.get(id):
                place[left.pop(0).offset] = line
        if place:
            taken = set(place.values())
            rewrite(self.output.place, [place.get(one[0], one) for one in self._lines(0) if one not in taken])

    def _lines(self, start: int) -> list[tuple[int, int]]:
        """Returns offset and size of each record in the file from `start` on."""
        return [(at, len(line)) for at, line in lines_of(self.output.place, start, follow=True) if line.strip()]


def _has_grader_error(record: Record) -> bool:
    trials = record.get("trials")
    return bool(record.get("graderError") or any(trial.get("graderError") for trial in trials or ()))
