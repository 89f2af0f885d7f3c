"""Trials in a comparison: what is kept of each prompt, and the figures of a run."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from heapq import nlargest
from itertools import islice
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from agenteval.comparison.analysis.differences import cluster_name
from agenteval.comparison.pairing import ComparedRow, RunRows
from agenteval.comparison.row_facts import RowOptions, expense, input_digest, metadata_text
from agenteval.errors import BadRecord
from agenteval.statistics import samples as stats
from agenteval.statistics.intervals import bounds, cluster_sums, clustered_rate_interval, mean_interval
from agenteval.statistics.samples import pass_at, pass_curves, pass_exp, plug_in_pass_at_k, plug_in_pass_exp_k
from agenteval.wire.interval import ConfidenceInterval
from agenteval.wire.records import GraderErrorText, Id, Input, Rate, Wire
from agenteval.wire.result_view import Measured, Number, measured_time
from agenteval.wire.trials_comparison import (
    Capability,
    CapabilityIntervals,
    Flakiness,
    FlakyPrompt,
    ReliabilityIntervals,
    RunStatistics,
    ScoreIntervals,
    TrialQuality,
    TrialReliability,
)

MOST_FLAKY = 10
MOST_TRIALS = 1_000_000  # of a prompt
STEPS = (1, 2, 3, 4, 5, 10, 20, 50, 100, 200, 500)  # numbers of trials that get an interval, besides k
NOISE = 1e-9  # rounding: 1-(1-p) is not p to the last digit, and that does not make a prompt flaky


# --- what a comparison reads of a prompt's trials -----------------------------------------------


class ComparedTrial(Wire):
    """The fields of one trial that a comparison reads."""

    pass_: bool | None = msgspec.field(name="pass", default=None)
    score: Rate | None = None
    grader_error: GraderErrorText = None
    errors: list[str] | None = None
    graded_failed: bool | None = None
    duration: Number | None = None
    timing: Measured | None = None

    @property
    def milliseconds(self) -> float | None:
        """How long it took; None if that is not known."""
        given = self.timing.duration if self.duration is None and self.timing else self.duration
        return measured_time(given)

    @property
    def clock_set_back(self) -> bool:
        """Whether the measured duration is negative; it counts as unknown."""
        return self.duration < 0 if self.duration is not None else bool(self.timing and self.timing.clock_set_back)

    @property
    def agent_failed(self) -> bool:
        """Whether the agent failed and its answer does not count as graded (see ae-trials --grade-failed)."""
        return bool(self.errors) and not self.graded_failed

    @property
    def has_verdict(self) -> bool:
        """Whether it passed or not is known: an agent that failed has not passed."""
        return self.agent_failed or self.pass_ is not None

    @property
    def has_grader_error(self) -> bool:
        """Whether it has no verdict because the grader erred."""
        return bool(self.grader_error) and not self.agent_failed


class ComparedTrials(Wire):
    """The fields of a prompt's trials that a comparison reads."""

    id: Id
    input: Input | None = None
    model: Any = None
    metadata: dict[str, Any] | None = None
    k: Annotated[int, Meta(ge=1, le=MOST_TRIALS)] | None = None
    trials: list[ComparedTrial] | None = None
    pass_rate: Rate | None = None
    pass_at_k: Rate | None = None
    pass_exp_k: Rate | None = None


class TrialRow(ComparedRow, frozen=True, gc=False):
    """What is kept of the trials of one prompt: counts, pass rates (None: not graded), scores and times."""

    k: int = 1
    trials: int = 0
    graded: int = 0
    passed: int = 0
    failed: int = 0
    grader_errors: int = 0
    pass_rate: float | None = None
    pass_at_k: float | None = None
    pass_exp_k: float | None = None
    scores: tuple[float, ...] = ()
    durations: tuple[float, ...] = ()
    token_values: tuple[float, ...] = ()
    cost_values: tuple[float, ...] = ()

    @property
    def mean_score(self) -> float | None:
        """The mean over the trials that have a score."""
        return stats.mean(self.scores)

    @property
    def mean_duration(self) -> float | None:
        """The mean over the trials whose duration is known."""
        return stats.mean(self.durations)

    @property
    def tokens(self) -> float | None:
        """The mean over the trials whose tokens are known."""
        return stats.mean(self.token_values)

    @property
    def cost(self) -> float | None:
        """The mean over the trials whose cost is known."""
        return stats.mean(self.cost_values)

    @property
    def flakiness(self) -> float | None:
        """passAtK - passExpK, 0 if that is only noise; None if it is not graded."""
        if self.pass_at_k is None or self.pass_exp_k is None:
            return None
        return gap if (gap := self.pass_at_k - self.pass_exp_k) > NOISE else 0.0

    def at_k(self, k: int) -> TrialRow:
        """The row with the rates for k trials."""
        if self.k == k:
            return self
        rate = self.pass_rate
        at, exp = (None, None) if rate is None else (plug_in_pass_at_k(rate, k), plug_in_pass_exp_k(rate, k))
        return msgspec.structs.replace(self, k=k, pass_at_k=at, pass_exp_k=exp)


