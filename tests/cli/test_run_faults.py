"""What may happen to a run from outside: full disks, files that change under it, an earlier run as prompts."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.tool import BIN, Record, jsonl, read, run, script, write
from tests.support.watching import Running, until

TOOLS = [["ae-run"], ["ae-capture"], ["ae-trials", "-k", "1"]]


def some(tmp_path: Path, number: int) -> Path:
    return write(tmp_path / "prompts", *({"id": str(n), "input": "x"} for n in range(number)))


# --- records of an earlier run as prompts ---------------------------------------------------------

LEFT: Record = {
    "errors": ["exited with code 1"],
    "error": "old",
    "stderr": "old",
    "exitCode": 1,
    "signal": "SIGKILL",
    "timedOut": True,
    "attempts": 2,
    "retried": ["old"],
    "rawLines": ["old"],
    "lineTimes": [1],
    "turns": [{}],
    "output": "old",
    "trajectory": [],
    "toolErrors": True,
    "graderError": "old",
    "outcome": {"old": 1},
    "score": {"pass": True, "score": 1},
    "scores": {"old": {"pass": True, "score": 1}},
    "timing": {"start": "old"},
}
ODD: Record = dict.fromkeys(LEFT, "oops") | {"errors": 7, "trials": [], "k": 3, "passRate": 1}


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize("left", [LEFT, ODD])
def test_what_an_earlier_run_left_is_no_part_of_a_prompt(tool: list[str], left: Record, tmp_path: Path) -> None:
    old = {"agent": "x", "agentDigest": "0", "exitCode": 1, "workspaceDir": "/old", "mine": 1}
    prompt = {"id": "a", "input": "x", "hint": "x", "tags": ["mine"], "metadata": old, **left}
    graders = [] if tool == ["ae-run"] else ["-g", "new=ae-grader-hint"]
    done = run(*tool, "--simple", "echo {}", *graders, "-e", stdin=jsonl(prompt), cwd=tmp_path).expect(0)
    assert all("pass@1" in line for line in done.stderr.splitlines()), done
    [record] = done.records
    assert "old" not in done.stdout and "oops" not in done.stdout
    assert record["tags"] == ["mine"] and record["metadata"]["mine"] == 1
    assert "errors" not in record and "workspaceDir" not in record["metadata"]
    assert "score" not in record or record["score"]["pass"] is True


def test_failures_are_run_again_with_jq(tmp_path: Path) -> None:
    """The natural way: the failed records of a run are the prompts of the next."""
    some(tmp_path, 2)
    line = "[ -e mended ] || { echo no key >&2; exit 1; }; echo fine"
    run("ae-run", "prompts", "--shell", line, "-o", "raw", cwd=tmp_path).expect(0)
    (tmp_path / "mended").touch()
    done = run("ae-capture", "raw", "--shell", line, "-e", cwd=tmp_path).expect(0, stderr="")
    assert [(record["output"], record.get("errors")) for record in done.records] == [("fine", None)] * 2
    assert not any("stderr" in record for record in done.records)


def test_a_verdict_on_what_was_extracted_before_is_dropped(tmp_path: Path) -> None:
    raw = {"id": "a", "input": "x", "rawLines": ["new"], "timing": {"start": 0, "end": 1}, "own": 1}
    graded = {**raw, "score": {"pass": True, "score": 1}, "scores": "oops", "outcome": {}, "graderError": "old"}
    done = run("ae-extract", "-s", "text", "--keep-raw", stdin=jsonl(graded)).expect(0)
    assert not {"score", "scores", "outcome", "graderError"} & set(done.records[0])
    assert done.records[0]["own"] == 1 and done.records[0]["output"] == "new"


# --- a prompt file that is changed ----------------------------------------------------------------


def large(*names: str) -> str:
    """Returns prompts of which a read takes two or three."""
    return jsonl(*({"id": name, "input": name[0] * 100_000} for name in names))


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ("abcd", "prompts:5: the file was changed during the run: 4 of its 8 prompts were not run"),
        ("abcdzfgh", "prompts:5: the file was changed during the run: 4 of its 8 prompts were not run"),
        ("abcdefghi", "prompts:9: the file was changed during the run: what was added was not run"),
    ],
)
def test_a_prompt_file_that_is_rewritten_is_noticed(names: str, message: str, tmp_path: Path) -> None:
    """In place, while it is read: only what was checked before the first agent started is run."""
    (tmp_path / "prompts").write_text(large(*"abcdefgh"))
    line = 'printf "%.1s " "$PROMPT" >> ran; while [ ! -e go ]; do sleep 0.02; done'
    with Running("ae-run", "prompts", "--shell", line, "-o", "out", cwd=tmp_path) as tool:
        until(lambda: (tmp_path / "ran").exists(), "the first agent runs")
        (tmp_path / "prompts").write_text(large(*names))
        (tmp_path / "go").touch()
        tool.end().expect(1).says(message, "--resume")
    same = os.path.commonprefix(["abcdefgh", names])
    assert (tmp_path / "ran").read_text().split() == [*same]
    assert [record["id"] for record in read(tmp_path / "out")] == [*same]


def test_a_prompt_file_that_is_replaced_is_read_to_its_end(tmp_path: Path) -> None:
    """As editors save: the tool still has the old one open."""
    (tmp_path / "prompts").write_text(large(*"abcdefgh"))
    line = "touch ran; while [ ! -e go ]; do sleep 0.02; done"
    with Running("ae-run", "prompts", "--shell", line, "-o", "out", cwd=tmp_path) as tool:
        until(lambda: (tmp_path / "ran").exists(), "the first agent runs")
        (tmp_path / "new").write_text("oops")
        (tmp_path / "new").replace(tmp_path / "prompts")
        (tmp_path / "go").touch()
        tool.end().expect(0, stderr="")
    assert len(read(tmp_path / "out")) == 8


# --- workspaces that cannot be made ---------------------------------------------------------------


@pytest.mark.parametrize(("tool", "git"), [(TOOLS[0], ["--workspace-git"]), *((tool, []) for tool in TOOLS)])
def test_a_full_disk_is_no_failure_of_the_agent(tool: list[str], git: list[str], tmp_path: Path) -> None:
    """A file system of 2 MB, and a template of which it takes a few: the run stops, and --resume goes on."""
    some(tmp_path, 12)
    (tmp_path / "template").mkdir()
    (tmp_path / "template" / "data").write_bytes(os.urandom(250_000))
    code = """
