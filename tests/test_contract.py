"""The contract that every executable of [project.scripts] keeps.

A new tool joins by its line in pyproject.toml: how to call it is derived from its own parameters. A tool that is no
filter from records to records, or that needs more arguments, says so in EXCEPTIONS.
"""

from __future__ import annotations

import atexit
import fcntl
import importlib
import json
import os
import pty
import re
import shlex
import shutil
import signal
import struct
import subprocess
import tempfile
import termios
import time
import tomllib
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import click
import pytest

import agenteval
from agenteval.cli.tool import Tool
from tests.support.privileges import unprivileged
from tests.support.tool import BIN, ROOT, TIMEOUT, Done, Record, jsonl, on_terminal, read, run, start, write

SHELL_COMMANDS = {"cat", "echo", "grep", "head", "jq", "less", "printf", "sort", "tail", "xargs"}
SCRIPTS: dict[str, str] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
TOOLS = sorted(SCRIPTS)


# --- how to call each tool ----------------------------------------------------------------------


def prompt(number: int) -> Record:
    return {"id": f"p{number}", "input": f"question {number}", "hint": "question", "reference": f"question {number}"}


def raw(number: int) -> Record:
    timing = {"start": 1000, "end": 1500, "total": 500}
    return {**prompt(number), "rawLines": [f"question {number}"], "timing": timing, "exitCode": 0, "timedOut": False}


def result(number: int) -> Record:
    judged = {"overall_score": 0.8, "input_tokens": 9, "output_tokens": 2}
    outcomes = {"sources": {"hit_rate": 1, "mrr": 0.5}, "judge": judged}
    return {
        **prompt(number),
        "output": f"question {number}",
        "trajectory": [],
        "toolErrors": False,
        "score": {"pass": True, "score": 1.0},
        "scores": {name: {"pass": True, "score": 1, "outcome": outcome} for name, outcome in outcomes.items()},
        "timing": {"start": 1000, "end": 1500, "inputTokens": 1000, "outputTokens": number},
    }


def grader_input(number: int) -> Record:
    return {**result(number), "expected_sources": ["Nudge theory"], "sources_used": [f"Page {number}"]}


INPUTS = {"[PROMPTS]": prompt, "[RAW]": raw, "[RESULTS]": result, "[GRADED]": result, "[RECORDS]": grader_input}
"""The nth record of an input, by the metavar of the argument that names it."""

VALUES = {"FILE|NAME": "text", "[NAME=]GRADER": "ae-grader-hint"}
"""A value for a required option, by its metavar."""


def without_times(done: Done) -> object:
    return _timeless(done.records)


def _timeless(value: object) -> object:
    if isinstance(value, dict):
        return {
            key: _timeless(inner) for key, inner in value.items() if not re.search("[tT]im|turns|duration|runId", key)
        }
    return [_timeless(inner) for inner in value] if isinstance(value, list) else value


def without_date(done: Done) -> object:
    return re.sub(rb'"(generatedAt|timestamp)": "[^"]*"', b"", done.out)


class Case(NamedTuple):
    """The fewest arguments with which a tool works, and what its output is."""

    args: tuple[str, ...] = ()
    make: Callable[[int], Record] | None = None  # the nth record of its input; None: it reads none
    given: Callable[[str], list[str]] = lambda path: [path]  # the arguments that name an input file, or -
    files: tuple[str, ...] = ()  # other inputs, in the working directory
    processed: Callable[[Done], int] = lambda done: len(done.records)
    comparable: Callable[[Done], object] = without_date
    answers: bool = False  # a grader: a line that it cannot read is answered with an error
    output: bool = True  # has -o
    empty: int = 0  # exit code for an empty input
    reads_all_first: bool = False  # prints nothing before the end of its input


@cache
def repository() -> str:
    """A git repository without a commit, for the grader that looks at one."""
    folder = tempfile.mkdtemp(prefix="ae-test-")
    atexit.register(shutil.rmtree, folder)
    subprocess.run(["git", "init", "-q", folder], check=True)
    return folder


def report(*path: str) -> dict[str, Any]:
    """A tool that writes one JSON document, with the number of records at this path."""

    def processed(done: Done) -> int:
        value = json.loads(done.stdout)
        for key in path:
            value = value[key]
        return int(value)

    return {"processed": processed, "reads_all_first": True}


