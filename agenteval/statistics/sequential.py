"""Tests that may be checked after every prompt, and a run that stops when the answer is known (--stop-when-known).

`BettingTest` is an always-valid test of a mean, by an e-process (Waudby-Smith and Ramdas 2023, betting on bounded
means). For each of several bets b, the product of 1 + b * (x - mean) over all values x has an expectation of at most 1
if the mean is right. The e-value is the average of these products; by Ville's inequality it ever reaches 20 with a
probability of at most 0.05, so the test may be checked after every value.

`EarlyStop` runs prompts in a random order, the same in every run, and feeds their values to the test in that order, not
in the order in which they finish, because failing agents often take longest. Once the answer is known, no further
prompt is started. Until then only a few prompts are started ahead of the slowest, because they may not be needed.
Against a baseline the answer may also be that the run is at most `margin` worse. `sequential_test` is the same test for
ae-compare.
"""

import hashlib
import math
import threading
from collections.abc import Iterable, Iterator, Sequence

from agenteval.statistics.intervals import LEVEL, interval
from agenteval.statistics.paired import PairedTest
from agenteval.statistics.power import Passes, Pilot
from agenteval.streams.rows import row_of
from agenteval.wire.records import Record
from agenteval.wire.row import Row

# The bets, as shares of the largest bet that keeps every factor above 0:
SHARES = (0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.65, 0.8, 0.95)
ALPHA = 0.05
LARGEST = 700.0  # exponent that a float can hold
FEWEST = 6  # prompts that a decision must rest on
BETTING = "betting"
STEPS = 20  # of bisection


class BettingTest:
    """Tests whether values between `low` and `high`, in random order, have a given mean.

    An `e_value` of 20 or more rejects the mean at the 5% level. Then `side` is 1 if the values are larger, -1 if they
    are smaller; until then it is 0.
    """

    def __init__(self, mean: float, low: float, high: float) -> None:
        self.mean = mean
        self.e_value, self.side = 1.0, 0
        self._bets = [share / (mean - low) for share in SHARES] + [-share / (high - mean) for share in SHARES]
        self._logs = [0.0] * len(self._bets)

    def add(self, value: float) -> None:
        """Takes one more value into account."""
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


def sequential_test(differences: Sequence[float], level: float = LEVEL) -> PairedTest:
    """The analysis of differences within -1 and 1, in the order in which they were tested.

    The interval contains all means that the test never rejected, so it holds whenever the run stopped.
    """
    if not differences:
        return PairedTest()
    centre = math.fsum(differences) / len(differences)
    ends = []
    for end in (-1.0, 1.0):
        inside, outside = centre, end
        for _ in range(0 if centre == end else STEPS):
            middle = (inside + outside) / 2
            rejected = largest_e_value(differences, middle, 1 / (1 - level)) >= 1 / (1 - level)
            inside, outside = (inside, middle) if rejected else (middle, outside)
        ends.append(outside)
    found = interval((ends[0], ends[1]), len(differences), BETTING, level)
    return PairedTest(centre, found, 1 / max(1.0, largest_e_value(differences, 0.0)))


def largest_e_value(differences: Iterable[float], mean: float, enough: float = math.inf) -> float:
    """The largest e-value against a mean once a run could have ended, or the first that is at least `enough`."""
    test, largest = BettingTest(mean, -1.0, 1.0), 0.0
    for count, value in enumerate(differences, 1):
        test.add(value)
        if count >= FEWEST and (largest := max(largest, test.e_value)) >= enough:
            break
    return largest


# --- early stopping -----------------------------------------------------------------------------


PATIENCE = 60.0  # seconds to wait for the slowest agent before more are started anyway


