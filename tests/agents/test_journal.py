"""The journal: records that wait for their order or their grader when the tool is stopped are not run again."""

from __future__ import annotations

import resource
import shutil
import signal
from pathlib import Path

import pytest

from agenteval.agents import resume as journal
from agenteval.agents.resume import Journal
from agenteval.errors import CannotGoOn
from tests.support.tool import TIMEOUT, Record, read, run, script, write
from tests.support.watching import Running, until, written

IDS = ["1", "2", "3", "4", "5", "6"]
SLOW = 'echo "$PROMPT" >> ran; [ "$PROMPT" = 2 ] && [ ! -e quick ] && sleep 60; echo "$PROMPT"'


def prompts(folder: Path) -> Path:
    return write(folder / "prompts", *({"id": name, "input": name, "hint": name} for name in IDS))


def runs(folder: Path) -> list[str]:
    """Returns the prompts whose agents were started, sorted."""
    return sorted((folder / "ran").read_text().split())


def entries(path: Path) -> list[Record]:
    """The lines of a journal without the first, which says how many records there will be."""
    return [line for line in written(path) if "planned" not in line]


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGKILL])
@pytest.mark.parametrize(
    "args", [["ae-run"], ["ae-capture"], ["ae-capture", "-g", "ae-grader-hint"], ["ae-trials", "-k", 1]]
)
def test_what_waits_for_its_turn_is_not_run_again(args: list[str], signum: int, tmp_path: Path) -> None:
    file, kept = prompts(tmp_path), tmp_path / "out.unfinished"
    command = [*map(str, args), str(file), "-j", "3", "--keep-order", "--shell", SLOW, "-o", "out"]
    with Running(*command, cwd=tmp_path) as tool:
        until(lambda: kept.exists() and (tmp_path / "ran").exists(), "agents run")
        until(lambda: set(runs(tmp_path)) == set(IDS), "all have started")
        until(
            lambda: {line["id"] for line in [*entries(kept), *written(tmp_path / "out")]} == {*IDS} - {"2"},
            "all others are done",
        )
        tool.signal(signum)
        tool.process.wait(TIMEOUT)
    assert [record["id"] for record in read(tmp_path / "out")] in ([], ["1"]), "the first may be at its grader"
    (tmp_path / "quick").touch()
    run(*command, "--resume", cwd=tmp_path).expect(0)
    assert [record["id"] for record in read(tmp_path / "out")] == IDS, "still in order"
    assert runs(tmp_path) == sorted([*IDS, "2"]), "only the one that was cut off is run again"
    assert not kept.exists()


@pytest.mark.parametrize("args", [["ae-capture"], ["ae-trials", "-k", 1]])
def test_what_is_being_graded_is_not_run_again(args: list[str], tmp_path: Path) -> None:
    script(tmp_path / "slow", 'cat > /dev/null; [ -e quick ] || sleep 60; echo \'{"pass": true, "score": 1}\'')
    agent = ["--shell", 'echo "$PROMPT" >> ran', "-g", "./slow"]
    command = [*map(str, args), str(prompts(tmp_path)), "-j", "2", *agent, "-o", "out"]
    kept = tmp_path / "out.unfinished"
    with Running(*command, cwd=tmp_path) as tool:
        until(lambda: kept.exists() and len(entries(kept)) == 2, "two agents are done")
        tool.signal(signal.SIGINT)
        tool.end().expect(130)
    (tmp_path / "quick").touch()
    done = run(*command, "--resume", cwd=tmp_path).expect(0)
    assert all("pass@1" in line for line in done.stderr.splitlines()), done
    assert sorted(record["id"] for record in read(tmp_path / "out")) == IDS
    assert runs(tmp_path) == IDS
    assert not kept.exists()


