"""--isolate: a HOME for each session, with nothing of the user's in it but what logs the agent in."""

from __future__ import annotations

import json
import os
import signal
import stat
from pathlib import Path
from typing import Any

import pytest

from agenteval.streams.redaction import credentials_in
from tests.support.tool import Record, jsonl, run
from tests.support.watching import Running, named_guardian, until

TOKEN = "ab12-refresh-token-of-the-user-34cd"
RENEWED = "zy98-refresh-token-that-is-new-76xw"
# Prints what it sees of HOME and of its variables; REMEMBER is a file that it leaves there.
AGENT = """
import json, os, sys
home = os.environ["HOME"]
seen = sorted(os.path.relpath(os.path.join(place, name), home) for place, _, names in os.walk(home) for name in names)
login = os.path.join(os.environ.get("TOY_HOME", home + "/.toy"), "auth.json")
auth = open(login).read() if os.path.exists(login) else ""
mode = oct(os.stat(login).st_mode & 0o777) if auth else ""
names = [name for name in ("XDG_CONFIG_HOME", "TOY_HOME", "TOY_CONFIG", "PWD") if name in os.environ]
print(json.dumps({"type": "start", "model": "toy-1", "tools": ["Read"], "skills": ["own"], "session": "s"}))
print(json.dumps({"type": "text", "text": json.dumps(
    {"home": home, "seen": seen, "auth": auth, "mode": mode, "argv": sys.argv[1:],
     "env": {name: os.environ[name] for name in names}})}))
open(os.path.join(home, "memory"), "a").write("x")
if "renew" in sys.argv[-1]:
    open(login, "w").write(json.dumps({"token": os.environ["RENEWED"]}))
    print(json.dumps({"type": "text", "text": "now " + os.environ["RENEWED"]}))
if "meanwhile" in sys.argv[-1]:
    open(os.environ["LOGIN"], "w").write(json.dumps({"token": "of-another-program"}))
if "rewrite" in sys.argv[-1]:
    open(login, "w").write(sys.argv[-1].partition("rewrite ")[2])
if "hang" in sys.argv[-1]:
    import time
    time.sleep(600)
"""


@pytest.fixture
def toy(tmp_path: Path) -> Path:
    """A schema file, and the HOME of its user."""
    (tmp_path / "agent.py").write_text(AGENT)
    home = tmp_path / "user"
    for path, text in {
        ".toy/auth.json": json.dumps({"token": TOKEN}),
        ".toy/TOY.md": "always answer 42",
        ".toy/skills/own/SKILL.md": "mine",
    }.items():
        (home / path).parent.mkdir(parents=True, exist_ok=True)
        (home / path).write_text(text)
    (tmp_path / "TOY.md").write_text("of the directory above")
    schema = {
        "version": 1,
        "name": "toy",
        "command": ["python3", str(tmp_path / "agent.py")],
        "sessionMode": "stream",
        "prompt": {"flag": "--"},
        "resume": {"flag": "--resume", "sessionIdPath": "$.session"},
        "outputEvents": [
            {"match": {"path": "$.type", "value": "text"}, "emitAs": "message", "extract": {"content": "$.text"}}
        ],
        "setup": {"model": "$.model", "tools": "$.tools", "skills": "$.skills"},
        "home": {
            "copy": [".toy/auth.json"],
            "writeBack": [".toy/auth.json"],
            "files": {".toy/settings.json": "{}"},
            "env": {"TOY_HOME": "{home}/.toy"},
            "unset": ["TOY_CONFIG"],
            "args": ["--not", "{above}"],
            "reads": [".toy/TOY.md", ".toy/skills", ".toy/none"],
            "above": ["TOY.md"],
            "boundary": "args",
        },
    }
    (tmp_path / "toy.json").write_text(json.dumps(schema))
    return tmp_path


