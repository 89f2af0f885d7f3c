"""The import rule: a module imports from its own level or below, a tool never a tool, a heavy package in one file.

Every module stands in LEVELS, so that a new file forces a decision.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path
from typing import NamedTuple

import pytest
from tool import ROOT, run, write

PACKAGE = ROOT / "agenteval"

LEVELS = {
    # 0: what a record, an error and a schema are
    "errors": 0,
    "records": 0,
    "headless": 0,
    "schema_reading": 0,
    "reports": 0,
    "trial_reports": 0,
    # 1: what is done with them
    "suite": 1,
    "stream": 1,
    "console": 1,
    "jsonpath": 1,
    "trajectory": 1,
    "mapping": 1,
    "dispatch": 1,
    "unfolding": 1,
    "adapter": 1,
    "extraction": 1,
    "tracing": 1,
    "explaining": 1,
    "proctree": 1,
    "guardian": 1,
    "switchboard": 1,
    "process": 1,
    "processes": 1,
    "loop": 1,
    "lineprocess": 1,
    "pool": 1,
    "workfiles": 1,
    "acp": 1,
    "live": 1,
    "agents": 1,
    "session": 1,
    "acpserver": 1,
    "workspace": 1,
    "filetree": 1,
    "repository": 1,
    "changes": 1,
    "grading": 1,
    "trials": 1,
    "prompts": 1,
    "wikiagent": 1,
    "redaction": 1,
    "pacing": 1,
    "environment": 1,
    "journal": 1,
    "stats": 1,
    "passing": 1,
    "runs": 1,
    "trial_runs": 1,
    "comparing": 1,
    "run_files": 1,
    "comparison": 1,
    "trial_comparison": 1,
    "summaries": 1,
    "labels": 1,
    "agreement": 1,
    "calibration": 1,
    "balance": 1,
    "sources": 1,
    "evaluation": 1,
    "criteria": 1,
    "schemas": 1,
    "report": 1,
    "report.calibration": 1,
    "report.comparison": 1,
    "report.evaluation": 1,
    "report.trial_comparison": 1,
    "report.csv_": 1,
    "report.jsonl": 1,
    "report.markdown": 1,
    "report.review": 1,
    "report.rows": 1,
    "report.summary": 1,
    "report.table": 1,
    "report.text": 1,
    "offline": 1,
    "offline.serving": 1,
    "offline.corpus": 1,
    "offline.ranking": 1,
    "offline.mediawiki": 1,
    "offline.english": 1,
    "offline.composing": 1,
    "offline.planning": 1,
    "offline.conversation": 1,
    "offline.shaping": 1,
    "offline.verdicts": 1,
    "offline.chatserver": 1,
    "tokens": 1,
    "retrying": 1,
    "wiki": 1,
    "chatapi": 1,
    "model": 1,
    "judging": 1,
    "hosts": 1,
    "hosts.python": 1,  # runs in the grader's process, and imports nothing of ours
    # 2: what tools share of a command line
    "lightclick": 2,
    "command": 2,
    "completion": 2,
    "frontpage": 2,
    "running": 2,
    "agent_options": 2,
    "supervision": 2,
    "answering": 2,
    "assessment": 2,
    # 3: the tools
    "tools": 3,
    "graders": 3,
}
ONE_FILE_PER_TOOL = ("tools", "graders")

ONLY_IN = {
    "numpy": {"stats"},
    "jsonpath_rfc9535": {"jsonpath"},
    "click": {"lightclick"},
    "openai": {"model"},
    "tiktoken": {"tokens"},
    "wikipedia": {"wiki"},
    "asyncio": {"hosts.python", "acpserver"},  # for a grader that is a coroutine, and for the SDK of ACP
    "acp": {"acpserver"},
    "pydantic": set[str](),
    "multiprocessing": set[str](),
    "requests": {"wiki"},
    "orjson": set[str](),
}

# Who may name the standard streams: stream.py owns them; a host is the main program of a process of its own; command.py
# flushes at the end, console.py owns stderr.
STREAMS = {
    "stream": {"stdin", "stdout"},
    "hosts.python": {"stdin", "stdout"},
    "command": {"flush"},
    "console": set[str](),
}
VAGUE = {"base", "common", "core", "helper", "helpers", "manager", "misc", "shared", "util", "utils"}
LONGEST_FILE = 400


class Module(NamedTuple):
    """A file of the package, parsed."""

    name: str
    path: Path
    tree: ast.Module

    @property
    def level(self) -> int:
        folder = self.name.partition(".")[0]
        return LEVELS[folder if folder in ONE_FILE_PER_TOOL else self.name]


def _modules() -> Iterator[Module]:
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        name = ".".join(part for part in parts if part != "__init__")
        if name:
            yield Module(name, path, ast.parse(path.read_text()))


MODULES = {module.name: module for module in _modules()}


def imports(module: Module, *, types_too: bool = True) -> Iterator[str]:
    """Full names of the modules it imports, wherever in the file; without types_too, only those that run."""
    for node in _walk(module.tree, types_too):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0 and node.module, f"{module.path}:{node.lineno}: imports are absolute"
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _walk(node: ast.AST, types_too: bool) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        if not types_too and isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING":
            continue
        yield child
        yield from _walk(child, types_too)


def ours(module: Module, *, types_too: bool = True) -> set[str]:
    """The modules of this package that it imports."""
    found = {name.removeprefix("agenteval.") for name in imports(module, types_too=types_too) if "agenteval." in name}
    return {name for name in found if name in MODULES} - {module.name}


every_module = pytest.mark.parametrize("module", MODULES.values(), ids=MODULES)


# --- levels -------------------------------------------------------------------------------------


def test_every_module_has_a_level() -> None:
    flat = {name for name in MODULES if name.partition(".")[0] not in ONE_FILE_PER_TOOL}
    assert flat - set(LEVELS) == set(), "say in LEVELS where it belongs"
    assert set(LEVELS) - flat - set(ONE_FILE_PER_TOOL) == set(), "no such module any more"


@every_module
def test_imports_only_from_its_own_level_or_below(module: Module) -> None:
    above = {name: MODULES[name].level for name in ours(module) if MODULES[name].level > module.level}
    assert above == {}, f"{module.path} is on level {module.level}"


def test_a_tool_never_imports_a_tool() -> None:
    tools = {name for name in MODULES if name.startswith(("tools.", "graders."))}
    assert {name: sorted(ours(MODULES[name]) & tools) for name in tools if ours(MODULES[name]) & tools} == {}


def test_no_circles() -> None:
    graph = {name: ours(module, types_too=False) - {name.rpartition(".")[0]} for name, module in MODULES.items()}
    list(TopologicalSorter(graph).static_order())  # raises CycleError, which names the circle


# --- one place for each thing -------------------------------------------------------------------


@every_module
def test_each_heavy_package_in_one_file(module: Module) -> None:
    packages = {name.partition(".")[0] for name in imports(module)}
    misplaced = {package for package in packages & set(ONLY_IN) if module.name not in ONLY_IN[package]}
    assert misplaced == set(), f"{module.path}: import them where ONLY_IN says"


@every_module
def test_only_stream_touches_the_streams(module: Module) -> None:
    allowed = STREAMS.get(module.name, set())
    found = []
    for node in ast.walk(module.tree):
        text = ast.unparse(node) if isinstance(node, (ast.Attribute, ast.Call)) else ""
        if isinstance(node, ast.Attribute) and re.fullmatch(r"sys\.(__)?(stdin|stdout)(__)?", text):
            if node.attr.strip("_") not in allowed and "flush" not in allowed:
                found.append((node.lineno, text))
        elif isinstance(node, ast.Call) and re.match(
            r"(print|input)\(|os\.(read|write|fdopen)\([01]\b|open\([01]\b", text
        ):
            found.append((node.lineno, text))
    assert found == [], f"{module.path}: stdin and stdout belong to stream.py"


@every_module
def test_names_say_the_thing(module: Module) -> None:
    assert set(module.name.split(".")) & VAGUE == set()
    assert (ast.get_docstring(module.tree) or "").strip(), f"{module.path} says in its first line what it is"


@every_module
def test_files_stay_short(module: Module) -> None:
    assert len(module.path.read_text().splitlines()) <= LONGEST_FILE


# --- what a start costs -------------------------------------------------------------------------

HEAVY = {"numpy", "jsonpath_rfc9535", "asyncio", "subprocess", "inspect", "multiprocessing", "logging", "email", "http"}
RAW = {"id": "a", "input": "x", "rawLines": ['{"type":"result","result":"42"}'], "timing": {"start": 1, "end": 2}}
RESULT = {"id": "a", "output": "42", "hint": "42"}
SOURCED = {**RESULT, "expected_sources": ["A"], "trajectory": [], "timing": {"inputTokens": 9, "outputTokens": 9}}


@pytest.mark.parametrize(
    "command",
    [
        ["ae-extract", "--version"],
        ["ae-extract", "-s", "claude", "raw.jsonl"],
        ["ae-run", "--simple", "echo {}", "prompts.jsonl"],
        ["ae-run", "prompts.jsonl", "--", "cat"],
        ["ae-grade", "-g", "ae-grader-hint", "results.jsonl"],
        ["ae-grader-hint", "results.jsonl"],
        ["ae-format", "results.jsonl"],
        ["ae-summarize", "results.jsonl"],
        ["ae-calibrate", "-f", "json", "results.jsonl"],
        ["ae-summarize", "--markdown", "results.jsonl"],
        ["ae-format", "-f", "csv", "results.jsonl"],
        ["ae-compare", "results.jsonl", "others.jsonl"],
        ["ae-grader-sources", "sources.jsonl"],
        ["ae-grader-tools", "sources.jsonl"],
        ["ae-grader-judge", "--version"],
        ["ae-score", "sources.jsonl"],
        ["ae-score", "-f", "table", "sources.jsonl"],
    ],
    ids=" ".join,
)
def test_the_way_in_is_light(command: list[str], tmp_path: Path) -> None:
    write(tmp_path / "raw.jsonl", RAW)
    write(tmp_path / "prompts.jsonl", {"id": "a", "input": "x"})
    write(tmp_path / "sources.jsonl", SOURCED)
    for name in ("results.jsonl", "others.jsonl"):
        write(tmp_path / name, RESULT)
    done = run(*command, cwd=tmp_path, env={"PYTHONPROFILEIMPORTTIME": "1"}).expect(0)
    imported = set(re.findall(r"^import time:\s+\d+ \|\s+\d+ \|\s+(\w+)", done.stderr, re.MULTILINE))
    assert "click" in imported, done
    assert imported & HEAVY == set()
