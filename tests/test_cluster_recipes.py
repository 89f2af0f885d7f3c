"""Shards of a run by GNU parallel, Slurm and Kubernetes: --shard slurm|k8s and the files of examples/cluster."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from agenteval.cluster.shards import parse_shard
from tests.support.slurm import missing as slurm_missing
from tests.support.slurm import slurm_cluster
from tests.support.tool import BIN, ROOT, python_script, read, run, script, start, write
from tests.support.watching import until

EXAMPLE = ROOT / "examples" / "cluster"
PROMPTS = [{"id": f"p{number}", "input": f"question {number}"} for number in range(12)]
CLAUDE = 'echo \'{"type":"result","result":"hello","is_error":false,"session_id":"s1"}\''


def slurm(task: int, least: int, most: int, count: int, step: int = 1) -> dict[str, str]:
    names = ("ID", "MIN", "MAX", "COUNT", "STEP")
    values = (task, least, most, count, step)
    return {f"SLURM_ARRAY_TASK_{name}": str(value) for name, value in zip(names, values, strict=True)}


@pytest.mark.parametrize(
    ("which", "environment", "share"),
    [
        ("slurm", slurm(1, 1, 4, 4), (1, 4)),
        ("slurm", slurm(4, 1, 4, 4), (4, 4)),
        ("slurm", slurm(0, 0, 3, 4), (1, 4)),
        ("slurm", slurm(7, 3, 10, 4, 2), (3, 4)),  # --array=3-10:2 has the tasks 3, 5, 7 and 9
        (
            "slurm",
            {name: text for name, text in slurm(2, 1, 4, 4).items() if name[17:] in ("ID", "MIN", "COUNT")},
            (2, 4),
        ),
        ("k8s", {"JOB_COMPLETION_INDEX": "0", "JOB_COMPLETIONS": "3"}, (1, 3)),
        ("k8s", {"JOB_COMPLETION_INDEX": "2", "JOB_COMPLETIONS": "3"}, (3, 3)),
    ],
)
def test_the_share_of_a_scheduler(
    which: str, environment: dict[str, str], share: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert parse_shard(which) == share


@pytest.mark.parametrize(
    ("which", "environment", "says"),
    [
        ("slurm", {}, "SLURM_ARRAY_TASK_ID is not set: submit it with sbatch --array=1-8"),
        ("slurm", slurm(5, 3, 9, 3), "is not a plain range"),  # --array=3,5,9
        ("slurm", slurm(4, 3, 9, 4, 2), "is not a plain range"),
        ("k8s", {"JOB_COMPLETIONS": "3"}, "JOB_COMPLETION_INDEX is not set"),
        ("k8s", {"JOB_COMPLETION_INDEX": "1"}, "JOB_COMPLETIONS is not set"),
        ("k8s", {"JOB_COMPLETION_INDEX": "3", "JOB_COMPLETIONS": "3"}, "is not below JOB_COMPLETIONS=3"),
        ("k8s", {"JOB_COMPLETION_INDEX": "x", "JOB_COMPLETIONS": "3"}, "is 'x', not a number"),
    ],
)
def test_an_environment_without_a_share(
    which: str, environment: dict[str, str], says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ValueError, match=re.escape(says)):
        parse_shard(which)


def test_a_missing_variable_is_one_line(tmp_path: Path) -> None:
    done = run("ae-run", "--shard", "slurm", "--simple", "true {}", cwd=tmp_path)
    done.expect(2).says("--shard", "SLURM_ARRAY_TASK_ID is not set")


# --- examples/cluster ---------------------------------------------------------------------------


def expect_whole_run(folder: Path, shards: int) -> None:
    """Asserts that the merged shards are the run, and that each had its part."""
    assert [record["id"] for record in read(folder / "results.jsonl")] == [prompt["id"] for prompt in PROMPTS]
    sizes = [len(read(path)) for path in (folder / "shards").iterdir()]
    assert len(sizes) == shards and all(sizes) and sum(sizes) == len(PROMPTS)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shutil.copytree(EXAMPLE, tmp_path, dirs_exist_ok=True)
    write(tmp_path / "prompts.jsonl", *PROMPTS)
    return tmp_path


def merge(folder: Path) -> None:
    shards = sorted((folder / "shards").glob("*.jsonl"))
    run("ae-merge", *shards, "--prompts", "prompts.jsonl", "-o", "results.jsonl", cwd=folder).expect(0, stderr="")


def test_gnu_parallel(folder: Path) -> None:
    version = shutil.which("parallel") and subprocess.run(["parallel", "--version"], capture_output=True, text=True)
    if not version or "GNU parallel" not in version.stdout:
        pytest.skip("GNU parallel is not on PATH")
    done = run("./parallel.sh", "--simple", "echo you asked: {}", cwd=folder, env={"SHARDS": "3"}, timeout=60)
    assert done.code == 0, done
    expect_whole_run(folder, 3)
    assert {record["output"] for record in read(folder / "results.jsonl")} == {
        f"you asked: {prompt['input']}" for prompt in PROMPTS
    }


def test_slurm_array_job(folder: Path) -> None:
    """Runs the script as slurmd runs it: with the variables of its task, and the arguments of sbatch."""
    for task in (0, 1, 2):
        done = run("./slurm.sh", "--simple", "echo {}", cwd=folder, env=slurm(task, 0, 2, 3)).expect(0)
        assert done.out == b"", done
    merge(folder)
    expect_whole_run(folder, 3)


@pytest.mark.cluster
def test_a_real_slurm_array_job_that_is_cancelled_and_submitted_again(folder: Path) -> None:
    """The tasks run side by side with one --workspace-dir; SIGTERM ends them, the same sbatch command goes on."""
    if why := slurm_missing():
        pytest.skip(why)
    task = f"{folder}/task-$SLURM_ARRAY_TASK_ID"
    slow = f"test -e {folder}/slow && ! mkdir {task}.first && touch {task}.slow && exec sleep 1000"
    command = ["--array=1-3", "slurm.sh", "--shell", f"{slow}; echo you asked: $PROMPT"]
    (folder / "slow").touch()

    def written() -> int:
        return sum(len(read(path)) for path in (folder / "shards").glob("*.jsonl"))

    with slurm_cluster(folder / "slurm") as cluster:
        env = {**cluster, "PATH": f"{BIN}{os.pathsep}{cluster['PATH']}"}

        def call(*words: str) -> str:
            done = subprocess.run(words, cwd=folder, env=env, capture_output=True, text=True, timeout=120)
            assert done.returncode == 0, done
            return done.stdout.strip()

        job = call("sbatch", "--parsable", *command)
        until(
            lambda: written() == 3 and len(list(folder.glob("task-*.slow"))) == 3,
            "each task has a record and a slow agent",
            within=60,
        )
        call("scancel", "--batch", "--signal=TERM", job)
        until(lambda: not call("squeue", "-h", "-j", job), "the array has ended", within=60)
        assert written() == 3
        (folder / "slow").unlink()
        call("sbatch", "--wait", *command)
    merge(folder)
    expect_whole_run(folder, 3)
    assert all(record["output"].startswith("you asked: ") for record in read(folder / "results.jsonl"))


def manifest(folder: Path, name: str = "kubernetes.yaml") -> dict[str, Any]:
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
    loaded: dict[str, Any] = yaml.safe_load((folder / name).read_text())
    return loaded


def test_the_kubernetes_manifest_matches_the_official_schema(folder: Path) -> None:
    validator = pytest.importorskip("kubernetes_validate", reason="kubernetes-validate is not installed")
    job = manifest(folder)
    validator.validate(job, "1.31", strict=True)
    validator.validate(manifest(folder, "kubernetes-volume.yaml"), "1.31", strict=True)
    with pytest.raises(Exception, match="completionsMode"):
        validator.validate({**job, "spec": {**job["spec"], "completionsMode": "Indexed"}}, "1.31", strict=True)


def test_kubernetes_indexed_job(folder: Path) -> None:
    """Runs the command of the manifest with the environment of each pod."""
    spec = manifest(folder)["spec"]
    (container,) = spec["template"]["spec"]["containers"]
    (folder / "grader.py").write_text('def grade(record):\n    return {"pass": True, "score": 1.0}\n')
    (folder / "bin").mkdir()
    script(folder / "bin" / "claude", CLAUDE)
    variables = {variable["name"]: variable.get("value", "secret") for variable in container["env"]}
    path = os.pathsep.join([str(folder / "bin"), str(BIN), os.environ["PATH"]])
    for index in range(spec["completions"]):
        words = [
            word.replace("$(JOB_COMPLETION_INDEX)", str(index)) for word in container["command"] + container["args"]
        ]
        pod = {**variables, "JOB_COMPLETION_INDEX": str(index), "PATH": path}
        run(words[0], *words[1:], cwd=folder, env=pod).expect(0)
    merge(folder)
    expect_whole_run(folder, spec["completions"])


# --- Kubernetes ---------------------------------------------------------------------------------


def test_the_manifest_of_the_job() -> None:
    """What Kubernetes itself demands of these fields, and that every exit code of ae-capture has its rule."""
    yaml = pytest.importorskip("yaml")
    job = yaml.safe_load((EXAMPLE / "kubernetes.yaml").read_text())
    spec, pod = job["spec"], job["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert spec["completionMode"] == "Indexed" and spec["parallelism"] <= spec["completions"]
    assert {"name": "JOB_COMPLETIONS", "value": str(spec["completions"])} in container["env"]
    rules = spec["podFailurePolicy"]["rules"]
    assert pod["restartPolicy"] == "Never", "a policy for failed pods needs it"
    assert spec["backoffLimitPerIndex"] and spec["maxFailedIndexes"] <= spec["completions"], "FailIndex needs both"
    codes = {rule["action"]: rule.get("onExitCodes") for rule in rules}
    assert codes["FailJob"] == {"containerName": container["name"], "operator": "In", "values": [2]}
    assert codes["FailIndex"]["values"] == [1]
    assert rules[0]["onPodConditions"] == [{"type": "DisruptionTarget", "status": "True"}], "preemption counts first"
    assert pod["securityContext"]["runAsNonRoot"] and pod["volumes"][0]["name"] == container["volumeMounts"][0]["name"]


def test_pods_on_several_nodes_can_write_to_the_volume(folder: Path) -> None:
    """The Job runs several pods at a time and mounts the claim for writing: it and the notes must say ReadWriteMany."""
    spec, claim = manifest(folder)["spec"], manifest(folder, "kubernetes-volume.yaml")
    pod = spec["template"]["spec"]
    (container,), (volume,) = pod["containers"], pod["volumes"]
    (mount,) = container["volumeMounts"]
    assert claim["kind"] == "PersistentVolumeClaim" and spec["parallelism"] > 1
    assert volume == {"name": mount["name"], "persistentVolumeClaim": {"claimName": claim["metadata"]["name"]}}
    assert container["workingDir"] == mount["mountPath"], "the shards are written there"
    assert claim["spec"]["accessModes"] == ["ReadWriteMany"]
    for text in (folder / "kubernetes.yaml", ROOT / "docs" / "cluster.md"):
        assert "must be ReadWriteMany" in " ".join(text.read_text().replace("\n#", "").split()), text
        assert "kubernetes-volume.yaml" in text.read_text(), text


def action_for(rules: list[dict[str, Any]], code: int, *, disrupted: bool) -> str:
    """Returns what a Job does about a pod that ended so: the first rule that fits; "Count" without one."""
    for rule in rules:
        codes = rule.get("onExitCodes", {}).get("values", ())
        if code in codes or (disrupted and "onPodConditions" in rule):
            return str(rule["action"])
    return "Count"


@pytest.mark.parametrize(
    ("grader", "options", "disrupted", "code", "action"),
    [
        ("return {}", [], False, 1, "FailIndex"),  # the grader erred: a retry would hide it
        ("return 1.0", ["--no-such-option"], False, 2, "FailJob"),
        ("import os, signal; os.kill(os.getppid(), signal.SIGTERM)", [], True, 143, "Ignore"),  # preempted
        ("import os, signal; os.kill(os.getppid(), signal.SIGKILL)", [], False, -9, "Count"),  # out of memory
    ],
)
def test_what_becomes_of_a_pod(
    grader: str, options: list[str], disrupted: bool, code: int, action: str, folder: Path
) -> None:
    """The real exit code of the manifest's command, and what its podFailurePolicy makes of it."""
    spec = manifest(folder)["spec"]
    (container,) = spec["template"]["spec"]["containers"]
    (folder / "grader.py").write_text(f"def grade(record):\n    {grader}\n")
    (folder / "bin").mkdir()
    script(folder / "bin" / "claude", CLAUDE)
    pod = {"JOB_COMPLETION_INDEX": "0", "JOB_COMPLETIONS": str(spec["completions"]), "ANTHROPIC_API_KEY": "secret"}
    pod["PATH"] = os.pathsep.join([str(folder / "bin"), str(BIN), os.environ["PATH"]])
    words = [*container["command"], *container["args"], *options]
    run(*words, cwd=folder, env=pod).expect(code)
    assert action_for(spec["podFailurePolicy"]["rules"], code, disrupted=disrupted) == action


