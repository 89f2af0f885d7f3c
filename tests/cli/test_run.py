"""ae-run's options, run as a real process."""

from __future__ import annotations

import fcntl
import json
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from tests.support.tool import Done, Record, jsonl, meeting, python_script, read, run, write
from tests.support.watching import PATIENCE, Running, until, with_time_enough, written

RAW_FIELDS = ["rawLines", "lineTimes", "turns", "cwd", "timing", "exitCode", "signal", "timedOut"]
ECHO_ARGV = "import json, os, sys\nprint(json.dumps({'argv': sys.argv[1:]}))"


def prompts(*inputs: str, **fields: Any) -> str:
    """Prompts a, b, c … with these inputs."""
    return jsonl(*({"id": chr(97 + n), "input": text, **fields} for n, text in enumerate(inputs)))


def shell(line: str, *args: object, stdin: str | Path, cwd: Path | None = None) -> Done:
    return run("ae-run", "--shell", line, *args, stdin=stdin, cwd=cwd)


def ids(path: Path) -> list[str]:
    return [record["id"] for record in read(path)]


# --- order and concurrency ------------------------------------------------------------------------


def test_concurrency_is_real(tmp_path: Path) -> None:
    done = shell(meeting(8, tmp_path), "-j", 8, "-t", "20s", stdin=prompts(*"abcdefgh")).expect(0, stderr="")
    assert sorted(done.ids) == list("abcdefgh")
    assert not any("errors" in record for record in done.records), done


def test_one_at_a_time_by_default(tmp_path: Path) -> None:
    done = shell("mkdir busy && sleep 0.05 && rmdir busy", stdin=prompts(*"abcd"), cwd=tmp_path).expect(0)
    assert done.ids == list("abcd")
    assert not any("errors" in record for record in done.records), done


def test_no_more_than_asked_for_at_once(tmp_path: Path) -> None:
    # The first three wait for each other: a busy machine may start them one after the other.
    line = f'touch "run-$PROMPT"; {meeting(3, tmp_path)}; ls | grep -c run-; sleep 0.15; rm "run-$PROMPT"'
    done = shell(line, "-j", 3, stdin=prompts(*"abcdefghi"), cwd=tmp_path).expect(0)
    assert max(int(record["rawLines"][0]) for record in done.records) == 3


def test_records_come_out_as_they_finish_or_in_order(tmp_path: Path) -> None:
    with Running("ae-run", "-j", 3, "--shell", 'until [ -e "$PROMPT" ]; do sleep 0.02; done', cwd=tmp_path) as tool:
        tool.feed(*({"id": name, "input": name} for name in "abc"))
        for name in "cba":
            (tmp_path / name).touch()
            assert tool.record()["id"] == name
        tool.end().expect(0, stderr="")
    given = prompts("0.6", "0.3", "0")
    ordered = run("ae-run", "-j", 3, "--keep-order", "--simple", "sleep {}", stdin=given).expect(0)
    assert ordered.ids == ["a", "b", "c"]


def test_order_is_kept_over_many_prompts() -> None:
    given = [{"id": str(n), "input": f"{n * 7 % 5 / 100}"} for n in range(120)]
    done = run("ae-run", "-j", 8, "--keep-order", "--simple", "sleep {}", stdin=jsonl(*given)).expect(0)
    assert done.ids == [str(n) for n in range(120)]


def test_the_first_record_is_out_before_the_second_prompt_is_in(tmp_path: Path) -> None:
    with Running("ae-run", "-j", 2, "--simple", "echo {}", cwd=tmp_path) as tool:
        for name in ("one", "two"):
            tool.feed({"id": name, "input": name})
            assert tool.record()["rawLines"] == [name]
        tool.end().expect(0, stderr="")


@pytest.mark.parametrize("order", [[], ["--keep-order"]])
def test_a_reader_that_does_not_read_holds_the_agents_up(order: list[str], tmp_path: Path) -> None:
    """No more is started than there are workers: each has a record that it cannot write until the reader goes on."""
    file = write(tmp_path / "prompts", *({"id": str(n), "input": str(n)} for n in range(60)))
    line = (
        'echo x >> started; [ "$PROMPT" = 0 ] || while [ ! -e first-is-out ]; do sleep 0.02; done; '
        "head -c 200000 /dev/zero | tr '\\0' x"
    )
    with Running("ae-run", file, "-j", 4, *order, "--shell", line, cwd=tmp_path) as tool:
        until(lambda: not tool.silent(0), "the first record is being written")
        until(lambda: (tmp_path / "started").read_text().count("x") == 4, "4 agents were started")
        (tmp_path / "first-is-out").touch()
        time.sleep(0.5)
        assert (tmp_path / "started").read_text().count("x") == 4
        ids = [tool.record()["id"] for _ in range(60)]
        tool.end().expect(0, stderr="")
    assert sorted(ids, key=int) == [str(n) for n in range(60)]
    assert not order or ids == sorted(ids, key=int)


@pytest.mark.parametrize("order", [[], ["--keep-order"]])
def test_a_signal_while_the_reader_does_not_read(order: list[str], tmp_path: Path) -> None:
    """What is being written may stay unread: the tool ends all the same, after 2 s for the reader to go on."""
    file = write(tmp_path / "prompts", *({"id": str(n), "input": "x"} for n in range(60)))
    line = "echo x >> started; head -c 200000 /dev/zero | tr '\\0' x"
    with Running("ae-run", file, "-j", 4, *order, "--shell", line, cwd=tmp_path) as tool:
        until(lambda: (tmp_path / "started").exists() and len((tmp_path / "started").read_text()) >= 8, "4 agents ran")
        time.sleep(0.3)
        tool.signal(signal.SIGTERM)
        assert tool.process.wait(timeout=PATIENCE) == 143


def test_500_agents_at_once() -> None:
    given = jsonl(*({"id": str(n), "input": "1"} for n in range(500)))
    done = run("ae-run", "-j", 500, "--simple", "sleep {}", stdin=given, timeout=200).expect(0, stderr="")  # not 500 s
    assert sorted(map(int, done.ids)) == list(range(500))
    assert not any("errors" in record for record in done.records)


