"""ae-adapters: the list, one schema as it is, and help for who mistypes."""

from __future__ import annotations

import json
from pathlib import Path

from tool import ROOT, run

FOLDER = ROOT / "agenteval" / "adapters"
NAMES = sorted(path.stem for path in FOLDER.glob("*.json"))
MESSAGES_ONLY = {"aider", "continue", "llm", "text"}


def test_a_line_per_adapter() -> None:
    lines = run("ae-adapters").expect(0, stderr="").stdout.splitlines()
    assert [line.split()[0] for line in lines] == NAMES
    assert {line.split()[0] for line in lines if line.split()[1] == "messages-only"} == MESSAGES_ONLY
    assert {line.split()[1] for line in lines} == {"full", "messages-only"}
    codex = next(line for line in lines if line.startswith("codex "))
    assert "  @openai/codex 0.166.0  " in codex
    assert codex.endswith("  OpenAI Codex CLI (`codex exec`), without its sandbox"), "the first sentence"


def test_the_list_as_json() -> None:
    entries = json.loads(run("ae-adapters", "--json").expect(0, stderr="").stdout)
    assert [entry["name"] for entry in entries] == NAMES
    for entry in entries:
        schema = json.loads((FOLDER / f"{entry['name']}.json").read_bytes())
        assert entry["kind"] == ("messages-only" if entry["name"] in MESSAGES_ONLY else "full")
        assert entry["provenOn"] == schema.get("provenOn")
        assert {field: schema[field] for field in ("sessionMode", "command", "description")}.items() <= entry.items()


def test_proven_on_what_was_tried() -> None:
    """`make test-agents` wrote docs/agents.md: the versions there, with nothing failed, are those of the schemas."""
    page = (ROOT / "docs" / "agents.md").read_text()
    table = page[page.index("| agent | version |") :].partition("\n\n")[0].splitlines()[2:]
    tried = {cells[0]: cells[1] for cells in ([cell.strip() for cell in row.strip("|").split("|")] for row in table)}
    assert sorted(tried) == sorted({*NAMES} - {"acp", "text", "wikiagent"})
    for name, version in tried.items():
        assert json.loads((FOLDER / f"{name}.json").read_bytes())["provenOn"].split()[-1] == version, name
    assert "**fail**" not in page


def test_one_as_it_is(tmp_path: Path) -> None:
    for name in NAMES:
        done = run("ae-adapters", name, "-o", "my.json", cwd=tmp_path).expect(0, stderr="")
        assert (done.out, (tmp_path / "my.json").read_bytes()) == (b"", (FOLDER / f"{name}.json").read_bytes())
    run("ae-extract", "-s", "my.json", cwd=tmp_path, stdin=b"").expect(0)


def test_an_unknown_name() -> None:
    for typed, close in (("cluade", "claude"), ("codx", "codex"), ("mini-swe", "mini-swe-agent")):
        done = run("ae-adapters", typed).expect(2)
        assert done.stdout == ""
        assert done.stderr.startswith(f'ae-adapters: no adapter is named "{typed}"; did you mean {close}'), done
    run("ae-adapters", "").expect(2).says("there are acp, aider, claude")
