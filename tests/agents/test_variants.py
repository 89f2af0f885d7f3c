"""Variants: --model, --instructions, --skill, --mcp and --overlay reach every agent as its schema says."""

from __future__ import annotations

import json
import os
import tomllib
from pathlib import Path
from typing import Any

import pytest

from agenteval.agents.variants import acp_servers, server_file
from agenteval.wire.adapter_schema import McpServers
from tests.support.tool import Done, Record, jsonl, run

# Prints its arguments, and all files of its directory and of its HOME.
AGENT = """
import json, os, sys
def files(root):
    paths = [os.path.join(place, name) for place, _, names in os.walk(root) for name in names if "/.git" not in place]
    return {os.path.relpath(path, root): open(path).read() for path in paths}
named = [open(word).read() for word in sys.argv[1:-1] if os.path.isfile(word)]
seen = {"argv": sys.argv[1:], "here": files("."), "home": files(os.environ["HOME"]), "named": named}
print(json.dumps({"type": "text", "text": json.dumps({**seen, "model": os.environ.get("TOY_MODEL")})}))
"""
SECRET = "s3cret-value-of-a-variable"


@pytest.fixture
def toy(tmp_path: Path) -> Path:
    """A schema file, an empty HOME, and a file or folder for each option."""
    files = {
        "agent.py": AGENT,
        "user/.keep": "",
        "RULES.md": "Be brief.",
        "skills/pdf/SKILL.md": "---\nname: pdf\n---",
        "skills/pdf/scripts/x.py": "1",
        "skills/empty/README.md": "",
        "over/data/a.txt": "A",
        "over/AGENTS.md": "of the overlay",
        "mcp.json": json.dumps({"mcpServers": {"t": {"command": "srv", "args": ["-x"], "env": {"K": "${MY_VALUE}"}}}}),
        "bad.json": "[]",
        "gone.json": json.dumps({"mcpServers": {"t": {"command": "./gone"}}}),
        "near.json": json.dumps({"mcpServers": {"t": {"command": "./srv"}}}),
        "srv": "one",
        "worse.json": json.dumps({"mcpServers": {"t": {"args": []}}}),
    }
    for path, text in files.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    schema = {
        "version": 1,
        "name": "toy",
        "command": ["python3", str(tmp_path / "agent.py")],
        "sessionMode": "stream",
        "prompt": {"flag": "--"},
        "outputEvents": [
            {"match": {"path": "$.type", "value": "text"}, "emitAs": "message", "extract": {"content": "$.text"}}
        ],
        "home": {"keys": {".toy.json": ["model.name"]}},
        "model": {"args": ["--model={model}"], "env": {"TOY_MODEL": "{model}"}},
        "instructions": {"workspace": "AGENTS.md", "home": ".toy/AGENTS.md"},
        "skills": {"workspace": ".toy/skills", "home": ".toy/skills", "args": ["--skill", "{file}"]},
        "mcp": {"home": ".toy.json"},
    }
    (tmp_path / "toy.json").write_text(json.dumps(schema))
    schema["mcp"] = {"args": ["--only", "{file}"]}
    (tmp_path / "strict.json").write_text(json.dumps(schema))
    (tmp_path / "user/.toy.json").write_text('{"model": {"name": "mine", "key": "no"}, "mcpServers": {"own": {}}}')
    return tmp_path


def capture(toy: Path, *options: object, tool: str = "ae-capture") -> Done:
    env = {"HOME": str(toy / "user"), "MY_VALUE": SECRET}
    return run(tool, *options, stdin=jsonl({"id": "a", "input": "x"}), cwd=toy, env=env)


def seen_by(done: Done) -> tuple[Any, Record]:
    (record,) = done.expect(0).records
    assert SECRET not in done.stdout + done.stderr
    return json.loads(record["output"]), record


ALL = ("--model", "m-1", "--instructions", "RULES.md", "--skill", "skills/pdf", "--mcp", "mcp.json")


def test_all_of_them_in_a_workspace(toy: Path) -> None:
    options = ("-s", "toy.json", "--isolate", "--workspace-dir", "ws", *ALL, "--overlay", "over", "--workspace-git")
    seen, record = seen_by(capture(toy, *options))
    assert seen["here"] == {
        "AGENTS.md": "Be brief.",
        "data/a.txt": "A",
        ".toy/skills/pdf/SKILL.md": "---\nname: pdf\n---",
        ".toy/skills/pdf/scripts/x.py": "1",
    }
    assert seen["argv"] == ["--model=m-1", "--skill", str(toy / "ws/prompt-a/.toy/skills/pdf"), "--", "x"]
    assert seen["model"] == "m-1"
    settings = json.loads(seen["home"][".toy.json"])
    assert settings["model"] == {"name": "mine"}, "only this key of the user's"
    assert list(settings["mcpServers"]) == ["t"] and settings["mcpServers"]["t"]["env"] == {
        "K": "[redacted:MCP_SERVER]"
    }
    assert not (toy / "ws/prompt-a.home/.toy.json").exists(), "it may hold secrets"
    assert record["metadata"]["variant"] == {
        "model": "m-1",
        "instructions": "RULES.md",
        "skills": ["pdf"],
        "mcpServers": ["t"],
        "overlay": "over",
    }
    digest = record["metadata"]["agentDigest"]
    (toy / "skills/pdf/scripts/x.py").write_text("2")
    (again,) = capture(toy, *options).expect(0).records
    assert again["metadata"]["agentDigest"] != digest, "the content counts"


