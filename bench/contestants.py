"""Where those come from that the suite is measured against; installed into the scratch folder when missing."""

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
SEED = os.path.join(MODULES, "@plaited", "agent-eval-harness", "bin", "cli.ts")
ORJSON = os.path.join(SCRATCH, "orjson")


def missing() -> list[str]:
    """Why some of them cannot take part, a line each."""
    return [problem for problem in (_install_seed(), _install_orjson()) if problem]


def has_seed() -> bool:
    """Whether the seed's harness is there, installing it first if need be."""
    return not _install_seed()


def has_orjson() -> bool:
    """Whether orjson is there, installing it first if need be."""
    return not _install_orjson()


def tool(name: str) -> str:
    """An executable of the suite, without the launcher in bin/."""
    return os.path.join(ROOT, ".venv", "bin", name)


def seed(command: str, *arguments: str) -> list[str]:
    """A command line of the seed's harness."""
    return [BUN, SEED, command, *arguments]


def floor(*arguments: str) -> list[str]:
    """A command line of the orjson floor."""
    script = os.path.join(ROOT, "bench", "floor.py")
    return [sys.executable, "-S", "-E", script, ORJSON, *arguments]


def xargs(slots: int, *command: str) -> list[str]:
    """xargs that starts `slots` at a time, with one NUL-ended item of stdin as last argument."""
    return ["xargs", "-0", "-P", str(slots), "-n", "1", *command]


@cache
def _install_seed() -> str:
    if not (os.path.exists(BUN) and os.path.exists(SEED)):
        npm = shutil.which("npm")
        if npm is None:
            return "the seed's harness is not installed, and npm is not on PATH"
        os.makedirs(SCRATCH, exist_ok=True)
        _quietly([npm, "install", "--prefix", SCRATCH, "--no-audit", "--no-fund", *PACKAGES])
    works = os.path.exists(SEED) and _quietly([BUN, SEED, "--version"])
    return "" if works else "npm could not install the seed's harness (no network?)"


@cache
def _install_orjson() -> str:
    if not os.path.isdir(os.path.join(ORJSON, "orjson")):
        _quietly([sys.executable, "-m", "pip", "install", "--quiet", "--target", ORJSON, "orjson"])
    installed = os.path.isdir(os.path.join(ORJSON, "orjson"))
    return "" if installed else "pip could not install orjson (no network?)"


def _quietly(argv: list[str]) -> bool:
    try:
        return subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=600).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False
