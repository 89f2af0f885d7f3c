"""The place in a document where a person ticks a box: written for each record, and read back.

It stands between two HTML comments, which no markdown viewer shows. The first carries the record's id as JSON without
a space or any character that markdown, HTML or an editor could change; in the texts of agents such comments are
defused (`harmless`), so that wherever they occur in a document, a reviewer's tick follows. An editor may break lines,
join them, trim spaces or turn - into *, and the boxes can still be read.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import accumulate
from typing import NamedTuple

from agenteval.errors import BadRecord
from agenteval.streams.jsonl import decode, encode
from agenteval.streams.text import visible
from agenteval.wire.calibration import VERDICTS, Label
from agenteval.wire.records import Record
from agenteval.wire.validation import check

TITLE = "# Grader calibration"
TICKS = frozenset("xX✓✔☑")

_COMMENT = re.compile(r"<!--(?=\s*ae-calibrate)", re.IGNORECASE)
_MARK = re.compile(r"<!--\s*ae-calibrate\s+(\S+)\s*-->")
_BOX = re.compile(r"\\?\[\s*([^\s\[\]\\]{0,3})\s*\\?\]\s*[*_`]*(pass|fail|ambiguous)\b", re.IGNORECASE)
_NOTE = re.compile(r"[*_]*\bNote[*_]*:[*_]*", re.IGNORECASE)
_UNSAFE = re.compile(r"[^!#-%'-,./0-;=?-~\"]")  # in JSON: space, &, -, <, > and all that is not ASCII
_END = "<!-- ae-calibrate end -->"


# --- writing ------------------------------------------------------------------------------------


def review_block(label: Label, meanings: dict[str, str]) -> str:
    """The boxes of one record, ticked as the label says; the meanings are those of pass, fail and ambiguous."""
    payload = {"id": label.id} | ({"outputHash": label.output_hash} if label.output_hash else {})
    ticked = label.label
    boxes = [f"- [{'x' if word == ticked else ' '}] **{word}**: {meaning}" for word, meaning in meanings.items()]
    note = f"Note: {harmless(visible(' '.join((label.note or '').split())))}".rstrip()
    return "\n".join([f"<!-- ae-calibrate {armoured(payload)} -->", "", *boxes, "", note, "", _END])


def armoured(payload: Record) -> str:
    """JSON that survives any editor: only ASCII, no space, nothing that could end a comment."""
    return _UNSAFE.sub(_escape, encode(payload).decode())


def _escape(found: re.Match[str]) -> str:
    units = found[0].encode("utf-16-be")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))


def harmless(text: str) -> str:
    """The text without the beginning of a comment of ours: `<!--` before our name becomes `<!~~`."""
    return _COMMENT.sub("<!~~", text)


# --- reading ------------------------------------------------------------------------------------


class Review(NamedTuple):
    """What a person left at one place of a document: a label, nothing yet, or a mistake."""

    line: int
    label: Record | None = None
    mistake: str | None = None


class Part(NamedTuple):
    """The text between two comments of ours, and what the first of them says."""

    line: int
    payload: str
    text: str
    closed: bool


def read_reviews(lines: Iterable[str]) -> Iterator[Review]:
    """Every place of the document that was made for a tick, in order; an id that comes again is not read twice."""
    known: dict[str, Record] = {}
    for part in parts_of("\n".join(lines)):
        try:
            label = label_in(part)
        except BadRecord as error:
            yield Review(part.line, mistake=str(error))
            continue
        if label is None:
            yield Review(part.line)
            continue
        earlier = known.setdefault(label["id"], label)
        if earlier is label:
            yield Review(part.line, label)
        elif earlier["pass"] != label["pass"]:
            yield Review(part.line, mistake=f'"{label["id"]}" was ticked otherwise further up; tick the same in both')


def parts_of(text: str) -> Iterator[Part]:
    """The parts that begin with a comment of ours, but for the ends of others."""
    starts = [0, *accumulate(len(line) + 1 for line in text.split("\n"))]
    marks = list(_MARK.finditer(text))
    inside = False
    for at, mark in enumerate(marks):
        end = mark[1] == "end"
        if not end or not inside:  # an end without a beginning is a part too, and a mistake
            after = marks[at + 1] if at + 1 < len(marks) else None
            closed = not end and after is not None and after[1] == "end"
            yield Part(
                bisect_right(starts, mark.start()), mark[1], text[mark.end() : after.start() if after else None], closed
            )
        inside = not end


def label_in(part: Part) -> Record | None:
    """The label that a person ticked; None where no box is ticked, BadRecord where it cannot be told which."""
    if part.payload == "end":
        raise BadRecord("the comment that begins this review is gone: its tick cannot be read")
    if not part.closed:
        raise BadRecord(f"the comment that ends this review is gone: put {_END} behind its boxes")
    about = named(part.payload)
    note = _NOTE.search(part.text)
    boxes = part.text[: note.start()] if note else part.text
    ticked = ticked_words(boxes)
    if len(ticked) > 1:
        raise BadRecord(f'"{about.id}": {" and ".join(ticked)} are ticked; tick one')
    if not ticked:
        return None
    label: Record = {"id": about.id, "pass": VERDICTS[ticked[0]]}
    if note and (words := " ".join(part.text[note.end() :].split())):
        label["note"] = words
    return label | ({"outputHash": about.output_hash} if about.output_hash else {})


def named(payload: str) -> Label:
    """The record that a comment speaks of."""
    try:
        return check(decode(payload), Label)
    except BadRecord as error:
        raise BadRecord(f"the comment that names the record was changed: {error}") from None


def ticked_words(boxes: str) -> list[str]:
    """Which of pass, fail and ambiguous are ticked; BadRecord where a mark is neither a tick nor a space."""
    ticked = []
    for mark, word in _BOX.findall(boxes):
        if mark and mark not in TICKS:
            raise BadRecord(f"[{mark}] {word.lower()}: neither [ ] nor [x]")
        if mark and word.lower() not in ticked:
            ticked.append(word.lower())
    return ticked