@pytest.mark.parametrize("tool", ["ae-run", "ae-capture"])
def test_many_at_once_into_a_file(tool: str, tmp_path: Path) -> None:
    """`> file`, `> /dev/null` and -o: what serves for waiting on many descriptors takes no files."""
    args = [tool, "-j", 200, "--simple", "echo {}"]
    for target in ("out", "/dev/null"):
        with open(tmp_path / target, "wb") as file:
            run(*map(str, args), stdin=prompts("a", "b"), stdout=file, cwd=tmp_path).expect(0, stderr="")
    run(*map(str, args), "-o", "other", stdin=prompts("a", "b"), cwd=tmp_path).expect(0, stderr="")
    assert len(read(tmp_path / "out")) == len(read(tmp_path / "other")) == 2


def test_too_few_descriptors_lose_no_record(tmp_path: Path) -> None:
    """Where the system does not allow enough of them, fewer agents run at once."""
    given = prompts(*map(str, range(20)))
    done = run("/bin/sh", "-c", "ulimit -n 60; exec ae-run -j 20 --simple 'sleep 0.1{}'", stdin=given, cwd=tmp_path)
    assert len(done.expect(0).records) == 20, done
    assert not any("errors" in record for record in done.records), done


# --- timeouts, cwd, exit status -------------------------------------------------------------------


def test_timeout_precedence(tmp_path: Path) -> None:
    """The prompt's own, then -t, then the schema's, then a minute."""
    base = {"version": 1, "name": "x", "command": ["sleep"], "sessionMode": "iterative", "prompt": {"flag": ""}}
    slow, plain = write(tmp_path / "slow.json", {**base, "timeout": 150}), write(tmp_path / "plain.json", base)

    def timeouts(*args: object, sleep: str = "60") -> dict[str, list[str] | None]:
        given = jsonl({"id": "own", "input": "60", "timeout": 100}, {"id": "none", "input": sleep})
        done = run("ae-run", "-j", 2, *args, stdin=given, cwd=tmp_path).expect(0)
        return {record["id"]: record.get("errors") for record in done.records}

    own = ["timeout: not done after 100 ms"]
    assert timeouts("-s", slow, "-t", "200") == {"own": own, "none": ["timeout: not done after 200 ms"]}
    assert timeouts("-s", slow) == {"own": own, "none": ["timeout: not done after 150 ms"]}
    assert timeouts("-s", plain, sleep="0.6") == {"own": own, "none": None}
    patient = jsonl({"id": "a", "input": "0.4", "timeout": 20_000})
    assert "errors" not in run("ae-run", "-s", slow, "-t", "200", stdin=patient, cwd=tmp_path).records[0]


def test_the_timeout_is_per_turn() -> None:
    def check(limit: int) -> None:
        turn = str(0.00035 * limit)  # three of them take longer than the limit
        given = jsonl({"id": "a", "input": [turn, turn, turn, "60", "0"]})
        record = run("ae-run", "-t", limit, "--simple", "sleep {}", stdin=given, timeout=100).expect(0).records[0]
        assert [turn["timedOut"] for turn in record["turns"]] == [False, False, False, True]
        assert record["errors"] == [f"turn 4 of 5: timeout: not done after {limit} ms"]

    with_time_enough(check, 2000)


