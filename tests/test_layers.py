"""The structure of agenteval/: who imports whom, where each thing is, how large it may be, the words it may use."""

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

# Package → the packages it may import, besides itself and errors. CONTRIBUTING.md has the same table.
ALLOWED = {
    "wire": set[str](),
    "streams": {"wire"},
    "processes": {"streams", "wire"},
    "adapters": {"streams", "wire"},
    "comparison": {"streams", "wire"},
    "models": {"streams", "wire"},
    "agents": {"adapters", "processes", "streams", "wire"},
    "grading": {"comparison", "models", "processes", "streams", "wire"},
    "review": {"comparison", "streams", "wire"},
    "wikipedia": {"models", "streams", "wire"},
    "reports": {"comparison", "review", "streams", "wikipedia", "wire"},
    "cli": {
        *("adapters", "agents", "comparison", "grading", "models", "processes"),
        *("reports", "review", "streams", "wikipedia", "wire"),
    },
}

ONLY_IN = {
    "numpy": {"comparison.inference.bootstrap"},
    "genai_prices": {"comparison.prices"},
    "jsonpath_rfc9535": {"adapters.jsonpath"},
    "click": {"cli.startup", "cli.completion", "cli.options"},  # the others: classes of completion
    "openai": {"models.chat"},
    "tiktoken": {"models.tokens"},
    "wikipedia": {"wikipedia.wiki"},
    "asyncio": {"grading.hosts.python"},  # coroutine graders
    "acp": set[str](),
    "pydantic": set[str](),
    "multiprocessing": set[str](),
    "pyarrow": {"reports.exports.columns"},
    "requests": {"wikipedia.http_api"},
    "orjson": {"streams.jsonl", "cli.startup"},
    "ray": {"cli.cluster.ray_cluster"},
    "regex": {"streams.patterns"},
}

# Modules that may use the standard streams. A grader host is the main program of its own process; cli.tool flushes at
# the end; streams.console owns stderr.
STREAMS = {
    "streams.source": {"stdin"},
    "streams.output": {"stdout"},
    "grading.hosts.python": {"stdin", "stdout"},
    "streams.descriptors": {"stdout"},
    "streams.console": set[str](),
}
VAGUE = {"base", "common", "core", "helper", "helpers", "manager", "misc", "shared", "util", "utils"}
LONGEST_FILE = 350
LONGEST_FUNCTION = 50  # lines without its docstring
MOST_MODULES = 15  # in one folder
MOST_ENTRIES = 14  # in agenteval/ itself

# Words that only this project used. STYLE: the term that a man page, the Python documentation or the field uses.
PRIVATE_WORDS = re.compile(
    r"\b(told|unsaid|unheard|bury|buried|Attendance|Desk|Shelf|Witness|Utterance|Switchboard)\b|\b[Tt]he seed\b"
)


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


def test_the_packages_are_those_of_the_table() -> None:
    assert {module.package for module in modules().values()} - {"errors"} == set(ALLOWED)


def test_a_package_imports_only_what_it_may() -> None:
    assert violations(lambda module: {name for name in ours(module) if not may_import(module, modules()[name])}) == {}


def may_import(module: Module, other: Module) -> bool:
    """Returns whether ALLOWED lets a module import the other."""
    return other.package in {module.package, "errors"} | ALLOWED.get(module.package, set())


def test_no_cycle_between_packages() -> None:
    list(TopologicalSorter(ALLOWED).static_order())  # raises CycleError, which names the cycle


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


def test_functions_stay_short() -> None:
    assert (
        violations(lambda module: {f.name: _length(f) for f in _functions(module) if _length(f) > LONGEST_FUNCTION})
        == {}
    )


def _functions(module: Module) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    return [node for node in ast.walk(module.tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]


def _length(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Returns the number of its lines, without its docstring."""
    first = function.body[0]
    doc = ast.get_docstring(function) is not None
    end = function.end_lineno or function.lineno
    return end - function.lineno + 1 - ((first.end_lineno or first.lineno) - first.lineno + 1 if doc else 0)


FOLDERS = {path.parent for path in PACKAGE.rglob("*.py")} - {PACKAGE / "cli" / "tools"}  # there, one file per tool


@pytest.mark.parametrize("folder", sorted(FOLDERS), ids=lambda folder: str(folder.relative_to(PACKAGE)))
def test_packages_stay_small(folder: Path) -> None:
    modules = [path.name for path in folder.glob("*.py") if path.stem != "__init__"]
    assert len(modules) <= MOST_MODULES, modules


def test_the_top_of_the_package_stays_small() -> None:
    entries = sorted(path.name for path in PACKAGE.iterdir() if path.name != "__pycache__")
    assert len(entries) <= MOST_ENTRIES, entries


# --- one place for each thing -------------------------------------------------------------------


def test_each_heavy_package_is_imported_in_one_file() -> None:
    def misplaced(module: Module) -> set[str]:
        packages = {name.partition(".")[0] for name in imports(module)}
        return {package for package in packages & set(ONLY_IN) if module.name not in ONLY_IN[package]}

    assert violations(misplaced) == {}, "ONLY_IN says where they belong"


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


def test_files_stay_short() -> None:
    lengths = {name: module.path.read_text().count("\n") for name, module in modules().items()}
    assert {name: lines for name, lines in lengths.items() if lines > LONGEST_FILE} == {}


# --- words --------------------------------------------------------------------------------------


def worded_files() -> list[Path]:
    """Returns the files of the product that hold prose: code, schemas, instructions for models, documentation."""
    folders = [path for name in ("agenteval", "bench", "agent_rig") for path in (ROOT / name).rglob("*")]
    texts = [path for path in folders if path.suffix in (".py", ".md", ".json", ".txt", ".sh", ".mjs")]
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), ROOT / "Makefile"]
    return [path for path in (*texts, *pages) if path.parent.name != "articles"]


def test_no_private_words() -> None:
    found = defaultdict(list)
    for path in worded_files():
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if PRIVATE_WORDS.search(line):
                found[str(path.relative_to(ROOT))].append(number)
    assert dict(found) == {}


# --- what a start costs -------------------------------------------------------------------------

HEAVY = {
    "numpy",
    "jsonpath_rfc9535",
    "regex",
    "asyncio",
    "subprocess",
    "inspect",
    "multiprocessing",
    "logging",
    "email",
    "http",
}
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
