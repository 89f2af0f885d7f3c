"""Each agent has a TMPDIR of its own, of which nothing is left when its prompt ends."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import stat
import tempfile
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from threading import Thread

import pytest

from agenteval.processes.scratch import Scratch
from tests.support.tool import Record, jsonl, run
from tests.support.watching import Running, expect_gone, marked, sleepers, until

LITTER = 'echo "$TMPDIR"; mkdir -p "$TMPDIR/deep/er"; echo x > "$TMPDIR/deep/er/file"; chmod 555 "$TMPDIR/deep"; '


@pytest.fixture
def base(tmp_path: Path) -> Iterator[Path]:
    """The user's own TMPDIR, in which nothing may be left."""
    folder = tmp_path / "tmp"
    folder.mkdir()
    yield folder
    assert list(folder.iterdir()) == []


def capture(base: Path, line: str, *options: object, prompts: list[Record] | None = None) -> list[Record]:
    given = jsonl(*(prompts or [{"id": "a", "input": "x"}]))
    env = {"TMPDIR": str(base)}
    return run("ae-run", *options, "--shell", line, stdin=given, cwd=base.parent, env=env).expect(0).records


def test_each_prompt_has_its_own_and_its_turns_share_it(base: Path) -> None:
    seen = f'ls -d "$TMPDIR"/deep >> {base.parent}/seen; '
    prompts: list[Record] = [{"id": "a", "input": ["x", "y"]}, {"id": "b", "input": "x"}]
    first, second = capture(base, LITTER + seen, "-j", "2", "--keep-order", prompts=prompts)
    assert first["rawLines"][0] == first["rawLines"][1] != second["rawLines"][0]
    for path in {*first["rawLines"], *second["rawLines"]}:
        assert path.startswith(f"{base}/") and len(path) <= len(str(base)) + 30, "a socket in it needs a short name"
        assert not os.path.lexists(path)
    assert len((base.parent / "seen").read_text().split()) == 3


def test_a_new_one_for_each_try(base: Path) -> None:
    line = LITTER + f'[ -e {base.parent}/again ] || {{ touch {base.parent}/again; echo "rate limit" >&2; exit 1; }}'
    (record,) = capture(base, f'{line}; ls "$TMPDIR"', "--retries", "1")
    assert record["attempts"] == 2 and "errors" not in record


def test_what_is_left_after_a_timeout_and_by_a_child_that_outlives_its_agent(base: Path) -> None:
    with marked() as mark:
        (record,) = capture(base, LITTER + f"sleep {mark}", "-t", "500")
        assert record["timedOut"]
        stays = (
            f'(trap "" HUP TERM; while touch "$TMPDIR/$(date +%N)"; do sleep 0.01; done; sleep {mark}) > /dev/null &'
        )
        (record,) = capture(base, LITTER + stays)
        assert "errors" not in record
        expect_gone(mark)


@pytest.mark.parametrize("signum", [signal.SIGKILL, signal.SIGTERM])
def test_what_is_left_when_the_tool_is_killed(signum: int, base: Path) -> None:
    with marked() as mark:
        line, env = LITTER + f"sleep {mark}", {"TMPDIR": str(base)}
        with Running("ae-run", "--shell", line, cwd=base.parent, env=env) as tool:
            tool.feed({"id": "a", "input": "x"})
            until(lambda: sleepers(mark), "the agent has left its files")
            assert list(base.glob("*/1/deep/er/file"))
            tool.signal(signum)
            tool.process.wait()
        until(lambda: not list(base.iterdir()), "the guardian has removed it")


def test_the_next_tool_removes_what_is_abandoned_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = tmp_path / "base"
    names = ("agenteval-dead", "agenteval-used", "agenteval-new", "agenteval-link", "other")
    for name in names[:3]:
        (base / name / "1").mkdir(parents=True)
    (base / "other").mkdir()
    (base / "other" / "lock").touch()
    (base / "agenteval-link").symlink_to("other")
    for name in names[:2]:
        (base / name / "lock").touch()
    monkeypatch.setattr(tempfile, "tempdir", str(base))
    announced: list[str] = []
    with (base / "agenteval-used" / "lock").open() as used:
        fcntl.flock(used, fcntl.LOCK_EX)
        scratch = Scratch(announced.append)
        mine = Path(scratch.new_directory())
        assert [str(mine.parent)] == announced
        until(
            lambda: not any("_remove_abandoned" in thread.name for thread in threading.enumerate()),
            "the end of the cleaning",
        )
        assert sorted(path.name for path in base.iterdir()) == sorted([*names[1:], mine.parent.name])
        other = Scratch(announced.append)
        other.new_name()
        assert mine.exists(), "its owner is alive"
        other.remove()
    assert stat.S_IMODE(mine.stat().st_mode) == 0o1777 and stat.S_IMODE(mine.parent.stat().st_mode) == 0o711
    scratch.remove()
    assert sorted(path.name for path in base.iterdir()) == sorted(names[1:])


