"""Find programs: on PATH, or beside this interpreter for the suite's own."""

from __future__ import annotations

import os
import sys

from agenteval.errors import UserError


def find_program(name: str) -> str:
    """Returns the absolute path of a command; raises UserError if there is none."""
    if not name:
        raise UserError("the command to run is empty")
    if "/" in name:
        if not os.path.isfile(name):
            raise UserError(f"{name}: {'is a directory' if os.path.isdir(name) else 'no such command'}")
        if not os.access(name, os.X_OK):
            raise UserError(f"{name}: not executable (chmod +x {name})")
        return os.path.abspath(name)
    beside = os.path.join(os.path.dirname(sys.executable), name)
    # A tool of the suite is the one installed with this one, whatever is on PATH.
    found = beside if name.startswith("ae-") and os.access(beside, os.X_OK) else on_path(name)
    if found is None:
        raise UserError(f"{name}: command not found; is it installed and on PATH?")
    return os.path.abspath(found)


def on_path(name: str) -> str | None:
    """Returns where PATH has a command, as shutil.which does, which takes longer to import than all of this module."""
    paths = (os.path.join(folder, name) for folder in os.get_exec_path())
    return next((path for path in paths if os.access(path, os.X_OK) and not os.path.isdir(path)), None)