EXCEPTIONS: dict[str, dict[str, Any]] = {
    "ae-balance": report("totalCases"),
    "ae-calibrate": {
        "args": ("--all",),
        "processed": lambda done: done.stdout.count("\n### "),
        "reads_all_first": True,
    },
    "ae-compare": {
        **report("quality", "one", "n"),
        "args": ("--run", "other:other.jsonl"),
        "make": result,
        "given": lambda path: ["--run", f"one:{path}"],
        "files": ("other.jsonl",),
    },
    "ae-gate": {
        "args": ("--min", "passRate=0.5"),
        "processed": lambda done: int((re.findall(r"(\d+) of \d+ passed", done.stdout) or ["0"])[0]),
        "reads_all_first": True,
        "empty": 1,  # nothing is graded
    },
    "ae-history": {
        "make": result,
        "processed": lambda done: sum(run["prompts"] for run in json.loads(done.stdout)["runs"]),
        "comparable": lambda done: re.sub(rb'"(generatedAt|name|file)": "[^"]*"', b"", done.out),
        "reads_all_first": True,
    },
    "ae-show": {"processed": lambda done: done.stdout.count("== p")},
    # A judge that has no answer to judge need not load what it would ask with, which takes seconds.
    "ae-grade": {"args": ("-g", "ae-grader-hint")},
    "ae-validate-refs": {"args": ("-g", "ae-grader-hint")},
    "ae-grader-checks": {"make": lambda number: {**result(number), "checks": [{"type": "contains", "value": "q"}]}},
    "ae-grader-git": {"make": lambda number: {**result(number), "cwd": repository()}},
    "ae-grader-judge": {"args": ("--offline",), "make": lambda number: {**result(number), "output": ""}},
    "ae-merge": {"make": result, "reads_all_first": True},
    "ae-plan": {"args": ("--pass-rate", "0.8")},
    "ae-ray": {"make": None, "args": ()},  # needs a cluster: tests/cli/test_ray.py
    "ae-sandbox": {"make": None, "args": ()},  # runs a command: tests/cli/test_sandbox.py
    "ae-score": report("num_questions"),
    "ae-trials": {"args": ("--simple", "echo {}", "-k", "1")},
}


def tool_of(name: str) -> Tool | None:
    """Returns the tool of that name; None for ae, which is no Click command."""
    module, _, function = SCRIPTS[name].partition(":")
    found = getattr(importlib.import_module(module), function)
    return found if isinstance(found, Tool) else None


def case_of(name: str) -> Case:
    """Returns how to call a tool, derived from its parameters."""
    command = tool_of(name)
    if command is None:
        return Case(output=False)
    args = ["--simple", "echo {}"] if command.takes_command else []
    make = None
    for param in command.params:
        if isinstance(param, click.Argument) and param.name == "path":
            make = INPUTS[str(param.metavar)]
        elif isinstance(param, click.Option) and param.required:
            args += [param.opts[0], VALUES[str(param.metavar)]]
    case = Case(
        tuple(args),
        make,
        comparable=without_times if command.takes_command else without_date,
        answers=name.startswith("ae-grader-"),
        output=any("-o" in param.opts for param in command.params),
    )
    return case._replace(**EXCEPTIONS.get(name, {}))


CASES = {name: case_of(name) for name in TOOLS}
# Tools that open their files in different ways: what all tools share is tested with these only, or in every variant
# with these only.
THOROUGH = {"ae-extract", "ae-run", "ae-compare", "ae-calibrate", "ae-grader-hint"}
READERS = [name for name in TOOLS if CASES[name].make]
WRITERS = [name for name in READERS if CASES[name].output]

every_tool = pytest.mark.parametrize("name", TOOLS)
every_reader = pytest.mark.parametrize("name", READERS)
every_writer = pytest.mark.parametrize("name", WRITERS)
every_kind = pytest.mark.parametrize("name", sorted(THOROUGH))


def records(name: str, count: int = 3) -> list[Record]:
    make = CASES[name].make
    assert make is not None
    return [make(number) for number in range(1, count + 1)]


def arguments(name: str, path: str, cwd: Path) -> list[str]:
    """Returns the minimal command line with this input; writes the other files that it needs."""
    case = CASES[name]
    for other in case.files:
        if not (cwd / other).exists():
            write(cwd / other, *records(name))
    return [*case.args, *case.given(path)]


