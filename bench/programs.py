"""The programs that the suite is measured against: how they are installed and called.

What is missing is installed once into the scratch folder, without root; what cannot be installed is left out.
"""

from __future__ import annotations

import glob
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import cache

from bench.measure import Job

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SCRATCH = os.path.join(ROOT, ".scratch", "bench")
PACKAGES = ("@plaited/agent-eval-harness@0.12.2", "bun")
MODULES = os.path.join(SCRATCH, "node_modules")
BUN = os.path.join(MODULES, "bun", "bin", "bun.exe")  # the binary itself, on Linux too: no wrapper to pay for
HARNESS = os.path.join(MODULES, "@plaited", "agent-eval-harness", "bin", "cli.ts")
ORJSON = os.path.join(SCRATCH, "orjson")


def missing_programs() -> list[str]:
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


def floor(raw: str, kind: str) -> list[str]:
    """Returns the command line of ae-extract written by hand with bare orjson, for claude or a shape of shapes.py."""
    return [sys.executable, "-S", "-E", os.path.join(ROOT, "bench", "floor.py"), ORJSON, raw, kind]


def harness_schema() -> str:
    """Returns the claude adapter schema for agent-eval-harness, which has no fields for tool input and output."""
    return os.path.join(ROOT, "bench", "claude-agent-eval-harness.json")


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


def grader(name: str) -> str:
    """Returns the path of a trivial grader."""
    return os.path.join(ROOT, "bench", "graders", name)


def scratch(name: str) -> str:
    """Returns the path of a scratch file to write to."""
    os.makedirs(SCRATCH, exist_ok=True)
    return os.path.join(SCRATCH, name)


def echo_schema() -> str:
    """Writes an adapter schema whose agent is echo; returns its path."""
    path = scratch("echo.json")
    schema = {
        "version": 1,
        "name": "echo",
        "command": ["/bin/echo"],
        "sessionMode": "stream",
        "prompt": {"flag": ""},
        "output": {"flag": "", "value": ""},
        "outputEvents": [],
        "result": {"matchPath": "$.type", "matchValue": "result", "contentPath": "$.result"},
    }
    with open(path, "w", encoding="utf-8") as file:
        json.dump(schema, file)
    return path


# --- other harnesses, doing the same job: a trivial agent for each prompt, and a check of its output ---

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


def peer_jobs(prompts: str, slots: int) -> dict[str, Job]:
    """Returns the job of agenteval, and of each peer that can be installed."""
    found = {"agenteval": _ours(prompts, slots)}
    if has_harness():
        schema = echo_schema()
        options = ["-s", schema, "-j", str(slots), "-g", grader("hint.js")]
        found["agent-eval-harness"] = Job(harness("capture", prompts, *options))
    if has_inspect():
        found["inspect_ai"] = _inspect(prompts, slots)
    if has_promptfoo():
        found["promptfoo"] = _promptfoo(prompts, slots)
    return found


def runners(prompts: str, slots: int) -> Iterator[tuple[str, Job]]:
    """Yields programs that start processes and nothing else: no check, no record."""
    items = f"{prompts}.items"
    yield f"xargs -P {slots}", Job(xargs(slots, "/bin/echo"), stdin=items)
    if has("parallel"):
        argv = [_debian("parallel"), "--will-cite", "-0", "-j", str(slots), "/bin/echo"]
        yield f"GNU parallel -j {slots}", Job(argv, stdin=items)


def _ours(prompts: str, slots: int) -> Job:
    options = ["--simple", "/bin/echo {}", "-g", "ae-grader-hint", "-j", str(slots)]
    return Job([tool("ae-capture"), prompts, *options])


def _inspect(prompts: str, slots: int) -> Job:
    path = scratch("peers_task.py")
    with open(path, "w", encoding="utf-8") as file:
        file.write(TASK.format(prompts=prompts))
    most = ["--max-samples", str(slots), "--max-subprocesses", str(slots)]
    logs = ["--log-dir", scratch("inspect-logs"), "--display", "none"]
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


def _promptfoo(prompts: str, slots: int) -> Job:
    path = scratch("promptfoo.json")
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
    env = QUIET | {"PROMPTFOO_CONFIG_DIR": scratch("promptfoo-home")}
    return Job(argv, env=env | {"PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"})


@cache
def has_inspect() -> bool:
    """Returns whether inspect_ai is there; installs it first if necessary."""
    program = os.path.join(INSPECT, "bin", "inspect")
    if not os.path.exists(program):
        quietly([sys.executable, "-m", "venv", INSPECT])
        quietly([os.path.join(INSPECT, "bin", "pip"), "install", "--quiet", "inspect_ai"])
    return os.path.exists(program)


@cache
def has_promptfoo() -> bool:
    """Returns whether promptfoo is there, with a Node that is new enough for it; installs both if necessary."""
    program = os.path.join(PROMPTFOO, "node_modules", ".bin", "promptfoo")
    npm = shutil.which("npm")
    if not os.path.exists(program) and npm:
        os.makedirs(PROMPTFOO, exist_ok=True)
        quietly([npm, "install", "--prefix", PROMPTFOO, "--no-audit", "--no-fund", *PROMPTFOO_PACKAGES])
    return os.path.exists(program)


def missing_peers() -> list[str]:
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
        quietly(["apt-get", "download", *DEBIAN_PACKAGES[program]], DEBIAN)
        for package in glob.glob(os.path.join(DEBIAN, "*.deb")):
            quietly(["dpkg-deb", "--extract", package, DEBIAN])
    return path if os.path.exists(path) else ""