def capture(toy: Path, *options: object, prompts: list[Record] | None = None, **env: str) -> tuple[list[Record], str]:
    given = jsonl(*(prompts or [{"id": "a", "input": "x"}]))
    env = {"HOME": str(toy / "user"), "TOY_CONFIG": "mine", "RENEWED": RENEWED, **env}
    done = run("ae-capture", "-s", toy / "toy.json", *options, stdin=given, cwd=toy, env=env).expect(0)
    assert TOKEN not in done.stdout + done.stderr and RENEWED not in done.stdout + done.stderr
    return done.records, done.stderr


def seen_by(record: Record) -> Any:
    texts = [step["content"] for step in record["trajectory"] if step["content"].startswith("{")]
    return json.loads(texts[-1])


def test_nothing_of_the_users_but_the_login_is_seen(toy: Path) -> None:
    """Each trial has a HOME beside its workspace; credentials are gone when it ends, and never recorded."""
    done = run(
        *("ae-trials", "-s", toy / "toy.json", "-k", "2", "--isolate", "--workspace-dir", "ws"),
        stdin=jsonl({"id": "a", "input": "x"}),
        cwd=toy,
        env={"HOME": str(toy / "user"), "TOY_CONFIG": "mine"},
    ).expect(0)
    (record,) = done.records
    assert TOKEN not in done.stdout and "[redacted:auth.json]" in done.stdout and done.stderr == ""
    for number, trial in enumerate(record["trials"], 1):
        seen, home = seen_by(trial), toy / f"ws/prompt-a-trial-{number}.home"
        assert seen["home"] == str(home) and seen["mode"] == "0o600"
        assert seen["seen"] == [".toy/auth.json", ".toy/settings.json"], "neither the user's files nor another trial's"
        assert seen["env"]["XDG_CONFIG_HOME"] == f"{home}/.config" and seen["env"]["TOY_HOME"] == f"{home}/.toy"
        assert "TOY_CONFIG" not in seen["env"]
        above = json.loads(seen["argv"][1])
        assert str(toy / "TOY.md") in above and str(toy / "ws/TOY.md") in above
        assert not any(path.startswith(seen["env"]["PWD"] + "/") for path in above), "the workspace's own is read"
        assert stat.S_IMODE(home.stat().st_mode) == 0o700
        assert (home / "memory").exists() and not (home / ".toy/auth.json").exists()
    assert record["metadata"]["isolated"] is True
    assert record["metadata"]["agentSetup"] == {"model": "toy-1", "tools": ["Read"], "skills": ["own"]}


def test_turns_share_a_home_and_without_workspaces_it_is_removed(toy: Path) -> None:
    (toy / "tmp").mkdir()
    prompts: list[Record] = [{"id": "a", "input": ["x", "y"]}, {"id": "b", "input": "x"}]
    (first, second), _ = capture(toy, "--isolate", "--keep-order", prompts=prompts, TMPDIR=str(toy / "tmp"))
    assert "memory" in seen_by(first)["seen"] and "memory" not in seen_by(second)["seen"]
    assert "--resume" in seen_by(first)["argv"]
    assert seen_by(first)["home"].startswith(str(toy / "tmp")) and list((toy / "tmp").iterdir()) == []


def test_the_line_without_it(toy: Path) -> None:
    (record,), said = capture(toy, "--workspace-dir", "ws")
    (line,) = said.splitlines()
    assert "toy reads your own configuration: ~/.toy/TOY.md, ~/.toy/skills" in line
    assert str(toy / "TOY.md") in line and "--isolate" in line and "none" not in line
    assert record["metadata"]["isolated"] is False
    (isolated,), _ = capture(toy, "--workspace-dir", "ws", "--isolate")
    assert isolated["metadata"]["agentDigest"] != record["metadata"]["agentDigest"]