def test_exceptions_are_of_tools_that_there_are() -> None:
    assert set(EXCEPTIONS) | THOROUGH <= set(TOOLS)


# --- options ------------------------------------------------------------------------------------

SAME_NAME = {
    "--env": "ae-ray takes names only",
    "--format": "each tool has its own forms",
    "--grader": "ae-compare takes one, which has no name",
    "--max": "at most: calls of a tool for ae-grader-tools, a figure for ae-gate",
    "--min": "at least: calls of a tool for ae-grader-tools, a mean for ae-score",
    "--prompt": "the file with the judge's instructions, and the question to ae-wikiagent, as -p of other agents",
    "--prompts": "their number for ae-plan, their file for ae-merge",
    "--require": "a file for ae-grader-git, a tool for ae-grader-tools",
    "--skill": "a directory for agents, the name of one for ae-grader-tools",
    "--threshold": "a percentage of a share, and a score from which an answer passes",
    "--timeout": "ae-wikiagent counts seconds",
    "--baseline": "a file in ae-calibrate; ae-history also knows its runs by name",
}


def test_an_option_means_the_same_in_every_tool() -> None:
    """Long options of one name take the same kind of value, except for those in SAME_NAME."""
    meanings: dict[str, set[str]] = defaultdict(set)
    for command in filter(None, map(tool_of, TOOLS)):
        for param in command.params:
            if isinstance(param, click.Option):
                choices = param.type.choices if isinstance(param.type, click.Choice) else ()
                value = "" if param.is_flag else param.metavar or " ".join(choices) or param.type.name.upper()
                for name in param.opts:
                    meanings[name].add(value)
    different = {option for option, values in meanings.items() if option.startswith("--") and len(values) > 1}
    assert different == set(SAME_NAME)


# --- help, version, usage -----------------------------------------------------------------------


@lru_cache
def help_of(name: str) -> Done:
    return run(name, "--help").expect(0, stderr="")


@every_tool
def test_help_is_a_page_to_work_from(name: str) -> None:
    done = help_of(name)
    assert all(char.isprintable() or char == "\n" for char in done.stdout), "a control character, such as Click's \\b"
    assert done.stdout.startswith(f"Usage: {name} "), done
    for part in ("\nExamples:\n", "\nOptions:\n", "\nExit status:\n"):
        assert part in done.stdout, f"{part!r} is missing{done}"
    examples = examples_in(done.stdout)
    assert 2 <= len(examples) <= 8, done
    assert [line for line in example_lines(done.stdout) if len(line) > 80] == []
    for example in examples:
        check_example(example)


@pytest.mark.parametrize("columns", [80, 40])
def test_help_fits_the_terminal(columns: int) -> None:
    """Only examples, which are to be copied, and single words may be longer."""
    for name in TOOLS:
        usual = help_of(name).stdout
        page = run(name, "--help", env={"COLUMNS": str(columns)}).expect(0, stderr="").stdout
        examples = [text[text.index("\nExamples:") :].split("\n\n")[0].splitlines() for text in (page, usual)]
        assert examples[0] == examples[1], name
        long = [line for line in page.splitlines() if len(line) > columns and line not in examples[0]]
        assert [line for line in long if len(line.split()) > 1] == [], name
        words = [set(re.findall(r"[\w-]{3,}", text)) for text in (page, usual)]
        assert words[0] == words[1], f"{name}: a word got lost, or was broken"


@every_tool
def test_times_have_units(name: str) -> None:
    command = tool_of(name)
    for param in command.params if command else ():
        if "timeout" in (param.name or ""):
            times = [param.type.convert(text, param, None) for text in ("1500ms", "1.5s", "0.025m", "1h")]
            assert times[0] == times[1] == times[2] == times[3] / 2400, name


@every_kind
def test_short_help(name: str) -> None:
    assert run(name, "-h").expect(0, stderr="").out == help_of(name).out


def examples_in(page: str) -> list[str]:
    lines = example_lines(page)
    whole = re.sub(r" \\\n +", " ", "\n".join(lines)).splitlines()
    return [line.strip() for line in whole if re.match("  [^ #]", line)]


def example_lines(page: str) -> list[str]:
    return page.partition("\nExamples:\n")[2].split("\n\n")[0].splitlines()