class EarlyStop:
    """Decides when to stop: compares with `baseline`, the passes of another run, else the pass rate with `threshold`.

    Against a baseline it also stops once the run is known to be at most `margin` worse, if there is a margin.
    """

    def __init__(
        self,
        name: str,
        baseline: Pilot | None = None,
        threshold: float = 0.5,
        ahead: int | None = None,
        margin: float | None = None,
    ) -> None:
        self.name, self.baseline, self.ahead, self.margin = name, baseline, ahead, margin
        self._changed = threading.Condition()
        self.test = BettingTest(threshold, 0.0, 1.0) if baseline is None else BettingTest(0.0, -1.0, 1.0)
        self.margin_test = None if baseline is None or margin is None else BettingTest(-margin, -1.0, 1.0)
        self.compared: list[tuple[Passes, Passes | None]] = []
        self._order: list[str] = []
        self._next = self._started = self._looked_at = 0
        self._earlier: set[str] = set()
        self._finished: dict[str, Passes | None] = {}
        self._to_run: list[Record] = []

    def plan(self, prompts: Iterable[Record], done: Pilot, done_ids: Iterable[str] = ()) -> int:
        """Reads all prompts, orders them and those of an earlier run at random, and returns how many are to run."""
        self._to_run = sorted(prompts, key=lambda prompt: place(prompt["id"]))
        waiting = {prompt["id"] for prompt in self._to_run}
        self._earlier = {id for id in done_ids if id not in waiting}
        self._finished = {id: done.get(id) for id in self._earlier}
        self._order = sorted({*waiting, *self._earlier}, key=place)
        self._look()
        return len(self._to_run)

    def prompts(self) -> Iterator[Record]:
        """Yields the prompts until the answer is known."""
        for prompt in self._to_run:
            with self._changed:
                self._changed.wait_for(self._may_start, PATIENCE)
            if self.known:
                return
            self._started += 1
            yield prompt

    def add(self, record: Record) -> None:
        """Adds the record of a prompt to the test, once all before it in the order have finished."""
        self._finish(record["id"], passes_of(record))

    def skip(self, id: str) -> None:
        """Continues without the record of a prompt that could not be run."""
        self._finish(id, None)

    def _finish(self, id: str, found: Passes | None) -> None:
        with self._changed:
            self._finished[id] = found
            self._look()
            self._changed.notify_all()

    def _may_start(self) -> bool:
        """Whether the answer is known, or few enough prompts are ahead of the first that is still running."""
        return self.ahead is None or self.known or self._started - self._looked_at < self.ahead

    def _look(self) -> None:
        while not self.known and self._next < len(self._order) and self._order[self._next] in self._finished:
            id = self._order[self._next]
            self._next += 1
            self._looked_at += id not in self._earlier
            self._compare(self._finished.pop(id), id)

    def _compare(self, found: Passes | None, id: str) -> None:
        other = self.baseline.get(id) if self.baseline is not None else None
        if found is None or (self.baseline is not None and other is None):
            return  # not graded in both runs
        self.compared.append((found, other))
        for test in (self.test, self.margin_test):
            if test is not None:
                test.add(found.rate - (other.rate if other else 0.0))

    @property
    def comparable(self) -> int:
        """The number of prompts that the test can use."""
        return len(self._order) if self.baseline is None else sum(id in self.baseline for id in self._order)

    @property
    def known(self) -> bool:
        """Whether a test has decided."""
        return len(self.compared) >= FEWEST and (self.test.side != 0 or self._within_margin)

    @property
    def worse(self) -> bool:
        """Whether the run is known to pass less often."""
        return self.known and self.test.side < 0

    @property
    def _within_margin(self) -> bool:
        return self.margin_test is not None and self.margin_test.side > 0

    @property
    def rule(self) -> Record:
        """What the run is tested against, for the metadata of its records."""
        if self.baseline is None:
            return {"threshold": self.test.mean}
        return {"against": self.name} | ({} if self.margin is None else {"margin": self.margin})

    def summary(self) -> str:
        """Returns what is known, from how many prompts, and how many were not run."""
        count = len(self.compared)
        rates = f"passes {rate([found for found, _ in self.compared])}"
        if self.baseline is None:
            against, claims = f"{self.test.mean:g}", {1: "above", -1: "below"}
        else:
            against, claims = self.name, {1: "better than", -1: "worse than"}
            if self.margin is not None:
                claims[0] = f"at most {self.margin * 100:g} points worse than"
            rates += f", {self.name} {rate([other for _, other in self.compared if other])}"
        evidence = f"on {count} prompts it {rates}" if count else "no prompt could be compared"
        if not self.known:
            return f"cannot tell whether it is {claims[1]} or {claims[-1]} {against}: {evidence}"
        saved = len(self._to_run) - self._started
        left = f"{saved} of {len(self._order)} prompts were not run"
        return f"known after {count} prompts: {claims[self.test.side]} {against} ({evidence}); {left}"


def place(id: str) -> bytes:
    """The place of a prompt in the random order, which is the same in every run."""
    return hashlib.sha256(id.encode()).digest()


def rate(passes: list[Passes]) -> str:
    """The mean pass rate as a percentage."""
    return f"{sum(found.rate for found in passes) / max(1, len(passes)):.1%}"


def passes_of(record: Record) -> Passes | None:
    """The passed and graded attempts of a result or trials; None if none is graded; raises BadRecord otherwise."""
    verdicts = row_of(record, Row, answered=False).verdicts
    return Passes(sum(verdicts), len(verdicts)) if verdicts else None
