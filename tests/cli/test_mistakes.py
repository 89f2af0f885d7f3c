"""What newcomers type wrong: one line that says what to type instead, exit code 2, and nothing is run."""

from __future__ import annotations

import os
import resource
import shlex
from pathlib import Path

import pytest

from tests.support.tool import jsonl, run, script, write

PROMPTS = [{"id": str(number), "input": "hello", "hint": "hello"} for number in range(40)]
RESULT = {"id": "a", "input": "hello", "hint": "hello", "output": "hello", "trajectory": [], "timing": {"total": 1}}


@pytest.fixture
def here(tmp_path: Path) -> Path:
    write(tmp_path / "prompts.jsonl", *PROMPTS)
    write(tmp_path / "more.jsonl", *PROMPTS)
    write(tmp_path / "results.jsonl", RESULT)
    write(tmp_path / "again.jsonl", RESULT)
    (tmp_path / "prompts.csv").write_text("id,input\na,hello\n")
    (tmp_path / "results.csv").write_text("id,input,hint,output,tool_errors,duration_ms,label\na,,,,,,\n")
    (tmp_path / "utf16.jsonl").write_bytes(jsonl(*PROMPTS).encode("utf-16"))
    (tmp_path / "grader.py").write_text("def grade(record):\n    return {'pass': True}\n")
    (tmp_path / "unfinished.py").write_text("def grad(record):\n    return {'pass': True}\n")
    (tmp_path / "questions.txt").write_text("What is 2+2?\nWhat is 3+3?\n")
    (tmp_path / "prompts.yaml").write_text("- id: a\n  input: hello\n")
    (tmp_path / "empty.jsonl").touch()
    (tmp_path / "un-importable.py").touch()
    (tmp_path / "hint.txt").write_text("a hint\n")
    (tmp_path / "graders").mkdir()
    script(tmp_path / "agent", "echo hello")
    for name, first in {"windows": "#!/bin/sh\r\n", "strange": "#!/no/such/shell\n"}.items():
        (tmp_path / name).write_text(f"{first}echo hello\n", newline="")
        (tmp_path / name).chmod(0o755)
    return tmp_path


