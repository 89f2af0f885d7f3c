"""docs/migrating.md: every option it names is one of ours, and every command it tells people to type is typed here."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.tool import BIN, ROOT, Done, python_script, run, script, write

PAGE = (ROOT / "docs" / "migrating.md").read_text()
NODE, BUN, JQ = shutil.which("node"), shutil.which("bun"), shutil.which("jq")

# What `agent-eval-harness COMMAND --help` of version 0.12.2 lists, but for -h and --help.
THEIR_OPTIONS = {
    "capture": "-s --schema -o --output -c --cwd -t --timeout -j --concurrency --stdin --workspace-dir --progress "
    "--append -g --grader --debug",
    "trials": "-s --schema -o --output -k -c --cwd -t --timeout -j --concurrency --stdin --workspace-dir --progress "
    "--append -g --grader --debug",
    "summarize": "-o --output -m --markdown",
    "calibrate": "-o --output -s --sample -g --grader",
    "validate-refs": "-o --output -g --grader",
    "balance": "-o --output -k --key -t --threshold",
    "schemas": "-o --output -j --json -s --split -l --list",
    "headless": "-s --schema -v --verbose",
    "run": "-s --schema --simple --shell -o --output -c --cwd -t --timeout --progress",
    "extract": "-s --schema -o --output --progress",
    "grade": "-g --grader -o --output --progress",
    "format": "-f --style -o --output --progress",
    "compare": "--run -s --strategy -g --grader -o --output -f --format --input-format --progress",
}
HIDDEN = {"--stdin"}  # accepted, and of no use here


def table(heading: str) -> list[list[str]]:
    """The rows of the table under a heading, cell by cell, without the row of titles."""
    section = PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("| ")]
    cells = [re.split(r"(?<!\\)\|", line.strip("|")) for line in lines]
    return [[cell.strip().replace("\\|", "|") for cell in row] for row in cells[1:]]


def words(cell: str) -> list[str]:
    return " ".join(re.findall(r"`([^`]*)`", cell)).split()


# --- names and options --------------------------------------------------------------------------


def test_every_command_has_its_tool() -> None:
    named = {words(theirs)[0]: words(ours)[0] for theirs, ours, _ in table("Commands")}
    assert named == {command: f"ae-{command}" for command in THEIR_OPTIONS}


def test_every_option_is_on_the_page() -> None:
    listed: dict[str, set[str]] = {}
    for theirs, _ours, _ in table("Options"):
        command, *options = words(theirs)
        assert not listed.setdefault(command, set()) & set(options), f"{command}: an option stands there twice"
        listed[command] |= set(options)
    assert listed == {command: set(options.split()) for command, options in THEIR_OPTIONS.items()}


@pytest.mark.parametrize("tool", sorted({words(ours)[0] for _theirs, ours, _ in table("Options")}))
def test_every_option_is_one_of_ours(tool: str) -> None:
    options = {option for _theirs, ours, _ in table("Options") if words(ours)[0] == tool for option in words(ours)[1:]}
    shown = set(re.findall(r"(?<![\w-])--?[a-z][a-z-]*", run(tool, "--help").expect(0).stdout))
    assert options - shown - HIDDEN == set()


def test_the_one_command_for_scripts(tmp_path: Path) -> None:
    """The sed of the first screen makes the right column of the left one, but where the page says to type another."""
    (command,) = re.findall(r"^sed .*$", PAGE, re.MULTILINE)
    commands = table("Every command of its documentation")
    (tmp_path / "evals").mkdir()
    before = [theirs.strip("`").replace("agent-eval", "bunx @plaited/agent-eval") for theirs, _ in commands]
    (tmp_path / "evals" / "all.sh").write_text("".join(f"{line}\n" for line in before))
    run("/bin/sh", "-c", command, cwd=tmp_path).expect(0, stderr="")
    after = (tmp_path / "evals" / "all.sh").read_text().splitlines()
    others = [ours for made, (_, ours) in zip(after, commands, strict=True) if made != ours.strip("`")]
    assert all(" -- " in ours for ours in others) and len(others) == 3, others


# --- the commands -------------------------------------------------------------------------------

COMMANDS = [ours.strip("`") for _theirs, ours in table("Every command of its documentation")]
PROMPTS = [
    {
        "id": "test-001",
        "input": "Create a button",
        "hint": "<button>",
        "reference": "<button>Click</button>",
        "metadata": {"category": "ui", "difficulty": "easy"},
    },
    {"id": "test-002", "input": ["Create a button", "Make it blue"], "metadata": {"category": "ui"}},
    {"id": "test-003", "input": "Say no", "hint": "<no>", "reference": "<no>", "metadata": {"category": "logic"}},
]
CLAUDE = r"""
while [ $# -gt 0 ]; do case $1 in -p) prompt=$2;; esac; shift; done
printf '{"type":"assistant","session_id":"s1","message":{"content":[{"type":"text","text":"I read: %s"}]}}\n' "$prompt"
printf '{"type":"assistant","message":{"content":[{"type":"tool_use","name":"Write","input":{}}]}}\n'
printf '{"type":"result","session_id":"s1","result":"<button> for: %s"}\n' "$prompt"
"""
GEMINI = 'import json, sys\nprint(json.dumps({"type": "message", "content": sys.argv[-1]}))'
GEMINI_SCHEMA = {
    "version": 1,
    "name": "gemini-headless",
    "command": ["gemini"],
    "sessionMode": "iterative",
    "prompt": {"flag": ""},
    "output": {"flag": "--output-format", "value": "stream-json"},
    "outputEvents": [
        {"match": {"path": "$.type", "value": "message"}, "emitAs": "message", "extract": {"content": "$.content"}}
    ],
    "result": {"matchPath": "$.type", "matchValue": "result", "contentPath": "$.content"},
}
# TypeScript that is JavaScript, too, so that node can run it where there is no bun.
HINT_GRADER = """
export const grade = async ({ output, hint }) => {
  const pass = output.toLowerCase().includes(hint?.toLowerCase() ?? '')
  return { pass, score: pass ? 1 : 0, reasoning: pass ? 'Contains hint content' : 'Missing hint content' }
}
"""
LOOSE_GRADER = "export const grade = async () => ({ pass: true, score: 1, reasoning: 'Good enough' })\n"
COMPARISON_GRADER = """
export const grade = async ({ runs }) => {
  const rankings = Object.keys(runs).map((run, index) => ({ run, rank: index + 1, score: 1 - index / 10 }))
  return { rankings, reasoning: 'in the order given' }
}
"""
PYTHON_GRADER = """
import json, sys

data = json.load(sys.stdin)
passed = (data.get("hint") or "").lower() in data.get("output", "").lower()
print(json.dumps({"pass": passed, "score": float(passed), "reasoning": "Contains hint" if passed else "Missing hint"}))
"""
PROTOCOL_AGENT = """
import { createInterface } from 'node:readline'
const send = (message) => process.stdout.write(JSON.stringify({ jsonrpc: '2.0', ...message }) + '\\n')
createInterface({ input: process.stdin }).on('line', (line) => {
  const { id, method, params } = JSON.parse(line)
  if (method === 'initialize') send({ id, result: { protocolVersion: 1, agentCapabilities: {} } })
  else if (method === 'session/new') send({ id, result: { sessionId: 's1' } })
  else if (method === 'session/prompt') {
    const content = { type: 'text', text: 'I read: ' + params.prompt[0].text }
    const update = { sessionUpdate: 'agent_message_chunk', content }
    send({ method: 'session/update', params: { sessionId: 's1', update } })
    send({ id, result: { stopReason: 'end_turn' } })
  }
})
"""
# In place of bun: node, which takes each .ts file for a JavaScript module.
AS_MODULES = """
import { register } from 'node:module'
register('data:text/javascript,' + encodeURIComponent(`
  import { readFile } from 'node:fs/promises'
  export const load = async (url, context, next) => !url.endsWith('.ts') ? next(url, context)
    : { format: 'module', shortCircuit: true, source: await readFile(new URL(url)) }
`))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the files that the documentation takes for granted, and programs on its own PATH."""
    folder = tmp_path_factory.mktemp("migrating")
    (folder / "bin").mkdir()
    script(folder / "bin" / "claude", CLAUDE)
    python_script(folder / "bin" / "gemini", GEMINI)
    if BUN is None and NODE is not None:
        (folder / "bin" / "modules.mjs").write_text(AS_MODULES)
        script(folder / "bin" / "bun", f'exec {NODE} --no-warnings --import "{folder}/bin/modules.mjs" "$@"')
    schema = (ROOT / "bench" / "claude-agent-eval-harness.json").read_text()
    for name in ("claude.json", "claude-headless.json"):
        (folder / name).write_text(schema)
    (folder / "gemini-headless.json").write_text(json.dumps(GEMINI_SCHEMA))
    write(folder / "prompts.jsonl", *PROMPTS)
    write(folder / "multi-turn.jsonl", {"id": "context-001", "input": ["Remember: 42", "What was it?"], "hint": "42"})
    for name, text in {
        "grader.ts": HINT_GRADER,
        "loose-grader.ts": LOOSE_GRADER,
        "my-adapter.ts": PROTOCOL_AGENT,
        "my-llm-judge.ts": COMPARISON_GRADER,
        "compare-grader.ts": COMPARISON_GRADER,
    }.items():
        (folder / name).write_text(text)
    python_script(folder / "grader.py", PYTHON_GRADER)
    for command in (
        "ae-run prompts.jsonl -s claude.json -o raw.jsonl",
        "ae-extract raw.jsonl -s claude.json -o extracted.jsonl",
        "ae-grade extracted.jsonl -g ./grader.py -o results.jsonl",
        "ae-trials prompts.jsonl -s claude.json -k 2 -g ./grader.py -o trials1.jsonl",
        "ae-validate-refs prompts.jsonl -g ./grader.py -o validation.jsonl",
        "for copy in run1 run2 results-mcp results-vanilla; do cp results.jsonl $copy.jsonl; done",
        "cp trials1.jsonl trials2.jsonl; mkdir workspaces",
    ):
        type_in(folder, command).expect(0)
    return folder


def type_in(folder: Path, command: str) -> Done:
    """What a command line does there, with the folder's programs and the suite's tools first on PATH."""
    env = {"PATH": os.pathsep.join(map(str, [folder / "bin", BIN, Path(sys.executable).parent, os.environ["PATH"]]))}
    plain = command.startswith("ae-") and not {*command} & {*"|<>;&$`*\n"}
    return run(*(shlex.split(command) if plain else ("/bin/sh", "-c", command)), cwd=folder, env=env, timeout=60)


def _all_of(records: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Records, and the trials in them."""
    for record in records:
        yield from (record, *record.get("trials", ()))


@pytest.mark.parametrize("command", COMMANDS)
def test_what_the_page_says_to_type(folder: Path, tmp_path: Path, command: str) -> None:
    if "jq " in command and JQ is None:
        pytest.skip("jq is not on PATH")
    if ".ts" in command and not (BUN or NODE):
        pytest.skip("neither bun nor node is on PATH")
    here = tmp_path / "here"
    shutil.copytree(folder, here, ignore=shutil.ignore_patterns("modules.mjs"))
    written = re.findall(r"(?:-o|>) (\S+)", command)
    for name in written:
        (here / name).unlink(missing_ok=True)
    done = type_in(here, command).expect(0)
    assert [line for line in done.messages if "refused" in line or "no such" in line] == [], done
    for name in written:
        text = (here / name).read_text()
        records = [json.loads(line) for line in text.splitlines()] if name.endswith(".jsonl") else []
        assert text and not any("errors" in part or "graderError" in part for part in _all_of(records)), done
        if name.endswith(".json"):
            json.loads(text)
    if not written and not command.startswith(("rm", "chmod", "ae-headless", "cat validation.jsonl")):
        assert done.stdout, done


def test_the_blocks_on_the_page(folder: Path) -> None:
    blocks = re.findall(r"^```sh\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    _sed, validation = blocks
    assert type_in(folder, validation).expect(0, stderr="").stdout == "".join(
        f"{prompt['id']}: valid\n" for prompt in PROMPTS
    )


# --- what the page says of the differences ------------------------------------------------------


def test_what_behaves_differently(folder: Path, tmp_path: Path) -> None:
    """Differences that can be seen in the files, each as the page has it."""
    here = tmp_path / "here"
    shutil.copytree(folder, here)
    validation = json.loads((here / "validation.jsonl").read_text().splitlines()[0])
    assert validation["pass"] is True and {"score", "reasoning"} <= validation.keys() and "passes" not in validation
    write(here / "lines.jsonl", {"id": "a", "input": "x", "output": "=1+1\ntwo", "score": {"pass": True, "score": 1.0}})
    table_of_one = type_in(here, "ae-format lines.jsonl -f csv").expect(0).stdout
    assert '"\'=1+1\ntwo"' in table_of_one and ",1.0," in table_of_one
    write(here / "bad.jsonl", PROMPTS[0], "no JSON", PROMPTS[0])
    bad = type_in(here, "ae-run bad.jsonl -s claude.json").expect(1)
    assert [record["id"] for record in bad.records] == ["test-001"] and "bad.jsonl:2" in bad.stderr
    (here / "grader.py").write_text("#!/bin/sh\nexit 3\n")
    graded = type_in(here, "ae-grade extracted.jsonl -g ./grader.py").expect(1)
    assert len(graded.records) == 3 and all("score" not in record or record["graderError"] for record in graded.records)
    type_in(here, "ae-run prompts.jsonl --simple 'echo {} | cat'").expect(2)
    wrong = type_in(here, "ae-capture prompts.jsonl bun ./my-adapter.ts -o out.jsonl").expect(2)
    assert "put -- before" in wrong.stderr
    write(here / "refs.jsonl", {"id": "a", "input": "x", "hint": "<no>", "reference": "yes"})
    type_in(here, "ae-validate-refs refs.jsonl -g ae-grader-hint").expect(1)
