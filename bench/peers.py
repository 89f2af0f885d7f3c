"""Other harnesses doing the same job: a trivial agent for each prompt, and a check that its output has the hint.

Each peer is installed once into the scratch folder; one that cannot be installed is left out.
"""

from __future__ import annotations

import glob
import json
import os
import shutil
import sys
from collections.abc import Iterator
from functools import cache

from bench import baselines
from bench.baselines import SCRATCH
from bench.measure import Job
from bench.setting import Setting, grader

INSPECT = os.path.join(SCRATCH, "inspect")
PROMPTFOO = os.path.join(SCRATCH, "promptfoo")
DEBIAN = os.path.join(SCRATCH, "debian")
DEBIAN_PACKAGES = {"parallel": ["parallel"], "jq": ["jq", "libjq1", "libonig5"]}
PROMPTFOO_PACKAGES = ("promptfoo@0.123.1", "node@22")
# Offline, and without a report to anybody.
QUIET = {
    "PROMPTFOO_DISABLE_TELEMETRY": "1",
    "PROMPTFOO_DISABLE_UPDATE": "1",
    "PROMPTFOO_DISABLE_REMOTE_GENERATION": "1",
    "INSPECT_DISABLE_MODEL_API": "1",
}
TASK = """\
import json
from inspect_ai import Task, task
from inspect_ai.dataset import Sample
from inspect_ai.model import ModelOutput
from inspect_ai.scorer import includes
from inspect_ai.solver import solver
from inspect_ai.util import subprocess

@solver
def agent():
    async def solve(state, generate):
        done = await subprocess(["/bin/echo", state.input_text])
        state.output = ModelOutput.from_content("none", done.stdout)
        return state
    return solve

@task
def peers():
    with open({prompts!r}) as lines:
        records = [json.loads(line) for line in lines]
    samples = [Sample(id=one["id"], input=one["input"], target=one["hint"]) for one in records]
    return Task(dataset=samples, solver=agent(), scorer=includes())
"""


def jobs(setting: Setting, prompts: str, slots: int) -> dict[str, Job]:
    """Returns the job of agenteval, and of each peer that can be installed."""
    found = {"agenteval": _ours(prompts, slots)}
    if baselines.has_harness():
        schema = setting.scratch("echo.json")
        options = ["-s", schema, "-j", str(slots), "-g", grader("hint.js")]
        found["agent-eval-harness"] = Job(baselines.harness("capture", prompts, *options))
    if has_inspect():
        found["inspect_ai"] = _inspect(setting, prompts, slots)
    if has_promptfoo():
        found["promptfoo"] = _promptfoo(setting, prompts, slots)
    return found


def runners(prompts: str, slots: int) -> Iterator[tuple[str, Job]]:
    """Yields programs that start processes and nothing else: no check, no record."""
    items = f"{prompts}.items"
    yield f"xargs -P {slots}", Job(baselines.xargs(slots, "/bin/echo"), stdin=items)
    if has("parallel"):
        argv = [_debian("parallel"), "--will-cite", "-0", "-j", str(slots), "/bin/echo"]
        yield f"GNU parallel -j {slots}", Job(argv, stdin=items)


def _ours(prompts: str, slots: int) -> Job:
    options = ["--simple", "/bin/echo {}", "-g", "ae-grader-hint", "-j", str(slots)]
    return Job([baselines.tool("ae-capture"), prompts, *options])


def _inspect(setting: Setting, prompts: str, slots: int) -> Job:
    path = setting.scratch("peers_task.py")
    with open(path, "w", encoding="utf-8") as file:
        file.write(TASK.format(prompts=prompts))
    most = ["--max-samples", str(slots), "--max-subprocesses", str(slots)]
    logs = ["--log-dir", setting.scratch("inspect-logs"), "--display", "none"]
    argv = [
        os.path.join(INSPECT, "bin", "inspect"),
        "eval",
        os.path.relpath(path),
        "--model",
        "mockllm/model",
        *most,
        *logs,
    ]
    return Job(argv, env=QUIET)


def _promptfoo(setting: Setting, prompts: str, slots: int) -> Job:
    path = setting.scratch("promptfoo.json")
    with open(prompts, encoding="utf-8") as lines:
        records = [json.loads(line) for line in lines]
    tests = [
        {"vars": {"input": one["input"]}, "assert": [{"type": "contains", "value": one["hint"]}]} for one in records
    ]
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"prompts": ["{{input}}"], "providers": ["exec:/bin/echo"], "tests": tests}, file)
    programs = os.path.join(PROMPTFOO, "node_modules", ".bin")
    quiet = ["--no-cache", "--no-progress-bar", "--no-table", "--no-write"]
    argv = [os.path.join(programs, "promptfoo"), "eval", "-c", path, "-j", str(slots), *quiet]
    env = QUIET | {"PROMPTFOO_CONFIG_DIR": setting.scratch("promptfoo-home")}
    return Job(argv, env=env | {"PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"})


@cache
def has_inspect() -> bool:
    """Returns whether inspect_ai is there; installs it first if necessary."""
    program = os.path.join(INSPECT, "bin", "inspect")
    if not os.path.exists(program):
        baselines.quietly([sys.executable, "-m", "venv", INSPECT])
        baselines.quietly([os.path.join(INSPECT, "bin", "pip"), "install", "--quiet", "inspect_ai"])
    return os.path.exists(program)


@cache
def has_promptfoo() -> bool:
    """Returns whether promptfoo is there, with a Node that is new enough for it; installs both if necessary."""
    program = os.path.join(PROMPTFOO, "node_modules", ".bin", "promptfoo")
    npm = shutil.which("npm")
    if not os.path.exists(program) and npm:
        os.makedirs(PROMPTFOO, exist_ok=True)
        baselines.quietly([npm, "install", "--prefix", PROMPTFOO, "--no-audit", "--no-fund", *PROMPTFOO_PACKAGES])
    return os.path.exists(program)


def missing() -> list[str]:
    """Returns one line for each peer that is not available."""
    known = {
        "inspect_ai": has_inspect(),
        "promptfoo": has_promptfoo(),
        "GNU parallel": has("parallel"),
        "jq": has("jq"),
    }
    return [f"{name} is not here and cannot be installed" for name, is_there in known.items() if not is_there]


def has(program: str) -> bool:
    """Returns whether a program of Debian is there; unpacks its packages into the scratch folder if necessary."""
    return bool(_debian(program))


def jq(path: str) -> Job:
    """Returns the job that parses every line and writes it again."""
    libraries = glob.glob(os.path.join(DEBIAN, "usr", "lib", "*-linux-gnu"))
    return Job([_debian("jq"), "-c", ".", path], env={"LD_LIBRARY_PATH": libraries[0]} if libraries else {})


@cache
def _debian(program: str) -> str:
    """Returns the path of the program, or nothing; needs no root, because nothing is installed in the system."""
    if found := shutil.which(program):
        return found
    path = os.path.join(DEBIAN, "usr", "bin", program)
    if not os.path.exists(path):
        os.makedirs(DEBIAN, exist_ok=True)
        baselines.quietly(["apt-get", "download", *DEBIAN_PACKAGES[program]], DEBIAN)
        for package in glob.glob(os.path.join(DEBIAN, "*.deb")):
            baselines.quietly(["dpkg-deb", "--extract", package, DEBIAN])
    return path if os.path.exists(path) else ""
