"""The outcome of a comparison in words: the headline of a pair, a line on each figure of it, and the gate for CI.

One measure, `meta.on`, decides both the headline and the gate: they read the same verdict of the same pair. What is
said here is the same in every form. Differences are the later run minus the earlier one; the JSON also has A minus B.
"""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from agenteval.comparison.figures import Measure, Pair, Report, Unit, measures, ratios
from agenteval.comparison.pairing import FEWEST, outcome_words
from agenteval.statistics.paired import SIGNIFICANT
from agenteval.streams.text import counted, first_few
from agenteval.wire.comparison import Front, RankedRun, Separation
from agenteval.wire.differences import Difference, Preference, PreferredRun, Ratio

LEAST_P = 0.0001  # below, digits say nothing
BETTER, WORSE, EQUAL, CANNOT_TELL = "better", "worse", "equal", "cannot tell"
NONE_LEADS = "no run is shown to be better than another"
RUNS_NAMED = 6
LESS = {"cost": "cheaper", "tokens": "cheaper in tokens", "time": "faster"}
STOPPED = "the direction is known, but the size is overstated"

SHOW: dict[Unit, Callable[[float], str]] = {
    "rate": "{:.1%}".format,
    "score": "{:.3f}".format,
    "tokens": "{:,.0f}".format,
    "usd": "${:,.4f}".format,
    "ms": lambda value: f"{value / 1000:,.2f} s",
}


# --- the headline of a pair ---------------------------------------------------------------------


def standing(pair: Pair) -> str:
    """How the later run of a pair stands against the earlier one."""
    if pair.better is None:
        return EQUAL if pair.ties == pair.n >= FEWEST else CANNOT_TELL
    return BETTER if pair.better == pair.run_b else WORSE


def claim(pair: Pair) -> str:
    """The outcome of one pair as a clause: `new is worse than old`, `cannot tell new from old: no difference shown`."""
    found = standing(pair)
    if found == EQUAL:
        return f"{pair.run_b} and {pair.run_a}: {pair.verdict}"
    if found == CANNOT_TELL:
        return f"{CANNOT_TELL} {pair.run_b} from {pair.run_a}: {pair.verdict}"
    return f"{pair.run_b} is {found} than {pair.run_a}"


def headline(pair: Pair) -> str:
    """The same as a sentence."""
    return f"{capitalized(claim(pair))}."


def capitalized(claim: str) -> str:
    """A claim as the start of a sentence; a run's name at its start stays as it is."""
    return claim[0].upper() + claim[1:] if claim.startswith((CANNOT_TELL, NONE_LEADS)) else claim


def prompts_compared(pair: Pair, report: Report) -> str:
    """The prompts that a verdict covers: `12 prompts graded in both`, or in a gate those that one run lacks, too."""
    lacking = report.meta.counted_as_failed or {}
    which = ", missing ones included" if {pair.run_a, pair.run_b} & lacking.keys() else " graded in both"
    return counted(pair.n, "prompt") + which


def summary_line(report: Report) -> str:
    """The verdict of a report in one line; of three runs or more, who leads."""
    if report.ranking:
        return report.ranking.headline
    [pair] = report.statistics.pairs
    return f"{claim(pair)} ({decisive(pair, report)})" if pair.n else claim(pair)


def ranking_headline(runs: Sequence[RankedRun], front: Front | None) -> str:
    """What a ranking shows: who leads, who is last, and which runs are neither better nor cheaper than another."""
    first = [one.run for one in runs if one.rank[0] == 1]
    last = [one.run for one in runs if one.rank[0] == len(runs)]
    if len(first) == len(runs):
        sentences = [NONE_LEADS]
    elif len(first) == 1:
        leader = next(one for one in runs if one.run == first[0])
        only = f"{first[0]} is shown to be better than every other run"
        some = f"{first[0]} leads: no other run is shown to be better, and it is shown to be better than "
        sentences = [only if leader.rank[1] == 1 else f"{some}{len(runs) - leader.rank[1]} of {len(runs) - 1}"]
    else:
        sentences = [f"{listed(first)} lead: {'neither' if len(first) == 2 else 'none'} is shown to be better"]
        sentences[0] += " than the other" if len(first) == 2 else " than another of them"
    sentences += [f"{last[0]} is last"] if last else []
    if front and (beaten := [one for one in front.amounts if one not in front.runs]):
        are = "is" if len(beaten) == 1 else "are"
        sentences.append(f"{listed(beaten)} {are} no better and no {LESS[front.against]} than some other run")
    return "; ".join(sentences)


