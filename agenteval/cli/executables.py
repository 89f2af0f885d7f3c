"""Finds executables: the suite's own tools with their jobs, and plug-ins, which are all other `ae-*` on PATH.

No tool is imported or run: the job of a tool is in the first line of its file.
"""

import glob
import os
import sys
from collections.abc import Iterable

HERE = os.path.dirname(os.path.abspath(__file__))
PREFIX = "ae-"


def search_path() -> list[str]:
    """Returns the directories of executables: the one of this program, then those of PATH."""
    beside = os.path.dirname(os.path.realpath(sys.argv[0]))
    return list(dict.fromkeys([beside, *(entry or os.curdir for entry in os.get_exec_path())]))


def own_tools(*folders: str) -> dict[str, str]:
    """Returns the name and job of each tool of the suite, in these folders or else in both."""
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
    """Returns name and path of every other ae-*, sorted; the first of each name, which a shell would run."""
    own = own_tools()
    found: dict[str, str] = {}
    for directory in directories:
        for path in sorted(glob.glob(os.path.join(glob.escape(directory), f"{PREFIX}*"))):
            name = os.path.basename(path)
            if name.isprintable() and name not in own and os.path.isfile(path) and os.access(path, os.X_OK):
                found.setdefault(name, path)
    return dict(sorted(found.items()))