def trial_row(record: ComparedTrials, line: int = 0, options: RowOptions = RowOptions()) -> TrialRow:  # noqa: B008
    """What is kept of a prompt's trials; BadRecord if it is not a record of trials."""
    k, trials = record.k, record.trials
    if k is None or trials is None:
        raise BadRecord(f'"{"k" if k is None else "trials"}" is missing: trials are expected here')
    graded, passed = _passes(record, trials)
    rate = passed / graded if graded else None
    overruled = any(trial.agent_failed and trial.pass_ for trial in trials)  # then the record's rates are wrong, too
    at, exp = (None, None) if overruled else (record.pass_at_k, record.pass_exp_k)
    notes = record.metadata or {}
    spent = [expense(trial.timing, record.model or notes.get("model")) for trial in trials]
    return TrialRow(
        line=line,
        input_digest=input_digest(record.input),
        category=metadata_text(notes, options.by),
        cluster=metadata_text(notes, options.cluster_by),
        cost_estimated=any(found.estimated for found in spent),
        token_values=tuple([found.tokens for found in spent if found.tokens is not None]),
        cost_values=tuple([found.cost for found in spent if found.cost is not None]),
        k=k,
        trials=len(trials),
        graded=graded,
        passed=passed,
        failed=sum(trial.agent_failed for trial in trials),
        grader_errors=sum(trial.has_grader_error for trial in trials),
        pass_rate=rate,
        pass_at_k=plug_in_pass_at_k(rate, k) if rate is not None and at is None else at,
        pass_exp_k=plug_in_pass_exp_k(rate, k) if rate is not None and exp is None else exp,
        scores=_scores(trials) if graded else (),
        clock_set_back=any(trial.clock_set_back for trial in trials),
        durations=tuple([float(took) for trial in trials if (took := trial.milliseconds) is not None]),
    )


def with_failures_graded(rows: dict[str, TrialRow]) -> dict[str, TrialRow]:
    """The rows of a run; if any is graded, a prompt whose trials all failed has not passed, with score 0."""
    if not any(row.graded for row in rows.values()):
        return rows
    scored = any(row.scores for row in rows.values())
    zero = {"pass_rate": 0.0, "pass_at_k": 0.0, "pass_exp_k": 0.0}
    return {
        id: msgspec.structs.replace(row, graded=row.failed, scores=(0.0,) * row.failed if scored else (), **zero)
        if row.failed and not row.graded
        else row
        for id, row in rows.items()
    }


def _scores(trials: Sequence[ComparedTrial]) -> tuple[float, ...]:
    """The scores of the trials that have one; that of an agent that failed is 0."""
    known = [0.0 if trial.agent_failed else None if trial.grader_error else trial.score for trial in trials]
    scored = any(trial.score is not None for trial in trials)
    return tuple([score for score in known if score is not None]) if scored else ()


def _passes(record: ComparedTrials, trials: Sequence[ComparedTrial]) -> tuple[int, int]:
    """How many trials are graded and how many of them pass; by the record's passRate if no trial has a verdict."""
    known = [trial for trial in trials if not trial.has_grader_error]
    if any(trial.pass_ is not None for trial in known):
        graded = [bool(trial.pass_) and not trial.agent_failed for trial in known if trial.has_verdict]
        return len(graded), sum(graded)
    if record.pass_rate is not None:
        return len(known), round(record.pass_rate * len(known))
    return 0, 0


# --- the figures of a run -----------------------------------------------------------------------


def capability(run: RunRows[TrialRow], *, clustered: bool = False) -> Capability:
    """The chance to pass at least once in k trials."""
    rates = _rates(run, "at", clustered)
    shown = bounds(rates["pass_at_intervals"].get(str(run_k(run))))
    return Capability(**rates, confidence_intervals=CapabilityIntervals(avg_pass_at_k=shown))


def trial_reliability(run: RunRows[TrialRow], *, clustered: bool = False) -> TrialReliability:
    """The chance to pass in all of k trials."""
    rates = _rates(run, "exp", clustered)
    shown = bounds(rates["pass_exp_intervals"].get(str(run_k(run))))
    return TrialReliability(type="trial", **rates, confidence_intervals=ReliabilityIntervals(avg_pass_exp_k=shown))


def run_k(run: RunRows[TrialRow]) -> int:
    """The number of trials that most prompts of a run have; 1 if it has no prompts."""
    ks = Counter(row.k for row in run.rows.values())
    return max(ks, key=lambda k: (ks[k], k), default=1)