def listed(names: Sequence[str]) -> str:
    """Names as in a sentence: `a, b and c`; of many the first ones and how many more."""
    if len(names) > RUNS_NAMED:
        return first_few(names, RUNS_NAMED - 1)
    return " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else names[0]


def decisive(pair: Pair, report: Report) -> str:
    """The figures of the measure that decides."""
    name, unit, found = in_order(pair, report)[0]
    return f"{name[0].lower()}{name[1:]} {before_and_after(found, unit, report)}, {counted(found.n, 'prompt')}"


def against_first(report: Report) -> tuple[Sequence[Pair], Sequence[Pair]]:
    """The pairs with the first run, and the others."""
    first, pairs = report.meta.runs[0], report.statistics.pairs
    return [pair for pair in pairs if pair.run_a == first], [pair for pair in pairs if pair.run_a != first]


# --- what is behind it --------------------------------------------------------------------------


class Line(NamedTuple):
    """One line on a pair: what it is about, and a clause on it."""

    title: str
    text: str


def details(pair: Pair, report: Report) -> list[Line]:
    """What is behind the verdict on two runs, the measure that decides first."""
    meta, trials = report.meta, report.meta.input_format == "trials"
    lines = [
        Line(name, before_and_after(found, unit, report)) for name, unit, found in in_order(pair, report) if found.n
    ]
    if pair.stopped:
        lines.append(
            Line(
                "Stopped", f"early: {STOPPED if pair.better else 'it is known to be at most slightly worse (--margin)'}"
            )
        )
    lines += [
        Line("Missing", f"{counted(len(ids), 'prompt')} that {label} lacks count as not passed")
        for label, ids in (meta.counted_as_failed or {}).items()
        if label in (pair.run_a, pair.run_b)
    ]
    if pair.better is None and pair.n and pair.run_a == meta.runs[0] and pair.interval and meta.margin is not None:
        shown = "is" if pair.interval.high <= meta.margin else "is not"
        lines.append(Line("Margin", f"{pair.run_b} {shown} shown to be at most {meta.margin * 100:g} points worse"))
    if pair.better is None and pair.n and not pair.stopped:
        lines.append(Line("To settle", to_settle(pair)))
    lines += [Line(name, times(found, unit, name.lower(), trials)) for name, unit, found in ratios(pair)]
    for found in report.preference.pairs if report.preference else ():
        if (found.run_a, found.run_b) == (pair.run_a, pair.run_b):
            lines.append(Line("Preferred", preference_words(found)))
    return lines


def in_order(pair: Pair, report: Report) -> list[Measure]:
    """The measures of a pair, the one that decides first, and pass^1 only if it is that."""
    found = [measure for measure in measures(pair) if measure.decides(report.meta.on) or measure.name != "pass^1"]
    return sorted(found, key=lambda measure: not measure.decides(report.meta.on))


def before_and_after(found: Difference, unit: Unit, report: Report) -> str:
    """Both means, the change from the earlier to the later run, its interval and p value."""
    if not found.n or found.change is None:
        return "no prompt has a value in both"
    show = SHOW[unit]
    text = f"{show(found.mean_a or 0.0)} → {show(found.mean_b or 0.0)}, {points(found.change)}"
    if found.change_interval is not None:
        low, high = (points(bound).removesuffix(" points") for bound in found.change_interval)
        text += f" (95% interval {low} to {high})"
    if found.adjusted_p is not None:
        text += f", {p_text(found.adjusted_p)}{' adjusted' * (len(report.statistics.pairs) > 1)}"
    return text


