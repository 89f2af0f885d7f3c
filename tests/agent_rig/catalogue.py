"""The agents: the package to install, and the settings that point each at the scripted model.

In `files` (below the agent's HOME) and in `env`, {url} stands for the address of the model, {work} for the workspace.
`unreported` lists facts that the program does not print, so that no adapter can extract them; `cannot` says which
scenarios do not apply to it, and why.
"""

from __future__ import annotations

import json
from typing import NamedTuple

KEY = "sk-dummy"
MODEL = "scripted-model"
HINT = "hint.txt"  # a file of the user's, two directories above the workspace
MODEL_2 = "second-model"  # that of --model

TOKENS = "exact token counts"
CACHED = "cached tokens"
TOOLS = "tool calls"
THOUGHTS = "thoughts"
THOUGHT_TOKENS = "the tokens of thoughts"
EXIT = "failed commands"
RUNNING = "unfinished tool calls"
KILLED = "killed tools"
STOP = "cut-off answers"
SUB_AGENT_TOKENS = "the tokens of sub-agents"

SECRET = "vermilion-otter"  # what an agent has in its memory

# Why a scenario does not apply.
NO_TOOLS = "it has no tools"
NO_SUB_AGENTS = {"sub-agent": "it has no sub-agents"}
NO_LIMIT = {"max turns": "it has no such limit"}
NO_MEMORY = {"second session": "it has no memory"}
NO_VARIANTS = {"skill": "it has no skills", "mcp": "it has no MCP"}
WITHOUT_TOOLS = dict.fromkeys(
    (
        "failing tool",
        "child left",
        "empty answer",
        "parallel calls",
        "sub-agent",
        "max turns",
        "killed later",
        "memory",
    ),
    NO_TOOLS,
)


class Memory(NamedTuple):
    """What an agent carries from one session to the next, and how the adapter stops it."""

    switch: tuple[str, ...] = ()
    """Variables and arguments of the adapter schema without which the agent remembers."""
    env: dict[str, str] = {}
    arguments: tuple[str, ...] = ()
    files: dict[str, str] = {}
    """What turns the memory on, for agents that have it off by default, and what is in it (SECRET), for agents that do
    not tell the model where to write."""


class Agent(NamedTuple):
    """A program to install and its settings."""

    name: str
    source: str
    """npm, pip, or local: the package is the folder of the program."""
    package: str
    version: str
    also: tuple[str, ...] = ()
    python: tuple[int, int] = (3, 0)
    """The oldest Python that its package on PyPI supports."""
    python_below: tuple[int, int] = (4, 0)
    """The oldest Python that is too new for it."""
    env: dict[str, str] = {}
    files: dict[str, str] = {}
    unreported: frozenset[str] = frozenset()
    counts_side_requests: bool = False
    """Its token counts include requests beside the task, such as one for a title."""
    without_tools: bool = False
    """It has no tools: it writes files from the text of the answer, if at all."""
    limit: tuple[str, ...] = ()
    """Arguments that limit it to one request to the model; `limit_env` has variables with that effect."""
    limit_env: dict[str, str] = {}
    limit_files: dict[str, str] = {}
    """Files with that effect, in place of those in `files`."""
    sub_agent: dict[str, str] = {}
    """What its tool that starts a sub-agent needs beside the task."""
    memory: Memory | None = None
    cannot: dict[str, str] = {}
    """Scenario that does not apply → why."""
    writes_files: bool = True
    time_out: int = 20_000
    """ms until the timeout in the scenario of that name: enough for it to start and to call its tool."""
    failure: str = "500"
    """Text in its error message when the model answers 500, unless it passes the model's own message on."""
    model: str = MODEL_2
    """How --model names MODEL_2."""
    poison: dict[str, str] = {}
    """Settings of a user with a hook and a server (see poison.py): files below HOME, some in place of those in `files`.
    {hook} stands for a command, {python}, {server} and {started} for a server and its arguments, {mark} for a mark
    and {file} for the file itself."""
    poison_above: dict[str, str] = {}
    """The same in the directory above the workspaces."""
    poison_arguments: tuple[str, ...] = ()
    """Arguments without which it ignores them."""
    harmless: bool = False
    """It reads no file of the user's but its login."""
    reading: tuple[str, ...] = ()
    """Arguments with which it reads HINT, if it has no tools, or may read files outside of its workspace."""
    schema: str = ""
    """Path of its adapter schema, if it does not come with the suite."""


