"""`make test-agents`: installs real agents one by one, runs the scenarios with each and writes docs/agents.md."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from datetime import date

from tests.agent_rig import table
from tests.agent_rig.catalogue import AGENTS, Agent
from tests.agent_rig.install import ROOT, SCRATCH, NotInstalled, install, node_programs
from tests.agent_rig.isolation import namespace_command
from tests.agent_rig.runner import RUNS
from tests.agent_rig.scenarios import SCENARIOS
from tests.agent_rig.table import Row

PAGE = ROOT / "docs" / "agents.md"
RESULTS = ROOT / "tests" / "agent_rig" / "results.json"


def main() -> int:
    """Returns 1 if an agent could not be run or a scenario failed."""
    options = _options()
    prefix = namespace_command()
    if not prefix:
        print("agent_rig: no network namespace (unshare -rn fails); running without isolation", file=sys.stderr)
    SCRATCH.mkdir(parents=True, exist_ok=True)
    good = True
    for choice in options.agents or AGENTS:
        name, _, version = choice.partition("@")
        row = _run_agent(AGENTS[name], version, options.scenario or list(SCENARIOS), prefix)
        good = good and not row.not_run and not any(row.problems.values())
        _store(row)
    print(PAGE.read_text("utf-8"))
    return 0 if good else 1


def _run_agent(agent: Agent, version: str, scenarios: list[str], prefix: list[str]) -> Row:
    """Returns the agent's row of the table; an agent that cannot be installed is reported in it."""
    row = Row(agent.name, version, str(date.today()), bool(prefix), sorted(agent.unreported), {}, left_out=agent.cannot)
    print(f"{agent.name:16}installing", file=sys.stderr, flush=True)
    try:
        node_programs()  # before the agent: npm uses it, and there is no network inside the namespace
        row = row._replace(version=install(agent, version))
    except (NotInstalled, OSError, subprocess.TimeoutExpired) as error:
        return row._replace(not_run=str(error))
    fitting = [name for name in scenarios if name not in agent.cannot]
    command = [*prefix, sys.executable, "-m", "tests.agent_rig.run_scenarios", agent.name, *fitting]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE)
    if done.returncode:
        return row._replace(not_run=f"tests.agent_rig.run_scenarios exited with code {done.returncode}")
    return row._replace(problems=json.loads(done.stdout.replace(str(RUNS).encode(), b"RUNS")))


def _store(row: Row) -> None:
    """Merges the row into those of earlier runs and rewrites the page."""
    rows = table.load(RESULTS)
    current = AGENTS[row.agent].version
    name = row.agent if row.version in ("", current) or row.version.startswith(f"{current}.") else row.label
    before = rows.get(name)
    if before and before.version == row.version and not row.not_run:
        both = {**before.problems, **row.problems}
        row = row._replace(problems={name: found for name, found in both.items() if name not in row.left_out})
    rows[name] = row
    table.save(RESULTS, rows)
    others = [row for name, row in sorted(rows.items()) if name not in AGENTS]
    now = [rows[name] for name in AGENTS if name in rows]
    PAGE.write_text(table.page(now, others, list(SCENARIOS)), encoding="utf-8")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.agent_rig", description=__doc__)
    parser.add_argument(
        "agents", nargs="*", metavar="AGENT[@VERSION]", help=f"agents to run (all): {', '.join(AGENTS)}"
    )
    parser.add_argument("--scenario", action="append", choices=SCENARIOS, help="run only this scenario; repeatable")
    options = parser.parse_args()
    if unknown := [name for name in options.agents if name.partition("@")[0] not in AGENTS]:
        parser.error(f"unknown agent {unknown[0]}; agents: {', '.join(AGENTS)}")
    return options


if __name__ == "__main__":
    sys.exit(main())
