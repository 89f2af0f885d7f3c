"""`python -m tests.agent_rig.run_scenarios AGENT SCENARIO …` runs an installed agent and prints its problems."""

from __future__ import annotations

import json
import signal
import sys
import time

from tests.agent_rig.catalogue import AGENTS
from tests.agent_rig.isolation import inside, raise_loopback
from tests.agent_rig.runner import problems_of
from tests.agent_rig.scenarios import SCENARIOS


def main(name: str, scenarios: list[str]) -> None:
    """Runs the scenarios one after the other; reports each on stderr when it ends."""
    # Shells start background jobs with SIGINT ignored, and children inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if inside():
        raise_loopback()
    found = {}
    for scenario in scenarios:
        began = time.monotonic()
        found[scenario] = problems_of(AGENTS[name], SCENARIOS[scenario])
        verdict = "; ".join(found[scenario]) or "pass"
        print(f"{name:16}{scenario:14}{time.monotonic() - began:6.1f} s  {verdict}", file=sys.stderr, flush=True)
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
