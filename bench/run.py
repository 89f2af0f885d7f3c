"""`make bench`: measures the suite against its peers, xargs, jq and bare orjson, and prints a table of ratios."""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
from datetime import UTC, datetime

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from bench import curves, findings, measure, programs
from bench.findings import Finding
from bench.measure import JobFailed
from bench.programs import ROOT
from bench.rows import ROWS, ray
from bench.setting import Setting

RESULTS = os.path.join(ROOT, "bench", "results.json")

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
    setting = Setting(options.repeat, options.quick)
    wanted = options.rows or list(ROWS)
    here, missing = _machine(), _missing(wanted)
    for problem in missing:
        print(f"bench: {problem}: its rows are skipped", file=sys.stderr)
    print(findings.heading())
    found: list[Finding] = []
    for name in [*wanted, *(["curves"] if options.curves else [])]:
        found += _measure(name, setting)
        if options.write:  # after each row: what has been measured is kept if a later one is interrupted
            _write(found, setting, here, missing)
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(NOTE.format(own=own))
    print(f"\n{findings.tally(found)}")
    for finding in found:
        if finding.verdict == "NO":
            print(f"missed: {finding.row}: {finding.what}: {finding.measured}, goal {finding.goal}")
    return exit_status(found)


def _missing(wanted: list[str]) -> list[str]:
    """Returns one line for each program that some of the rows need and that is not here; installs what it can."""
    return [
        *programs.missing_programs(),
        *(programs.missing_peers() if "peers" in wanted else ()),
        *(ray.missing() if "ray" in wanted else ()),
    ]


def exit_status(found: list[Finding]) -> int:
    """Returns 1 if a goal was missed by more than the noise."""
    return 1 if any(finding.verdict == "NO" for finding in found) else 0


def _measure(name: str, setting: Setting) -> list[Finding]:
    found = []
    try:
        for finding in (ROWS | {"curves": curves.draw})[name](setting):
            print(findings.show(finding), flush=True)
            found.append(finding)
    except (JobFailed, OSError, ValueError, LookupError, subprocess.SubprocessError) as error:
        print(f"bench: {name}: {type(error).__name__}: {error}", file=sys.stderr)
        found.append(Finding(name, "could not be measured", "-", verdict="NO"))
    return found


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
    return (ROWS[name].__doc__ or "").split("\n")[0]


# --- results.json --------------------------------------------------------------------------------


def _write(found: list[Finding], setting: Setting, here: dict[str, object], missing: list[str]) -> None:
    """Writes the findings and the samples that they were computed from, on what machine, and what was not there."""
    document = {
        "date": datetime.now(UTC).date().isoformat(),
        "commit": _output("git", "-C", ROOT, "rev-parse", "--short", "HEAD"),
        "machine": here,
        "rounds": setting.repeat,
        "quick": setting.quick,
        "missing": missing,
        "findings": [{name: text for name, text in one._asdict().items() if text} for one in found],
        "runs": measure.measured,
    }
    with open(RESULTS, "w", encoding="utf-8") as file:
        json.dump(document, file, indent=1, ensure_ascii=False)
        file.write("\n")


def _machine() -> dict[str, object]:
    """Describes this machine: what the figures depend on."""
    with open("/proc/meminfo", encoding="ascii") as lines:
        memory = int(lines.readline().split()[1]) // (1 << 20)
    with open("/proc/loadavg", encoding="ascii") as file:
        load = float(file.read().split()[0])
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memoryGb": memory,
        "loadBefore": load,
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
    }


def _processor() -> str:
    with open("/proc/cpuinfo", encoding="utf-8") as lines:
        return next(
            (line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine()
        )


def _output(*argv: str) -> str:
    return subprocess.run(argv, capture_output=True, text=True).stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
