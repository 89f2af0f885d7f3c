"""Logs that programs have really written, mutated: ae-import ends without an internal error, and other logs stay."""

from __future__ import annotations

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
from tests.support.mutants import mutated_lines


class Faultless(Console):
    """Reports nothing, and fails if something unexpected is reported."""

    def refuse(self, where: str, why: str, what: str = "refused line") -> None:
        self.refused += 1

    def fault(self, where: str, error: Exception) -> str:
        raise AssertionError(f"{where}: an internal error") from error


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
        victim.write_bytes(mutated_lines(whole[victim], rng))
        try:
            list(session_results([str(folder)], schema, Faultless("ae-import", progress=False)))
        finally:
            victim.write_bytes(whole[victim])

    check()
