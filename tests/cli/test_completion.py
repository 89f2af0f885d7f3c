"""TAB: the answers of a tool, and their effect in real bash, zsh and fish."""

from __future__ import annotations

import os
import pty
import re
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.tool import ROOT, TOOLS, clean_env, kill_all, run, script
from tests.support.watching import PATIENCE

# --- what a tool answers ------------------------------------------------------------------------


KINDS = {"plain": "words", "file": "files", "dir": "directories", "command": "commands"}


def answer(tool: str, *words: str) -> tuple[str, str, dict[str, str]]:
    """Returns what the shell adds itself, the start of the word that stays, and the words that fit."""
    kind, kept, *lines = run(tool, *words, env={"_AE_COMPLETE": "1"}).expect(0, stderr="").stdout.splitlines()
    return KINDS[kind], kept, {word: help for word, _, help in (line.partition("\t") for line in lines)}


@pytest.mark.parametrize(
    "line, kind, kept, words",
    [
        ("ae-format -f m", "words", "", ["markdown"]),
        ("ae-format --style ma", "words", "", ["markdown"]),
        ("ae-format --style=ma", "words", "--style=", ["markdown"]),
        ("ae-format --style=nonsense", "words", "--style=", []),
        ("ae-format --no-such=", "words", "--no-such=", []),
        ("ae-format -f csv ", "files", "", []),
        ("ae-format results.jsonl ", "words", "", []),
        ("ae-format -o ", "files", "", []),
        ("ae-format --output=re", "files", "--output=", []),
        ("ae-format -o -f ", "files", "", []),
        ("ae-format --progress --st", "words", "", ["--style", "--status", "--strict"]),
        ("ae-format --strict --st", "words", "", ["--style", "--status"]),
        ("ae-format --progress --no-p", "words", "", []),
        ("ae-format -- ", "files", "", []),
        ("ae-format -- -x ", "words", "", []),
        ("ae-format --stdi", "words", "", []),
        ("ae-format --vers", "words", "", ["--version"]),
        ("ae-format -h", "words", "", ["-h"]),
        ("ae-extract -s cla", "files", "", ["claude"]),
        ("ae-run -es cla", "files", "", ["claude"]),
        ("ae-run -sclaude ", "files", "", []),
        ("ae-run -j ", "words", "", []),
        ("ae-run --workspace-dir ", "directories", "", []),
        ("ae-run --workspace-template ", "directories", "", []),
        ("ae-run -- ", "commands", "", []),
        ("ae-run prompts.jsonl -j 2 -- npx ", "files", "", []),
        ("ae-grade -g ae-grader-h", "files", "", ["ae-grader-hint"]),
        ("ae-grade -g one=a -g two=ae-grader-h", "files", "two=", ["ae-grader-hint"]),
        ("ae-grade -g a --grad", "words", "", ["--grader", "--grader-timeout", "--grade-failed"]),
        ("ae-compare --run label:fi", "files", "label:", []),
        ("ae-compare one.jsonl two.jsonl ", "files", "", []),
        ("ae-schemas Traj", "words", "", ["TrajectoryStep"]),
        ("ae-adapters co", "words", "", ["codex", "continue", "copilot"]),
        ("ae grader-h", "words", "", ["grader-hint"]),
        ("ae hel", "words", "", ["help"]),
        ("ae help extr", "words", "", ["extract"]),
        ("ae completion ", "words", "", ["bash", "zsh", "fish"]),
        ("ae in", "words", "", ["init"]),
        ("ae init ", "directories", "", []),
        ("ae init --from ", "words", "", ["quickstart", "coding", "qa", "checks", "skill", "playoffs"]),
        ("ae init --from=q", "words", "--from=", ["quickstart", "qa"]),
        ("ae help ini", "words", "", ["init"]),
        ("ae --ver", "words", "", ["--version"]),
    ],
)
def test_answer(line: str, kind: str, kept: str, words: list[str]) -> None:
    tool, *typed = line.split(" ")
    found = answer(tool, *typed)
    assert (*found[:2], list(found[2])) == (kind, kept, words)


def test_answer_to_an_empty_word_is_everything() -> None:
    adapters = {path.stem for path in (ROOT / "agenteval" / "adapters" / "schemas").glob("*.json")}
    assert set(answer("ae-run", "-s", "")[2]) == adapters
    assert {f"ae-{name}" for name in answer("ae", "")[2]} >= set(TOOLS) - {"ae"}
    assert set(answer("ae-format", "-f", "")[2]) >= {"jsonl", "markdown", "csv", "table"}


def test_answer_says_what_a_word_means() -> None:
    assert answer("ae-run", "--keep")[2]["--keep-order"].startswith("Write records in input order")
    assert answer("ae-grade", "-g", "ae-grader-h")[2]["ae-grader-hint"] == "does the output contain the hint?"


def test_nothing_is_read_or_started_for_an_answer(tmp_path: Path) -> None:
    script(tmp_path / "ae-plugged", "touch started")
    for words in (["plugged", ""], ["help", "plugged", ""], ["plugged"]):
        run("ae", *words, cwd=tmp_path, env={"_AE_COMPLETE": "1", "PATH": f"{tmp_path}:/usr/bin:/bin"}).expect(0)
    assert not (tmp_path / "started").exists()


# --- what comes of it in a shell ----------------------------------------------------------------

