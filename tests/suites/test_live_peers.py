"""The peers themselves, each on a suite of its own, case by case: ae-import reads the verdicts that they wrote, and our
tools, on the prompts that ae-prompts makes of the same suite, give the same ones to the same answers.

They are large: `make test-peers` installs them in .peers and names that directory in AE_PEERS.
"""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.agent_rig.apis import anthropic
from tests.agent_rig.conversation import Call, Reply, Usage
from tests.support.http_server import Request, Response, json_response, serving
from tests.support.tool import BIN, ROOT, Record, jsonl, run
from tests.test_container_example import Engine, working_engine

DATA = ROOT / "tests" / "data" / "suites"
PATIENCE = 600.0  # seconds: these programs start slowly
REASON = "make test-peers installs it"
Verdicts = dict[str, bool]


def peer(*places: str) -> str:
    """Returns the path of a peer's program; skips the test where it is not installed."""
    folder = os.environ.get("AE_PEERS")
    found = folder and next((path for place in places if (path := Path(folder, place).absolute()).exists()), None)
    return str(found) if found else pytest.skip(f"no {Path(places[0]).name}: {REASON}")


def environment(home: Path, *programs: str, **more: str) -> dict[str, str]:
    """Returns variables for a peer: a HOME of its own, and its programs first on PATH."""
    folders = [
        *dict.fromkeys(str(Path(program).parent) for program in programs),
        str(BIN),
        os.environ["PATH"],
        "/usr/sbin",
    ]
    return {"PATH": os.pathsep.join(folders), "HOME": str(home), "LANG": "C.UTF-8", **more}


def ran(*command: object, cwd: Path, env: Mapping[str, str], codes: tuple[int, ...] = (0,)) -> None:
    """Runs a peer to its end."""
    words = [str(word) for word in command]
    done = subprocess.run(words, cwd=cwd, env=env, capture_output=True, timeout=PATIENCE, stdin=subprocess.DEVNULL)
    assert done.returncode in codes, (words, done.returncode, done.stdout[-3000:], done.stderr[-3000:])


def imported(format_: str, path: Path) -> Verdicts:
    """Returns the verdicts that ae-import reads from a peer's files."""
    records = run("ae-import", format_, path).expect(0).records
    return {record["id"]: record["score"]["pass"] for record in records}


def captured(cwd: Path, prompts: str, *options: object, env: Mapping[str, str] | None = None) -> Verdicts:
    """Returns the verdicts of the prompts' own checks on the answers of an agent."""
    done = run("ae-capture", prompts, "-j", "2", *options, cwd=cwd, env=env, timeout=PATIENCE).expect(0)
    assert not [record["id"] for record in done.records if record.get("errors")], done
    return {record["id"]: record["score"]["pass"] for record in done.records}


def test_promptfoo(tmp_path: Path) -> None:
    promptfoo = peer("node/node_modules/.bin/promptfoo")
    node = peer("node/node_modules/.bin/node")
    shutil.copytree(DATA / "promptfoo", suite := tmp_path / "suite")
    (suite / "results.json").unlink()
    quiet = {f"PROMPTFOO_DISABLE_{what}": "true" for what in ("TELEMETRY", "UPDATE", "REMOTE_GENERATION")}
    env = environment(tmp_path, promptfoo, node, PROMPTFOO_CONFIG_DIR=str(tmp_path / ".promptfoo"), **quiet)
    command = ("eval", "-o", "results.json", "--no-cache", "--no-progress-bar", "--no-table", "--no-share")
    ran(promptfoo, *command, cwd=suite, env=env, codes=(0, 100))  # 100: a test did not pass
    results = json.loads((suite / "results.json").read_text())["results"]["results"]
    theirs = {f"{one['testIdx'] + 1}-{one['promptIdx'] + 1}": one["success"] for one in results}
    assert set(theirs.values()) == {True, False}
    assert imported("promptfoo", suite / "results.json") == theirs
    run("ae-prompts", "promptfoo", "suite", "-o", "prompts.jsonl", cwd=tmp_path).expect(0)
    assert captured(tmp_path, "prompts.jsonl", "--simple", f"sh {suite}/answer.sh {{}}") == theirs


INSPECT_TASK = """
import json
from inspect_ai import Task, eval
from inspect_ai.dataset import json_dataset
from inspect_ai.model import ModelOutput, ModelUsage, get_model
from inspect_ai.scorer import choice, includes
from inspect_ai.solver import generate, multiple_choice

answers = json.load(open("answers.json"))
kinds = {
    "text": (generate(), includes()),
    "one": (multiple_choice(), choice()),
    "several": (multiple_choice(multiple_correct=True), choice()),
}


def kind(sample):
    return "text" if not sample.choices else "one" if isinstance(sample.target, str) else "several"


def answer(sample):
    usage = ModelUsage(input_tokens=1, output_tokens=1)  # else tokens are counted, with a file from the internet
    return ModelOutput.from_content("mockllm/model", answers[str(sample.id)]).model_copy(update={"usage": usage})


for name, (solver, scorer) in kinds.items():
    part = json_dataset("questions.jsonl").filter(lambda sample: kind(sample) == name)
    for sample in part:
        sample.files = sample.setup = None  # for them inspect needs a sandbox
    model = get_model("mockllm/model", custom_outputs=[answer(sample) for sample in part])
    task = Task(dataset=part, solver=solver, scorer=scorer)
    eval(task, model=model, max_samples=1, max_connections=1, log_dir="logs", display="none")
"""


