"""The figures of a run and of two runs: how each is computed, and its declaration for the reports.

A figure is a field of a report (wire/comparison.py) that a function here computes. `RunFigure` declares where it is,
what it is called, its unit and its interval; tables, markdown and pages show what the tuples of declarations name. So a
new statistic is a field on the wire, and here its computation and its declaration.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from heapq import nlargest
from operator import ne
from typing import Any, Literal, NamedTuple

from agenteval.comparison.row_table import RowFigures
from agenteval.comparison.rows import RunRows
from agenteval.statistics.intervals import (
    bootstrap_mean_interval,
    bounds,
    cluster_sums,
    clustered_rate_interval,
    percentile_interval,
    prompt_rate_interval,
    ratio_interval,
    score_interval,
)
from agenteval.statistics.samples import MOST_PROMPTS, commonest, mean, pass_at, pass_exp, percentile
from agenteval.wire import comparison as wire
from agenteval.wire.differences import CategoryRun, ConfidenceInterval, Difference, Ratio, Usage, UsageAmount

Report = wire.ComparisonReport | wire.TrialsComparisonReport
Pair = wire.PairStatistics
Unit = Literal["rate", "score", "count", "ms", "tokens", "usd", "steps", "rank"]

BORDERS = (0.2, 0.4, 0.6, 0.8)
FIFTHS = ("0.0-0.2", "0.2-0.4", "0.4-0.6", "0.6-0.8", "0.8-1.0")
MOST_FLAKY = 10
STEPS = (1, 2, 3, 4, 5, 10, 20, 50, 100, 200, 500)  # numbers of trials that get an interval, besides k


# --- declarations -------------------------------------------------------------------------------


class RunFigure(NamedTuple):
    """What a report shows of each run: a title, the unit, the field of the report and that of its interval."""

    title: str
    unit: Unit
    field: str
    interval: str = ""

    def value(self, report: Report, label: str) -> Any:
        """The value of a run; None if it is not known."""
        return read_field(report, label, self.field)

    def interval_of(self, report: Report, label: str) -> Any:
        """The interval of the value; None if there is none."""
        return read_field(report, label, self.interval) if self.interval else None


def read_field(report: Any, label: str, path: str) -> Any:
    """The value at the dotted path, None if there is none; an object with an entry per run is that run's."""
    for name in path.split("."):
        report = getattr(report, name, None)
        report = report.get(label) if isinstance(report, dict) else report
    return report


PASS_RATE = RunFigure("Pass rate", "rate", "statistics.runs.pass_rate", "statistics.runs.interval")
GRADED = RunFigure("Graded", "count", "statistics.runs.graded_trials")
SCORE = RunFigure("Score", "score", "quality.avg_score", "quality.score_interval")
MEAN_SCORE = SCORE._replace(title="Mean score")
TOKENS = RunFigure("Tokens", "tokens", "usage.tokens.total")
COST = RunFigure("Cost", "usd", "usage.cost.total")
ESTIMATED = RunFigure("Estimated", "count", "usage.cost.estimated_count")
TIME = RunFigure("Time", "ms", "performance.latency.p50", "performance.latency.p50_interval")

RANK = RunFigure("Rank", "rank", "statistics.runs.rank")
PROMPTS = RunFigure("n", "count", "statistics.runs.graded_prompts")
PRICE = RunFigure("Cost of a pass", "usd", "usage.cost_of_pass", "usage.cost_of_pass_interval")

