"""`python -m tests.chaos`: performs rounds, prints how many and their seed, and what repeats a failed one."""

from __future__ import annotations

import argparse
import compileall
import importlib.util
import os
import random
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from tests.chaos.faults import may_mount
from tests.chaos.matrix import KINDS, PATHS, UNTOUCHED, check
from tests.chaos.plan import Plan, draw
from tests.chaos.rounds import Round, keep, report, round_folder, run_round
from tests.support.signals import heed_signals
from tests.support.tool import ROOT

MOST_SHOWN = 20
FAILED, LATE = "failed", "inconclusive because Ray did not start in time"


def main() -> int:
    """Returns 0 if every round held, else 1, also if Ray is installed and never started."""
    options = _parse()
    heed_signals()
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(1 << 32)
    numbers = [options.round] if options.round is not None else list(range(1, options.rounds + 1))
    ray = importlib.util.find_spec("ray") is not None
    disk = "a small tmpfs" if may_mount() else "RLIMIT_FSIZE only (a small tmpfs needs root)"
    print(f"seed {seed}; {len(numbers)} rounds; full disk: {disk}; ae-ray: {'yes' if ray else 'not installed'}")
    compileall.compile_dir(ROOT / "agenteval", quiet=2)  # a tool with a limit on files would leave it half compiled
    began, count = time.monotonic(), Counter[str]()
    base = Path(tempfile.mkdtemp(prefix="ae-"))
    base.chmod(0o755)
    if options.round is None:
        count[FAILED] += _matrix(base, options.jobs)
    plans = [draw(seed, number, ray=ray) for number in numbers]
    # A Ray cluster takes seconds of all CPUs to start, and gives up if it does not get them: these rounds come alone.
    for shape_is_ray, jobs in ((True, 1), (False, options.jobs)):
        chosen = [plan for plan in plans if (plan.shape == "ray") == shape_is_ray]
        with ThreadPoolExecutor(jobs) as pool:
            for this in pool.map(lambda plan: _perform(plan, base), chosen):
                _tell(this, count, verbose=options.verbose)
    with suppress(OSError):  # the directories of failed rounds stay
        base.rmdir()
    minutes = (time.monotonic() - began) / 60
    late = f", {count[LATE]} {LATE}" if count[LATE] else ""
    print(f"{len(numbers)} rounds, {count[FAILED]} failed{late}, {minutes:.1f} minutes, seed {seed}")
    faults = Counter(name for plan in plans for name in plan.faults)
    print("faults: " + ", ".join(f"{name} {times}" for name, times in faults.most_common()))
    if count[LATE] and count[LATE] == sum(plan.shape == "ray" for plan in plans):
        print("ae-ray came to no result in any round: see whether Ray starts at all (make test-cluster)")
        return 1
    return 1 if count[FAILED] else 0


def _matrix(base: Path, jobs: int) -> int:
    """Performs every cell of the fault matrix; returns how many did not hold."""
    cells = [(name, kind) for name in PATHS for kind in (UNTOUCHED, *KINDS)]
    failed = 0

    def perform(cell: tuple[str, str]) -> list[str]:
        with tempfile.TemporaryDirectory(prefix="cell-", dir=base, ignore_cleanup_errors=True) as folder:
            return check(cell[0], cell[1], Path(folder))

    with ThreadPoolExecutor(jobs) as pool:
        for (name, kind), problems in zip(cells, pool.map(perform, cells), strict=True):
            failed += bool(problems)
            for problem in problems:
                print(f"{name}, {kind}: {problem}", flush=True)
    print(f"{len(cells)} cells of the fault matrix, {failed} failed", flush=True)
    return failed


def _tell(this: Round, count: Counter[str], *, verbose: bool) -> None:
    """Counts a round, and prints what is to be said of it."""
    number = this.plan.number
    count["done"] += 1
    if this.problems:
        count[FAILED] += 1
        print(report(this) if count[FAILED] <= MOST_SHOWN else f"round {number} FAILED", flush=True)
    elif this.inconclusive:
        count[LATE] += 1
        print(f"round {number}: {LATE}; nothing is left of it", flush=True)
    elif verbose:
        print(f"round {number} in {this.seconds:.0f} s: {this.plan.name}", flush=True)
    if count["done"] % 50 == 0:
        print(f"{count['done']} rounds, {count[FAILED]} failed", flush=True)


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--rounds", type=int, default=500)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--round", type=int, help="only this one")
    parser.add_argument(
        "--jobs", type=int, default=3 * (os.cpu_count() or 1), help="rounds at a time; they mostly wait"
    )
    parser.add_argument("--verbose", action="store_true")
    return parser.parse_args()


def _perform(plan: Plan, base: Path) -> Round:
    """Performs a round; the directory of a failed one stays."""
    began = time.monotonic()
    with round_folder(base, plan.number) as folder:
        this = run_round(plan, folder)
        this.seconds = time.monotonic() - began
        if this.problems:
            keep(this)
        return this


if __name__ == "__main__":
    sys.exit(main())
