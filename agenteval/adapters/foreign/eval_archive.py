"""Archives of inspect_ai (.eval): a zip file with a header and a JSON document for each sample."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from typing import Any

from agenteval.errors import BadRecord, MissingExtra, UserError
from agenteval.streams.jsonl import decode
from agenteval.streams.source import Refusals
from agenteval.streams.text import one_line
from agenteval.wire.records import Record

HEADERS = ("header.json", "_journal/start.json")  # the second is all that a run which did not end has
SAMPLES = "samples/"
BEGINNING = b"PK\x03\x04"
ENCRYPTED = 1
LARGEST_SAMPLE = 1 << 30


def is_archive(path: str) -> bool:
    """Returns whether the file is a zip file; UserError if it is only the beginning of one."""
    if path == "-" or zipfile.is_zipfile(path):
        return path != "-"
    with open(path, "rb") as file:
        if file.read(len(BEGINNING)) == BEGINNING:
            raise UserError(f"{path}: the archive is broken or not whole")
    return False


def read_archive(path: str, refusals: Refusals) -> Iterator[tuple[Record, Record]]:
    """Yields the header with each sample; a sample that cannot be read is refused."""
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
        header = next((name for name in HEADERS if name in names), None)
        if header is None:
            raise UserError(f"{path}: not a log of inspect_ai: header.json is missing")
        facts = _member(archive, header)
        for name in names:
            if name.startswith(SAMPLES) and name.endswith(".json"):
                try:
                    sample = _member(archive, name)
                except MissingExtra:
                    raise
                except Exception as error:  # zipfile has many: damaged, encrypted, of an unknown method
                    refusals.refuse(f"{path}: {name}", one_line(str(error) or type(error).__name__, 200))
                else:
                    yield facts, sample


def _member(archive: zipfile.ZipFile, name: str) -> Record:
    info = archive.getinfo(name)
    if info.flag_bits & ENCRYPTED:
        raise BadRecord("encrypted")
    if info.file_size > LARGEST_SAMPLE:
        raise BadRecord(f"larger than {LARGEST_SAMPLE >> 20} MiB")
    try:
        data = archive.read(info)
    except NotImplementedError:
        data = _zstandard(archive, info)
    value: Any = decode(data)
    if not isinstance(value, dict):
        raise BadRecord("not a JSON object")
    return value


def _zstandard(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    """Returns a member that Zstandard has compressed, which Python's own zipfile reads from 3.14 on only."""
    try:
        import zstandard
    except ImportError:
        raise MissingExtra("needs the package zstandard to read a log of inspect_ai", "inspect") from None
    file = archive.fp
    assert file is not None
    file.seek(info.header_offset + 26)
    lengths = file.read(4)
    file.seek(int.from_bytes(lengths[:2], "little") + int.from_bytes(lengths[2:], "little"), 1)
    try:
        # Not decompress(): it takes the size that the data itself claims, whatever that is.
        reader = zstandard.ZstdDecompressor().stream_reader(file.read(info.compress_size))
        found: bytes = reader.read(info.file_size)
    except zstandard.ZstdError as error:
        raise BadRecord(f"cannot be unpacked: {error}") from None
    return found