RANKING = (
    RunFigure("Rank", "rank", "rank"),
    RunFigure("", "rate", "value", "interval"),  # by the name of the measure that decides
    RunFigure("n", "count", "n"),
    RunFigure("Cost", "usd", "cost"),
    RunFigure("p50", "ms", "p50"),
    RunFigure("Cost of a pass", "usd", "cost_of_pass"),
)
"""What the ranking of three runs or more has of each run: fields of wire.RankedRun."""
TERMINAL = (RANK, PASS_RATE, PROMPTS, *(one._replace(interval="") for one in (SCORE, TOKENS, COST, PRICE, TIME)))
"""What the table on a terminal has of each run."""
PAGE = (*TERMINAL[:4], GRADED, RunFigure("p90", "ms", "performance.latency.p90"), *TERMINAL[4:])
"""What the html page has of each run."""
QUALITY = (
    *(PASS_RATE, MEAN_SCORE),
    RunFigure("Passed", "count", "quality.pass_count"),
    RunFigure("Not passed", "count", "quality.fail_count"),
    RunFigure("Agents failed", "count", "quality.errors"),
    RunFigure("Graded", "count", "quality.n"),
    RunFigure("Ungraded", "count", "quality.ungraded"),
    RunFigure("Grader errors", "count", "quality.grader_errors"),
)
RELIABILITY = (
    RunFigure("Results", "count", "reliability.n"),
    RunFigure("Tool errors", "count", "reliability.tool_errors"),
    RunFigure("Tool error rate", "rate", "reliability.tool_error_rate"),
    RunFigure("Timeouts", "count", "reliability.timeouts"),
    RunFigure("Timeout rate", "rate", "reliability.timeout_rate"),
    RunFigure("Completed", "rate", "reliability.completion_rate"),
    RunFigure("Steps", "steps", "trajectory_info.avg_step_count"),
)
TRIAL_RATES = (
    PASS_RATE,
    RunFigure("Prompts", "count", "statistics.runs.prompts"),
    RunFigure("Trials", "count", "statistics.runs.trials"),
    RunFigure("Passed", "count", "statistics.runs.passed_trials"),
    RunFigure("Graded", "count", "statistics.runs.graded_trials"),
    RunFigure("Agent failed", "count", "statistics.runs.failed_trials"),
    RunFigure("Ungraded", "count", "statistics.runs.ungraded_trials"),
    RunFigure("Grader errors", "count", "statistics.runs.grader_errors"),
)
TRIAL_SCORES = (
    SCORE._replace(title="Mean"),
    RunFigure("Median", "score", "quality.median_score"),
    RunFigure("p25", "score", "quality.p25_score"),
    RunFigure("p75", "score", "quality.p75_score"),
    RunFigure("Trials", "count", "quality.n"),
)
FLAKINESS = (
    RunFigure("Flaky prompts", "count", "flakiness.flaky_prompt_count"),
    RunFigure("Share", "rate", "flakiness.flaky_share"),
    RunFigure("Prompts", "count", "flakiness.n"),
)
USAGE = (
    TOKENS,
    RunFigure("Mean", "tokens", "usage.tokens.mean"),
    RunFigure("n", "count", "usage.tokens.n"),
    RunFigure("Cost", "usd", "usage.cost.total"),
    RunFigure("Mean", "usd", "usage.cost.mean"),
    RunFigure("n", "count", "usage.cost.n"),
    PRICE,
    ESTIMATED,
)


def latency_figures(block: str) -> tuple[RunFigure, ...]:
    """The columns of latencies: of whole attempts, or of first responses."""
    shown = {"n": "n", "p50": "p50", "p90": "p90", "p99": "p99", "min": "Min", "max": "Max", "mean": "Mean"}
    return tuple(
        RunFigure(
            title,
            "count" if name == "n" else "ms",
            f"performance.{block}.{name}",
            f"performance.{block}.{name}_interval" if name in ("p50", "p90") else "",
        )
        for name, title in shown.items()
    )


BOOTSTRAPPED = "performance.confidence_intervals.latency_mean"  # the interval of the mean, if it was asked for
LATENCY = (*latency_figures("latency"), RunFigure("Total", "ms", "performance.total_duration"))
FIRST_RESPONSE = latency_figures("first_response")


class Measure(NamedTuple):
    """A difference of two runs that a report shows, by its name."""

    name: str
    unit: Unit
    difference: Difference

    def decides(self, on: str) -> bool:
        """Whether it is the one that was named to decide: `passes`, `score` or `pass^k`."""
        return self.name.startswith({"passes": "Pass rate", "score": "Score"}.get(on, "pass^"))


def measures(pair: Pair) -> list[Measure]:
    """The differences of a pair that there are: passes, of several trials pass^k, scores."""
    found = [Measure("Pass rate", "rate", pair.pass_rate)]
    if pair.pass_exp is not None:
        found.append(Measure(f"pass^{pair.pass_exp.k}", "rate", pair.pass_exp))
    return [*found, Measure("Score", "score", pair.score)] if pair.score is not None else found


def ratios(pair: Pair) -> list[tuple[str, Unit, Ratio]]:
    """What one run of a pair took as a multiple of the other: name, unit and ratio of what is known in both."""
    of = pair.resources
    found: list[tuple[str, Unit, Ratio | None]] = [
        ("Tokens", "tokens", of.tokens),
        ("Cost", "usd", of.cost),
        ("Time", "ms", of.latency),
    ]
    return [(name, unit, ratio) for name, unit, ratio in found if ratio is not None and ratio.ratio]