def test_cwd(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    done = shell("pwd", "-c", "there", stdin=prompts("x"), cwd=tmp_path).expect(0)
    assert done.records[0]["rawLines"] == [done.records[0]["cwd"]] == [str(tmp_path / "there")]
    shell("pwd", "-c", "nowhere", stdin=prompts("x"), cwd=tmp_path).expect(2).says("nowhere")


def test_exit_status() -> None:
    assert shell("exit 3", stdin=prompts("x")).expect(0).records[0]["exitCode"] == 3
    shell("exit 3", "-e", stdin=prompts("x")).expect(1)
    shell("exit 0", "-e", stdin=prompts("x")).expect(0)
    shell("sleep 9", "-e", "-t", "100", stdin=prompts("x")).expect(1)


def test_strict_stops_at_the_first_failure(tmp_path: Path) -> None:
    line = 'echo "$PROMPT" >> ran; exit $PROMPT'
    done = shell(line, "--strict", stdin=prompts("0", "3", "0", "0"), cwd=tmp_path).expect(1)
    assert done.ids == ["a", "b"]
    assert (tmp_path / "ran").read_text() == "0\n3\n"
    done.says("b", "exited with code 3", "--strict")


def test_bad_prompts_of_a_file_are_found_before_any_agent_is_started(tmp_path: Path) -> None:
    good, other, nameless = {"id": "a", "input": "x"}, {"id": "c", "input": "z"}, {"id": "", "input": "x"}
    file = write(tmp_path / "prompts.jsonl", good, "nonsense", good, {"id": "b"}, nameless, other)
    strict = shell("touch ran", file, "--strict", stdin="", cwd=tmp_path).expect(1)
    assert "prompts.jsonl:2: not JSON" in strict.messages[0]
    assert not (tmp_path / "ran").exists()
    done = shell("true", file, stdin="", cwd=tmp_path).expect(1)
    assert done.ids == ["a", "c"]
    assert [message.split(": ", 2)[1].rpartition(":")[2] for message in done.messages] == ["2", "3", "4", "5"]
    assert 'duplicate id "a"' in done.messages[1]


def test_a_prompt_that_cannot_be_an_argument_costs_only_itself() -> None:
    given = prompts("x" * 200_000, "nul \0 in it", "fine")
    done = run("ae-run", "--simple", "echo {}", stdin=given).expect(0)
    long, nul, fine = done.records
    assert "too long" in long["errors"][0] and "prompt.stdin" in long["errors"][0]
    assert "NUL" in nul["errors"][0]
    assert fine["rawLines"] == ["fine"]
    assert "too long" in shell(":", stdin=prompts("x" * 200_000)).expect(0).records[0]["errors"][0]


WRITTEN = ("runId", "suiteVersion", "agent", "agentCommand", "agentDigest", "promptDigest", "fieldsDigest")


def test_the_prompts_fields_come_first_and_pass_through() -> None:
    prompt = {"x": [1.0, None], "id": "a", "big": 10**30, "input": "i", "hint": "h", "metadata": {"k": {}}, "y": "€"}
    done = run("ae-run", "--simple", "echo {}", stdin=jsonl(prompt)).expect(0)
    names = list(done.records[0])
    assert names[: len(prompt)] == list(prompt)
    agent = {name: done.records[0]["metadata"].pop(name) for name in WRITTEN}
    assert agent["agent"] == "text" and agent["agentCommand"] == "echo {}"
    assert all(len(value) == 16 for name, value in agent.items() if name.endswith(("Digest", "Id")))
    assert done.records[0]["metadata"].pop("isolated") is False
    assert {name: done.records[0][name] for name in prompt} == prompt
    assert names[len(prompt) :] == RAW_FIELDS


# --- workspaces -----------------------------------------------------------------------------------

ODD_IDS = [
    "../../x",
    "a/b",
    "a_b",
    "/etc",
    ".",
    "..",
    "ü",
    "日本",
    "中文",
    "x" * 300,
    "x" * 301,
    " ",
    "a b",
    "-rf",
    "A\nB",
]


def test_a_workspace_for_each_prompt_whatever_its_id(tmp_path: Path) -> None:
    given = jsonl(*({"id": name, "input": str(number)} for number, name in enumerate(ODD_IDS)))
    args = ("-j", 4, "--workspace-dir", "ws", "--keep-order")
    done = shell('ls -A; echo "$PROMPT" > mine; pwd', *args, stdin=given, cwd=tmp_path).expect(0)
    assert done.ids == ODD_IDS
    places = [Path(record["cwd"]) for record in done.records]
    assert len(set(places)) == len(ODD_IDS)
    assert {place.parent for place in places} == {tmp_path / "ws"}
    assert [record["rawLines"] for record in done.records] == [[str(place)] for place in places], "not fresh"
    assert [(place / "mine").read_text() for place in places] == [f"{number}\n" for number in range(len(ODD_IDS))]
    assert [record["metadata"]["workspaceDir"] for record in done.records] == [str(place) for place in places]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ws"]
    again = shell('ls -A; touch "$PROMPT"', *args, stdin=given, cwd=tmp_path).expect(0)
    assert [record["rawLines"] for record in again.records] == [[]] * len(ODD_IDS), "files of the first run are left"
    assert (tmp_path / "ws" / "prompt-a_b").is_dir()


def test_a_template_directory_is_copied_byte_for_byte(tmp_path: Path) -> None:
    template = tmp_path / "template"
    (template / "deep" / "empty").mkdir(parents=True)
    (template / "binary").write_bytes(bytes(range(256)) * 100)
    (template / "tool").write_text("#!/bin/sh\n")
    (template / "tool").chmod(0o751)
    (template / "secret").write_text("s")
    (template / "secret").chmod(0o400)
    (template / ".hidden").write_text("h")
    (template / "name with\nnewline é").write_text("n")
    (template / "link").symlink_to("binary")
    (template / "broken").symlink_to("/nowhere/at/all")
    (template / "deep" / "up").symlink_to("..")
    done = shell(
        "true", "--workspace-dir", "ws", "--workspace-template", "template", stdin=prompts("x", "y"), cwd=tmp_path
    )
    assert len(done.expect(0).records) == 2
    for record in done.records:
        assert "errors" not in record
        assert snapshot(Path(record["cwd"])) == snapshot(template)


def snapshot(root: Path) -> dict[str, tuple[int, bytes]]:
    """Every file below root: mode and content."""
    found = {}
    for path in root.rglob("*"):
        link, mode = path.is_symlink(), path.lstat().st_mode
        content = str(path.readlink()).encode() if link else path.read_bytes() if path.is_file() else b""
        found[str(path.relative_to(root))] = (mode, content)
    return found


def test_changes_in_one_workspace_do_not_reach_the_template_or_the_next_run(tmp_path: Path) -> None:
    (tmp_path / "template").mkdir()
    (tmp_path / "template" / "file").write_text("original\n")
    args = ("--workspace-dir", "ws", "--workspace-template", "template")
    for _ in range(2):
        done = shell("cat file; echo changed > file; touch new", *args, stdin=prompts("x", "y"), cwd=tmp_path).expect(0)
        assert [record["rawLines"] for record in done.records] == [["original"], ["original"]]
    assert [path.name for path in (tmp_path / "template").iterdir()] == ["file"]


def make_repository(path: Path) -> Path:
    """A bare git repository with one commit."""
    script = (
        "git init -q work && cd work && git config user.email a@b && git config user.name n && printf '\\0\\377' > f"
        f" && git add f && git commit -qm one && git clone -q --bare . {path}"
    )
    run("/bin/sh", "-c", script, cwd=path.parent).expect(0)
    return path


def test_a_git_repository_as_template(tmp_path: Path) -> None:
    bare = make_repository(tmp_path / "bare.git")
    for template in ("bare.git", f"file://{bare}"):
        args = ("-j", 2, "--workspace-dir", "ws", "--workspace-template", template)
        done = shell("git log --format=%s; git status --short", *args, stdin=prompts("x", "y"), cwd=tmp_path).expect(0)
        assert [record["rawLines"] for record in done.records] == [["one"], ["one"]], done
        assert (Path(done.records[0]["cwd"]) / "f").read_bytes() == b"\0\xff"


def test_a_clone_that_fails_is_no_failure_of_the_agent(tmp_path: Path) -> None:
    bare = make_repository(tmp_path / "bare.git")
    line = f'[ "$PROMPT" = break ] && mv {bare} {bare}.away; true'
    args = ("--workspace-dir", "ws", "--workspace-template", f"file://{bare}")
    done = shell(line, *args, stdin=prompts("break", "x", "y"), cwd=tmp_path).expect(1)
    assert len(done.records) == 1 and "errors" not in done.records[0]
    assert (
        "b: not run, because its workspace cannot be created" in done.messages[0] and "repository" in done.messages[0]
    )
    assert "2 were not run" in done.messages[-1]
    (tmp_path / "bare.git.away").rename(bare)
    done = shell(line, *args, stdin=prompts("break", *"abcdefg"), cwd=tmp_path).expect(1)
    assert len(done.records) == 1 and "stopped: cannot create a workspace for f" in done.messages[-1], done


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("--workspace-template", "."), "--workspace-dir"),
        (("--workspace-dir", "ws", "--workspace-template", "nowhere"), "nowhere"),
        (("--workspace-dir", "ws", "--workspace-template", "."), "contains the workspace directory"),
        (("--workspace-dir", "file"), "file"),
    ],
)
def test_workspaces_that_cannot_be(args: tuple[str, ...], message: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = shell("touch ran", *args, stdin=prompts("x"), cwd=tmp_path).expect(2)
    done.says(message)
    assert not (tmp_path / "ran").exists()


def test_a_directory_that_the_user_made_is_kept_and_used(tmp_path: Path) -> None:
    """Also if a template is named, on every later run, and by --keep-workspaces none."""
    fixture = tmp_path / "ws" / "prompt-a" / "fixture"
    fixture.parent.mkdir(parents=True)
    fixture.write_text("mine\n")
    (tmp_path / "template").mkdir()
    (tmp_path / "template" / "file").touch()
    args = ("--workspace-dir", "ws", "--workspace-template", "template")
    done = shell("ls -A; touch made", *args, stdin=prompts("x", "y"), cwd=tmp_path).expect(0)
    assert [record["rawLines"] for record in done.records] == [["fixture"], ["file"]], done
    done.says("prompt-a already exists", "--workspace-template", "--fresh-workspaces")
    done = shell("ls -A", *args, "--keep-workspaces", "none", stdin=prompts("x", "y"), cwd=tmp_path).expect(0)
    assert [record["rawLines"] for record in done.records] == [["fixture", "made"], ["file"]], done
    assert fixture.read_text() == "mine\n"
    assert sorted(path.name for path in (tmp_path / "ws").iterdir()) == [".agenteval", "prompt-a"]


def test_fresh_workspaces_replace_what_the_user_made(tmp_path: Path) -> None:
    (tmp_path / "ws" / "prompt-a").mkdir(parents=True)
    (tmp_path / "ws" / "prompt-a" / "old").touch()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "kept").touch()
    (tmp_path / "ws" / "prompt-b").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "ws" / "prompt-c").touch()
    args = ("--workspace-dir", "ws", "--fresh-workspaces")
    done = shell("ls -A", *args, stdin=prompts("x", "y", "z"), cwd=tmp_path).expect(0, stderr="")
    assert [record["rawLines"] for record in done.records] == [[], [], []]
    assert (tmp_path / "elsewhere" / "kept").exists()
    run("ae-run", "--simple", "echo {}", "--fresh-workspaces", stdin=prompts("x")).expect(2).says("--workspace-dir")


