"""One process tree: what an agent finds when it starts, what is kept of it, and that nothing of it survives."""

from __future__ import annotations

import json
import os
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.support.tool import BIN, jsonl, python_script, read, run, write
from tests.support.watching import (
    PATIENCE,
    Running,
    alive,
    expect_gone,
    expect_soon,
    in_time,
    named_guardian,
    sleepers,
    until,
    written,
)

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks for processes in /proc")

AE_RUN = str(BIN / "ae-run")  # by its path: started and not forked, so that it and its guardian have the mark
GRACE = 2.0  # seconds between SIGTERM and SIGKILL

# Each starts one `sleep MARK` and goes on.
HELPERS = {
    "in the group": "sleep {mark} &",
    "in a session of its own": "setsid sleep {mark} &",
    "daemon": "setsid sh -c 'sleep {mark} & exit' &",
    "stopped": "sleep {mark} & until grep -q sleep /proc/$!/comm; do :; done; kill -STOP $!",
    "without its environment": "env -i setsid sleep {mark} &",
    "daemon without its environment": "env -i setsid sh -c 'sleep {mark} & exit' &",
    "deaf to SIGTERM": "(trap '' TERM; exec sleep {mark}) &",
    "deaf daemon": "(trap '' TERM; setsid sh -c 'sleep {mark} & exit') &",
}


def helpers(mark: str, *kinds: str) -> str:
    """Shell lines that start these helpers, by default all of them."""
    return "\n".join(HELPERS[kind].format(mark=mark) for kind in kinds or HELPERS)


def prompts(count: int, **fields: Any) -> str:
    return jsonl(*({"id": f"p{number}", "input": "x", **fields} for number in range(count)))


def run_shell(line: str, *args: object, cwd: Path | None = None) -> dict[str, Any]:
    """The one raw record of an agent."""
    done = run(AE_RUN, "--shell", line, *args, stdin=prompts(1), cwd=cwd).expect(0)
    assert len(done.records) == 1, done
    return done.records[0]