def _json(value: object) -> str:
    return json.dumps(value, indent=2)


_HOOK = {"type": "command", "command": "{hook}"}
_SERVER = {"command": "{python}", "args": ["{server}", "{started}"]}
_TOML_SERVER = """
[mcp_servers.own]
command = "{python}"
args = ["{server}", "{started}"]
"""
_MODEL_OPTIONS = {"name": "Scripted", "limit": {"context": 200_000, "output": 8_000}}
_OPENAI_ENV = {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": "{url}/v1", "OPENAI_API_BASE": "{url}/v1"}
_LITELLM_ENV = {**_OPENAI_ENV, "LITELLM_LOCAL_MODEL_COST_MAP": "True"}

CLAUDE = Agent(
    "claude",
    "npm",
    "@anthropic-ai/claude-code",
    "2.1.326",
    env={
        "ANTHROPIC_BASE_URL": "{url}",
        "ANTHROPIC_API_KEY": KEY,
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "CLAUDE_CODE_MAX_RETRIES": "1",  # else ten, over three minutes
        "IS_SANDBOX": "1",  # else it refuses to run as root
    },
    limit=("--max-turns", "1"),
    memory=Memory(("CLAUDE_CODE_DISABLE_AUTO_MEMORY",)),
    poison={
        ".claude/settings.json": _json({"hooks": {"SessionStart": [{"hooks": [_HOOK]}]}}),
        ".claude.json": _json({"mcpServers": {"own": _SERVER}}),
    },
)

_CODEX_CONFIG = f"""\
model = "{MODEL}"
model_provider = "scripted"
model_reasoning_summary = "detailed"
check_for_update_on_startup = false
[analytics]
enabled = false
[model_providers.scripted]
name = "scripted"
base_url = "{{url}}/v1"
env_key = "SCRIPTED_KEY"
wire_api = "responses"
request_max_retries = 1
stream_max_retries = 1
"""

CODEX = Agent(
    "codex",
    "npm",
    "@openai/codex",
    "0.169.0",
    env={"SCRIPTED_KEY": KEY},
    files={".codex/config.toml": _CODEX_CONFIG},
    failure="experiencing high demand",
    memory=Memory(
        ("-c", "features.memories=false"),
        files={".codex/memories/memory_summary.md": f"v1\n\nThe codeword is {SECRET}.\n"},
        arguments=("--enable", "memories"),
    ),
    cannot=NO_LIMIT,
    poison={
        ".codex/config.toml": _CODEX_CONFIG + _TOML_SERVER,
        ".codex/hooks.json": _json({"hooks": {"SessionStart": [{"hooks": [_HOOK]}]}}),
    },
    poison_arguments=("--dangerously-bypass-hook-trust",),
)

_GEMINI_SETTINGS = {
    "security": {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": False}},
    "privacy": {"usageStatisticsEnabled": False},
    "telemetry": {"enabled": False},
    "general": {"enableAutoUpdate": False, "enableAutoUpdateNotification": False, "maxAttempts": 2},
}

GEMINI = Agent(
    "gemini",
    "npm",
    "@google/gemini-cli",
    "0.61.0",
    env={"GEMINI_API_KEY": KEY, "GOOGLE_GEMINI_BASE_URL": "{url}", "GEMINI_TELEMETRY_ENABLED": "false"},
    files={".gemini/settings.json": _json(_GEMINI_SETTINGS)},
    limit_files={".gemini/settings.json": _json({**_GEMINI_SETTINGS, "model": {"maxSessionTurns": 1}})},
    unreported=frozenset({EXIT, THOUGHTS, STOP}),
    counts_side_requests=True,
    cannot={"second session": "nothing switches its memory off: a session sees what an earlier one saved"},
    sub_agent={"agent_name": "generalist"},
    poison={
        ".gemini/settings.json": _json(
            {
                **_GEMINI_SETTINGS,
                "mcpServers": {"own": _SERVER},
                "hooks": {"SessionStart": [{"hooks": [{**_HOOK, "name": "own"}]}]},
            }
        ),
        ".gemini/extensions/own/gemini-extension.json": _json({"name": "own", "version": "1.0.0"}),
        ".gemini/extensions/own/GEMINI.md": "An extension of the user's.\n",
    },
)

_OPENCODE_CONFIG = {
    "autoupdate": False,
    "share": "disabled",
    "model": f"scripted/{MODEL}",
    "small_model": f"scripted/{MODEL}",
    "permission": {"bash": "allow", "edit": "allow"},
    "provider": {
        "scripted": {
            "npm": "@ai-sdk/openai-compatible",
            "options": {"baseURL": "{url}/v1", "apiKey": KEY},
            "models": {name: {**_MODEL_OPTIONS, "tool_call": True, "reasoning": True} for name in (MODEL, MODEL_2)},
        }
    },
}

OPENCODE = Agent(
    "opencode",
    "npm",
    "opencode-ai",
    "1.18.33",
    env={"OPENCODE_DISABLE_MODELS_FETCH": "1", "OPENCODE_DISABLE_SHARE": "1"},
    files={".config/opencode/opencode.json": _json(_OPENCODE_CONFIG)},
    unreported=frozenset({RUNNING}),
    cannot={**NO_MEMORY, "max turns": "at the limit of steps it only asks the model to stop"},
    sub_agent={"subagent_type": "general"},
    model=f"scripted/{MODEL_2}",
    poison={
        ".config/opencode/opencode.json": _json(
            {
                **_OPENCODE_CONFIG,
                "mcp": {"own": {"type": "local", "command": ["{python}", "{server}", "{started}"], "enabled": True}},
            }
        ),
        ".config/opencode/plugin/own.js": """\
import { writeFileSync } from "node:fs";
export const Own = async () => { writeFileSync("{hook-file}", ""); return {}; };
""",
    },
)

_QWEN_SETTINGS = {
    "security": {"auth": {"selectedType": "openai"}},
    "privacy": {"usageStatisticsEnabled": False},
    "telemetry": {"enabled": False},
    "general": {"enableAutoUpdate": False, "disableAutoUpdate": True},
    "model": {"generationConfig": {"maxRetries": 1}},
}

QWEN = Agent(
    "qwen",
    "npm",
    "@qwen-code/qwen-code",
    "0.24.4",
    env={**_OPENAI_ENV, "OPENAI_MODEL": MODEL},
    files={".qwen/settings.json": _json(_QWEN_SETTINGS)},
    counts_side_requests=True,
    limit=("--max-session-turns", "1"),
    unreported=frozenset({STOP}),
    memory=Memory(("QWEN_CODE_MEMORY_LOCAL",)),
    sub_agent={"subagent_type": "general-purpose"},
    poison={
        ".qwen/settings.json": _json(
            {
                **_QWEN_SETTINGS,
                "mcpServers": {"own": _SERVER},
                "hooks": {"SessionStart": [{"hooks": [{**_HOOK, "name": "own"}]}]},
            }
        ),
    },
)

COPILOT = Agent(
    "copilot",
    "npm",
    "@github/copilot",
    "1.0.102",
    env={
        "COPILOT_OFFLINE": "true",
        "COPILOT_AUTO_UPDATE": "false",
        "COPILOT_PROVIDER_BASE_URL": "{url}/v1",
        "COPILOT_PROVIDER_API_KEY": KEY,
        "COPILOT_MODEL": MODEL,
    },
    unreported=frozenset({STOP}),
    memory=Memory(("--excluded-tools=session_store_sql",)),
    cannot=NO_LIMIT,
    sub_agent={"agent_type": "general-purpose"},
    reading=("--allow-all-paths",),
    poison={
        ".copilot/mcp-config.json": _json({"mcpServers": {"own": {**_SERVER, "type": "local", "tools": ["*"]}}}),
        ".copilot/hooks/own.json": _json(
            {"version": 1, "hooks": {"sessionStart": [{"type": "command", "bash": "{hook}"}]}}
        ),
    },
)

PI = Agent(
    "pi",
    "npm",
    "@earendil-works/pi-coding-agent",
    "0.87.1",  # 1.x cannot be installed: packages that it needs are not on npm
    env={"PI_OFFLINE": "1", "PI_TELEMETRY": "0"},
    unreported=frozenset({KILLED}),
    files={
        ".pi/agent/settings.json": _json({"defaultProvider": "scripted", "defaultModel": MODEL}),
        ".pi/agent/models.json": _json(
            {
                "providers": {
                    "scripted": {
                        "baseUrl": "{url}/v1",
                        "apiKey": KEY,
                        "api": "openai-completions",
                        "models": [
                            {
                                "id": name,
                                "name": "Scripted",
                                "reasoning": True,
                                "input": ["text"],
                                "cost": {"input": 1, "output": 2, "cacheRead": 0.1, "cacheWrite": 0},
                                "contextWindow": 200_000,
                                "maxTokens": 8_000,
                            }
                            for name in (MODEL, MODEL_2)
                        ],
                    }
                }
            }
        ),
    },
    cannot={**NO_SUB_AGENTS, **NO_LIMIT, **NO_MEMORY, "mcp": "it has no MCP, unless an extension adds it"},
    poison={
        ".pi/agent/extensions/own.ts": """\
import { writeFileSync } from "node:fs";
export default function (pi: any) { writeFileSync("{hook-file}", ""); }
"""
    },
)

CLINE = Agent(
    "cline",
    "npm",
    "cline",
    "3.0.65",
    env={"CLINE_NO_AUTO_UPDATE": "1"},
    files={
        ".cline/data/settings/providers.json": _json(
            {
                "version": 1,
                "lastUsedProvider": "openai-compatible",
                "modes": {},
                "providers": {
                    "openai-compatible": {
                        "settings": {
                            "provider": "openai-compatible",
                            "apiKey": KEY,
                            "model": MODEL,
                            "baseUrl": "{url}/v1",
                        },
                        "updatedAt": "2026-01-01T00:00:00.000Z",
                        "tokenSource": "manual",
                    }
                },
            }
        )
    },
    cannot=NO_LIMIT | NO_MEMORY,
    poison={
        ".cline/data/settings/cline_mcp_settings.json": _json({"mcpServers": {"own": _SERVER}}),
        ".cline/hooks/TaskStart": "#!/bin/sh\n{hook}\necho '{}'\n",
        "Documents/Cline/Hooks/TaskStart": "#!/bin/sh\n{hook}\necho '{}'\n",
    },
)

_CONTINUE_CONFIG = f"""\
name: scripted
version: 0.0.1
schema: v1
models:
  - name: scripted
    provider: openai
    model: {MODEL}
    apiBase: "{{url}}/v1"
    apiKey: {KEY}
    roles: [chat]
    capabilities: [tool_use]
"""

CONTINUE = Agent(
    "continue",
    "npm",
    "@continuedev/cli",
    "1.5.47",
    env={"CONTINUE_TELEMETRY_ENABLED": "0"},
    files={".continue/config.yaml": _CONTINUE_CONFIG},
    unreported=frozenset({TOOLS, TOKENS, STOP}),
    cannot={
        **NO_LIMIT,
        **NO_MEMORY,
        "sub-agent": "its tool for them, in beta, fails without the terminal user interface",
        "model": "it takes models of its hub only; others are in its configuration",
    },
    poison={
        ".continue/config.yaml": _CONTINUE_CONFIG
        + """\
mcpServers:
  - name: own
    command: "{python}"
    args: ["{server}", "{started}"]
"""
    },
)

AIDER = Agent(
    "aider",
    "pip",
    "aider-chat",
    "0.86.2",
    env={**_LITELLM_ENV, "AIDER_MODEL": f"openai/{MODEL}"},
    unreported=frozenset({TOOLS, TOKENS, STOP}),
    without_tools=True,
    cannot=WITHOUT_TOOLS | NO_MEMORY | NO_VARIANTS,
    model=f"openai/{MODEL_2}",
    poison={".aider.conf.yml": "read: {file}  # {mark}\n"},
    reading=("--read", f"../../{HINT}"),  # not an absolute path, as files that a command names are behind the wall, too
    time_out=60_000,  # on a busy machine it takes 20 s to start
)

LLM = Agent(
    "llm",
    "pip",
    "llm",
    "0.36",
    env={"OPENAI_API_KEY": KEY},
    files={
        ".config/io.datasette.llm/default_model.txt": MODEL,
        ".config/io.datasette.llm/extra-openai-models.yaml": f"""\
- model_id: {MODEL}
  model_name: {MODEL}
  api_base: "{{url}}/v1"
- model_id: {MODEL_2}
  model_name: {MODEL_2}
  api_base: "{{url}}/v1"
""",
    },
    unreported=frozenset({TOOLS, TOKENS, STOP}),
    without_tools=True,
    writes_files=False,
    cannot={**WITHOUT_TOOLS, **NO_MEMORY, **NO_VARIANTS, "instructions": "it reads none"},
    harmless=True,
)

MINI = Agent(
    "mini-swe-agent",
    "pip",
    "mini-swe-agent",
    "2.4.6",
    also=("mcp",),  # without it every call of the model fails
    env={
        **_LITELLM_ENV,
        "MSWEA_CONFIGURED": "true",
        "MSWEA_COST_TRACKING": "ignore_errors",
        "MSWEA_MODEL_NAME": f"openai/{MODEL}",
        "MSWEA_MODEL_RETRY_STOP_AFTER_ATTEMPT": "2",
    },
    unreported=frozenset({RUNNING}),
    limit=("-c", "mini.yaml", "-c", "agent.step_limit=1"),
    cannot={**NO_SUB_AGENTS, **NO_MEMORY, **NO_VARIANTS, "instructions": "it reads none"},
    model=f"openai/{MODEL_2}",
    harmless=True,
    time_out=60_000,  # as aider
)

GPTME = Agent(
    "gptme",
    "pip",
    "gptme",
    "0.35.1",
    env={
        **_OPENAI_ENV,
        "LOCAL_API_KEY": KEY,
        "MODEL": f"local/{MODEL}",
        "GPTME_TEST_MAX_RETRIES": "2",  # else eleven, over five minutes
    },
    unreported=frozenset({RUNNING, STOP}),
    failure="exited with code 1",  # why is in its stderr, but not in the last line of it
    limit_env={"GPTME_MAX_STEPS": "1"},
    memory=Memory(
        ("GPTME_MEMORY_DIRS", "GPTME_CHAT_HISTORY", "--tools=-memory"),
        env={"GPTME_CHAT_HISTORY": "1"},
        files={".config/gptme/memory/MEMORY.md": f"- The codeword is {SECRET}.\n"},
    ),
    cannot={
        "sub-agent": "it has none, unless its configuration adds the tool `subagent`",
        "parallel calls": "it carries out the first call of a reply only",
    },
    model=f"local/{MODEL_2}",
    poison={
        ".config/gptme/config.toml": """\
[mcp]
enabled = true
auto_start = true
[[mcp.servers]]
name = "own"
enabled = true
command = "{python}"
args = ["{server}", "{started}"]
"""
    },
    time_out=60_000,  # as aider
)

_GOOSE_CONFIG = """\
extensions:
  developer:
    enabled: true
    type: builtin
    name: developer
    timeout: 300
"""

GOOSE = Agent(
    "goose",
    "npm",
    "@aaif/goose",
    "0.20.1",  # of the package; the program in it is goose 1.34.0
    env={
        "GOOSE_PROVIDER": "openai",
        "GOOSE_MODEL": MODEL,
        "GOOSE_TELEMETRY_ENABLED": "false",
        "OPENAI_HOST": "{url}",
        "OPENAI_API_KEY": KEY,
    },
    files={".config/goose/config.yaml": _GOOSE_CONFIG},
    unreported=frozenset({CACHED, STOP}),
    limit=("--max-turns", "1"),
    cannot={"second session": "its memory is an extension, which only the user's configuration adds"},
    poison={
        ".config/goose/config.yaml": _GOOSE_CONFIG
        + """\
  own:
    enabled: true
    type: stdio
    name: own
    cmd: "{python}"
    args: ["{server}", "{started}"]
    timeout: 30
"""
    },
)

_GROK_CONFIG = f"""\
[models]
default = "scripted"
max_retries = 1
[model.scripted]
model = "{MODEL}"
base_url = "{{url}}/v1"
env_key = "SCRIPTED_KEY"
name = "Scripted"
context_window = 200000
max_completion_tokens = 8000
[model.second]
model = "{MODEL_2}"
base_url = "{{url}}/v1"
env_key = "SCRIPTED_KEY"
name = "Second"
context_window = 200000
max_completion_tokens = 8000
"""

GROK = Agent(
    "grok",
    "npm",
    "@xai-official/grok",
    "1.0.41",
    env={"SCRIPTED_KEY": KEY, "GROK_DISABLE_AUTOUPDATER": "1"},
    files={".grok/config.toml": _GROK_CONFIG},
    limit=("--max-turns", "1"),
    memory=Memory(
        ("GROK_MEMORY",),
        env={"GROK_MEMORY": "1"},
        files={".grok/memory/MEMORY.md": f"# Global memory\n\n## Preferences\n\n- The codeword is {SECRET}.\n"},
    ),
    model="second",
    poison={
        ".grok/config.toml": _GROK_CONFIG + _TOML_SERVER,
        ".grok/hooks/own.json": _json({"hooks": {"SessionStart": [{"hooks": [_HOOK]}]}}),
    },
)

_KIMI_CONFIG = f"""\
default_model = "scripted"
telemetry = false
[loop_control]
max_retries_per_step = 1
[providers.scripted]
type = "openai"
base_url = "{{url}}/v1"
api_key = "{KEY}"
[models.scripted]
provider = "scripted"
model = "{MODEL}"
max_context_size = 200000
capabilities = ["thinking", "tool_use"]
[models.second]
provider = "scripted"
model = "{MODEL_2}"
max_context_size = 200000
capabilities = ["thinking", "tool_use"]
"""

KIMI = Agent(
    "kimi",
    "npm",
    "@moonshot-ai/kimi-code",
    "2.1.0",
    files={".kimi-code/config.toml": _KIMI_CONFIG},
    unreported=frozenset({TOKENS, THOUGHTS, STOP}),
    limit_files={
        ".kimi-code/config.toml": _KIMI_CONFIG.replace("[loop_control]", "[loop_control]\nmax_steps_per_turn = 1")
    },
    cannot=NO_MEMORY,
    model="second",
    poison={
        ".kimi-code/config.toml": _KIMI_CONFIG + '[[hooks]]\nevent = "SessionStart"\ncommand = "{hook}"\n',
        ".kimi-code/mcp.json": _json({"mcpServers": {"own": _SERVER}}),
    },
)

_VIBE_CONFIG = f"""\
active_model = "scripted"
enable_telemetry = false
enable_update_checks = false
enable_auto_update = false
api_retry_max_elapsed_time = 5.0
[[providers]]
name = "scripted"
api_base = "{{url}}/v1"
api_key_env_var = "SCRIPTED_KEY"
[[models]]
name = "{MODEL}"
provider = "scripted"
alias = "scripted"
thinking = "high"
max_context_length = 200000
[[models]]
name = "{MODEL_2}"
provider = "scripted"
alias = "second"
thinking = "high"
max_context_length = 200000
"""

VIBE = Agent(
    "vibe",
    "pip",
    "mistral-vibe",
    "3.0.2",  # 3.0.3 cannot be installed: it needs a version of certifi that is not on PyPI
    python=(3, 12),
    env={"SCRIPTED_KEY": KEY},
    files={".vibe/config.toml": _VIBE_CONFIG},
    unreported=frozenset({TOKENS, RUNNING}),
    limit=("--max-turns", "1"),
    cannot={**NO_MEMORY, "sub-agent": "the model starts them from a program in TypeScript, and no tokens are reported"},
    model="second",
    poison={
        ".vibe/config.toml": _VIBE_CONFIG
        + """\
[[mcp_servers]]
name = "own"
transport = "stdio"
command = "{python}"
args = ["{server}", "{started}"]
"""
    },
    time_out=60_000,  # as aider
)

OPENHANDS = Agent(
    "openhands",
    "pip",
    "openhands",
    "1.16.0",
    python=(3, 12),
    python_below=(3, 13),
    env={
        "LLM_MODEL": f"openai/{MODEL}",
        "LLM_API_KEY": KEY,
        "LLM_BASE_URL": "{url}/v1",
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    },
    unreported=frozenset({TOKENS, STOP}),
    time_out=120_000,  # it takes 10 s of CPU time to start, a minute on a busy machine
    cannot=NO_LIMIT | NO_MEMORY,
    sub_agent={"subagent_type": "default"},
    model=f"openai/{MODEL_2}",
    poison={".openhands/mcp.json": _json({"mcpServers": {"own": _SERVER}})},
)

_NPM = (CLAUDE, CODEX, GEMINI, OPENCODE, QWEN, COPILOT, PI, CLINE, CONTINUE, GOOSE, GROK, KIMI)
AGENTS = {agent.name: agent for agent in (*_NPM, AIDER, LLM, MINI, GPTME, VIBE, OPENHANDS)}
