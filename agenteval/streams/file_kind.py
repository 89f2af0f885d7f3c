"""What a file holds that a tool cannot read: reported once, with the tool that reads it, instead of once per line."""

from __future__ import annotations

import re

from agenteval.errors import BadRecord
from agenteval.streams.jsonl import decode

ARRAY = "holds a JSON array, not a record per line; jq -c '.[]' {file} makes lines of it"
CSV = "looks like CSV, not like a JSON object per line; mlr --icsv --ojsonl cat {file} makes lines of it"
COMPRESSED = "is compressed; read it with {command} {file} | …"
PRETTY = "holds JSON that is spread over lines, not a record per line; jq -c . {file} makes lines of it"
RAW = "holds raw records, as ae-run writes them; ae-extract makes results of them"
TRIALS = "holds trials, as ae-trials writes them; ae-format, ae-show, ae-gate and ae-compare read them"
RESULTS = "holds results, as ae-capture and ae-extract write them; ae-grade, ae-format and ae-compare read them"
PROMPTS = "holds prompts; ae-run, ae-capture and ae-trials run them"


COMPRESSORS = {
    b"\x1f\x8b": "gzip -dc",
    b"BZh": "bzip2 -dc",
    b"\xfd7zXZ": "xz -dc",
    b"\x28\xb5\x2f\xfd": "zstd -dc",
    b"PK\x03\x04": "unzip -p",
}
# These are compiled when a line is refused.
NAMED = rb"(?=.*\b(?:id|input|prompt|question|output)\b)"  # a column that records have, by one of its usual names
HEADER = rb"(?i)" + NAMED + rb'"?[a-z_][\w .-]*"?(?:[,;\t]"?[a-z_][\w .-]*"?)+'
MISSING = r'"(output|rawLines|input|trials|k)" is missing'
OF_ANOTHER_KIND = f"{MISSING}|not JSON|not UTF-8|a record must be a JSON object"


def other_kind(line: bytes, why: str, name: str) -> str | None:
    """Returns what a file is, by its first line and why a tool refuses it; None if it may be of the right kind."""
    if not re.match(OF_ANOTHER_KIND, why):
        return None
    text = line.strip()
    file = name if name != "stdin" else ""
    if command := next((command for magic, command in COMPRESSORS.items() if line.startswith(magic)), None):
        return COMPRESSED.format(command=command, file=file).replace("  ", " ")
    try:
        record = decode(text)
    except BadRecord:
        form = PRETTY if text == b"{" else ARRAY if text == b"[" or text.startswith(b"[{") else None
        form = form or (CSV if re.fullmatch(HEADER, text) else None)
        return form and form.format(file=file).replace("  ", " ")
    if isinstance(record, list):
        return ARRAY.format(file=file).replace("  ", " ") if record and isinstance(record[0], dict) else None
    return kind_of(record)


def kind_of(record: object) -> str | None:
    """Returns what a record is, and what reads it; None if that is not known."""
    if not isinstance(record, dict) or not isinstance(record.get("id"), str):
        return None
    if isinstance(record.get("trials"), list) and "k" in record:
        return TRIALS
    if isinstance(record.get("output"), str) and isinstance(record.get("trajectory"), list):
        return RESULTS  # with --keep-raw it has rawLines, too
    if isinstance(record.get("rawLines"), list):
        return RAW
    return PROMPTS if "input" in record and "output" not in record else None
