"""The cost of tokens by the price list of the package genai-prices, which needs no network: an estimate."""

from __future__ import annotations

from functools import cache
from typing import Any


def estimated_cost(model: str, input_tokens: float, output_tokens: float, cached_tokens: float = 0) -> float | None:
    """Returns US dollars at today's list prices; None without the package, or if it does not know the model."""
    if not _is_known(model):
        return None
    return _price(model, round(input_tokens), round(output_tokens), round(cached_tokens))


@cache
def _is_known(model: str) -> bool:
    return price_list() is not None and _price(model, 1, 1, 0) is not None


@cache
def price_list() -> Any:
    """Returns the module genai_prices, or None if it is not installed."""
    try:
        import genai_prices
    except ImportError:
        return None
    return genai_prices


def _price(model: str, input_tokens: int, output_tokens: int, cached_tokens: int) -> float | None:
    prices = price_list()
    usage = prices.Usage(
        input_tokens=input_tokens, output_tokens=output_tokens, cache_read_tokens=min(cached_tokens, input_tokens)
    )
    provider, _, name = model.rpartition("/")
    for provider_id in dict.fromkeys((provider or None, None)):  # openrouter/… and the like are not in the list
        try:
            return float(prices.calc_price(usage, model_ref=name, provider_id=provider_id).total_price)
        except (LookupError, ValueError):
            continue
    return None
