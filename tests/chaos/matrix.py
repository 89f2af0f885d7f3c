"""The fault matrix: every path that the suite opens, and everything that may be in its place.

A row of PATHS is a path: what is there before, and the command that opens it. A cell puts one of KINDS there. The tool
must end in bounded time without an internal error; every record that does not need the path is written, and the path is
named if one is missing. A new path is a new row.
"""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from tests.support.privileges import unprivileged
from tests.support.tool import BIN, ROOT, Done, jsonl, read, run, script

DATA = ROOT / "tests" / "data"
IDS = ["a", "b", "c"]
PATIENCE = 90.0  # seconds; the machine may be busy
GRADER = 'def grade(record):\n    return {"pass": True, "score": 1.0}\n'
SCHEMA = {
    "version": 1,
    "name": "x",
    "command": ["echo"],
    "sessionMode": "iterative",
    "outputMode": "text",
    "prompt": {"flag": ""},
}
RUN = ["ae-run", "--simple", "echo {}", "prompts.jsonl", "-o", "out.jsonl"]
GRADE = ["ae-grade", "graded.jsonl", "-g", "./grader.py", "-o", "out.jsonl"]
WORKSPACES = [*RUN, "--overwrite", "--workspace-dir", "ws"]
VARIANT = ["ae-run", "-s", "./variant.json", *RUN[3:], "--overwrite", "--workspace-dir", "ws"]
VARIANT_SCHEMA = {
    **SCHEMA,
    "instructions": {"workspace": "AGENTS.md"},
    "skills": {"workspace": "skills"},
    "mcp": {"args": ["--mcp={file}"]},
    "home": {"copy": [".login/key"], "writeBack": [".login/key"], "keys": {".settings.json": ["model"]}},
}
CONTAINS = {"type": "file-contains", "path": "file", "value": "x"}


@dataclass
class Row:
    """A path that the suite opens, and a command that does."""

    path: str
    command: list[str]
    before: list[str] | None = None  # a command that makes what is there
    needed: bool = False  # whether nothing can be done without it: exit 1 or 2, and it is named
    costs: str | None = None  # the record that may be missing because of it, if it is named
    shows: str | None = None  # what stdout has all the same, of a tool that writes no records with ids


PATHS = {
    "workspace": Row("ws/prompt-b", WORKSPACES, costs="b"),
    "marker": Row("ws/.agenteval/prompt-b", WORKSPACES, before=WORKSPACES, costs="b"),
    "lock": Row("ws/.agenteval/locks", WORKSPACES, before=WORKSPACES),
    "journal": Row("out.jsonl.unfinished", [*RUN, "--resume"], needed=True),
    "output": Row("out.jsonl", RUN, needed=True),
    "scratch": Row("tmp/agenteval-old/lock", RUN),
    "session log": Row("logs/p/b.jsonl", ["ae-import", "claude", "logs", "-o", "out.jsonl"], costs="b"),
    "template": Row("template/file", [*WORKSPACES, "--workspace-template", "template"], needed=True),
    "schema": Row("schema.json", [*RUN[:1], "-s", "./schema.json", *RUN[3:]], needed=True),
    "label file": Row("labels.jsonl", ["ae-calibrate", "graded.jsonl", "--labels", "labels.jsonl"], needed=True),
    "shard": Row("b.jsonl", ["ae-merge", "graded.jsonl", "b.jsonl", "-o", "out.jsonl"], needed=True),
    "grader file": Row("grader.py", ["ae-grade", "graded.jsonl", "-g", "./grader.py", "-o", "out.jsonl"], needed=True),
    "file of a check": Row("work/file", ["ae-grade", "checked.jsonl", "-g", "ae-grader-checks", "-o", "out.jsonl"]),
    "tests of a check": Row("tests/test.sh", ["ae-grade", "tested.jsonl", "-g", "ae-grader-checks", "-o", "out.jsonl"]),
    "template of a prompt": Row(
        "own/file",
        ["ae-run", "--simple", "echo {}", "templates.jsonl", "-o", "out.jsonl", "--workspace-dir", "ws"],
        costs="b",
    ),
    "table of ae-prompts": Row("suite.csv", ["ae-prompts", "csv", "suite.csv", "-o", "out.jsonl"], needed=True),
    "case of ae-prompts": Row(
        "evals/b/prompt.md", ["ae-prompts", "claude-evals", "evals", "-o", "out.jsonl"], costs="b"
    ),
    "grader of a case": Row(
        "evals/b/graders/g.md", ["ae-prompts", "claude-evals", "evals", "-o", "out.jsonl"], costs="b"
    ),
    "run of a history": Row("runs/b.jsonl", ["ae-history", "runs", "-f", "json"], shows='"name": "c"'),
    "review": Row("review.md", ["ae-calibrate", "--read", "review.md"], needed=True),
    "instructions": Row("RULES.md", [*VARIANT, "--instructions", "RULES.md"], needed=True),
    "skill": Row("skill/SKILL.md", [*VARIANT, "--skill", "skill"], needed=True),
    "file of a skill": Row("skill/more.txt", [*VARIANT, "--skill", "skill"], needed=True),
    "MCP servers": Row("mcp.json", [*VARIANT, "--mcp", "mcp.json"], needed=True),
    "overlay": Row("overlay/file", [*VARIANT, "--overlay", "overlay"], needed=True),
    "credential": Row("home/.login/key", [*VARIANT, "--isolate"], needed=True),
    "settings": Row("home/.settings.json", [*VARIANT, "--isolate"], needed=True),
    "prompts": Row("prompts.jsonl", RUN, needed=True),
    "results": Row("graded.jsonl", ["ae-format", "graded.jsonl", "-f", "table"], needed=True),
    "run that is compared": Row("b.jsonl", ["ae-compare", "graded.jsonl", "b.jsonl", "-f", "json"], needed=True),
    "graded output": Row("out.jsonl", [*GRADE, "--resume"], before=GRADE, needed=True),
    "page": Row("page.html", ["ae-format", "graded.jsonl", "-o", "page.html"], needed=True),
    "ignore file": Row("ws/prompt-b/.gitignore", [*WORKSPACES, "--workspace-git"], before=WORKSPACES, costs="b"),
    "repository": Row("ws/prompt-b/.git", [*WORKSPACES, "--workspace-git"], before=WORKSPACES, costs="b"),
    "instructions of a judge": Row(
        "judge.md", ["ae-grader-judge", "--offline", "--prompt", "judge.md", "graded.jsonl"], needed=True
    ),
    "project of a session": Row("gemini/project/.project_root", ["ae-import", "gemini", "gemini"], needed=True),
    "session database": Row("db/opencode.db", ["ae-import", "opencode", "db"], needed=True),
    "inspect log": Row("inspect/log.eval", ["ae-import", "inspect", "inspect/log.eval"], needed=True),
}