def check_example(example: str) -> None:
    """Every stage of the pipeline is a tool of the suite, with options that it has, or one of SHELL_COMMANDS."""
    lexer = shlex.shlex(example, posix=True, punctuation_chars="|<>&;")
    lexer.whitespace_split = True
    stages: list[list[str]] = [[]]
    for word in lexer:
        if word in ("|", "&&", ";"):
            stages.append([])
        else:
            stages[-1].append(word)
    heads = [stage[0] for stage in stages]
    assert set(heads) <= {*TOOLS, *SHELL_COMMANDS}, f"not commands of the suite: {example}"
    assert any(head in TOOLS for head in heads), example
    for head, *words in stages:
        if head == "ae" and f"ae-{words[0]}" in TOOLS:
            head = f"ae-{words.pop(0)}"
        if head in TOOLS:
            known = help_of(head).stdout
            own = words[: words.index("--")] if "--" in words else words
            for option in (word.partition("=")[0] for word in own if re.match(r"-{1,2}[a-zA-Z]", word)):
                assert re.search(rf"(?<![\w-]){re.escape(option)}(?![\w-])", known), (
                    f"{head} has no {option}: {example}"
                )


@every_tool
def test_version(name: str) -> None:
    """Some are started from bin/, where all are links to one file."""
    done = run(str(BIN / name) if name in THOROUGH else name, "--version").expect(0, stderr="")
    assert done.stdout == f"{name} {agenteval.__version__}\n"


@every_tool
def test_unknown_option(name: str) -> None:
    done = run(name, *CASES[name].args, "--no-such-option").expect(2)
    done.says("--no-such-option", "--help")
    assert done.out == b"", done


@every_reader
def test_one_input_too_many(name: str, tmp_path: Path) -> None:
    write(tmp_path / "in.jsonl", *records(name))
    if name in ("ae-compare", "ae-merge", "ae-show"):
        pytest.skip("takes any number, of files or of ids")
    done = run(name, *arguments(name, "in.jsonl", tmp_path), "in.jsonl", cwd=tmp_path).expect(2)
    done.says("in.jsonl")
    assert done.out == b"", done


@every_tool
def test_tab_offers_the_options_of_the_help(name: str) -> None:
    done = run(name, "-", env={"_AE_COMPLETE": "1"}).expect(0, stderr="")
    offered = {line.partition("\t")[0] for line in done.stdout.splitlines()[2:]}
    options = help_of(name).stdout.partition("\nOptions:\n")[2].partition("\n\n")[0]
    named = re.findall(r"^  (-.*?)(?:  |$)", options, re.MULTILINE)
    assert offered == {option for names in named for option in re.findall(r"(?<![\w-])--?[a-z][a-z-]*", names)}, done


# --- input --------------------------------------------------------------------------------------


@every_reader
def test_empty_input_and_output_in_a_new_directory(name: str, tmp_path: Path) -> None:
    write(tmp_path / "empty.jsonl")
    case, output = CASES[name], ("-o", "results/new/out")
    for path in ("empty.jsonl", "-") if name in THOROUGH else ("-",):
        file = output if path == "-" and case.output else ()
        done = run(name, *arguments(name, path, tmp_path), *file, cwd=tmp_path).expect(case.empty)
        if file:
            assert done.out == b"", done
            done.out = (tmp_path / file[1]).read_bytes()
        assert case.processed(done) == 0, done


@pytest.mark.parametrize("name", [name for name in TOOLS if CASES[name].output and name not in {*READERS, "ae-ray"}])
def test_lists_in_a_new_directory(name: str, tmp_path: Path) -> None:
    """What reads no records has -o too; ae-ray needs a cluster, and opens its output as the others do."""
    required = {"ae-import": ["claude", "."], "ae-prompts": ["csv", "table.csv"]}
    args = [*CASES[name].args, *required.get(name, ())]
    (tmp_path / "table.csv").write_text("input\nHello\n")
    run(name, *args, "-o", "results/new/out.json", cwd=tmp_path).expect(0)
    assert (tmp_path / "results/new/out.json").exists()