def test_a_working_directory_that_is_gone_is_named(tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    done = run(AE_RUN, "--shell", "rmdir ../here", "--cwd", "here", "-j", 1, stdin=prompts(2), cwd=tmp_path).expect(0)
    first, second = done.records
    assert "errors" not in first
    assert second["errors"] == [f"cannot start sh: its working directory was removed: {tmp_path / 'here'}"]


# --- timeouts -------------------------------------------------------------------------------------


def test_a_timeout_ends_the_whole_tree(mark: str, tmp_path: Path) -> None:
    run_ones = f"while [ $(pgrep -c -x -f 'sleep {mark}') -lt {len(HELPERS)} ]; do sleep 0.02; done"
    line = f"{helpers(mark)}\n{run_ones}\necho started\nwait"

    def record_of_all(limit: int) -> dict[str, Any] | None:
        with Running("ae-run", "-t", limit, "--shell", line, cwd=tmp_path) as tool:
            tool.feed({"id": "a", "input": "x"})
            record = tool.record()
            assert not sleepers(mark), "helpers outlive the record"
            assert record["errors"] == [f"timeout: not done after {limit} ms"]
            assert record["timing"]["total"] >= limit
            tool.end().expect(0).says("1 of 1 agents failed: timeout")
        expect_gone(mark, 0)
        record["timing"]["total"] -= limit
        return record if record["rawLines"] else None

    record = in_time(record_of_all, 2000)
    assert record["rawLines"] == ["started"]
    assert (record["timedOut"], record["signal"], record["exitCode"]) == (True, "SIGTERM", None)
    assert record["turns"][0]["timedOut"]
    assert record["timing"]["total"] >= 1900  # SIGTERM, 2 s, SIGKILL


def test_a_timeout_is_quick_when_all_obey(mark: str) -> None:
    def seconds() -> float:
        record = run_shell(f"{helpers(mark, 'in the group', 'daemon', 'stopped')}\nwait", "-t", "300")
        assert record["timedOut"]
        expect_gone(mark, 0)
        return float(record["timing"]["total"]) / 1000

    expect_soon(seconds, within=0.3 + GRACE)


def test_an_agent_deaf_to_sigterm_is_killed_after_two_seconds(mark: str) -> None:
    def record_of_deaf(limit: int) -> dict[str, Any] | None:
        record = run_shell(f"trap '' TERM; echo one; sleep {mark}; echo two", "-t", limit)
        record["timing"]["total"] -= limit
        return record if record["rawLines"] else None

    record = in_time(record_of_deaf, 1000)
    assert (record["rawLines"], record["signal"], record["timedOut"]) == (["one"], "SIGKILL", True)
    assert record["timing"]["total"] >= 1900


def test_a_handler_of_sigterm_may_start_processes_to_clean_up(tmp_path: Path) -> None:
    (tmp_path / "here").touch()
    line = "trap 'sleep 0.5 && echo cleaned > cleaned; exit' TERM; while :; do sleep 0.1; done"

    def cleaned(limit: int) -> str | None:
        """Returns what the handler wrote; None if it was late: it has 2 s, and the agent the limit to set it up."""
        assert run_shell(line, "-t", limit, cwd=tmp_path)["timedOut"]
        return (tmp_path / "cleaned").read_text() or None if (tmp_path / "cleaned").exists() else None

    assert in_time(cleaned, 1000) == "cleaned\n"


def test_what_an_agent_says_while_it_is_being_ended_is_kept() -> None:
    line = "trap 'echo bye; exit 4' TERM; echo one; while :; do sleep 0.01; done"

    def record_of_begun(limit: int) -> dict[str, Any] | None:
        record = run_shell(line, "-t", limit)
        return record if "one" in record["rawLines"] else None

    record = in_time(record_of_begun, 1000)
    assert (record["rawLines"], record["exitCode"], record["timedOut"]) == (["one", "bye"], 4, True)


# --- helpers of an agent that ends by itself ------------------------------------------------------


@pytest.mark.parametrize("kind", HELPERS)
def test_a_helper_that_holds_stdout_hangs_nothing_and_is_gone_with_the_record(
    kind: str, mark: str, tmp_path: Path
) -> None:
    line = f"{helpers(mark, kind)}\nwhile ! pgrep -x -f 'sleep {mark}' > pid; do :; done; echo done; printf end"
    with Running("ae-run", "--shell", line, cwd=tmp_path) as tool:
        tool.feed({"id": "a", "input": "x"})
        record = tool.record()
        assert not sleepers(mark)
        assert (tmp_path / "pid").read_text().strip(), "the helper never ran"
        assert (record["rawLines"], record["exitCode"], record["timedOut"]) == (["done", "end"], 0, False)
        assert "errors" not in record


@pytest.mark.parametrize("kind", ["daemon", "without its environment"])
def test_helpers_are_gone_with_the_record_while_other_agents_work(kind: str, mark: str, tmp_path: Path) -> None:
    daemon = f"{helpers(mark, kind)}\nwhile ! pgrep -x -f 'sleep {mark}' > pid; do :; done"
    line = f'if [ "$PROMPT" = busy ]; then touch busy; sleep 60; else {daemon}; fi'
    with Running("ae-run", "-j", 2, "--shell", line, cwd=tmp_path) as tool:
        tool.feed({"id": "busy", "input": "busy"})
        until((tmp_path / "busy").exists, "the other agent works")
        tool.feed({"id": "a", "input": "x"})
        assert tool.record()["id"] == "a"
        assert not sleepers(mark)
        assert tool.silent(0.1), "the other agent was ended too"


def test_helpers_live_from_turn_to_turn_but_not_beyond(mark: str, tmp_path: Path) -> None:
    first = f"{helpers(mark, 'daemon', 'in a session of its own', 'without its environment')}\n"
    count = f"pgrep -x -f 'sleep {mark}' | wc -l"
    wait = f"while [ $({count}) -lt 3 ]; do :; done"
    line = f'if [ "$PROMPT" = one ]; then {first} {wait}; fi; {count}'
    with Running("ae-run", "--shell", line, cwd=tmp_path) as tool:
        tool.feed({"id": "a", "input": ["one", "two", "three"]})
        record = tool.record()
        assert not sleepers(mark)
        assert [text.strip() for text in record["rawLines"]] == ["3", "3", "3"]
        assert [turn["lines"] for turn in record["turns"]] == [1, 1, 1]


def test_orphans_that_have_ended_are_collected_while_the_agent_works(tmp_path: Path) -> None:
    line = "(sleep 0.05 & echo $! >pid); while [ -e /proc/$(cat pid) ]; do sleep 0.05; done; rm pid; echo collected"
    assert run_shell(line, cwd=tmp_path)["rawLines"] == ["collected"]


# --- signals --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("signum", "code", "to_file"),
    [(signal.SIGINT, 130, True), (signal.SIGINT, 130, False), (signal.SIGTERM, 143, True), (signal.SIGHUP, 129, False)],
    ids=["INT-file", "INT-stdout", "TERM-file", "HUP-stdout"],
)
def test_a_signal_ends_everything(signum: int, code: int, to_file: bool, mark: str, tmp_path: Path) -> None:
    kinds = [kind for kind in HELPERS if "deaf" not in kind]
    line = f'[ "$PROMPT" = quick ] && exit; {helpers(mark, *kinds)}\nwait'
    raw = tmp_path / "raw.jsonl"
    output = ["-o", raw] if to_file else []

    def seconds() -> float:
        raw.unlink(missing_ok=True)
        with Running("ae-run", "-j", 3, *output, "--shell", line, cwd=tmp_path) as tool:
            tool.feed({"id": "q", "input": "quick"}, {"id": "a", "input": "x"}, {"id": "b", "input": "x"})
            first = until(lambda: written(raw), "q is written")[0] if to_file else tool.record()
            assert first["id"] == "q"
            until(lambda: len(sleepers(mark)) == 2 * len(kinds), "all helpers run")
            began = time.monotonic()
            tool.signal(signum)
            done = tool.end()
            taken = time.monotonic() - began
            expect_gone(mark, 0)
        assert done.expect(code).says(f"stopped by {signal.Signals(signum).name} after 1 prompt")
        assert ("--resume" in done.stderr) == to_file
        assert (read(raw) if to_file else [first, *done.records]) == [first]
        return taken

    expect_soon(seconds, within=GRACE)


