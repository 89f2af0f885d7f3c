"""The file of -o: when what was in it goes, and when it stays."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from agenteval.errors import CannotGoOn, UserError
from agenteval.streams.output import Output
from tests.support.tool import run

Step = Callable[[Output], None]


@pytest.mark.parametrize(
    ("step", "append", "left"),
    [
        (lambda output: None, False, b"old\n"),
        (Output.begin, False, b""),
        (Output.close, False, b""),
        (lambda output: output.write({}), False, b"{}\n"),
        (Output.abandon, False, b"old\n"),
        (Output.begin, True, b"old\n"),
        (lambda output: output.write({}), True, b"old\n{}\n"),
    ],
    ids=["open", "begin", "close", "write", "abandon", "append-begin", "append-write"],
)
def test_a_file_is_kept_until_the_work_begins(step: Step, append: bool, left: bytes, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"old\n")
    step(Output(str(file), append=append))
    assert file.read_bytes() == left


@pytest.mark.parametrize("written", [False, True])
def test_a_new_file_goes_if_nothing_was_written(written: bool, tmp_path: Path) -> None:
    output = Output(str(tmp_path / "new"))
    if written:
        output.write({})
    output.abandon()
    assert (tmp_path / "new").exists() == written


def test_a_file_that_is_removed_while_it_is_synced_is_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sync of a busy disk takes seconds: what happens to the file meanwhile is noticed, too."""
    file = tmp_path / "file"
    output = Output(str(file))
    output.durable = True
    output.write({})
    synced = []

    def remove(fd: int) -> None:
        synced.append(os.fstat(fd).st_size)
        if len(synced) == 1:
            file.unlink()

    monkeypatch.setattr(os, "fdatasync", remove)
    with pytest.raises(CannotGoOn, match="was removed or replaced during the run: its records are in "):
        output.close()
    assert file.read_bytes() == b"{}\n"
    assert synced == [3, 3], "what was restored is on the disk, too"


def test_what_others_write_into_the_file_is_told_apart(tmp_path: Path) -> None:
    """An agent appends records of its own, also between a look at the file and the next write: exit 1, all named."""
    file = tmp_path / "out.jsonl"
    file.write_bytes(b'{"id":"old"}\n')
    output = Output(str(file), append=True)
    for number in range(3):
        output.write({"id": number})
        with file.open("ab") as other:
            other.write(b'{"id":"forged"}\n')
    with pytest.raises(CannotGoOn, match=r"out.jsonl was written to by another program.* in .*out.jsonl.recovered$"):
        output.close()
    assert (tmp_path / "out.jsonl.recovered").read_bytes() == b'{"id":"old"}\n{"id":0}\n{"id":1}\n{"id":2}\n'
    assert file.read_bytes().count(b"forged") == 3, "nothing is removed"


def test_two_runs_into_one_file_without_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file system without locks lets a second tool in: both notice, and each has a file of its own."""

    def no_locks(_fd: int, _operation: int) -> None:
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(fcntl, "flock", no_locks)
    first, second = (Output(str(tmp_path / "out.jsonl")) for _ in range(2))
    first.begin()
    second.begin()
    for number in range(3):
        first.write({"first": number})
        second.write({"second": number})
    for output, name, suffix in ((first, b"first", ""), (second, b"second", ".2")):
        with pytest.raises(CannotGoOn, match="another program"):
            output.close()
        lines = (tmp_path / f"out.jsonl.recovered{suffix}").read_bytes().splitlines()
        assert lines == [b'{"%b":%d}' % (name, number) for number in range(3)]


@pytest.mark.parametrize("mode", ["wb", "ab"])
def test_dev_stdout_is_written_through(mode: str, tmp_path: Path) -> None:
    """What /dev/stdout and links to it name is another program's: never emptied, locked, watched or replaced."""
    (tmp_path / "link").symlink_to("/dev/stdout")
    (tmp_path / "loop").symlink_to("loop")
    code = (
        "import sys; from agenteval.streams.output import Output; out = Output(sys.argv[1]); out.write({}); out.close()"
    )
    for name in ("/dev/stdout", "/proc/self/fd/1", str(tmp_path / "link")):
        log = tmp_path / "log"
        log.write_bytes(b"before\n")
        with log.open(mode) as stdout:
            subprocess.run([sys.executable, "-c", f"import sys; {code}", name], stdout=stdout, check=True)
        assert log.read_bytes() == (b"before\n{}\n" if mode == "ab" else b"{}\n"), name
        with log.open(mode) as stdout:  # it may hold records, as with >> and without -o
            run("ae-run", "--simple", "echo {}", "-o", name, stdin='{"id":"a","input":"x"}', stdout=stdout).expect(0)
        found = log.read_bytes()
        assert b'"id":"a"' in found and found.startswith(b"before" if mode == "ab" else b"{"), name
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "log", "loop"]
    with pytest.raises(UserError, match="loop: Too many levels"):
        Output(str(tmp_path / "loop"))
