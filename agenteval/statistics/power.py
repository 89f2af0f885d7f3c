"""Power: the smallest difference of two runs that n prompts show, or the number of prompts that show a given one.

`detectable` and `prompts_needed` serve ae-compare and ae-plan. They need the mean square of a prompt's difference
between the two runs: ae-compare has observed the differences, ae-plan takes them from two pilots, or computes it from
variances that are measured by pilots or assumed.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from agenteval.statistics.distributions import normal_quantile
from agenteval.statistics.intervals import LEVEL, Z, bounds, prompt_rate_interval, score_interval
from agenteval.statistics.samples import variance
from agenteval.wire.plan import Source

POWER = 0.8
TIE = 1e-9
FEWEST = 3
MOST = 1_000_000  # prompts; larger results are given as None
GUENTHER = Z * Z / 2  # prompts that a t test needs in addition to those by the normal distribution (Guenther 1981)
STEPS = 60  # of bisection
SHARE_BETWEEN = 0.5  # prompts differ in difficulty about as much as their trials differ by chance
CORRELATION = 0.8
TRIALS = (1, 2, 3, 5, 10)
ASSUMED: Source = "assumed"
MEASURED: Source = "measured"


# --- what n prompts show ------------------------------------------------------------------------


class Goal(NamedTuple):
    """The power and level of a test; `flip` is the size of all differences that are not 0.

    With `flip` it is McNemar's test of signs; if differences have several sizes, `flip` is 0 and it is the t test.
    """

    power: float = POWER
    level: float = LEVEL
    flip: float = 0.0

    def prompts(self, x: float, square: float) -> float:
        """The number of prompts that show a true difference x > 0, given the mean square of a prompt's difference."""
        critical = normal_quantile(0.5 + self.level / 2)
        reserve = normal_quantile(self.power) if self.power > 0.5 else 0.0
        needed = ((critical * math.sqrt(square) + reserve * math.sqrt(max(0.0, square - x * x))) / x) ** 2
        fewest = math.floor(math.log2(1 / (1 - self.level))) + 1  # flips that are significant if all have one sign
        return max(needed, fewest * self.flip / x) if self.flip else needed + GUENTHER


def prompts_needed(x: float, square: float, goal: Goal) -> int | None:
    """Returns how many prompts show a true difference x > 0; None if more than a million."""
    needed = goal.prompts(x, square)
    return None if needed > MOST else max(FEWEST, math.ceil(needed - TIE))