def test_a_signal_starts_no_further_agent(mark: str, tmp_path: Path) -> None:
    file = write(tmp_path / "prompts", *({"id": str(number), "input": "x"} for number in range(300)))
    line = f"echo x >> started; exec sleep {mark}"
    with Running("ae-run", file, "-j", 8, "--shell", line, "-o", "raw", cwd=tmp_path) as tool:
        until(lambda: len(sleepers(mark)) == 8, "8 agents run")
        tool.signal(signal.SIGINT)
        tool.end().expect(130)
    expect_gone(mark, 0)
    assert (tmp_path / "started").read_text().count("x") == 8
    assert (tmp_path / "raw").read_bytes() == b""


def test_a_second_ctrl_c_is_immediate(mark: str, tmp_path: Path) -> None:
    line = f"{helpers(mark, 'deaf daemon')}\nwait; sleep {mark}"

    def seconds() -> float:
        """The deaf are ended 2 s after the first signal, unless there is a second."""
        with Running("ae-run", "-j", 2, "--shell", line, cwd=tmp_path) as tool:
            tool.feed({"id": "a", "input": "x"}, {"id": "b", "input": "x"})
            until(lambda: len(sleepers(mark)) == 4, "all helpers run")
            began = time.monotonic()
            tool.signal(signal.SIGINT)
            until(lambda: len(sleepers(mark)) <= 2, "those that obey are gone")
            tool.signal(signal.SIGINT)
            tool.end().expect(130)
            taken = time.monotonic() - began
        expect_gone(mark)
        return taken

    expect_soon(seconds, within=GRACE)