def points(difference: float | None) -> str:
    """A difference in points of a hundred, with its sign; a dash if it is not known."""
    return "–" if difference is None else f"{difference * 100:+z.1f} points"


def p_text(p: float | None) -> str:
    """A p value with its sign: `p 0.013`; a tiny one is never 0."""
    return "" if p is None else f"p {p:.2g}" if p >= LEAST_P else f"p < {LEAST_P:g}"


def to_settle(found: Difference) -> str:
    """How many prompts would show a difference of the size seen, and what these many would show."""
    least, needed = found.minimum_detectable_difference, found.prompts_needed
    if least is None and found.n < FEWEST:
        return (
            f"{counted(found.n, 'prompt')} cannot show a difference, even if all change in the same direction: "
            f"at least {FEWEST} are needed"
        )
    prompts = counted(found.n, "prompt")
    shows = f"{prompts} detect only differences of {least * 100:.1f} points or more (80% power)" if least else ""
    shows = shows or f"{prompts} are too few to detect any difference (80% power)"
    if not found.change:
        return shows
    seen = f"the {points(found.change)} seen"
    if needed is None:
        return f"{seen} are too small to show with any number of prompts; {shows}"
    if needed <= found.n:
        return shows
    about = f"{round(needed, 2 - len(str(needed))):,} prompts"
    return f"if {seen} are real (they may be chance), about {about} would show them (80% power); {shows}"


def times(found: Ratio, unit: Unit, what: str, trials: bool) -> str:
    """Both means, and how many times the earlier run's the later run's is; first of all if no difference is shown.

    Without an interval, as when the ratio is the same for every prompt, many prompts say neither.
    """
    show = SHOW[unit]
    text = f"{show(found.mean_a or 0.0)} → {show(found.mean_b or 0.0)} a {'trial' if trials else 'prompt'}"
    text += f", {'geometric mean ' if unit == 'ms' else ''}{1 / (found.ratio or 1):.2f} x"
    shown = False
    if found.interval and found.interval.low > 0:
        low, high = 1 / found.interval.high, 1 / found.interval.low
        text += f" (95% interval {low:.2f} to {high:.2f})"
        shown = not low <= 1 <= high
    elif found.n >= FEWEST and found.ratio not in (None, 1.0):
        text, shown = f"{text} (no interval)", True
    text += ", estimated at list prices" if found.estimated else ""
    return text if shown else f"no difference in {what} shown: {text}"


def dropped(found: Separation) -> str:
    """Which prompts can be left out of the next run, and why, in a sentence."""
    tell_nothing = len(found.never_pass) + len(found.always_pass)
    if not tell_nothing:
        return "Every prompt passes in some runs or some of the time."
    which = f"never passed by any run: {len(found.never_pass):,}; always by every run: {len(found.always_pass):,}"
    return f"Consider dropping {counted(tell_nothing, 'prompt')} that cannot tell the runs apart ({which})."


# --- the comparison grader ----------------------------------------------------------------------


def decide_by_preference(pairs: Sequence[Pair], found: Preference) -> None:
    """Where no prompt is graded in both, the preference is the verdict."""
    for pair, preferred in zip(pairs, found.pairs, strict=True):
        if not pair.n and preferred.n:
            pair.better, pair.verdict = preferred.better, outcome_words(preferred.n, preferred.better)


def preference_words(pair: PreferredRun) -> str:
    """How often the comparison grader preferred each, the winner first."""
    if not pair.n:
        return "the comparison grader ranked no prompt"
    a, b = (pair.run_a, pair.a_wins), (pair.run_b, pair.b_wins)
    (first, wins), (second, losses) = (b, a) if pair.better == pair.run_b else (a, b)
    claim = f"the comparison grader prefers {first}" if pair.better else "the comparison grader prefers neither"
    counts = f"{first} on {wins}, {second} on {losses} of {counted(pair.n, 'prompt')}, {counted(pair.ties, 'tie')}"
    return f"{claim}: {counts} (sign test, {p_text(pair.adjusted_p)}{' adjusted' * (pair.adjusted_p != pair.p)})"


