"""ae-compare on a terminal: the verdict as a table; with -o, one line on stderr; in a pipe, JSON."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from agenteval.reports.terminal import hanging, wrap
from agenteval.streams.text import width
from tests.support.tool import Record, on_terminal, run, write

ESCAPES = re.compile(r"\x1b\[[0-9;]*m")


def graded(number: int, passed: bool, **fields: object) -> Record:
    timing = {"start": 0, "end": 1500, "inputTokens": 900 + number, "outputTokens": 100, "costUsd": 0.01}
    score = {"pass": passed, "score": float(passed)}
    return {"id": f"p{number}", "input": "x", "output": "y", "score": score, "timing": timing, **fields}


def trials(number: int, passes: int, k: int = 4) -> Record:
    entries = [{"trialNum": at + 1, "output": "y", "pass": at < passes, "duration": 100} for at in range(k)]
    return {"id": f"p{number}", "input": "x", "k": k, "trials": entries}


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    write(tmp_path / "old.jsonl", *(graded(number, number < 18) for number in range(20)))
    write(tmp_path / "new.jsonl", *(graded(number, number < 8) for number in range(20)))
    write(tmp_path / "same.jsonl", *(graded(number, 0 < number < 18) for number in range(20)))
    return tmp_path


def shown(*args: object, cwd: Path, columns: int = 80, **env: str) -> str:
    done = on_terminal("ae-compare", *args, cwd=cwd, columns=columns, env=env).expect(0)
    plain = ESCAPES.sub("", done.stdout)
    assert all(width(line) <= columns for line in plain.splitlines()), plain
    return plain


def test_two_runs(runs: Path) -> None:
    plain = shown("old.jsonl", "new.jsonl", cwd=runs)
    assert plain.startswith("WORSE  new is worse than old.\n")
    assert re.search(r"^old +90\.0% +\S+ to \S+ +20 +0\.900 +\S+ +\$0\.2000 +1\.50 s$", plain, re.M), plain
    assert "90.0% → 40.0%, -50.0 points (95% interval -7" in plain
    assert re.search(r"Pass lost +10: p8, p9, p10", plain)
    assert "Passes now" not in plain and "To settle" not in plain
    assert shown("new.jsonl", "old.jsonl", cwd=runs).startswith("BETTER  old is better than new.\n")


def test_what_would_settle_it(runs: Path) -> None:
    plain = shown("old.jsonl", "same.jsonl", cwd=runs)
    assert plain.startswith("CANNOT TELL  same from old: no difference shown.\n")
    seen = r"To settle +if the -5\.0 points seen are real \(they may be chance\), about \d+0\s+prompts would show them"
    assert re.search(seen, plain), plain
    assert "no difference in cost shown: $0.0100 → $0.0100 a prompt" in " ".join(plain.split())
    assert re.search(r"Pass lost +1: p0\n", plain)


@pytest.mark.parametrize(
    ("prompts", "clusters", "said"),
    [
        (
            1,
            False,
            "1 prompt cannot show a difference, even if all change in the same direction: at least 5 are needed",
        ),
        (20, True, "20 prompts are too few to detect any difference (80% power)"),
    ],
)
def test_prompts_that_all_changed_are_not_said_to_be_equal(
    prompts: int, clusters: bool, said: str, tmp_path: Path
) -> None:
    for name, passed in (("old", True), ("new", False)):
        write(tmp_path / f"{name}.jsonl", *(graded(at, passed, metadata={"doc": "d"}) for at in range(prompts)))
    more = ["--cluster-by", "doc"] if clusters else []
    plain = shown("old.jsonl", "new.jsonl", *more, cwd=tmp_path, columns=120)
    assert re.search("^CANNOT TELL", plain, re.MULTILINE) and said in " ".join(plain.split())
    assert ("only 1 cluster: intervals are wide" in plain) == clusters


def test_what_a_reader_should_know_of_the_files(runs: Path) -> None:
    write(runs / "back.jsonl", *(graded(at, at < 18, timing={"start": 9, "end": 1}) for at in range(20)))
    done = run("ae-compare", "old.jsonl", "back.jsonl", "--cluster-by", "metadata.doc", cwd=runs).expect(1)
    assert "back: 20 records with a negative duration: the clock was set back, so it is unknown\n" in done.stderr
    assert "no two prompts have the same metadata.doc: each is its own cluster" in done.stderr
    report = json.loads(done.stdout)
    assert report["meta"]["negativeDurations"] == {"back": 20}
    assert report["meta"]["clusters"] == 20
    assert report["performance"]["back"]["latency"]["n"] == 0
    text = run("ae-format", "back.jsonl", "-f", "markdown", cwd=runs).expect(0).stdout
    assert "**Negative duration**: in 20 of 20 records: the clock was set back" in text
    summary = run("ae-summarize", "back.jsonl", "--markdown", cwd=runs).expect(0)
    assert "**Duration:** unknown: the clock was set back" in summary.stdout


def test_three_runs_on_a_narrow_terminal(runs: Path) -> None:
    plain = shown("old.jsonl", "new.jsonl", "same.jsonl", cwd=runs, columns=40)
    assert " ".join(plain.split()).startswith(
        "old and same lead: neither is shown to be better than the other; new is last; "
        "same and new are no better and no cheaper than some other run."
    )
    assert "no longer" not in plain and "now" not in plain and "lost" not in plain
    assert re.search(r"^1  1–2   old +90\.0% ", plain, re.M) and re.search(r"^3  3     new +40\.0% ", plain, re.M)
    assert re.search(r"^1 old +· +\+5 \+50\*$", plain, re.M), plain
    assert "Holm" in plain and "--pair A B" in plain


LABELS = [f"agent {at} with a name that is far longer than any column of a table" for at in range(10)]


@pytest.mark.parametrize("columns", [80, 100])
def test_ten_runs_fit_a_screen_of_fifty_lines(columns: int, tmp_path: Path) -> None:
    chosen = []
    for at, label in enumerate(LABELS):
        ids = [graded(number, number * 7 % 100 < 95 - 6 * at, id=f"prompt-{number:03}") for number in range(100)]
        write(tmp_path / f"{at}.jsonl", *ids)
        chosen += ["--run", f"{label}:{at}.jsonl"]
    plain = shown(*chosen, cwd=tmp_path, columns=columns)
    lines = plain.splitlines()
    assert len(lines) <= 50, plain
    head = next(at for at, line in enumerate(lines) if "RANK" in line)
    assert [line.split()[0] for line in lines[head + 1 : head + 11]] == [str(at) for at in range(1, 11)]
    assert all("●" in line and "─" in line for line in lines[head + 1 : head + 11])
    matrix = next(at for at, line in enumerate(lines) if line.startswith("All pairs"))
    assert [line.count("·") for line in lines[matrix + 2 : matrix + 12]] == [1] * 10
    assert lines[matrix + 2].endswith("+54*") and lines[matrix + 11].split()[-10] == "-54*"
    strip = next(at for at, line in enumerate(lines) if line.startswith("Prompts, the hardest"))
    assert all(line.rstrip()[-1] == "█" for line in lines[strip + 1 : strip + 11])
    full = " ".join(plain.split())
    assert LABELS[0] in full and "prompt-" in full and "by no run: " in full
    done = run("ae-compare", *chosen, "--pair", LABELS[0], "9.jsonl", "-f", "table", cwd=tmp_path).expect(0)
    alone = run("ae-compare", *chosen[:2], *chosen[-2:], "-f", "table", cwd=tmp_path).expect(0)
    assert done.stdout == alone.stdout and done.stdout.startswith("WORSE  ")
    for pair, message in (
        (("x", "9.jsonl"), "--pair x: no such run; the runs are agent 0"),
        (("9.jsonl",) * 2, "name two"),
    ):
        refused = run("ae-compare", *chosen, "--pair", *pair, cwd=tmp_path)
        assert refused.code == 2 and message in refused.stderr


def test_trials(tmp_path: Path) -> None:
    write(tmp_path / "a.jsonl", *(trials(number, 4) for number in range(12)))
    write(tmp_path / "b.jsonl", *(trials(number, 1) for number in range(12)))
    plain = shown("a.jsonl", "b.jsonl", cwd=tmp_path)
    assert plain.startswith("WORSE  b is worse than a.\n")
    assert "100.0% → 25.0%, -75.0 points" in plain
    assert re.search(r"pass\^4 +100\.0% → 0\.0%", plain)
    assert "0.10 s → 0.10 s a trial, geometric mean 1.00 x" in " ".join(plain.split())


def test_names_and_ids_of_others_do_not_reach_the_terminal(tmp_path: Path) -> None:
    evil = "\x1b]0;owned\x07\x1b[2J\u202eid"
    write(tmp_path / "a.jsonl", *({**graded(number, True), "id": f"{number}{evil}"} for number in range(6)))
    write(tmp_path / "b.jsonl", *({**graded(number, False), "id": f"{number}{evil}"} for number in range(6)))
    done = on_terminal("ae-compare", "--run", f"one{evil}:a.jsonl", "--run", "two:b.jsonl", cwd=tmp_path).expect(0)
    assert "\x1b" not in ESCAPES.sub("", done.stdout) and "\x07" not in done.stdout and "\u202e" not in done.stdout
    assert "0␛]0;owned␇␛[2Jid" in done.stdout


def test_colours_only_on_a_terminal_that_has_them(runs: Path) -> None:
    assert "\x1b[31m" in on_terminal("ae-compare", "old.jsonl", "new.jsonl", cwd=runs).stdout
    for env in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
        assert "\x1b" not in on_terminal("ae-compare", "old.jsonl", "new.jsonl", cwd=runs, env=env).stdout
    piped = run("ae-compare", "old.jsonl", "new.jsonl", "-f", "table", cwd=runs).expect(0)
    assert piped.stdout.startswith("WORSE  new is worse than old.\n") and "\x1b" not in piped.stdout


def test_a_pipe_gets_json_and_a_file_leaves_the_verdict_on_stderr(runs: Path) -> None:
    assert json.loads(run("ae-compare", "old.jsonl", "new.jsonl", cwd=runs).expect(0, stderr="").stdout)["statistics"]
    done = run("ae-compare", "old.jsonl", "new.jsonl", "-o", "report.json", cwd=runs).expect(0)
    done.says("new is worse than old (pass rate 90.0% → 40.0%, -50.0 points (95% interval -7")
    assert json.loads((runs / "report.json").read_text())["statistics"]
    done = run("ae-compare", "old.jsonl", "new.jsonl", "same.jsonl", "-o", "report.md", cwd=runs).expect(0)
    done.says("old and same lead: neither is shown to be better than the other; new is last")


def test_nothing_graded(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write(tmp_path / f"{name}.jsonl", {"id": "x", "input": "x", "output": "y"})
    assert "CANNOT TELL  b from a: no prompt is graded in both." in shown("a.jsonl", "b.jsonl", cwd=tmp_path)


@pytest.mark.parametrize(
    ("text", "columns", "lines"),
    [
        ("one two three", 8, ["one two", "three"]),
        ("abcdefghij", 4, ["abcd", "efgh", "ij"]),
        ("漢字漢字", 4, ["漢字", "漢字"]),
        ("", 5, [""]),
        ("  two blanks", 20, ["  two blanks"]),
        ("漢字", 1, ["漢", "字"]),
    ],
)
def test_wrap(text: str, columns: int, lines: list[str]) -> None:
    assert wrap(text, columns) == lines


def test_hanging_lines() -> None:
    assert hanging("Title", "one two three four five six seven", 8, 32) == [
        "Title   one two three four five",
        "        six seven",
    ]
    assert hanging("Title", "one two", 8, 20) == ["Title", "  one two"]