def test_inspect(tmp_path: Path) -> None:
    python = peer("bin/python")
    shutil.copytree(DATA / "inspect", tmp_path, dirs_exist_ok=True)
    (tmp_path / "task.py").write_text(INSPECT_TASK)
    env = environment(tmp_path)
    installed = subprocess.run([python, "-c", "import inspect_ai"], capture_output=True, env=env)
    if installed.returncode:
        pytest.skip(f"no inspect_ai: {REASON}")
    ran(python, "task.py", cwd=tmp_path, env=env)
    theirs = imported("inspect", tmp_path / "logs")
    assert theirs == json.loads((tmp_path / "verdicts.json").read_text())
    prompts = run("ae-prompts", "inspect", "questions.jsonl", cwd=tmp_path).expect(0).records
    answers = json.loads((tmp_path / "answers.json").read_text())
    results = [{**prompt, "output": answers[prompt["id"]], "trajectory": []} for prompt in prompts]
    graded = run("ae-grade", stdin=jsonl(*results), cwd=tmp_path).expect(0).records
    assert {record["id"]: record["score"]["pass"] for record in graded} == theirs


# --- Harbor -------------------------------------------------------------------------------------

# What its tasks and Harbor itself run in a container.
PROGRAMS = (
    "bash",
    "sh",
    "cat",
    "chmod",
    "grep",
    "id",
    "ls",
    "mkdir",
    "mv",
    "rm",
    "sleep",
    "tar",
    "test",
    "touch",
    "true",
    "wc",
)


def root_file_system(archive: Path) -> Path:
    """Makes an archive of what an image needs: programs of this machine with their libraries, and directories."""
    paths = [found for name in PROGRAMS if (found := shutil.which(name, path="/usr/bin:/bin"))]
    listed = subprocess.run(["ldd", *paths], capture_output=True, text=True).stdout
    libraries = sorted(set(re.findall(r"(?:=> |^\s+)(/\S+) \(", listed, re.MULTILINE)))
    with tarfile.open(archive, "w") as tar:
        for name in ("app", "tmp", "etc", "root"):
            tar.addfile(directory(name))
        for name, line in (("etc/passwd", b"root:x:0:0:root:/root:/bin/bash\n"), ("etc/group", b"root:x:0:\n")):
            (file := tarfile.TarInfo(name)).size = len(line)
            tar.addfile(file, io.BytesIO(line))
        for path in (*paths, *libraries):
            tar.add(
                os.path.realpath(path), path.lstrip("/").removeprefix("usr/") if path in paths else path.lstrip("/")
            )
    return archive


def directory(name: str) -> tarfile.TarInfo:
    made = tarfile.TarInfo(name)
    made.type, made.mode = tarfile.DIRTYPE, 0o777
    return made


@pytest.fixture
def podman(tmp_path: Path) -> Iterator[Engine]:
    """A podman that runs containers, with the image of the tasks in tests/data/suites/harbor-image."""
    if shutil.which("podman") is None:
        pytest.skip("no podman on PATH")
    folder = Path(tempfile.mkdtemp(prefix="ae-harbor-"))
    try:
        engine = working_engine("podman", folder, root_file_system(folder / "root.tar"))
        engine("tag", engine.image, "localhost/ae-harbor")
        program = folder / "bin" / "podman"  # Harbor removes the images of its tasks
        program.write_text(program.read_text().replace("\nexec", '\n[ "$1" = rmi ] && exit 0\nexec', 1))
        yield engine
    finally:
        for place in [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines() if str(folder) in line]:
            subprocess.run(["umount", "-l", place], check=False)
        shutil.rmtree(folder, ignore_errors=True)