def test_what_is_no_directory_is_kept_and_costs_only_its_prompt(tmp_path: Path) -> None:
    (tmp_path / "ws").mkdir()
    (tmp_path / "ws" / "prompt-a").write_text("mine")
    done = shell("true", "--workspace-dir", "ws", stdin=prompts("x", "y"), cwd=tmp_path).expect(1)
    done.says("a: not run", "--fresh-workspaces")
    assert done.ids == ["b"] and "errors" not in done.records[0]
    assert (tmp_path / "ws" / "prompt-a").read_text() == "mine"


def test_a_directory_in_the_place_of_one_of_ours_is_the_users(tmp_path: Path) -> None:
    """The new directory may well get the inode of the one that was removed."""
    for _ in range(5):
        shell("touch ours", "--workspace-dir", "ws", stdin=prompts("x"), cwd=tmp_path).expect(0)
        run("/bin/sh", "-c", "rm -r ws/prompt-a; mkdir ws/prompt-a; touch ws/prompt-a/mine", cwd=tmp_path).expect(0)
        done = shell("ls -A", "--workspace-dir", "ws", stdin=prompts("x"), cwd=tmp_path).expect(0)
        assert done.records[0]["rawLines"] == ["mine"], done
        run("/bin/sh", "-c", "rm -r ws/prompt-a", cwd=tmp_path).expect(0)


def test_an_agent_that_makes_its_directory_anew_gets_a_fresh_one_in_the_next_run(tmp_path: Path) -> None:
    line = "ls -A; cd .. && rm -r prompt-a && mkdir prompt-a && touch prompt-a/left"
    for _ in range(2):
        done = shell(line, "--workspace-dir", "ws", stdin=prompts("x"), cwd=tmp_path).expect(0, stderr="")
        assert done.records[0]["rawLines"] == []


CRASH = """
import os, signal, sys
opened = []
def hook(event, arguments):
    if event == "open" and "/template/0" in str(arguments[0]):
        opened.append(arguments[0])
        if len(opened) == 100: os.kill(os.getpid(), signal.SIGKILL)
sys.addaudithook(hook)
"""


def test_a_crash_while_a_workspace_is_filled_leaves_no_half_of_it(tmp_path: Path) -> None:
    """It is killed as it opens the 100th file: from outside, a busy machine could do that too late."""
    for folder in ("template", "hook"):
        (tmp_path / folder).mkdir()
    for number in range(300):
        (tmp_path / "template" / f"{number:04}").write_text("x")
    (tmp_path / "hook" / "sitecustomize.py").write_text(CRASH)
    args = ("--workspace-dir", "ws", "--workspace-template", "template", "--shell", "ls | wc -l")
    env = {"PYTHONPATH": str(tmp_path / "hook")}
    run("ae-run", *args, stdin=prompts("x"), cwd=tmp_path, env=env).expect(-signal.SIGKILL)
    assert len(list((tmp_path / "ws" / "prompt-a").iterdir())) == 99
    done = run("ae-run", *args, stdin=prompts("x"), cwd=tmp_path).expect(0, stderr="")
    assert done.records[0]["rawLines"] == ["300"]


def test_the_markers_are_no_change_for_git(tmp_path: Path) -> None:
    run("/bin/sh", "-c", "git init -q .", cwd=tmp_path).expect(0)
    done = shell(
        "git status --short --untracked-files=all ..", "--workspace-dir", "ws", stdin=prompts("x"), cwd=tmp_path
    )
    assert done.expect(0).records[0]["rawLines"] == []


# --- output files ---------------------------------------------------------------------------------


def test_a_file_is_replaced_or_appended_to(tmp_path: Path) -> None:
    out = tmp_path / "raw"
    for args, expected in ((), ["a"]), (("--overwrite",), ["a"]), (("--append",), ["a", "a"]):
        shell("true", "-o", out, *args, stdin=prompts("x"), cwd=tmp_path).expect(0, stderr="")
        assert ids(out) == expected


def test_a_usage_error_leaves_the_output_alone(tmp_path: Path) -> None:
    out = write(tmp_path / "raw", {"id": "kept"})
    run("ae-run", "--simple", "no-such-command-anywhere {}", "-o", out, stdin=prompts("x"), cwd=tmp_path).expect(2)
    run("ae-run", "nowhere.jsonl", "--simple", "echo {}", "-o", out, cwd=tmp_path).expect(2)
    assert ids(out) == ["kept"]


