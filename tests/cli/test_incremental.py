"""--resume is incremental: exactly what an edit touches is run or graded again, and records are replaced."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import sys
from collections import Counter
from pathlib import Path

import pytest

from agenteval.grading.graders import grader_digests, named_graders
from tests.support.tool import BIN, ROOT, Done, Record, read, run, script, write
from tests.support.watching import Running, until

TOOLS = ["ae-run", "ae-capture", "ae-trials"]
ECHO_AGENT = ROOT / "tests" / "data" / "acp_echo_agent.py"
AGENT = 'echo "$1" >> "$COUNT/ran"; echo "$1 done"'
GRADER = """cat > "record.$$"; echo x >> graded; grep -q '"hint":"yes' "record.$$" && p=true || p=false; rm "record.$$"
echo "{\\"pass\\": $p, \\"score\\": 1}"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    script(tmp_path / "agent.sh", AGENT)
    script(tmp_path / "grader.sh", GRADER)
    some(tmp_path)
    return tmp_path


def some(folder: Path, **changes: Record) -> None:
    """Writes prompts a, b and c; with changes to some of them."""
    base: dict[str, Record] = {name: {"id": name, "input": f"say {name}", "hint": "yes"} for name in "abc"}
    write(folder / "prompts", *(prompt | changes.get(name, {}) for name, prompt in base.items()))


def start(tool: str, folder: Path, *args: object, grader: str = "./grader.sh") -> Done:
    k = ["-k", 2, "--workspace-dir", "ws"] if tool == "ae-trials" else []
    graders = [] if tool == "ae-run" or not grader else ["-g", grader]
    agent = ["--simple", f"{folder}/agent.sh {{}}", "--env", f"COUNT={folder}"]
    return run(tool, "prompts", *agent, *graders, *k, "-o", "out", *args, cwd=folder)


def counted(folder: Path) -> tuple[dict[str, int], int]:
    """Returns how often each prompt was given to an agent, and how many answers were graded, since the last call."""
    ran = (folder / "ran").read_text().splitlines() if (folder / "ran").exists() else []
    graded = (folder / "graded").read_text().splitlines() if (folder / "graded").exists() else []
    for name in ("ran", "graded"):
        (folder / name).unlink(missing_ok=True)
    return Counter(ran), len(graded)


def each(tool: str) -> int:
    return 2 if tool == "ae-trials" else 1


@pytest.mark.parametrize("tool", TOOLS)
def test_nothing_has_changed(tool: str, folder: Path) -> None:
    start(tool, folder).expect(0)
    counted(folder)
    before = (folder / "out").read_bytes()
    os.utime(folder / "out", (1, 1))
    assert "out: 3 kept, nothing to do" in start(tool, folder, "--resume").expect(0).stderr
    assert counted(folder) == ({}, 0)
    assert (folder / "out").read_bytes() == before
    assert (folder / "out").stat().st_mtime > 1, "make compares times"


@pytest.mark.parametrize("tool", TOOLS)
def test_an_edited_prompt_is_run_again(tool: str, folder: Path) -> None:
    start(tool, folder).expect(0)
    counted(folder)
    some(folder, b={"input": "say d"})
    assert "out: 2 kept, 1 changed and run again" in start(tool, folder, "--resume").expect(0).stderr
    graded = 0 if tool == "ae-run" else each(tool)
    assert counted(folder) == ({"say d": each(tool)}, graded)
    records = {record["id"]: record for record in read(folder / "out")}
    assert len(read(folder / "out")) == 3
    assert records["b"]["input"] == "say d"
    assert len({record["metadata"]["runId"] for record in records.values()}) == 1
    assert start(tool, folder, "--resume").expect(0).stderr.count("3 kept, nothing to do") == 1


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize("change", [{"hint": "no"}, {"metadata": {"category": "ui"}}, {"tags": ["x"]}])
def test_an_edited_field_that_graders_see_is_graded_again(tool: str, change: Record, folder: Path) -> None:
    start(tool, folder).expect(0)
    counted(folder)
    some(folder, b=change)
    done = "1 with new fields" if tool == "ae-run" else "1 graded again"
    assert f"out: 2 kept, {done}" in start(tool, folder, "--resume").expect(0).stderr
    assert counted(folder) == ({}, 0 if tool == "ae-run" else each(tool))
    [record] = [record for record in read(folder / "out") if record["id"] == "b"]
    for field, value in change.items():
        assert record[field] == value if field != "metadata" else record["metadata"]["category"] == "ui"
    if "hint" in change and tool != "ae-run":
        passes = record["passRate"] if tool == "ae-trials" else record["score"]["pass"]
        assert passes == 0
    assert record["metadata"]["agentDigest"], "what the run has recorded stays"
    some(folder, b={"timeout": 99_000, **change})
    start(tool, folder, "--resume").expect(0)
    assert counted(folder) == ({}, 0)


