"""The results so far, as a page."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

PASS = "pass"
INTRO = """\
# The adapters, tried on the real programs

Written by `make test-agents`, which installs each program, points it at a scripted model on loopback (with a dummy key,
a clean environment and a HOME of its own, in a network namespace without other interfaces) and runs `ae-capture` with
the adapter of its name. `make test-agents AGENTS="claude codex@0.170.0"` tries some, or another version.

| scenario | what happens | what is checked |
|---|---|---|
| tool | the model thinks, calls a shell tool, answers | output, steps in order, tool input and output, tokens, file |
| failing tool | the command exits 3 | the step is `failed`, the record has no errors; tokens |
| two turns | a second prompt in the same session | the model is told of the first turn; tokens of both, none twice |
| 500 | the model answers 500 for ever | the agent gives up, and its own words are in `errors` |
| child left | the tool leaves a process behind | the answer is there |
| time-out | 20 s are over while the tool runs | `timedOut`, `errors`, the step is there, unfinished; ended within 6 s |
| Ctrl-C | SIGINT to ae-capture while the tool runs | exit code 130 within 6 s |

After each of them no process is left: nobody in the namespace, nobody with the scenario's mark in its environment.
"""


class Row(NamedTuple):
    """How an agent did: the problems of each scenario, or why it was not run at all."""

    agent: str
    version: str
    date: str
    alone: bool
    """It ran in a network namespace of its own."""
    untold: list[str]
    problems: dict[str, list[str]]
    not_run: str = ""


def load(path: Path) -> dict[str, Row]:
    """The rows of earlier runs."""
    rows = json.loads(path.read_bytes()) if path.exists() else {}
    return {name: Row(**row) for name, row in rows.items()}


def save(path: Path, rows: dict[str, Row]) -> None:
    """Keep the rows for the next run."""
    path.write_text(json.dumps({name: row._asdict() for name, row in rows.items()}, indent=1), encoding="utf-8")


def page(rows: Iterable[Row], scenarios: list[str]) -> str:
    """docs/agents.md."""
    rows = list(rows)
    head = ["agent", "version", *scenarios, "run on"]
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    lines += [f"| {' | '.join(_cells(row, scenarios))} |" for row in rows]
    notes = [note for row in rows for note in _notes(row)]
    return "\n".join([INTRO, *lines, "", *notes]) + "\n"


def _cells(row: Row, scenarios: list[str]) -> list[str]:
    if row.not_run:
        return [row.agent, row.version or "-", *["-"] * len(scenarios), row.date]
    return [row.agent, row.version, *(_verdict(row.problems.get(name)) for name in scenarios), row.date]


def _verdict(problems: list[str] | None) -> str:
    if problems is None:
        return "-"
    return "**fail**" if problems else PASS


def _notes(row: Row) -> list[str]:
    if row.not_run:
        return [f"- {row.agent} was not run: {row.not_run}"]
    notes = [f"- {row.agent} does not tell {', '.join(row.untold)}."] if row.untold else []
    if not row.alone:
        notes.append(f"- {row.agent} ran without a network namespace.")
    for scenario, problems in row.problems.items():
        notes += [f"- **{row.agent}, {scenario}:** {problem}" for problem in problems]
    return notes