@pytest.mark.parametrize(
    ("before", "ran"),
    [
        ("", "abc"),
        ('{"id":"b"}\n', "ac"),
        ('{"id":"b"}', "ac"),
        ('{"id":"b"}\n{"id":"a","inp', "ac"),
        ('{"id":"a","rawLines":["\\"}\n{"id":"b"', None),
        ('{"id":"b"}\n\n{"id":"c"}\n', "a"),
        ('{"id":"a"}\n{"id":"b"}\n{"id":"c"}\n', ""),
        ('{"id":"b"}\n{"id":"é', "ac"),
    ],
)
def test_resume(before: str, ran: str | None, tmp_path: Path) -> None:
    out = tmp_path / "raw"
    out.write_bytes(before.encode()[:-1] if before.endswith("é") else before.encode())
    done = shell('echo "$PROMPT" >> ran', "-o", out, "--resume", stdin=prompts("a", "b", "c"), cwd=tmp_path)
    if ran is None:
        done.expect(2).says(f"{out}:1: ", "not a record")
        assert out.read_text() == before
        return
    done.expect(0)
    written = 3 - len(ran)
    assert (f"raw: {written} kept" in done.stderr) is (written > 0), done
    assert ("nothing to do" in done.stderr) is (not ran), done
    started = (tmp_path / "ran").read_text() if ran else ""
    assert "".join(started.split()) == ran
    assert sorted(ids(out)) == ["a", "b", "c"]
    assert out.read_bytes().endswith(b"\n")


def test_append_after_a_line_that_was_cut_off(tmp_path: Path) -> None:
    out = tmp_path / "raw"
    out.write_text('{"id":"z"}\n{"id":"a","inp')
    shell("true", "-o", out, "--append", stdin=prompts("x"), cwd=tmp_path).expect(0)
    assert ids(out) == ["z", "a"]


@pytest.mark.parametrize("option", ["--resume", "--append"])
def test_resume_and_append_need_a_file(option: str) -> None:
    shell("true", option, stdin=prompts("x")).expect(2).says(option, "-o")


@pytest.mark.parametrize("option", ["--resume", "--append", None])
def test_two_tools_on_one_file(option: str | None, tmp_path: Path) -> None:
    out = tmp_path / "raw"
    with Running("ae-run", "--shell", "true", "-o", out, cwd=tmp_path) as first:
        first.feed({"id": "first", "input": "x"})
        until(lambda: out.exists() and out.stat().st_size > 0, "the first writes")
        second = shell("touch ran", "-o", out, *([option] if option else []), stdin=prompts("x"), cwd=tmp_path)
        second.expect(2).says(str(out), "another tool is writing" if option else "already contains records")
        first.feed({"id": "more", "input": "x"})
        first.end().expect(0)
    assert ids(out) == ["first", "more"]
    assert not (tmp_path / "ran").exists()


def test_a_file_that_cannot_be_written_is_found_before_an_agent_runs(tmp_path: Path) -> None:
    (tmp_path / "no").touch()
    shell("touch ran", "-o", "no/such/dir", stdin=prompts("x"), cwd=tmp_path).expect(2).says("no/such/dir")
    file = write(tmp_path / "p", {"id": "a", "input": "x"})
    shell("touch ran", file, "-o", file, stdin="", cwd=tmp_path).expect(2).says("is also the input")
    assert ids(file) == ["a"]
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("option", [None, "--resume", "--append"])
def test_directories_of_the_output_are_made(option: str | None, tmp_path: Path) -> None:
    file = write(tmp_path / "p", {"id": "a", "input": "x"}, {"id": "b", "input": "y"})
    options = [option] if option else []
    shell("echo x", file, "-o", "new/results/out", "--keep-order", *options, stdin="", cwd=tmp_path).expect(
        0, stderr=""
    )
    assert ids(tmp_path / "new" / "results" / "out") == ["a", "b"]


def test_a_full_disk_ends_the_run_with_a_message(tmp_path: Path) -> None:
    done = shell("echo x >> ran", "-o", "/dev/full", stdin=prompts(*"abcdef"), cwd=tmp_path).expect(1)
    done.says("/dev/full", "No space left")
    assert (tmp_path / "ran").read_text().count("x") <= 2


# --- retries --------------------------------------------------------------------------------------


def test_a_timeout_is_tried_again(tmp_path: Path) -> None:
    line = "echo x >> tries; [ $(wc -l < tries) -ge 2 ] || sleep 60; echo ok"

    def check(limit: int) -> None:
        (tmp_path / "tries").unlink(missing_ok=True)
        done = shell(line, "-t", limit, "--retries", 3, stdin=prompts("x"), cwd=tmp_path).expect(0)
        record = done.records[0]
        assert (record["rawLines"], record["attempts"], record["timedOut"]) == (["ok"], 2, False)
        assert "errors" not in record
        assert (tmp_path / "tries").read_text().count("x") == 2
        assert done.seconds > 1.2  # there is a pause

    with_time_enough(check, 2000)


def test_a_failure_is_no_reason_to_try_again(tmp_path: Path) -> None:
    done = shell("echo x | tee -a tries; exit 1", "--retries", 3, stdin=prompts("x"), cwd=tmp_path).expect(0)
    assert "attempts" not in done.records[0]
    assert (tmp_path / "tries").read_text() == "x\n"


def test_retries_have_an_end_and_a_fresh_workspace(tmp_path: Path) -> None:
    args = ("-t", 150, "--retries", 1, "--workspace-dir", "ws")
    record = (
        shell("ls; touch left || echo lost; sleep 60", *args, stdin=prompts("x"), cwd=tmp_path).expect(0).records[0]
    )
    assert (record["attempts"], record["timedOut"], record["rawLines"]) == (2, True, [])


# --- shards ---------------------------------------------------------------------------------------


