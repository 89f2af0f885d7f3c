"""What happens before a tool has parsed its arguments: imports, the garbage collector; and unknown options."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.support.tool import ROOT, run

COLLECTOR = """\
import gc, signal, sys
sys.argv[0] = sys.argv[1]
import agenteval.cli.tool
print(gc.isenabled(), signal.getsignal(signal.SIGINT) is signal.default_int_handler)
"""


@pytest.mark.parametrize(("program", "untouched"), [("/usr/bin/ae-run", False), ("program-of-a-user", True)])
def test_only_a_tool_pauses_the_collector_and_handles_interrupts(program: str, untouched: bool) -> None:
    done = subprocess.run([sys.executable, "-c", COLLECTOR, program], cwd=ROOT, capture_output=True, text=True)
    assert done.stdout.split() == [str(untouched), str(untouched)], done.stderr


@pytest.mark.parametrize(
    "typed, similar", [("--stlye", "--style"), ("--outptu=x", "--output"), ("--zzzzzz", None), ("-z", None)]
)
def test_unknown_option_and_a_similar_one(typed: str, similar: str | None) -> None:
    message = run("ae-format", typed).expect(2).says("No such option", typed.partition("=")[0])
    assert ("Did you mean" in message) == bool(similar) and (similar or "") in message, message
