"""What cannot be meant is refused in one line that says what to type instead, before anything is read or written."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from tests.support.tool import Record, jsonl, on_terminal, run, write

GRADED: Record = {"id": "a", "input": "q", "output": "x", "score": {"pass": True, "score": 1.0}}
PROMPTS: list[Record] = [{"id": "a", "input": "q", "metadata": {"category": "ui", "difficulty": "easy"}}]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return write(tmp_path / "graded.jsonl", {**GRADED, "metadata": {"category": "ui"}, "suite": "smoke"})


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (
            ["ae-format", "-o", "report.xlsx"],
            "-o report.xlsx: no format has this extension; choose one with -f: atif, csv",
        ),
        (["ae-format", "-o", "report.json"], "choose one with -f: atif, csv"),
        (["ae-compare", "graded.jsonl", "-o", "report.pdf"], "choose one with -f: html, json, markdown, svg, table"),
        (["ae-score", "-o", "evaluation.csv"], "choose one with -f: json, markdown, table"),
        (["ae-calibrate", "-o", "sample.html"], "choose one with -f: json, markdown"),
        (["ae-plan", "-o", "plan.md"], "choose one with -f: json, text"),
        (
            ["ae-summarize", "-o", "summary.csv"],
            "-o summary.csv: this tool writes FILE.jsonl, or FILE.md with --markdown",
        ),
    ],
)
def test_an_extension_that_no_form_has(args: list[str], says: str, file: Path) -> None:
    tool, *options = args
    run(tool, file.name, *options, cwd=file.parent).expect(2).says(says)
    assert list(file.parent.iterdir()) == [file]


@pytest.mark.parametrize(("name", "starts"), [("s.md", "#"), ("s.jsonl", "{"), ("s", "{")])
def test_the_extension_chooses_the_form_of_a_summary(name: str, starts: str, file: Path) -> None:
    run("ae-summarize", file, "-o", name, cwd=file.parent).expect(0)
    assert (file.parent / name).read_text().startswith(starts)


@pytest.mark.parametrize(
    ("form", "option", "meant"),
    [
        ("jsonl", "--by category", "give -f table, markdown, html, junit or parquet"),
        ("csv", "--by category", "--by has no effect with -f csv"),
        ("jsonl", "--raw-csv", "leave it out, or give -f csv"),
        ("csv", "--limit 3", "give -f html"),
        ("table", "--no-trajectories", "give -f html"),
        ("html", "--all", "give -f markdown, sft or dpo"),
        ("junit", "--sort time", "give -f table, markdown, csv, jsonl or html"),
        ("csv", "--group-by reason", "give -f table or markdown"),
        ("sft", "--against graded.jsonl", "give -f dpo"),
        ("csv", "--for trl", "give -f sft or dpo"),
    ],
)
def test_an_option_that_the_form_ignores(form: str, option: str, meant: str, file: Path) -> None:
    run("ae-format", file.name, "-f", form, *option.split(), cwd=file.parent).expect(2).says(meant)


@pytest.mark.parametrize(
    "line",
    [
        "ae-calibrate -j 4",
        "ae-calibrate --stream",
        "ae-calibrate -t 5s",
        "ae-capture --simple 'echo {}' --grade-failed",
        "ae-trials --simple 'echo {}' --stream",
    ],
)
def test_an_option_of_graders_without_one(line: str, file: Path) -> None:
    tool, *options = shlex.split(line)
    run(tool, file.name, *options, cwd=file.parent).expect(2).says("has no effect without -g GRADER")


@pytest.mark.parametrize("tool", ["ae-format", "ae-compare", "ae-score", "ae-balance"])
def test_a_report_is_a_table_on_a_terminal_and_json_elsewhere(tool: str, file: Path) -> None:
    files = [file.name, file.name] if tool == "ae-compare" else [file.name]
    if tool == "ae-balance":
        files = [write(file.parent / "prompts.jsonl", *PROMPTS).name]
    shown = on_terminal(tool, *files, cwd=file.parent, env={"NO_COLOR": "1"}).expect(0).stdout
    piped = run(tool, *files, cwd=file.parent).expect(0).stdout
    assert piped.startswith("{") and "{" not in shown and len(shown.splitlines()) > 1, shown


@pytest.mark.parametrize(
    "args",
    [
        ["ae-format"],
        ["ae-gate", "--min", "passRate=0.5"],
        ["ae-balance"],
        ["ae-grade", "-g", "ae-grader-hint"],
        ["ae-run", "--simple", "echo {}"],
        ["ae-capture", "--simple", "echo {}"],
    ],
)
@pytest.mark.parametrize("before", [True, False])
def test_stdin_beside_a_file(args: list[str], before: bool, file: Path) -> None:
    tool, *options = args
    inputs = ["--stdin", file.name] if before else [file.name, "--stdin"]
    done = run(tool, *inputs, *options, stdin=jsonl(GRADED), cwd=file.parent).expect(2)
    done.says("--stdin and graded.jsonl cannot be used together: leave out --stdin to read the file")
    assert done.out == b""
    run("ae-format", "--stdin", "-", stdin=jsonl(GRADED)).expect(0, stderr="")


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["ae-score", "--min", "hit_rate=80"], "--min: hit_rate is between 0 and 1, got 80: write 0.8"),
        (["ae-plan", "--pass-rate", "80"], "80 is above 1: write 0.8"),
        (["ae-plan", "--pass-rate", "0.8", "--detect", "5"], "5 is above 1: write 0.05"),
        (["ae-calibrate", "--labels", "graded.jsonl", "--min-agreement", "90"], "90 is above 1: write 0.9"),
        (["ae-compare", "--fail-if-worse", "--margin", "5"], "5 is above 1: write 0.05"),
    ],
)
def test_a_percentage_is_not_a_rate(args: list[str], says: str, file: Path) -> None:
    tool, *options = args
    run(tool, file.name, *options, cwd=file.parent).expect(2).says(says)


@pytest.mark.parametrize("form", ["table", "markdown", "html", "junit", "parquet"])
def test_a_key_that_no_record_has(form: str, file: Path) -> None:
    def formatted(key: str) -> list[str]:
        return ["ae-format", file.name, "-f", form, "--by", key, "-o", "report"]

    run(*formatted("categori"), cwd=file.parent).expect(1).says(
        "no record has this key in its metadata: --by category?"
    )
    for key in ("category", "metadata.category", "suite"):  # a field of the record itself will do
        run(*formatted(key), cwd=file.parent).expect(0, stderr="")
    run("ae-format", file.name, "-f", form, "-o", "report", cwd=file.parent).expect(0, stderr="")


def test_a_key_without_any_metadata() -> None:
    done = run("ae-format", "-f", "table", "--by", "category", stdin=jsonl(GRADED)).expect(1)
    done.says("no record has this key in its metadata, nor any other: add it to the prompts, or leave out --by")


def test_a_key_that_no_prompt_has() -> None:
    done = run("ae-balance", "-k", "dificulty", stdin=jsonl(*PROMPTS)).expect(1)
    done.says("--key dificulty: no record has this key in its metadata: --key difficulty?")
    run("ae-balance", "-k", "suite", stdin=jsonl({**PROMPTS[0], "suite": "smoke"})).expect(0, stderr="")
    run("ae-balance", stdin=jsonl({"id": "a", "input": "q"})).expect(0)  # nobody asked for a key


def test_a_key_of_a_comparison_that_no_record_has(file: Path) -> None:
    other = write(file.parent / "other.jsonl", {**GRADED, "metadata": {"category": "ui"}})
    runs = (file.name, other.name)
    done = run("ae-compare", *runs, "--by", "categori", cwd=file.parent).expect(1)
    done.says("--by categori: no record has this key in its metadata: --by category?")
    run("ae-compare", *runs, "--cluster-by", "document", cwd=file.parent).expect(1)
    run("ae-compare", *runs, "--by", "suite", cwd=file.parent).expect(0, stderr="")
    run("ae-compare", *runs, "--by", "category", "-f", "table", cwd=file.parent).expect(2).says(
        "no effect with -f table"
    )
    run("ae-compare", *runs, "--one-order", cwd=file.parent).expect(2).says("add -g GRADER")
