"""Installs the agents from npm and PyPI, each in its own folder below .scratch/agents."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from tests.agent_rig.catalogue import Agent

ROOT = Path(__file__).resolve().parent.parent.parent
SCRATCH = ROOT / ".scratch" / "agents"
NODE = Agent("node", "npm", "node", "22")
TIMEOUT = 1200  # seconds


class NotInstalled(Exception):
    """A program could not be installed; the message says why."""


def install(agent: Agent, version: str) -> str:
    """Installs that version unless it is installed already; returns the installed version."""
    if version in ("", agent.version) and (found := installed_version(agent)) and _matches(found, agent.version):
        return found
    folder = _folder(agent)
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "install.log").open("w") as log:
        for command in _commands(agent, version):
            done = subprocess.run(command, cwd=folder, env=_environment(), stdout=log, stderr=log, timeout=TIMEOUT)
            if done.returncode:
                raise NotInstalled(f"{' '.join(command[-2:])} failed, see {(folder / 'install.log').relative_to(ROOT)}")
    if not (found := installed_version(agent)):
        raise NotInstalled(f"{agent.package} is not in {folder.relative_to(ROOT)} after its installation")
    return found


def installed_version(agent: Agent) -> str | None:
    """Returns the installed version, or None."""
    folder = _folder(agent)
    if agent.source == "npm":
        description = folder / "node_modules" / agent.package / "package.json"
        return str(json.loads(description.read_bytes())["version"]) if description.exists() else None
    name = agent.package.replace("-", "_")
    found = folder.glob(f"lib/*/site-packages/{name}-*.dist-info")
    return next((path.name.removesuffix(".dist-info").rpartition("-")[2] for path in found), None)


def programs(agent: Agent) -> Path:
    """Returns the folder of the agent's executable."""
    if agent.source == "local":
        return Path(agent.package)
    return _folder(agent) / ("node_modules/.bin" if agent.source == "npm" else "bin")


def node_programs() -> Path:
    """Installs a Node that is new enough for all agents unless it is there; returns its folder."""
    install(NODE, NODE.version)
    return programs(NODE)


def python_between(oldest: tuple[int, int], below: tuple[int, int] = (4, 0)) -> str:
    """Returns a Python that is not older than the one and older than the other: this one, else the newest found.

    Looks on PATH and in pyenv.
    """
    if oldest <= sys.version_info[:2] < below:
        return sys.executable
    on_path = [path for minor in range(oldest[1], oldest[1] + 10) if (path := shutil.which(f"python3.{minor}"))]
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    found = {path: _version_of(path) for path in [*on_path, *map(str, pyenv.glob("versions/*/bin/python3"))]}
    versions = {path: version for path, version in found.items() if oldest <= version < below}
    if not versions:
        wanted = f"{_dotted(oldest)} or newer" + (f", below {_dotted(below)}," if below < (4, 0) else "")
        raise NotInstalled(f"no Python {wanted} on PATH or in pyenv")
    return max(versions, key=versions.__getitem__)


def _folder(agent: Agent) -> Path:
    return SCRATCH / agent.name


def _matches(installed: str, wanted: str) -> bool:
    return installed == wanted or installed.startswith(f"{wanted}.")


def _commands(agent: Agent, version: str) -> list[list[str]]:
    if agent.source == "npm":
        package = f"{agent.package}@{version or agent.version}"
        return [["npm", "install", "--prefix", ".", "--no-audit", "--no-fund", "--loglevel=error", package]]
    pinned = f"{agent.package}=={version or agent.version}" if version != "latest" else agent.package
    for name in ("bin", "lib"):  # of another version, perhaps with another Python
        shutil.rmtree(_folder(agent) / name, ignore_errors=True)
    return [
        [python_between(agent.python, agent.python_below), "-m", "venv", "."],
        ["bin/pip", "install", "--quiet", "--disable-pip-version-check", *agent.also, pinned],
    ]


def _dotted(version: tuple[int, int]) -> str:
    return ".".join(map(str, version))


def _version_of(python: str) -> tuple[int, ...]:
    """Returns the version it prints; () if it does not run, as shims of pyenv for versions that are not in use."""
    done = subprocess.run([python, "-V"], capture_output=True, text=True)
    found = re.fullmatch(r"Python (\d+)\.(\d+)\..*\n", done.stdout) if not done.returncode else None
    return tuple(map(int, found.groups())) if found else ()


def _environment() -> dict[str, str]:
    """Returns the user's environment with our Node first on PATH."""
    return {**os.environ, "PATH": os.pathsep.join([str(programs(NODE)), os.environ.get("PATH", os.defpath)])}
