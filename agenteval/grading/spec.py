"""A grader as the user named it: `[NAME=]GRADER` → what to start and how to talk to it."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from collections.abc import Container, Iterable

import msgspec

from agenteval.errors import UserError
from agenteval.processes.process import find_program

HOSTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "hosts")
JAVASCRIPT = (".js", ".mjs", ".cjs", ".ts", ".mts")
TYPESCRIPT = (".ts", ".mts")
PREFIX = "ae-grader-"


class GraderSpec(msgspec.Struct, frozen=True):
    """A grader as the user named it."""

    name: str
    named: bool  # the user chose the name
    program: str
    argv: list[str]
    streams: bool  # one process for many records
    hosted: bool  # a function that one of our hosts loads and calls
    bundled: bool  # comes with the suite

    @property
    def trusted(self) -> bool:
        """Whether it answers each record with exactly one line."""
        return self.hosted or self.bundled


class _Resolved(msgspec.Struct, frozen=True):
    program: str
    argv: list[str]
    streams: bool
    hosted: bool = False


def grader_specs(texts: Iterable[str], *, stream: bool, bundled: Container[str]) -> list[GraderSpec]:
    """Returns the graders that the user named; raises UserError if one is none or two have the same name."""
    specs = [parse_grader(text, stream=stream, bundled=bundled) for text in texts]
    names = [spec.name for spec in specs]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise UserError(f'two graders are called "{twice}"; tell them apart with -g NAME=GRADER')
    return specs


def parse_grader(text: str, *, stream: bool, bundled: Container[str]) -> GraderSpec:
    """Returns the grader that `[NAME=]GRADER` means; raises UserError if there is no such grader.

    `bundled` are the names of the graders that come with the suite; they are streamed without being asked.
    """
    found = re.match(r"^([A-Za-z][\w-]*)=(.+)$", text, re.DOTALL)
    name, reference = (found[1], found[2]) if found else (None, text)
    if os.path.isfile(reference):
        words = [reference]
    else:
        try:
            words = shlex.split(reference)
        except ValueError as error:
            raise UserError(f"-g {text}: {error}") from None
    if not words:
        raise UserError("-g: name a grader")
    is_bundled = words[0] in bundled
    if is_bundled:
        resolved = _Resolved(find_program(words[0]), words, streams=True)
    else:
        resolved = _resolve(words, stream)
    stem = os.path.basename(words[0]).removeprefix(PREFIX)
    default = re.sub(r"\.\w+$", "", stem).rpartition(":")[2] or stem
    return GraderSpec(
        name or default,
        name is not None,
        resolved.program,
        resolved.argv,
        streams=resolved.streams,
        hosted=resolved.hosted,
        bundled=is_bundled,
    )


def _resolve(words: list[str], stream: bool) -> _Resolved:
    """Returns what to start for a grader and its arguments."""
    head = words[0]
    if len(words) > 1 and os.path.isfile(head) and head.endswith((".py", *JAVASCRIPT)) and not os.access(head, os.X_OK):
        raise UserError(f"-g {head}: a grader that is loaded takes no arguments; make it executable to give it some")
    if head.endswith(JAVASCRIPT) and os.path.isfile(head):
        runtime = _javascript_runtime(head)
        argv = [runtime, os.path.join(HOSTS, "javascript.mjs"), os.path.abspath(head)]
        return _Resolved(runtime, argv, streams=True, hosted=True)
    is_file = head.endswith(".py") and os.path.isfile(head) and not os.access(head, os.X_OK)
    if is_file or re.match(r"^[\w.]+:\w+$", head):
        argv = [sys.executable, "-P", os.path.join(HOSTS, "python.py"), os.path.abspath(head) if is_file else head]
        return _Resolved(sys.executable, argv, streams=True, hosted=True)
    if "/" not in head and os.path.isfile(head):
        head = os.path.join(".", head)  # a file in this directory comes before one on PATH, as with sh grader.sh
    return _Resolved(find_program(head), words, stream)


def _javascript_runtime(path: str) -> str:
    if bun := shutil.which("bun"):
        return os.path.abspath(bun)
    node = shutil.which("node")
    if node and not path.endswith(TYPESCRIPT):
        return os.path.abspath(node)
    wanted = "bun" if path.endswith(TYPESCRIPT) else "bun or node"
    raise UserError(f"{path}: needs {wanted}, and none is on PATH")
