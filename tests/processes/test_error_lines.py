"""Which line of stderr says why a process failed."""

from __future__ import annotations

import pytest

from agenteval.processes.process import error_line

NODE = """node:internal/modules/cjs/loader:1228
  throw err;
  ^

Error: Cannot find module './missing.js'
Require stack:
- /opt/agent/index.js
    at Module._resolveFilename (node:internal/modules/cjs/loader:1225:15)
    at async run (file:///opt/agent/index.js:10:5)
    at /opt/agent/index.js:20:3 {
  code: 'MODULE_NOT_FOUND',
  requireStack: [ '/opt/agent/index.js' ]
}

Node.js v22.23.3
"""
PYTHON = """Traceback (most recent call last):
  File "/opt/agent/cli.py", line 12, in <module>
    raise SystemExit(main())
          ^^^^^^^^^^^^^^^^^^
  File "/opt/agent/cli.py", line 3, in main
    raise ConnectionError("refused")
ConnectionError: refused
"""
CLAP = """error: unexpected argument '--json' found

  tip: a similar argument exists: '--jsonl'

Usage: agent exec [OPTIONS] [PROMPT]

For more information, try '--help'.
"""
YARGS = """agent [command]

Commands:
  agent run  run a prompt

Options:
  --format    output format   [string]
  -h, --help  show help

Unknown argument: auto
"""
HELP_LAST = """error: unknown option '--output-format'
Usage: agent [options] [prompt]

Options:
  -p, --print      print the response and exit
  --invalid-thing  do not fail on an unknown error
  -h, --help       display help for command
"""
WARNED = """/opt/agent/lib/authlib/_joserfc_helpers.py:8: AuthlibDeprecationWarning: authlib.jose is deprecated.
  from authlib.jose import ECKey
"""
CASES = [
    (WARNED, ""),
    (f"{WARNED}no API key\n{WARNED}", "no API key"),
    ("Reading additional input from stdin...\n", ""),
    ("Reading additional input from stdin...\nError: no login\n", "Error: no login"),
    (
        "2026-11-16T00:19:32Z ERROR codex_core::client: stream disconnected\nReading additional input from stdin...\n",
        "2026-11-16T00:19:32Z ERROR codex_core::client: stream disconnected",
    ),
    (NODE, "Error: Cannot find module './missing.js'"),
    (PYTHON, "ConnectionError: refused"),
    (CLAP, "error: unexpected argument '--json' found"),
    (YARGS, "Unknown argument: auto"),
    ("  --auto  a message to\n  run it immediately  [boolean] [default: false]\n", ""),
    (HELP_LAST, "error: unknown option '--output-format'"),
    ("thread 'main' panicked at src/main.rs:4:5:\nno key\nnote: run with `RUST_BACKTRACE=1`\n",
     "thread 'main' panicked at src/main.rs:4:5: no key"),
    ("Invalid API key\n    at login (/opt/a.js:1:2)\n", "Invalid API key"),
    ("(node:12) ExperimentalWarning: SQLite is experimental\nYou are not logged in. Run agent login.\n",
     "You are not logged in. Run agent login."),
    ("WARN: 1 request failed, retrying\ngiving up\n", "giving up"),
    ("[ERROR] quota exceeded\nbye\n", "[ERROR] quota exceeded"),
    ("agent: fatal: no model\ncleaning up\n", "agent: fatal: no model"),
    ("first\nError: one\nError: two\n", "Error: two"),
    ("\x1b[31mError:\x1b[0m red\n", "Error: red"),
    ("starting\nboom\n", "boom"),
    ("a\nb\nc\nd\n", "d"),
    ("0 errors, no warnings\nbye\n", "bye"),
    ("{\n  [\n}\n", "}"),
    ("", ""),
]  # fmt: skip


@pytest.mark.parametrize(("stderr", "line"), CASES, ids=[str(n) for n in range(len(CASES))])
def test_the_line_that_says_why(stderr: str, line: str) -> None:
    assert error_line(stderr) == line