def test_one_ctrl_c_kills_the_deaf_after_two_seconds(mark: str, tmp_path: Path) -> None:
    with Running("ae-run", "--shell", f"trap '' TERM; sleep {mark}", cwd=tmp_path) as tool:
        tool.feed({"id": "a", "input": "x"})
        until(lambda: sleepers(mark), "the agent runs")
        began = time.monotonic()
        tool.signal(signal.SIGINT)
        tool.end().expect(130)
        assert time.monotonic() - began > 1.8
    expect_gone(mark, 0)


def test_a_signal_ends_the_pause_between_two_tries(mark: str, tmp_path: Path) -> None:
    tries, ended = tmp_path / "tries", tmp_path / "ended"

    def seconds() -> float:
        for file in (tries, ended):
            file.write_bytes(b"")
        line = f"echo x >> tries; trap 'echo x >> ended; exit' TERM; sleep {mark} & wait"
        with Running("ae-run", "-t", 500, "--retries", 9, "--shell", line, cwd=tmp_path) as tool:
            tool.feed({"id": "a", "input": "x"})
            until(lambda: len(ended.read_text()) >= 6 and not sleepers(mark), "three tries have timed out")
            before = tries.read_text()  # the next pause takes 4 s
            began = time.monotonic()
            tool.signal(signal.SIGINT)
            tool.end().expect(130)
            taken = time.monotonic() - began
        assert tries.read_text() == before
        return taken

    expect_soon(seconds, within=3)


# --- SIGKILL --------------------------------------------------------------------------------------


@pytest.mark.parametrize("whole_group", [False, True], ids=["tool", "group"])
def test_sigkill_of_the_tool_takes_everything_along(whole_group: bool, mark: str, tmp_path: Path) -> None:
    writer = "(trap '' TERM; while :; do echo x; echo x >> log; sleep 0.01; done) &"
    line = f'if [ "$PROMPT" = quick ]; then exit; fi\n{helpers(mark)}\n{writer}\nwait'
    with Running("ae-run", "-j", 4, "-o", "raw.jsonl", "--shell", line, cwd=tmp_path) as tool:
        tool.feed(*({"id": name, "input": name} for name in ("quick", "a", "b", "c")))
        until(lambda: len(sleepers(mark)) == 3 * len(HELPERS), "all helpers run")
        until((tmp_path / "log").exists, "an agent writes")
        until(lambda: written(tmp_path / "raw.jsonl"), "the record of the quick one is written")
        (os.killpg if whole_group else os.kill)(tool.pid, signal.SIGKILL)
        expect_gone(mark)  # the guardian has the tool's arguments: it is gone too
        sizes = [(tmp_path / name).stat().st_size for name in ("log", "raw.jsonl")]
        assert tool.process.wait() == -signal.SIGKILL
        time.sleep(0.1)
        assert sizes == [(tmp_path / name).stat().st_size for name in ("log", "raw.jsonl")], "something still writes"
        assert [record["id"] for record in read(tmp_path / "raw.jsonl")] == ["quick"]


def test_a_killed_tool_lets_go_of_its_streams(mark: str, tmp_path: Path) -> None:
    """The next tool in the pipe sees the end at once, though the guardian is still at work: only the tool has them."""
    with Running("ae-run", "--shell", f"sleep {mark}", cwd=tmp_path) as tool:
        tool.feed({"id": "a", "input": "x"})
        until(lambda: sleepers(mark), "the agent runs")
        streams = {os.readlink(f"/proc/{tool.pid}/fd/{number}") for number in (0, 1, 2)}
        named_guardian(tool.pid)  # until then it holds what it has inherited
        others = set(alive(mark)) - {tool.pid}
        assert len(others) >= 2, "the guardian and the agent"
        for pid in others:
            opened = set()
            for path in Path(f"/proc/{pid}/fd").iterdir():
                with suppress(FileNotFoundError):  # the guardian looks at processes now and then: its files come and go
                    opened.add(os.readlink(path))
            assert opened
            assert not streams & opened, (pid, Path(f"/proc/{pid}/cmdline").read_bytes())
        tool.signal(signal.SIGKILL)
        assert tool.process.communicate(timeout=PATIENCE) == (b"", b"")