def test_in_a_home_where_there_is_no_workspace_and_by_a_file_that_is_named(toy: Path) -> None:
    seen, _ = seen_by(capture(toy, "-s", "toy.json", "--isolate", *ALL))
    assert seen["home"][".toy/AGENTS.md"] == "Be brief." and ".toy/skills/pdf/SKILL.md" in seen["home"]
    assert not (toy / "AGENTS.md").exists() and not (toy / ".toy").exists()
    options = ("-s", "strict.json", "--workspace-dir", "ws", "--mcp", "mcp.json")
    seen, _ = seen_by(capture(toy, *options))
    assert seen["argv"][0] == "--only" and list(json.loads(seen["named"][0])["mcpServers"]) == ["t"]
    assert not os.path.exists(seen["argv"][1])
    (start,) = capture(toy, *options, "--dry-run", tool="ae-run").expect(0).records
    assert start["variant"] == {"mcpServers": ["t"]} and "MCP_FILE" in start["command"]


BAD: list[tuple[tuple[str, ...], str]] = [
    (("-s", "toy.json", "--isolate", "--skill", "skills/empty"), "--skill skills/empty: has no SKILL.md"),
    (("-s", "toy.json", "--isolate", "--mcp", "bad.json"), "--mcp bad.json: has no servers"),
    (("-s", "toy.json", "--isolate", "--mcp", "worse.json"), 'mcpServers.t: must have one of "command" and "url"'),
    (("-s", "toy.json", "--isolate", "--mcp", "gone.json"), "/gone: no such file"),
    (("-s", "toy.json", "--isolate", "--mcp", "RULES.md"), "--mcp RULES.md: not JSON"),
    (("-s", "toy.json", "--isolate", "--mcp", "none"), "--mcp none: No such file"),
    (("-s", "toy.json", "--isolate", "--instructions", "none"), "--instructions none: no such file"),
    (("-s", "toy.json", "--isolate", "--overlay", "over"), "--overlay needs --workspace-dir"),
    (("-s", "toy.json", "--workspace-dir", "ws", "--overlay", "none"), "--overlay none: no such directory"),
    (("-s", "toy.json", "--workspace-dir", "ws", "--mcp", "mcp.json"), "needs --isolate"),
    (("-s", "toy.json", "--model", "x"), "--model needs --workspace-dir DIR or --isolate"),
    (("-s", "grok", "--workspace-dir", "ws", "--instructions", "RULES.md", "--dry-run"), "needs --isolate"),
    (("-s", "llm", "--isolate", "--skill", "skills/pdf", "--dry-run"), "--skill: the adapter llm does not support it"),
    (("--simple", "echo {}", "--isolate", "--model", "x"), "--model: it needs -s SCHEMA"),
    (("--shell", 'echo "$PROMPT"', "--isolate", "--mcp", "mcp.json"), "--mcp: it needs -s SCHEMA"),
]


@pytest.mark.parametrize(("options", "message"), BAD)
def test_what_cannot_be(toy: Path, options: tuple[str, ...], message: str) -> None:
    done = capture(toy, *options).expect(2)
    assert message in done.stderr.splitlines()[-1] and not (toy / "ws").exists()


def test_a_variable_that_is_not_set_and_a_workspace_of_the_users(toy: Path) -> None:
    options = ("-s", "toy.json", "--isolate", "--mcp", "mcp.json")
    unset = run("ae-run", *options, stdin=jsonl({"id": "a", "input": "x"}), cwd=toy, env={"HOME": str(toy / "user")})
    assert "--mcp mcp.json: ${MY_VALUE} is not set" in unset.expect(2).stderr
    (toy / "ws/prompt-a").mkdir(parents=True)
    kept = capture(toy, "-s", "toy.json", "--workspace-dir", "ws", "--instructions", "RULES.md").expect(1)
    assert "would have to be changed" in kept.stderr and list((toy / "ws/prompt-a").iterdir()) == []


