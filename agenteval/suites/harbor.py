"""Tasks of Harbor: task.toml, instruction.md, environment/ and tests/, whose reward file is the verdict."""

import os
import re
from collections.abc import Iterator
from typing import Any

from agenteval.errors import BadRecord, UserError
from agenteval.suites.cases import Case, as_id, object_of, seconds
from agenteval.suites.documents import Found, file_in, read_text, read_toml

WORKDIR = "/app"
IMAGES = ("Dockerfile", "docker-compose.yaml", "docker-compose.yml", "compose.yaml")
TEST_TIMEOUT = 600  # seconds, where the task has no limit
LOST = {"agent": ("user", "network_mode"), "verifier": ("user", "env", "environment", "collect", "network_mode")}


def cases(path: str) -> Iterator[Found]:
    """Yields the directories of tasks."""
    if os.path.isfile(path):
        path = os.path.dirname(path) or "."
    number = 0
    for folder, folders, _files in os.walk(path):
        folders.sort()
        if where := file_in(folder, "task.toml"):
            folders.clear()
            number += 1
            yield Found(where, folder)
    if not number:
        raise UserError(f"{path}: no task: no directory in it has a task.toml")


def fill(case: Case, raw: Any) -> None:
    """Turns a task into a prompt: tests/test.sh passes if it writes the reward 1."""
    folder: str = raw
    task = read_toml(os.path.join(folder, "task.toml"))
    if task.get("steps"):
        raise BadRecord("has several steps, each with tests of its own, which a prompt cannot have")
    package, agent, verifier, environment = (
        object_of(task.get(name, {}), f"[{name}]") for name in ("task", "agent", "verifier", "environment")
    )
    instruction = file_in(folder, "instruction.md")
    if instruction is None or not (text := read_text(instruction).strip()):
        raise BadRecord("instruction.md is missing or empty")
    tests = os.path.join(folder, "tests")
    if file_in(tests, "test.sh") is None:
        raise BadRecord("tests/test.sh is missing")
    workdir = environment.get("workdir") or WORKDIR
    _leave_image(case, folder, environment)
    case.fields = {
        "id": as_id(package.get("name") or os.path.basename(os.path.abspath(folder))),
        "input": re.sub(rf"(?<![\w./]){re.escape(workdir)}(/?)(?![\w-])", r".\1", text),
    }
    if "timeout_sec" in agent:
        case.fields["timeout"] = seconds(agent["timeout_sec"], "agent.timeout_sec")
    limit = seconds(verifier.get("timeout_sec", TEST_TIMEOUT), "verifier.timeout_sec")
    case.check("harbor", tests=case.path(tests), timeout=limit, workdir=None if workdir == WORKDIR else workdir)
    case.workspace = {}
    case.metadata = {**object_of(task.get("metadata", {}), "[metadata]")}
    case.metadata |= {name: package.get(name) for name in ("description", "keywords")}
    for section, names in LOST.items():
        for name in names:
            if task.get(section, {}).get(name):
                case.lose(f"{section}.{name}")


def _leave_image(case: Case, folder: str, environment: dict[str, Any]) -> None:
    """Refuses a task that needs its image, unless it is to run on this machine without it."""
    image = environment.get("docker_image")
    place = os.path.join(folder, "environment")
    file = file_in(place, *IMAGES)
    source = str(image) if image else f"environment/{os.path.basename(file)}" if file else None
    if source and not case.settings.on_host:
        raise BadRecord(
            f"runs in an image ({source}), which is not built here; --on-host runs the task on this machine, in its "
            "workspace instead of /app"
        )
    if source:
        case.lose("image", source)
    others = [name for name in sorted(os.listdir(place)) if name not in IMAGES] if os.path.isdir(place) else []
    if others:
        case.lose("files of the image", ", ".join(others))
    for name in ("mcp_servers", "skills_dir", "env", "healthcheck", "gpus"):
        if environment.get(name):
            case.lose(f"environment.{name}")
