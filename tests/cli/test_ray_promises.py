"""What ae-ray promises for a whole run, on a real cluster of several nodes: make test-cluster.

The same with simulated nodes, and in more detail, is in test_ray.py.
"""

from __future__ import annotations

import re
import select
import shutil
import signal
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support.ray_nodes import TwoNodes
from tests.support.tool import Done, Record, jsonl, meeting, read, run, script, write
from tests.support.watching import Running, alive, sleepers, until

pytestmark = pytest.mark.cluster
SLOW = 180.0
FEW = 8
PROMPTS: list[Record] = [{"id": f"p{number}", "input": f"question {number}"} for number in range(40)]


def lines(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0


def ids(records: list[Record]) -> list[str]:
    return sorted(str(record["id"]) for record in records)


def of_run(record: Record) -> Path:
    """Returns the directory of a record's run on its node, from what `pwd` printed in its workspace."""
    place = Path(record["rawLines"][0])
    return Path(*place.parts[: place.parts.index(record["metadata"]["runId"]) + 1])


def test_runs_at_the_same_time_share_no_workspace(two_nodes: TwoNodes, tmp_path: Path) -> None:
    """Two runs with the same ids and the same relative --workspace-dir; the second brings its workspaces home."""
    write(tmp_path / "prompts.jsonl", *PROMPTS[:2])
    (tmp_path / "meeting").mkdir()
    agent = f"pwd; touch by-NAME; {meeting(4, tmp_path / 'meeting')}; ls"
    args = ("prompts.jsonl", "--address", two_nodes.address, "-j", 2)
    command = ("--", "ae-run", "-t", "15m", "--workspace-dir", "ws", "--shell")  # one run may start a minute late
    with (
        Running("ae-ray", *args, *command, agent.replace("NAME", "a"), cwd=tmp_path) as a,
        Running(
            *("ae-ray", *args, "--bring-workspaces", "home", *command, agent.replace("NAME", "b")), cwd=tmp_path
        ) as b,
    ):
        found = {"a": a.end(SLOW).expect(0).records, "b": b.end(SLOW).expect(0).records}
    try:
        for name, records in found.items():
            assert ids(records) == ["p0", "p1"] and [one["rawLines"][1:] for one in records] == [[f"by-{name}"]] * 2
        for record in found["a"]:
            assert (Path(record["rawLines"][0]) / "by-a").exists(), "it stays where it is"
        for record in found["b"]:
            home = tmp_path / "home" / f"prompt-{record['id']}"
            assert record["metadata"]["workspaceDir"] == str(home) and [path.name for path in home.iterdir()] == [
                "by-b"
            ]
            assert not of_run(record).exists(), "nothing empty is left"
    finally:
        for record in found["a"] + found["b"]:
            shutil.rmtree(of_run(record), ignore_errors=True)


USAGE = """\
echo x >> started
echo '{"type":"system","subtype":"init","session_id":"s"}'
echo '{"type":"result","result":"ok","total_cost_usd":0.25,"usage":{"input_tokens":10,"output_tokens":5}}'
"""
LIMITS = {
    "--max-failures": ("ae-run --max-failures 4 --keep-going --shell", "exit 3", "stopped after 4 failed agents", 4),
    "--strict": ("ae-run --strict --shell", "exit 3", "stopped by --strict", 1),
    "--max-cost": ("ae-capture --max-cost 1 --extract claude --shell", USAGE, "of 1 USD spent", 4),
    "--stop-when-known": (
        "ae-capture -g ae-grader-hint --stop-when-known --threshold 0.9 --shell",
        "echo nothing",
        "below 0.9",
        20,
    ),
}


@pytest.mark.parametrize("option", LIMITS)
def test_limits_are_those_of_the_run(option: str, two_nodes: TwoNodes, tmp_path: Path) -> None:
    """With four records at a time on two nodes, no more agents run than on one machine with -j 4."""
    words, agent, says, count = LIMITS[option]
    write(tmp_path / "prompts.jsonl", *({**prompt, "hint": "question"} for prompt in PROMPTS))
    args = ("prompts.jsonl", "--address", two_nodes.address, "-j", 4, "--", *words.split(), agent)
    done = run("ae-ray", *args, cwd=tmp_path, timeout=SLOW)
    assert done.code == (0 if option == "--stop-when-known" else 1) and says in done.stderr, done
    assert 1 <= len(done.records) <= count + 3, done


def test_the_rate_is_that_of_the_run(two_nodes: TwoNodes, tmp_path: Path) -> None:
    """Four records could be under way on two nodes; at one an hour, only the first one is."""
    write(tmp_path / "prompts.jsonl", *PROMPTS[:FEW])
    args = ("prompts.jsonl", "--address", two_nodes.address, "-j", 4)
    command = ("--", "ae-run", "--rate", "1/h", "--shell", f"echo x >> {tmp_path}/started; echo fine")
    with Running("ae-ray", *args, *command, cwd=tmp_path) as running:
        running.record(SLOW)
        assert running.silent(5), "each slot has a rate of its own"
        running.signal(signal.SIGINT)
        assert running.end(SLOW).code == 130 and lines(tmp_path / "started") == 1


def test_what_cannot_be_kept_is_refused(tmp_path: Path) -> None:
    for word in ("--concurrency=2", "--shard=1/2", "--output=x", "--resume", "prompts.jsonl"):
        done = run("ae-ray", "--", "ae-run", word, "--shell", "true", cwd=tmp_path, timeout=SLOW).expect(2)
        assert len(done.messages) == 1 and done.stderr.startswith("ae-ray: "), done


def test_resume_is_that_of_one_machine(two_nodes: TwoNodes, tmp_path: Path) -> None:
    """Same words; records whose worker died run again, others that failed only with --retry-failed."""
    agent = (
        f'echo "$PROMPT" >> {tmp_path}/paid; test -e {tmp_path}/mended || case "$PROMPT" in '
        "*0) kill -9 $PPID; sleep 60;; *1) exit 7;; esac; echo fine"
    )
    write(tmp_path / "prompts.jsonl", *PROMPTS[:FEW])
    where = ("prompts.jsonl", "--address", two_nodes.address, "-j", 4, "-o", "out.jsonl")

    def go_on(*command: object) -> Done:
        return run("ae-ray", *where, "--resume", "--", *command, cwd=tmp_path, timeout=SLOW)

    run("ae-ray", *where, "--", "ae-run", "--shell", agent, cwd=tmp_path, timeout=SLOW).expect(1)
    failed = {record["id"] for record in read(tmp_path / "out.jsonl") if record.get("errors")}
    assert failed == {"p0", "p1"} and ids(read(tmp_path / "out.jsonl")) == ids(PROMPTS[:FEW])
    (tmp_path / "mended").touch()
    before = lines(tmp_path / "paid")
    refused = go_on("ae-run", "--shell", "another agent").expect(2)
    assert "its records were made with another command" in refused.stderr, refused
    again = go_on("ae-run", "--shell", agent, "--retry-failed").expect(0)
    assert again.stderr == "ae-ray: out.jsonl: 6 kept, 2 failed and run again\n", again
    assert lines(tmp_path / "paid") == before + 2 and not any(one.get("errors") for one in read(tmp_path / "out.jsonl"))
    write(tmp_path / "prompts.jsonl", {"id": "p0", "input": "changed"}, *PROMPTS[1:FEW])
    changed = go_on("ae-run", "--shell", agent).expect(0)
    assert "7 kept, 1 changed and run again" in changed.stderr and lines(tmp_path / "paid") == before + 3, changed


def test_a_node_without_the_agent_gets_no_more_records(two_nodes: TwoNodes, tmp_path: Path) -> None:
    """The agent is on the PATH of two nodes and not on that of the third, whose worker may start late."""
    script(two_nodes.tools / "some-agent", "echo fine")
    found: list[Record] = []
    node = two_nodes.cluster.add_node(num_cpus=2)
    try:
        args = ("--address", two_nodes.address, "-j", 6, "--", "ae-run", "--shell", "some-agent")
        with Running("ae-ray", *args, cwd=tmp_path) as running:

            def one_more() -> bool:
                running.feed({"id": f"p{len(found)}", "input": "question"})
                found.append(running.record(SLOW))
                return bool(select.select([running.stderr], [], [], 0)[0])

            until(one_more, "a message", SLOW)
            for _ in range(20):
                one_more()
            done = running.end(SLOW).expect(0)
    finally:
        two_nodes.cluster.remove_node(node)
    assert done.out == b"" and {tuple(one["rawLines"]) for one in found} == {("fine",)}, (found, done)
    # Until a second node has started, a node is called by its host alone.
    names = {name for record in found if "/" in (name := record["metadata"]["node"])}
    assert len(done.messages) == 1 and "gets no more records" in done.stderr and "some-agent" in done.stderr, done
    assert 1 <= len(names) <= 2 and not any(done.stderr.startswith(f"ae-ray: {name}:") for name in names), (names, done)


def test_a_failed_record_is_tried_elsewhere_without_more_room(two_nodes: TwoNodes, tmp_path: Path) -> None:
    """The workers of the run have all CPUs of both nodes: for another one there is no room until the run has ended."""
    write(tmp_path / "prompts.jsonl", *PROMPTS[:FEW])
    args = ("prompts.jsonl", "--address", two_nodes.address, "-j", 2, "--resources", "cpu=2", "--", "ae-run")
    done = run("ae-ray", *args, "--keep-going", "--shell", "exit 3", cwd=tmp_path, timeout=SLOW).expect(0)
    assert ids(done.records) == ids(PROMPTS[:FEW]) and all(record["errors"] for record in done.records), done


def test_finished_trials_are_not_run_again(two_nodes: TwoNodes, tmp_path: Path) -> None:
    """The driver is killed in the fourth of five trials: of both prompts only that one has run for nothing."""
    write(tmp_path / "prompts.jsonl", *PROMPTS[:2])
    count = f'echo "$PROMPT" >> {tmp_path}/paid; [ $(grep -c "$PROMPT" {tmp_path}/paid) -lt 4 ]'
    agent = f"{count} || [ -e {tmp_path}/go ] || sleep 600; echo fine"
    args = ("prompts.jsonl", "--address", two_nodes.address, "-j", 2, "-o", "out.jsonl", "--resume")
    command = ("--", "ae-trials", "-k", 5, "-t", "15m", "--shell", agent)
    with Running("ae-ray", *args, *command, cwd=tmp_path) as running:
        until(lambda: lines(tmp_path / "paid") >= 8, "the fourth trials run", SLOW)
        until(lambda: lines(tmp_path / "out.jsonl.unfinished") >= 6, "the first three of both are kept", SLOW)
        running.signal(signal.SIGKILL)
        running.process.wait()
    (tmp_path / "go").touch()
    run("ae-ray", *args, *command, cwd=tmp_path, timeout=SLOW).expect(0)
    records = read(tmp_path / "out.jsonl")
    assert [len(record["trials"]) for record in records] == [5, 5]
    assert lines(tmp_path / "paid") <= 2 * 5 + 2, "only the fourth trials were started again"


def ray_workers_of(pids: set[int]) -> set[int]:
    """Returns the workers of Ray that processes descend from."""
    found = set()
    for pid in pids:
        while pid > 1:
            with suppress(OSError):
                if Path("/proc", str(pid), "cmdline").read_bytes().startswith(b"ray::"):
                    found.add(pid)
                    break
            status = Path("/proc", str(pid), "status")
            parent = re.search(r"^PPid:\s+(\d+)", status.read_text() if status.exists() else "", re.MULTILINE)
            pid = int(parent[1]) if parent else 0
    return found


def test_many_agents_wait_in_few_workers(two_nodes: TwoNodes, tmp_path: Path, mark: str) -> None:
    """Each worker of Ray takes as much memory as a Python process; an agent that waits is one process."""
    args = ("--address", two_nodes.address, "-j", 40, "--", "ae-run", "--shell", f"exec sleep {mark}")
    with Running("ae-ray", *args, cwd=tmp_path) as running:
        running.feed(*PROMPTS)
        agents = until(lambda: found if len(found := sleepers(mark)) == 40 else set[int](), "all agents wait", SLOW)
        assert len(ray_workers_of(agents)) == 2
        between = [words for pid, words in alive(mark).items() if pid not in agents and "agenteval.cli.node" in words]
        assert len(between) <= 4, "a process with its guardian for each worker"


def test_of_many_refused_records_ten_are_shown(two_nodes: TwoNodes, tmp_path: Path) -> None:
    """Prompts are refused by the driver, results by the filters on the nodes."""
    results = [{"id": str(n), "input": "q", "hint": "q", "output": 7 if n % 2 else "q"} for n in range(60)]
    for command, records in [
        (("ae-run", "--shell", "echo fine"), [*({"id": str(n)} for n in range(30)), PROMPTS[0]]),
        (("ae-grade", "-g", "ae-grader-hint"), results),
    ]:
        args = ("--address", two_nodes.address, "-j", 2, "--", *command)
        done = run("ae-ray", *args, stdin=jsonl(*records), cwd=tmp_path, timeout=SLOW).expect(1)
        assert len(done.messages) == 11 and "20 more refused lines, 30 in all" in done.messages[-1], done
        assert len(done.records) == len(records) - 30


def test_nothing_of_a_run_is_left(tmp_path: Path) -> None:
    """No temporary files, also if the reader of the pipe goes away while agents run."""
    (tmp_path / "tmp").mkdir()
    write(tmp_path / "prompts.jsonl", *({**prompt, "hint": "x"} for prompt in PROMPTS))
    env = {"TMPDIR": str(tmp_path / "tmp")}
    args = "ae-ray prompts.jsonl --address local -j 2 -- ae-capture -g ae-grader-hint --shell"
    for line in (f"{args} 'echo x' > out.jsonl; exit $?", f"{args} 'sleep 0.5; echo x' | head -1 > out.jsonl"):
        done = run("/bin/sh", "-c", line, cwd=tmp_path, env=env, timeout=SLOW)
        assert done.code == 0 and lines(tmp_path / "out.jsonl") in (1, len(PROMPTS)), done
        assert "raylet" not in done.stderr, done
        until(lambda: list((tmp_path / "tmp").iterdir()) == [], what="removal of the temporary files")


# --- filters ------------------------------------------------------------------------------------

RESULTS: list[Record] = [{**prompt, "hint": "question", "output": "a question"} for prompt in PROMPTS[:FEW]]


def test_grades_are_resumed_as_ae_grade_does_it(two_nodes: TwoNodes, tmp_path: Path) -> None:
    """Same words and same file: another grader, another answer, and a record whose worker died are graded again."""
    script(
        tmp_path / "grader.sh", f"grep -q p3 && ! test -e {tmp_path}/mended && kill -9 $PPID; echo '{{\"pass\":true}}'"
    )
    write(tmp_path / "results.jsonl", *RESULTS)
    where = ("results.jsonl", "--address", two_nodes.address, "-j", 2, "-o", "out.jsonl", "--resume")

    def go_on(*grader: object) -> Done:
        return run("ae-ray", *where, "--", "ae-grade", *grader, cwd=tmp_path, timeout=SLOW)

    assert "p3: given up, because its worker died 3 times" in go_on("-g", "./grader.sh").expect(1).stderr
    assert [one["id"] for one in read(tmp_path / "out.jsonl") if "errors" in one] == ["p3"]
    (tmp_path / "mended").touch()
    go_on("-g", "./grader.sh").expect(0, stderr="ae-ray: out.jsonl: 7 kept, 1 changed and graded again\n")
    go_on("-g", "./grader.sh").expect(0, stderr="ae-ray: out.jsonl: 8 kept, nothing to do\n")
    go_on("-g", "ae-grader-hint").expect(0, stderr="ae-ray: out.jsonl: 8 graded again\n")
    write(tmp_path / "results.jsonl", {**RESULTS[0], "output": "none"}, *RESULTS[1:])
    again = go_on("-g", "ae-grader-hint").expect(0, stderr="ae-ray: out.jsonl: 7 kept, 1 changed and graded again\n")
    expected = run("ae-grade", "results.jsonl", "-g", "ae-grader-hint", cwd=tmp_path).expect(0)
    assert (tmp_path / "out.jsonl").read_bytes() == expected.out, again


def test_references_are_counted_over_all_nodes(two_nodes: TwoNodes, tmp_path: Path) -> None:
    prompts = [{**one, "reference": one["input"] if number % 3 else "none"} for number, one in enumerate(RESULTS)]
    for records in ([*prompts, PROMPTS[FEW]], [{"id": "p0", "input": "q"}]):
        write(tmp_path / "prompts.jsonl", *records)
        expected = run("ae-validate-refs", "prompts.jsonl", "-g", "ae-grader-hint", cwd=tmp_path).expect(1)
        args = ("prompts.jsonl", "--address", two_nodes.address, "-j", 4, "--keep-order", "--", "ae-validate-refs")
        done = run("ae-ray", *args, "-g", "ae-grader-hint", cwd=tmp_path, timeout=SLOW).expect(1)
        assert done.stderr == expected.stderr.replace("ae-validate-refs: ", "ae-ray: ") and done.stderr, done


def test_a_node_without_the_grader_gets_no_more_records(two_nodes: TwoNodes, tmp_path: Path) -> None:
    """Its records go elsewhere; without any such node it is an error.

    Its worker may start late: there are more records until it is reported. The grader takes so long that each record
    is sent alone.
    """
    script(two_nodes.tools / "some-grader", "cat > /dev/null; sleep 0.3; echo '{\"pass\":true}'")
    write(tmp_path / "results.jsonl", *({**prompt, "output": "x"} for prompt in PROMPTS))
    found: list[Record] = []
    node = two_nodes.cluster.add_node(num_cpus=2)
    try:
        args = ("--address", two_nodes.address, "-j", 6, "--keep-order", "--", "ae-grade", "-g")
        with Running("ae-ray", *args, "some-grader", cwd=tmp_path) as running:

            def more() -> bool:
                names = [f"p{len(found) + number}" for number in range(6)]
                running.feed(*({"id": name, "input": "question", "output": "x"} for name in names))
                found.extend(running.record(SLOW) for _ in names)
                assert [one["id"] for one in found[-6:]] == names
                return bool(select.select([running.stderr], [], [], 0)[0])

            until(more, "a message", SLOW)
            done = running.end(SLOW).expect(0)
        without = run("ae-ray", "results.jsonl", *args, "no-such-grader", cwd=tmp_path, timeout=SLOW).expect(2)
    finally:
        two_nodes.cluster.remove_node(node)
    assert done.out == b"" and all(one["score"]["pass"] for one in found), (found, done)
    says = r"ae-ray: \S+: gets no more records: the command cannot run: ae-grade: -g some-grader: .*\n"
    assert re.fullmatch(says, done.stderr), done
    assert without.stderr.count("-g no-such-grader") == 1, without
    assert without.stderr.endswith("ae-ray: no other node is left\n"), without


def test_a_node_that_alone_has_the_resources_is_left_out(two_nodes: TwoNodes, tmp_path: Path) -> None:
    """Other nodes are there, but a record could never get its resources on them: the run does not wait for ever."""
    script(two_nodes.tools / "some-grader", "cat > /dev/null; echo '{\"pass\":true}'")
    write(tmp_path / "results.jsonl", {**PROMPTS[0], "output": "x"})
    node = two_nodes.cluster.add_node(num_cpus=1, resources={"fpga": 1})
    try:
        args = ("results.jsonl", "--address", two_nodes.address, "--resources", "fpga=1", "--", "ae-grade", "-g")
        done = run("ae-ray", *args, "some-grader", cwd=tmp_path, timeout=SLOW).expect(2)
    finally:
        two_nodes.cluster.remove_node(node)
    assert "some-grader" in done.stderr and done.stderr.endswith("; no other node is left\n"), done