def test_the_image_is_pinned_and_not_root() -> None:
    text = (EXAMPLE / "Containerfile").read_text()
    assert re.search(r"^ARG BASE=\S+@sha256:[0-9a-f]{64}$", text, re.MULTILINE) and "\nUSER 1000\n" in text
    assert "ARG AGENTS" in text and text.count("--require-hashes") == 2


def test_the_image_has_only_what_the_suite_is_built_from(tmp_path: Path) -> None:
    """A layer keeps what was copied, also if it is removed later: .venv, .git, results and .env stay out of it."""
    text, source = (EXAMPLE / "Containerfile").read_text(), tmp_path / "src"
    source.mkdir()
    for line in re.findall(r"^COPY (.+)$", text, re.MULTILINE):
        *names, to = line.split()
        for name in names:
            target = Path(f"{tmp_path}{to}") / (name if to.endswith("/") else "")
            (shutil.copytree if (ROOT / name).is_dir() else shutil.copy)(ROOT / name, target)
    assert {path.name for path in source.iterdir()}.isdisjoint({".venv", ".git", "tests", "bin"})
    assert {f"/src/{path.name}" for path in source.glob("*.lock")} == set(re.findall(r"-r (\S+)", text))
    wheel = ["pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w", str(tmp_path), str(source)]
    subprocess.run([sys.executable, "-m", *wheel], check=True, timeout=120)
    (built,) = tmp_path.glob("agenteval-*.whl")
    assert "agenteval/cli/tools/capture.py" in zipfile.ZipFile(built).namelist()


