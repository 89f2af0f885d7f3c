"""Three runs or more → the ranking that every form of ae-compare begins with.

`ranking_of` computes it from a report and its rows, once: the runs in order with the places that the adjusted verdicts
leave open, the front of quality and cost, and the prompts, the hardest first. What is said of the runs is in
comparison/verdicts.py. Each against each is `statistics.pairs`: `difference_of` reads it from either side. A form only
draws what is here; a page has no figure that the JSON lacks.
"""

from collections.abc import Iterator, Mapping, Sequence
from heapq import nsmallest

from agenteval.comparison.figures import Pair, Report
from agenteval.comparison.pairing import Listing, measures, prompt_ids
from agenteval.comparison.row_table import NOT_KNOWN, RowFigures
from agenteval.comparison.rows import RunRows
from agenteval.comparison.verdicts import ranking_headline
from agenteval.statistics.paired import rank_intervals
from agenteval.statistics.samples import mean
from agenteval.wire import comparison as wire
from agenteval.wire.differences import ConfidenceInterval
from agenteval.wire.row import ERROR, FAIL, FLAKY, GRADER_ERROR, PASS, UNGRADED

MISSING = "missing"


def ranking_of(report: Report, runs: Sequence[RunRows]) -> wire.RunRanking:
    """The ranking of the runs of a report; the places are those that the verdicts of the pairs leave open."""
    ranked = ranked_runs(report)
    front = front_of(report, ranked)
    return wire.RunRanking(
        measure=measure_name(report),
        headline=ranking_headline(ranked, front),
        runs=ranked,
        front=front,
        prompts=ranked_prompts(runs, [one.run for one in ranked], trials=report.meta.input_format == "trials"),
    )


# --- runs ---------------------------------------------------------------------------------------


def ranked_runs(report: Report) -> list[wire.RankedRun]:
    """The runs with the figures of the ranking, those with the highest value first."""
    labels, places = report.meta.runs, rank_intervals(report.meta.runs, better_runs(report.statistics.pairs))
    found = [_ranked_run(report, label, places[label]) for label in labels]
    preferred = [one.run for one in (report.preference and report.preference.strengths) or ()]
    if any(one.value is not None for one in found) or not preferred:
        return sorted(found, key=lambda one: (one.value is None, -(one.value or 0.0), one.rank))
    return sorted(found, key=lambda one: preferred.index(one.run) if one.run in preferred else len(labels))


def better_runs(pairs: Sequence[Pair]) -> set[tuple[str, str]]:
    """The pairs of which one is shown to be better, that one first."""
    return {
        (pair.better, pair.run_b if pair.better == pair.run_a else pair.run_a)
        for pair in pairs
        if pair.better is not None
    }


def _ranked_run(report: Report, label: str, rank: tuple[int, int]) -> wire.RankedRun:
    value, interval = measured(report, label)
    usage = (report.usage or {}).get(label)
    return wire.RankedRun(
        run=label,
        rank=rank,
        value=value,
        interval=interval,
        n=report.statistics.runs[label].graded_prompts,
        cost=usage.cost.mean if usage and usage.cost else None,
        cost_estimated=bool(usage and usage.cost and usage.cost.estimated),
        cost_of_pass=usage.cost_of_pass if usage else None,
        p50=report.performance[label].latency.p50,
    )


def measured(report: Report, label: str) -> tuple[float | None, ConfidenceInterval | None]:
    """The value of a run by the measure that decides, and its interval."""
    run = report.statistics.runs[label]
    if report.meta.on == "score":
        quality = (report.quality or {}).get(label)
        return (quality.avg_score, quality.score_interval) if quality else (None, None)
    if report.meta.on.startswith("pass^") and isinstance(report, wire.TrialsComparisonReport):
        k, found = str(_exponent(report)), report.reliability[label]
        return found.pass_exp.get(k), found.pass_exp_intervals.get(k)
    return run.pass_rate, run.interval


def measure_name(report: Report) -> str:
    """What the ranking is by."""
    if report.meta.on.startswith("pass^"):
        return f"pass^{_exponent(report)}"
    return "Score" if report.meta.on == "score" else "Pass rate"


def _exponent(report: Report) -> int:
    """The k of pass^k: that which was asked for, else the smallest of all pairs."""
    return min((pair.pass_exp.k for pair in report.statistics.pairs if pair.pass_exp), default=1)