@every_reader
def test_file_redirection_and_pipe_give_the_same(name: str, tmp_path: Path) -> None:
    """The file of -o gets the same, too."""
    source = write(tmp_path / "in.jsonl", *records(name))
    case = CASES[name]
    from_file = run(name, *arguments(name, "in.jsonl", tmp_path), cwd=tmp_path).expect(0, stderr="")
    piped = run(name, *arguments(name, "-", tmp_path), stdin=source.read_bytes(), cwd=tmp_path).expect(0, stderr="")
    assert case.processed(from_file) == 3, from_file
    assert case.comparable(from_file) == case.comparable(piped), piped
    if case.output:
        assert case.comparable(from_file) == case.comparable(to_file(name, "in.jsonl", tmp_path))
    if name in THOROUGH:
        redirected = run(name, *arguments(name, "-", tmp_path), stdin=source, cwd=tmp_path).expect(0, stderr="")
        assert case.comparable(from_file) == case.comparable(redirected), redirected
        dash = run(name, *arguments(name, "in.jsonl", tmp_path), "-o", "-", cwd=tmp_path).expect(0, stderr="")
        assert case.comparable(from_file) == case.comparable(dash), dash
        assert not (tmp_path / "-").exists()


def to_file(name: str, path: str, cwd: Path) -> Done:
    """Returns what the tool writes with -o over a longer file."""
    (cwd / "out").write_text("what was there before\n" * 1000)
    over = ["--overwrite"] if name in ("ae-run", "ae-capture", "ae-trials") else []
    done = run(name, *arguments(name, path, cwd), "-o", "out", *over, cwd=cwd).expect(0)
    assert not done.stderr or done.says("cannot tell one from other") and name == "ae-compare", done  # its verdict
    assert done.out == b"", done
    return Done(done.command, cwd, 0, (cwd / "out").read_bytes(), b"", 0)


@every_reader
def test_stdin_needs_no_argument(name: str, tmp_path: Path) -> None:
    if name == "ae-compare":
        pytest.skip("names each of its runs")
    done = run(name, *CASES[name].args, stdin=jsonl(*records(name)), cwd=tmp_path).expect(0)
    assert CASES[name].processed(done) == 3, done


@every_reader
def test_bad_line_among_good_ones(name: str, tmp_path: Path) -> None:
    first, second, third = records(name)
    write(tmp_path / "in.jsonl", first, "{broken", second, third)
    done = run(name, *arguments(name, "in.jsonl", tmp_path), cwd=tmp_path).expect(1)
    if CASES[name].answers:
        assert done.err == b"", done
        assert [("error" in answer, "pass" in answer) for answer in done.records] == [
            (False, True),
            (True, False),
            (False, True),
            (False, True),
        ], done
        return
    assert done.messages[0].startswith(f"{name}: in.jsonl:2: "), done
    assert CASES[name].processed(done) == 3, done


@every_kind
def test_terminal_on_stdin_is_not_waited_for(name: str, tmp_path: Path) -> None:
    keyboard, terminal = pty.openpty()
    try:
        process = start(name, *arguments(name, "-", tmp_path), stdin=terminal, cwd=tmp_path)
        out, err = process.communicate(timeout=TIMEOUT)
    finally:
        os.close(keyboard)
        os.close(terminal)
    done = Done([name], tmp_path, process.returncode, out, err, 0)
    done.expect(2).says("no input", "--help")
    assert out == b"", done


@every_reader
def test_missing_file_directory_and_no_directory(name: str, tmp_path: Path) -> None:
    write(tmp_path / "file", *records(name))
    (tmp_path / "directory").mkdir()
    missing = ("missing.jsonl", "No such file or directory")
    others = (("directory", "is a directory"), ("file/below", "Not a directory")) if name in THOROUGH else ()
    kept = tmp_path / "out"
    kept.write_text("precious\n")
    for path, why in (missing, *others):
        output = ("-o", kept.name) if CASES[name].output else ()
        done = run(name, *arguments(name, path, tmp_path), *output, cwd=tmp_path).expect(2)
        done.says(path, why)
        assert done.out == b"", done
        assert kept.read_text() == "precious\n", "a usage error leaves the output file alone"


@every_kind
def test_unreadable_file(name: str, tmp_path: Path) -> None:
    write(tmp_path / "in.jsonl", *records(name)).chmod(0)
    command = [*unprivileged(), str(BIN / name), *arguments(name, "in.jsonl", tmp_path)]
    done = run(command[0], *command[1:], cwd=tmp_path).expect(2)
    assert done.stderr == f"{name}: in.jsonl: Permission denied\n", done


# --- output -------------------------------------------------------------------------------------