def test_a_prompt_with_a_score_of_its_own_is_graded(tmp_path: Path) -> None:
    write(tmp_path / "prompts", {"id": "a", "input": "x", "hint": "no", "score": {"pass": True, "score": 1}})
    done = run("ae-capture", "prompts", "--simple", "echo {}", "-g", "ae-grader-hint", "-o", "out", cwd=tmp_path)
    done.expect(0, stderr="")
    assert read(tmp_path / "out")[0]["score"]["pass"] is False


def test_what_another_run_has_left_is_of_no_use_to_a_new_one(tmp_path: Path) -> None:
    old = {
        "id": "1",
        "input": "1",
        "trial": 1,
        "graded": False,
        "record": {"id": "1", "input": "1", "rawLines": ["old"]},
    }
    write(tmp_path / "out.unfinished", old)
    file = write(tmp_path / "prompts", {"id": "1", "input": "1"})
    run("ae-run", file, "--simple", "echo {}", "-o", "out", cwd=tmp_path).expect(0, stderr="")
    assert read(tmp_path / "out")[0]["rawLines"] == ["1"]
    assert not (tmp_path / "out.unfinished").exists()


@pytest.mark.parametrize("resume", [[], ["--resume"]])
def test_what_a_tool_left_that_was_killed_while_it_rewrote_the_file_is_removed(
    resume: list[str], tmp_path: Path
) -> None:
    (tmp_path / "out.unfinished.new").write_text('{"id": "1", "in')
    run("ae-run", prompts(tmp_path), "--simple", "echo {}", "-o", "out", *resume, cwd=tmp_path).expect(0)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "prompts"]


def test_something_else_in_its_place(tmp_path: Path) -> None:
    (tmp_path / "out.unfinished").mkdir()
    file = write(tmp_path / "prompts", {"id": "1", "input": "1"})
    done = run("ae-run", file, "--shell", "touch ran", "-o", "out", cwd=tmp_path).expect(2)
    done.says("out.unfinished", "move it away")
    assert not (tmp_path / "ran").exists()


