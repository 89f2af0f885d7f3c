"""One word for one thing: agents fail, records do not pass, graders err, lines are refused."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.tool import ROOT

THINGS = r"(?:records?|prompts?|results?|questions?|trials?|answers?|references?|lines?|rows?|gates?|verdicts?)"
GRADERS = r"(?:graders?|judges?)"
LINK = r"(?: (?:that|which|has|have|had|may|can|will))*"
MISUSES = [
    rf"\b{THINGS}{LINK} fail(?:s|ed)?\b",
    rf"\b(?:failed|failing|erred) {THINGS}\b",
    rf"\b{THINGS}{LINK} (?:err|errs|erred)\b",
    rf"\b{GRADERS}{LINK} fail(?:s|ed)?\b",
    rf"\b(?:failed|failing|refused) {GRADERS}\b",
    rf"\b{GRADERS}'?s? failures?\b",
    rf"\bfail(?:s|ed)? (?:its|the|a|their) (?:own )?{GRADERS}\b",
    r"\bagents?(?: that| which| has| have)* (?:err|errs|erred|did not pass|do not pass)\b",
    r"\b(?:refused|erred) agents?\b",
    r"\b\d+ (?:failed|fail)\b(?! agents?)",
]
MISUSE = re.compile("|".join(MISUSES), re.IGNORECASE)
ALLOWED = {
    "failed trial, so": "docs/statistics.md: a trial in the sense of statistics",
}
TEXTS = [
    *(ROOT / name for name in ("README.md", "AGENTS.md", "SECURITY.md", "CONTRIBUTING.md", "CHANGELOG.md")),
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "examples").glob("*/README.md")),
    *sorted((ROOT / "agenteval").glob("*/instructions/*")),
    *sorted((ROOT / "agenteval/reports").glob("**/*.js")),
]


def misuses(text: str) -> list[str]:
    """Returns the phrases that call something failed that cannot fail, with what follows them."""
    text = " ".join(text.split())
    found = (text[match.start() : match.end() + 12] for match in MISUSE.finditer(text))
    return [phrase for phrase in found if not any(phrase.startswith(allowed) for allowed in ALLOWED)]


def literals(path: Path) -> Iterator[tuple[int, str]]:
    """Yields the texts in a module, docstrings too: help and fields of records are some. A count in a text is a 0."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    inner = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield node.lineno, "".join(_literal(part) for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inner:
            yield node.lineno, node.value


def _literal(part: ast.expr) -> str:
    if isinstance(part, ast.Constant):
        return str(part.value)
    if "agent" in ast.unparse(part):
        return "agents"
    return "0" if re.search("count|failed|number|len|total|sum", ast.unparse(part)) else "…"


@pytest.mark.parametrize("package", sorted(path.name for path in (ROOT / "agenteval").iterdir() if path.is_dir()))
def test_messages_and_help(package: str) -> None:
    found = {
        f"{path.relative_to(ROOT)}:{line}: {phrase}"
        for path in (ROOT / "agenteval" / package).rglob("*.py")
        for line, text in literals(path)
        for phrase in misuses(text)
    }
    assert sorted(found) == []


def test_pages() -> None:
    found = [f"{path.relative_to(ROOT)}: {phrase}" for path in TEXTS for phrase in misuses(path.read_text())]
    assert found == []


@pytest.mark.parametrize(
    "wrong",
    [
        "3 records failed",
        "2 failed records",
        "the grader failed",
        "12 prompts failed",
        "a reference that fails its own grader",
        "3 of 15 prompts in 0:01, 2 failed",
        "grader failures",
        "the agent erred",
        "refused agents",
        "the trial has failed",
    ],
)
def test_a_misuse_is_found(wrong: str) -> None:
    assert misuses(wrong)


@pytest.mark.parametrize(
    "right",
    ["3 of 15 agents failed", "2 records did not pass", "1 agent failed", "graders erred", "lines were refused"],
)
def test_the_words_themselves_are_none(right: str) -> None:
    assert not misuses(right)
