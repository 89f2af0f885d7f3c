"""Digests of questions, agents and graders, by which --resume can tell whether they are the same.

A digest is of JSON with sorted keys, or of a command with the content of the files that it names.
"""

import ast
import hashlib
import json
import os
import re
import shlex
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any

from agenteval.streams.files import open_regular, read_regular

LENGTH = 16  # hexadecimal digits
LARGEST = 4 << 30  # bytes of a file whose content is compared
NOT_JUDGED = frozenset(("id", "input", "workspace", "timeout"))  # fields of a prompt that do not affect a verdict
NOT_CONTENT = frozenset((".git", "__pycache__"))  # directories that change without an edit
REDIRECTIONS = frozenset((">", ">>", ">|", "&>", ">&"))
JAVASCRIPT_IMPORT = re.compile(r"""(?:from|import|require)\s*\(?\s*["'](\.[^"']+)["']""")
JAVASCRIPT_ENDINGS = ("", ".js", ".mjs", ".cjs", ".ts", ".mts")
# Files that a shell line reads and never writes.
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
    """Returns the digest of the other fields of a prompt that graders get: hint, reference, metadata, unknown ones."""
    seen = {field: value for field, value in prompt.items() if field not in NOT_JUDGED}
    return digest({field: value for field, value in seen.items() if value not in (None, {})})


def contents(words: Iterable[str], folder: str = os.curdir) -> list[tuple[str, str]]:
    """Returns the words that name a file, or have its name after `=`, each with the digest of its content."""
    names = ((word, name) for word in words for name in (word, word.partition("=")[2]))
    found = ((word, file_digest(os.path.join(folder, name))) for word, name in names)
    return [(word, content) for word, content in found if content is not None]


def digest_of(path: str, *, follow: bool = False) -> str | None:
    """Returns the SHA-256 of a regular file in hexadecimal digits; None if it is too large to be compared."""
    with os.fdopen(open_regular(path, follow=follow), "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() if os.fstat(file.fileno()).st_size <= LARGEST else None


def file_digest(path: str) -> str | None:
    """Returns the digest of a file's content; None if it is not a regular file that can be read."""
    with suppress(OSError, ValueError):  # a word may have a null byte
        found = digest_of(path, follow=True)
        return found and found[:LENGTH]
    return None


def tree_digest(folder: str) -> str:
    """Returns the digest of all files below a directory: their names and contents, and whether they can be executed."""
    found: list[tuple[str, str | None, bool]] = []
    for place, folders, files in os.walk(folder):
        folders[:] = sorted(set(folders) - NOT_CONTENT)
        paths = [os.path.join(place, name) for name in sorted(files)]
        found += [(os.path.relpath(path, folder), file_digest(path), os.access(path, os.X_OK)) for path in paths]
    return digest(found)


def with_imports(path: str, folder: str) -> list[tuple[str, str]]:
    """Returns a Python or JavaScript file and those that it imports from a folder, each with its digest."""
    found: dict[str, str] = {}
    waiting = [os.path.abspath(path)]
    while waiting:
        file = waiting.pop()
        if file not in found and (content := file_digest(file)):
            found[file] = content
            waiting += _python_imports(file, folder) if file.endswith(".py") else _javascript_imports(file)
    return sorted((os.path.relpath(file, folder), content) for file, content in found.items())


def _python_imports(path: str, folder: str) -> list[str]:
    """Returns the paths that the modules imported by a file would have in the folder."""
    with suppress(OSError, SyntaxError, ValueError):  # its host reports that
        nodes = list(ast.walk(ast.parse(read_regular(path, follow=True))))
        modules = [(folder, name.name) for node in nodes if isinstance(node, ast.Import) for name in node.names]
        for node in nodes:
            if isinstance(node, ast.ImportFrom):
                root = os.path.join(os.path.dirname(path), *[os.pardir] * (node.level - 1)) if node.level else folder
                modules += [(root, f"{node.module or ''}.{name.name}".lstrip(".")) for name in node.names]
        parts = [(root, name.split(".")) for root, name in modules]
        paths = [os.path.abspath(os.path.join(root, *one[:n])) for root, one in parts for n in range(1, len(one) + 1)]
        return [file for path in paths for file in (f"{path}.py", os.path.join(path, "__init__.py"))]
    return []


def _javascript_imports(path: str) -> list[str]:
    names: list[str] = []
    with suppress(OSError):
        names = JAVASCRIPT_IMPORT.findall(read_regular(path, follow=True).decode("utf-8", "replace"))
    paths = [os.path.normpath(os.path.join(os.path.dirname(path), name)) for name in names]
    return [path + ending for path in paths for ending in JAVASCRIPT_ENDINGS]


def programs_in(line: str, folder: str = os.curdir) -> Iterator[str]:
    """Yields the words of a shell line that name a program, a script, a configuration or a file that is its input.

    Files that it writes are left out: they say nothing about the agent.
    """
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    try:
        words = list(lexer)
    except ValueError:  # a quote that is not closed; sh will say so
        words = line.split()
    pairs = list(zip(["", *words], words, strict=False))
    written = {word for before, word in pairs if before in REDIRECTIONS}
    for before, word in pairs:
        if word not in written and (before == "<" or _is_source(os.path.join(folder, os.path.expandvars(word)))):
            yield os.path.expandvars(word)


def _is_source(path: str) -> bool:
    if not os.path.isfile(path):
        return False
    if path.lower().endswith(SOURCES) or os.access(path, os.X_OK):
        return True
    with suppress(OSError), os.fdopen(open_regular(path, follow=True), "rb") as file:
        return file.read(2) == b"#!"
    return False
