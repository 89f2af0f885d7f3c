"""The number of tokens of a text for a model and what they cost, both without network access.

tiktoken downloads a vocabulary at first use. The package bpe-openai has the two of current models as data files, which
are read here; for any other model the count is an approximation. A cost is an estimate by the price list of the package
genai-prices.
"""

from __future__ import annotations

import gzip
import importlib.util
import os
import re
from base64 import b64decode
from functools import cache, lru_cache
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from tiktoken import Encoding

OFFLINE = "offline"
NEWEST = "o200k_base"
ENDING = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
# The patterns that split a text into words before tokens are merged.
WORDS = {
    "o200k_base": rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}*{LOWER}+{ENDING}|[^\r\n\p{{L}}\p{{N}}]?{UPPER}+{LOWER}*{ENDING}"
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    "cl100k_base": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+"
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
}
SAME_TEXT = {"o200k_harmony": "o200k_base"}  # they differ only in special tokens, which are counted as text
LONG_GAP = re.compile(r"(\s{100000})\s+")  # longer gaps overflow tiktoken's stack and end the process

_loading = Lock()


class Count(NamedTuple):
    """The number of tokens of a text, and whether it is an approximation."""

    tokens: int
    approximate: bool


def count_tokens(text: str, model: str) -> Count:
    """Counts the tokens of a text for a model; approximate if its vocabulary is not known."""
    name = encoding_of(model)
    with _loading:
        encoding = _load(name or NEWEST)
    if encoding is None:
        return Count(estimate(text), approximate=True)
    shortened = LONG_GAP.sub(r"\1", text)
    return Count(len(encoding.encode_ordinary(shortened)), approximate=name is None or shortened != text)


@lru_cache
def encoding_of(model: str) -> str | None:
    """Returns the encoding of a model if we have its vocabulary; knows `openai/gpt-5` and `ft:gpt-4o:me`, too."""
    from tiktoken.model import encoding_name_for_model

    if model == OFFLINE:
        return NEWEST
    plain = model.rpartition("/")[2].removeprefix("ft:")
    for known in (plain, plain.replace(":", "-"), model):
        try:
            name = encoding_name_for_model(known)
        except KeyError:
            continue
        name = SAME_TEXT.get(name, name)
        return name if name in WORDS else None
    return None


@lru_cache
def _load(name: str) -> Encoding | None:
    """Returns the encoding (each line of its file is a token in base64 and its rank); None without bpe-openai."""
    from tiktoken import Encoding

    package = importlib.util.find_spec("bpe_openai")  # only for its folder: importing it takes a second
    if package is None or package.origin is None:
        return None
    path = os.path.join(os.path.dirname(package.origin), "data", f"{name}.tiktoken.gz")
    with gzip.open(path) as file:
        parts = file.read().split()
    ranks = dict(zip(map(b64decode, parts[::2]), map(int, parts[1::2]), strict=True))
    return Encoding(name, pat_str=WORDS[name], mergeable_ranks=ranks, special_tokens={})


def estimate(text: str) -> int:
    """Estimates the tokens of a text by its length: four characters per token in English, fewer in other scripts."""
    other = len(re.findall(r"[^\x00-\x7f]", text))
    return -(-(len(text) - other + 3 * other) // 4)


# --- prices -----------------------------------------------------------------------------------------


def estimated_cost(model: str, input_tokens: float, output_tokens: float, cached_tokens: float = 0) -> float | None:
    """Returns US dollars at today's list prices; None without the package, or if it does not know the model."""
    prices = _price_list()
    if prices is None:
        return None
    given, taken, cached = round(input_tokens), round(output_tokens), round(min(cached_tokens, input_tokens))
    usage = prices.Usage(input_tokens=given, output_tokens=taken, cache_read_tokens=cached)
    provider, _, name = model.rpartition("/")
    for provider_id in dict.fromkeys((provider or None, None)):  # openrouter/… and the like are not in the list
        try:
            return float(prices.calc_price(usage, model_ref=name, provider_id=provider_id).total_price)
        except (LookupError, ValueError):
            continue
    return None


@cache
def _price_list() -> Any:
    """Returns the module genai_prices, or None if it is not installed."""
    try:
        import genai_prices
    except ImportError:
        return None
    return genai_prices