@every_kind
def test_reader_that_has_gone_before_the_start(name: str, tmp_path: Path) -> None:
    write(tmp_path / "in.jsonl", *records(name))
    reading, writing = os.pipe()
    os.close(reading)
    try:
        run(name, *arguments(name, "in.jsonl", tmp_path), cwd=tmp_path, stdout=writing).expect(0, stderr="")
    finally:
        os.close(writing)


@every_reader
def test_reader_that_goes_after_one_line(name: str, tmp_path: Path) -> None:
    """As with `| head -1`, while the input is still open: the tool exits."""
    process = start(name, *arguments(name, "-", tmp_path), cwd=tmp_path)
    assert process.stdin and process.stdout and process.stderr
    process.stdin.write(jsonl(*records(name)).encode())
    process.stdin.flush()
    if CASES[name].reads_all_first:
        process.stdin.close()
    assert process.stdout.readline(), "the first record is out before the last is in"
    process.stdout.close()
    with suppress(BrokenPipeError, ValueError):  # it has ended already, or its stdin is closed
        process.stdin.write(jsonl(*records(name, 53)[3:]).encode())
    with suppress(BrokenPipeError):
        process.stdin.close()
    code = process.wait(TIMEOUT)
    Done([name], tmp_path, code, b"", process.stderr.read(), 0).expect(0, stderr="")
    process.stderr.close()


@every_reader
def test_full_disk(name: str, tmp_path: Path) -> None:
    write(tmp_path / "in.jsonl", *records(name))
    with open("/dev/full", "wb") as full:
        done = run(name, *arguments(name, "in.jsonl", tmp_path), cwd=tmp_path, stdout=full).expect(1)
    done.says("stdout", "No space left on device")


@every_kind
def test_full_disk_under_the_help(name: str) -> None:
    with open("/dev/full", "wb") as full:
        done = run(name, "--version", stdout=full)
    assert done.code != 0, done
    assert "internal error" not in done.says("No space left on device"), done


@every_kind
def test_closed_stdout_is_an_error(name: str, tmp_path: Path) -> None:
    """`>&-`: nothing may be written to a file that was opened later and got descriptor 1."""
    write(tmp_path / "in.jsonl", *records(name))
    command = shlex.join([str(BIN / name), *arguments(name, "-", tmp_path)])
    done = run("/bin/sh", "-c", f"exec {command} <in.jsonl >&-", cwd=tmp_path)
    assert done.code not in (0, 2), done
    assert "stdout" in done.stderr, done
    assert len(done.messages) == 1, done


@every_kind
def test_closed_stderr_leaves_the_output_clean(name: str, tmp_path: Path) -> None:
    """`2>&-`: messages may not be written to the output file because it got descriptor 2."""
    first, second, third = records(name)
    write(tmp_path / "in.jsonl", first, "{broken", second, third)
    command = shlex.join([str(BIN / name), *arguments(name, "-", tmp_path), "-o", "out"])
    done = run("/bin/sh", "-c", f"exec {command} <in.jsonl 2>&-", cwd=tmp_path).expect(1)
    written = (tmp_path / "out").read_bytes()
    assert b"in:2" not in written, (done, written)
    assert name.encode() + b": " not in written, (done, written)


@every_writer
def test_output_that_cannot_be(name: str, tmp_path: Path) -> None:
    source = write(tmp_path / "in.jsonl", *records(name))
    before = source.read_bytes()
    (tmp_path / "directory").mkdir()
    (tmp_path / "alias.jsonl").symlink_to("in.jsonl")
    others = ("in.jsonl/out", "alias.jsonl", "directory") if name in THOROUGH else ()
    for path in ("./in.jsonl", *others):
        done = run(name, *arguments(name, "in.jsonl", tmp_path), "-o", path, cwd=tmp_path).expect(2)
        done.says(path)
        assert source.read_bytes() == before, f"-o {path} has hurt the input{done}"
        assert done.out == b"", done


@every_writer
def test_stdin_that_is_the_output_file(name: str, tmp_path: Path) -> None:
    """`tool < file -o file`: the input would be lost, as if it were named."""
    source = write(tmp_path / "in.jsonl", *records(name))
    before = source.read_bytes()
    done = run(name, *arguments(name, "-", tmp_path), "-o", "in.jsonl", stdin=source, cwd=tmp_path).expect(2)
    done.says("in.jsonl")
    assert source.read_bytes() == before, done


