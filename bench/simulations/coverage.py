"""How often the intervals of the suite hold, how often it is wrong, and how much it sees: simulated evaluations.

`make coverage` runs all of them (about ten minutes of processor time) and writes the tables of docs/statistics.md. It
exits 1 and says which goal is missed, if one is by more than the noise of the simulation itself.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from multiprocessing import get_context
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple
from unittest.mock import patch

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from agenteval.comparison import comparison, figures, pairing
from agenteval.wire.comparison import HeadToHead, RunRanking, TrialsHeadToHead
from agenteval.wire.differences import Resources
from bench.simulations import history_check, interval_check, judge_check, plan_check, stop_check, verdict_check
from bench.simulations.goals import BETTER, FEW, GATE, MOST, Miss, event_misses, interval_misses
from bench.simulations.simulation import Counts, Scenario, repeat

__all__ = ["Counts", "Scenario", "main", "repeat"]

SEED = 13
REPETITIONS = 1000
PAGE = Path(__file__).resolve().parents[2] / "docs" / "statistics.md"
SIZES = (10, 30, 100)
INTERVALS = [
    *[Scenario(n, mean=mean, factor=0.9, cost=1.5) for n in (10, 30, 100) for mean in (0.6, 0.8, 0.95)],
    *[Scenario(1000, continuous=continuous, mean=0.7, factor=0.9, cost=1.5) for continuous in (False, True)],
    *[Scenario(n, continuous=True, mean=0.7, factor=0.9, cost=1.5) for n in (10, 30, 100)],
    *[Scenario(n, k=k, mean=0.8, factor=0.9, cost=1.5) for n in (10, 30, 100) for k in (3, 10)],
    Scenario(300, k=3, mean=0.8, factor=0.9, cost=1.5),
    *[Scenario(n, k=3, mean=mean, spread=0.5, factor=0.9) for n in (10, 30, 100) for mean in (0.5, 0.8)],
    *[Scenario(n, k=10, mean=0.9, spread=1.0, factor=0.9) for n in (10, 30, 100)],
    *[Scenario(n, k=5, continuous=True, mean=0.7, factor=0.9) for n in (10, 30, 100)],
    *[Scenario(n, k=3, other_k=10, factor=0.9) for n in (10, 30, 100)],
    *[Scenario(n, k=k, clustered=True, mean=0.7, factor=0.9) for n in (100, 300) for k in (0, 3)],
]
UNCHANGED = [
    *[Scenario(n, mean=mean) for n in (*SIZES, 14, 300) for mean in (0.7, 0.9)],
    Scenario(300, k=3),
    *[Scenario(n, k=k, mean=mean) for n in SIZES for k in (3, 10) for mean in (0.7, 0.9)],
    *[Scenario(n, k=3, mean=mean, spread=0.5) for n in SIZES for mean in (0.7, 0.9)],
    *[Scenario(n, k=3, other_k=10) for n in SIZES],
    *[Scenario(n, continuous=True) for n in SIZES],
    *[Scenario(n, clustered=True) for n in (30, 100)],
    *[
        Scenario(n, runs=runs, continuous=continuous)
        for n in (14, 100)
        for runs in (3, 5)
        for continuous in (False, True)
    ],
    *[Scenario(n, k=3, runs=runs) for n in (14, 100) for runs in (3, 5)],
]
WORSE = [Scenario(n, k=k, factor=0.85) for n in (30, 100, 300) for k in (0, 3)]

EVENTS = ("better", "gate")

Found = list[tuple[Scenario, Counts]]
StartPart = Callable[["Settings", Any], Callable[[], "Part"]]
"""Starts what a part measures in a pool of processes, and returns what waits for its tables."""


class Settings(NamedTuple):
    """How much is simulated."""

    seed: int
    repetitions: int
    bootstrap: int


class Part(NamedTuple):
    """The tables of one part of the page, and the goals that are missed."""

    name: str
    text: str
    misses: list[Miss]


# --- running ------------------------------------------------------------------------------------


def measure(task: tuple[Scenario, int, int, int]) -> Counts:
    """One scenario; what has no interval, or no part in a verdict where only these count, is left out to save time."""
    left_out: list[tuple[ModuleType, str, Any]] = [
        (comparison, "head_to_head", HeadToHead(prompts=[], pairwise=[])),
        (comparison, "trials_head_to_head", (TrialsHeadToHead(capability=[], reliability=[], overall=[]), [])),
    ]
    if not task[0].timed:
        left_out += [(figures, name, None) for name in ("capability", "trial_reliability", "flakiness", "performance")]
        no_ranking = RunRanking(measure="", headline="", runs=[], front=None, prompts=[])
        left_out.append((comparison, "ranking_of", no_ranking))
        left_out.append((pairing, "resources", Resources(latency=None, tokens=None, cost=None)))
    with ExitStack() as stack:
        for module, name, instead in left_out:
            stack.enter_context(patch.object(module, name, lambda *_args, instead=instead, **_options: instead))
        return repeat(*task)


def run_all(scenarios: Sequence[Scenario], settings: Settings, pool: Any) -> Callable[[], Found]:
    """Starts all scenarios, and returns what waits for them; the mean latency only where runs take different times."""
    tasks = [
        (scenario, settings.seed + number, settings.repetitions, settings.bootstrap if scenario.cost != 1 else 0)
        for number, scenario in enumerate(scenarios)
    ]
    running = pool.map_async(measure, tasks, chunksize=1)
    return lambda: list(zip(scenarios, running.get(), strict=True))


# --- tables -------------------------------------------------------------------------------------


def coverage_table(found: Found, repetitions: int) -> Iterator[str]:
    """For each interval and number of prompts: the share that held over all kinds, and in the lowest and highest."""
    cells: dict[str, dict[int, list[Counts]]] = {}
    for scenario, counts in found:
        for name, total in counts.intervals.items():
            if total >= repetitions / 2:  # of few prompts, p90 has no interval
                cells.setdefault(name, {}).setdefault(scenario.n, []).append(counts)
    sizes = sorted({n for by_size in cells.values() for n in by_size})
    yield "| interval of | " + " | ".join(f"n = {n}" for n in sizes) + " |"
    yield "|---" * (len(sizes) + 1) + "|"
    for name in sorted(cells):
        yield f"| {name} | {' | '.join(_coverage(name, n, cells[name].get(n, [])) for n in sizes)} |"


def _coverage(name: str, n: int, kinds: Sequence[Counts]) -> str:
    shares = [counts.share(name) for counts in kinds]
    forced = any(share > MOST and counts.one_sided(name) for share, counts in zip(shares, kinds, strict=True))
    return spread(shares) + (" †" if forced and n >= FEW else "")


def spread(shares: Sequence[float]) -> str:
    """The mean share, with the lowest and the highest if they are of several kinds."""
    if not shares:
        return "–"
    middle = f"{sum(shares) / len(shares):.1%}"
    return middle if len(shares) == 1 else f"{middle} ({min(shares):.1%} to {max(shares):.1%})"


def events_table(found: Found, repetitions: int) -> Iterator[str]:
    """For each kind of evaluation of an unchanged agent: how often it is wrong, over numbers of prompts."""
    rows: dict[tuple[str, int], list[Counts]] = {}
    for scenario, counts in found:
        rows.setdefault((scenario.name, scenario.runs), []).append(counts)
    yield "| unchanged agent | runs | one called better | `--fail-if-worse` exits 1 |"
    yield "|---|---:|---:|---:|"
    for (name, runs), counted in rows.items():
        shown = [spread([counts.events[event] / repetitions for counts in counted]) for event in EVENTS]
        yield f"| {name} | {runs} | {' | '.join(shown)} |"
    for runs in sorted({scenario.runs for scenario, _ in found}):
        of = [counts for scenario, counts in found if scenario.runs == runs]
        shown = [f"{sum(counts.events[event] for counts in of) / len(of) / repetitions:.1%}" for event in EVENTS]
        yield f"| all | {runs} | {' | '.join(shown)} |"


def power_table(found: Found, repetitions: int) -> Iterator[str]:
    """How often a run that passes 15% less often is found."""
    yield "| worse agent | prompts | one called better | `--fail-if-worse` exits 1 |"
    yield "|---|---:|---:|---:|"
    for scenario, counts in found:
        shown = [f"{counts.events[event] / repetitions:.1%}" for event in EVENTS]
        yield f"| {scenario.name} | {scenario.n} | {' | '.join(shown)} |"


# --- parts --------------------------------------------------------------------------------------


def comparisons(settings: Settings, pool: Any) -> Callable[[], Part]:
    """Intervals, false alarms and power of ae-compare."""
    untimed = [scenario._replace(timed=False) for scenario in (*UNCHANGED, *WORSE)]
    fewer = settings._replace(repetitions=max(1, settings.repetitions // 2))  # there are many kinds
    finish = run_all([*INTERVALS, *untimed], fewer, pool)
    return lambda: comparisons_part(finish(), fewer)


def comparisons_part(found: Found, settings: Settings) -> Part:
    """The tables of whole comparisons."""
    repetitions = settings.repetitions
    first = len(INTERVALS) + len(UNCHANGED)
    intervals, unchanged, worse = found[: len(INTERVALS)], found[len(INTERVALS) : first], found[first:]
    off = 200 * (0.05 * 0.95 / repetitions) ** 0.5
    lines = [
        f"{len(found)} kinds of evaluation were simulated {repetitions:,} times each, with seed {settings.seed}.",
        f"In 19 of 20 cases, chance moves the share for one kind by at most {off:.1f} points. How often a 95% interval",
        "contains the true value, on average over all kinds, with the lowest and the highest share of any kind in",
        "brackets:",
        "",
        *coverage_table(intervals, repetitions),
        "",
        "†: where the share is above 98%, the true value is so near 0 or 1 that the interval hardly ever misses it on",
        "one side: even if every prompt passes, the interval contains it.",
        "",
        "The same agent is run two or more times, on 10 to 300 prompts. How often one of the runs is wrongly called",
        "better, and how often `--fail-if-worse` stops the build without cause:",
        "",
        *events_table(unchanged, repetitions),
        "",
        "How often a worse agent, with a pass rate of 68% instead of 80%, is detected:",
        "",
        *power_table(worse, repetitions),
    ]
    misses = [*interval_misses(intervals, repetitions), *event_misses(unchanged, repetitions, BETTER, GATE)]
    return Part("comparisons", "\n".join(lines), misses)


def checked(name: str, tables: Callable[[int], tuple[list[str], list[Miss]]]) -> StartPart:
    """A part that is measured by itself, with seeds of its own."""

    def start(settings: Settings, pool: Any) -> Callable[[], Part]:
        running = pool.apply_async(tables, (settings.repetitions,))

        def finish() -> Part:
            lines, misses = running.get()
            return Part(name, "\n".join(lines), misses)

        return finish

    return start


def intervals(settings: Settings, pool: Any) -> Callable[[], Part]:
    """Intervals where values belong together, counts differ or few values decide."""
    tasks = interval_check.tasks(settings.repetitions, settings.seed)
    running = pool.map_async(interval_check.measure, tasks, chunksize=1)

    def finish() -> Part:
        lines, misses = interval_check.tables(tasks, running.get())
        return Part("intervals", "\n".join(lines), misses)

    return finish


def histories(settings: Settings, pool: Any) -> Callable[[], Part]:
    """Changes that ae-history finds, and those that it shows although nothing changed."""
    running = pool.map_async(history_check.measure, history_check.tasks(settings.repetitions), chunksize=1)

    def finish() -> Part:
        lines, misses = history_check.tables(settings.repetitions, running.get())
        return Part("histories", "\n".join(lines), misses)

    return finish


PARTS: dict[str, StartPart] = {
    "judges": checked("judges", judge_check.tables),
    "plans": checked("plans", plan_check.tables),
    "stops": checked("stops", stop_check.tables),
    "histories": histories,
    "intervals": intervals,
    "verdicts": checked("verdicts", verdict_check.tables),
    "comparisons": comparisons,
}


def write_part(part: Part) -> None:
    """Writes the tables between the marks of the part in docs/statistics.md."""
    begin, end = f"<!-- make coverage: {part.name} -->", f"<!-- end of {part.name} -->"
    before, found, rest = PAGE.read_text().partition(begin)
    _, closed, after = rest.partition(end)
    if not found or not closed:
        raise SystemExit(f"{PAGE}: {begin} or {end} is missing")
    PAGE.write_text(f"{before}{begin}\n{part.text}\n{end}{after}")


def main() -> int:
    """Prints the tables and the goals that are missed; `--write` puts the tables into the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], help="what to measure; all, if none is named")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--repetitions", type=int, default=REPETITIONS)
    parser.add_argument("--bootstrap", type=int, default=400, help="resamples of the interval of the mean latency")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--write", action="store_true", help="write the tables into docs/statistics.md")
    options = parser.parse_args()
    settings = Settings(options.seed, options.repetitions, options.bootstrap)
    misses = []
    started = time.monotonic()
    with get_context("fork").Pool(options.workers) as pool:
        for finish in [PARTS[name](settings, pool) for name in options.parts or PARTS]:
            part = finish()
            print(f"{part.text}\n")
            print(f"{part.name}: after {time.monotonic() - started:.0f} s", file=sys.stderr)
            if options.write:
                write_part(part)
            misses += part.misses
    for miss in misses:
        print(f"coverage: missed: {miss}", file=sys.stderr)
    return 1 if misses else 0


if __name__ == "__main__":
    sys.exit(main())