# --- passes and scores --------------------------------------------------------------------------


def pass_interval(run: RunRows) -> ConfidenceInterval | None:
    """The interval of the mean of the prompts' pass rates; with --cluster-by, of clusters of prompts."""
    counts = zip(run.rows, run.rows.column("passed"), run.rows.column("graded"), strict=True)
    known = [(id, passed, graded) for id, passed, graded in counts if graded]
    ids, passed, graded = zip(*known, strict=True) if known else ((), (), ())
    return prompt_rate_interval(passed, graded, run.clusters(ids))


def mean_score_interval(run: RunRows) -> ConfidenceInterval | None:
    """The interval of the mean of the prompts' scores."""
    scores = run.measured("score")
    return score_interval(list(scores.values()), run.clusters(scores))


def quality(run: RunRows) -> wire.Quality:
    """Scores of the graded results with their intervals; the others are counted by why they have none."""
    scores, passed = run.all_values("scores"), run.total("passed")
    of_scores, of_passes = mean_score_interval(run), pass_interval(run)
    return wire.Quality(
        type="run",
        n=len(scores),
        ungraded=len(run.rows) - len(scores) - run.total("grader_errors"),
        grader_errors=run.total("grader_errors"),
        errors=run.total("errors"),
        avg_score=mean(scores),
        pass_rate=mean(list(run.measured("pass_rate").values())),
        pass_count=passed,
        fail_count=len(scores) - passed,
        score_distribution=distribution(scores),
        confidence_intervals={"avgScore": bounds(of_scores), "passRate": bounds(of_passes)},
        score_interval=of_scores,
        pass_interval=of_passes,
    )


def distribution(scores: Iterable[float]) -> dict[str, int]:
    """Counts per fifth; a score on a border belongs to the upper one."""
    # Compared, not divided: 0.6 / 0.2 is 2.9999999999999996.
    found = Counter(sum(score >= border for border in BORDERS) for score in scores)
    return {name: found[at] for at, name in enumerate(FIFTHS)}


def trial_quality(run: RunRows) -> wire.TrialQuality | None:
    """Scores of all trials that have one, with the interval of their mean; None if none has."""
    scores = run.all_values("scores")
    if not scores:
        return None
    interval = mean_score_interval(run)
    return wire.TrialQuality(
        type="trial",
        n=len(scores),
        ungraded=run.total("attempts") - len(scores) - run.total("grader_errors"),
        grader_errors=run.total("grader_errors"),
        failed_trials=run.total("failed"),
        confidence_intervals={"avgScore": bounds(interval)},
        score_interval=interval,
        **_spread("score", scores) | {"avg_score": mean(run.values("score"))},
    )


def run_statistics(run: RunRows) -> wire.RunStatistics:
    """Counts of prompts and trials, and the pass rate with its interval."""
    attempts, graded, passed = run.total("attempts"), run.total("graded"), run.total("passed")
    return wire.RunStatistics(
        prompts=len(run.rows),
        trials=attempts,
        graded_prompts=sum(graded > 0 for graded in run.rows.column("graded")),
        graded_trials=graded,
        passed_trials=passed,
        failed_trials=run.total("failed"),
        ungraded_trials=attempts - graded - run.total("grader_errors"),
        grader_errors=run.total("grader_errors"),
        incomplete=sum(map(ne, run.rows.column("attempts"), run.rows.column("k"))),
        pass_rate=mean(list(run.measured("pass_rate").values())),
        interval=pass_interval(run),
    )


def category_run(run: RunRows) -> CategoryRun:
    """The figures of the prompts of one category."""
    rates = list(run.measured("pass_rate").values())
    return CategoryRun(
        n=len(rates),
        pass_rate=mean(rates),
        interval=pass_interval(run),
        avg_score=mean(list(run.measured("score").values())),
        score_interval=mean_score_interval(run),
    )


# --- errors and trajectories of results ---------------------------------------------------------