@pytest.mark.parametrize("tool", TOOLS[1:])
def test_an_edited_grader_grades_again(tool: str, folder: Path) -> None:
    start(tool, folder).expect(0)
    counted(folder)
    script(folder / "grader.sh", f"# corrected\n{GRADER}")
    assert "out: 3 graded again" in start(tool, folder, "--resume").expect(0).stderr
    assert counted(folder) == ({}, 3 * each(tool))
    assert "3 graded again" in start(tool, folder, "--resume", grader="./grader.sh --strict").expect(0).stderr
    assert counted(folder) == ({}, 3 * each(tool))
    assert "3 kept, nothing to do" in start(tool, folder, "--resume", grader="./grader.sh --strict").expect(0).stderr
    assert counted(folder) == ({}, 0)
    assert len(read(folder / "out")) == 3


def test_an_edited_python_grader_grades_again(folder: Path) -> None:
    (folder / "own.py").write_text("def grade(record):\n    return {'pass': True, 'score': 1}\n")
    for grader in ("own.py", "own:grade"):
        start("ae-capture", folder, "--overwrite", grader=grader).expect(0)
        start("ae-capture", folder, "--resume", grader=grader).expect(0).says("3 kept, nothing to do")
        (folder / "own.py").write_text(f"# {grader}\ndef grade(record):\n    return {{'pass': False, 'score': 0}}\n")
        start("ae-capture", folder, "--resume", grader=grader).expect(0).says("3 graded again")
        assert not any(record["score"]["pass"] for record in read(folder / "out"))


@pytest.mark.parametrize("tool", TOOLS)
def test_an_edited_agent_is_refused(tool: str, folder: Path) -> None:
    start(tool, folder).expect(0)
    counted(folder)
    refused = ("its records were made with another command", "--force")
    start(tool, folder, "--resume", "--env", "OTHER=1").expect(2).says(*refused)
    script(folder / "agent.sh", f"# other\n{AGENT}")
    start(tool, folder, "--resume").expect(2).says(*refused)
    assert counted(folder) == ({}, 0)
    assert "3 kept" in start(tool, folder, "--resume", "--force").expect(0).stderr


def test_the_description_of_an_adapter_does_not_make_it_another_agent(tmp_path: Path) -> None:
    """A newer version of the suite may describe a bundled adapter in other words; what it runs counts."""
    write(tmp_path / "prompts", {"id": "a", "input": "x"})
    schema = json.loads(run("ae-adapters", "text").expect(0).out) | {"command": ["echo"]}
    for words, code in (
        (schema, 0),
        (schema | {"description": "d", "provenOn": "p"}, 0),
        (schema | {"command": ["printf"]}, 2),
    ):
        write(tmp_path / "my.json", words)
        run("ae-capture", "prompts", "-s", "my.json", "-o", "out", "--resume", cwd=tmp_path).expect(code)


def test_files_that_a_shell_line_writes_do_not_make_it_another_agent(folder: Path) -> None:
    line = 'echo "$PROMPT" >> log.sh; touch seen; [ -e seen ] && sh ./part.sh "$PROMPT"'
    (folder / "part.sh").write_text("echo one\n")
    options = ["prompts", "--shell", line, "-o", "shell"]
    run("ae-capture", *options, cwd=folder).expect(0, stderr="")
    run("ae-capture", *options, "--resume", cwd=folder).expect(0).says("3 kept")
    (folder / "part.sh").write_text("echo two\n")
    run("ae-capture", *options, "--resume", cwd=folder).expect(2).says("another command")


