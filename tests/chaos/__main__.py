"""`python -m tests.chaos`: performs rounds, prints how many and their seed, and what repeats a failed one."""

from __future__ import annotations

import argparse
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
from tests.chaos.plan import Plan, draw
from tests.chaos.rounds import report, round_folder, run_round

MOST_SHOWN = 20


def main() -> int:
    """Returns 0 if every round held, else 1."""
    options = _parse()
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(1 << 32)
    numbers = [options.round] if options.round is not None else list(range(1, options.rounds + 1))
    ray = importlib.util.find_spec("ray") is not None
    disk = "a small tmpfs" if may_mount() else "RLIMIT_FSIZE only (a small tmpfs needs root)"
    print(f"seed {seed}; {len(numbers)} rounds; full disk: {disk}; ae-ray: {'yes' if ray else 'not installed'}")
    began, failed, faults = time.monotonic(), 0, Counter[str]()
    base = Path(tempfile.mkdtemp(prefix="ae-"))
    base.chmod(0o755)
    with ThreadPoolExecutor(options.jobs) as pool:
        plans = [draw(seed, number, ray=ray) for number in numbers]
        for plan, problem in zip(plans, pool.map(lambda plan: _perform(plan, base), plans), strict=True):
            faults.update(plan.faults)
            if problem:
                failed += 1
                print(problem if failed <= MOST_SHOWN else f"round {plan.number} FAILED", flush=True)
            elif plan.number % 50 == 0 or options.verbose:
                print(f"round {plan.number}: {plan.name if options.verbose else 'all well so far'}", flush=True)
    with suppress(OSError):  # the directories of failed rounds stay
        base.rmdir()
    minutes = (time.monotonic() - began) / 60
    print(f"{len(numbers)} rounds, {failed} failed, {minutes:.1f} minutes, seed {seed}")
    print("faults: " + ", ".join(f"{name} {count}" for name, count in faults.most_common()))
    return 1 if failed else 0


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


def _perform(plan: Plan, base: Path) -> str | None:
    """Returns what went wrong in a round."""
    with round_folder(base, plan.number) as folder:
        this = run_round(plan, folder)
        if this.inconclusive:
            print(f"round {plan.number}: inconclusive, as Ray did not start in time", flush=True)
        return report(this) if this.problems else None


if __name__ == "__main__":
    sys.exit(main())
