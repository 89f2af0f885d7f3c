"""Runs one scenario with one agent: ae-capture in a clean environment."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Mapping
from pathlib import Path

from tests.agent_rig import mcp_server, poison
from tests.agent_rig.catalogue import SECRET, Agent, Memory
from tests.agent_rig.install import ROOT, node_programs, programs
from tests.agent_rig.isolation import MARK, end_processes, left_processes
from tests.agent_rig.scenarios import PROMPT, PROMPT_TO_REMEMBER, STARTED, VALUE, Record, Run, Scenario
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

    def fill(text: str) -> str:
        values = {"{folder}": str(folder), "{model}": agent.model, "{python}": sys.executable}
        for name, value in {**values, "{server}": str(mcp_server.__file__)}.items():
            text = text.replace(name, value)
        return text

    for path, content in scenario.files.items():
        _write(folder / path, fill(content))
    scenario = scenario._replace(options=tuple(map(fill, scenario.options)))
    script = scenario.script._replace(
        without_tools=agent.without_tools,
        sub_agent_arguments=agent.sub_agent,
        command=fill(scenario.script.command),
        leaves=fill(scenario.script.leaves),
    )
    with model_serving(script, folder / "model.jsonl") as (model, url):
        files = {**agent.files, **agent.limit_files} if scenario.limited else agent.files
        memory = agent.memory if scenario.remembers else None
        for path, content in {**files, **(memory.files if memory else {})}.items():
            _write(home / path, content.replace("{url}", url).replace("{work}", str(folder / "work" / "prompt-p")))
        env = _environment(agent, home, url) | {MARK: mark} | (agent.limit_env if scenario.limited else {})
        try:
            remembered = memory is not None and _remembered(agent, memory, scenario, folder, env, model)
            model.begin_session()
            if scenario.poisoned:
                planted = {path: text.replace("{url}", url) for path, text in agent.poison.items()}
                run = _poisoned(agent._replace(poison=planted), scenario, folder, env, model)
            else:
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
    schema = json.loads(schema_of(agent).read_bytes())
    schema["env"] = {name: value for name, value in schema.get("env", {}).items() if name not in memory.switch}
    schema["autoApprove"] = [word for word in schema.get("autoApprove", []) if word not in memory.switch]
    _write(folder / "remembering.json", json.dumps(schema))
    for prompt in (PROMPT_TO_REMEMBER, PROMPT):
        model.begin_session()
        asking, env = scenario._replace(prompt=prompt), {**env, **memory.env}
        _capture(agent, asking, folder, env, model, folder / "remembering.json", memory.arguments)
    return model.saw(SECRET)


def _poisoned(agent: Agent, scenario: Scenario, folder: Path, env: Mapping[str, str], model: ScriptedModel) -> Run:
    """Runs the agent among a user's configuration: without --isolate, with it, and with --sandbox if it needs that.

    The directory above the workspaces is a repository, as agents take one for their project.
    """
    signs = folder / "signs"
    signs.mkdir()
    subprocess.run(["git", "init", "--quiet", folder], check=True)
    marks = poison.write(agent, folder / "home", folder, signs)
    schema = schema_of(agent)

    def run_with(*options: str) -> Run:
        model.begin_session()
        for sign in signs.iterdir():
            sign.unlink()
        asking = scenario._replace(options=options)
        run = _capture(agent, asking, folder, env, model, arguments=agent.poison_arguments)
        files = {path for mark, path in marks.items() if model.saw(mark)}
        unlisted = frozenset(path for path in files if not poison.named_by(schema, path))
        return run._replace(poison=frozenset(files | poison.signs_in(signs)), unlisted=unlisted)

    plain, isolated = run_with(), run_with(*scenario.options)
    if poison.needs_wall(schema):
        walled = run_with(*scenario.options, "--sandbox", "bwrap")
        return walled._replace(not_isolated=plain, not_walled=isolated)
    return isolated._replace(not_isolated=plain)


def schema_of(agent: Agent) -> Path:
    """Returns the file of its adapter schema."""
    return Path(agent.schema) if agent.schema else SCHEMAS / f"{agent.name}.json"


def _capture(
    agent: Agent,
    scenario: Scenario,
    folder: Path,
    env: Mapping[str, str],
    model: ScriptedModel,
    schema: Path | str | None = None,
    arguments: tuple[str, ...] = (),
) -> Run:
    prompts = {"a": scenario.before, "p": scenario.prompt}
    lines = [json.dumps({"id": key, "input": prompt}) + "\n" for key, prompt in prompts.items() if prompt]
    _write(folder / "prompts.jsonl", "".join(lines))
    if scenario.before:
        _write(folder / "leave.sh", poison.leave_script(SECRET))
    result, workspaces = folder / "result.jsonl", folder / "work"
    result.unlink(missing_ok=True)
    shutil.rmtree(workspaces, ignore_errors=True)
    workspace = workspaces / "prompt-p"
    timeout = scenario.timeout or agent.time_out
    schema = schema or agent.schema or agent.name
    options = ["-s", schema, "--workspace-dir", workspaces, "-o", result, "-t", timeout, *scenario.options]
    arguments += agent.limit * scenario.limited
    if scenario.reads:
        arguments += agent.reading
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
        folder=folder,
    )


def _environment(agent: Agent, home: Path, url: str) -> dict[str, str]:
    node = [] if agent.source == "local" else [str(node_programs())]
    path = os.pathsep.join([str(programs(agent)), *node, SYSTEM_PATH])
    clean = {"PATH": path, "HOME": str(home), "TERM": "dumb", "LANG": "C.UTF-8", "RIG_VALUE": VALUE}
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
    record: Record = json.loads(lines[-1]) if lines else {}
    return record


def _no_record(run: Run) -> list[str]:
    return [f"no record; ae-capture exited with {run.code}: {run.stderr.strip()[-300:]}"]