MISTAKES = [
    # graders
    ("ae-grade results.jsonl -g nograder.py", "-g nograder.py: no such grader; did you mean grader.py?"),
    ("ae-grade results.jsonl -g graders/mine.py", "-g graders/mine.py: no such file"),
    ("ae-grade results.jsonl -g ae-grader-hnt", "no such grader; did you mean ae-grader-hint?"),
    ("ae-grade results.jsonl -g 'judge --model x'", "-g judge: no such grader; did you mean ae-grader-judge?"),
    (
        "ae-grade results.jsonl -g qqqq",
        "-g qqqq: no such file, nor a command on PATH; those of the suite are ae-grader-ch",
    ),
    ("ae-grade results.jsonl -g graders", "-g graders: is a directory; name a file in it"),
    ("ae-grade results.jsonl --model m -g ae-grader-judge", "It goes with the grader: -g 'ae-grader-judge --model …'"),
    ("ae-capture prompts.jsonl -g ae-grader-hint --exact", "It goes with the grader: -g 'ae-grader-hint --exact …'"),
    ("ae-grade results.jsonl -g grader", "-g grader: no such grader; did you mean grader.py?"),
    ("ae-grade results.jsonl -g hint", "-g hint: no such grader; did you mean ae-grader-hint?"),
    ("ae-grade results.jsonl grader.py", "grader.py: name a grader with -g: -g grader.py"),
    ("ae-grade grader.py results.jsonl", "grader.py: name a grader with -g: -g grader.py"),
    ("ae-grade results.jsonl ae-grader-hint", "ae-grader-hint: name a grader with -g: -g ae-grader-hint"),
    ("ae-grade results.jsonl -g grader.py:grade", "name either a file or MODULE:FUNCTION; did you mean grader.py?"),
    (
        "ae-grade results.jsonl -g unfinished.py:grad",
        "name either a file or MODULE:FUNCTION; did you mean unfinished:grad?",
    ),
    (
        "ae-grade results.jsonl -g un-importable.py:grad",
        "name either a file or MODULE:FUNCTION; the function of a file is called grade",
    ),
    ("ae-grade results.jsonl -g unfinished.py", "it has no function 'grade'; define grade(record)"),
    (
        "ae-grade results.jsonl -g nomodule:grade",
        "grader nomodule:grade: ModuleNotFoundError: No module named 'nomodule'\n",
    ),
    ("ae-grade results.jsonl -g ./windows", "./windows: has Windows line endings, with which it cannot start"),
    (
        "ae-grade results.jsonl -g ./strange",
        "./strange: the interpreter in its first line, /no/such/shell, does not exist",
    ),
    (
        "ae-grade results.jsonl --model m",
        "-g 'ae-grader-checks --model …' or -g 'ae-grader-judge --model …' (try",
    ),
    # input
    ("ae-run prompts.jsonl out.jsonl -s claude", "ae-run reads one file; name the file to write with -o: -o out.jsonl"),
    ("ae-format results.jsonl report.html", "ae-format reads one file; name the file to write with -o: -o report.html"),
    ("ae-format results.jsonl table", "table: choose the format with -f table"),
    (
        "ae-run questions.txt -- cat",
        "contains text, not one JSON object per line; if each line is a prompt, convert it",
    ),
    ("ae-prompts prompts.csv csv", "the format comes first: ae-prompts csv prompts.csv"),
    ("ae-import results.jsonl claude", "the format comes first: ae-import claude results.jsonl"),
    ("ae-compare a=results.jsonl b=again.jsonl", "give a run as LABEL:PATH: --run a:results.jsonl"),
    (
        "ae-capture prompts.jsonl more.jsonl -s claude",
        "more.jsonl: ae-capture reads one file; for several: cat FILE… | ae-c",
    ),
    ("ae-run prompts.jsonl more.jsonl -- cat", "more.jsonl: ae-run reads one file; for several: cat FILE… | ae-run"),
    ("ae-format results.jsonl again.jsonl", "again.jsonl: ae-format reads one file; for several: cat FILE… | ae-f"),
    ("ae-capture promts.jsonl --simple 'echo {}'", "No such file or directory; did you mean prompts.jsonl?"),
    ("ae-capture nothing.jsonl --simple 'echo {}'", "nothing.jsonl: No such file or directory"),
    ("ae-capture 'What is 2+2?' -s text", "to give the prompt itself, use -p 'What is 2+2?'"),
    ("ae-capture graders --simple 'echo {}'", "graders: is a directory; name a file of records"),
    (
        "ae-capture prompts.csv --simple 'echo {}'",
        "looks like CSV, not like one JSON object per line; turn it into prompts with ae-prompts csv",
    ),
    (
        "ae-run prompts.yaml --simple 'echo {}'",
        "contains YAML, not one JSON object per line; turn a promptfoo suite",
    ),
    ("ae-format results.csv", "looks like CSV from ae-format, which no tool reads back; give the JSONL file"),
    ("ae-run utf16.jsonl -- cat", "is UTF-16, not UTF-8; convert it with iconv -f UTF-16 -t UTF-8 utf16.jsonl"),
    ("ae-format prompts.jsonl", "contains prompts; run them with ae-run, ae-capture or ae-trials"),
    ("ae-show a results.jsonl", "the file comes first: ae-show results.jsonl a"),
    ("ae-compare results.jsonl", "give two or more runs"),
    # agents
    ("ae-capture prompts.jsonl claude", "claude: name an agent with -s: ae-capture prompts.jsonl -s claude"),
    (
        "ae-capture prompts.jsonl ./agent",
        "put -- before the command: ae-capture prompts.jsonl -- ./agent",
    ),
    (
        "ae-capture prompts.jsonl --simple echo {}",
        "put quotes around the command of --simple: ae-capture prompts.jsonl --simple 'echo {}'",
    ),
    (
        "ae-capture prompts.jsonl --simple=./agent {} twice -o out.jsonl",
        "ae-capture prompts.jsonl --simple './agent {} twice' -o out.jsonl (try",
    ),
    (
        "ae-capture prompts.jsonl --simple ./agent x 'a b' {} -o out.jsonl",
        """ae-capture prompts.jsonl --simple './agent x '"'"'a b'"'"' {}' -o out.jsonl (try""",
    ),
    (
        "ae-capture --simple echo {} prompts.jsonl -o out.jsonl",
        "{}: put quotes around the command of --simple: ae-capture --simple 'echo {}' prompts.jsonl -o out.jsonl (try",
    ),
    (
        "ae-capture prompts.jsonl --simple claude -p {}",
        "-p {}: put quotes around the command of --simple: --simple 'claude -p {}'",
    ),
    ("ae-capture prompts.jsonl -s claude {}", "Got unexpected extra argument ({}): put quotes around a prompt"),
    ("ae-capture prompts.jsonl --simple './agnet {}'", "./agnet: no such command; did you mean ./agent?"),
    ("ae-capture prompts.jsonl -s cluade", "did you mean claude?"),
    ("ae-capture prompts.jsonl --simple ./agent --sandbox dokcer", "is not one of 'bwrap', 'podman', 'docker'."),
    ("ae-capture prompts.jsonl --shell true -o out.jsonl --resume --overwrite", "--resume keeps them: choose one"),
    (
        "ae-run prompts.jsonl --label test ./agent --acp",
        "No such option '--acp': put -- before the command: ae-run prompts.jsonl --label test -- ./agent --acp",
    ),
    ("ae-run prompts.jsonl --label ./agent --acp", "No such option '--acp'. Did you mean '--mcp'?"),
    (
        "ae-ray prompts.jsonl --resume ae-run --simple 'echo {}'",
        "put -- before the command: ae-ray prompts.jsonl --resume -- ae-run --simple 'echo {}'",
    ),
    ("ae-sandbox ls -l", "put -- before the command: ae-sandbox -- ls -l"),
    (
        "ae-run prompts.jsonl --simple 'echo {}' --workspace-dir more.jsonl",
        "--workspace-dir more.jsonl: is a file; name a directory",
    ),
    ("ae-run prompts.jsonl ./agent", "if it does not speak ACP: --simple './agent {}'"),
    ("ae-capture prompts.jsonl sh grader.py", "if it does not speak ACP: --simple 'sh grader.py {}' (try"),
    ("ae-run prompts.jsonl sh -- x", "Got unexpected extra argument (sh) (try 'ae-run --help')"),
    ("ae-run prompts.jsonl --simple 'agent {}'", "agent: command not found; did you mean ./agent?"),
    ("ae-run prompts.jsonl --simple './windows {}'", "./windows: has Windows line endings, with which it cannot start"),
    ("ae-run prompts.jsonl --simple 'A=1 ./agent {}'", "--simple: set a variable with --env A=1"),
    ("ae-run prompts.jsonl --shell ' '", "--shell: the command is empty"),
    (
        "ae-run prompts.jsonl -s agent",
        "is a script, not an adapter schema; to run it as the agent: --simple './agent {}'",
    ),
    ("ae-run -s prompts.jsonl", "prompts.jsonl: is a file of records, not an adapter schema; ae-adapters lists those"),
    (
        "ae-run -- prompts.jsonl --simple 'echo {}'",
        "what follows -- is the agent's command: ae-run prompts.jsonl --simple 'echo {}' (try",
    ),
    ("ae-run prompts.jsonl -s graders", "graders: is a directory; name a schema file in it"),
    ("ae-run prompts.jsonl -s ./graders", "./graders: is a directory; name a schema file in it"),
    ("ae-run prompts.jsonl -s claude.json", "claude.json: No such file or directory; did you mean claude?"),
    ("ae-capture say hello -s text", "(hello): put quotes around a prompt, as in -p 'What is 2+2?'"),
    ("ae-run prompts.jsonl --simple './agent {}' -o agent", "agent: is not a file of records; write to another file"),
    ("ae-format results.jsonl -o graders", "graders: is a directory; name a file in it"),
    # options and names
    ("ae-run prompts.jsonl --jobs 4", "No such option '--jobs'. Did you mean '--concurrency'?"),
    ("ae-run prompts.jsonl --agent claude", "No such option '--agent'. Did you mean '--schema'?"),
    ("ae-compare results.jsonl again.jsonl --agent claude", "No such option '--agent'. (try"),  # -s is the strategy
    ("ae-gate results.jsonl --pass-rate 0.9", "No such option '--pass-rate'. Did you mean '--min passRate=…'?"),
    ("ae-gate results.jsonl --min passRate=90%", "passRate is between 0 and 1: write passRate=0.9"),
    ("ae-plan --pass-rate 80%", "80% is a percentage: write 0.8"),
    ("ae-plan --pass-rate -80%", "'-80%' is not a valid number"),
    ("ae-format results.jsonl --model x", "These have it: ae-capture, ae-run, ae-trials"),
    ("ae-trials prompts.jsonl --trials 3", "No such option '--trials'. These have it: ae-plan"),
    ("ae-run prompts.jsonl -j many", "'many' is not a valid whole number"),
    ("ae-plan --pass-rate high", "'high' is not a valid number"),
    ("ae-score results.jsonl --criteria minimm", "--criteria minimm: no such file; did you mean minimum?"),
    ("ae-extract", "Missing option -s FILE|NAME: ae-extract [OPTIONS] [RAW]"),
    ("ae-prompts prompts.csv", "Missing argument 'PATH': ae-prompts [OPTIONS] FORMAT PATH"),
    ("ae-gate results.jsonl --min passrate=0.5", "there is no figure 'passrate'; did you mean passRate"),
    ("ae caputre", "did you mean capture?"),
]