SHOW = "show() { printf '<%s>' \"$@\"; echo END; }"
RC = {
    "bash": (
        ".bashrc",
        f"""\
PS1='> '; {SHOW}
eval "$(ae completion bash)"
_plugged() {{ [[ $2 == -* ]] && COMPREPLY=(--shiny); }}
complete -F _plugged ae-plugged
""",
        ["--rcfile", ".bashrc", "-i"],
    ),
    "zsh": (
        ".zshrc",
        f"""\
PS1='> '; {SHOW}
autoload -Uz compinit; compinit -u
eval "$(ae completion zsh)"
_plugged() {{ _arguments --shiny '*:file:_files' }}
compdef _plugged ae-plugged
""",
        ["-d", "-i"],
    ),
    "fish": (
        "fish/config.fish",
        """\
function fish_prompt; echo '> '; end
function show; printf '<%s>' $argv; echo END; end
ae completion fish | source
complete -c ae-plugged -l shiny
""",
        ["-i"],
    ),
}
TAKE_THE_TERMINAL = (
    "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execvp(sys.argv[1], sys.argv[1:])"
)
BEGIN_OF_LINE = "\x01"


def program(shell: str) -> str:
    """Returns the shell on PATH, or the one that TEST_BASH, TEST_ZSH or TEST_FISH names."""
    return os.environ.get(f"TEST_{shell.upper()}", shell)


class Terminal:
    """An interactive shell on a terminal, with the line of `ae completion --help` in its start-up file."""

    def __init__(self, shell: str, home: Path) -> None:
        self.shell = shell
        name, text, args = RC[shell]
        (home / name).parent.mkdir(exist_ok=True)
        (home / name).write_text(text)
        self._keyboard, terminal = pty.openpty()
        more = {"PATH": f"{home / 'plug-ins'}:{clean_env(home)['PATH']}", "TERM": "xterm", "XDG_CONFIG_HOME": str(home)}
        self.process = subprocess.Popen(
            [sys.executable, "-c", TAKE_THE_TERMINAL, program(shell), *args],
            cwd=home,
            env=clean_env(home, {**more, "ZDOTDIR": str(home)}),
            stdin=terminal,
            stdout=terminal,
            stderr=terminal,
            start_new_session=True,
        )
        os.close(terminal)
        self.shown = ""
        self.wait_for("> ")

    def tab(self, line: str) -> list[str]:
        """Returns the words of the line after TAB."""
        self.shown = ""
        os.write(self._keyboard, f"{line}\t{BEGIN_OF_LINE}show \r".encode())
        found = self.wait_for(r"((?:<[^<>\n]*>)+)END")
        return [word.removesuffix("/") for word in re.findall("<([^<>]*)>", found[1])]  # zsh removes it again

    def wait_for(self, pattern: str) -> re.Match[str]:
        deadline = time.monotonic() + PATIENCE
        while not (found := re.search(pattern, self.shown)):
            if not select.select([self._keyboard], [], [], max(0.0, deadline - time.monotonic()))[0]:
                raise AssertionError(f"{pattern!r} does not come; shown is {self.shown!r}")
            self.shown += os.read(self._keyboard, 1 << 16).decode("utf-8", "replace")
        return found

    def lacks(self, builtin: str) -> bool:
        return subprocess.run([program(self.shell), "-c", f"type {builtin}"], capture_output=True).returncode != 0

    def leave(self) -> None:
        kill_all(self.process)
        os.close(self._keyboard)


@pytest.fixture(scope="module", params=RC)
def terminal(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Terminal]:
    shell: str = request.param
    if not shutil.which(program(shell)):
        pytest.skip(f"no {shell} here; set TEST_{shell.upper()} to one")
    home = tmp_path_factory.mktemp(shell)
    for name in ("notes.jsonl", "my adapter.json", "subject.txt"):
        (home / name).touch()
    (home / "subdir").mkdir()
    (home / "plug-ins").mkdir()
    script(home / "plug-ins" / "ae-plugged", "touch started")
    opened = Terminal(shell, home)
    yield opened
    opened.leave()
    assert not (home / "started").exists(), "TAB started the plug-in"


@pytest.mark.parametrize(
    "line, words",
    [
        ("ae-format -f mark", "ae-format -f markdown"),
        ("ae-format --style=mark", "ae-format --style=markdown"),
        ("ae-format --sty", "ae-format --style"),
        ("ae-format no", "ae-format notes.jsonl"),
        ("ae-format -o no", "ae-format -o notes.jsonl"),
        ("ae-format --output=no", "ae-format --output=notes.jsonl"),
        ("ae-run -s clau", "ae-run -s claude"),
        ("ae-run -s my", "ae-run -s my_adapter.json"),
        ("ae-run -c sub", "ae-run -c subdir"),
        ("ae-run -o sub", "ae-run -o sub"),
        ("ae-run -- ae-grader-h", "ae-run -- ae-grader-hint"),
        ("ae-run -- cat no", "ae-run -- cat notes.jsonl"),
        ("ae-grade -g ae-grader-h", "ae-grade -g ae-grader-hint"),
        ("ae-grade -g mine=ae-grader-h", "ae-grade -g mine=ae-grader-hint"),
        ("ae-compare --run label:no", "ae-compare --run label:notes.jsonl"),
        ("ae extr", "ae extract"),
        ("ae extract --sch", "ae extract --schema"),
        ("ae extract -s clau", "ae extract -s claude"),
        ("ae help extr", "ae help extract"),
        ("ae completion f", "ae completion fish"),
        ("ae init --from co", "ae init --from coding"),
        ("ae init sub", "ae init subdir"),
        ("ae plug", "ae plugged"),
        ("ae plugged no", "ae plugged notes.jsonl"),
        ("ae plugged --sh", "ae plugged --shiny"),
    ],
)
def test_tab(terminal: Terminal, line: str, words: str) -> None:
    if line == "ae-run -c sub" and terminal.shell == "bash" and terminal.lacks("compopt"):
        pytest.skip("bash 3 cannot turn files off where directories are wanted")
    assert terminal.tab(line) == [word.replace("_", " ") for word in words.split(" ")], terminal.shown