# --- the gate -----------------------------------------------------------------------------------


class GateSettings(NamedTuple):
    """What a run must be: not shown to be worse, and with `proof` shown to be at most `meta.margin` worse."""

    proof: bool = False
    min_compared: float = 0.9


def gate_reasons(report: Report, settings: GateSettings) -> list[str]:
    """The reasons for which a run does not pass the gate against the first one, one sentence each.

    The gate is the headline: it fails where a run is worse, or where nothing could have been shown. Where only a
    comparison grader has seen the runs, its preference decides.
    """
    pairs, _ = against_first(report)
    preference = report.preference
    if preference and any(pair.n for pair in preference.pairs) and not any(pair.n for pair in report.statistics.pairs):
        return preference_gate(preference, report.meta.runs[0], report.meta.prompt_count, settings)
    graded = report.statistics.runs[report.meta.runs[0]].graded_prompts
    if reasons := [reason for pair in pairs if (reason := too_little(pair, graded, report, settings.min_compared))]:
        return reasons
    margin = report.meta.margin or 0.0
    for pair in pairs:
        if pair.better == pair.run_a:
            reasons.append(f"{claim(pair)}: {decisive(pair, report)}")
        elif settings.proof and pair.interval and pair.interval.high > margin:
            proof = f"at most {margin * 100:g} points worse than {pair.run_a}"
            reasons.append(f"{pair.run_b} is not shown to be {proof}: {decisive(pair, report)}")
    return reasons


def too_little(pair: Pair, graded: int, report: Report, share: float) -> str:
    """Why nothing can be concluded, if too few prompts of the first run are compared; else an empty text."""
    start = f"{pair.run_b} cannot be compared with {pair.run_a}"
    if not graded:
        return f"{start}: no prompt of {pair.run_a} is graded"
    if not pair.n:
        return f"{start}: {pair.verdict}"
    if pair.stopped:
        return ""  # it was stopped because enough was known
    if pair.n < share * graded - 1e-9:
        return (
            f"{start}: only {pair.n} of the {graded} prompts graded in {pair.run_a} are "
            f"graded in both ({pair.n / graded:.1%}, and --min-compared requires {share:.0%})"
        )
    fewest, units = fewest_prompts(len(report.statistics.pairs)), min(pair.n, report.meta.clusters or pair.n)
    if units < fewest:
        noun = "cluster" if units < pair.n else "prompt"
        return f"{start}: {counted(units, noun)} cannot show a difference, even if all change; {fewest} are needed"
    return ""


def fewest_prompts(tests: int, exact: bool = False) -> int:
    """How many prompts are needed for a clean sweep to be significant: its p is 2**-n, of the exact test twice that."""
    return math.floor(math.log2(tests / SIGNIFICANT)) + 1 + exact


def preference_gate(found: Preference, first: str, prompts: int, settings: GateSettings) -> list[str]:
    """The reasons for which a run does not pass the gate where only a comparison grader has seen the runs."""
    reasons, fewest = [], fewest_prompts(len(found.pairs), exact=True)
    for pair in found.pairs:
        if pair.run_a != first:
            continue
        words = preference_words(pair)
        if pair.n < max(1, settings.min_compared * prompts - 1e-9):
            reasons.append(f"{pair.run_b} cannot be compared with {first}: {pair.n} of {prompts} prompts are ranked")
        elif pair.n < fewest:
            ranked = f"{counted(pair.n, 'ranked prompt')} cannot show a difference"
            reasons.append(f"{pair.run_b} cannot be compared with {first}: {ranked}; at least {fewest} are needed")
        elif pair.better == first:
            reasons.append(f"{pair.run_b} is worse than {first}: {words}")
        elif settings.proof and pair.better != pair.run_b:
            reasons.append(f"{pair.run_b} is not shown to be better than {first}: {words}")
    return reasons