@pytest.mark.parametrize("tool", TOOLS)
def test_new_and_removed_prompts(tool: str, folder: Path) -> None:
    start(tool, folder).expect(0)
    counted(folder)
    write(folder / "prompts", {"id": "b", "input": "say b", "hint": "yes"}, {"id": "new", "input": "say new"})
    done = start(tool, folder, "--resume").expect(0)
    assert "out: 1 kept, 1 new, 2 no longer in the prompts (kept)" in done.stderr
    assert counted(folder)[0] == {"say new": each(tool)}
    assert sorted(record["id"] for record in read(folder / "out")) == ["a", "b", "c", "new"]


def test_prompts_from_a_pipe_and_the_order_of_the_input(folder: Path) -> None:
    start("ae-capture", folder, "--keep-order").expect(0)
    counted(folder)
    some(folder, a={"input": "say z"})
    text = (folder / "prompts").read_text()
    agent = ["--simple", f"{folder}/agent.sh {{}}", "--env", f"COUNT={folder}", "-g", "./grader.sh", "-o", "out"]
    done = run("ae-capture", *agent, "--resume", "--keep-order", stdin=text, cwd=folder).expect(0)
    done.says("out: 2 kept, 1 changed and run again")
    assert [record["id"] for record in read(folder / "out")] == ["a", "b", "c"]
    assert counted(folder) == ({"say z": 1}, 1)


def test_records_without_digests_are_compared_by_their_input(folder: Path) -> None:
    result: Record = {"output": "x", "trajectory": [], "score": {"pass": True, "score": 1}}
    write(folder / "out", *({"id": name, "input": f"say {name}", **result} for name in "abc"))
    start("ae-capture", folder, "--resume").expect(0).says("out: 3 kept, nothing to do")
    some(folder, b={"input": "say d"}, c={"hint": "no"})
    start("ae-capture", folder, "--resume").expect(0).says("out: 2 kept, 1 changed and run again")
    assert counted(folder) == ({"say d": 1}, 1)
    assert len(read(folder / "out")) == 3


def test_without_a_grader_the_verdict_and_the_fields_it_is_of_stay(folder: Path) -> None:
    start("ae-capture", folder).expect(0)
    counted(folder)
    some(folder, b={"hint": "no"})
    done = start("ae-capture", folder, "--resume", grader="").expect(0)
    done.says("3 kept, 1 of them graded before their fields changed (-g grades it again), nothing to do")
    assert {record["hint"] for record in read(folder / "out")} == {"yes"}


def test_what_was_not_graded_before_is_graded_now(folder: Path) -> None:
    start("ae-capture", folder, grader="").expect(0)
    counted(folder)
    start("ae-capture", folder, "--resume").expect(0).says("3 graded again")
    assert counted(folder) == ({}, 3)


@pytest.mark.parametrize("tool", TOOLS[1:])
def test_grader_errors_are_graded_again(tool: str, folder: Path) -> None:
    script(folder / "grader.sh", f"[ -e mended ] || exit 3\n{GRADER}")
    start(tool, folder).expect(1)
    (folder / "mended").touch()
    counted(folder)
    kept = "3 kept, 3 of them without a verdict (--retry-failed grades them again), nothing to do"
    assert kept in start(tool, folder, "--resume").expect(0).stderr
    assert "3 graded again" in start(tool, folder, "--retry-failed").expect(0).stderr
    assert counted(folder) == ({}, 3 * each(tool))
    assert "graderError" not in (folder / "out").read_text()