def test_the_file_stays_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However long the run is: records in the output are dropped from time to time, waiting ones are not."""
    monkeypatch.setattr(journal, "LARGE", 10_000)
    out = tmp_path / "out"
    kept = Journal(str(out), resume=False)
    kept.open()
    big: Record = {"text": "x" * 900}
    kept.keep({"id": "waits", "input": "w"}, big, 2, graded=True)
    largest = 0
    for number in range(200):
        prompt = {"id": str(number), "input": "x"}
        kept.keep(prompt, big, 1, graded=False)
        kept.keep(prompt, {**big, "again": True}, 1, graded=True)
        if number < 195:
            kept.forget(prompt["id"])
        largest = max(largest, (tmp_path / "out.unfinished").stat().st_size)
    assert largest < 15_000
    kept.close()
    again = Journal(str(out), resume=True)
    again.discard("199")
    again.open()
    left = again.earlier({"id": "waits", "input": "w"}, 2)
    assert left is not None and left.record == big and left.graded
    assert again.earlier({"id": "waits", "input": "w"}, 2) is None, "given once"
    for number, there in ((194, False), (195, True), (198, True), (199, False)):
        found = again.earlier({"id": str(number), "input": "x"}, 1)
        assert (found is not None) == there
        assert found is None or found.record["again"]
    assert {line["id"] for line in entries(tmp_path / "out.unfinished")} == {"waits", "195", "196", "197", "198"}
    for name in ("waits", "195", "196", "197", "198"):
        again.forget(name)
    again.close()
    assert not (tmp_path / "out.unfinished").exists()


# --- what is in its place -------------------------------------------------------------------------


@pytest.mark.parametrize("make", ["mkfifo", "mkdir", "ln -s /dev/null", "ln -s nowhere", "ln -s prompts"])
@pytest.mark.parametrize("resume", [[], ["--resume"]])
def test_what_is_no_file_is_refused_before_anything_runs(make: str, resume: list[str], tmp_path: Path) -> None:
    prompts(tmp_path)
    run("/bin/sh", "-c", f"{make} out.unfinished", cwd=tmp_path).expect(0)
    args = ("ae-run", "prompts", "--shell", "touch ran", "-o", "out", *resume)
    run(*args, cwd=tmp_path).expect(2).says("out.unfinished: is a", "move it away")
    assert not (tmp_path / "ran").exists()


def test_a_new_journal_follows_no_link(tmp_path: Path) -> None:
    """What was planted beside the output is replaced, not written through: by the journal, and by --retry-failed."""
    prompts(tmp_path)
    victim = write(tmp_path / "victim", "precious")
    for name in ("out.unfinished.new", "out.new"):
        (tmp_path / name).symlink_to(victim)
    line = '[ -e mended ] || [ "$PROMPT" != 3 ] || exit 1; sleep 0.0$((7 - PROMPT))'
    args = ("ae-run", "prompts", "--shell", line, "-j", 3, "--keep-order", "-o", "out")
    run(*args, cwd=tmp_path).expect(0).says("1 of 6 agents failed")
    (tmp_path / "mended").touch()
    run(*args, "--retry-failed", cwd=tmp_path).expect(0)
    assert victim.read_text() == "precious\n"
    assert len(read(tmp_path / "out")) == len(IDS)


GOOD = {"id": "1", "input": "1", "rawLines": ["kept"], "timing": {"start": 0, "end": 1}, "metadata": {}}
BROKEN = {
    "nothing in it": {},
    "another id": {**GOOD, "id": "2"},
    "lines that are none": {**GOOD, "rawLines": "x"},
    "errors that are none": {**GOOD, "errors": 7},
    "a result": {"id": "1", "output": "x", "trajectory": [], "timing": {"total": 1}, "metadata": {}},
}


@pytest.mark.parametrize("broken", BROKEN)
def test_a_broken_entry_is_skipped_and_reported(broken: str, tmp_path: Path) -> None:
    prompts(tmp_path)
    entry = {"id": "1", "input": "1", "trial": 1, "graded": False, "record": BROKEN[broken]}
    write(
        tmp_path / "out.unfinished", entry, "\0\0\0", {**entry, "id": "2", "input": "2", "record": {**GOOD, "id": "2"}}
    )
    done = run("ae-run", "prompts", "--shell", "echo new", "-o", "out", "--resume", cwd=tmp_path).expect(0)
    assert [message.split(":")[2] for message in done.messages] == ["1", "2"], done
    found = {record["id"]: record["rawLines"] for record in read(tmp_path / "out")}
    assert found == {name: ["kept" if name == "2" else "new"] for name in IDS}


def test_what_another_tool_has_left_is_not_used(tmp_path: Path) -> None:
    prompts(tmp_path)
    line = '[ "$PROMPT" = 2 ] && [ ! -e quick ] && sleep 60; echo "$PROMPT"'
    with Running("ae-trials", "prompts", "-k", "2", "-j", "2", "--shell", line, "-o", "out", cwd=tmp_path) as tool:
        until(lambda: entries(tmp_path / "out.unfinished"), "a trial is kept")
        tool.signal(signal.SIGKILL)
        tool.process.wait(TIMEOUT)
    before = (tmp_path / "out.unfinished").read_bytes()
    (tmp_path / "out").unlink(missing_ok=True)
    for name in ("ae-run", "ae-capture"):
        done = run(name, "prompts", "--shell", line, "-o", "out", "--resume", cwd=tmp_path).expect(2)
        done.says("out.unfinished: was left behind by ae-trials")
    assert (tmp_path / "out.unfinished").read_bytes() == before


def test_a_record_that_a_power_cut_cost_the_output_is_still_in_the_journal(tmp_path: Path) -> None:
    kept = Journal(str(tmp_path / "out"), resume=False)
    kept.open()
    for name in ("lost", "there"):
        kept.keep({"id": name, "input": "x"}, {"id": name}, 1, graded=True)
        kept.forget(name)
    again = Journal(str(tmp_path / "out"), resume=True, written={"there"})
    assert again.earlier({"id": "lost", "input": "x"}, 1) is not None
    assert again.earlier({"id": "there", "input": "x"}, 1) is None


@pytest.mark.parametrize("args", [["ae-capture"], ["ae-trials", "-k", 1]])
def test_a_grader_error_of_an_earlier_run_counts_where_it_is_written(args: list[str], tmp_path: Path) -> None:
    script(tmp_path / "grader", "cat > /dev/null; echo nothing")
    command = [*map(str, args), str(prompts(tmp_path)), "-j", "6", "--keep-order", "--shell", SLOW, "-g", "./grader"]
    kept = tmp_path / "out.unfinished"
    with Running(*command, "-o", "out", cwd=tmp_path) as tool:
        until(
            lambda: kept.exists() and sum("graderError" in str(line) for line in entries(kept)) >= 4,
            "what waits is graded",
        )
        tool.signal(signal.SIGKILL)
        tool.process.wait(TIMEOUT)
    (tmp_path / "quick").touch()
    done = run(*command, "-o", "out", "--resume", cwd=tmp_path).expect(1)
    assert len([line for line in done.messages if "could not be graded before" in line]) >= 4, done


def test_a_directory_that_is_removed_at_the_start_is_made_again(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    kept = Journal(str(folder / "out"), resume=False)
    kept.open()
    kept.keep({"id": "a", "input": "x"}, {"id": "a"}, 1, graded=True)
    again = Journal(str(folder / "out"), resume=True)
    shutil.rmtree(folder)
    again.open()
    assert [line["id"] for line in entries(folder / "out.unfinished")] == ["a"]


def test_a_full_disk_costs_nothing_that_was_kept(tmp_path: Path) -> None:
    """The file is written anew when a run is resumed and when it stops; if there is no room, the old one stays."""
    prompts = [{"id": name, "input": "x"} for name in "abc"]
    journal = Journal(str(tmp_path / "out"), resume=False)
    for prompt in prompts:
        journal.keep(prompt, {"id": prompt["id"], "output": "y" * 2000}, 1, graded=False)
    content = (tmp_path / "out.unfinished").read_bytes()
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resumed = Journal(str(tmp_path / "out"), resume=True)
    resource.setrlimit(resource.RLIMIT_FSIZE, (3000, before[1]))  # Python ignores SIGXFSZ
    try:
        with pytest.raises(CannotGoOn, match="cannot write to .*out.unfinished: File too large"):
            resumed.open()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert [path.name for path in tmp_path.iterdir()] == ["out.unfinished"]
    assert (tmp_path / "out.unfinished").read_bytes() == content
    resumed.open()
    assert all(resumed.earlier(prompt, 1) for prompt in prompts)


def test_a_record_for_which_there_is_no_room_costs_no_other(tmp_path: Path) -> None:
    """make chaos SEED=865048155 ROUND=10: a piece of it and the next record were one line, which nobody could read."""
    journal = Journal(str(tmp_path / "out"), resume=False)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, before[1]))  # Python ignores SIGXFSZ
    try:
        journal.keep({"id": "a", "input": "x"}, {"id": "a", "output": "first"}, 1, graded=False)
        for name in "ab":
            with pytest.raises(CannotGoOn, match="cannot write to .*out.unfinished: File too large"):
                journal.keep({"id": name, "input": "x"}, {"id": name, "output": "y" * 2000}, 1, graded=True)
        journal.keep({"id": "c", "input": "x"}, {"id": "c", "output": "last"}, 1, graded=False)
        journal.settle()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    kept = [(line["id"], line["graded"], line["record"]["output"]) for line in entries(tmp_path / "out.unfinished")]
    assert kept == [("a", False, "first"), ("c", False, "last")]
    resumed = Journal(str(tmp_path / "out"), resume=True)
    assert resumed.earlier({"id": "a", "input": "x"}, 1) and not resumed.skipped