def test_shards_share_the_ids_exactly_and_always_the_same_way(tmp_path: Path) -> None:
    names = [f"prompt {number}" for number in range(60)]
    file = write(tmp_path / "p", *({"id": name, "input": "x"} for name in names))
    backwards = write(tmp_path / "q", *({"id": name, "input": "y"} for name in reversed(names)))

    def shard(which: str, source: Path) -> set[str]:
        return set(run("ae-run", source, "--shard", which, "-j", 8, "--simple", "true {}").expect(0).ids)

    shards = [shard(f"{number}/3", file) for number in (1, 2, 3)]
    assert sum(map(len, shards)) == 60
    assert set().union(*shards) == set(names)
    assert min(map(len, shards)) > 8
    assert shard("2/3", backwards) == shards[1]
    assert shard("1/1", file) == set(names)


@pytest.mark.parametrize("wrong", ["0/3", "4/3", "1", "a/b", "1/0", "-1/3", "1/3/5"])
def test_shards_that_are_none(wrong: str) -> None:
    run("ae-run", f"--shard={wrong}", "--simple", "true {}", stdin=prompts("x")).expect(2).says("--shard", wrong)


# --- --simple and --shell -------------------------------------------------------------------------

HOSTILE = [
    "$(touch ran)",
    "`touch ran`",
    "'; touch ran; '",
    '"; touch ran; "',
    "$'\\n touch ran",
    "a | touch ran",
    "{}",
    "$HOME",
    "-n",
    "",
]


@pytest.mark.parametrize("option", ["--simple", "--shell"])
def test_no_prompt_is_read_as_code(option: str, tmp_path: Path) -> None:
    agent = python_script(tmp_path / "agent", ECHO_ARGV)
    template = f"{agent} {{}}" if option == "--simple" else f'{agent} "$PROMPT"'
    done = run("ae-run", option, template, stdin=prompts(*HOSTILE), cwd=tmp_path).expect(0)
    assert [json.loads(record["rawLines"][0])["argv"] for record in done.records] == [[text] for text in HOSTILE]
    assert not (tmp_path / "ran").exists()


def test_braces_inside_an_argument_and_more_than_once(tmp_path: Path) -> None:
    agent = python_script(tmp_path / "agent", ECHO_ARGV)
    template = f"{agent} --prompt={{}} '{{}} and {{}}' \"q|&>\\\"\" plain\\ word '$HOME'"
    done = run("ae-run", "--simple", template, stdin=prompts("a {} b"), cwd=tmp_path).expect(0)
    argv = json.loads(done.records[0]["rawLines"][0])["argv"]
    assert argv == ["--prompt=a {} b", "a {} b and a {} b", 'q|&>"', "plain word", "$HOME"]


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("echo {} | cat", "--shell"),
        ("echo {} > file", "--shell"),
        ("echo {} && true", "--shell"),
        ("echo {}; true", "--shell"),
        ("echo $VAR {}", "--shell"),
        ('echo "$VAR" {}', "--shell"),
        ("echo `date` {}", "--shell"),
        ("echo $(date) {}", "--shell"),
        ("echo 2>&1 {}", "--shell"),
        ("echo hello", "{}"),
        ("{} echo", "{}"),
        ("{}", "{}"),
        ("", "{}"),
        ("echo 'open {}", "--simple"),
        ("no-such-command-anywhere {}", "no-such-command-anywhere"),
        ("./not-there {}", "./not-there"),
        ("./plain-file {}", "chmod"),
    ],
)
def test_templates_that_are_refused(template: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "plain-file").write_text("x")
    run("ae-run", "--simple", template, stdin=prompts("x"), cwd=tmp_path).expect(2).says(message)


def test_the_prompt_of_a_shell_line_is_only_in_the_environment(tmp_path: Path) -> None:
    line = 'tr "\\0" " " < /proc/$$/cmdline; echo; printf %s "$PROMPT"'
    record = shell(line, stdin=prompts("two\nlines é")).expect(0).records[0]
    assert "two" not in record["rawLines"][0]
    assert record["rawLines"][-2:] == ["two", "lines é"]


@pytest.mark.parametrize("args", [(), ("--simple", "echo {}", "--shell", "true"), ("-s", "claude", "--shell", "true")])
def test_exactly_one_agent(args: tuple[str, ...]) -> None:
    run("ae-run", *args, stdin=prompts("x")).expect(2).says("--simple", "--shell")


# --- schemas --------------------------------------------------------------------------------------

AGENT = """
import json, os, sys
text = sys.stdin.read()
print(json.dumps({"type": "start", "thread": "S-" + str(os.getpid())}))
print(json.dumps({"type": "echo", "argv": sys.argv[1:], "stdin": text, "color": os.environ.get("COLOR")}))
print(json.dumps({"type": "end", "text": sys.argv[-1].upper()}))
"""


def schema(tmp_path: Path, **fields: Any) -> Path:
    """An adapter schema around the agent above."""
    agent = python_script(tmp_path / "agent", AGENT)
    base: Record = {
        "version": 1,
        "name": "test",
        "command": [str(agent), "run"],
        "sessionMode": "stream",
        "prompt": {"flag": "-p"},
        "resume": {"flag": "--resume", "sessionIdPath": "$.thread"},
        "outputEvents": [],
        "result": {"matchPath": "$.type", "matchValue": "end", "contentPath": "$.text"},
    }
    merged = {name: value for name, value in {**base, **fields}.items() if value is not None}
    return write(tmp_path / "schema.json", merged)


def events(record: Record, kind: str) -> list[Record]:
    return [event for event in map(json.loads, record["rawLines"]) if event["type"] == kind]


def run_schema(path: Path, *inputs: str, env: dict[str, str] | None = None) -> Record:
    prompt = {"id": "a", "input": list(inputs) if len(inputs) > 1 else inputs[0]}
    done = run("ae-run", "-s", path, stdin=jsonl(prompt), cwd=path.parent, env=env).expect(0)
    assert bool(done.stderr) == ("errors" in done.records[0]), done
    return done.records[0]


def test_the_order_of_arguments(tmp_path: Path) -> None:
    path = schema(
        tmp_path,
        output={"flag": "--format", "value": "json"},
        autoApprove=["--yes", "--really"],
        cwdFlag="--dir",
        env={"COLOR": "never"},
    )
    record = run_schema(path, "one", "two", "three", env={"COLOR": "always"})
    sessions = [event["thread"] for event in events(record, "start")]
    seen = events(record, "echo")
    common = ["run", "--format", "json", "--yes", "--really", "--dir", str(tmp_path)]
    assert [event["argv"] for event in seen] == [
        [*common, "-p", "one"],
        [*common, "--resume", sessions[0], "-p", "two"],
        [*common, "--resume", sessions[1], "-p", "three"],
    ]
    assert [event["color"] for event in seen] == ["never"] * 3
    assert [event["stdin"] for event in seen] == [""] * 3
    assert [turn["lines"] for turn in record["turns"]] == [3, 3, 3]