def difference_of(pairs: Mapping[tuple[str, str], Pair], row: str, column: str) -> tuple[float | None, str | None]:
    """By how much a run is better than another on the prompts of both, and which of them is shown to be better."""
    if pair := pairs.get((row, column)):
        return pair.mean_difference, pair.better
    pair = pairs[column, row]
    return pair.change, pair.better


def by_names(pairs: Sequence[Pair]) -> dict[tuple[str, str], Pair]:
    """The pairs by the names of their runs."""
    return {(pair.run_a, pair.run_b): pair for pair in pairs}


# --- quality and cost ---------------------------------------------------------------------------


def front_of(report: Report, ranked: Sequence[wire.RankedRun]) -> wire.Front | None:
    """The runs that no other beats in quality and cost; without costs in quality and tokens, or time."""
    usage, known = report.usage or {}, {one.run: one.value for one in ranked if one.value is not None}
    tokens = {label: found.tokens.mean for label, found in usage.items() if found.tokens}
    amounts: dict[str, dict[str, float]] = {
        "cost": {one.run: one.cost for one in ranked if one.cost is not None and one.run in known},
        "tokens": {label: value for label, value in tokens.items() if label in known},
        "time": {one.run: one.p50 for one in ranked if one.p50 is not None and one.run in known},
    }
    against = max(amounts, key=lambda name: len(amounts[name]))  # of equals the first
    takes = amounts[against]
    if len(takes) < 2:
        return None
    best = [run for run in takes if not any(beats(other, run, known, takes) for other in takes)]
    best.sort(key=lambda run: (takes[run], known[run]))
    return wire.Front(against=against, amounts=takes, runs=best)  # type: ignore[arg-type]


def beats(one: str, other: str, values: Mapping[str, float], takes: Mapping[str, float]) -> bool:
    """Whether a run is at least as good for at most as much, and one of the two is strictly so."""
    gain, saving = values[one] - values[other], takes[other] - takes[one]
    return gain >= 0 and saving >= 0 and (gain > 0 or saving > 0)


# --- prompts ------------------------------------------------------------------------------------


def ranked_prompts(runs: Sequence[RunRows], order: Sequence[str], *, trials: bool) -> Sequence[wire.RankedPrompt]:
    """Every prompt in all runs, the hardest first; those that the same runs pass stand together."""
    rates = measures(runs, "pass_rate")
    shown = [(rates[label], run.rows) for label in order for run in runs if run.label == label]

    def rates_of(id: str) -> list[float | None]:
        found = [of[at] if (at := rows.places.get(id)) is not None else NOT_KNOWN for of, rows in shown]
        return [rate if rate == rate else None for rate in found]

    def hardness(id: str) -> tuple[float, ...]:
        of_run = rates_of(id)
        known = [rate for rate in of_run if rate is not None]
        return (not known, mean(known) or 0.0, *(1.0 if rate is None else -rate for rate in of_run))

    def prompts() -> Iterator[wire.RankedPrompt]:
        for id in ids:
            known = {label: rate for label, rate in zip(order, rates_of(id), strict=True) if rate is not None}
            yield wire.RankedPrompt(
                id=id,
                pass_rate=mean(list(known.values())),
                information=information(list(known.values())),
                statuses={label: status_of(rows.get(id)) for label, (_, rows) in zip(order, shown, strict=True)},
                rates=known if trials else None,
            )

    alike: dict[tuple[float, ...], list[str]] = {}  # a tuple for each prompt would take more memory than its rows
    for id in prompt_ids(runs):
        alike.setdefault(hardness(id), []).append(id)
    ids = [id for key in sorted(alike) for id in alike[key]]
    return Listing(prompts)


def information(rates: Sequence[float]) -> float | None:
    """Four times the variance: 1 if half of the runs always pass a prompt and the others never."""
    centre = mean(rates)
    return None if centre is None or len(rates) < 2 else 4 * sum((rate - centre) ** 2 for rate in rates) / len(rates)


def status_of(row: RowFigures | None) -> str:
    """What became of a prompt in a run, in the words of the page."""
    if row is None:
        return MISSING
    if not row.graded:
        return ERROR if row.failed else GRADER_ERROR if row.grader_errors else UNGRADED
    if row.passed:
        return PASS if row.passed == row.graded else FLAKY
    return ERROR if row.failed >= row.attempts else FAIL


def separating(ranking: wire.RunRanking, most: int) -> list[wire.RankedPrompt]:
    """The prompts that tell the runs apart most, the best first."""
    telling = (prompt for prompt in ranking.prompts if prompt.information)
    return nsmallest(most, telling, key=lambda prompt: -(prompt.information or 0.0))
