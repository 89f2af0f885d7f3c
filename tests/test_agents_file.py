"""AGENTS.md teaches what is true: its commands run, and every tool and option that a page names exists."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.support.tool import ROOT, TOOLS, read, run, script, write

PAGE = (ROOT / "AGENTS.md").read_text()
TOOLS_PAGE = (ROOT / "docs" / "tools.md").read_text()  # tests/test_docs.py compares it with every --help
GENERATED = {"docs/tools.md", "docs/wire-format.md"}
HISTORY = {"CHANGELOG.md", "CONTRIBUTING.md"}  # of options by name alone, and of tools that do not exist
FOUND = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("examples/*/README.md")]
PAGES = sorted({str(page.relative_to(ROOT)) for page in FOUND} - GENERATED - HISTORY)
BLOCKS = re.findall(r"^```sh\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
FENCED = r"^```(?:sh|make|yaml)\n(.*?)^```"
OPTION = re.compile(r"(?<![\w-])--?[a-zA-Z][a-z-]*")
# A Claude Code that knows two answers, and fixes the project when asked.
CLAUDE = r"""
for prompt; do :; done
case $* in *-p*) prompt=$(echo "$*" | sed 's/.*-p \(.*\) --output.*/\1/; s/.*-- //');; esac
case $prompt in
*17*) answer="It is 42.";;
*Fix*) sed -i.bak 's/- b/+ b/' sums.py; answer=Fixed.;;
*) answer=Green.;;
esac
printf '{"type":"assistant","message":{"content":[{"type":"text","text":"%s"}]}}\n' "$answer"
printf '{"type":"result","subtype":"success","is_error":false,"result":"%s","session_id":"s1"}\n' "$answer"
"""


def commands(text: str) -> Iterator[list[str]]:
    """Every call of a tool in a text: its name, then its options, those of graders named in quotes apart."""
    for code in [*re.findall(r"`([^`\n]+)`", text), *re.findall(FENCED, text, re.DOTALL | re.MULTILINE)]:
        for line in re.sub(r"<<'END'\n.*?^END$", "", code, flags=re.DOTALL | re.MULTILINE).splitlines():
            yield from _calls(line)


def _calls(line: str) -> Iterator[list[str]]:
    try:
        words = shlex.split(line)
    except ValueError:
        return  # a piece of code that is no command line
    call: list[str] = []
    for word in [*words, "|"]:
        name = re.match(r"(?:\w+=)?(ae-[a-z-]+)( |$)", word)
        if word in ("|", "&&", ">", "--") or (name and not call):
            if call:
                yield call
            call = [word] if name else []
        elif name:
            yield from _calls(word.partition("=")[2] if "=" in word.split(" ")[0] else word)
        elif call and OPTION.fullmatch(word):
            call.append(word)


@cache
def options_of(tool: str) -> frozenset[str]:
    hidden = {"--stdin"}  # accepted because agent-eval-harness has it, and not in the help
    shown = re.search(rf"^## {tool}\n\n```\n(.*?)^```$", TOOLS_PAGE, re.DOTALL | re.MULTILINE)
    assert shown is not None
    return frozenset(OPTION.findall(shown[1])) | hidden


def test_commands_are_found() -> None:
    found = list(commands('`ae-run p.jsonl -s x -- cmd -z` and `ae-grade -g "judge=ae-grader-judge --no-such 1" -j 2`'))
    assert found == [["ae-run", "-s"], ["ae-grader-judge", "--no-such"], ["ae-grade", "-g", "-j"]]


@pytest.mark.parametrize("name", PAGES)
def test_every_tool_and_option_exists(name: str) -> None:
    page = (ROOT / name).read_text()
    named = set(re.findall(r"(?<![\w./-])ae-[a-z]+(?:-[a-z]+)*", page))
    assert named <= set(TOOLS)
    unknown = {(tool, option) for tool, *options in commands(page) for option in options} - {
        (tool, option) for tool in TOOLS for option in options_of(tool)
    }
    assert unknown == set()
    # of agents, of pip, of ae init, of sbatch, of agent-eval-harness, of docker; of claude plugin eval and promptfoo
    others = {"--dangerously-skip-permissions", "--only-binary", "--from", "--array", "--list", "--split"}
    others |= {"--cap-add", "--security-opt", "--ablation", "-any", "-all", "--network"}
    everything = frozenset().union(*map(options_of, TOOLS)) | others
    alone = {option for code in re.findall(r"`(-[^`\n]*)`", page) for option in OPTION.findall(code.split(" '")[0])}
    assert alone - everything == set()


def test_every_tool_is_taught() -> None:
    taught = set(re.findall(r"ae-[a-z]+(?:-[a-z]+)*", PAGE))
    assert set(TOOLS) - taught == {"ae", "ae-wikiagent"}, "all but the front page and the agent of an example"


def test_it_is_a_skill() -> None:
    """What agents load a skill by: a name, and one line on when to use it."""
    front = re.match(r"---\nname: agenteval\ndescription: (.+)\n---\n\n# ", PAGE)
    assert front is not None and len(front[1]) < 1024
    assert PAGE.count("\n") < 150


@pytest.mark.skipif(shutil.which("jq") is None, reason="jq is not on PATH")
def test_the_recipes(tmp_path: Path) -> None:
    """All blocks, typed one after the other in one directory, with a stand-in for Claude Code on PATH."""
    (tmp_path / "bin").mkdir()
    script(tmp_path / "bin" / "claude", CLAUDE)
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "sums.py").write_text("def add(a, b):\n    return a - b\n")
    test = "import unittest\nfrom sums import add\n\n\nclass Sums(unittest.TestCase):\n    def test(self):\n"
    (tmp_path / "project" / "test_sums.py").write_text(f"{test}        self.assertEqual(add(1, 2), 3)\n")
    write(tmp_path / "tasks.jsonl", {"id": "add", "input": "Fix add."}, {"id": "nothing", "input": "Do nothing."})

    first, evaluate, compare, trials, coding, adapter = BLOCKS
    done = [
        run("/bin/sh", "-e", "-c", f'PATH="{tmp_path}/bin:$PATH"\n{block}', cwd=tmp_path, timeout=90).expect(code)
        for block, code in ((evaluate, 0), (first, 0), (compare, 1), (trials, 0), (coding, 0), (adapter, 0))
    ]
    passed = {record["id"]: record["score"]["pass"] for record in read(tmp_path / "old.jsonl")}
    assert passed == {"sum": True, "sea": False}
    assert '"reasoning":"misses the hint"' in done[0].stdout
    assert "1 passed, 1 did not pass" in done[1].stdout
    assert "## Verdict" in done[2].stdout and "2 prompts" in done[2].stderr  # too few for a gate
    assert '{"id":"sum","passRate":1,"passAtK":1,"passExpK":1}' in done[3].stdout
    graded = {record["id"]: record["score"]["pass"] for record in read(tmp_path / "graded.jsonl")}
    assert graded == {"add": True, "nothing": False}
    assert "sum" in (tmp_path / "scores.csv").read_text()