# --- closed pipe ----------------------------------------------------------------------------------


def test_a_closed_pipe_ends_the_agents_at_once_and_silently(mark: str, tmp_path: Path) -> None:
    line = f'[ "$PROMPT" = quick ] && exit; {helpers(mark, "daemon", "in the group", "without its environment")}\nwait'

    def seconds() -> float:
        with Running("ae-run", "-j", 3, "--shell", line, cwd=tmp_path) as tool:
            tool.feed(*({"id": name, "input": name} for name in ("a", "b", "quick")))
            assert tool.record()["id"] == "quick"
            until(lambda: len(sleepers(mark)) == 6, "the others run")
            began = time.monotonic()
            tool.stdout.close()  # stdin stays open: nothing but the closed pipe can end it
            assert tool.process.wait(timeout=PATIENCE) == 0
            taken = time.monotonic() - began
            assert tool.stderr.read() == b""
        expect_gone(mark, 0)
        return taken

    expect_soon(seconds, within=GRACE)


# --- what an agent finds --------------------------------------------------------------------------

LOOK = """
import json, os, signal, sys, time
status = dict(line.split(":\\t", 1) for line in open("/proc/self/status").read().splitlines() if ":\\t" in line)
fds = sorted(int(name) for name in os.listdir("/proc/self/fd"))
open_ones = [fd for fd in fds if os.path.exists(f"/proc/self/fd/{fd}")]  # the one that listed them is closed by now
dispositions = {s.name: str(signal.getsignal(s)) for s in (signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD)}
print(json.dumps({
    "ignored": int(status["SigIgn"], 16), "blocked": int(status["SigBlk"], 16), "fds": open_ones,
    "session": os.getsid(0) == os.getpid(), "group": os.getpgrp() == os.getpid(), "stdin": sys.stdin.read(),
    "cwd": os.getcwd(), "environ": dict(os.environ),
}), flush=True)
time.sleep(float(sys.argv[1]))
"""
PYTHON_IGNORES = {signal.SIGPIPE, signal.SIGXFSZ}  # the agent's own interpreter does
GLIBC_IGNORES = {32, 33}


def test_what_an_agent_finds(tmp_path: Path) -> None:
    """Also with other agents' pipes and the tool's own files open."""
    file = write(tmp_path / "prompts", *({"id": str(n), "input": "0.5"} for n in range(6)))
    agent = python_script(tmp_path / "look", LOOK)
    run("ae-run", file, "-j", 6, "-o", "raw", "--simple", f"{agent} {{}}", cwd=tmp_path).expect(0, stderr="")
    records = read(tmp_path / "raw")
    assert len(records) == 6
    for record in records:
        seen = json.loads(record["rawLines"][0])
        ignored = {number for number in range(1, 65) if seen["ignored"] >> (number - 1) & 1}
        assert ignored <= PYTHON_IGNORES | GLIBC_IGNORES
        assert seen["blocked"] == 0
        assert seen["fds"] == [0, 1, 2]
        assert seen["session"] and seen["group"]
        assert seen["stdin"] == ""
        assert seen["cwd"] == record["cwd"] == str(tmp_path)
        assert seen["environ"]["HOME"] == str(tmp_path)


def test_the_default_disposition_of_sigpipe(tmp_path: Path) -> None:
    """Python ignores it, and so may the program that started the tool; `cat` ignores nothing by itself."""
    launcher = python_script(
        tmp_path / "launch",
        "import os, signal, sys\n"
        "signal.signal(signal.SIGPIPE, signal.SIG_IGN)\n"
        "os.execvp('ae-run', ['ae-run', '--simple', 'cat /proc/self/status {}'])",
    )
    done = run(str(launcher), stdin=jsonl({"id": "a", "input": "/dev/null"}), cwd=tmp_path).expect(0)
    status = dict(line.split(":\t", 1) for line in done.records[0]["rawLines"] if ":\t" in line)
    ignored = {number for number in range(1, 65) if int(status["SigIgn"], 16) >> (number - 1) & 1}
    assert ignored <= GLIBC_IGNORES