@every_kind
def test_stdout_that_is_the_input_file(name: str, tmp_path: Path) -> None:
    """`tool file >> file`: a tool that reads its own output never ends (cat: input file is output file)."""
    source = write(tmp_path / "in.jsonl", *records(name))
    before = source.read_bytes()
    command = shlex.join([str(BIN / name), *arguments(name, "in.jsonl", tmp_path)])
    done = run("/bin/sh", "-c", f"ulimit -f 100; exec {command} >>in.jsonl", cwd=tmp_path).expect(2)
    assert done.stderr.startswith(f"{name}: ") and len(done.messages) == 1, done
    assert source.read_bytes() == before, done


@every_kind
def test_dev_null_may_be_both(name: str, tmp_path: Path) -> None:
    run(name, *arguments(name, "/dev/null", tmp_path), "-o", "/dev/null", cwd=tmp_path).expect(0)


@every_kind
def test_full_disk_under_the_output_file(name: str, tmp_path: Path) -> None:
    write(tmp_path / "in.jsonl", *records(name))
    done = run(name, *arguments(name, "in.jsonl", tmp_path), "-o", "/dev/full", cwd=tmp_path).expect(1)
    done.says("/dev/full", "No space left on device")


# --- signals ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name, signum, code",
    [*((name, signal.SIGINT, 130) for name in READERS), *((name, signal.SIGTERM, 143) for name in sorted(THOROUGH))],
)
def test_signal_while_waiting_for_input(name: str, signum: signal.Signals, code: int, tmp_path: Path) -> None:
    process = start(name, *arguments(name, "-", tmp_path), cwd=tmp_path)
    assert process.stdin
    process.stdin.write(jsonl(*records(name, 1)).encode())
    process.stdin.flush()
    wait_until_read(process)
    process.send_signal(signum)
    try:
        returned = process.wait(TIMEOUT)
    except subprocess.TimeoutExpired:
        process.kill()
        raise
    out, err = process.communicate()
    done = Done([name], tmp_path, returned, out, err, 0).expect(code)
    assert len(done.messages) <= 1, done
    assert all(line.startswith(f"{name}: ") for line in done.messages), done


def wait_until_read(process: subprocess.Popen[bytes]) -> None:
    """Waits until the pipe on the tool's stdin is empty: it has read everything and waits for more."""
    assert process.stdin
    deadline = time.monotonic() + TIMEOUT
    while struct.unpack("i", fcntl.ioctl(process.stdin, termios.FIONREAD, b"\0" * 4))[0]:
        assert time.monotonic() < deadline and process.poll() is None, "the tool does not read its input"
        time.sleep(0.005)
    time.sleep(0.05)


INTERRUPT_AT_IMPORT = """\
import os, signal, sys

class Finder:
    def find_spec(self, name, path=None, target=None):
        print(name, file=looked_for)
        if name == os.environ["INTERRUPT_AT"]:
            os.kill(os.getpid(), signal.SIGINT)

looked_for = open("looked-for", "w", buffering=1)

sys.meta_path.insert(0, Finder())
"""


@pytest.mark.parametrize(("name", "module"), [("ae-extract", "msgspec"), ("ae-run", "agenteval.cli")])
def test_interrupt_while_starting_shows_no_traceback(name: str, module: str, tmp_path: Path) -> None:
    """Ctrl-C within the first 50 ms arrives while Python imports; an import hook sends it at that moment.

    agenteval.cli is the first module after agenteval itself, which needs none: before it there is only Python's own
    start and the script that pip writes.
    """
    (tmp_path / "sitecustomize.py").write_text(INTERRUPT_AT_IMPORT)
    env = {"PYTHONPATH": str(tmp_path), "INTERRUPT_AT": module}
    done = run(name, *arguments(name, "-", tmp_path), cwd=tmp_path, env=env)
    assert done.err == b"", done
    assert done.code in (130, -signal.SIGINT), done
    looked_for = (tmp_path / "looked-for").read_text().split()
    assert looked_for[looked_for.index("agenteval") + 1] == "agenteval.cli", looked_for


# --- what passes through ------------------------------------------------------------------------