@pytest.mark.parametrize(
    "line",
    ["true", 'touch "$TMPDIR/.x"', 'chmod 700 "$TMPDIR"', 'rmdir "$TMPDIR"', 'rmdir "$TMPDIR"; ln -s / "$TMPDIR"'],
)
def test_whatever_an_agent_did_to_its_own_the_next_one_is_empty(base: Path, line: str) -> None:
    shown = 'ls -A "$TMPDIR"; stat -c %a%F "$TMPDIR"; '
    first, second = capture(base, shown + line, prompts=[{"id": "a", "input": "x"}, {"id": "b", "input": "x"}])
    assert first["rawLines"] == second["rawLines"] == ["1777directory"]


def test_a_directory_that_an_agent_has_removed_is_made_again(base: Path) -> None:
    line = f'[ -d "$TMPDIR" ] && rm -rf {base}/*'
    first, second = capture(base, line, prompts=[{"id": "a", "input": "x"}, {"id": "b", "input": "x"}])
    assert "errors" not in first and "errors" not in second


def test_the_users_own_choice_counts(base: Path, tmp_path: Path) -> None:
    (record,) = capture(base, 'echo "$TMPDIR"', "--env", f"TMPDIR={tmp_path}")
    assert record["rawLines"] == [str(tmp_path)]
    (record,) = capture(base, 'echo "$TMPDIR"', "--clean-env")
    assert record["rawLines"][0].startswith(f"{base}/agenteval-")
    schema = {"version": 1, "name": "mine", "command": ["sh", "-c", 'echo "$TMPDIR"'], "sessionMode": "iterative"}
    path = tmp_path / "mine.json"
    path.write_text(
        json.dumps({**schema, "prompt": {"flag": ""}, "outputMode": "text", "env": {"TMPDIR": "/elsewhere"}})
    )
    prompts, env = jsonl({"id": "a", "input": "x"}), {"TMPDIR": str(base)}
    (record,) = run("ae-run", "-s", path, stdin=prompts, cwd=tmp_path, env=env).expect(0).records
    assert record["rawLines"] == ["/elsewhere"]
    (start,) = run("ae-run", "--shell", "true", "--dry-run", stdin=prompts, cwd=tmp_path).expect(0).records
    assert {"TMPDIR", "TMUX_TMPDIR"} <= {*start["env"]}


def test_agents_do_not_share_the_sockets_of_tmux(base: Path, tmp_path: Path) -> None:
    shown = 'echo "$TMPDIR"; echo "$TMUX_TMPDIR"'
    (record,) = capture(base, shown)
    assert record["rawLines"][0].startswith(f"{base}/agenteval-") and record["rawLines"][1] == record["rawLines"][0]
    (record,) = capture(base, shown, "--env", f"TMUX_TMPDIR={tmp_path}")
    assert record["rawLines"][0].startswith(f"{base}/agenteval-") and record["rawLines"][1] == str(tmp_path)


def test_a_directory_that_was_given_back_is_lent_again_unless_something_else_is_in_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    scratch = Scratch(lambda _path: None)
    first = Path(scratch.new_directory())
    scratch.give_back(str(first))
    assert scratch.new_directory() == str(first)
    scratch.give_back(str(first))
    first.rmdir()
    first.symlink_to("/")
    second = Path(scratch.new_directory())
    assert second != first and second.is_dir() and not list(second.iterdir())
    scratch.remove()
    assert not list(tmp_path.iterdir())


def test_a_directory_is_announced_before_it_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tool that is killed in between leaves nothing."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    there: list[bool] = []
    scratch = Scratch(lambda path: there.append(os.path.exists(path)))
    made = Path(scratch.new_directory())
    assert there == [False] and made.is_dir()
    scratch.remove()
    assert not list(tmp_path.iterdir())


def test_a_directory_that_was_removed_is_not_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not for a thread that has not noticed yet that the tool ends: the guardian, which was dismissed, would wait."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    announced: list[str] = []
    for used in (True, False):
        scratch = Scratch(announced.append)
        if used:
            scratch.new_directory()
        scratch.remove()
        with pytest.raises(OSError, match="ending"):
            scratch.new_directory()
    assert len(announced) == 1 and not list(tmp_path.iterdir())


def test_nothing_is_left_that_a_thread_makes_while_all_is_removed(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(base))

    def make_directories(scratch: Scratch) -> None:
        with suppress(OSError):  # as it is no longer there
            while True:
                scratch.new_directory()

    for _ in range(20):
        scratch = Scratch(lambda _path: None)
        threads = [Thread(target=make_directories, args=[scratch]) for _ in range(3)]
        for thread in threads:
            thread.start()
        until(lambda: any(base.glob("*/9")), "directories are made")
        scratch.remove()
        for thread in threads:
            thread.join()
        assert list(base.iterdir()) == []
