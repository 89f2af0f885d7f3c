"""Runs one scenario with one agent: ae-capture in a clean environment."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
import uuid
from collections.abc import Mapping
from pathlib import Path

from tests.agent_rig.catalogue import SECRET, Agent, Memory
from tests.agent_rig.install import ROOT, node_programs, programs
from tests.agent_rig.isolation import MARK, end_processes, left_processes
from tests.agent_rig.scenarios import PROMPT, PROMPT_TO_REMEMBER, STARTED, Record, Run, Scenario
from tests.agent_rig.server import ScriptedModel, model_serving

# Outside this repository: agents take a repository above their directory for their project, and write there.
RUNS = Path(tempfile.gettempdir(), "agenteval-agents")
GONE_WITHIN = 2.0  # seconds after the exit of ae-capture until all its processes have ended
STARTS_WITHIN = 60.0  # seconds until the agent calls its tool
TOOLS_FOLDER = Path(os.environ.get("AE_BIN") or ROOT / "bin")
SCHEMAS = ROOT / "agenteval" / "adapters" / "schemas"
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def problems_of(agent: Agent, scenario: Scenario) -> list[str]:
    """Runs the scenario and returns what went wrong; all files of the run stay in RUNS."""
    folder = RUNS / agent.name / scenario.name.replace(" ", "-")
    shutil.rmtree(folder, ignore_errors=True)
    home = folder / "home"
    home.mkdir(parents=True)
    mark = uuid.uuid4().hex
    script = scenario.script._replace(without_tools=agent.without_tools, sub_agent_arguments=agent.sub_agent)
    with model_serving(script, folder / "model.jsonl") as (model, url):
        files = {**agent.files, **agent.limit_files} if scenario.limited else agent.files
        memory = agent.memory if scenario.remembers else None
        for path, content in {**files, **(memory.files if memory else {})}.items():
            _write(home / path, content.replace("{url}", url).replace("{work}", str(folder / "work" / "prompt-p")))
        env = _environment(agent, home, url) | {MARK: mark} | (agent.limit_env if scenario.limited else {})
        try:
            remembered = memory is not None and _remembered(agent, memory, scenario, folder, env, model)
            model.begin_session()
            run = _capture(agent, scenario, folder, env | (memory.env if memory else {}), model)
            run = run._replace(remembered=remembered)
            problems = list(scenario.check(run)) if run.record or scenario.interrupted else _no_record(run)
        finally:
            left = left_processes(mark, GONE_WITHIN)
            end_processes(left)
    return problems + [f"left running: {command[:100]}" for command in left.values()]


def _remembered(
    agent: Agent, memory: Memory, scenario: Scenario, folder: Path, env: Mapping[str, str], model: ScriptedModel
) -> bool:
    """Runs two sessions without what switches the memory off; returns whether the second saw what the first left."""
    schema = json.loads((SCHEMAS / f"{agent.name}.json").read_bytes())
    schema["env"] = {name: value for name, value in schema.get("env", {}).items() if name not in memory.switch}
    schema["autoApprove"] = [word for word in schema.get("autoApprove", []) if word not in memory.switch]
    _write(folder / "remembering.json", json.dumps(schema))
    for prompt in (PROMPT_TO_REMEMBER, PROMPT):
        model.begin_session()
        asking, env = scenario._replace(prompt=prompt), {**env, **memory.env}
        _capture(agent, asking, folder, env, model, folder / "remembering.json", memory.arguments)
    return model.saw(SECRET)


def _capture(
    agent: Agent,
    scenario: Scenario,
    folder: Path,
    env: Mapping[str, str],
    model: ScriptedModel,
    schema: Path | None = None,
    arguments: tuple[str, ...] = (),
) -> Run:
    _write(folder / "prompts.jsonl", json.dumps({"id": "p", "input": scenario.prompt}) + "\n")
    result, workspaces = folder / "result.jsonl", folder / "work"
    result.unlink(missing_ok=True)
    shutil.rmtree(workspaces, ignore_errors=True)
    workspace = workspaces / "prompt-p"
    timeout = scenario.timeout or agent.time_out
    options = ["-s", schema or agent.name, "--workspace-dir", workspaces, "-o", result, "-t", timeout]
    arguments += agent.limit * scenario.limited
    options += [f"--agent-arg={word}" for word in arguments]
    command = [TOOLS_FOLDER / "ae-capture", folder / "prompts.jsonl", "--keep-raw", *options]
    errors = folder / "stderr.txt"
    start = time.monotonic()
    with errors.open("wb") as stderr:
        process = subprocess.Popen(
            list(map(str, command)),
            cwd=folder,
            env=env,
            stdin=subprocess.DEVNULL,
            stderr=stderr,
            start_new_session=True,
        )
        limit = timeout / 1000
        if scenario.interrupted:
            _wait_for_tool(workspace, model, process)
            limit = time.monotonic() - start
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGINT)
        code = _wait(process, timeout / 1000 * 2 + 60)
    return Run(
        agent=agent,
        record=_read_record(result),
        code=code,
        stderr=errors.read_text("utf-8", "replace"),
        workspace=workspace,
        model=model,
        started=_started(workspace, model),
        overtime=time.monotonic() - start - limit,
    )


def _environment(agent: Agent, home: Path, url: str) -> dict[str, str]:
    path = os.pathsep.join([str(programs(agent)), str(node_programs()), SYSTEM_PATH])
    clean = {"PATH": path, "HOME": str(home), "TERM": "dumb", "LANG": "C.UTF-8"}
    return clean | {name: value.replace("{url}", url) for name, value in agent.env.items()}


def _write(path: Path, content: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content, encoding="utf-8")


def _started(workspace: Path, model: ScriptedModel) -> bool:
    return (workspace / STARTED).exists() or model.waiting.is_set()


def _wait_for_tool(workspace: Path, model: ScriptedModel, process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + STARTS_WITHIN
    while not _started(workspace, model) and process.poll() is None and time.monotonic() < end:
        time.sleep(0.05)
    time.sleep(0.5)  # so that the tool is really running


def _wait(process: subprocess.Popen[bytes], within: float) -> int:
    """Returns its exit code; kills it if it does not exit in time."""
    try:
        return process.wait(within)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()


def _read_record(path: Path) -> Record:
    lines = path.read_text("utf-8").splitlines() if path.exists() else []
    record: Record = json.loads(lines[0]) if lines else {}
    return record


def _no_record(run: Run) -> list[str]:
    return [f"no record; ae-capture exited with {run.code}: {run.stderr.strip()[-300:]}"]