def test_stdin_is_at_its_end() -> None:
    assert run_shell("cat; echo end")["rawLines"] == ["end"]


# --- what is kept ---------------------------------------------------------------------------------


def test_output_of_an_agent_that_does_not_wait_is_whole(tmp_path: Path) -> None:
    agent = python_script(
        tmp_path / "hasty",
        "import os\nos.set_blocking(1, False)\nos._exit(0 if os.write(1, b'x' * 300_000 + b'\\n') == 300_001 else 1)",
    )
    record = run_shell(str(agent))
    assert record["exitCode"] == 0
    assert record["rawLines"] == ["x" * 300_000]


@pytest.mark.parametrize(
    ("line", "code", "name", "error"),
    [
        ("exit 0", 0, None, None),
        ("exit 3", 3, None, "exited with code 3"),
        ("echo oops >&2; exit 255", 255, None, "exited with code 255: oops"),
        ("printf 'oops {\\n  }\\n\\n]\\n' >&2; exit 1", 1, None, "exited with code 1: oops {"),
        ("echo } >&2; exit 1", 1, None, "exited with code 1: }"),
        ("kill -KILL $$", None, "SIGKILL", "killed by SIGKILL"),
        ("kill -SEGV $$", None, "SIGSEGV", "killed by SIGSEGV"),
        ("kill -INT $$", None, "SIGINT", "killed by SIGINT"),
        ("kill -40 $$", None, "signal 40", "killed by signal 40"),
    ],
)
def test_how_an_agent_ended(line: str, code: int | None, name: str | None, error: str | None) -> None:
    record = run_shell(line)
    assert (record["exitCode"], record["signal"], record["timedOut"]) == (code, name, False)
    assert record["turns"] == [{**record["turns"][0], "lines": 0, "exitCode": code, "signal": name, "timedOut": False}]
    assert record.get("errors") == ([error] if error else None)


def test_the_last_8_kib_of_stderr_are_kept(tmp_path: Path) -> None:
    agent = python_script(
        tmp_path / "talk",
        "import sys\nfor n in range(30_000): sys.stderr.write(f'{n}\\n')\nsys.stderr.write('last words')\nprint('ok')",
    )
    record = run_shell(str(agent))
    assert record["rawLines"] == ["ok"]
    everything = "".join(f"{n}\n" for n in range(30_000)) + "last words"
    assert record["stderr"] == everything[-8192:]
    assert "stderr" not in run_shell("echo quiet")


@pytest.mark.parametrize("flood", ["yes", "tr '\\0' x < /dev/zero"], ids=["lines", "one endless line"])
def test_a_flood_is_ended(flood: str, mark: str, tmp_path: Path) -> None:
    line = f"{helpers(mark, 'daemon')}\n{flood}"
    with Running(str(BIN / "ae-run"), "--max-output", "2M", "--shell", line, cwd=tmp_path) as tool:
        tool.feed({"id": "a", "input": "x"})
        record = tool.record()
        assert not sleepers(mark)
        status = Path(f"/proc/{tool.pid}/status").read_text()
        tool.end().expect(0).says("1 of 1 agents failed: output exceeded")
    assert sum(len(line) + 1 for line in record["rawLines"]) <= (2 << 20) + 1
    assert len(record["lineTimes"]) == len(record["rawLines"])
    assert record["timedOut"] is False
    assert "--max-output" in record["errors"][0]
    assert "2097152" in record["errors"][0]
    peak = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))
    assert peak < 70_000, f"{peak} kB for 2 MiB of output"


def test_the_limit_is_for_all_turns_of_a_prompt_together() -> None:
    done = run(
        "ae-run",
        "--max-output",
        1000,
        "--simple",
        "printf %0600d {}",
        stdin=jsonl({"id": "a", "input": ["1", "2", "3"]}),
    ).expect(0)
    record = done.records[0]
    assert [len(line) for line in record["rawLines"]] == [600, 400]
    assert len(record["errors"]) == 1
    assert record["errors"][0].startswith("turn 2 of 3: ")
    assert "1000 bytes" in record["errors"][0], record["errors"]


