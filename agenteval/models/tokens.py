"""The number of tokens of a text for a model, without network access; only this module imports tiktoken.

tiktoken downloads a vocabulary at first use. The package bpe-openai has the two of current models as data files; they
are read without importing it (1.2 s). A vocabulary in the cache of tiktoken is used too.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import tempfile
import zlib
from binascii import a2b_base64
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from tiktoken import Encoding

OFFLINE = "offline"
NEWEST = "o200k_base"
ADDRESS = "https://openaipublic.blob.core.windows.net/encodings/{}.tiktoken"
GUNZIP = 31
LONGEST_GAP = 100_000
OLD_WORDS = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
ENDING = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"

_loading = Lock()


class Count(NamedTuple):
    """The number of tokens of a text, and whether it is an estimate."""

    tokens: int
    approximate: bool


class Vocabulary(NamedTuple):
    """The digest of a vocabulary file, and the pattern that splits text into words before merging."""

    sha256: str
    words: str


VOCABULARIES = {
    "o200k_base": Vocabulary(
        "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
        rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}*{LOWER}+{ENDING}|[^\r\n\p{{L}}\p{{N}}]?{UPPER}+{LOWER}*{ENDING}"
        r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    ),
    "cl100k_base": Vocabulary(
        "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+"
        r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    ),
    "p50k_base": Vocabulary("94b5ca7dff4d00767bc256fdd1b27e5b17361d7b8a5f968547f9f23eb70d2069", OLD_WORDS),
    "r50k_base": Vocabulary("306cd27f03c1a714eca7108e03d66b7dc042abe8c258b44c199a7ed9838dd930", OLD_WORDS),
}
# These differ in special tokens only, which do not occur in text: what looks like one is counted as text.
SAME_TEXT = {"o200k_harmony": "o200k_base", "p50k_edit": "p50k_base", "gpt2": "r50k_base"}


def count_tokens(text: str, model: str) -> Count:
    """Counts the tokens of a text for a model; approximate if its vocabulary is unknown or not on this machine."""
    name, known = encoding_of(model)
    encoding = _encoding(name)
    if encoding is None:
        encoding, known = _encoding(NEWEST), False
    if encoding is None:
        return Count(estimate(text), approximate=True)
    parts = [len(encoding.encode_ordinary(part)) for part in _split_long_gaps(text)]
    return Count(sum(parts), approximate=not known or len(parts) > 1)


@lru_cache
def encoding_of(model: str) -> tuple[str, bool]:
    """Returns the encoding of a model, and whether it is known or a guess; knows `openai/gpt-5` and `ft:gpt-4o:me`."""
    if model == OFFLINE:
        return NEWEST, True
    try:
        from tiktoken.model import encoding_name_for_model
    except ImportError:
        return NEWEST, False
    plain = model.rpartition("/")[2].removeprefix("ft:")
    for name in (plain, plain.replace(":", "-"), model):
        try:
            return encoding_name_for_model(name), True
        except KeyError:
            continue
    return NEWEST, False


def estimate(text: str) -> int:
    """Estimates the tokens of a text by its length: four characters per token in English, fewer in other scripts."""
    other = len(re.findall(r"[^\x00-\x7f]", text))
    return -(-(len(text) - other + 3 * other) // 4)


def _split_long_gaps(text: str) -> Iterator[str]:
    """Splits the text inside whitespace so long that tiktoken's pattern would overflow the stack and crash."""
    start = 0
    for gap in re.finditer(r"\s+", text) if len(text) > LONGEST_GAP else ():
        for cut in range(gap.start() + LONGEST_GAP, gap.end(), LONGEST_GAP):
            yield text[start:cut]
            start = cut
    yield text[start:]


# --- vocabularies -------------------------------------------------------------------------------


def _encoding(name: str) -> Encoding | None:
    """Returns the encoding, loaded once (0.4 s) for all threads; None if it cannot be loaded."""
    with _loading:
        return _load(name)


@lru_cache
def _load(name: str) -> Encoding | None:
    """Builds the encoding from a vocabulary on this machine; None without one, or without tiktoken."""
    vocabulary = SAME_TEXT.get(name, name)
    data = vocabulary_file(vocabulary)
    if data is None:
        return None
    try:
        from tiktoken import Encoding
    except ImportError:
        return None
    words = VOCABULARIES[vocabulary].words
    return Encoding(name, pat_str=words, mergeable_ranks=ranks(data), special_tokens={})


def vocabulary_file(name: str) -> bytes | None:
    """Returns the bytes of a vocabulary on this machine whose digest is right, or None."""
    wanted = VOCABULARIES.get(name)
    for path in _paths(name) if wanted else ():
        try:
            data = path.read_bytes()
            data = zlib.decompress(data, GUNZIP) if path.suffix == ".gz" else data
        except (OSError, zlib.error):
            continue
        if wanted and hashlib.sha256(data).hexdigest() == wanted.sha256:
            return data
    return None


def ranks(data: bytes) -> dict[bytes, int]:
    """Parses a vocabulary file (on each line a token in base64 and its rank) into token → rank."""
    parts = data.split()
    tokens = map(a2b_base64, parts[::2])
    count = len(parts) // 2
    if int(parts[-1]) == count - 1:  # without gaps, counting is twice as fast as parsing 200 000 numbers
        return dict(zip(tokens, range(count), strict=True))
    return dict(zip(tokens, map(int, parts[1::2]), strict=True))


def _paths(name: str) -> Iterator[Path]:
    """Yields the paths where a vocabulary may be: in the data of bpe-openai, or in the cache of tiktoken."""
    package = importlib.util.find_spec("bpe_openai")
    for folder in (package.submodule_search_locations if package else None) or ():
        yield Path(folder, "data", f"{name}.tiktoken.gz")
    default = os.path.join(tempfile.gettempdir(), "data-gym-cache")
    cache = os.environ.get("TIKTOKEN_CACHE_DIR", os.environ.get("DATA_GYM_CACHE_DIR", default))
    if cache:
        yield Path(cache, hashlib.sha1(ADDRESS.format(name).encode()).hexdigest())
