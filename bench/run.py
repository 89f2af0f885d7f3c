"""`make bench`: measures the suite against its peers, xargs, jq and bare orjson, and prints a table of ratios."""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from bench import baselines, curves, measure, peers, results, table
from bench.measure import JobFailed
from bench.rows import ROWS, container, ray
from bench.setting import Setting
from bench.table import Finding

NOTE = """
measured  wall-clock time, ours / theirs: median of the rounds' ratios ± two standard errors, ratio of the shortest
          times, (smallest–largest)
met       NO: both median and ratio of the shortest times miss the goal by more than the ±, and the exit status is 1;
          noise: the median misses the goal by less
cpu       the same ratio of CPU time, which is less sensitive to other load on the machine
peak MB   peak resident memory, ours / theirs: the largest single process among the tool and the children it
          waited for (the guardian of ae-run and ae-grade, graders), not their sum; values below {own:.0f} MB cannot
          appear, because a child starts as a copy of the bench process"""


def main() -> int:
    """Measures the requested rows; returns 1 if one missed a goal by more than the noise, or could not be measured."""
    options = _options()
    measure.verbose = options.verbose
    setting = Setting(options.repeat, options.quick, options.large)
    wanted = options.rows or list(ROWS)
    here, missing = results.machine(), _missing(wanted)
    for problem in missing:
        print(f"bench: {problem}: its rows are skipped", file=sys.stderr)
    print(table.heading())
    findings: list[Finding] = []
    for name in [*wanted, *(["curves"] if options.curves else [])]:
        findings += _measure(name, setting)
        if options.write:  # after each row: what has been measured is kept if a later one is interrupted
            results.write(findings, setting, here, missing)
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(NOTE.format(own=own))
    print(f"\n{table.tally(findings)}")
    for finding in findings:
        if finding.verdict == "NO":
            print(f"missed: {finding.row}: {finding.what}: {finding.measured}, goal {finding.goal}")
    return exit_status(findings)


def _missing(wanted: list[str]) -> list[str]:
    """Returns one line for each program that some of the rows need and that is not here; installs what it can."""
    return [
        *baselines.missing(),
        *(peers.missing() if "peers" in wanted else ()),
        *(ray.missing() if "ray" in wanted else ()),
        *(container.missing() if "container" in wanted else ()),
    ]


def exit_status(findings: list[Finding]) -> int:
    """Returns 1 if a goal was missed by more than the noise."""
    return 1 if any(finding.verdict == "NO" for finding in findings) else 0


def _measure(name: str, setting: Setting) -> list[Finding]:
    findings = []
    try:
        for finding in (ROWS | {"curves": curves.draw})[name](setting):
            print(table.show(finding), flush=True)
            findings.append(finding)
    except (JobFailed, OSError, ValueError, LookupError, subprocess.SubprocessError) as error:
        print(f"bench: {name}: {type(error).__name__}: {error}", file=sys.stderr)
        findings.append(Finding(name, "could not be measured", "-", verdict="NO"))
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
    parser.add_argument(
        "--curves", action="store_true", help="draw docs/bench-*.svg: 1 000 to 1 000 000 records, -j 1 to 500"
    )
    parser.add_argument("--write", action="store_true", help="write all figures to bench/results.json")
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