def _rates(run: RunRows[TrialRow], which: Literal["at", "exp"], clustered: bool) -> dict[str, Any]:
    known = run.values(f"pass_{which}_k")
    means, counts = _curve_means(run.rows.values(), which)
    shown = [j for j in (*STEPS, run_k(run)) if str(j) in means]
    intervals = {str(j): found for j in sorted(set(shown)) if (found := _curve_interval(run, which, j, clustered))}
    curves = {f"pass_{which}": means, f"pass_{which}_n": counts, f"pass_{which}_intervals": intervals}
    return {"n": len(known), "ungraded": len(run.rows) - len(known), **curves, **_spread(f"pass_{which}_k", known)}


def _curve_interval(
    run: RunRows[TrialRow], which: Literal["at", "exp"], j: int, clustered: bool
) -> ConfidenceInterval | None:
    """The interval of the mean of the unbiased estimates for j trials, over the prompts that have so many."""
    estimate = pass_at if which == "at" else pass_exp
    rows = [(id, row) for id, row in run.rows.items() if row.graded >= j <= row.k]
    alike = {pair: estimate(*pair, j) or 0.0 for pair in {(row.graded, row.passed) for _, row in rows}}
    values = [alike[row.graded, row.passed] for _, row in rows]
    names = [cluster_name(id, row) for id, row in rows] if clustered else range(len(rows))
    return clustered_rate_interval(*cluster_sums(values, names))


def _spread(of: str, values: Iterable[float]) -> dict[str, Any]:
    """The fields that hold mean, median and quartiles of the values; `of` is the end of their names."""
    ordered = sorted(values)
    quantiles = {"median": 0.5, "p25": 0.25, "p75": 0.75}
    spread = {f"{name}_{of}": stats.percentile(ordered, p) for name, p in quantiles.items()}
    return {f"avg_{of}": stats.mean(ordered), **spread}


def _curve_means(rows: Iterable[TrialRow], which: Literal["at", "exp"]) -> tuple[dict[str, float], dict[str, int]]:
    """For j = 1 to k: the mean of the unbiased pass@j or pass^j, and over how many prompts."""
    alike = Counter((row.graded, row.passed, row.k) for row in rows if row.graded)
    sums: defaultdict[int, float] = defaultdict(float)
    counts: defaultdict[int, int] = defaultdict(int)
    for (graded, passed, k), prompts in alike.items():
        for j, estimates in enumerate(islice(pass_curves(graded, passed), k), 1):
            sums[j] += prompts * estimates[which == "exp"]
            counts[j] += prompts
    return {str(j): sums[j] / counts[j] for j in sorted(sums)}, {str(j): counts[j] for j in sorted(counts)}


def flakiness(run: RunRows[TrialRow]) -> Flakiness:
    """passAtK - passExpK of the graded prompts, and the prompts where it is largest."""
    gaps = sorted(run.values("flakiness"))
    flaky = [(gap, id, row.pass_rate) for id, row in run.rows.items() if (gap := row.flakiness)]
    most = nlargest(MOST_FLAKY, flaky, key=lambda prompt: prompt[0])
    return Flakiness(
        n=len(gaps),
        avg_flakiness=stats.mean(gaps),
        median_flakiness=stats.percentile(gaps, 0.5),
        flaky_prompt_count=len(flaky),
        top_flaky_prompts=[FlakyPrompt(id=id, flakiness=gap, pass_rate=rate) for gap, id, rate in most],
    )


def trial_quality(run: RunRows[TrialRow], *, clustered: bool = False) -> TrialQuality | None:
    """Scores of all trials that have one, with the interval of their mean; None if none has."""
    rows = run.rows.values()
    scores = [score for row in rows for score in row.scores]
    if not scores:
        return None
    # The trials of a prompt are a cluster.
    names = [cluster_name(id, row) if clustered else id for id, row in run.rows.items() for _ in row.scores]
    interval = mean_interval(scores, names)
    grader_errors = sum(row.grader_errors for row in rows)
    failed = sum(row.failed for row in rows)
    return TrialQuality(
        type="trial",
        n=len(scores),
        ungraded=sum(row.trials for row in rows) - len(scores) - grader_errors,
        grader_errors=grader_errors,
        failed_trials=failed,
        confidence_intervals=ScoreIntervals(avg_score=bounds(interval)),
        score_interval=interval,
        **_spread("score", scores),
    )


def run_statistics(run: RunRows[TrialRow], *, clustered: bool = False) -> RunStatistics:
    """Counts, and the pass rate with its clustered interval."""
    rows, graded = run.rows.values(), [row for row in run.rows.values() if row.graded]
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
        interval=trials_interval(run, clustered=clustered),
    )


def trials_interval(run: RunRows[TrialRow], *, clustered: bool = False) -> ConfidenceInterval | None:
    """The interval of the share of graded trials that pass; the trials of a prompt are a cluster, or part of one."""
    sums: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    for id, row in run.rows.items():
        if row.graded:
            name = cluster_name(id, row) if clustered else id
            sums[name] += row.passed
            counts[name] += row.graded
    return clustered_rate_interval(list(sums.values()), list(counts.values()))