@pytest.mark.parametrize(("command", "message"), MISTAKES, ids=[command for command, _ in MISTAKES])
def test_a_line_that_helps(here: Path, command: str, message: str) -> None:
    done = run(*shlex.split(command), cwd=here).expect(2)
    done.says(message)
    assert done.out == b"", done


def test_the_advice_can_be_typed(here: Path) -> None:
    run("ae-prompts", "csv", "prompts.csv", "-o", "new.jsonl", cwd=here).expect(0)
    run("/bin/sh", "-c", "cat results.jsonl again.jsonl | sed 2s/a/b/2 | ae-grade -g grader.py", cwd=here).expect(0)


def test_no_references(here: Path) -> None:
    done = run("ae-validate-refs", "prompts.jsonl", "-g", "ae-grader-hint", cwd=here).expect(1)
    done.says('no prompt has a "reference"', "nothing was validated")


def test_no_prompts_to_validate(here: Path) -> None:
    done = run("ae-validate-refs", "empty.jsonl", "-g", "grader.py", cwd=here).expect(0)
    assert done.messages == ["ae-validate-refs: empty.jsonl: contains no prompts: nothing was validated"]


@pytest.mark.parametrize(
    ("first", "cwd"),
    [
        ("#!/usr/bin/env -S sh\r", "."),
        ("#!./shell", "graders"),  # found where the script runs
    ],
)
def test_scripts_that_start_although_they_look_wrong(here: Path, first: str, cwd: str) -> None:
    (here / "odd").write_text(f"{first}\necho hello\n", newline="")
    (here / "odd").chmod(0o755)
    (here / "graders" / "shell").symlink_to("/bin/sh")
    done = run("ae-run", "-", "--cwd", cwd, "--simple", "./odd {}", stdin=jsonl(PROMPTS[0]), cwd=here).expect(0)
    assert done.records[0]["exitCode"] == 0, done


