"""Reads what real agents printed, as recorded in tests/data/transcripts."""

from __future__ import annotations

from functools import cache

from agenteval.adapters.reader import Adapter
from agenteval.adapters.schema_file import load_adapter
from tests.support.tool import ROOT

TRANSCRIPTS = ROOT / "tests" / "data" / "transcripts"


def adapter_name(agent: str) -> str:
    """Returns the adapter for an agent as the transcripts' file names call it."""
    return {"miniswe": "mini-swe-agent"}.get(agent, agent)


@cache
def compiled_once(schema: str) -> Adapter:
    """Returns the adapter for a schema of the suite: to compile one takes longer than to read a transcript."""
    return load_adapter(schema)


def scenarios() -> dict[str, list[str]]:
    """Returns agent → its recorded scenarios."""
    found: dict[str, list[str]] = {}
    for path in sorted(TRANSCRIPTS.glob("*-*")):
        agent, _, scenario = path.name.split(".")[0].partition("-")
        if scenario not in found.setdefault(agent, []):
            found[agent].append(scenario)
    return found


def recorded(agent: str, scenario: str) -> list[str]:
    """Returns the lines as ae-run records them: stdout, then the file that the agent wrote, on one line."""
    lines: list[str] = []
    for ending in ("jsonl", "txt"):
        if (path := TRANSCRIPTS / f"{agent}-{scenario}.{ending}").exists():
            lines += path.read_text().splitlines()
    for document in TRANSCRIPTS.glob(f"{agent}-{scenario}.*.json"):
        lines += ["", document.read_text().replace("\n", "")]
    return lines


CASES = [
    (agent, case)
    for agent, names in scenarios().items()
    for case in (name if name != "resume2" else "resume1+resume2" for name in names)
]