def test_what_the_user_names_counts_more_than_what_the_schema_has(tmp_path: Path) -> None:
    path = schema(tmp_path, env={"COLOR": "never"})
    for args, color in (((), "never"), (("--env", "COLOR=always"), "always"), (("--clean-env",), "never")):
        done = run("ae-run", "-s", path, *args, stdin=prompts("x"), cwd=tmp_path).expect(0, stderr="")
        assert events(done.records[0], "echo")[0]["color"] == color


def test_an_output_flag_of_its_own(tmp_path: Path) -> None:
    record = run_schema(schema(tmp_path, output={"flag": "--json"}), "one")
    assert events(record, "echo")[0]["argv"] == ["run", "--json", "-p", "one"]


def test_turns_that_know_nothing_of_each_other_are_told_once(tmp_path: Path) -> None:
    path = schema(tmp_path, resume=None)
    given = jsonl({"id": "a", "input": "x"}, {"id": "b", "input": ["x", "y"]}, {"id": "c", "input": ["x", "y"]})
    done = run("ae-run", "-s", path, stdin=given, cwd=tmp_path).expect(0)
    done.says("b: the schema has no resume")
    assert [len(record["turns"]) for record in done.records] == [1, 2, 2]


def test_resume_by_arguments(tmp_path: Path) -> None:
    record = run_schema(
        schema(tmp_path, resume={"args": ["--resume={sessionId}"], "sessionIdPath": "$.thread"}), "1", "2"
    )
    session = events(record, "start")[0]["thread"]
    assert events(record, "echo")[1]["argv"] == ["run", f"--resume={session}", "-p", "2"]


@pytest.mark.parametrize(
    ("resume", "command"),
    [
        ({"flag": "--resume="}, ["run", "--resume={}"]),
        ({"flag": ""}, ["run", "{}"]),
        ({"command": ["{agent}", "exec", "resume", "{sessionId}"]}, ["exec", "resume", "{}"]),
    ],
)
def test_other_ways_to_resume(resume: Record, command: list[str], tmp_path: Path) -> None:
    if "command" in resume:
        resume = {"command": [str(tmp_path / "agent"), *resume["command"][1:]]}
    record = run_schema(schema(tmp_path, resume={**resume, "sessionIdPath": "$.thread"}), "1", "2")
    session = events(record, "start")[0]["thread"]
    assert events(record, "echo")[1]["argv"] == [*(word.format(session) for word in command), "-p", "2"]


def test_resume_by_another_command(tmp_path: Path) -> None:
    other = [str(tmp_path / "agent"), "exec", "resume"]
    resume = {"command": other, "args": ["{sessionId}"], "sessionIdPath": "$.thread"}
    record = run_schema(schema(tmp_path, resume=resume, autoApprove=["--yes"], prompt={"flag": ""}), "1", "2")
    session = events(record, "start")[0]["thread"]
    assert [event["argv"] for event in events(record, "echo")] == [
        ["run", "--yes", "1"],
        ["exec", "resume", "--yes", session, "2"],
    ]


def test_a_missing_session_id_is_an_error_of_the_record(tmp_path: Path) -> None:
    record = run_schema(schema(tmp_path, resume={"flag": "-r", "sessionIdPath": "$.nothing"}), "one", "two", "three")
    assert len(record["turns"]) == 1
    assert len(record["errors"]) == 1
    assert record["errors"][0].startswith("turn 2 of 3: ") and "session id" in record["errors"][0]


def test_a_failed_turn_is_the_last(tmp_path: Path) -> None:
    line = 'for last; do :; done; echo "{\\"thread\\": 1}"; exit $last'
    path = schema(tmp_path, command=["sh", "-c", line, "sh"], prompt={"flag": ""})
    record = run_schema(path, "0", "4", "0")
    assert [turn["exitCode"] for turn in record["turns"]] == [0, 4]
    assert record["errors"] == ["turn 2 of 3: exited with code 4"]


def test_prompts_on_stdin(tmp_path: Path) -> None:
    long = "long " * 50_000
    record = run_schema(schema(tmp_path, prompt={"stdin": True}), long, "é")
    session = events(record, "start")[0]["thread"]
    assert [event["stdin"] for event in events(record, "echo")] == [f"{long}\n", "é\n"]
    assert [event["argv"] for event in events(record, "echo")] == [["run"], ["run", "--resume", session]]


@pytest.mark.parametrize(("flag", "words"), [("--", ["--", "-x"]), ("--prompt=", ["--prompt=-x"]), ("", ["-x"])])
def test_a_prompt_that_begins_with_a_dash(flag: str, words: list[str], tmp_path: Path) -> None:
    record = run_schema(schema(tmp_path, prompt={"flag": flag}), "-x")
    assert events(record, "echo")[0]["argv"] == ["run", *words]


FILER = """
import json, os, signal, sys, time
print(json.dumps(sys.argv[1:]), flush=True)
document = sys.argv[sys.argv.index("-o") + 1]
def write(*_):
    with open(document, "w") as file: json.dump({"type": "end", "text": "two\\nlines"}, file, indent=2)
    sys.exit(3)
signal.signal(signal.SIGTERM, write)
if sys.argv[-1] == "sleep": time.sleep(60)
if sys.argv[-1] == "file": write()
"""


@pytest.mark.parametrize("prompt", ["file", "sleep", "none"])
def test_what_the_agent_writes_to_a_file_is_one_more_line(prompt: str, tmp_path: Path) -> None:
    (tmp_path / "tmp").mkdir()
    agent = python_script(tmp_path / "filer", FILER)
    output = {"flag": "--as", "value": "json", "fileFlag": "-o"}

    def check(limit: int) -> None:
        path = schema(tmp_path, command=[str(agent)], output=output, timeout=limit)
        record = run_schema(path, prompt, env={"TMPDIR": str(tmp_path / "tmp")})
        first, *rest = record["rawLines"]
        assert json.loads(first)[:3] == ["--as", "json", "-o"]
        assert json.loads(first)[4:] == ["-p", prompt]
        wanted = {"type": "end", "text": "two\nlines"}
        assert [json.loads(line) for line in rest if line] == ([] if prompt == "none" else [wanted]), record
        assert (record["exitCode"], record["timedOut"]) == (0 if prompt == "none" else 3, prompt == "sleep")
        assert list((tmp_path / "tmp").iterdir()) == []

    with_time_enough(check, 2000) if prompt == "sleep" else check(20_000)