def _link(target: str) -> Callable[[Path], None]:
    return lambda path: path.symlink_to(target)


def _sparse(path: Path) -> None:
    path.touch()
    os.truncate(path, 3 << 30)


def _bytes(path: Path) -> None:
    path.write_bytes(b"\xff\xfe\x00\n")


def _closed(path: Path) -> None:
    path.write_text("{}\n")
    path.chmod(0)


KINDS: dict[str, Callable[[Path], None]] = {
    "FIFO": os.mkfifo,
    "directory": Path.mkdir,
    "link to itself": lambda path: path.symlink_to(path.name),
    "link to /dev/zero": _link("/dev/zero"),
    "sparse file": _sparse,
    "not UTF-8": _bytes,
    "no permission": _closed,
}
# What is as good as the file that was there, or as no file: all records are written, and there is nothing to name.
HARMLESS = {
    ("output", "link to /dev/zero"),  # a device, which the user may write to
    ("journal", "sparse file"),  # as a power cut leaves it
    ("session log", "directory"),  # no log
    ("instructions", "not UTF-8"),  # any bytes are given to the agent, and so are those of a skill
    *(("skill", kind) for kind in ("sparse file", "not UTF-8")),
    *(("file of a skill", kind) for kind in KINDS if kind != "no permission"),
    *(("overlay", kind) for kind in KINDS if kind not in ("FIFO", "no permission")),
    ("credential", "not UTF-8"),
    *(("settings", kind) for kind in KINDS),  # what cannot be read is not copied: only the model's name and the like
    ("page", "link to /dev/zero"),  # a device; a file is replaced
    ("page", "sparse file"),
    ("page", "not UTF-8"),
    ("session database", "directory"),  # no log in it
    ("inspect log", "directory"),
    ("project of a session", "not UTF-8"),
    *(("template", kind) for kind in KINDS),  # copied or left out; without permission the workspaces are named
}


UNTOUCHED = "untouched"  # not a kind: the command as it is, which has to work, or its row would show nothing


def check(name: str, kind: str, folder: Path) -> list[str]:
    """Performs a cell of the matrix in an empty folder; returns what is wrong."""
    row = PATHS[name]
    _prepare(folder)
    if kind == UNTOUCHED:
        done = run(row.command[0], *row.command[1:], cwd=folder, env=_environment(folder))
        return [] if done.code == 0 else [str(done)]
    prefix = unprivileged() if kind == "no permission" else []
    if row.before:
        run(row.before[0], *row.before[1:], cwd=folder, timeout=PATIENCE).expect(0)
    path = folder / row.path
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_dir():
        path.rmdir()
    path.unlink(missing_ok=True)
    KINDS[kind](path)
    try:
        env = _environment(folder)
        tool = [*prefix, str(BIN / row.command[0])] if prefix else [row.command[0]]
        done = run(*tool, *row.command[1:], cwd=folder, timeout=PATIENCE, env=env)
    except AssertionError as late:
        return [str(late)]
    finally:
        if kind == "no permission" and path.exists():
            path.chmod(0o700)
    return _problems(row, (name, kind) in HARMLESS, done, folder)


