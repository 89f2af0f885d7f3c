"""Finds executables: the suite's own tools with their jobs, and plug-ins, which are any other `ae-*` on PATH.

Nothing is imported or run for it: `ae` starts before every tool, and TAB asks often.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable

HERE = os.path.dirname(os.path.abspath(__file__))
PREFIX = "ae-"


def places() -> list[str]:
    """Returns the directories of executables: the one of this program, then those of PATH."""
    beside = os.path.dirname(os.path.realpath(sys.argv[0]))
    path = [entry or os.curdir for entry in os.environ.get("PATH", os.defpath).split(os.pathsep)]
    return list(dict.fromkeys([beside, *path]))


def find(name: str, directories: Iterable[str]) -> str | None:
    """Returns the path of the first executable file of that name, or None."""
    if os.sep in name:
        return None
    paths = (os.path.join(directory, name) for directory in directories)
    return next((path for path in paths if _is_executable(path)), None)


def own_tools(*folders: str) -> dict[str, str]:
    """Returns each tool's name and job, from the first line of its file; the folders are tools and graders."""
    jobs = {}
    for folder in folders or ("tools", "graders"):
        for file in sorted(os.listdir(os.path.join(HERE, folder))):
            if file.endswith(".py"):
                with open(os.path.join(HERE, folder, file), encoding="utf-8") as source:
                    name, _, job = source.readline().strip().strip('"').partition(": ")
                if name.startswith(PREFIX):
                    jobs[name] = job.removesuffix(".")
    return jobs


def plug_ins(directories: Iterable[str]) -> dict[str, str]:
    """Returns name and path of every other ae-*, sorted; the first of one name is the one that runs."""
    own = own_tools()
    found: dict[str, str] = {}
    for directory in directories:
        for name in _names_in(directory):
            path = os.path.join(directory, name)
            if name.startswith(PREFIX) and name.isprintable() and name not in own and _is_executable(path):
                found.setdefault(name, path)
    return dict(sorted(found.items()))


def _names_in(directory: str) -> list[str]:
    try:
        return os.listdir(directory)
    except OSError:
        return []


def _is_executable(path: str) -> bool:
    return os.path.isfile(path) and os.access(path, os.X_OK)
