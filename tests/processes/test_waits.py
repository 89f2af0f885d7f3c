"""Every wait has a limit of time, or stands here with the reason why it needs none; CONTRIBUTING.md has the limits."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.support.tool import ROOT

WAITS = {"wait", "wait_for", "join", "get", "poll", "acquire", "communicate", "select", "sigwait"}  # of anything
CALLS = {"run", "call", "check_call", "check_output", "getoutput"}  # of subprocess
READS = {"stdin", "stdout", "stderr"}  # of a process: `for line in process.stdout`
UNLIMITED = {
    "agents/acp/server.py:run": "until its client closes stdin; a signal ends it",
    "agents/run.py:_remote_answer": "only says how long",
    "agents/session.py:_wait_for_start": "only says how long",
    "agents/sandbox.py:run_behind": "ae-sandbox is its command, which has the time that it takes; signals end both",
    "processes/supervisor.py:status": "after its end",
    "processes/supervisor.py:_wait": "a thread of its own, for a kernel without pidfd",
    "processes/pool.py:_wait": "until a worker is done: what it does has limits; signals come as bytes of a pipe",
    "processes/pool.py:_take_item": "for an earlier item, whose work has limits; an error ends it",
    "processes/guardian.py:_await_end": "the guardian: until the tool ends, which closes its pipe",
    "streams/files.py:_wait": "for the reader of stdout, as any filter does",
    "cluster/slots.py": "for a worker of the cluster: Ray reports its death",
    "cluster/worker.py": "on a node: a filter or a run of ours, whose agents and graders have limits there",
    "cluster/dispatch.py": "for a worker of the cluster: Ray reports its death",
    "cluster/remote.py": "for a worker of the cluster: Ray reports its death",
}


def waits(path: Path) -> Iterator[tuple[str, int]]:
    """Yields the function and the line of each call in a module that may wait for ever."""
    cluster = path.parent.name == "cluster"
    stack: list[tuple[ast.AST, str]] = [(ast.parse(path.read_bytes()), "")]
    while stack:
        node, function = stack.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            function = node.name
        if isinstance(node, ast.For) and isinstance(node.iter, ast.Attribute) and node.iter.attr in READS:
            yield function, node.lineno
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            module, name = ast.unparse(node.func.value), node.func.attr
            given = [*node.args, *(keyword.value for keyword in node.keywords)]
            named = {keyword.arg for keyword in node.keywords}
            unlimited = not given or any(
                isinstance(part, ast.BoolOp) or (isinstance(part, ast.Constant) and part.value is None)
                for one in given
                for part in ast.walk(one)
            )
            if name in ("wait_for", "join"):  # which take a function, and the texts to be joined
                unlimited = len(given) == (1 if name == "wait_for" else 0)
            started = module == "subprocess" and name in CALLS and "timeout" not in named
            waited = name in WAITS and unlimited and (module, name) != ("select", "poll")
            child = name in ("waitpid", "waitid") and "WNOHANG" not in ast.unparse(node)
            locked = name in ("flock", "lockf") and not any(
                flag in ast.unparse(node) for flag in ("LOCK_NB", "LOCK_UN")
            )
            future = cluster and name == "result" and not given
            if started or child or locked or future or (waited and not (name == "get" and node.args)):
                yield function, node.lineno
        stack += [(child, function) for child in ast.iter_child_nodes(node)]


def test_every_way_to_wait_is_found(tmp_path: Path) -> None:
    (tmp_path / "module.py").write_text(
        "p.wait()\np.wait(timeout=None)\nt.join()\nq.get()\npoll.poll()\nx.poll(1 if y else None)\nlock.acquire()\n"
        "c.wait_for(f)\nsubprocess.run(a)\nos.waitpid(1, 0)\nfcntl.flock(1, fcntl.LOCK_EX)\nfor l in p.stdout: pass\n"
        "p.wait(1)\n', '.join(x)\nd.get(k)\nselect.poll()\nsubprocess.run(a, timeout=1)\nos.waitpid(1, os.WNOHANG)\n"
    )
    assert sorted({line for _, line in waits(tmp_path / "module.py")}) == list(range(1, 13))


def test_nothing_waits_for_ever() -> None:
    used = set()
    for path in sorted((ROOT / "agenteval").rglob("*.py")):
        name = path.relative_to(ROOT / "agenteval").as_posix()
        for function, line in waits(path):
            found = {name, f"{name}:{function}"} & UNLIMITED.keys()
            assert found, f"agenteval/{name}:{line} ({function}) may wait for ever: give it a limit, or say why not"
            used |= found
    assert used == set(UNLIMITED), "an entry that nothing needs any more"
