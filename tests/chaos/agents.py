"""Agents and graders that behave badly: what each prompt makes its agent do, and each record its grader.

The first word of a prompt is what the agent does; the field `graderDoes` of a record is what its grader does.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path

from tests.support.tool import script

GOOD = ["quick", "slow", "half", "binary", "silent", "fork", "daemon", "closed", "noisy", "user", "gone"]
BAD = ["fail", "crash", "flood", "endless", "hang", "stopped", "deaf"]  # their records have `errors`
SLOW = {"deaf"}  # two seconds until SIGKILL: at most one in a round
GRADER_GOOD = ["quick", "half", "fork", "daemon", "noisy", "user"]
GRADER_BAD = ["fail", "nonsense", "flood", "hang", "silent", "deaf"]  # their records have `graderError`
AS_ROOT = {"user"}

# No process of an agent may outlive its record: they sleep for ten minutes. `env -i` hides the mark of the suite and
# that of the round; the directory of the round is in the arguments.
HELPERS = """
here=$(dirname "$0")
other() { setpriv --reuid=65534 --regid=65534 --clear-groups "$@"; }
helpers() {
    sleep 600 &
    setsid sleep 600 &
    (setsid env -i PATH="$PATH" sh -c 'trap "" TERM HUP INT; sleep 600 & wait' "$here" &)
}
daemon() { (setsid sh -c '(trap "" TERM HUP; exec sleep 600) & exit' &) }
"""

AGENT = (
    HELPERS
    + r"""
ulimit -c 0
does=${1%% *}
say() { if [ "$2" ]; then printf '{"type":"text","text":"%s"}\n' "$1"; else printf '%s\n' "$1"; fi; }
case $does in
quick) say "answer to $1" "$2" ;;
slow) say begin "$2"; sleep 0.1; say end "$2" ;;
half) say one "$2"; printf '{"type":"text","text":"half a li' ;;
binary) head -c 5000 /dev/urandom ;;
silent) ;;
fork) say forked "$2"; helpers ;;
daemon) say daemon "$2"; daemon ;;
closed) say closed "$2"; exec >&- 2>&-; sleep 0.1 ;;
noisy) head -c 100000 /dev/zero | tr '\0' 'e' >&2; say noisy "$2" ;;
user) other sleep 600 & say other "$2"; exec setpriv --reuid=65534 --regid=65534 --clear-groups sleep 0.05 ;;
gone) say gone "$2"; case $PWD in */prompt-*) rm -rf "$PWD" ;; esac ;;
fail) say before "$2"; echo 'no luck' >&2; exit 3 ;;
crash) say before "$2"; kill -SEGV $$ ;;
flood) yes 'a flood of lines' ;;
endless) tr '\0' x < /dev/zero ;;
hang) say hanging "$2"; helpers; sleep 600 ;;
stopped) say stopping "$2"; while :; do kill -STOP $$; done ;;
deaf) trap '' TERM INT HUP; say deaf "$2"; while :; do sleep 600; done ;;
*) echo "what is $does?" >&2; exit 9 ;;
esac
"""
)

GRADER = (
    HELPERS
    + r"""
record=$(cat)
does=${record##*'"graderDoes":"'}
does=${does%%'"'*}
verdict='{"pass":true,"score":1.0}'
case $does in
quick) echo "$verdict" ;;
half) printf '%s' "$verdict" ;;
fork) helpers; echo "$verdict" ;;
daemon) daemon; echo "$verdict" ;;
noisy) head -c 100000 /dev/zero | tr '\0' 'e' >&2; echo "$verdict" ;;
user) other sleep 600 & echo "$verdict"; exec setpriv --reuid=65534 --regid=65534 --clear-groups sleep 0.05 ;;
fail) echo "$verdict"; exit 4 ;;
nonsense) echo '{"pass":"perhaps","score":7}' ;;
flood) yes "$verdict" ;;
hang) helpers; sleep 600 ;;
silent) ;;
deaf) trap '' TERM INT HUP; while :; do sleep 600; done ;;
esac
"""
)

# The same for graders that are started once: a loop over lines, and a function.
IN_PYTHON = """
import os, signal, subprocess, time

DETACHED = {"stdin": subprocess.DEVNULL, "start_new_session": True}


def does(name):
    "Returns what is printed for a record."
    verdict = '{"pass":true,"score":1.0}'
    if name == "fork":
        subprocess.Popen(["sleep", "600"], **DETACHED)
    elif name == "daemon":
        subprocess.run(["sh", "-c", "(trap '' TERM; exec sleep 600) &"], **DETACHED)
    elif name == "noisy":
        os.write(2, b"e" * 100_000)
    elif name == "user":
        subprocess.Popen(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "sleep", "600"], **DETACHED)
    elif name == "fail":
        os._exit(4)
    elif name == "nonsense":
        return '{"pass":"perhaps","score":7}'
    elif name == "flood":
        for _ in range(200_000):
            os.write(1, b"a flood of lines" * 100 + b"\\n")
    elif name in ("hang", "silent"):
        time.sleep(600)
    elif name == "deaf":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        time.sleep(600)
    return verdict