def test_a_grader_on_path_that_cannot_start(here: Path) -> None:
    env = {"PATH": f"{here}:{os.environ['PATH']}"}
    done = run("ae-grade", "-g", "strange", stdin=jsonl(RESULT), cwd=here / "graders", env=env).expect(2)
    done.says("/strange: the interpreter in its first line, /no/such/shell, does not exist")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{'id': 'a', 'input': 'x'}", "at column 2 (JSON has no single quotes)"),
        ('{"id": "a", "input": "x",}', "(JSON has no comma before } or ])"),
        ('{"id": "a", "input": ["x", ]}', "(JSON has no comma before } or ])"),
        ('{"id": "a", "input": "x", "hard": True}', "(JSON has true, false and null, not True)"),
        ('{"id": "a", "prompt": "x"}', '"input" is missing; rename "prompt" to "input"'),
    ],
)
def test_a_line_that_is_not_a_prompt(line: str, message: str) -> None:
    done = run("ae-run", "--simple", "echo {}", stdin=line).expect(1)
    assert len(done.messages) == 1 and message in done.messages[0], done


def test_an_agent_that_does_not_speak_acp(here: Path) -> None:
    done = run("ae-capture", "-p", "x", "--", "./agent", cwd=here).expect(0)
    assert done.messages[-1].endswith("if it does not speak ACP, use --simple or --shell"), done


