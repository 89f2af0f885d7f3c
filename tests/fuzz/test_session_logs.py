"""Logs that programs have really written, mutated: ae-import ends without an internal error, and other logs stay."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenteval.adapters.sessions.logs import log_files, session_results
from agenteval.adapters.sessions.schema import load_session_schema, session_formats
from agenteval.streams.console import Console
from tests.adapters.test_sessions import SESSIONS, as_left
from tests.fuzz.checks import examples
from tests.support.mutants import ODD, paths


class Faultless(Console):
    """Reports nothing, and fails if something unexpected is reported."""

    def refuse(self, where: str, why: str, what: str = "refused line") -> None:
        self.refused += 1

    def fault(self, where: str, error: Exception) -> str:
        raise AssertionError(f"{where}: an internal error") from error


def mutated(data: bytes, rng: random.Random) -> bytes:
    """Returns a log with a few lines lost, doubled, cut off or changed in one place."""
    lines = data.split(b"\n") if data.startswith(b"{") else [data]
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(lines))
        how = rng.choice(["lose", "double", "cut", "flip", "change", "move"])
        if how == "lose":
            lines[at] = b""
        elif how == "double":
            lines.insert(at, lines[at])
        elif how == "cut":
            lines[at] = lines[at][: rng.randint(0, len(lines[at]))]
        elif how == "flip" and lines[at]:
            place = rng.randrange(len(lines[at]))
            lines[at] = lines[at][:place] + bytes([rng.randrange(256)]) + lines[at][place + 1 :]
        elif how == "move":
            lines.append(lines.pop(at))
        elif how == "change":
            lines[at] = _changed(lines[at], rng)
    return b"\n".join(lines)


def _changed(line: bytes, rng: random.Random) -> bytes:
    """Returns a line of JSON with an odd value in one place."""
    try:
        value = json.loads(line)
        places = [path for path in paths(value) if path]
        *way, last = rng.choice(places)
        inner = value
        for step in way:
            inner = inner[step]
        inner[last] = rng.choice(ODD)
        return json.dumps(value).encode()
    except (ValueError, IndexError, TypeError, KeyError, RecursionError):
        return line


@pytest.mark.parametrize("program", session_formats())
def test_mutated_logs(program: str, tmp_path: Path) -> None:
    folder = as_left(SESSIONS / program, tmp_path / "logs")
    schema = load_session_schema(program)
    files = [Path(file) for file in log_files(str(folder), schema)]
    whole = {file: file.read_bytes() for file in files}

    @examples(5, 300)
    @given(st.integers(0, 1 << 32))
    def check(seed: int) -> None:
        rng = random.Random(seed)
        victim = rng.choice(files)
        victim.write_bytes(mutated(whole[victim], rng))
        try:
            list(session_results([str(folder)], schema, Faultless("ae-import", progress=False)))
        finally:
            victim.write_bytes(whole[victim])

    check()
