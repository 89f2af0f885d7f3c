"""An always-valid test of a mean: a gambler bets against it, and who gets rich has shown that it is wrong.

With the bet b, the capital after values x is the product of 1 + b * (x - mean). If the mean is right, no bet makes
money on average, so the capital reaches 20 times its start with a chance of at most 1 in 20, at any time (Ville's
inequality). The capital is spread over bets of both signs (Waudby-Smith and Ramdas 2023, betting on bounded means).
"""

from __future__ import annotations

import math

SHARES = (0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.65, 0.8, 0.95)  # of the largest bet that cannot lose all
ALPHA = 0.05
LARGEST = 700.0  # exponent that a float can hold


class BettingTest:
    """Tests whether values between `low` and `high`, in random order, have a given mean.

    `e_value` is how many times its start the capital is now; 20 or more refutes the mean at 5 %. Then `side` is 1 if
    values are larger, -1 if they are smaller; else it is 0.
    """

    def __init__(self, mean: float, low: float, high: float) -> None:
        self.mean = mean
        self.e_value, self.side = 1.0, 0
        self._bets = [share / (mean - low) for share in SHARES] + [-share / (high - mean) for share in SHARES]
        self._logs = [0.0] * len(self._bets)

    def add(self, value: float) -> None:
        """Bets on one more value."""
        gain = value - self.mean
        if gain:
            self._logs = [log + math.log1p(bet * gain) for log, bet in zip(self._logs, self._bets, strict=True)]
            self._look()

    def _look(self) -> None:
        largest = max(self._logs)
        total = math.fsum(math.exp(log - largest) for log in self._logs) / len(self._logs)
        self.e_value = math.exp(min(LARGEST, largest + math.log(total)))
        above = max(self._logs[: len(SHARES)]) > max(self._logs[len(SHARES) :])
        self.side = 0 if self.e_value < 1 / ALPHA else 1 if above else -1