def test_nothing_to_import(here: Path) -> None:
    done = run("ae-import", "claude", "graders", cwd=here).expect(0)
    assert done.messages == ["ae-import: graders: contains no sessions of claude"]
    done = run("ae-import", "harbor", "graders", cwd=here).expect(0)
    assert done.messages == ["ae-import: graders: contains no results of harbor"]


def test_runs_that_are_not_graded(here: Path) -> None:
    done = run("ae-compare", "results.jsonl", "again.jsonl", cwd=here).expect(0)
    advice = "no record is graded; grade the run with ae-grade"
    assert done.messages == [f"ae-compare: {name}: {advice}" for name in ("results", "again")]


def test_of_many_refused_lines_ten_are_shown_and_the_rest_is_counted(tmp_path: Path) -> None:
    bad = jsonl(*({"id": number} for number in range(1000)), RESULT)
    done = run("ae-format", "-f", "csv", stdin=bad).expect(1)
    assert len(done.messages) == 11 and done.stdout.count("\n") == 2
    assert done.messages[-1] == "ae-format: 990 more refused lines, 1,000 in all (--debug shows each)"
    assert len(run("ae-format", "-f", "csv", "--debug", stdin=bad).messages) == 1000
    eleven = run("ae-format", "-f", "csv", stdin="{}\n" * 11).expect(1)
    assert eleven.messages[-1] == "ae-format: 1 more refused line, 11 in all (--debug shows each)"
    (tmp_path / "prompts.jsonl").write_text(bad)
    stopped = run("ae-run", "prompts.jsonl", "--simple", "echo {}", "--strict", cwd=tmp_path).expect(1)
    assert len(stopped.messages) == 2 and "--strict" in stopped.messages[-1]


def test_fewer_at_a_time_than_asked_for(here: Path) -> None:
    """The limit on open files allows only so many; they are not made fewer in silence."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limited = "ulimit -n 200; exec ae-run prompts.jsonl --simple 'echo {}' -o out.jsonl -j"
    message = "ae-run: -j 500: 22 at a time, because 500 would need 4,024 open files, and the system allows 200"
    done = run("/bin/sh", "-c", f"{limited} 500", cwd=here).expect(0)
    assert done.messages == [f"{message} (ulimit -Hn)"] and (soft, hard) == resource.getrlimit(resource.RLIMIT_NOFILE)
    run("/bin/sh", "-c", f"{limited} 20 --overwrite", cwd=here).expect(0, stderr="")
    compare = "ulimit -n 200; exec ae-compare results.jsonl again.jsonl -g grader.py -f json -j 500"
    assert f"ae-compare: {message.partition(': ')[2]} (ulimit -Hn)" in run("/bin/sh", "-c", compare, cwd=here).messages


def test_another_share_of_the_prompts_is_refused(here: Path) -> None:
    command = ("ae-run", "prompts.jsonl", "--simple", "echo {}", "-o", "out.jsonl", "--resume", "--shard")
    run(*command, "1/4", cwd=here).expect(0, stderr="")
    before = (here / "out.jsonl").read_bytes()
    run(*command, "1/3", cwd=here).expect(2).says("records of another share", "give the same --shard", "--force")
    run(*command, "2/4", cwd=here).expect(2)
    assert (here / "out.jsonl").read_bytes() == before
    assert "nothing to do" in run(*command, "1/4", cwd=here).expect(0).stderr
    run(*command[:-1], cwd=here).expect(0)  # all of them: those of the share are kept
    assert len((here / "out.jsonl").read_text().splitlines()) == 40