DEAF_FILER = """
import json, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
with open(sys.argv[sys.argv.index("-o") + 1], "w") as file: json.dump({"type": "end", "text": "kept"}, file)
print("written", flush=True)
time.sleep(60)
"""


def test_the_file_of_an_agent_that_is_killed_is_read_and_removed(tmp_path: Path) -> None:
    (tmp_path / "tmp").mkdir()
    agent = python_script(tmp_path / "filer", DEAF_FILER)
    output = {"flag": "--as", "value": "json", "fileFlag": "-o"}
    env = {"TMPDIR": str(tmp_path / "tmp")}

    def check(limit: int) -> None:
        record = run_schema(schema(tmp_path, command=[str(agent)], output=output, timeout=limit), "x", env=env)
        assert (record["rawLines"], record["signal"]) == (["written", '{"type": "end", "text": "kept"}'], "SIGKILL")
        assert list((tmp_path / "tmp").iterdir()) == []

    with_time_enough(check, 1000)
    with Running("ae-run", "-s", tmp_path / "schema.json", "-t", 60_000, cwd=tmp_path, env=env) as tool:
        tool.feed({"id": "a", "input": "x"})
        until(lambda: list((tmp_path / "tmp").glob("*/answer-*")), "the agent has written its file")
        tool.signal(signal.SIGKILL)
        tool.process.wait()
    until(lambda: not list((tmp_path / "tmp").iterdir()), "the guardian has removed it")


def test_an_agent_that_does_not_read_its_stdin(tmp_path: Path) -> None:
    path = schema(tmp_path, command=["echo", "hello"], prompt={"stdin": True})
    record = run_schema(path, "x" * 5_000_000)
    assert (record["rawLines"], record["exitCode"]) == (["hello"], 0)
    assert "errors" not in record


TRICKY = "say {{output}} and {{input}} $& $1 \\1"
DEFAULT_TEXT = f"User: {TRICKY}\nAssistant: {TRICKY.upper()}\n\nUser: two"
HISTORIES = {
    "default": (None, DEFAULT_TEXT),
    "string": ("Q: {{input}} / A: {{output}}", f"Q: {TRICKY} / A: {TRICKY.upper()}\n\nUser: two"),
    "answer first": ("{{output}} <- {{input}}", f"{TRICKY.upper()} <- {TRICKY}\n\nUser: two"),
    "object": (
        {"system": "Be brief.", "turnFormat": "Q {{input}} A {{output}}"},
        f"Be brief.\n\nQ {TRICKY} A {TRICKY.upper()}\n\nUser: two",
    ),
    "without system": ({"turnFormat": "Q {{input}} A {{output}}"}, f"Q {TRICKY} A {TRICKY.upper()}\n\nUser: two"),
}


@pytest.mark.parametrize("name", HISTORIES)
def test_iterative_turns_carry_the_history(name: str, tmp_path: Path) -> None:
    template, second = HISTORIES[name]
    record = run_schema(schema(tmp_path, sessionMode="iterative", resume=None, historyTemplate=template), TRICKY, "two")
    assert [event["argv"][-1] for event in events(record, "echo")] == [TRICKY, second]


def test_the_history_grows_turn_by_turn(tmp_path: Path) -> None:
    command = ["sh", "-c", 'printf "%s" "$1" > "said-$(ls | grep -c said)"; echo "answer $(ls | grep -c said)"', "sh"]
    path = schema(
        tmp_path,
        command=command,
        sessionMode="iterative",
        resume=None,
        prompt={"flag": ""},
        outputMode="text",
        outputEvents=None,
        result=None,
    )
    run_schema(path, "one", "two", "three")
    assert (tmp_path / "said-2").read_text() == (
        "User: one\nAssistant: answer 1\n\nUser: two\nAssistant: answer 2\n\nUser: three"
    )


def test_a_bundled_schema_by_name(tmp_path: Path) -> None:
    """`-s claude` runs whatever claude is on PATH."""
    (tmp_path / "bin").mkdir()
    python_script(tmp_path / "bin" / "claude", ECHO_ARGV)
    path = f"{tmp_path / 'bin'}:/usr/bin:/bin"
    done = run("ae-run", "-s", "claude", stdin=prompts("hi"), cwd=tmp_path, env={"PATH": path}).expect(0)
    argv = json.loads(done.records[0]["rawLines"][0])["argv"]
    assert argv[:2] == ["--output-format", "stream-json"]
    assert "-p" in argv
    assert argv[-2:] == ["--", "hi"]
    missing = run("ae-run", "-s", "claude", stdin=prompts("hi"), cwd=tmp_path, env={"PATH": "/usr/bin:/bin"}).expect(2)
    missing.says("claude", "PATH")


def test_a_wrong_schema_is_refused_at_start(tmp_path: Path) -> None:
    path = schema(tmp_path, sessionMode="sometimes")
    run("ae-run", "-s", path, stdin=prompts("x"), cwd=tmp_path).expect(2).says(
        "schema.json", "sessionMode", "iterative"
    )


# --- progress -------------------------------------------------------------------------------------


def test_progress_lines_on_request(tmp_path: Path) -> None:
    file = write(tmp_path / "p", {"id": "a", "input": "0"}, {"id": "b", "input": "1"})
    done = shell("exit $PROMPT", file, "--progress", stdin="", cwd=tmp_path).expect(0)
    assert done.messages[:2] == ["ae-run: [1/2] a", "ae-run: [2/2] b: agent failed"]


def test_records_appear_in_the_file_as_they_are_done(tmp_path: Path) -> None:
    out = tmp_path / "raw"
    with Running("ae-run", "--shell", "sleep $PROMPT", "-o", out, "-j", 2, cwd=tmp_path) as tool:
        tool.feed({"id": "slow", "input": "30"}, {"id": "quick", "input": "0"})
        until(lambda: [one["id"] for one in written(out)] == ["quick"], "the quick one's record is in the file")
        with out.open() as file, pytest.raises(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        tool.signal(2)
        tool.end().expect(130)  # before the slow one is done
