"""Digests: the same question, the same agent and the same grader have the same one, so that --resume can tell.

A digest is of JSON with sorted keys, or of a command with the content of the files that it names.
"""

import hashlib
import json
import os
import shlex
import stat
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any

LENGTH = 16  # hexadecimal digits
NOT_JUDGED = frozenset(("id", "input", "workspace", "timeout"))  # fields of a prompt that change no verdict
REDIRECTIONS = frozenset((">", ">>", ">|", "&>", ">&"))
# What a shell line reads, and never writes.
SOURCES = (
    *(".py", ".sh", ".bash", ".js", ".mjs", ".cjs", ".ts", ".rb", ".pl", ".php", ".lua", ".r", ".jl"),
    *(".json", ".yaml", ".yml", ".toml"),
)


def digest(value: Any) -> str:
    """Returns the digest of a JSON value."""
    data = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(data.encode()).hexdigest()[:LENGTH]


def prompt_digest(prompt: dict[str, Any]) -> str:
    """Returns the digest of what reaches the agent: the prompt's input and its workspace."""
    return digest([prompt.get("input"), prompt.get("workspace")])


def fields_digest(prompt: dict[str, Any]) -> str:
    """Returns the digest of what graders see of a prompt besides: hint, reference, metadata, unknown fields."""
    seen = {field: value for field, value in prompt.items() if field not in NOT_JUDGED}
    return digest({field: value for field, value in seen.items() if value not in (None, {})})


def contents(words: Iterable[str], folder: str = os.curdir) -> list[tuple[str, str]]:
    """Returns the words that name a file, each with the digest of its content."""
    found = ((word, file_digest(os.path.join(folder, word))) for word in words)
    return [(word, content) for word, content in found if content is not None]


def file_digest(path: str) -> str | None:
    """Returns the digest of a file's content; None if it is not a regular file that can be read."""
    with suppress(OSError, ValueError):  # a word may have a null byte
        if stat.S_ISREG(os.stat(path).st_mode):
            with open(path, "rb") as file:
                return hashlib.file_digest(file, "sha256").hexdigest()[:LENGTH]
    return None


def programs_in(line: str, folder: str = os.curdir) -> Iterator[str]:
    """Yields the words of a shell line that name a program, a script or a configuration.

    A shell line also names files that it writes, which say nothing about the agent.
    """
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    try:
        words = list(lexer)
    except ValueError:  # a quote that is not closed; sh will say so
        words = line.split()
    for before, word in zip(["", *words], words, strict=False):
        word = os.path.expandvars(word)
        if before not in REDIRECTIONS and _is_source(os.path.join(folder, word)):
            yield word


def _is_source(path: str) -> bool:
    if not os.path.isfile(path):
        return False
    if path.lower().endswith(SOURCES) or os.access(path, os.X_OK):
        return True
    with suppress(OSError), open(path, "rb") as file:
        return file.read(2) == b"#!"
    return False
