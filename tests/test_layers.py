"""The structure of agenteval/: who imports whom, where each thing is, and what a start imports."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support.tool import ROOT, run, write

PACKAGE = ROOT / "agenteval"

# Each package may import those before it; errors may be imported by all, reports by cli alone.
ORDER = (
    *("errors", "wire", "streams", "statistics", "models", "processes", "adapters", "agents", "suites", "grading"),
    *("comparison", "review", "wikipedia", "reports", "cluster", "cli"),
)

# Packages that take long to import, or that few need: each is imported in one file, and only when it is used.
HEAVY = {"genai_prices", "jsonpath_rfc9535", "numpy", "openai", "pyarrow", "ray", "regex", "tiktoken", "wikipedia"}
UNUSED = {"acp", "multiprocessing", "pydantic"}

# Modules that may use the standard streams. A grader host is the main program of its own process; cli.tool flushes at
# the end; streams.console owns stderr.
STREAMS = {
    "streams.source": {"stdin"},
    "streams.output": {"stdout"},
    "grading.python_host": {"stdin", "stdout"},
    "streams.files": {"stdout"},
    "streams.console": set[str](),
}
VAGUE = {"base", "common", "core", "helper", "helpers", "manager", "misc", "shared", "util", "utils"}


class Module(NamedTuple):
    """A parsed file of agenteval/."""

    name: str
    path: Path
    tree: ast.Module

    @property
    def package(self) -> str:
        """Returns the first folder below agenteval/, or "errors" for errors.py."""
        return self.name.partition(".")[0]


@cache
def modules() -> dict[str, Module]:
    """Returns the modules by name, without "agenteval."; parsed once, and not in workers that need none of them."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        name = ".".join(part for part in parts if part != "__init__")
        if name:
            found[name] = Module(name, path, ast.parse(path.read_text()))
    return found


def imports(module: Module, *, types_too: bool = True) -> Iterator[str]:
    """Yields the full names of all imports in the file; without types_too, only those outside TYPE_CHECKING."""
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
    """Returns the modules of agenteval/ that it imports."""
    found = {name.removeprefix("agenteval.") for name in imports(module, types_too=types_too) if "agenteval." in name}
    return {name for name in found if name in modules()} - {module.name}


def violations(check: Callable[[Module], Collection[object]]) -> dict[str, Collection[object]]:
    """Returns what the check finds, by module; empty if all modules are in order."""
    return {name: found for name, module in modules().items() if (found := check(module))}


# --- packages -----------------------------------------------------------------------------------


def test_imports_go_in_one_direction() -> None:
    def wrong(module: Module) -> set[str]:
        before = ORDER[: ORDER.index(module.package) + 1]
        found = {modules()[name].package for name in ours(module)}
        return {
            name for name in found if name not in before or (name == "reports" and module.package not in (name, "cli"))
        }

    assert {module.package for module in modules().values()} <= set(ORDER)
    assert violations(wrong) == {}


def test_no_cycle_between_modules() -> None:
    graph = {name: ours(module, types_too=False) - {name.rpartition(".")[0]} for name, module in modules().items()}
    list(TopologicalSorter(graph).static_order())


def test_a_tool_never_imports_a_tool() -> None:
    tools = {name for name in modules() if name.startswith(("cli.tools.", "cli.graders."))}
    assert {name: sorted(ours(modules()[name]) & tools) for name in tools if ours(modules()[name]) & tools} == {}


def test_public_class_names_are_unique() -> None:
    homes = defaultdict(set)
    for module in modules().values():
        for node in module.tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes[node.name].add(module.name)
    assert {name: sorted(places) for name, places in homes.items() if len(places) > 1} == {}


# --- one place for each thing -------------------------------------------------------------------


def test_each_heavy_package_is_imported_in_one_file() -> None:
    homes = defaultdict(set)
    for module in modules().values():
        for package in {name.partition(".")[0] for name in imports(module)}:
            homes[package].add(module.name)
    assert {package: sorted(homes[package]) for package in HEAVY if len(homes[package]) > 1} == {}
    assert {package: sorted(homes[package]) for package in UNUSED if homes[package]} == {}


def test_only_streams_uses_stdin_and_stdout() -> None:
    assert violations(_stream_uses) == {}, "stdin and stdout belong to streams/"


def _stream_uses(module: Module) -> list[tuple[int, str]]:
    allowed = STREAMS.get(module.name, set())
    found = []
    for node in ast.walk(module.tree):
        text = ast.unparse(node) if isinstance(node, (ast.Attribute, ast.Call)) else ""
        if isinstance(node, ast.Attribute) and re.fullmatch(r"sys\.(__)?(stdin|stdout)(__)?", text):
            if node.attr.strip("_") not in allowed:
                found.append((node.lineno, text))
        elif isinstance(node, ast.Call) and re.match(
            r"(print|input)\(|os\.(read|write|fdopen)\([01]\b|open\([01]\b", text
        ):
            found.append((node.lineno, text))
    return found


def test_names_are_specific_and_every_module_has_a_docstring() -> None:
    assert violations(lambda module: set(module.name.split(".")) & VAGUE) == {}
    assert [module.name for module in modules().values() if not ast.get_docstring(module.tree)] == []


# --- what a start costs -------------------------------------------------------------------------

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
def test_a_start_imports_no_heavy_package(command: list[str], tmp_path: Path) -> None:
    write(tmp_path / "raw.jsonl", RAW)
    write(tmp_path / "prompts.jsonl", {"id": "a", "input": "x"})
    write(tmp_path / "sources.jsonl", SOURCED)
    for name in ("results.jsonl", "others.jsonl"):
        write(tmp_path / name, RESULT)
    done = run(*command, cwd=tmp_path, env={"PYTHONPROFILEIMPORTTIME": "1"}).expect(0)
    imported = set(re.findall(r"^import time:\s+\d+ \|\s+\d+ \|\s+(\w+)", done.stderr, re.MULTILINE))
    assert "click" in imported, done
    assert imported & HEAVY == set()


def test_types_are_converted_in_one_place() -> None:
    """msgspec crashes if a thread uses a type that another one is using for the first time; convert() prevents that."""
    calls = [
        module.name
        for module in modules().values()
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Attribute) and node.attr == "convert" and getattr(node.value, "id", "") == "msgspec"
    ]
    assert calls == ["wire.validation"]