@pytest.mark.parametrize("tool", TOOLS[1:])
def test_a_kill_between_grading_and_writing_loses_nothing(tool: str, folder: Path) -> None:
    start(tool, folder).expect(0)
    counted(folder)
    before = read(folder / "out")
    some(folder, a={"input": "say new"}, b={"hint": "yes!"}, c={"hint": "yes!"})
    script(folder / "grader.sh", f"{GRADER}[ $(wc -l < graded) -lt 2 ] || [ -e quick ] || sleep 60")
    k = ["-k", "2", "--workspace-dir", "ws"] if tool == "ae-trials" else []
    agent = ["--simple", f"{folder}/agent.sh {{}}", "--env", f"COUNT={folder}", "-g", "./grader.sh", *k, "-o", "out"]
    with Running(tool, "prompts", *agent, "--resume", cwd=folder) as running:
        graded = folder / "graded"
        until(lambda: graded.exists() and len(graded.read_text().split()) >= 2, "the second answer is being graded")
        running.signal(signal.SIGKILL)
        running.process.wait()
    assert read(folder / "out")[:3] == before, "the old records stay until they are replaced"
    started = counted(folder)[0]
    (folder / "quick").touch()
    run(tool, "prompts", *agent, "--resume", cwd=folder).expect(0)
    again = counted(folder)[0]
    total = Counter(started) + Counter(again)
    assert total == {"say new": each(tool)}, "no agent has answered twice"
    assert sorted(record["id"] for record in read(folder / "out")) == ["a", "b", "c"]
    assert "3 kept, nothing to do" in run(tool, "prompts", *agent, "--resume", cwd=folder).expect(0).stderr


# --- what a grader and an agent depend on ---------------------------------------------------------

PYTHON = "from helper import ok\ndef grade(record):\n    return {'pass': ok}\n"
JAVASCRIPT = "import {ok} from './more/helper'\nexport const grade = () => ({pass: ok})\n"


@pytest.mark.parametrize(
    "grader, edited",
    [
        ("own.py", "own.py"),
        ("own.py", "helper.py"),
        ("own.py", "deeper/part.py"),
        ("own:grade", "helper.py"),
        ("own:grade", "deeper/part.py"),
        ("own.mjs", "more/helper.js"),
        ("sh ./check.sh", "check.sh"),
        ("sh -c 'sh ./check.sh'", "check.sh"),
        ("./check.sh --with=notes.txt", "notes.txt"),
        ("ae-grader-judge --offline --rubric notes.txt", "notes.txt"),
        ("ae-grader-judge --offline --rubric=notes.txt", "notes.txt"),
        ("ae-grader-git --tests tests/{id} --command 'sh ./check.sh'", "tests/a/hidden.txt"),
        ("ae-grader-git --tests=tests/{id} --command 'sh ./check.sh'", "check.sh"),
    ],
)
def test_a_grader_is_another_if_what_it_reads_has_changed(
    grader: str, edited: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(BIN), prepend=":")
    files = {"own.py": PYTHON, "helper.py": "import deeper.part\nok = True\n", "deeper/part.py": "", "notes.txt": "x"}
    files |= {"own.mjs": JAVASCRIPT, "more/helper.js": "export const ok = true\n", "tests/a/hidden.txt": "x"}
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    script(tmp_path / "check.sh", "true")
    digests = {name: grader_digests(named_graders([grader], stream=False)) for name in ("before", "again")}
    assert digests["before"] == digests["again"]
    (tmp_path / "deeper/__pycache__").mkdir()
    with (tmp_path / edited).open("a") as file:
        file.write("\n")
    assert grader_digests(named_graders([grader], stream=False)) != digests["before"]


def test_a_grader_is_another_with_other_conditions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(BIN), prepend=":")
    specs = named_graders(["ae-grader-judge --offline"], stream=False)
    found = [grader_digests(specs), grader_digests(specs, grade_failed=True)]
    monkeypatch.setenv("DEFAULT_JUDGE_MODEL", "other")
    found.append(grader_digests(specs))
    assert len({str(one) for one in found}) == 3


def test_failed_agents_are_graded_again_when_that_is_asked_for(folder: Path) -> None:
    script(folder / "agent.sh", f"{AGENT}; exit 1")
    start("ae-capture", folder).expect(0)
    counted(folder)
    start("ae-capture", folder, "--resume", "--grade-failed").expect(0).says("3 graded again")
    assert counted(folder) == ({}, 3)
    assert all(record["score"]["pass"] for record in read(folder / "out"))