def test_memory_without_a_switch_and_directories_above_without_one(toy: Path) -> None:
    schema = json.loads((toy / "toy.json").read_text())
    schema["home"] |= {"memory": "~/.toy/memory.db", "reads": [], "boundary": None}
    (toy / "toy.json").write_text(json.dumps(schema))
    _, said = capture(toy, "--workspace-dir", "ws")
    assert "(~/.toy/memory.db) cannot be turned off; --isolate" in said
    _, said = capture(toy, "--workspace-dir", "ws", "--isolate")
    assert f"toy also reads files above its workspace: {toy / 'TOY.md'}; --sandbox" in said
    schema["home"]["boundary"] = "git"
    (toy / "toy.json").write_text(json.dumps(schema))
    _, said = capture(toy, "--workspace-dir", "ws", "--isolate")
    assert said == "" and (toy / "ws/prompt-a/.git/HEAD").exists()
    _, said = capture(toy, "--isolate", "-c", toy / "user")
    assert "--workspace-dir" in said


def test_a_renewed_login_is_written_back(toy: Path) -> None:
    """Where the program renews a login, the old one may be void; the user's own directory is found by its variable."""
    (toy / "elsewhere").mkdir()
    (toy / "user/.toy/auth.json").rename(toy / "elsewhere/auth.json")
    login = toy / "elsewhere/auth.json"
    (record,), _ = capture(toy, "--isolate", prompts=[{"id": "a", "input": "renew"}], TOY_HOME=str(toy / "elsewhere"))
    assert record["output"] == "now [redacted:auth.json]"
    assert json.loads(login.read_text()) == {"token": RENEWED} and stat.S_IMODE(login.stat().st_mode) == 0o600
    assert sorted(os.listdir(toy / "elsewhere")) == ["auth.json"]
    again: list[Record] = [{"id": "a", "input": ["renew", 'rewrite {"token": "zy98-a-third-token-76xw", "more": 1}']}]
    capture(toy, "--isolate", prompts=again, TOY_HOME=str(toy / "elsewhere"))
    assert json.loads(login.read_text()) == {"token": "zy98-a-third-token-76xw", "more": 1}, "in a later turn"


def test_only_the_login_in_a_file_with_settings_is_written_back(toy: Path) -> None:
    """cline keeps the last model beside the login: --model must not change the user's."""
    schema = json.loads((toy / "toy.json").read_text())
    schema["home"]["writeBackKeys"] = {".toy/auth.json": ["auth"]}
    (toy / "toy.json").write_text(json.dumps(schema))
    login = toy / "user/.toy/auth.json"
    owned = json.dumps({"token": TOKEN, "of": {"model": "m-1", "auth": {"access": "old-123456"}}})
    login.write_text(owned)
    for access in ("old-123456", "new-123456"):
        content = {"token": "other", "of": {"model": "m-2", "auth": {"access": access}}, "last": "x"}
        capture(toy, "--isolate", prompts=[{"id": "a", "input": f"rewrite {json.dumps(content)}"}])
        assert json.loads(login.read_text()) == json.loads(owned.replace("old-123456", access))
        assert (login.read_text() == owned) == (access == "old-123456")


@pytest.mark.parametrize(
    "prompt",
    ['rewrite {"tok', "rewrite {}", "rewrite  ", 'rewrite ["token"]', "renew meanwhile", "no write-back: renew"],
)
def test_a_login_that_is_not_whole_or_that_the_user_renewed_is_not_written_back(toy: Path, prompt: str) -> None:
    login = toy / "user/.toy/auth.json"
    if "no write-back" in prompt:
        schema = json.loads((toy / "toy.json").read_text())
        del schema["home"]["writeBack"]
        (toy / "toy.json").write_text(json.dumps(schema))
    capture(toy, "--isolate", prompts=[{"id": "a", "input": prompt}], LOGIN=str(login))
    assert json.loads(login.read_text()) == {"token": "of-another-program" if "meanwhile" in prompt else TOKEN}
    assert sorted(os.listdir(login.parent)) == ["TOY.md", "auth.json", "skills"]


