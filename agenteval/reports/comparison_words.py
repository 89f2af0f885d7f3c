"""The outcome of a comparison in few words, the later run against the earlier one: better, worse or cannot tell."""

from __future__ import annotations

from collections.abc import Sequence

from agenteval.comparison.analysis.verdicts import change_words, points
from agenteval.statistics.distributions import detectable_shift
from agenteval.statistics.intervals import LEVEL
from agenteval.statistics.paired import POWER
from agenteval.statistics.power import prompts_needed
from agenteval.streams.text import counted, first_few
from agenteval.wire.comparison import ComparisonReport, PairStatistics
from agenteval.wire.differences import Difference
from agenteval.wire.interval import ConfidenceInterval
from agenteval.wire.trials_comparison import TrialsComparisonReport, TrialsPairStatistics

Report = ComparisonReport | TrialsComparisonReport
Pair = PairStatistics | TrialsPairStatistics

BETTER, WORSE, CANNOT_TELL = "better", "worse", "cannot tell"
MOST_PROMPTS = 1_000_000  # beyond, no number of prompts is worth naming
PAIRS_NAMED = 4


def passes_of(pair: Pair) -> Difference:
    """The difference of the pass rates; of trials the pair's own fields are that."""
    return pair.pass_rate if isinstance(pair, PairStatistics) else pair


def scores_of(pair: Pair) -> Difference | None:
    """The difference of the scores, if there are any; of results the pair's own fields are that."""
    return pair if isinstance(pair, PairStatistics) else pair.score


def pass_rate(report: Report, label: str) -> tuple[float | None, ConfidenceInterval | None, int]:
    """The pass rate of a run, its interval, and over how many results or trials."""
    if isinstance(report, TrialsComparisonReport):
        found = report.statistics.runs[label]
        return found.pass_rate, found.interval, found.graded_trials
    quality = report.quality[label]
    return quality.pass_rate, quality.pass_interval, quality.n


def mean_score(report: Report, label: str) -> float | None:
    """The mean score of a run, if it has any."""
    quality = (report.quality or {}).get(label)
    return quality.avg_score if quality else None


def standing(pair: Pair) -> str:
    """How the later run of a pair stands against the earlier one."""
    if pair.better is None:
        return CANNOT_TELL
    return BETTER if pair.better == pair.run_b else WORSE


def claim(pair: Pair) -> str:
    """The outcome of one pair as a clause: `new is worse than old`, `cannot tell new from old: no difference shown`."""
    if pair.better is not None:
        return f"{pair.run_b} is {standing(pair)} than {pair.run_a}"
    return f"{CANNOT_TELL} {pair.run_b} from {pair.run_a}: {pair.verdict}"


def summary_line(report: Report) -> str:
    """The verdict of a report in one line; of several runs, each against the first one."""
    first, pairs = report.meta.runs[0], report.statistics.pairs
    if len(pairs) == 1:
        [pair] = pairs
        found = passes_of(pair)
        return f"{claim(pair)}{_rates(found)}" if found.n else claim(pair)
    return first_few([claim(pair) for pair in pairs if pair.run_a == first], PAIRS_NAMED, "; ")


def _rates(found: Difference) -> str:
    rates = f"passed {found.mean_a or 0:.1%}, then {found.mean_b or 0:.1%} of {counted(found.n, 'prompt')}"
    return f" ({rates}, {change_words(found, points)})"


def needed_prompts(found: Difference) -> int | None:
    """About how many prompts would show a difference of this size 4 times in 5; None if no number can be named."""
    least, size = found.minimum_detectable_difference, abs(found.mean_difference or 0.0)
    if least is None or found.n < 2 or size * MOST_PROMPTS**0.5 < least:
        return None
    deviation = least / detectable_shift(found.n - 1, LEVEL, POWER) * found.n**0.5
    return prompts_needed(deviation**2, size, POWER)


def against_first(report: Report) -> tuple[Sequence[Pair], Sequence[Pair]]:
    """The pairs with the first run, and the others."""
    first = report.meta.runs[0]
    pairs: Sequence[Pair] = report.statistics.pairs
    return [pair for pair in pairs if pair.run_a == first], [pair for pair in pairs if pair.run_a != first]
