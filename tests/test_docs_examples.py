"""What docs/grading.md, docs/recipes.md and docs/tutorial.md show is run: a grader in five languages, every command."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.cli.test_sandbox import bubblewrap
from tests.support.tool import ROOT, read, run

PAGE = re.split(r"^## ", (ROOT / "docs" / "grading.md").read_text(), flags=re.MULTILINE)
(WRITING,) = (section for section in PAGE if section.startswith("Writing a grader"))
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


INTRO, *REST = re.split(r"^### ", WRITING, flags=re.MULTILINE)
SECTIONS = {re.split(r"\W", section.lower())[0]: blocks(section) for section in REST}


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


TUTORIAL = re.split(r"^## ", (ROOT / "docs" / "tutorial.md").read_text(), flags=re.MULTILINE)[1:]


@pytest.mark.skipif(shutil.which("jq") is None, reason="jq is not on PATH")
def test_the_tutorial_runs_as_it_says(tmp_path: Path) -> None:
    """Every command of every step runs, one after the other, and prints the lines that the page shows after it."""
    for section in TUTORIAL:
        printed = ""
        for language, text in blocks(section):
            if language == "sh":
                printed = run("/bin/sh", "-e", "-c", text, cwd=tmp_path, timeout=120).expect(0).stdout
            elif language == "text":
                assert [line for line in text.splitlines() if line not in printed] == [], printed
    names = {path.name for path in tmp_path.iterdir()}
    assert {"first.jsonl", "second.jsonl", "trials.jsonl", "report.html", "comparison.md", "runs"} <= names
    assert [record["score"]["pass"] for record in read(tmp_path / "second.jsonl")] == [True] * 5


CLAUDE = r"""#!/bin/sh
echo '{"type": "system", "subtype": "init", "session_id": "s", "model": "m", "claude_code_version": "2.1.326"}'
echo '{"type": "result", "subtype": "success", "is_error": false, "result": "hello, blue", "session_id": "s"}'
"""
CODEX = r"""#!/bin/sh
echo '{"type": "thread.started", "thread_id": "t"}'
echo '{"type": "item.completed", "item": {"id": "1", "type": "agent_message", "text": "hello, blue"}}'
"""


def stand_ins(folder: Path) -> str:
    """Writes programs that answer like claude and codex, and returns the shell lines that put them on PATH."""
    (folder / "bin").mkdir()
    for name, source in {"claude": CLAUDE, "codex": CODEX}.items():
        (folder / "bin" / name).write_text(source)
        (folder / "bin" / name).chmod(0o755)
    return "PATH=$PWD/bin:$PATH; HOME=$PWD/home; export PATH HOME; mkdir -p home\n"


@bubblewrap
def test_the_tutorial_ends_with_real_agents(tmp_path: Path) -> None:
    """Its last commands, in the sandbox, with programs that answer like the real ones."""
    ((_, last),) = [block for block in blocks(TUTORIAL[-1]) if block[0] == "console"]
    (_, prompts), *_ = blocks(TUTORIAL[1])
    file = prompts.partition("END\n")[0] + "END\n"
    commands = re.sub(r"^\$ ", "", last, flags=re.MULTILINE)
    run("/bin/sh", "-e", "-c", stand_ins(tmp_path) + file + commands, cwd=tmp_path, timeout=120).expect(0)
    for name in ("claude", "codex"):
        records = read(tmp_path / f"{name}.jsonl")
        assert [record["output"] for record in records] == ["hello, blue"] * 5 and "errors" not in records[0], records
    assert (tmp_path / "report.html").exists()


def test_the_commands_of_the_readme_run(tmp_path: Path) -> None:
    """The first evaluation as it is; what names a real agent, with a program of that name that answers alike."""
    found = blocks((ROOT / "README.md").read_text())
    (grader,) = (text for language, text in found if language == "python")
    first, pipeline, questions = (text for language, text in found if language == "sh" and "ae-" in text)
    shown = run("/bin/sh", "-e", "-c", first, cwd=tmp_path).expect(0).stdout
    assert "2 (1 passed, 1 did not pass)" in shown and (tmp_path / "report.html").stat().st_size > 10_000, shown
    path = stand_ins(tmp_path)
    (tmp_path / "grader.py").write_text(grader)
    (tmp_path / "skills/pdf").mkdir(parents=True)
    (tmp_path / "skills/pdf/SKILL.md").write_text("---\nname: pdf\ndescription: Read PDF files.\n---\nUse pdftotext.\n")
    prepare = f"""{path}
    mkdir -p results runs
    sed 's/"checks"/"reference": "hello, blue", "checks"/' prompts.jsonl > with && mv with prompts.jsonl
    for run in old new results/a results/b results/c runs/1; do cp results.jsonl $run.jsonl; done
    """
    done = run("/bin/sh", "-e", "-c", prepare + pipeline, cwd=tmp_path, timeout=60).expect(0)
    assert "2 (2 passed)" in done.stdout, done
    run("/bin/sh", "-e", "-c", prepare + questions, cwd=tmp_path, timeout=120).expect(0)
    assert (tmp_path / "ranking.html").exists() and len(read(tmp_path / "trials.jsonl")) == 2
    assert all(record["metadata"]["variant"]["skills"] for record in read(tmp_path / "skill.jsonl"))