def detectable(prompts: float, square: Callable[[float], float], goal: Goal) -> float | None:
    """Returns the smallest difference that `prompts` show, given the mean square as a function of it; None if none."""
    if goal.prompts(1.0, square(1.0)) > prompts:
        return None
    low, high = 0.0, 1.0
    for _ in range(STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if goal.prompts(middle, square(middle)) > prompts else (low, middle)
    return high


# --- pilot runs ---------------------------------------------------------------------------------


class Passes(NamedTuple):
    """How many of a prompt's trials passed."""

    passed: int
    trials: int

    @property
    def rate(self) -> float:
        """The share that passed."""
        return self.passed / self.trials


Pilot = Mapping[str, Passes]
"""The graded prompts of a run, by id."""


def mean_rate(pilot: Pilot) -> float:
    """The mean of the prompts' pass rates."""
    return math.fsum(prompt.rate for prompt in pilot.values()) / len(pilot)


def variance_within(pilot: Pilot) -> float | None:
    """The mean variance between trials of one prompt, unbiased; None unless two prompts have two trials or more."""
    known = [prompt for prompt in pilot.values() if prompt.trials > 1]
    if len(known) < 2:
        return None
    return math.fsum(p.trials / (p.trials - 1) * p.rate * (1 - p.rate) for p in known) / len(known)


def variance_between(pilot: Pilot) -> float | None:
    """The variance of the prompts' true pass rates: that of the observed rates, less the noise of few trials."""
    within = variance_within(pilot)
    if within is None:
        return None
    noise = within * math.fsum(1 / prompt.trials for prompt in pilot.values()) / len(pilot)
    return max(0.0, variance([prompt.rate for prompt in pilot.values()]) - noise)


def share_between(pilots: Sequence[Pilot]) -> float | None:
    """The share of the variance that is between prompts; None unless a pilot has several trials that differ."""
    found = [(between, mean_rate(pilot)) for pilot in pilots if (between := variance_between(pilot)) is not None]
    spread = math.fsum(rate * (1 - rate) for _, rate in found)
    return min(1.0, math.fsum(between for between, _ in found) / spread) if spread > 0 else None


class SeenDifferences(NamedTuple):
    """How much two runs differ on the same prompts; smoothed by one more prompt that differs and one that does not."""

    squares: tuple[float, ...]
    mean_square: float
    mean: float
    flip: float  # size of a difference that is not 0
    k: float  # trials of a prompt in each run: the harmonic mean

    def square(self, x: float, scale: float = 1.0) -> float:
        """The mean square if the true difference is larger by x."""
        return scale * self.mean_square + self.flip * x


def seen_differences(differences: Sequence[float], k: float = 1.0) -> SeenDifferences:
    """Returns the squares of at least one difference, their mean, and the size of those that are not 0."""
    squares, n = tuple(d * d for d in differences), len(differences)
    total, sizes = math.fsum(squares), math.fsum(map(abs, differences))
    flip = total / sizes if sizes > TIE else 1.0
    return SeenDifferences(squares, (total + flip**2) / (n + 2), math.fsum(differences) / n, flip, k)


def pilot_differences(a: Pilot, b: Pilot) -> SeenDifferences | None:
    """Returns how much two pilots differ; None if they share fewer than two prompts."""
    shared = [id for id in a if id in b]
    if len(shared) < 2:
        return None
    noise = math.fsum(1 / a[id].trials + 1 / b[id].trials for id in shared) / (2 * len(shared))
    return seen_differences([a[id].rate - b[id].rate for id in shared], 1 / noise)


# --- planning -----------------------------------------------------------------------------------


class Question(NamedTuple):
    """The difference to show, and what to assume instead of measuring it; None means measured, or the default."""

    detect: float
    power: float
    rate: float | None = None
    share_between: float | None = None
    correlation: float | None = None


class Variances(NamedTuple):
    """The components of the variance of one prompt's difference, and their sources."""

    between: float
    within: float  # mean of the two runs
    difference: float
    correlation: float
    share_source: Source
    correlation_source: Source
    seen: SeenDifferences | None = None

    def square(self, k: int, x: float, scale: float = 1.0) -> float:
        """The mean square of one prompt's difference with k trials in each run, if the true difference is x.

        With as many trials as in the pilots, it is the observed one; `scale` multiplies what was measured.
        """
        if self.seen and abs(self.seen.k - k) < TIE:
            return self.seen.square(x, scale)
        return scale * (self.difference + 2 * self.within / k) + x * x


def variances(rate: float, question: Question, pilots: Sequence[Pilot]) -> Variances:
    """Returns the components of the variance: measured where the pilots allow it, else assumed."""
    other = other_rate(rate, question.detect)
    total = (rate * (1 - rate) + other * (1 - other)) / 2
    measured = share_between(pilots) if question.share_between is None else None
    assumed = SHARE_BETWEEN if question.share_between is None else question.share_between
    share, source = (assumed, ASSUMED) if measured is None else (measured, MEASURED)
    between, within = share * total, (1 - share) * total
    correlation = CORRELATION if question.correlation is None else question.correlation
    seen = pilot_differences(*pilots) if len(pilots) == 2 and question.correlation is None else None
    if seen is None:
        return Variances(between, within, 2 * between * (1 - correlation), correlation, source, ASSUMED)
    difference = max(0.0, seen.mean_square - seen.mean**2 - 2 * within / seen.k)
    correlation = max(-1.0, 1 - difference / (2 * between)) if between else 1.0
    return Variances(between, within, difference, correlation, source, source, seen)


def measured_range(rate: float, found: Variances, pilots: Sequence[Pilot]) -> tuple[float, float] | None:
    """Returns the factors by which the variance may be smaller and larger, by the pilots' 95% intervals; or None."""
    if found.seen:
        ends = bounds(score_interval(found.seen.squares))
        return ends and (ends[0] / found.seen.mean_square, ends[1] / found.seen.mean_square)
    if not pilots or not 0 < rate < 1:
        return None
    prompts = pilots[0].values()
    ends = bounds(prompt_rate_interval([p.passed for p in prompts], [p.trials for p in prompts]))
    if ends is None:
        return None
    low, high = ends
    spreads = [end * (1 - end) for end in ends]
    most = 0.25 if low < 0.5 < high else max(spreads)
    return min(spreads) / (rate * (1 - rate)), most / (rate * (1 - rate))


def other_rate(rate: float, detect: float) -> float:
    """The other run's pass rate: the one of the two possible that has the larger variance."""
    return min(max(0.0, min(other_rates(rate, detect), key=lambda other: abs(other - 0.5))), 1.0)


def other_rates(rate: float, detect: float) -> list[float]:
    """The pass rates that differ by that much."""
    return [other for other in (rate - detect, rate + detect) if -TIE <= other <= 1 + TIE]
