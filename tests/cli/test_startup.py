"""The start-up tricks, with the Click and msgspec that are installed; `make test-lowest` runs it with the lowest."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys

import pytest

from agenteval.cli.startup import cleandoc
from tests.support.tool import ROOT, run

STAND_INS = (
    *("inspect", "gettext", "platform", "typing_extensions", "dataclasses", "zoneinfo"),
    *("msgspec.inspect", "msgspec._json_schema"),
)
FOUND = """\
import sys
import agenteval.cli.tools.format
looked_for = ("click", "msgspec", "orjson", "difflib", "json", "textwrap", *sys.argv[1:])
found = {name: name in sys.modules for name in looked_for}
import json, msgspec
assert msgspec.json.schema(int) == {"type": "integer"} and msgspec.inspect.type_info(int) == msgspec.inspect.IntType()
import click, inspect, gettext, platform, typing_extensions, dataclasses, zoneinfo
real = {name: sys.modules[name].__spec__ is not None for name in sys.argv[1:]}
print(json.dumps({"found": found, "real": real, "late": click.core.inspect.isfunction(print)}))
"""


def test_nothing_is_left_of_the_stand_ins_and_nothing_they_stand_for_is_imported() -> None:
    done = subprocess.run([sys.executable, "-c", FOUND, *STAND_INS], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "found": {
            "click": True,
            "msgspec": True,
            "orjson": True,
            "difflib": False,
            "json": False,
            "textwrap": False,
            **dict.fromkeys(STAND_INS, False),
        },
        "real": dict.fromkeys(STAND_INS, True),
        "late": False,  # an answer of the real inspect.isfunction
    }


COLLECTOR = """\
import gc, sys
sys.argv[0] = sys.argv[1]
from agenteval.cli.startup import resume_collector
paused = not gc.isenabled()
resume_collector()
print(paused, gc.isenabled(), gc.get_threshold()[0], gc.get_freeze_count() > 0)
"""


@pytest.mark.parametrize(("program", "paused"), [("/usr/bin/ae-run", True), ("program-of-a-user", False)])
def test_the_collector_is_off_while_a_tool_is_imported(program: str, paused: bool) -> None:
    done = subprocess.run([sys.executable, "-c", COLLECTOR, program], cwd=ROOT, capture_output=True, text=True)
    assert done.stdout.split() == [str(paused), "True", "50000", "True"], done.stderr


@pytest.mark.parametrize(
    "text",
    [
        "",
        "one",
        "  one",
        "one\n\n    two\n      three\n    ",
        "\n    one\n\n    two\n",
        "one\n",
        "\n",
        "one\n  \n    two",
    ],
)
def test_cleandoc_is_that_of_inspect(text: str) -> None:
    assert cleandoc(text) == inspect.cleandoc(text)


@pytest.mark.parametrize(
    "typed, similar", [("--stlye", "--style"), ("--outptu=x", "--output"), ("--zzzzzz", None), ("-z", None)]
)
def test_unknown_option_and_a_similar_one(typed: str, similar: str | None) -> None:
    message = run("ae-format", typed).expect(2).says("No such option", typed.partition("=")[0])
    hint = f" Did you mean {similar}?" if similar else ""
    assert message.endswith(f"{hint} (try 'ae-format --help')") and ("Did you mean" in message) == bool(similar)
