"""Installs the agents from npm and PyPI, each in its own folder below .scratch/agents."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from agent_rig.catalogue import Agent

ROOT = Path(__file__).resolve().parent.parent
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
                raise NotInstalled(f"{' '.join(command[-2:])} failed, see {folder / 'install.log'}")
    if not (found := installed_version(agent)):
        raise NotInstalled(f"{agent.package} is not in {folder} after its installation")
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
    return _folder(agent) / ("node_modules/.bin" if agent.source == "npm" else "bin")


def node_programs() -> Path:
    """Installs a Node that is new enough for all agents unless it is there; returns its folder."""
    install(NODE, NODE.version)
    return programs(NODE)


def _folder(agent: Agent) -> Path:
    return SCRATCH / agent.name


def _matches(installed: str, wanted: str) -> bool:
    return installed == wanted or installed.startswith(f"{wanted}.")


def _commands(agent: Agent, version: str) -> list[list[str]]:
    if agent.source == "npm":
        package = f"{agent.package}@{version or agent.version}"
        return [["npm", "install", "--prefix", ".", "--no-audit", "--no-fund", "--loglevel=error", package]]
    pinned = f"{agent.package}=={version or agent.version}" if version != "latest" else agent.package
    shutil.rmtree(_folder(agent) / "lib", ignore_errors=True)
    return [
        [sys.executable, "-m", "venv", "."],
        ["bin/pip", "install", "--quiet", "--disable-pip-version-check", *agent.also, pinned],
    ]


def _environment() -> dict[str, str]:
    """Returns the user's environment with our Node first on PATH."""
    return {**os.environ, "PATH": os.pathsep.join([str(programs(NODE)), os.environ.get("PATH", os.defpath)])}