import os, subprocess, sys
os.mkdir("ws")
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "none", "ws"], check=True)
sys.exit(subprocess.run(sys.argv[1:]).returncode)
"""
    namespace = [shutil.which("unshare") or "false", "--user", "--map-root-user", "--mount"]
    if subprocess.run([*namespace, "true"], capture_output=True).returncode:
        pytest.skip("needs unshare and user namespaces")
    name, *options = tool
    args = [*options, "prompts", "--shell", "true", "--workspace-dir", "ws", "--workspace-template", "template", *git]
    command = [str(BIN / name), *args, "-o", "out"]
    done = run(*namespace, sys.executable, "-c", code, *command, cwd=tmp_path).expect(1)
    [message] = done.messages
    assert all(part in message for part in ("cannot create a workspace for", "No space left", "--resume")), done
    before = read(tmp_path / "out")
    assert 1 <= len(before) < 12 and '"errors"' not in jsonl(*before)
    run(*command, "--resume", cwd=tmp_path).expect(0)
    assert {record["id"] for record in read(tmp_path / "out")} == {str(n) for n in range(12)}


def test_a_workspace_that_cannot_be_made_costs_only_its_prompt(tmp_path: Path) -> None:
    """What the user put in its place is no directory; the others run, and the end says what is missing."""
    some(tmp_path, 5)
    (tmp_path / "ws").mkdir()
    for number in (1, 3):
        (tmp_path / "ws" / f"prompt-{number}").touch()
    args = ("ae-run", "prompts", "--shell", "true", "--workspace-dir", "ws", "-o", "out")
    done = run(*args, cwd=tmp_path).expect(1)
    assert [record["id"] for record in read(tmp_path / "out")] == ["0", "2", "4"]
    *each, last = done.messages
    for number, message in zip((1, 3), each, strict=True):
        assert message.startswith(f"ae-run: {number}: not run, because its workspace cannot be created"), message
    assert last.startswith("ae-run: 2 were not run") and "--resume" in last
    done = run(*args, "--resume", "--strict", cwd=tmp_path).expect(1)
    assert "--strict" in done.messages[-1]
    run(*args, "--resume", "--fresh-workspaces", cwd=tmp_path).expect(0)
    assert len(read(tmp_path / "out")) == 5


# --- an output file that others touch -------------------------------------------------------------


@pytest.mark.parametrize(
    ("harm", "where"),
    [
        ("rm out", "out"),
        ("rm -r folder", "out"),
        ("echo other > new; mv new out", "out.recovered"),
        ("mv out elsewhere", "out"),
    ],
)
@pytest.mark.parametrize("number", [2, 3])
def test_an_output_file_that_is_lost_is_noticed(harm: str, where: str, number: int, tmp_path: Path) -> None:
    """Records follow: none is lost, the exit code is 1, and one line says where they are."""
    some(tmp_path, 3)
    folder = tmp_path / "folder" if "folder" in harm else tmp_path
    line = f"printf x >> n; [ $(wc -c < n) = {number} ] && {{ {harm}; }}; echo done"
    out = (folder / "out").relative_to(tmp_path)
    done = run("ae-run", "prompts", "--shell", line, "-o", out, cwd=tmp_path).expect(1)
    assert done.messages == [
        f"ae-run: {out} was removed or replaced during the run: its records are in {folder / where}"
    ]
    assert [record["id"] for record in read(folder / where)] == ["0", "1", "2"]


def test_an_output_file_that_is_cut_short_is_noticed(tmp_path: Path) -> None:
    """What was in it cannot be had back; no record after it is damaged, and --resume runs the others again."""
    some(tmp_path, 4)
    line = "printf x >> n; [ $(wc -c < n) = 3 ] && { [ -e half ] && truncate -s 30 out || : > out; }; echo done"
    for name in ("whole", "half"):
        (tmp_path / name).touch()
        (tmp_path / "n").unlink(missing_ok=True)
        done = run("ae-run", "prompts", "--shell", line, "-o", "out", "--overwrite", cwd=tmp_path).expect(1)
        done.says("out was truncated by another program", "--resume")
        assert b"\0" not in (tmp_path / "out").read_bytes()
        lines = (tmp_path / "out").read_text().splitlines()
        assert [json.loads(line)["id"] for line in lines[-2:]] == ["2", "3"]
        (tmp_path / "out").write_text("".join(f"{line}\n" for line in lines[-2:]))
    run("ae-run", "prompts", "--shell", line, "-o", "out", "--resume", cwd=tmp_path).expect(0)
    assert {record["id"] for record in read(tmp_path / "out")} == {"0", "1", "2", "3"}


def test_an_output_file_that_is_lost_before_a_signal_is_restored(tmp_path: Path) -> None:
    some(tmp_path, 3)
    line = "printf x >> n; [ $(wc -c < n) = 2 ] && rm out; [ $(wc -c < n) = 3 ] && sleep 60; echo done"
    with Running("ae-run", "prompts", "--shell", line, "-o", "out", cwd=tmp_path) as tool:
        until(lambda: (tmp_path / "n").exists() and (tmp_path / "n").read_text() == "xxx", "the last one runs")
        until(lambda: (tmp_path / "out").exists() and len(read(tmp_path / "out")) == 2, "it is there again")
        tool.signal(15)
        done = tool.end().expect(143)
    assert "out was removed or replaced during the run" in done.stderr


NO_LOCKS = "#include <errno.h>\nint flock(int fd, int how) { (void)fd; (void)how; errno = ENOLCK; return -1; }\n"


@pytest.mark.skipif(sys.platform != "linux" or shutil.which("cc") is None, reason="needs a C compiler and LD_PRELOAD")
@pytest.mark.parametrize("options", [[], ["--resume"], ["--append"]])
def test_two_runs_into_one_file_on_a_file_system_without_locks(options: list[str], tmp_path: Path) -> None:
    """Both exit with 1 and name a file with their own records; they exited with 0, and each id was there twice."""
    (tmp_path / "no_locks.c").write_text(NO_LOCKS)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", "no_locks.so", "no_locks.c"], cwd=tmp_path, check=True)
    write(tmp_path / "prompts", *({"id": str(n), "input": str(n)} for n in range(3)))
    # The two agents of a prompt wait for each other, so that the runs write in turn.
    line = "mkdir -p $PROMPT; touch $PROMPT/$$; until [ $(ls $PROMPT | wc -l) = 2 ]; do sleep 0.01; done; echo done"
    command = ("ae-run", "prompts", "--shell", line, "-o", "out", *options)
    env = {"LD_PRELOAD": str(tmp_path / "no_locks.so")}
    with Running(*command, cwd=tmp_path, env=env) as first:
        until((tmp_path / "0").exists, "the first agent runs")
        with Running(*command, cwd=tmp_path, env=env) as second:
            ended = [tool.end().expect(1) for tool in (first, second)]
    assert len(read(tmp_path / "out")) == 6, "nothing is removed"
    for done in ended:
        done.says("out was written to by another program during the run: what this run has written is in ")
        assert [record["id"] for record in read(Path(done.stderr.split(" is in ")[1].strip()))] == ["0", "1", "2"]


@pytest.mark.parametrize("name", ["/dev/stdout", "/dev/fd/1"])
@pytest.mark.parametrize("harm", ["rm -f log", "mv log other; touch log", ": > log", "echo text >> log"])
def test_what_happens_to_the_file_behind_dev_stdout_is_not_our_concern(name: str, harm: str, tmp_path: Path) -> None:
    """It ended with 1 and "/dev/stdout was replaced during the run: its records are in /dev/stdout.recovered"."""
    some(tmp_path, 3)
    with (tmp_path / "log").open("ab") as log:
        done = run("ae-run", "prompts", "--shell", f"{harm}; echo done", "-o", name, cwd=tmp_path, stdout=log)
    done.expect(0, stderr="")
    assert not Path(f"{name}.recovered").exists()


# --- on the disk ----------------------------------------------------------------------------------


@pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace")
@pytest.mark.parametrize("options", [[], ["--no-sync"]])
def test_records_are_brought_to_the_disk(options: list[str], tmp_path: Path) -> None:
    some(tmp_path, 2)
    trace = ["strace", "-f", "-qq", "-e", "trace=fdatasync,fsync", "-o", str(tmp_path / "calls")]
    if subprocess.run([*trace, "true"], capture_output=True).returncode:
        pytest.skip("strace is not permitted")
    command = [BIN / "ae-run", "prompts", "--shell", "echo done", *options, "-o"]
    run(shutil.which("strace") or "", *trace[1:], *command, "out", cwd=tmp_path).expect(0)
    assert bool((tmp_path / "calls").read_text().count("sync(")) == (not options)
    run(shutil.which("strace") or "", *trace[1:], *command, "/dev/null", cwd=tmp_path).expect(0)
    assert "sync(" not in (tmp_path / "calls").read_text(), "a device has no records to lose"


# --- two runs in one --workspace-dir --------------------------------------------------------------


def test_two_runs_do_not_share_a_workspace(tmp_path: Path) -> None:
    """Also one whose agent has ended already: its directory is still to be graded. Shards may share the base."""
    some(tmp_path, 4)
    line = '[ "$PWD" = "${PWD%-3}" ] || until [ -e go ] || [ -e ../../go ]; do sleep 0.02; done; touch "$MINE"'
    first = ("ae-run", "prompts", "--shell", line, "--workspace-dir", "ws", "--env", "MINE=first", "-o", "out")
    with Running(*first, cwd=tmp_path) as tool:
        until(lambda: len(list((tmp_path / "ws").glob("prompt-*"))) == 4, "the last agent runs")
        second = ("--shell", "touch second", "--workspace-dir", "ws")
        done = run("ae-run", "prompts", *second, cwd=tmp_path).expect(1)
        done.says("ws/prompt-0: another run is using it", "--workspace-dir")
        others = jsonl({"id": "other", "input": "x"})
        run("ae-run", *second, stdin=others, cwd=tmp_path).expect(0, stderr="")
        (tmp_path / "go").touch()
        tool.end().expect(0, stderr="")
    made = {path.name: [file.name for file in path.iterdir()] for path in (tmp_path / "ws").glob("prompt-*")}
    assert made == {**{f"prompt-{n}": ["first"] for n in range(4)}, "prompt-other": ["second"]}
    run("ae-run", "prompts", *second, cwd=tmp_path).expect(0, stderr="")


def test_an_output_that_is_removed_while_a_record_is_replaced(tmp_path: Path) -> None:
    """The new file has each id once: the record that was graded again has taken the place of the old one."""
    out = tmp_path / "out.jsonl"
    results = [{"id": name, "input": "x", "output": "x", "trajectory": []} for name in "ab"]
    write(tmp_path / "results.jsonl", *results)
    broken = script(tmp_path / "grader", f'cat >/dev/null; test -e {tmp_path}/fixed || exit 1; rm -f {out}; echo "$OK"')
    args = ("results.jsonl", "-g", broken, "-o", "out.jsonl", "--resume")
    env = {"OK": '{"pass": true, "score": 1}'}
    run("ae-grade", *args, cwd=tmp_path, env=env).expect(1)
    (tmp_path / "fixed").touch()
    done = run("ae-grade", *args, cwd=tmp_path, env=env).expect(1)
    assert "was removed or replaced during the run" in done.stderr, done
    assert [(record["id"], record["score"]["pass"]) for record in read(out)] == [("a", True), ("b", True)]
