"""ae-adapters: the list, one schema as it is, and help for who mistypes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.tool import ROOT, on_terminal, run

FOLDER = ROOT / "agenteval" / "adapters" / "schemas"
NAMES = sorted(path.stem for path in FOLDER.glob("*.json"))
MESSAGES_ONLY = {"aider", "continue", "llm", "text"}


def test_a_line_per_adapter() -> None:
    lines = run("ae-adapters").expect(0, stderr="").stdout.splitlines()
    assert [line.split()[0] for line in lines] == NAMES
    assert {line.split()[0] for line in lines if line.split()[1] == "messages-only"} == MESSAGES_ONLY
    assert {line.split()[1] for line in lines} == {"full", "messages-only"}
    codex = next(line for line in lines if line.startswith("codex "))
    assert "  @openai/codex 0.169.0  " in codex
    assert codex.endswith("  OpenAI Codex CLI (`codex exec`), without its sandbox"), "the first sentence"


def test_the_list_as_json() -> None:
    entries = json.loads(run("ae-adapters", "--json").expect(0, stderr="").stdout)
    assert [entry["name"] for entry in entries] == NAMES
    for entry in entries:
        schema = json.loads((FOLDER / f"{entry['name']}.json").read_bytes())
        assert entry["kind"] == ("messages-only" if entry["name"] in MESSAGES_ONLY else "full")
        assert entry["provenOn"] == schema.get("provenOn")
        assert {field: schema[field] for field in ("sessionMode", "command", "description")}.items() <= entry.items()


@pytest.mark.parametrize("columns", [40, 80, 200])
def test_the_list_fits_the_terminal(columns: int, tmp_path: Path) -> None:
    shown = on_terminal("ae-adapters", cwd=tmp_path, env={"COLUMNS": str(columns)}).expect(0)
    head, *lines = shown.stdout.splitlines()
    assert head.split()[:2] == ["ADAPTER", "TRAJECTORY"]
    assert [line.split()[0] for line in lines] == NAMES
    assert max(map(len, (head, *lines))) <= columns
    column = head.find("WHAT")
    assert column == (-1 if columns == 40 else 58)
    for line in lines if column > 0 else ():
        assert line[column - 2 : column].isspace() and not line[column].isspace(), line
    if columns == 80:
        assert "  8 programs  " in lines[NAMES.index("acp")]
        assert lines[NAMES.index("aider")].endswith("  messages, tokens and …"), "its name stands there already"
    if columns == 200:
        assert "  pi-coding-agent 0.87.1  " in lines[NAMES.index("pi")] and not any("…" in line for line in lines[1:])


def test_one_entry_as_json() -> None:
    entry = json.loads(run("ae-adapters", "--json", "codex").expect(0, stderr="").stdout)
    assert (entry["name"], entry["kind"], entry["command"]) == ("codex", "full", ["codex", "exec"])
    assert entry["description"].endswith("It reports no costs.")


def test_proven_on_what_was_tried() -> None:
    """`make test-agents` wrote docs/agents.md: the versions there, with nothing failed, are those of the schemas."""
    page = (ROOT / "docs" / "agents.md").read_text()
    table = page[page.index("| agent | version |") :].partition("\n\n")[0].splitlines()[2:]
    tried = {cells[0]: cells[1] for cells in ([cell.strip() for cell in row.strip("|").split("|")] for row in table)}
    assert sorted(tried) == sorted({*NAMES} - {"acp", "text", "wikiagent"})
    for name, version in tried.items():
        assert json.loads((FOLDER / f"{name}.json").read_bytes())["provenOn"].split()[-1] == version, name
    assert "**fail**" not in "".join(table)


def test_one_as_it_is(tmp_path: Path) -> None:
    for name in NAMES:
        done = run("ae-adapters", name, "-o", "my.json", cwd=tmp_path).expect(0, stderr="")
        assert (done.out, (tmp_path / "my.json").read_bytes()) == (b"", (FOLDER / f"{name}.json").read_bytes())
    run("ae-extract", "-s", "my.json", cwd=tmp_path, stdin=b"").expect(0)


def test_an_unknown_name() -> None:
    run("ae-adapters", "--json", "codx").expect(2).says('no adapter is named "codx"; did you mean codex')
    for typed, close in (("cluade", "claude"), ("codx", "codex"), ("mini-swe", "mini-swe-agent")):
        done = run("ae-adapters", typed).expect(2)
        assert done.stdout == ""
        assert done.stderr.startswith(f'ae-adapters: no adapter is named "{typed}"; did you mean {close}'), done
    run("ae-adapters", "").expect(2).says("choose from acp, aider, claude")
