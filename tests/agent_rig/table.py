"""Stores the results and renders docs/agents.md."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import NamedTuple

PASS = "pass"
NOT_RUN = "not run"
VARIANTS = "poisoned"  # the first scenario of the second table
REFUSED = re.compile(r"it (?:refuses|does not accept) (\S+) (?:of|from) the adapter")
INTRO = """\
# Adapters tested with the real agents

Written by `make test-agents`. It installs each agent, points it at a scripted model on loopback (dummy key, clean
environment, its own HOME, a network namespace without other interfaces) and runs `ae-capture` with the adapter of the
same name. `make test-agents AGENTS="claude codex@0.170.0"` runs some of them, or another version.

| scenario | what happens | what is checked |
|---|---|---|
| tool | the model thinks, calls a shell tool, answers | output, steps in order, tool input and output, tokens, file |
| failing tool | the command exits 3 | the step is `failed`, the record has no errors; tokens |
| two turns | a second prompt in the same session | \
the model gets the first turn as well; tokens of both, none counted twice |
| 500 | the model always answers 500 | the agent gives up, and its own error message is in `errors` |
| cut off | the answer ends at the token limit | `stopReason` is `length`, unless the agent itself fails |
| child left | the tool leaves a background process running | the answer is there |
| empty answer | after the tool call, the model's answer is empty | `output` is empty, not the previous message |
| parallel calls | the model calls two tools at once | two steps, each with its own input and output; tokens |
| sub-agent | the agent delegates the task to a sub-agent | tokens of both; the output is the agent's own |
| max turns | the agent may send only one request to the model | \
`stopReason`, the last message, the reason in `errors` |
| second session | earlier sessions filled the agent's memory, and could read it without the adapter's setting | \
this session does not see it |
| killed later | the model falls silent in the second turn | all tokens so far, or `tokensPartial` |
| time-out | the tool exceeds the time limit | `timedOut`, `errors`, the unfinished step; the run ends within 6 s |
| Ctrl-C | SIGINT to ae-capture while the tool runs | it exits with 130 within 6 s |
| poisoned | HOME and the directory above are full of marked instructions, skills, sub-agents, hooks, MCP servers | \
a message names what the agent reads; with `--isolate` no request contains a mark, no hook runs and no server starts |
| memory | with `--isolate`, a session leaves a word in every place below HOME where agents look | \
the next session does not see it, and it is not in the user's HOME |
| model | `--model` | all requests for the task name it |
| instructions | `--instructions` | they are in the requests |
| skill | `--skill` | the model is told about it |
| mcp | `--mcp` with a server on stdio, the model calls its tool | \
the result is in the trajectory, the value of `${VAR}` in no record |
| sandbox | `--sandbox bwrap`; the command also reads a file of the user's | it works, but the file is not there |

After each scenario, no process may be left: none in the namespace, none with the scenario's mark in its environment.

Some results prove less than they seem to. To keep out files above the workspace, pi and gptme need `--sandbox` as well,
so “poisoned” runs them with it. llm and mini-swe-agent do not show the model any of the user's files even without
`--isolate`. llm cannot read files, so “sandbox” shows only that it works there.
"""
OTHERS = """\
## Other versions

The same adapters with older programs: `make test-agents AGENTS=claude@2.0.56`. If a program refuses
a flag, the record's `errors` name the flag and the version that the adapter was tested with.
"""


class Row(NamedTuple):
    """The results of an agent: the problems of each scenario, or why it was not run."""

    agent: str
    version: str
    date: str
    isolated: bool
    """It ran in its own network namespace."""
    unreported: list[str]
    problems: dict[str, list[str]]
    not_run: str = ""
    left_out: dict[str, str] = {}
    """Scenario that does not apply to the agent → why."""

    @property
    def label(self) -> str:
        """Returns how the version is named on the command line."""
        return f"{self.agent}@{self.version}"


def load(path: Path) -> dict[str, Row]:
    """Reads the rows of earlier runs."""
    rows = json.loads(path.read_bytes()) if path.exists() else {}
    return {name: Row(**row) for name, row in rows.items()}


def save(path: Path, rows: dict[str, Row]) -> None:
    """Writes the rows for later runs."""
    path.write_text(json.dumps({name: row._asdict() for name, row in rows.items()}, indent=1), encoding="utf-8")


def page(rows: list[Row], others: list[Row], scenarios: list[str]) -> str:
    """Returns the text of docs/agents.md; `others` are rows of other versions."""
    first = scenarios.index(VARIANTS) if VARIANTS in scenarios else len(scenarios)
    lines = [INTRO, *_table(rows, scenarios[:first]), ""]
    if scenarios[first:]:
        lines += ["Isolation, variants and the sandbox:", "", *_table(rows, scenarios[first:]), ""]
    lines += [*(note for row in rows for note in _notes(row)), "", *_reasons(rows)]
    if others:
        tried = [name for name in scenarios if any(name in row.problems for row in others)]
        lines += ["", OTHERS, *_table(others, tried), ""]
        lines += [note for row in others for note in _notes(row._replace(agent=row.label, unreported=[]))]
    return "\n".join(lines) + "\n"


def _reasons(rows: list[Row]) -> list[str]:
    """Returns why scenarios do not apply, with the agents for which the reason is the same on one line."""
    agents: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        for scenario, reason in row.left_out.items():
            agents.setdefault((scenario, reason), []).append(row.agent)
    lines = [f"| {scenario} | {', '.join(names)} | {reason} |" for (scenario, reason), names in sorted(agents.items())]
    return ["“-” means that the scenario does not apply:", "", "| scenario | agents | why |", "|---|---|---|", *lines]


def _table(rows: list[Row], scenarios: list[str]) -> list[str]:
    head = ["agent", "version", *scenarios, "run on"]
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    return lines + [f"| {' | '.join(_cells(row, scenarios))} |" for row in rows]


def _cells(row: Row, scenarios: list[str]) -> list[str]:
    if row.not_run:
        return [row.agent, row.version or "-", *["-"] * len(scenarios), row.date]
    return [row.agent, row.version, *(_verdict(row, name) for name in scenarios), row.date]


def _verdict(row: Row, scenario: str) -> str:
    if scenario not in row.problems:
        return "-" if scenario in row.left_out else NOT_RUN
    return "**fail**" if row.problems[scenario] else PASS


def _notes(row: Row) -> list[str]:
    if row.not_run:
        return [f"- {row.agent} was not run: {row.not_run}"]
    said = " ".join(problem for problems in row.problems.values() for problem in problems)
    if flags := sorted(set(REFUSED.findall(said))):
        return [f"- {row.agent} does not run: it refuses {', '.join(flags)}, and `errors` of the record says so."]
    notes = [f"- {row.agent} does not report {', '.join(row.unreported)}."] if row.unreported else []
    if not row.isolated:
        notes.append(f"- {row.agent} ran without a network namespace.")
    for scenario, problems in row.problems.items():
        notes += [f"- **{row.agent}, {scenario}:** {problem}" for problem in problems]
    return notes
