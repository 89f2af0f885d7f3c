"""The file of -o: when what was in it goes, and when it stays."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from agenteval.errors import CannotGoOn
from agenteval.streams.output import Output

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