def reliability(run: RunRows) -> wire.Reliability:
    """Errors, timeouts and completions of all results."""
    outputs, errors = run.rows.column("has_output"), run.rows.column("errors")
    return wire.Reliability(
        type="run",
        n=len(run.rows),
        tool_errors=run.total("tool_errors"),
        tool_error_rate=mean(run.rows.column("tool_errors")),
        timeouts=run.total("timed_out"),
        timeout_rate=mean(run.rows.column("timed_out")),
        completion_rate=mean([output and not error for output, error in zip(outputs, errors, strict=True)]),
    )


def trajectory_info(run: RunRows) -> wire.TrajectoryInfo:
    """The commonest richness, and the mean number of steps of the trajectories that there are."""
    most = Counter(run.rows.column("richness")).most_common(1)
    steps = [steps for steps in run.rows.column("steps") if steps is not None]
    return wire.TrajectoryInfo(richness=most[0][0] if most else "minimal", avg_step_count=mean(steps))


# --- time, tokens and cost ----------------------------------------------------------------------


def performance(run: RunRows, *, trials: bool = False) -> wire.Performance:
    """Latencies of all attempts, their sum and, of results, the times to the first response if any is known."""
    durations = run.all_values("durations")
    return wire.Performance(
        latency=latency(run, "durations"),
        total_duration=sum(durations) if durations else None,
        timeouts=run.total("timed_out") or None,
        first_response=latency(run, "first_responses") if not trials and run.all_values("first_responses") else None,
    )


def mean_latency_interval(run: RunRows, iterations: int, seed: int) -> wire.PerformanceIntervals:
    """The bootstrap interval of the mean latency."""
    clusters: defaultdict[str, list[float]] = defaultdict(list)
    durations = run.rows.columns["durations"]
    for name, at in zip(run.clusters(run.rows) or run.rows, run.rows.places.values(), strict=True):
        clusters[name] += durations[at]
    return wire.PerformanceIntervals(latency_mean=bounds(bootstrap_mean_interval(clusters.values(), iterations, seed)))


def latency(run: RunRows, field: str) -> wire.Latency:
    """Percentiles, mean and extremes; None over nothing."""
    values, clusters = run.all_values(field), run.attempt_clusters(field)
    ordered = sorted(values)
    return wire.Latency(
        n=len(ordered),
        p50=percentile(ordered, 0.5),
        p90=percentile(ordered, 0.9),
        p99=percentile(ordered, 0.99),
        mean=mean(ordered),
        min=min(ordered, default=None),
        max=max(ordered, default=None),
        p50_interval=percentile_interval(values, 0.5, clusters),
        p90_interval=percentile_interval(values, 0.9, clusters),
    )


def usage(runs: Sequence[RunRows]) -> dict[str, Usage] | None:
    """Tokens and cost of each run; None if no record of any run has them."""
    found = {}
    for run in runs:
        estimated = sum(len(run.rows[id].cost_values) for id in run.ids_with("cost_estimated"))
        cost = amount(run, "cost_values", estimated or None)
        found[run.label] = Usage(tokens=amount(run, "token_values"), cost=cost, **cost_of_pass(run))
    return found if any(run.tokens or run.cost for run in found.values()) else None


def cost_of_pass(run: RunRows) -> dict[str, Any]:
    """The fields that hold the cost of the graded prompts divided by their passes; None if nothing passed."""
    values, graded, passed = (run.rows.columns[name] for name in ("cost_values", "graded", "passed"))
    known = {id: at for id, at in run.rows.places.items() if graded[at] and values[at]}
    costs, passes = [sum(values[at]) for at in known.values()], [float(passed[at]) for at in known.values()]
    if not any(passes):
        return {"cost_of_pass": None}
    interval = ratio_interval(costs, passes, run.clusters(known))
    return {"cost_of_pass": sum(costs) / sum(passes), "cost_of_pass_interval": interval}


def amount(run: RunRows, field: str, estimated: int | None = None) -> UsageAmount | None:
    """Sum, mean and median; None over nothing."""
    values = run.all_values(field)
    ordered = sorted(values)
    middle, centre = percentile(ordered, 0.5), mean(ordered)
    if middle is None or centre is None:
        return None
    interval = percentile_interval(values, 0.5, run.attempt_clusters(field))
    return UsageAmount(
        n=len(ordered), total=sum(ordered), mean=centre, p50=middle, p50_interval=interval, estimated=estimated
    )


# --- pass@k and pass^k of trials ----------------------------------------------------------------


def run_k(run: RunRows) -> int:
    """The k of a run: the number of trials that most of its prompts have."""
    return commonest(run.rows.column("k"))


