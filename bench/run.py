"""`make bench`: the suite beside the seed's harness, xargs and the orjson floor, as a table of ratios."""

from __future__ import annotations

import argparse
import os
import resource
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from bench import contestants, measure, table
from bench.measure import Broken
from bench.rows import ROWS
from bench.setting import Setting
from bench.table import Finding

NOTE = """
measured  ours over theirs, by the clock: the median of the rounds' ratios (smallest–largest)
cpu       the same of processor time, which other work on the machine disturbs less
peak MB   resident, ours / theirs: the largest of the process and of all it waited for, not their sum (the
          guardian of ae-run and ae-grade is one of them, the graders it starts too); less than {own:.0f} MB
          cannot show: that is what the bench itself takes, and a child starts as its copy"""


def main() -> int:
    """Measure the rows asked for; 1 when a goal was not met or a row could not be measured."""
    options = _options()
    measure.verbose = options.verbose
    setting = Setting(options.repeat, options.quick, options.large)
    for problem in contestants.missing():
        print(f"bench: {problem}: measured without it", file=sys.stderr)
    print(table.heading())
    findings = [finding for name in options.rows or ROWS for finding in _measure(name, setting)]
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(NOTE.format(own=own))
    goals = [finding.met for finding in findings if finding.met is not None]
    print(f"\n{sum(goals)} of {len(goals)} goals met")
    return 0 if all(goals) else 1


def _measure(name: str, setting: Setting) -> list[Finding]:
    findings = []
    try:
        for finding in ROWS[name](setting):
            print(table.show(finding), flush=True)
            findings.append(finding)
    except Broken as error:
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
    parser.add_argument("--repeat", type=int, default=5, metavar="N", help="rounds; the median counts (5)")
    parser.add_argument("--quick", action="store_true", help="a tenth of the sizes")
    parser.add_argument("--large", action="store_true", help="extract: the memory at 400 MB too")
    parser.add_argument("-v", "--verbose", action="store_true", help="every single run on stderr")
    options = parser.parse_args()
    if unknown := [name for name in options.rows if name not in ROWS]:
        parser.error(f"no row is called {unknown[0]}; there are {', '.join(ROWS)}")
    if options.repeat < 1:
        parser.error("--repeat must be at least 1")
    return options


def _summary(name: str) -> str:
    module = sys.modules[ROWS[name].__module__]
    return (module.__doc__ or "").split("\n")[0]


if __name__ == "__main__":
    sys.exit(main())