@pytest.mark.parametrize("edited", ["template/x", "./agent.sh", "conf.json", "notes.txt", "--workspace-git"])
def test_an_agent_is_another_if_what_it_reads_has_changed(edited: str, folder: Path) -> None:
    for name in ("template/x", "conf.json", "notes.txt"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("1")
    agent = ["--shell", './agent.sh "$PROMPT" < notes.txt'] if edited == "notes.txt" else []
    agent = agent or ["--simple", "./agent.sh {} --config=conf.json"]
    place = ["--workspace-dir", "ws", "--workspace-template", "template"] if "/x" in edited else ["--cwd", "sub"]
    (folder / "sub").mkdir()
    if edited in ("notes.txt", "conf.json"):
        place = []
    options = ["prompts", *agent, *place, "--env", f"COUNT={folder}", "-o", "out"]
    run("ae-run", *options, cwd=folder).expect(0)
    run("ae-run", *options, "--resume", cwd=folder).expect(0).says("3 kept, nothing to do")
    if edited.startswith("--"):
        options += [edited, "--workspace-dir", "ws"]
    else:
        with (folder / edited).open("a") as file:
            file.write("\n# edited\n")
    run("ae-run", *options, "--resume", cwd=folder).expect(2).says("its records were made with another command")


# --- an output that is there ----------------------------------------------------------------------


@pytest.mark.parametrize("tool", TOOLS)
def test_an_output_with_records_is_not_replaced_unasked(tool: str, folder: Path) -> None:
    start(tool, folder).expect(0)
    counted(folder)
    before = (folder / "out").read_bytes()
    start(tool, folder).expect(2).says("out: already contains records", "--resume", "--append", "--overwrite")
    assert (folder / "out").read_bytes() == before
    assert counted(folder) == ({}, 0)
    start(tool, folder, "--overwrite").expect(0)
    assert len(read(folder / "out")) == 3
    result: Record = {"id": "a", "input": "x", "output": "x", "trajectory": []}
    other = write(folder / "other", result if tool == "ae-trials" else {"id": "a", "k": 2, "trials": []})
    start(tool, folder, "-o", other, "--append").expect(2).says("other: contains", f"give {tool} another file")
    (folder / "out").write_bytes(b"")
    start(tool, folder).expect(0)


# --- ae-grade -------------------------------------------------------------------------------------


def grade(folder: Path, *args: object, grader: str = "./grader.sh") -> Done:
    return run("ae-grade", "results", "-g", grader, "-o", "graded.jsonl", *args, cwd=folder)


def results(folder: Path, **changes: Record) -> None:
    base: dict[str, Record] = {name: {"id": name, "output": name, "hint": "yes"} for name in "abc"}
    write(folder / "results", *(record | changes.get(name, {}) for name, record in base.items()))


@pytest.mark.parametrize("change", [{"output": "new"}, {"hint": "no"}, {"more": 1}])
def test_ae_grade_grades_what_has_changed(change: Record, folder: Path) -> None:
    results(folder)
    grade(folder).expect(0)
    counted(folder)
    os.utime(folder / "graded.jsonl", (1, 1))
    grade(folder, "--resume").expect(0).says("graded.jsonl: 3 kept, nothing to do")
    assert (folder / "graded.jsonl").stat().st_mtime > 1
    results(folder, a=change)
    grade(folder, "--resume").expect(0).says("graded.jsonl: 2 kept, 1 changed and graded again")
    assert counted(folder) == ({}, 1)
    graded = read(folder / "graded.jsonl")
    assert [record["id"] for record in graded] == ["a", "b", "c"], "the order is that of the input"
    assert all(graded[0][field] == value for field, value in change.items())


def test_ae_grade_with_another_grader_and_other_records(folder: Path) -> None:
    results(folder)
    grade(folder).expect(0)
    counted(folder)
    script(folder / "grader.sh", f"# corrected\n{GRADER}")
    write(folder / "results", {"id": "new", "output": "n"}, {"id": "b", "output": "b", "hint": "yes"})
    said = grade(folder, "--resume").expect(0).says("1 graded again", "1 new", "2 no longer in the input (kept)")
    assert "kept," not in said
    assert counted(folder) == ({}, 2)
    assert [record["id"] for record in read(folder / "graded.jsonl")] == ["new", "b", "a", "c"]


def test_ae_grade_again_after_a_grader_error(folder: Path) -> None:
    results(folder)
    script(folder / "grader.sh", f"[ -e mended ] || exit 3\n{GRADER}")
    grade(folder).expect(1)
    (folder / "mended").touch()
    grade(folder, "--resume").expect(0).says("3 graded again")
    assert len(read(folder / "graded.jsonl")) == 3


def test_a_kill_while_ae_grade_resumes_loses_no_verdict(folder: Path) -> None:
    results(folder)
    grade(folder).expect(0)
    counted(folder)
    before = read(folder / "graded.jsonl")
    results(folder, a={"hint": "yes!"}, b={"hint": "yes!"})
    script(folder / "grader.sh", f"{GRADER}[ $(wc -l < graded) -lt 2 ] || [ -e quick ] || sleep 60")
    with Running("ae-grade", "results", "-g", "./grader.sh", "-o", "graded.jsonl", "--resume", cwd=folder) as running:
        graded = folder / "graded"
        until(lambda: graded.exists() and len(graded.read_text().split()) >= 2, "the second answer is being graded")
        running.signal(signal.SIGKILL)
        running.process.wait()
    assert read(folder / "graded.jsonl")[:3] == before, "the old records stay until they are replaced"
    counted(folder)
    (folder / "quick").touch()
    grade(folder, "--resume").expect(0)
    assert counted(folder)[1] == 2, "the verdict that was written is not given again"
    assert [record["hint"] for record in read(folder / "graded.jsonl")] == ["yes!", "yes!", "yes"]


def test_a_workspace_of_another_run_is_reported(folder: Path) -> None:
    for name in ("one", "two"):
        options = ["prompts", "--shell", f"echo {name} > file", "--workspace-dir", "ws", "-o", name]
        run("ae-capture", *options, cwd=folder).expect(0)
    said = run("ae-grade", "one", "-g", "./grader.sh", "-o", "graded.jsonl", cwd=folder).expect(0).says()
    assert "a: " in said and "ws/prompt-a belongs to another run" in said
    run("ae-grade", "two", "-g", "./grader.sh", "-o", "again.jsonl", cwd=folder).expect(0, stderr="")
    said = run("ae-merge", "one", "two", "--prefer", "last", "-o", "merged", cwd=folder).expect(1).stderr
    assert "two:1: comes from a different agent or command than one:1" in said


def test_a_baseline_that_was_asked_something_else_is_not_compared(folder: Path) -> None:
    options = ["--simple", "echo {}", "-g", "ae-grader-hint"]
    run("ae-capture", "prompts", *options, "-o", "base", cwd=folder).expect(0)
    some(folder, b={"input": "say d"})
    done = run("ae-capture", "prompts", *options, "--against", "base", "--stop-when-known", cwd=folder).expect(0)
    assert "base: not compared, because the input differs: b" in done.stderr, done


# --- limits of a run ------------------------------------------------------------------------------

USAGE = """echo x >> started
echo '{"type":"system","subtype":"init","model":"claude-sonnet-4-20250514"}'
echo '{"type":"result","result":"ok","total_cost_usd":COST,"usage":{"input_tokens":10,"output_tokens":5}}'
"""


def own_claude(folder: Path) -> None:
    """Writes mine.json: ./agent.sh prints what claude would print."""
    schema = json.loads(run("ae-adapters", "claude").expect(0).stdout)
    (folder / "mine.json").write_text(json.dumps(schema | {"command": ["./agent.sh"]}))


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize(
    "limit", [["--max-cost", "0.5"], ["--max-total-tokens", "30"]], ids=["--max-cost", "--max-total-tokens"]
)
def test_no_agent_is_started_beyond_the_limit(tool: str, limit: list[str], tmp_path: Path) -> None:
    write(tmp_path / "prompts", *({"id": str(n), "input": "x"} for n in range(6)))
    script(tmp_path / "agent.sh", USAGE.replace("COST", "0.25"))
    k = ["-k", 1] if tool == "ae-trials" else []
    agent = ["--shell", './agent.sh "$PROMPT"', *(["--extract", "claude"] if tool != "ae-run" else [])]
    if tool == "ae-run":
        own_claude(tmp_path)
        agent = ["-s", "mine.json"]
    options = ["prompts", *agent, *k, "-o", "out"]
    stopped = run(tool, *options, *limit, cwd=tmp_path).expect(1)
    assert f"{limit[0]}: " in stopped.stderr and "4 " in stopped.stderr and "--resume" in stopped.stderr, stopped
    assert len(read(tmp_path / "out")) == (tmp_path / "started").read_text().count("x") == 2
    run(tool, *options, *limit, "--resume", cwd=tmp_path).expect(1)
    assert len(read(tmp_path / "out")) == 2, "the limit is that of the whole run"
    run(tool, *options, limit[0], "100", "--resume", cwd=tmp_path).expect(0)
    assert len(read(tmp_path / "out")) == 6


@pytest.mark.parametrize("tool", TOOLS)
def test_what_repeated_tries_have_used_counts(tool: str, tmp_path: Path) -> None:
    write(tmp_path / "prompts", *({"id": str(n), "input": "x"} for n in range(3)))
    count, answers = USAGE.replace("COST", "0.25").split("\n", 1)
    overload = answers.replace('"result":"ok"', '"is_error":true,"result":"429 rate limit"')
    script(tmp_path / "agent.sh", f"{count}\nif [ $(wc -l < started) = 1 ]; then\n{overload}exit 1; fi\n{answers}")
    own_claude(tmp_path)
    options = ["prompts", "-s", "mine.json", "--retries", 1, "--max-cost", 0.5, "-o", "out"]
    options += ["-k", 1] if tool == "ae-trials" else []
    run(tool, *options, cwd=tmp_path).expect(1).says("--max-cost: 0.5000 of 0.5 USD spent; 2 ")
    [record] = read(tmp_path / "out")
    answer = record["trials"][0] if tool == "ae-trials" else record
    assert answer["retriedUsage"] == {"inputTokens": 10, "outputTokens": 5, "costUsd": 0.25}
    said = run(tool, *options, "--resume", cwd=tmp_path).expect(1).messages
    assert said[0].endswith("out: 1 kept") and "0.5000 of 0.5 USD spent; 2 " in said[1], said


def test_an_empty_prompt_file_is_reported(tmp_path: Path) -> None:
    (tmp_path / "prompts").touch()
    run("ae-capture", "prompts", "--simple", "echo {}", cwd=tmp_path).expect(0).says("prompts: contains no prompts")


def test_braces_in_a_shell_line_are_refused(tmp_path: Path) -> None:
    write(tmp_path / "prompts", {"id": "a", "input": "x"})
    run("ae-run", "prompts", "--shell", "agent {}", cwd=tmp_path).expect(2).says("--shell 'agent \"$PROMPT\"'")
    run("ae-run", "prompts", "--shell", "echo '{\"x\":{}}'", cwd=tmp_path).expect(0)


# --- docs/recipes.md ------------------------------------------------------------------------------


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not on PATH")
def test_the_makefile_of_the_recipes_does_exactly_what_is_needed(folder: Path) -> None:
    text = (ROOT / "docs" / "recipes.md").read_text()
    (folder / "Makefile").write_text(text.split("```make\n")[1].split("```")[0])
    (folder / "prompts").rename(folder / "prompts.jsonl")
    grader = "import os\ndef grade(record):\n    open(os.environ['COUNT'] + '/graded', 'a').write('x\\n')\n"
    (folder / "grader.py").write_text(f"{grader}    return {{'pass': record['hint'] == 'yes', 'score': 1}}\n")

    def make() -> tuple[dict[str, int], int]:
        run("/usr/bin/env", "make", "--no-print-directory", cwd=folder, env={"COUNT": str(folder)}).expect(0)
        return counted(folder)

    def edit(name: str, old: str, new: str) -> None:
        path = folder / name
        path.write_text(path.read_text().replace(old, new))
        later = max(file.stat().st_mtime for file in folder.rglob("*")) + 2
        os.utime(path, (later, later))

    every = {"say a": 1, "say b": 1, "say c": 1}
    assert make() == (every, 3)
    assert make() == ({}, 0)
    edit("prompts.jsonl", "say b", "say d")
    assert make() == ({"say d": 1}, 1)
    edit("prompts.jsonl", '"c", "input": "say c", "hint": "yes"', '"c", "input": "say c", "hint": "no"')
    assert make() == ({}, 1)
    edit("grader.py", "score': 1", "score': 0.5")
    assert make() == ({}, 3)
    edit("agent.sh", "#!/bin/sh", "#!/bin/sh\n# another")
    assert make() == ({"say a": 1, "say d": 1, "say c": 1}, 3)
    assert len(list((folder / "runs").glob("*.jsonl"))) == 2


# --- messages -------------------------------------------------------------------------------------


def test_debug_shows_the_lines_of_the_agent(tmp_path: Path) -> None:
    write(tmp_path / "prompts", {"id": "a", "input": "x"})
    line = "echo one; echo two >&2; printf three"
    done = run("ae-run", "prompts", "--shell", line, "--debug", cwd=tmp_path).expect(0)
    for part in ("a: stdout: one", "a: stderr: two", "a: stdout: three", "a: turn 1: exited with code 0"):
        assert f"ae-run: {part}" in done.stderr, done
    assert re.search(r'1-2 +message +outputMode text +content="one three"', done.stderr), "the rule that took them"
    done = run("ae-capture", "prompts", "--debug", "--", sys.executable, ECHO_AGENT, cwd=tmp_path)
    assert "; session echo" in done.stderr and re.search(r"\d +\S+ +result ", done.stderr), done


def test_a_dry_run_shows_the_trials_that_would_run(tmp_path: Path) -> None:
    write(tmp_path / "prompts", {"id": "a", "input": "x"}, {"id": "b", "input": "x"})
    line = "echo x >> ran; [ $(wc -l < ran) = 2 ] && exit 1; echo done"
    options = ["prompts", "--shell", line, "-k", 3, "-o", "out"]
    run("ae-trials", *options, cwd=tmp_path).expect(0)
    for option, expected in (("--retry-failed", [("a", 2)]), ("--resume", [])):
        planned = run("ae-trials", *options, option, "--dry-run", cwd=tmp_path).expect(0).records
        assert [(start["id"], start["trial"]) for start in planned] == expected


def test_the_command_line_is_corrected(tmp_path: Path) -> None:
    write(tmp_path / "prompts", {"id": "a", "input": "x"})
    done = run("ae-run", "prompts", "./agent", "--flag", cwd=tmp_path).expect(2)
    assert "ae-run" in done.says()
    done = run("ae-run", "prompts", "./agent", "more", cwd=tmp_path).expect(2)
    done.says("put -- before the command: ae-run prompts -- ./agent more")
    for line, meant in {
        "prompts -- -s claude": "prompts -s claude",
        "prompts -s claude -- --model x": "prompts -s claude --agent-arg=--model --agent-arg=x",
        "-j 2 -- prompts cat": "prompts -j 2 -- cat",
    }.items():
        run("ae-run", *line.split(), cwd=tmp_path).expect(2).says(
            f"what follows -- is the agent's command: ae-run {meant}"
        )
    done = run("ae-run", "prompts", "--", "cat", "-o", "out", cwd=tmp_path)
    assert "to give it to ae-run: ae-run prompts -o out -- cat" in done.stderr, done


def test_a_report_is_titled_by_the_label_or_the_agent(tmp_path: Path) -> None:
    write(tmp_path / "prompts", {"id": "a", "input": "x"})
    for options, title in (([], "echo"), (["--label", "night run"], "night run")):
        run("ae-capture", "prompts", "--simple", "echo {}", *options, "-o", "out", "--overwrite", cwd=tmp_path).expect(
            0
        )
        page = run("ae-format", "out", "-f", "html", cwd=tmp_path).expect(0).stdout
        assert f'"title":"{title}"' in page.replace('": "', '":"')