def capability(run: RunRows) -> wire.Capability:
    """The chance to pass at least once in k trials."""
    return wire.Capability(**_rates(run, "at"))


def trial_reliability(run: RunRows) -> wire.TrialReliability:
    """The chance to pass in all of k trials."""
    return wire.TrialReliability(type="trial", **_rates(run, "exp"))


def _rates(run: RunRows, which: Literal["at", "exp"]) -> dict[str, Any]:
    known = run.values(f"pass_{which}_k")
    means, counts = _curve_means(run.rows.values(), which)
    enough = MOST_PROMPTS * sum(row.graded > 0 for row in run.rows.values())
    shown = [j for j in (*STEPS, run_k(run)) if counts.get(str(j), 0) >= max(1, enough)]
    intervals = {str(j): found for j in sorted(set(shown)) if (found := _curve_interval(run, which, j))}
    curves = {f"pass_{which}": means, f"pass_{which}_n": counts, f"pass_{which}_intervals": intervals}
    curves["confidence_intervals"] = {f"avgPass{which.title()}K": bounds(_plug_in_interval(run, which))}
    return {"n": len(known), "ungraded": len(run.rows) - len(known), **curves, **_spread(f"pass_{which}_k", known)}


def _plug_in_interval(run: RunRows, which: Literal["at", "exp"]) -> ConfidenceInterval | None:
    """The interval of the mean of passAtK or passExpK, the plug-in values of agent-eval-harness."""
    known = {id: rate for id, row in run.rows.items() if (rate := getattr(row, f"pass_{which}_k")) is not None}
    return clustered_rate_interval(*cluster_sums(list(known.values()), run.clusters(known) or range(len(known))))


def _curve_interval(run: RunRows, which: Literal["at", "exp"], j: int) -> ConfidenceInterval | None:
    """The interval of the mean of the unbiased estimates for j trials, over the prompts that have so many."""
    if j == 1:
        return pass_interval(run)
    estimate = pass_at if which == "at" else pass_exp
    rows = [(id, row) for id, row in run.rows.items() if row.graded >= j <= row.k]
    alike = {pair: estimate(*pair, j) or 0.0 for pair in {(row.graded, row.passed) for _, row in rows}}
    values = [alike[row.graded, row.passed] for _, row in rows]
    return clustered_rate_interval(*cluster_sums(values, [row.cluster_name(id) for id, row in rows]))


def _curve_means(rows: Iterable[RowFigures], which: Literal["at", "exp"]) -> tuple[dict[str, float], dict[str, int]]:
    """For j = 1 to k: the mean of the unbiased pass@j or pass^j, and over how many prompts."""
    estimate = pass_at if which == "at" else pass_exp
    alike = Counter((row.graded, row.passed, row.k) for row in rows if row.graded)
    sums: defaultdict[int, float] = defaultdict(float)
    counts: defaultdict[int, int] = defaultdict(int)
    for (graded, passed, k), prompts in alike.items():
        for j in range(1, min(graded, k) + 1):
            sums[j] += prompts * (estimate(graded, passed, j) or 0.0)
            counts[j] += prompts
    return {str(j): sums[j] / counts[j] for j in sorted(sums)}, {str(j): counts[j] for j in sorted(counts)}


def _spread(of: str, values: Iterable[float]) -> dict[str, Any]:
    """The fields that hold mean, median and quartiles of the values; `of` is the end of their names."""
    ordered = sorted(values)
    quantiles = {"median": 0.5, "p25": 0.25, "p75": 0.75}
    spread = {f"{name}_{of}": percentile(ordered, p) for name, p in quantiles.items()}
    return {f"avg_{of}": mean(ordered), **spread}


def flakiness(run: RunRows) -> wire.Flakiness:
    """passAtK - passExpK of the graded prompts, and the prompts where it is largest."""
    gaps = sorted(run.values("flakiness"))
    flaky = [(gap, id, row.pass_rate) for id, row in run.rows.items() if (gap := row.flakiness)]
    most = nlargest(MOST_FLAKY, flaky, key=lambda prompt: prompt[0])
    return wire.Flakiness(
        n=len(gaps),
        avg_flakiness=mean(gaps),
        median_flakiness=percentile(gaps, 0.5),
        flaky_prompt_count=len(flaky),
        top_flaky_prompts=[wire.FlakyPrompt(id=id, flakiness=gap, pass_rate=rate) for gap, id, rate in most],
    )
