"""The cost of tokens by the price list of the package genai-prices, which needs no network: an estimate."""

from functools import cache
from typing import Any


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