def test_harbor(podman: Engine, tmp_path: Path) -> None:
    """Both run each task's own solution, and then its tests, in podman."""
    harbor = peer("harbor/bin/harbor")
    shutil.copytree(DATA / "harbor-image", tmp_path / "tasks")
    own = {name: value for name, value in podman.env.items() if name != "PATH"}
    env = environment(tmp_path, podman.words[0], harbor, HARBOR_TELEMETRY="0", DO_NOT_TRACK="1", **own)
    options = ("-e", "podman", "-n", 1, "-o", "jobs", "--job-name", "job", "-y")
    ran(harbor, "run", "-p", "tasks", "-a", "oracle", *options, cwd=tmp_path, env=env)
    trials = [json.loads(path.read_text()) for path in (tmp_path / "jobs" / "job").glob("*/result.json")]
    assert not [one["exception_info"]["exception_message"] for one in trials if one["exception_info"]]
    rewards = {one["task_name"]: one["verifier_result"]["rewards"] for one in trials}
    theirs = {name: all(value == 1 for value in found.values()) for name, found in rewards.items()}
    assert theirs == {"acme/hello": True, "acme/scores": True, "acme/stubborn": False}
    assert imported("harbor", tmp_path / "jobs") == theirs
    run("ae-prompts", "harbor", "tasks", "-o", "prompts.jsonl", cwd=tmp_path).expect(0)
    image = "--sandbox podman --sandbox-image localhost/ae-harbor"
    words = ("prompts.jsonl", "-g", f"ae-grader-checks {image}")
    solved = run("ae-validate-refs", *words, cwd=tmp_path, env=env, timeout=PATIENCE).expect(1).records
    assert {record["id"]: record["pass"] for record in solved} == theirs
    script = 'printf "Hello, world!\\n" > hello.txt; printf "a\\nb\\n" > lines.txt; printf 1 > count.txt'
    agent = ("--shell", script, "--workspace-dir", "ws", *image.split(), "--sandbox-net", "none")
    assert captured(tmp_path, "prompts.jsonl", *agent, env=env) == theirs


# --- claude plugin eval -------------------------------------------------------------------------

USAGE = Usage(input=100, cached=0, output=10, reasoning=0)


def answer(request: Request) -> Response:
    """Plays the model of the plugin in tests/data/suites/claude-evals: one case of it is answered wrong."""
    if not request.path.endswith("/messages"):
        return json_response({"input_tokens": 1})
    body = json.loads(request.body)
    text, tools = json.dumps(body), {tool["name"] for tool in body.get("tools") or []}
    past = [
        block for message in body["messages"] if isinstance(message["content"], list) for block in message["content"]
    ]
    calls = [block["name"] for block in past if block.get("type") == "tool_use"]
    return anthropic.write(reply(text, tools, calls), body, request)


def reply(text: str, tools: set[str], calls: list[str]) -> Reply:
    """Returns the next reply of the model, after these calls of tools."""
    if "Please greet Ada" in text:
        if "Skill" in tools and "Skill" not in calls:
            return Reply(
                "", USAGE, calls=(Call("Skill", {"skill": "greeter:greet" if "greeter:greet" in text else "greet"}),)
            )
        return Reply("Hello, Ada!", USAGE)
    if "Please say goodbye" in text:
        return Reply("So long, Ada.", USAGE)
    if "Name a year" in text:
        return Reply("Nineteen ninety.", USAGE)
    if "Add up numbers.txt" in text and "Read" in tools:
        folder = working_directory(text)
        if "Read" not in calls:
            return Reply("", USAGE, calls=(Call("Read", {"file_path": f"{folder}/numbers.txt"}),))
        if "Write" not in calls:
            report = {"file_path": f"{folder}/report.md", "content": "# Report\n\nTotal: 6\n"}
            return Reply("", USAGE, calls=(Call("Write", report),))
    return Reply("Done.", USAGE)


def working_directory(text: str) -> str:
    """Returns the directory that claude names in its first message."""
    return text.partition("working directory: ")[2].split("\\n")[0]


def test_claude_plugin_eval(tmp_path: Path) -> None:
    claude = peer("node/node_modules/.bin/claude")
    shutil.copytree(DATA / "claude-evals", plugin := tmp_path / "plugin")
    (plugin / "aggregate-result.json").unlink()
    with serving(answer) as url:
        settings = {"ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": "sk-dummy", "IS_SANDBOX": "1"}
        settings |= {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "CLAUDE_CODE_MAX_RETRIES": "1"}
        env = environment(tmp_path, claude, **settings)
        options = ("--ablation", "none", "--runs", 1, "-j", 2, "--scaffold", "--allow-tools", "Write", "--no-publish")
        ran(claude, "plugin", "eval", plugin, *options, "--trust-plugin", cwd=tmp_path, env=env, codes=(0, 1))
        file = next(tmp_path.rglob("aggregate-result.json"))
        cases: list[Record] = json.loads(file.read_text())["cases"]
        theirs = {case["name"]: case["arms"]["with"][0]["passed"] for case in cases}
        assert theirs == {"greeting": True, "farewell": False, "no-digits": True, "report": True}
        assert imported("claude-evals", file) == theirs
        run("ae-prompts", "claude-evals", "plugin", "-o", "prompts.jsonl", cwd=tmp_path).expect(0)
        variant = ("--workspace-dir", "ws", "--isolate", "--skill", plugin / "skills" / "greet")
        assert captured(tmp_path, "prompts.jsonl", "-s", "claude", *variant, env=env) == theirs
