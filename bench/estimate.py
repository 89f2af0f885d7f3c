"""A ratio over interleaved rounds, how much of it is noise, and whether it meets a goal."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Literal, NamedTuple

Verdict = Literal["yes", "NO", "noise"]
FEWEST = 3  # rounds that show how far they differ
# Two standard errors of a median: 1.4826 MAD is a standard deviation, a median varies 1.2533 times as much as a mean.
TWO_ERRORS = 2 * 1.4826 * 1.2533


class Estimate(NamedTuple):
    """Of the rounds' ratios the median, smallest and largest; `best` is that of the smallest values.

    `noise` is how far the median may be off, in the same unit: two standard errors, by the median absolute deviation.
    """

    middle: float
    best: float
    low: float
    high: float
    noise: float

    def inverse(self) -> Estimate:
        """Returns the estimate of how many times as much the others are."""
        noise = self.noise / self.middle**2
        return Estimate(1 / self.middle, 1 / self.best, 1 / self.high, 1 / self.low, noise)


def estimate(ours: Sequence[float], theirs: Sequence[float]) -> Estimate:
    """Divides our values by theirs, round by round; fewer than three rounds say nothing about the noise."""
    rounds = [a / b for a, b in zip(ours, theirs, strict=True)]
    middle = statistics.median(rounds)
    deviation = statistics.median(abs(one - middle) for one in rounds)
    noise = TWO_ERRORS * deviation / math.sqrt(len(rounds)) if len(rounds) >= FEWEST else math.inf
    return Estimate(middle, min(ours) / min(theirs), min(rounds), max(rounds), noise)


def at_most(found: Estimate, goal: float) -> Verdict:
    """Returns whether a goal is met by the median; a miss counts if median and minimum miss it by more than the noise.

    Other load makes some rounds slower, never faster: so the ratio of the shortest times is the second opinion.
    """
    if found.middle <= goal:
        return "yes"
    return "NO" if min(found.middle, found.best) > goal + found.noise else "noise"


def at_least(found: Estimate, goal: float) -> Verdict:
    """Returns the same for a ratio that should be large."""
    if found.middle >= goal:
        return "yes"
    return "NO" if max(found.middle, found.best) < goal - found.noise else "noise"


def either(*verdicts: Verdict) -> Verdict:
    """Returns whether one of several goals is met."""
    return "yes" if "yes" in verdicts else "noise" if "noise" in verdicts else "NO"


def met(holds: bool) -> Verdict:
    """Returns the verdict on what does not vary from round to round."""
    return "yes" if holds else "NO"