@pytest.mark.parametrize(
    ("printed", "lines"),
    [
        ("", []),
        ("\\n", [""]),
        ("\\n\\n", ["", ""]),
        ("last", ["last"]),
        ("a\\n\\nb", ["a", "", "b"]),
        ("a\\r\\nb\\r\\n", ["a\r", "b\r"]),
        ("a\\0b\\n\\377\\376\\n\\342\\202\\n", ["a\0b", "\ufffd\ufffd", "\ufffd"]),
        ("\\342\\202\\254", ["€"]),
        ("a\\013b\\014c\\342\\200\\250d\\n", ["a\vb\fc\u2028d"]),
    ],
)
def test_lines_are_kept_as_they_came(printed: str, lines: list[str]) -> None:
    record = run_shell(f"printf '{printed}'")
    assert record["rawLines"] == lines
    assert len(record["lineTimes"]) == len(lines)
    assert record["turns"][0]["lines"] == len(lines)


def test_line_times_are_arrival_times() -> None:
    """Of the end of a line: each line here ends in the moment that the agent has written it."""
    now = "date +%s%N"

    def lateness() -> float:
        began = time.time()
        record = run_shell(f"{now}; sleep 0.3; printf x; sleep 0.2; {now}; {now}; sleep 0.2; {now}")
        assert record["rawLines"][1].startswith("x") and len(record["rawLines"]) == 4
        times, timing = record["lineTimes"], record["timing"]
        assert times == sorted(times)
        assert 0 <= timing["sessionCreation"] <= times[0] == timing["firstResponse"]
        assert times[-1] <= timing["total"] == timing["end"] - timing["start"]
        assert began - 0.002 <= timing["start"] / 1000 <= timing["end"] / 1000 <= time.time() + 0.002
        written = [int(line.removeprefix("x")) / 1e9 for line in record["rawLines"]]
        late = [timing["start"] / 1000 + time / 1000 - moment for time, moment in zip(times, written, strict=True)]
        assert min(late) > -0.002, "before it was written"
        return float(max(late))

    expect_soon(lateness, within=0.4)


def test_line_times_go_on_over_turns() -> None:
    prompt = {"id": "a", "input": ["1", "2", "3"]}
    done = run("ae-run", "--shell", 'sleep 0.1; echo "$PROMPT"', stdin=jsonl(prompt)).expect(0)
    record = done.records[0]
    times = record["lineTimes"]
    assert times == sorted(times)
    assert times[0] >= 95 and times[2] - times[0] >= 190
    assert sum(turn["total"] for turn in record["turns"]) <= record["timing"]["total"] + 2


def test_a_tool_without_agents_to_end_leaves_no_guardian(mark: str, tmp_path: Path) -> None:
    run(AE_RUN, "--simple", f"echo {mark} {{}}", stdin=prompts(3), cwd=tmp_path).expect(0)
    assert not alive(mark)


def test_a_tool_whose_guardian_was_killed_goes_on(tmp_path: Path) -> None:
    (tmp_path / "tmp").mkdir()
    with Running("ae-run", "--simple", "echo {}", cwd=tmp_path, env={"TMPDIR": str(tmp_path / "tmp")}) as tool:
        children = Path(f"/proc/{tool.pid}/task/{tool.pid}/children")
        guardian = until(lambda: children.read_text().split(), "the guardian is there")[0]
        until(lambda: "agenteval" in Path(f"/proc/{guardian}/comm").read_text(), "it has its name")
        os.kill(int(guardian), signal.SIGKILL)
        until(lambda: "Z" in Path(f"/proc/{guardian}/stat").read_text().rpartition(")")[2], "it has ended")
        tool.feed({"id": "a", "input": "x"})
        record = tool.record()
        assert record["rawLines"] == ["x"] and "errors" not in record, record
        assert tool.end().code == 0
    assert list((tmp_path / "tmp").iterdir()) == []
