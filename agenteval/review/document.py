"""The boxes of a review document that a person ticks: written for each record, and read back.

They are between two HTML comments, which markdown viewers hide. The first has the record's id as JSON without spaces or
any character that markdown, HTML or an editor could change; `harmless` changes such comments in the texts of agents, so
that every one in a document is ours. An editor may break or join lines, trim spaces or turn - into *, and the boxes can
still be read.
"""

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
_BOX = re.compile(r"\\?\[\s*+([^\s\[\]\\]{0,3})\s*+\\?\]\s*+[*_`]*+(pass|fail|ambiguous)\b", re.IGNORECASE)
_NOTE = re.compile(r"(?<![*_])[*_]*+\bNote[*_]*:[*_]*", re.IGNORECASE)
_UNSAFE = re.compile(r"[^!#-%'-,./0-;=?-~\"]")  # space, &, -, <, > and non-ASCII characters
_END = "<!-- ae-calibrate end -->"


# --- writing ------------------------------------------------------------------------------------


def review_block(label: Label, meanings: dict[str, str]) -> str:
    """Returns the boxes of one record, ticked according to the label, each with its meaning."""
    payload: Record = {"id": label.id} | ({"outputHash": label.output_hash} if label.output_hash else {})
    payload |= {"again": True} if label.again else {}
    ticked = label.label
    boxes = [f"- [{'x' if word == ticked else ' '}] **{word}**: {meaning}" for word, meaning in meanings.items()]
    note = f"Note: {harmless(visible(' '.join((label.note or '').split())))}".rstrip()
    return "\n".join([f"<!-- ae-calibrate {escaped_json(payload)} -->", "", *boxes, "", note, "", _END])


def escaped_json(payload: Record) -> str:
    """Encodes JSON that survives any editor: ASCII only, no spaces, nothing that could end a comment."""
    return _UNSAFE.sub(_escape, encode(payload).decode())


def _escape(found: re.Match[str]) -> str:
    units = found[0].encode("utf-16-be")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))


def harmless(text: str) -> str:
    """Returns the text without the start of our comments: `<!--` before our name becomes `<!~~`."""
    return _COMMENT.sub("<!~~", text)


# --- reading ------------------------------------------------------------------------------------


class Review(NamedTuple):
    """The boxes of one record as a person left them: a label, nothing yet, or a mistake."""

    line: int
    label: Record | None = None
    mistake: str | None = None


class Part(NamedTuple):
    """The text between two of our comments, and the payload of the first."""

    line: int
    payload: str
    text: str
    closed: bool


def read_reviews(lines: Iterable[str]) -> Iterator[Review]:
    """Yields the reviews of a document in order; a repeated id must have the same tick, and is read once.

    The two ticks of a record that is reviewed twice may differ; the report shows how often they do.
    """
    known: dict[tuple[str, bool], Record] = {}
    for part in parts_of("\n".join(lines)):
        try:
            label = label_in(part)
        except BadRecord as error:
            yield Review(part.line, mistake=str(error))
            continue
        earlier = known.setdefault((label["id"], "again" in label), label) if label else None
        if label is None or earlier is None or earlier is label:
            yield Review(part.line, label)
        elif earlier["pass"] != label["pass"]:
            yield Review(part.line, mistake=f'"{label["id"]}" has another tick further up; tick the same in both')


def parts_of(text: str) -> Iterator[Part]:
    """Yields the parts that begin with one of our comments, except those that only end a part."""
    starts = [0, *accumulate(len(line) + 1 for line in text.split("\n"))]
    marks = list(_MARK.finditer(text))
    inside = False
    for at, mark in enumerate(marks):
        end = mark[1] == "end"
        if not end or not inside:  # an end without a start is a part too, and a mistake
            after = marks[at + 1] if at + 1 < len(marks) else None
            closed = not end and after is not None and after[1] == "end"
            within = text[mark.end() : after.start() if after else None]
            yield Part(bisect_right(starts, mark.start()), mark[1], within, closed)
        inside = not end


def label_in(part: Part) -> Record | None:
    """Returns the label that a person ticked; None if no box is ticked; raises BadRecord if it is unclear which."""
    if part.payload == "end":
        raise BadRecord("the comment that starts this review is missing: its tick cannot be read")
    if not part.closed:
        raise BadRecord(f"the comment that ends this review is missing: put {_END} after its boxes")
    try:
        about = check(decode(part.payload), Label)
    except BadRecord as error:
        raise BadRecord(f"the comment that names the record was changed: {error}") from None
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
    label |= {"outputHash": about.output_hash} if about.output_hash else {}
    return label | ({"again": True} if about.again else {})


def ticked_words(boxes: str) -> list[str]:
    """Returns which of pass, fail and ambiguous are ticked; raises BadRecord for any other mark."""
    ticked = []
    for mark, word in _BOX.findall(boxes):
        if mark and mark not in TICKS:
            raise BadRecord(f"[{mark}] {word.lower()}: neither [ ] nor [x]")
        if mark and word.lower() not in ticked:
            ticked.append(word.lower())
    return ticked
