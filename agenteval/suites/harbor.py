"""Tasks of Harbor: task.toml, instruction.md, environment/ and tests/, whose reward file is the verdict."""

import os
import re
import shlex
from collections.abc import Iterator
from typing import Any

from agenteval.errors import BadRecord, UserError
from agenteval.suites.cases import Case, as_id, object_of, seconds
from agenteval.suites.documents import Found, file_in, read_text, read_toml

WORKDIR = "/app"
COMPOSE = ("docker-compose.yaml", "docker-compose.yml", "compose.yaml")
OF_IMAGES = ("Dockerfile", *COMPOSE, ".gitkeep", ".dockerignore")  # files in environment/ that are not in an image
TEST_TIMEOUT = 600  # seconds, if the task has no limit
LOST = {
    "agent": ("user", "network_mode"),
    "verifier": ("user", "env", "environment", "collect", "network_mode"),
    "solution": ("env",),
}


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
        raise UserError(f"{path}: no tasks found: no directory in it has a task.toml")


def fill(case: Case, raw: Any) -> None:
    """Turns a task into a prompt: tests/test.sh passes if it writes the reward 1."""
    folder: str = raw
    task = read_toml(os.path.join(folder, "task.toml"))
    if task.get("steps"):
        raise BadRecord("has several steps with separate tests, which a prompt cannot have")
    package, agent, verifier, environment = (
        object_of(task.get(name, {}), f"[{name}]") for name in ("task", "agent", "verifier", "environment")
    )
    instruction = file_in(folder, "instruction.md")
    if instruction is None or not (text := read_text(instruction).strip()):
        raise BadRecord("instruction.md is missing or empty")
    tests = os.path.join(folder, "tests")
    if file_in(tests, "test.sh") is None:
        raise BadRecord("tests/test.sh is missing")
    image = _image_of(case, folder, environment)
    workdir = environment.get("workdir") or _workdir_in(folder) or WORKDIR
    case.fields = {
        "id": as_id(package.get("name") or os.path.basename(os.path.abspath(folder))),
        "input": re.sub(rf"(?<![\w./]){re.escape(workdir)}(/?)(?![\w-])", r".\1", text),
    }
    if "timeout_sec" in agent:
        case.fields["timeout"] = seconds(agent["timeout_sec"], "agent.timeout_sec")
    limit = seconds(verifier.get("timeout_sec", TEST_TIMEOUT), "verifier.timeout_sec")
    solution = os.path.join(folder, "solution")
    case.check(
        "harbor",
        tests=case.path(tests),
        timeout=limit,
        workdir=None if workdir == WORKDIR else workdir,
        image=image,
        solution=case.path(solution) if file_in(solution, "solve.sh") else None,
    )
    if image:
        case.setup.append(_copy_from(image, workdir))
    if verifier.get("environment_mode") == "separate":
        case.lose("verifier.environment_mode", "separate")
    case.workspace = {}
    case.metadata = {**object_of(task.get("metadata", {}), "[metadata]")}
    case.metadata |= {name: package.get(name) for name in ("description", "keywords")}
    for section, names in LOST.items():
        for name in names:
            if task.get(section, {}).get(name):
                case.lose(f"{section}.{name}")


def _image_of(case: Case, folder: str, environment: dict[str, Any]) -> str | None:
    """Returns the image that a task runs in, if any; raises BadRecord if it must be built first."""
    place = os.path.join(folder, "environment")
    file = file_in(place, "Dockerfile", *COMPOSE)
    image = environment.get("docker_image") or (case.settings.image if file else None)
    source = image or (f"environment/{os.path.basename(file)}" if file else None)
    if source and case.settings.on_host:
        case.lose("image", source)
        others = [name for name in sorted(os.listdir(place)) if name not in OF_IMAGES] if os.path.isdir(place) else []
        if others:
            case.lose("files of the image", ", ".join(others))
    elif compose := file_in(place, *COMPOSE):
        raise BadRecord(f"runs in several containers (environment/{os.path.basename(compose)}), not in one image")
    elif source and not image:
        raise BadRecord(
            f"runs in an image ({source}): podman build -t NAME {shlex.quote(place)}, then --image NAME here and "
            "--sandbox podman --sandbox-image NAME for the run; --on-host runs it on this machine, without the image"
        )
    for name in ("mcp_servers", "skills_dir", "env", "healthcheck", "gpus"):
        if environment.get(name):
            case.lose(f"environment.{name}")
    return None if case.settings.on_host else image


def _workdir_in(folder: str) -> str | None:
    """Returns the last WORKDIR of the task's Dockerfile."""
    file = file_in(os.path.join(folder, "environment"), "Dockerfile")
    found = re.findall(r"(?im)^\s*WORKDIR\s+(/\S+)\s*$", read_text(file)) if file else []
    return found[-1] if found else None


def _copy_from(image: str, workdir: str) -> str:
    """Returns a command that copies a directory's files out of an image; the directory may be missing."""
    return (
        f'engine=$(command -v podman || command -v docker) && id=$("$engine" create {shlex.quote(image)} true) && '
        f'{{ "$engine" cp "$id":{shlex.quote(f"{workdir}/.")} . 2>/dev/null; "$engine" rm "$id" >/dev/null; }}'
    )
