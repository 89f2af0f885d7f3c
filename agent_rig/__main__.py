"""`make test-agents`: install the real agents one by one, run the scenarios with each, and write docs/agents.md."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from datetime import date

from agent_rig import table
from agent_rig.catalogue import AGENTS, Agent
from agent_rig.installing import ROOT, SCRATCH, NotInstalled, install
from agent_rig.isolation import namespace_command
from agent_rig.scenarios import SCENARIOS
from agent_rig.table import Row

PAGE = ROOT / "docs" / "agents.md"
RESULTS = SCRATCH / "results.json"


def main() -> int:
    """1 when an agent could not be run or a scenario failed."""
    options = _options()
    prefix = namespace_command()
    if not prefix:
        print("agents: no network namespace here (unshare -rn fails): run without", file=sys.stderr)
    SCRATCH.mkdir(parents=True, exist_ok=True)
    good = True
    for choice in options.agents or AGENTS:
        name, _, version = choice.partition("@")
        row = _try(AGENTS[name], version, options.scenario or list(SCENARIOS), prefix)
        good = good and not row.not_run and not any(row.problems.values())
        _note(row)
    print(PAGE.read_text("utf-8"))
    return 0 if good else 1


def _try(agent: Agent, version: str, scenarios: list[str], prefix: list[str]) -> Row:
    """The agent's row; an agent that does not install is told, and the others go on."""
    row = Row(agent.name, "", str(date.today()), bool(prefix), sorted(agent.untold), {})
    print(f"{agent.name:16}installing", file=sys.stderr, flush=True)
    try:
        row = row._replace(version=install(agent, version))
    except (NotInstalled, OSError, subprocess.TimeoutExpired) as error:
        return row._replace(not_run=str(error))
    fitting = [name for name in scenarios if not (agent.by_text and SCENARIOS[name].needs_tool)]
    command = [*prefix, sys.executable, "-m", "agent_rig.inside", agent.name, *fitting]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE)
    if done.returncode:
        return row._replace(not_run=f"the run broke off with exit code {done.returncode}")
    return row._replace(problems=json.loads(done.stdout))


def _note(row: Row) -> None:
    """Put the row among those of earlier runs, and write the page anew."""
    rows = table.load(RESULTS)
    before = rows.get(row.agent)
    if before and before.version == row.version and not row.not_run:
        row = row._replace(problems={**before.problems, **row.problems})
    rows[row.agent] = row
    table.save(RESULTS, rows)
    PAGE.write_text(table.page([rows[name] for name in AGENTS if name in rows], list(SCENARIOS)), encoding="utf-8")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m agent_rig", description=__doc__)
    parser.add_argument("agents", nargs="*", metavar="AGENT[@VERSION]", help=f"of {', '.join(AGENTS)} (all)")
    parser.add_argument("--scenario", action="append", choices=SCENARIOS, help="only this one; repeatable")
    options = parser.parse_args()
    if unknown := [name for name in options.agents if name.partition("@")[0] not in AGENTS]:
        parser.error(f"no agent is called {unknown[0]}; there are {', '.join(AGENTS)}")
    return options


if __name__ == "__main__":
    sys.exit(main())