# kubectl run, wait, get, exec [-i] and delete, as documented. A pod is a directory; its root is $POD in the command.
KUBECTL = r"""
echo "$*" >> "$PODS/calls"
while case $1 in --*) true;; *) false;; esac; do shift; done
verb=$1; shift
case $verb in
run) mkdir "$PODS/$1"; echo "pod/$1 created";;
wait) for word; do case $word in pod/*) test -d "$PODS/${word#pod/}";; esac; done; pod-status "$verb" "$@";;
get) pod-status "$verb" "$@";;
delete) rm -rf "$PODS/$2";;
exec)
    [ "$1" = -i ] && shift || exec < /dev/null
    cd "$PODS/$1" || exit 1
    export POD=$PWD
    shift 2
    for word; do shift; set -- "$@" "$(printf %s "$word" | sed "s#/tmp/work#$POD/work#g")"; done
    env -i PATH="$PATH" POD="$POD" "$@";;
esac
"""

# What kubectl makes of a pod's status: a line of $STATUSES for each wait, the last one from then on. A wait takes no
# time here, but its timeout is noted. As in kubectl, a key that is missing is empty in a jsonpath.
POD_STATUS = r"""
import json, os, re, sys
from pathlib import Path

pods = Path(os.environ["PODS"])
statuses = [json.loads(line) for line in Path(os.environ["STATUSES"]).read_text().splitlines()]
verb, *words = sys.argv[1:]
if verb == "wait":
    (timeout,) = [word.split("=")[1] for word in words if word.startswith("--timeout=")]
    waited = [*(pods / "waited").read_text().split(), timeout] if (pods / "waited").exists() else [timeout]
    (pods / "waited").write_text(" ".join(waited))
status = statuses[min(len((pods / "waited").read_text().split()), len(statuses)) - 1]

def find(path):
    found = [{"status": status}]
    for name, every, key, value in re.findall(r'\.(\w+)|\[(\*)\]|\[\?\(@\.(\w+)=="(\w+)"\)\]', path):
        if name:
            found = [item[name] for item in found if name in item]
        else:
            found = [element for item in found for element in item if every or element[key] == value]
    return " ".join(found)

if verb == "get":
    (template,) = [word.removeprefix("jsonpath=") for word in words if word.startswith("jsonpath=")]
    print(re.sub(r"\{(.+?)\}", lambda match: find(match[1]), template), end="")
elif not any(c["type"] == "Ready" and c["status"] == "True" for c in status.get("conditions", ())):
    sys.exit("error: timed out waiting for the condition on pods/x")
"""


