"""A run of trials: what a comparison keeps of each prompt, and the figures over all."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from heapq import nlargest
from itertools import islice
from typing import Annotated

import msgspec
from msgspec import Meta

from agenteval.comparison import statistics as stats
from agenteval.comparison.pass_at_k import pass_curves, seed_pass_at_k, seed_pass_exp_k
from agenteval.comparison.result_rows import timings
from agenteval.errors import BadRecord
from agenteval.wire.comparison import Performance
from agenteval.wire.records import Id, Rate, Wire
from agenteval.wire.result_view import Measured, measured_time
from agenteval.wire.trials_comparison import (
    Capability,
    Flakiness,
    FlakyPrompt,
    RunStatistics,
    TrialQuality,
    TrialReliability,
)

MOST_FLAKY = 10
NOISE = 1e-9  # 1-(1-p) is not p to the last digit, which makes no prompt flaky


# --- what a comparison reads of a prompt's trials -----------------------------------------------


class EntryFacts(Wire):
    """The fields of one trial that count here."""

    pass_: bool | None = msgspec.field(name="pass", default=None)
    score: Rate | None = None
    grader_error: bool = False
    errors: list[str] | None = None
    duration: float | None = None
    timing: Measured | None = None


class TrialFacts(Wire):
    """The fields of a trials record that count here; the rest of the line is skipped unread."""

    id: Id
    k: Annotated[int, Meta(ge=1)] | None = None
    trials: list[EntryFacts] | None = None
    pass_rate: Rate | None = None
    pass_at_k: Rate | None = None
    pass_exp_k: Rate | None = None


class TrialRow(msgspec.Struct, gc=False, frozen=True):
    """The trials of one prompt, boiled down: counts, how often it passes (None: not graded), scores and times."""

    line: int = 0
    k: int = 1
    trials: int = 0
    graded: int = 0
    passed: int = 0
    failed: int = 0
    failed_unscored: int = 0
    grader_errors: int = 0
    pass_rate: float | None = None
    pass_at_k: float | None = None
    pass_exp_k: float | None = None
    scores: tuple[float, ...] = ()
    durations: tuple[float, ...] = ()

    @property
    def flakiness(self) -> float | None:
        """How far once is from every time; None where it is not graded."""
        return flakiness_of(self.pass_at_k, self.pass_exp_k)


def flakiness_of(at: float | None, exp: float | None) -> float | None:
    """passAtK - passExpK, where both are known and it is more than noise."""
    if at is None or exp is None:
        return None
    return gap if (gap := at - exp) > NOISE else 0.0


def boil_down_trials(facts: TrialFacts, line: int = 0) -> TrialRow:
    """The row of a prompt; BadRecord where it is no record of trials."""
    if facts.k is None or facts.trials is None:
        raise BadRecord(f'"{"k" if facts.k is None else "trials"}" is missing: trials are expected here')
    entries = facts.trials
    graded, passed = _passes(facts, entries)
    rate = passed / graded if graded else None
    failures = [entry for entry in entries if entry.errors and not entry.grader_error]
    return TrialRow(
        line=line,
        k=facts.k,
        trials=len(entries),
        graded=graded,
        passed=passed,
        failed=len(failures),
        failed_unscored=sum(entry.score is None for entry in failures),
        grader_errors=sum(entry.grader_error for entry in entries),
        pass_rate=rate,
        pass_at_k=_known(rate, facts.pass_at_k, facts.k, seed_pass_at_k),
        pass_exp_k=_known(rate, facts.pass_exp_k, facts.k, seed_pass_exp_k),
        scores=tuple([entry.score for entry in entries if entry.score is not None and not entry.grader_error]),
        durations=tuple([float(took) for entry in entries if (took := _entry_duration(entry)) is not None]),
    )


def _passes(facts: TrialFacts, entries: Sequence[EntryFacts]) -> tuple[int, int]:
    """How many trials are graded and how many of them pass; where none of them says, what the record says."""
    verdicts = [entry.pass_ for entry in entries if not entry.grader_error]
    graded = [verdict for verdict in verdicts if verdict is not None]
    if graded:
        failed = sum(bool(entry.errors) and entry.pass_ is None and not entry.grader_error for entry in entries)
        return len(graded) + failed, sum(graded)
    if facts.pass_rate is not None:
        return len(verdicts), round(facts.pass_rate * len(verdicts))
    return 0, 0


def _known(rate: float | None, given: float | None, k: int, estimate: Callable[[float, int], float]) -> float | None:
    if rate is None or given is not None:
        return given
    return estimate(rate, k)


def _entry_duration(entry: EntryFacts) -> float | None:
    if entry.duration is None and entry.timing is not None:
        return entry.timing.duration
    return measured_time(entry.duration)


# --- one run ------------------------------------------------------------------------------------


def capability(rows: Collection[TrialRow]) -> Capability:
    """passAtK over the graded rows, and the unbiased means beside it."""
    known = [row.pass_at_k for row in rows if row.pass_at_k is not None]
    average, median, p25, p75 = _spread(known)
    means, counts = _curve_means(rows, 0)
    return Capability(
        n=len(known),
        ungraded=len(rows) - len(known),
        avg_pass_at_k=average,
        median_pass_at_k=median,
        p25_pass_at_k=p25,
        p75_pass_at_k=p75,
        pass_at=means,
        pass_at_n=counts,
    )


def trial_reliability(rows: Collection[TrialRow]) -> TrialReliability:
    """passExpK over the graded rows, and the unbiased means beside it."""
    known = [row.pass_exp_k for row in rows if row.pass_exp_k is not None]
    average, median, p25, p75 = _spread(known)
    means, counts = _curve_means(rows, 1)
    return TrialReliability(
        type="trial",
        n=len(known),
        ungraded=len(rows) - len(known),
        avg_pass_exp_k=average,
        median_pass_exp_k=median,
        p25_pass_exp_k=p25,
        p75_pass_exp_k=p75,
        pass_exp=means,
        pass_exp_n=counts,
    )


def _spread(values: Iterable[float]) -> tuple[float | None, float | None, float | None, float | None]:
    """Mean, median and quartiles; None of nothing."""
    ordered = sorted(values)
    median, p25, p75 = (stats.percentile(ordered, p) for p in (0.5, 0.25, 0.75))
    return stats.mean(ordered), median, p25, p75


def _curve_means(rows: Iterable[TrialRow], which: int) -> tuple[dict[str, float], dict[str, int]]:
    """For j = 1 to k: the mean of the unbiased pass@j (0) or pass^j (1), and over how many prompts."""
    alike = Counter((row.graded, row.passed, row.k) for row in rows if row.graded)
    sums: defaultdict[int, float] = defaultdict(float)
    counts: defaultdict[int, int] = defaultdict(int)
    for (graded, passed, k), prompts in alike.items():
        for j, estimates in enumerate(islice(pass_curves(graded, passed), k), 1):
            sums[j] += prompts * estimates[which]
            counts[j] += prompts
    return {str(j): sums[j] / counts[j] for j in sorted(sums)}, {str(j): counts[j] for j in sorted(counts)}


def flakiness(rows: dict[str, TrialRow]) -> Flakiness:
    """The gap between once and every time over the graded rows, and where it is widest."""
    known = [(gap, id, row.pass_rate) for id, row in rows.items() if (gap := row.flakiness) is not None]
    average, median, _, _ = _spread(gap for gap, _, _ in known)
    flaky = [prompt for prompt in known if prompt[0] > 0]
    return Flakiness(
        n=len(known),
        avg_flakiness=average,
        median_flakiness=median,
        flaky_prompt_count=len(flaky),
        top_flaky_prompts=[
            FlakyPrompt(id=id, flakiness=gap, pass_rate=rate)
            for gap, id, rate in nlargest(MOST_FLAKY, flaky, key=lambda prompt: prompt[0])
        ],
    )


def trial_quality(rows: Collection[TrialRow]) -> TrialQuality | None:
    """Scores over all trials that have one; None where none has."""
    scores = [score for row in rows for score in row.scores]
    average, median, p25, p75 = _spread(scores)
    if average is None or median is None or p25 is None or p75 is None:
        return None
    grader_errors = sum(row.grader_errors for row in rows)
    failed = sum(row.failed_unscored for row in rows)
    return TrialQuality(
        type="trial",
        n=len(scores),
        ungraded=sum(row.trials for row in rows) - len(scores) - grader_errors - failed,
        grader_errors=grader_errors,
        failed_trials=failed,
        avg_score=average,
        median_score=median,
        p25_score=p25,
        p75_score=p75,
    )


def trial_performance(rows: Iterable[TrialRow]) -> Performance:
    """Latencies over all trials that have one."""
    return timings([took for row in rows for took in row.durations])


def run_statistics(rows: Collection[TrialRow]) -> RunStatistics:
    """Counts, and the pass rate with its clustered interval."""
    graded = [row for row in rows if row.graded]
    trials, judged = sum(row.trials for row in rows), sum(row.graded for row in graded)
    grader_errors, passed = sum(row.grader_errors for row in rows), sum(row.passed for row in graded)
    return RunStatistics(
        prompts=len(rows),
        trials=trials,
        graded_prompts=len(graded),
        graded_trials=judged,
        passed_trials=passed,
        failed_trials=sum(row.failed for row in rows),
        ungraded_trials=trials - judged - grader_errors,
        grader_errors=grader_errors,
        incomplete=sum(row.trials != row.k for row in rows),
        pass_rate=passed / judged if judged else None,
        interval=stats.clustered_rate([(row.passed, row.graded) for row in graded]),
    )
