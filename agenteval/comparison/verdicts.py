"""The outcome of a comparison in words: a sentence on each measure, the headline of a pair, and the gate for CI.

Sentences, tables and pages give differences as the later run minus the earlier one; the JSON has A minus B.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from agenteval.comparison.figures import Pair, Report
from agenteval.comparison.pairing import outcome_words
from agenteval.statistics.paired import SIGNIFICANT, holm
from agenteval.streams.text import counted, first_few
from agenteval.wire.differences import Difference, Preference, PreferredRun, Ratio, Resources

LEAST_P = 0.0001  # below, digits say nothing
SHOWS = "is the smallest difference this many prompts would show 4 times in 5"
BETTER, WORSE, CANNOT_TELL = "better", "worse", "cannot tell"
PAIRS_NAMED = 4


# --- sentences ----------------------------------------------------------------------------------


class Change(NamedTuple):
    """How much the later run of a pair is above the earlier one, with the bounds of the interval: B minus A."""

    value: float | None
    bounds: tuple[float, float] | None


def change(found: Difference) -> Change:
    """The difference as all sentences, tables and pages give it; the JSON has A minus B."""
    value = None if found.mean_difference is None else -found.mean_difference
    return Change(value, (-found.interval.high, -found.interval.low) if found.interval else None)


def overall(passes: Difference, scores: Difference | None) -> tuple[str | None, str]:
    """The run that is better and the verdict in words: by passes first, then by scores."""
    by_scores = scores.better if scores else None
    if passes.better and by_scores and passes.better != by_scores:
        return None, f"{passes.better} passes more, {by_scores} scores higher"
    better = passes.better or by_scores
    return better, outcome_words(passes.n or (scores.n if scores else 0), better)


def sentences(passes: Difference, scores: Difference | None, resources: Resources, margin: float | None) -> list[str]:
    """One sentence on passes, one on scores if there are any, one on time, tokens and cost if they are known."""
    lines = [passes_sentence(passes, margin)]
    if scores and scores.n:
        lines.append(scores_sentence(scores))
    return [*lines, *resources_sentence(passes.run_a, passes.run_b, resources)]


def passes_sentence(found: Difference, margin: float | None) -> str:
    """Who passes more often, with both rates, the interval of the difference and, if none is shown, what would be."""
    a, b = found.run_a, found.run_b
    if not found.n:
        return f"{a} and {b}: no prompt is graded in both."
    more = "more" if found.better == b else "less"
    claim = f"{b} passes {more} often than {a}" if found.better else f"{found.verdict.capitalize()} in pass rates"
    rates = f"{a} {found.mean_a or 0.0:.1%}, then {b} {found.mean_b or 0.0:.1%}"
    shown = change_words(found, points)
    text = f"{claim}: {rates} of {counted(found.n, 'prompt')} graded in both; difference {shown}{_p_words(found)}."
    least = found.minimum_detectable_difference
    if found.better is None and least is not None:
        text += f" {least * 100:.1f} points {SHOWS}."
    return text + _margin_words(found, margin)


def scores_sentence(found: Difference) -> str:
    """Who scores higher, with both means and the interval of the difference."""
    higher = "higher" if found.better == found.run_b else "lower"
    claim = f"{found.run_b} scores {higher} than {found.run_a}"
    if not found.better:
        claim = f"{found.verdict.capitalize()} in scores"
    means = f"mean {found.mean_a or 0.0:.3f}, then {found.mean_b or 0.0:.3f} on {counted(found.n, 'prompt')}"
    text = f"{claim}: {means}; difference {change_words(found, '{:+z.3f}'.format)}{_p_words(found)}."
    least = found.minimum_detectable_difference
    return text + (f" {least:.3f} {SHOWS}." if found.better is None and least is not None else "")


def resources_sentence(run_a: str, run_b: str, found: Resources) -> list[str]:
    """How many times the cost, the tokens and the time of A run B takes; nothing if none is known in both."""
    parts = [
        text
        for ratio, noun in ((found.cost, "the cost"), (found.tokens, "the tokens"), (found.latency, "the time"))
        if (text := _times(ratio, noun))
    ]
    return [f"{run_b} takes {', '.join(parts)} of {run_a}."] if parts else []


def points(difference: float) -> str:
    """A difference of rates in percentage points, with its sign."""
    return f"{difference * 100:+z.1f} points"


def change_words(found: Difference, show: Callable[[float], str]) -> str:
    """The difference with its sign and its interval, the later run minus the earlier one."""
    value, bounds = change(found)
    text = show(value or 0.0)
    return f"{text}, 95 % interval {show(bounds[0]).removesuffix(' points')} to {show(bounds[1])}" if bounds else text


def _p_words(found: Difference) -> str:
    adjusted = found.adjusted_p is not None and found.adjusted_p != found.p
    text = f", {p_text(found.p)}" if found.p is not None else ""
    return text + (f", adjusted for all tests {p_text(found.adjusted_p).removeprefix('p ')}" if adjusted else "")


def p_text(p: float | None) -> str:
    """A p value with its sign: `p 0.013`; a tiny one is never 0."""
    return "" if p is None else f"p {p:.2g}" if p >= LEAST_P else f"p < {LEAST_P:g}"


def _margin_words(found: Difference, margin: float | None) -> str:
    if margin is None or found.interval is None or found.better == found.run_a:
        return ""
    shown = "It is shown" if found.interval.high <= margin else "It is not shown"
    return f" {shown} that {found.run_b} is at most {margin * 100:g} points worse."


def _times(found: Ratio | None, noun: str) -> str:
    if found is None or not found.ratio:
        return ""
    text = f"{1 / found.ratio:.2f} x {noun}"
    if found.interval:
        text += f" (95 % interval {1 / found.interval.high:.2f} to {1 / found.interval.low:.2f})"
    return text + (" (estimated)" if found.estimated else "")


# --- the headline of a pair ---------------------------------------------------------------------


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
        found = pair.pass_rate
        return f"{claim(pair)}{_rates(found)}" if found.n else claim(pair)
    return first_few([claim(pair) for pair in pairs if pair.run_a == first], PAIRS_NAMED, "; ")


def _rates(found: Difference) -> str:
    rates = f"passed {found.mean_a or 0:.1%}, then {found.mean_b or 0:.1%} of {counted(found.n, 'prompt')}"
    return f" ({rates}, {change_words(found, points)})"


def against_first(report: Report) -> tuple[Sequence[Pair], Sequence[Pair]]:
    """The pairs with the first run, and the others."""
    first = report.meta.runs[0]
    pairs: Sequence[Pair] = report.statistics.pairs
    return [pair for pair in pairs if pair.run_a == first], [pair for pair in pairs if pair.run_a != first]


# --- the comparison grader ----------------------------------------------------------------------


def decide_by_preference(pairs: Sequence[Pair], found: Preference) -> None:
    """Adds a sentence on the preference to every pair; where no prompt is graded in both, it is the verdict."""
    for pair, preferred in zip(pairs, found.pairs, strict=True):
        if not pair.n and preferred.n:
            pair.better, pair.verdict = preferred.better, outcome_words(preferred.n, preferred.better)
        pair.sentences = [preference_sentence(preferred), *pair.sentences]


def preference_sentence(pair: PreferredRun) -> str:
    """Who is preferred, the winner first."""
    if not pair.n:
        return "The comparison grader ranked no prompt."
    a, b = (pair.run_a, pair.a_wins), (pair.run_b, pair.b_wins)
    (first, wins), (second, losses) = (b, a) if pair.better == pair.run_b else (a, b)
    claim = f"prefers {first}" if pair.better else "does not prefer either"
    counts = f"{first} on {wins}, {second} on {losses} of {counted(pair.n, 'prompt')}, {counted(pair.ties, 'tie')}"
    return f"The comparison grader {claim}: {counts} (sign test, {p_text(pair.adjusted_p)})."


# --- the gate -----------------------------------------------------------------------------------


class GateSettings(NamedTuple):
    """What a run must be: not shown to be worse, and with `proof` shown to be at most `margin` worse."""

    proof: bool = False
    margin: float = 0.05
    min_compared: float = 0.9


class GateMeasure(NamedTuple):
    """A rate that the gate looks at, of each run against the first."""

    name: str
    pairs: Sequence[Difference]


def gate_reasons(report: Report, settings: GateSettings) -> list[str]:
    """The reasons for which a run does not pass the gate against the first one, one sentence each.

    The measure is the pass rate, of several trials also pass^k. Where only a comparison grader has seen the runs, its
    preference decides.
    """
    first, *others = report.meta.runs
    pairs: Sequence[Pair] = [pair for pair in report.statistics.pairs if pair.run_a == first]
    preference = report.preference
    if preference and any(pair.n for pair in preference.pairs) and not any(pair.n for pair in report.statistics.pairs):
        return preference_gate(preference, first, report.meta.prompt_count, settings)
    measures = [GateMeasure("pass rate", [pair.pass_rate for pair in pairs])]
    every = [found for pair in pairs if (found := pair.pass_exp) and found.k > 1]
    if every:
        name = f"pass^{every[0].k}" if len({found.k for found in every}) == 1 else "pass^k"
        measures.append(GateMeasure(name, every))
    return check_gate(first, others, report.statistics.runs[first].graded_prompts, measures, settings)


def check_gate(
    first: str, others: Sequence[str], graded: int, measures: Sequence[GateMeasure], settings: GateSettings
) -> list[str]:
    """The reasons for which a run does not pass the gate, one sentence each; `graded` counts the first run's prompts.

    The first measure is that which says how many prompts are compared.
    """
    reasons = []
    for label in others:
        compared = next((pair.n for pair in measures[0].pairs if pair.run_b == label), 0)
        reason = too_little(first, label, graded, compared, settings.min_compared)
        if reason:
            reasons.append(reason)
    if reasons:
        return reasons
    for looks, measure in enumerate(measures, 1):
        adjusted = holm([1.0 if pair.p is None else pair.p for pair in measure.pairs])
        for pair, p in zip(measure.pairs, adjusted, strict=True):
            reason = _reason(measure.name, pair, p * looks, settings)  # each look is one more chance of a false alarm
            if reason:
                reasons.append(reason)
    return reasons


def too_little(first: str, label: str, graded: int, compared: int, share: float) -> str:
    """Why nothing can be concluded, if too few prompts of the first run are compared; else an empty text."""
    if not graded:
        return f"{label} cannot be compared with {first}: no prompt of {first} is graded"
    if not compared:
        return f"{label} cannot be compared with {first}: no prompt is graded in both"
    if compared < share * graded - 1e-9:
        return (
            f"{label} cannot be compared with {first}: only {compared} of the {graded} prompts graded in {first} are "
            f"graded in both ({compared / graded:.1%}, and --min-compared asks for {share:.0%})"
        )
    return ""


def _reason(name: str, pair: Difference, adjusted: float, settings: GateSettings) -> str:
    if pair.interval is None:
        return f"{pair.run_b} cannot be compared with {pair.run_a} by {name}: no prompt has it in both" * settings.proof
    figures = (
        f"{name} {pair.mean_b or 0.0:.1%} against {pair.mean_a or 0.0:.1%} on {pair.n} prompts graded in both, "
        f"difference {change_words(pair, points)}"
    )
    if pair.interval.low > 0 and adjusted < SIGNIFICANT:
        return f"{pair.run_b} is worse than {pair.run_a}: {figures}"
    if settings.proof and pair.interval.high > settings.margin:
        margin = f"at most {settings.margin * 100:g} points worse than {pair.run_a}"
        return f"{pair.run_b} is not shown to be {margin}: {figures}"
    return ""


def preference_gate(found: Preference, first: str, prompts: int, settings: GateSettings) -> list[str]:
    """The reasons for which a run does not pass the gate where only a comparison grader has seen the runs."""
    reasons = []
    for pair in found.pairs:
        if pair.run_a != first:
            continue
        if pair.n < max(1, settings.min_compared * prompts - 1e-9):
            reasons.append(f"{pair.run_b} cannot be compared with {first}: {pair.n} of {prompts} prompts are ranked")
        elif pair.better == first:
            reasons.append(f"{pair.run_b} is worse than {first}. {preference_sentence(pair)}")
        elif settings.proof and pair.better != pair.run_b:
            reasons.append(f"{pair.run_b} is not shown to be better than {first}. {preference_sentence(pair)}")
    return reasons