def _environment(folder: Path) -> dict[str, str]:
    return {"TMPDIR": str(folder / "tmp"), "HOME": str(folder / "home")}


def _prepare(folder: Path) -> None:
    results = [
        {"id": id, "input": "i", "output": "o", "trajectory": [], "score": {"pass": True, "score": 1}} for id in IDS
    ]
    (folder / "prompts.jsonl").write_text(jsonl(*({"id": id, "input": "i"} for id in IDS)))
    (folder / "graded.jsonl").write_text(jsonl(*results))
    (folder / "grader.py").write_text(GRADER)
    (folder / "schema.json").write_text(json.dumps(SCHEMA))
    (folder / "labels.jsonl").write_text(jsonl({"id": "a", "pass": True}))
    (folder / "variant.json").write_text(json.dumps(VARIANT_SCHEMA))
    (folder / "checked.jsonl").write_text(jsonl(*({**one, "cwd": "work", "checks": [CONTAINS]} for one in results)))
    command = {"type": "command", "run": "sh test.sh", "tests": "tests", "timeout": "10s"}
    (folder / "tested.jsonl").write_text(jsonl(*({**one, "cwd": "work", "checks": [command]} for one in results)))
    own = {"b": {"workspace": {"template": "own"}}}
    (folder / "templates.jsonl").write_text(jsonl(*({"id": id, "input": "i", **own.get(id, {})} for id in IDS)))
    (folder / "suite.csv").write_text("id,input\n" + "".join(f"{id},i\n" for id in IDS))
    (folder / "mcp.json").write_text('{"mcpServers": {"s": {"command": "true"}}}')
    (folder / "b.jsonl").write_text(jsonl({**results[0], "id": "d"}))
    review = '<!-- ae-calibrate {"id":"a"} -->\n- [x] pass\n- [ ] fail\n<!-- ae-calibrate end -->\n'
    (folder / "review.md").write_text(review)
    (folder / "RULES.md").write_text("Be brief.")
    script(folder / "agent", 'echo "$@"')
    places = (
        "template",
        "logs/p",
        "tmp",
        "work",
        "tests",
        "own",
        "runs",
        "skill",
        "overlay",
        "home/.login",
        "db",
        "inspect",
    )
    for place in (*places, *(f"evals/{id}/graders" for id in IDS)):
        (folder / place).mkdir(parents=True)
    (folder / "skill/SKILL.md").write_text("---\nname: skill\n---\n")
    (folder / "home/.login/key").write_text("a key that logs in")
    (folder / "home/.settings.json").write_text('{"model": "m"}')
    for id in IDS:
        (folder / f"runs/{id}.jsonl").write_text(jsonl(*results))
        (folder / f"evals/{id}/prompt.md").write_text(f"---\nname: {id}\n---\nSay it.\n")
        (folder / f"evals/{id}/graders/g.md").write_text("---\ntype: regex\npattern: x\n---\n")
    (folder / "judge.md").write_text("Judge it.")
    shutil.copytree(DATA / "sessions" / "gemini", folder / "gemini")
    with closing(sqlite3.connect(folder / "db" / "opencode.db")) as database:
        database.executescript((DATA / "sessions" / "opencode" / "opencode.sql").read_text())
    shutil.copy(DATA / "foreign" / "inspect.eval", folder / "inspect" / "log.eval")
    for id in IDS:
        turn = {"type": "user", "sessionId": id, "message": {"role": "user", "content": "hello"}}
        (folder / f"logs/p/{id}.jsonl").write_text(jsonl(turn))


def _problems(row: Row, harmless: bool, done: Done, folder: Path) -> list[str]:
    problems = []
    if done.code not in (0, 1, 2):
        problems.append(f"exit code {done.code}")
    if "Traceback" in done.stderr or "internal error" in done.stderr:
        problems.append("an internal error")
    named = os.path.basename(row.path) in done.stderr
    if row.needed and not harmless:
        if done.code == 0 or not named:
            problems.append("exit 0, or its path is not named")
        return [f"{problem}\n{done}" for problem in problems]
    if row.shows is not None and row.shows not in done.stdout:
        problems.append(f"stdout does not show {row.shows!r}")
    if row.shows is not None:
        return [f"{problem}\n{done}" for problem in problems]
    output = folder / "out.jsonl"
    found = {record["id"] for record in read(output)} if output.is_file() and not row.needed else set(IDS)
    missing = set(IDS) - found
    if missing - {row.costs} or (missing and not harmless and (not named or done.code == 0)):
        problems.append(f"missing: {sorted(missing)}; named: {named}")
    return [f"{problem}\n{done}" for problem in problems]
