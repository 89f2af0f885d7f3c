"""`python -m agent_rig.inside AGENT SCENARIO …`: run an installed agent; what was wrong, by scenario, on stdout."""

from __future__ import annotations

import json
import signal
import sys
import time

from agent_rig.catalogue import AGENTS
from agent_rig.isolation import inside, raise_loopback
from agent_rig.scenarios import SCENARIOS
from agent_rig.trying import problems_of


def main(name: str, scenarios: list[str]) -> None:
    """Run the scenarios one after the other; each is told on stderr as it ends."""
    signal.signal(
        signal.SIGINT, signal.default_int_handler
    )  # a shell's background job has it ignored, and so its children
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
