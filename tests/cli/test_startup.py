"""The start-up tricks, with the Click and msgspec that are installed; `make test-lowest` runs it with the lowest."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
from importlib.metadata import version

import pytest

from agenteval.cli.startup import cleandoc
from tests.support.tool import ROOT, jsonl, run

STAND_INS = (
    *("inspect", "gettext", "platform", "typing_extensions", "dataclasses", "zoneinfo"),
    *("datetime", "decimal", "threading", "uuid", "weakref", "click.termui"),
    *("msgspec.inspect", "msgspec._json_schema", "msgspec.msgpack", "msgspec.toml", "msgspec.yaml"),
)
IMPORTED = ("click", "msgspec", "orjson")
NOT_NEEDED = ("difflib", "textwrap", "signal", "fcntl")


def is_older(package: str, major: int, minor: int) -> bool:
    """Returns whether an older version is installed: `make test-lowest`."""
    return tuple(map(int, version(package).split(".")[:2])) < (major, minor)


# Click 8.1 looks for options like `-s` among the long ones, and msgspec 0.19 has its version in JSON.
BY_PACKAGES = [
    name for name, old in (("difflib", is_older("click", 8, 2)), ("json", is_older("msgspec", 0, 20))) if old
]
FOUND = """\
import sys, typing
sys.argv[0] = "/usr/bin/ae-extract"
typed_dict = typing.TypedDict
import agenteval.cli.tools.extract
found = [name for name in sys.argv[1:] if name in sys.modules]
import msgspec
assert msgspec.json.schema(int) == {"type": "integer"} and msgspec.inspect.type_info(int) == msgspec.inspect.IntType()
assert msgspec.toml.decode("a = 1") == {"a": 1} and typing.TypedDict is typed_dict
import click, json, inspect, gettext, platform, typing_extensions, dataclasses, zoneinfo
import datetime, decimal, msgspec.msgpack, msgspec.yaml, signal, threading, uuid, weakref
made_here = [name for name in sys.argv[1:] if name in sys.modules and sys.modules[name].__spec__ is None]
assert click.style("x", fg="red") == "\\x1b[31mx\\x1b[0m" and click.termui.style("x") == "x\\x1b[0m"
print(json.dumps({"found": found, "made here": made_here, "late": click.core.inspect.isfunction(print)}))
"""


def test_nothing_is_left_of_the_stand_ins_and_nothing_they_stand_for_is_imported() -> None:
    names = (*IMPORTED, *NOT_NEEDED, *STAND_INS)
    done = subprocess.run([sys.executable, "-c", FOUND, *names], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    late = False  # an answer of the real inspect.isfunction
    assert json.loads(done.stdout) == {"found": list(IMPORTED), "made here": [], "late": late}


# What a plain run does without, each a millisecond or more with what it imports itself.
EXTRACT = ("agenteval.streams.text", "agenteval.streams.watched_file", "agenteval.streams.written", "threading")
RUN = ("agenteval.adapters.reader", "agenteval.agents.workspace_git", "agenteval.streams.written", "shlex")
GRADE = (
    "agenteval.agents.kinds",
    "agenteval.comparison.ranking",
    "agenteval.wire.comparison",
    "agenteval.streams.written",
)
ALWAYS = ("_hashlib", "datetime", "decimal", "difflib", "inspect", "json", "uuid")
PROMPT = {"id": "a", "input": "hello"}
RAW = {**PROMPT, "rawLines": ['{"type":"result","result":"hi"}'], "timing": {"start": 0, "end": 1}}
RESULT = {**PROMPT, "output": "hi", "trajectory": []}


@pytest.mark.parametrize(
    ("tool", "arguments", "record", "others"),
    [
        ("ae-extract", ["-s", "claude"], RAW, EXTRACT),
        ("ae-run", ["--simple", "echo {}"], PROMPT, RUN),
        ("ae-grade", ["-g", """echo '{"pass":true,"score":1}'"""], RESULT, GRADE),
    ],
)
def test_modules_that_a_plain_run_does_not_import(
    tool: str, arguments: list[str], record: object, others: tuple[str, ...]
) -> None:
    done = run(tool, *arguments, stdin=jsonl(record), env={"PYTHONPROFILEIMPORTTIME": "1"}).expect(0)
    imported = {line.rpartition("|")[2].strip() for line in done.messages if line.startswith("import time:")}
    assert "agenteval.cli.tools." + tool.removeprefix("ae-") in imported and len(done.records) == 1
    assert imported & {*ALWAYS, *others} - {*BY_PACKAGES} == set()


WHOLE = """\
import agenteval.cli.tools.extract
import dataclasses, decimal, msgspec, orjson, uuid
values = [decimal.Decimal(1), uuid.UUID(int=1)]
print(msgspec.json.encode(values) == b'["1","00000000-0000-0000-0000-000000000001"]')
print(orjson.dumps(dataclasses.make_dataclass("Point", ["x"])(1)) == b'{"x":1}')
"""


def test_a_program_that_imports_a_tool_gets_whole_packages() -> None:
    done = subprocess.run([sys.executable, "-c", WHOLE], cwd=ROOT, capture_output=True, text=True)
    assert done.stdout.split() == ["True", "True"], done.stderr


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
