"""`make bench`: measures the suite against agent-eval-harness, xargs and bare orjson, and prints a table of ratios."""

from __future__ import annotations

import argparse
import os
import resource
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from bench import baselines, measure, table
from bench.measure import JobFailed
from bench.rows import ROWS
from bench.setting import Setting
from bench.table import Finding

NOTE = """
measured  wall-clock time, ours / theirs: median of the rounds' ratios, ratio of the shortest times, (smallest–largest)
met       `noise`: the median misses the goal, but at least one round met it; only NO makes the exit status 1
cpu       the same ratio of CPU time, which is less sensitive to other load on the machine
peak MB   peak resident memory, ours / theirs: the largest single process among the tool and the children it
          waited for (the guardian of ae-run and ae-grade, graders), not their sum; values below {own:.0f} MB cannot
          appear, because a child starts as a copy of the bench process"""


def main() -> int:
    """Measures the requested rows; returns 1 if a goal was not met or a row could not be measured."""
    options = _options()
    measure.verbose = options.verbose
    setting = Setting(options.repeat, options.quick, options.large)
    for problem in baselines.missing():
        print(f"bench: {problem}: its rows are skipped", file=sys.stderr)
    print(table.heading())
    findings = [finding for name in options.rows or ROWS for finding in _measure(name, setting)]
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(NOTE.format(own=own))
    goals = [finding.met for finding in findings if finding.met is not None]
    noisy = sum(finding.noisy for finding in findings)
    print(f"\n{sum(goals)} of {len(goals) + noisy} goals met, {noisy} missed by less than the noise")
    return 0 if all(goals) else 1


def _measure(name: str, setting: Setting) -> list[Finding]:
    findings = []
    try:
        for finding in ROWS[name](setting):
            print(table.show(finding), flush=True)
            findings.append(finding)
    except JobFailed as error:
        print(f"bench: {name}: {error}", file=sys.stderr)
        findings.append(Finding(name, "could not be measured", "-", met=False))
    return findings


def _options() -> argparse.Namespace:
    listing = "\n".join(f"  {name:10}{_summary(name)}" for name in ROWS)
    parser = argparse.ArgumentParser(
        prog="bench/run.py",
        description=__doc__,
        epilog=f"rows:\n{listing}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("rows", nargs="*", metavar="ROW", help="rows to measure (all)")
    parser.add_argument("--repeat", type=int, default=5, metavar="N", help="rounds; the median is reported (5)")
    parser.add_argument("--quick", action="store_true", help="use a tenth of the data")
    parser.add_argument("--large", action="store_true", help="extract: also measure memory at 400 MB")
    parser.add_argument("-v", "--verbose", action="store_true", help="print every single run on stderr")
    options = parser.parse_args()
    if unknown := [name for name in options.rows if name not in ROWS]:
        parser.error(f"unknown row {unknown[0]}; rows: {', '.join(ROWS)}")
    if options.repeat < 1:
        parser.error("--repeat must be at least 1")
    return options


def _summary(name: str) -> str:
    module = sys.modules[ROWS[name].__module__]
    return (module.__doc__ or "").split("\n")[0]


if __name__ == "__main__":
    sys.exit(main())
