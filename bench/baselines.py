"""The programs that the suite is measured against; installed into the scratch folder if missing."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from functools import cache

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SCRATCH = os.path.join(ROOT, ".scratch", "bench")
PACKAGES = ("@plaited/agent-eval-harness@0.12.2", "bun")
MODULES = os.path.join(SCRATCH, "node_modules")
BUN = os.path.join(MODULES, "bun", "bin", "bun.exe")  # the binary itself, on Linux too: no wrapper to pay for
HARNESS = os.path.join(MODULES, "@plaited", "agent-eval-harness", "bin", "cli.ts")
ORJSON = os.path.join(SCRATCH, "orjson")


def missing() -> list[str]:
    """Returns one line for each program that is not available, with the reason."""
    return [problem for problem in (_install_harness(), _install_orjson()) if problem]


def has_harness() -> bool:
    """Returns whether agent-eval-harness is available; installs it first if necessary."""
    return not _install_harness()


def has_orjson() -> bool:
    """Returns whether orjson is available; installs it first if necessary."""
    return not _install_orjson()


def tool(name: str) -> str:
    """Returns the installed executable of a tool, not its launcher in bin/."""
    return os.path.join(ROOT, ".venv", "bin", name)


def harness(command: str, *arguments: str) -> list[str]:
    """Returns a command line of agent-eval-harness."""
    return [BUN, HARNESS, command, *arguments]


def floor(*arguments: str, script: str = "floor.py") -> list[str]:
    """Returns a command line of a bare orjson version of ae-extract."""
    return [sys.executable, "-S", "-E", os.path.join(ROOT, "bench", script), ORJSON, *arguments]


def xargs(slots: int, *command: str) -> list[str]:
    """Returns an xargs command that runs `slots` processes at a time, with one NUL-terminated item each."""
    return ["xargs", "-0", "-P", str(slots), "-n", "1", *command]


@cache
def _install_harness() -> str:
    if not (os.path.exists(BUN) and os.path.exists(HARNESS)):
        npm = shutil.which("npm")
        if npm is None:
            return "agent-eval-harness is not installed, and npm is not on PATH"
        os.makedirs(SCRATCH, exist_ok=True)
        quietly([npm, "install", "--prefix", SCRATCH, "--no-audit", "--no-fund", *PACKAGES])
    works = os.path.exists(HARNESS) and quietly([BUN, HARNESS, "--version"])
    return "" if works else "npm could not install agent-eval-harness (no network?)"


@cache
def _install_orjson() -> str:
    if not os.path.isdir(os.path.join(ORJSON, "orjson")):
        quietly([sys.executable, "-m", "pip", "install", "--quiet", "--target", ORJSON, "orjson"])
    installed = os.path.isdir(os.path.join(ORJSON, "orjson"))
    return "" if installed else "pip could not install orjson (no network?)"


def quietly(argv: list[str], folder: str | None = None) -> bool:
    """Runs a command that installs something; returns whether it succeeded."""
    try:
        return (
            subprocess.run(argv, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, timeout=1200).returncode
            == 0
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