@pytest.mark.parametrize("killed", ["tool", "both"])
def test_no_login_is_left_after_sigkill(toy: Path, killed: str) -> None:
    (toy / "prompts.jsonl").write_text(jsonl({"id": "a", "input": "hang"}))
    command = ("ae-run", toy / "prompts.jsonl", "-s", toy / "toy.json", "--isolate", "--workspace-dir", toy / "ws")
    copy = toy / "ws/prompt-a.home/.toy/auth.json"
    with Running(*command, cwd=toy, env={"HOME": str(toy / "user")}) as tool:
        until(lambda: (toy / "ws/prompt-a.home/memory").exists(), "the agent did not start")
        assert copy.exists()
        if killed == "both":
            os.kill(named_guardian(tool.pid), signal.SIGKILL)
        os.kill(tool.pid, signal.SIGKILL)
        tool.process.wait()
    if killed == "both":
        assert copy.exists()
        capture(toy, "--isolate", "--workspace-dir", "ws", prompts=[{"id": "b", "input": "x"}])
    until(lambda: not copy.exists(), "the login is still there")


def test_dry_run_shows_the_home_and_no_login(toy: Path) -> None:
    done = run(
        *("ae-run", "-s", toy / "toy.json", "--isolate", "--workspace-dir", "ws", "--dry-run"),
        stdin=jsonl({"id": "a", "input": "x"}),
        cwd=toy,
        env={"HOME": str(toy / "user")},
    ).expect(0)
    (start,) = done.records
    assert start["home"] == str(toy / "ws/prompt-a.home") and "TOY_HOME" in start["env"] and "--not" in start["command"]
    assert TOKEN not in done.stdout and not (toy / "ws").exists()


def test_what_the_user_made_is_kept_and_a_home_cannot_be_named_twice(toy: Path) -> None:
    (toy / "ws/prompt-a.home").mkdir(parents=True)
    env = {"HOME": str(toy / "user")}
    options = ("-s", toy / "toy.json", "--isolate", "--workspace-dir", "ws")
    done = run("ae-run", *options, stdin=jsonl({"id": "a", "input": "x"}), cwd=toy, env=env).expect(1)
    assert "prompt-a.home was not created by the suite" in done.stderr
    refused = run("ae-run", *options, "--env", "HOME=/x", stdin=jsonl({"id": "a", "input": "x"}), cwd=toy, env=env)
    assert "--env HOME and --isolate cannot be used together" in refused.expect(2).stderr
    prompts: list[Record] = [{"id": "b", "input": "x"}, {"id": "b.home", "input": "x"}]
    first, second = capture(toy, "--isolate", "--workspace-dir", "ws", prompts=prompts)[0]
    assert second["metadata"]["workspaceDir"] != first["metadata"]["workspaceDir"] + ".home"


@pytest.mark.parametrize(
    ("text", "secrets"),
    [
        ('{"tokens": {"id_token": "ab1.cd2.ef3", "refresh": "1//0gAbCdEf"}}', {"ab1.cd2.ef3", "1//0gAbCdEf"}),
        ('{"accessToken": "tok-12345678", "model": "claude-sonnet-4-20250514"}', {"tok-12345678"}),
        ("MISTRAL_API_KEY=abc123def456\nBASE=https://api.mistral.ai/v1\n", {"abc123def456"}),
        ("models:\n  - name: gpt-5.1-codex-max\n    apiKey: k-99999999\n", {"k-99999999"}),
        ('base_url = "https://gateway.example.com/anthropic/v1/messages"\nmodel = "m-1"\n', set()),
        ("0123456789abcdef0123\n", {"0123456789abcdef0123"}),
    ],
)
def test_what_is_secret_in_a_login(text: str, secrets: set[str]) -> None:
    """Names of models and addresses are in such files, too, and have to stay readable in records."""
    assert credentials_in(text) == secrets