"""
STREAM_GRADER = f"""{IN_PYTHON}
import json, sys
for line in sys.stdin:
    name = json.loads(line)["graderDoes"]
    print(does(name), end="" if name == "half" else "\\n", flush=True)
    if name == "half":
        break
"""
FUNCTION_GRADER = f"""{IN_PYTHON}
import json
def grade(record):
    return json.loads(does(record["graderDoes"]))
"""

ACP_AGENT = """
import json, os, signal, subprocess, sys, time

def send(**message):
    os.write(1, json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\\n")

def update(text):
    content = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}
    send(method="session/update", params={"sessionId": "s", "update": content})

def prompt(ident, text):
    does = text.split()[0]
    if does in ("fork", "daemon"):
        subprocess.Popen(["sh", "-c", "trap '' TERM; sleep 600"], stdin=subprocess.DEVNULL, start_new_session=True)
    elif does == "binary":
        os.write(1, b"\\xff\\xfe no message\\n")
    elif does == "noisy":
        os.write(2, b"e" * 100_000)
    elif does == "user":
        subprocess.Popen(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "sleep", "600"])
    elif does == "half":
        update("half")
        send(id=99, method="no/such", params={"half": "known"})
    elif does == "fail":
        return send(id=ident, error={"code": -32000, "message": "no luck"})
    elif does == "crash":
        os.write(1, b'{"jsonrpc":"2.0","id":')
        os._exit(3)
    elif does == "flood":
        while True:
            update("a flood of updates")
    elif does == "endless":
        while True:
            os.write(1, b"x" * 65536)
    elif does == "hang":
        return time.sleep(600)
    elif does == "stopped":
        while True:  # a fault may continue it
            os.kill(os.getpid(), signal.SIGSTOP)
    elif does == "deaf":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        return time.sleep(600)
    update(f"answer to {text}")
    send(id=ident, result={"stopReason": "end_turn"})

for line in sys.stdin:
    message = json.loads(line)
    method, ident = message.get("method"), message.get("id")
    if method == "initialize":
        send(id=ident, result={"protocolVersion": 1, "agentCapabilities": {}})
    elif method == "session/new":
        send(id=ident, result={"sessionId": "s"})
    elif method == "session/prompt":
        prompt(ident, message["params"]["prompt"][0]["text"])
"""

SCHEMA = {
    "version": 1,
    "name": "chaos",
    "sessionMode": "iterative",
    "prompt": {"flag": ""},
    "output": {"flag": "", "value": ""},
    "outputMode": "jsonpath",
    "historyTemplate": "{{input}}",
    "outputEvents": [
        {"match": {"path": "$.type", "value": "text"}, "emitAs": "message", "extract": {"content": "$.text"}}
    ],
}


def possible(behaviours: list[str]) -> list[str]:
    """Returns those that can be had here: only root becomes another user."""
    root = os.geteuid() == 0 and shutil.which("setpriv") is not None
    return [name for name in behaviours if root or name not in AS_ROOT]


def write_files(folder: Path) -> None:
    """Writes the scripts of the agents and graders, and the schema."""
    script(folder / "agent.sh", AGENT)
    script(folder / "grader.sh", GRADER)
    script(folder / "stream.py", f"#!{sys.executable} -IS\n{STREAM_GRADER}")
    (folder / "function.py").write_text(FUNCTION_GRADER)
    script(folder / "acp.py", f"#!{sys.executable} -IS\n{ACP_AGENT}")
    (folder / "schema.json").write_text(json.dumps({**SCHEMA, "command": [str(folder / "json-agent.sh")]}))
    script(folder / "json-agent.sh", f'exec {folder}/agent.sh "$1" json')


def agent_options(kind: str, folder: Path) -> tuple[list[str], list[str]]:
    """Returns the options that name the agent, and what follows all options."""
    if kind == "simple":
        return ["--simple", f"{folder}/agent.sh {{}}"], []
    if kind == "shell":
        return ["--shell", f'{folder}/agent.sh "$PROMPT"'], []
    if kind == "schema":
        return ["-s", f"{folder}/schema.json"], []
    return [], ["--", f"{folder}/acp.py"]


def grader_options(kinds: list[str], folder: Path) -> list[str]:
    """Returns -g for each kind of grader."""
    files = {"executable": "grader.sh", "stream": "stream.py", "function": "function.py"}
    graders = [f"{kind}={folder / files[kind]}" if kind in files else "hint=ae-grader-hint" for kind in kinds]
    return [word for grader in graders for word in ("-g", grader)] + (["--stream"] if "stream" in kinds else [])