def status(phase: str, container: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Returns the status of a pod, as far as the API server gives it, with the state of its container."""
    return {"phase": phase, "containerStatuses": [{"name": "agent", "state": container}], **more}


READY = status("Running", {"running": {}}, conditions=[{"type": "Ready", "status": "True"}])
CREATING = status("Pending", {"waiting": {"reason": "ContainerCreating"}})
NO_IMAGE = status("Pending", {"waiting": {"reason": "ImagePullBackOff", "message": 'Back-off pulling image "agent:1"'}})
START_ERROR = status(
    "Failed", {"terminated": {"reason": "StartError", "message": 'exec: "sleep":\nexecutable file not found'}}
)
EVICTED = {"phase": "Failed", "reason": "Evicted", "message": "The node was low on resource: memory."}
NO_NODE = {
    "phase": "Pending",
    "conditions": [
        {"type": "PodScheduled", "status": "False", "message": "0/3 nodes are available: 3 Insufficient cpu."}
    ],
}


@pytest.fixture
def in_pod(folder: Path) -> dict[str, str]:
    """Returns the environment of in-pod with a kubectl whose pods are ready at once; STATUSES is to be changed.

    ws/p is a workspace.
    """
    (folder / "ws" / "p").mkdir(parents=True)
    (folder / "ws" / ".agenteval").mkdir()
    (folder / "bin").mkdir()
    (folder / "pods").mkdir()
    script(folder / "bin" / "kubectl", KUBECTL)
    python_script(folder / "bin" / "pod-status", POD_STATUS)
    write(folder / "statuses", READY)
    path = f"{folder / 'bin'}:{os.environ['PATH']}"
    return {"PATH": path, "PODS": str(folder / "pods"), "STATUSES": str(folder / "statuses"), "AE_POD_IMAGE": "agent:1"}


@pytest.mark.parametrize(("agent", "code"), [("exit 0", 0), ("exit 7", 7)])
def test_an_agent_in_a_pod(agent: str, code: int, folder: Path, in_pod: dict[str, str]) -> None:
    """Output, exit code, variables and the workspace are those of the pod, which is deleted."""
    (folder / "template").mkdir()
    (folder / "template" / "given").write_text("old")
    script(folder / "work.sh", f'cat given; echo new > given; echo "$KEY $1"; test -z "$HOME" && touch made; {agent}')
    shutil.copy(folder / "work.sh", folder / "template" / "work.sh")
    env = {**in_pod, "KEY": "a b", "AE_POD_ENV": "KEY", "AE_POD_ARGS": "--namespace=evals"}
    args = ("prompts.jsonl", "-j", 3, "--workspace-dir", "ws", "--workspace-template", "template", "--no-redact")
    agent_command = f"{folder / 'in-pod'} sh work.sh {{}}"
    done = run("ae-run", *args, "--keep-going", "--simple", agent_command, cwd=folder, env=env, timeout=60).expect(0)
    for record in done.records:
        assert record["rawLines"] == ["old" + f"a b {record['input']}"] and record["exitCode"] == code, done
        place = Path(record["metadata"]["workspaceDir"])
        assert (place / "given").read_text() == "new\n" and (place / "made").exists()
    assert not list((folder / "pods").glob("ae-*")), "every pod is deleted"
    calls = (folder / "pods" / "calls").read_text()
    assert calls.count("--image=agent:1 --restart=Never") == len(PROMPTS) and "a b" not in calls
    assert calls.count('"automountServiceAccountToken":false') == len(PROMPTS), "an agent has no access to the cluster"
    assert calls.count("--namespace=evals ") == 6 * len(PROMPTS)  # run, wait, in, the agent, back, delete


@pytest.mark.parametrize(
    ("statuses", "says"),
    [
        ([START_ERROR], 'the pod did not start: Failed StartError: exec: "sleep": executable file not found\n'),
        ([CREATING, EVICTED], "the pod did not start: Failed Evicted: The node was low on resource: memory.\n"),
        ([CREATING, NO_IMAGE], 'the pod did not start: Pending ImagePullBackOff: Back-off pulling image "agent:1"\n'),
    ],
)
def test_a_pod_that_has_failed_is_not_waited_for(
    statuses: list[dict[str, Any]], says: str, folder: Path, in_pod: dict[str, str]
) -> None:
    """One line names the reason, and the pod is deleted."""
    write(folder / "statuses", *statuses)
    done = run("../../in-pod", "true", cwd=folder / "ws" / "p", env=in_pod).expect(1)
    assert done.stderr == f"in-pod: {says}"
    waited = [int(seconds[:-1]) for seconds in (folder / "pods" / "waited").read_text().split()]
    assert sum(waited) <= 60 and not list((folder / "pods").glob("ae-*")), waited


def test_a_pod_that_may_still_start_is_waited_for(folder: Path, in_pod: dict[str, str]) -> None:
    """A pod without a node has 300 seconds; an image that could not be pulled at first is no failure."""
    write(folder / "statuses", NO_NODE)
    done = run("../../in-pod", "true", cwd=folder / "ws" / "p", env=in_pod).expect(1)
    assert "timed out waiting" in done.stderr and "0/3 nodes are available" in done.stderr
    waited = [int(seconds[:-1]) for seconds in (folder / "pods" / "waited").read_text().split()]
    assert sum(waited) == 300
    (folder / "pods" / "waited").unlink()
    write(folder / "statuses", NO_NODE, CREATING, NO_IMAGE, NO_IMAGE, CREATING, READY)
    done = run("../../in-pod", "echo", "hello", cwd=folder / "ws" / "p", env=in_pod).expect(0, stderr="")
    assert done.out == b"hello\n"


def test_a_pod_that_cannot_start_is_a_failed_agent(folder: Path, in_pod: dict[str, str]) -> None:
    script(folder / "bin" / "kubectl", "echo 'error: no cluster' >&2; exit 1")
    kept = folder / "ws" / "p" / "kept"
    kept.write_text("x")
    done = run("../../in-pod", "true", cwd=kept.parent, env=in_pod)
    assert done.code == 1 and "no cluster" in done.stderr and kept.exists(), done
    assert run("../../in-pod", "true", cwd=kept.parent, env={"PATH": in_pod["PATH"]}).code == 2


def test_only_a_workspace_is_replaced(folder: Path, in_pod: dict[str, str]) -> None:
    """Without --workspace-dir, all agents would replace the files of the directory that the user is in."""
    before = sorted(folder.iterdir())
    done = run("ae-run", "prompts.jsonl", "-j", 2, "--simple", "./in-pod true {}", cwd=folder, env=in_pod).expect(1)
    assert "is not a workspace" in done.stderr and "--workspace-dir" in done.stderr, done
    assert sorted(folder.iterdir()) == before and not (folder / "pods" / "calls").exists()


def test_in_pod_ends_when_the_agent_ends(folder: Path, in_pod: dict[str, str]) -> None:
    """An agent that speaks ACP has its stdin open all the time; one that crashed must not be waited for."""
    agent = ["../../in-pod", "sh", "-c", "read line; echo got $line; exit 3"]
    with subprocess.Popen(
        [str(folder / "in-pod"), *agent[1:]],
        cwd=folder / "ws" / "p",
        env={**os.environ, **in_pod},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdin and process.stdout
        process.stdin.write(b"hello\n")
        process.stdin.flush()
        try:
            assert process.wait(timeout=30) == 3 and process.stdout.read() == b"got hello\n"
        finally:
            process.stdin.close()


def test_a_workspace_that_is_hard_to_bring_back(folder: Path, in_pod: dict[str, str]) -> None:
    """Files that were written meanwhile or that nobody may read, and what must not leave the pod."""
    tar = shutil.which("tar")
    script(folder / "bin" / "tar", f'{tar} "$@" || exit; case "$POD $1" in /*-cf) exit 1; esac')  # a file changed
    agent = (
        "mkdir -p module/deep; echo x > module/deep/file; chmod 0555 module/deep module; echo y > locked; "
        "chmod 0 locked; mkfifo fifo; cp /bin/true program; chmod 4755 program; ln -s /etc/hostname link"
    )
    here = folder / "ws" / "p"
    for _turn in range(2):
        run("../../in-pod", "sh", "-c", f"rm -rf fifo link; {agent}", cwd=here, env=in_pod).expect(0, stderr="")
        assert (here / "module" / "deep" / "file").read_text() == "x\n" and (here / "locked").read_text() == "y\n"
        assert not (here / "fifo").exists() and (here / "link").is_symlink()
        assert (here / "module").stat().st_mode & 0o700 == 0o700, "the next turn, or the user, can remove it"
        assert (here / "program").stat().st_mode & 0o7777 == 0o755


def test_a_workspace_that_does_not_come_back(folder: Path, in_pod: dict[str, str]) -> None:
    here = folder / "ws" / "p"
    (here / "kept").write_text("x")
    done = run(
        "../../in-pod", "sh", "-c", 'echo new > kept; rm "$POD/work/kept"; rmdir "$POD/work"', cwd=here, env=in_pod
    )
    assert done.code == 1 and "in-pod: the workspace could not be brought back" in done.stderr, done
    assert (here / "kept").read_text() == "x" and not list((folder / "pods").glob("ae-*"))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_deletes_the_pod(number: signal.Signals, folder: Path, in_pod: dict[str, str]) -> None:
    here = folder / "ws" / "p"
    process = start("../../in-pod", "sh", "-c", "touch started; exec sleep 1000", cwd=here, env=in_pod)
    until(lambda: list((folder / "pods").glob("ae-*/work/started")), "the agent runs", within=30)
    os.killpg(process.pid, number)
    process.communicate(timeout=30)
    assert process.returncode == 128 + number and not list((folder / "pods").glob("ae-*"))


@pytest.mark.parametrize(
    ("variables", "says"),
    [({}, "KEY: is named in AE_POD_ENV, but is not set"), ({"KEY": "a\n\nb"}, "in-pod: KEY has several lines")],
)
def test_a_variable_that_cannot_be_passed_on(
    variables: dict[str, str], says: str, folder: Path, in_pod: dict[str, str]
) -> None:
    """No pod is started: a second line would be taken for another variable, or for the agent's stdin."""
    env = {**in_pod, "AE_POD_ENV": "KEY", **variables}
    done = run("../../in-pod", "true", cwd=folder / "ws" / "p", env=env)
    assert done.code == 2 and says in done.stderr and not (folder / "pods" / "calls").exists(), done
