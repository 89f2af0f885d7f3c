"""What docs/graders.md and docs/recipes.md show is run: a grader in five languages, the commands with jq."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.tool import ROOT, read, run

PAGE = (ROOT / "docs" / "graders.md").read_text()
NEEDS = {"python": "", "sh": "jq", "javascript": "node", "go": "go", "rust": "rustc"}


def works(program: str) -> bool:
    """Returns whether a program is on PATH and answers: rustup's rustc does not without a toolchain in HOME."""
    version = "version" if program == "go" else "--version"
    return shutil.which(program) is not None and subprocess.run([program, version], capture_output=True).returncode == 0


WANTED = [  # all languages give the same verdicts
    {"pass": True, "score": 1.0, "reasoning": "4 words, hint found"},
    {"pass": False, "score": 0.5, "reasoning": "23 words, hint found"},
    {"pass": False, "score": 0.0, "reasoning": "3 words, hint missing"},
]


def blocks(text: str) -> list[tuple[str, str]]:
    """Returns language and code of each block."""
    return re.findall(r"^```(\w+)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


INTRO, *REST = re.split(r"^## ", PAGE, flags=re.MULTILINE)
SECTIONS = {re.split(r"\W", section.lower())[0]: blocks(section) for section in REST[:-1]}


def test_the_page_has_the_five_languages() -> None:
    assert set(SECTIONS) == set(NEEDS) and all(len(found) == 2 for found in SECTIONS.values())


@pytest.mark.parametrize("language", NEEDS)
def test_a_grader_in(language: str, tmp_path: Path) -> None:
    if (program := NEEDS[language]) and not works(program):
        pytest.skip(f"{program} is not on PATH")
    (_, source), (_, commands) = SECTIONS[language]
    named = re.search(r"^(?:#|//) (short\.\w+)$", source, re.MULTILINE)
    assert named is not None
    (tmp_path / named[1]).write_text(source)
    ((_, results),) = blocks(INTRO)
    env = {"RUSTUP_HOME": str(Path.home() / ".rustup")} if (Path.home() / ".rustup").is_dir() else {}
    done = run("/bin/sh", "-e", "-c", results + commands, cwd=tmp_path, env=env, timeout=120).expect(0, stderr="")
    assert done.stdout == ""
    assert [record["score"] for record in read(tmp_path / f"{language}.jsonl")] == WANTED
    if language != "python":  # one process per record, too
        grader = re.search(r"-g (\S+)", commands)
        assert grader is not None
        again = run("ae-grade", "results.jsonl", "-g", grader[1], cwd=tmp_path).expect(0, stderr="")
        assert [record["score"] for record in again.records] == WANTED


@pytest.mark.skipif(shutil.which("jq") is None, reason="jq is not on PATH")
def test_the_recipes_run(tmp_path: Path) -> None:
    (_, start), (_, jq), *_ = blocks((ROOT / "docs" / "recipes.md").read_text())
    run("/bin/sh", "-e", "-c", start, cwd=tmp_path, timeout=60).expect(0)
    done = run("/bin/sh", "-e", "-c", jq, cwd=tmp_path, timeout=60).expect(0, stderr="")
    lines = done.stdout.splitlines()
    assert lines[0].startswith('{"id":"sea","output":"The sea is","why":"') and lines[1] == '{"facts":0.5,"talk":1}'
    assert len(lines) == 5, done
    assert [record["score"]["pass"] for record in read(tmp_path / "again.jsonl")] == [True]
    assert len(read(tmp_path / "facts.jsonl")) == 2 and len(read(tmp_path / "strict.jsonl")) == 3