UNKNOWN = {
    "zeta": {"b": [1, {"y": None, "x": "ü \U0001f600 \u2028"}], "a": 0.1},
    "Big": 1234567890123456789012345678901234567890,
    "alpha": None,
    "negative": -9999999999999999999999999999999999999999,
    "expected_sources": ["A", "B"],
    "": "an empty name",
    "0": True,
}


@pytest.mark.parametrize("name", ["ae-run", "ae-extract", "ae-grade", "ae-format"])
def test_unknown_fields_pass_through_in_order(name: str, tmp_path: Path) -> None:
    known = records(name, 1)[0]
    (passed,) = (
        run(name, *CASES[name].args, stdin=jsonl({**UNKNOWN, **known}), cwd=tmp_path).expect(0, stderr="").records
    )
    assert {field: passed[field] for field in UNKNOWN} == UNKNOWN
    assert [field for field in passed if field in UNKNOWN] == list(UNKNOWN)
    (shuffled,) = run(name, *CASES[name].args, stdin=jsonl({**known, **UNKNOWN}), cwd=tmp_path).expect(0).records
    assert [field for field in shuffled if field in UNKNOWN] == list(UNKNOWN)
    assert not set(known) - set(shuffled) - {"rawLines", "exitCode", "timedOut"}


def test_unknown_fields_pass_the_whole_pipeline(tmp_path: Path) -> None:
    prompts = write(tmp_path / "prompts.jsonl", {**prompt(1), **UNKNOWN, "metadata": {"mine": UNKNOWN["Big"]}})
    done = run("ae-run", prompts, "--simple", "echo {}", cwd=tmp_path).expect(0)
    for name in ("ae-extract", "ae-grade", "ae-format"):
        done = run(name, *CASES[name].args, stdin=done.out, cwd=tmp_path).expect(0, stderr="")
    (record,) = done.records
    assert [(field, value) for field, value in record.items() if field in UNKNOWN] == list(UNKNOWN.items()), done
    assert record["metadata"]["mine"] == UNKNOWN["Big"]


def test_format_jsonl_changes_nothing(tmp_path: Path) -> None:
    compact = f'{{"z":1,"id":"a","Big":{UNKNOWN["Big"]},"output":"é","timing":{{"total":1200,"start":1.5,"end":2}}}}\n'
    assert run("ae-format", stdin=compact, cwd=tmp_path).expect(0, stderr="").stdout == compact


# --- streaming ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name in READERS if not CASES[name].reads_all_first])
def test_first_record_is_out_before_the_last_is_in(name: str, tmp_path: Path) -> None:
    process = start(name, *arguments(name, "-", tmp_path), cwd=tmp_path)
    assert process.stdin and process.stdout
    for record in records(name):
        process.stdin.write(jsonl(record).encode())
        process.stdin.flush()
        assert process.stdout.readline().endswith(b"\n")
    out, err = process.communicate(timeout=TIMEOUT)
    Done([name], tmp_path, process.returncode, out, err, 0).expect(0, stderr="")


# --- a person at the terminal -------------------------------------------------------------------


@every_tool
def test_bare_on_a_terminal_says_what_is_missing(name: str, tmp_path: Path) -> None:
    if CASES[name].make is None:
        pytest.skip("reads nothing")
    done = on_terminal(name, cwd=tmp_path)
    assert done.code == 2, done
    assert done.stdout.startswith(f"{name}: ") and done.stdout.count("\n") == 1, done


@pytest.mark.parametrize("name", ["ae-run", "ae-extract", "ae-grade", "ae-summarize"])
def test_progress_lines_on_request(name: str, tmp_path: Path) -> None:
    write(tmp_path / "in.jsonl", *records(name))
    args = arguments(name, "in.jsonl", tmp_path)
    plain = run(name, *args, "--progress", cwd=tmp_path).expect(0)
    assert len(plain.messages) == 3, plain
    assert all(line.startswith(f"{name}: [") for line in plain.messages), plain
    run(name, *args, "--no-progress", cwd=tmp_path).expect(0, stderr="")
    shown = on_terminal(name, *args, "-o", "out", cwd=tmp_path)
    assert shown.code == 0 and re.search(r"\d/s", shown.stdout), shown
    assert re.search(r"(\x1b\[K|\n)$", shown.stdout), "the bar is gone when the shell's prompt comes back"
    assert len(read(tmp_path / "out")) == 3
    assert on_terminal(name, *args, "-o", "out2", "--no-progress", cwd=tmp_path).stdout == ""