def test_a_server_in_the_current_directory(toy: Path) -> None:
    """Its command becomes absolute, because agents work elsewhere, and its content is part of what is evaluated."""
    options = ("-s", "strict.json", "--workspace-dir", "ws", "--mcp", "near.json")
    seen, before = seen_by(capture(toy, *options))
    assert json.loads(seen["named"][0])["mcpServers"] == {"t": {"command": str(toy / "srv")}}
    (toy / "srv").write_text("two")
    _, after = seen_by(capture(toy, *options))
    assert before["metadata"]["agentDigest"] != after["metadata"]["agentDigest"]


def test_an_overlay_for_any_command(toy: Path) -> None:
    done = capture(toy, "--shell", 'cat data/a.txt; : "$PROMPT"', "--workspace-dir", "ws", "--overlay", "over")
    (record,) = done.expect(0).records
    assert record["output"] == "A" and record["metadata"]["variant"] == {"overlay": "over"}


ACP = """
import json, sys
for line in sys.stdin:
    request = json.loads(line)
    result = {}
    if request["method"] == "initialize":
        result = {"protocolVersion": 1, "agentCapabilities": {}}
    elif request["method"] == "session/new":
        given = request["params"]["mcpServers"]
        models = [{"modelId": "a"}, {"modelId": "b"}]
        result = {"sessionId": "s", "models": {"currentModelId": "a", "availableModels": models}}
    elif request["method"] == "session/set_model":
        model = request["params"]["modelId"]
    elif request["method"] == "session/prompt":
        text = json.dumps({"servers": given, "model": model})
        update = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}
        params = {"sessionId": "s", "update": update}
        print(json.dumps({"jsonrpc": "2.0", "method": "session/update", "params": params}))
        result = {"stopReason": "end_turn"}
    print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}), flush=True)
"""


def test_over_acp(toy: Path) -> None:
    (toy / "acp.py").write_text(ACP)
    options = ("--isolate", "--mcp", "mcp.json", "--model")
    seen, record = seen_by(capture(toy, *options, "b", "--", "python3", "acp.py"))
    assert seen["model"] == "b" and record["metadata"]["agentSetup"] == {"model": "a"}
    assert [server["name"] for server in seen["servers"]] == ["t"]
    (record,) = capture(toy, *options, "c", "--", "python3", "acp.py").expect(0).records
    assert record["errors"] == ["the agent does not offer the model c (--model); it offers a, b"]
    assert (
        "--skill: the Agent Client Protocol"
        in capture(toy, "--isolate", "--skill", "skills/pdf", "--", "python3", "acp.py").expect(2).stderr
    )


def test_forms_of_configurations() -> None:
    servers: dict[str, Record] = {
        "one": {"command": "srv", "args": ["-x"], "env": {"K": "v\n"}},
        "two": {"url": "http://h/mcp", "headers": {"A": "b"}},
    }
    own = McpServers(
        key="mcp",
        stdio={"type": "local", "command": "{argv}", "environment": "{env}"},
        http={"type": "remote", "url": "{url}", "cwd": "{cwd}"},
    )
    assert json.loads(server_file(servers, own, b'{"model": "m", "mcp": {"users": 1}}')) == {
        "model": "m",
        "mcp": {
            "one": {"type": "local", "command": ["srv", "-x"], "environment": {"K": "v\n"}},
            "two": {"type": "remote", "url": "http://h/mcp"},
        },
    }
    table = McpServers(format="toml", key="mcp_servers", stdio={"command": "{command}", "env": "{env}"})
    assert tomllib.loads(server_file(servers, table, b'model = "m"\n').decode()) == {
        "model": "m",
        "mcp_servers": {
            "one": {"command": "srv", "env": {"K": "v\n"}},
            "two": {"type": "http", "url": "http://h/mcp", "headers": {"A": "b"}},
        },
    }
    switched = McpServers(
        format="toml",
        key="mcp.servers",
        as_list=True,
        settings={"mcp.enabled": True},
        stdio={"name": "{name}"},
        http={"name": "{name}"},
    )
    assert tomllib.loads(server_file(servers, switched, b'"env" = {"A" = "b"}\n').decode()) == {
        "env": {"A": "b"},
        "mcp": {"enabled": True, "servers": [{"name": "one"}, {"name": "two"}]},
    }
    block = McpServers(format="yaml", as_list=True, settings={"name": "x", "schema": "v1"}, stdio={"cmd": "{command}"})
    assert server_file({"one": servers["one"]}, block, b"name: own\nmodels:\n  - a: 1") == (
        b'name: own\nmodels:\n  - a: 1\n"schema": "v1"\n"mcpServers": [{"cmd":"srv"}]\n'
    )
    listed = McpServers(format="toml", key="s", as_list=True, stdio={"name": "{name}"}, http={"name": "{name}"})
    assert tomllib.loads(server_file(servers, listed).decode()) == {"s": [{"name": "one"}, {"name": "two"}]}
    assert acp_servers(servers)[1]["headers"] == [{"name": "A", "value": "b"}]
