"""Files that an agent can reach: opened in one place, whatever was put there, and nowhere else."""

from __future__ import annotations

import ast
import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from agenteval.errors import UserError
from agenteval.streams import files, output
from agenteval.streams.digests import digest_of
from agenteval.streams.files import (
    copy_regular,
    is_regular,
    lines_of,
    open_regular,
    read_given,
    read_regular,
)
from agenteval.streams.output import Output
from agenteval.streams.source import Source
from tests.support.tool import ROOT
from tests.support.watching import PATIENCE

# Whatever opens a file: `open` as a function or as a method of anything that is not ours, and these.
OPENERS = {
    "sqlite3.connect",
    "os.truncate",
    "fileinput.input",
    "numpy.load",
    "tomllib.load",
    "json.load",
    "pickle.load",
}
METHODS = {
    "read_text",
    "read_bytes",
    "write_text",
    "loadtxt",
    "genfromtxt",
    "fromfile",
    "memmap",
    "getlines",
    "open_code",
}
METHODS |= {"ZipFile", "TarFile", "FileIO", "GzipFile", "ParquetFile", "read_csv", "read_table", "touch", "file_digest"}
COPIES = {"copy", "copy2", "copyfile", "copytree", "move", "make_archive", "unpack_archive"}  # of shutil
MODULES = {
    "os",
    "io",
    "codecs",
    "gzip",
    "bz2",
    "lzma",
    "zipfile",
    "tarfile",
    "shelve",
    "dbm",
    "mmap",
    "pathlib",
    "sqlite3",
}
# What has a method open() or touch() of ours, which opens nothing but what ALLOWED knows.
OURS = {"self", "target", "out", "output", "remote", "agent", "self.agent", "self.output", "self.journal"}
OURS |= {"self.grader_plan", "archive"}  # the last is an archive that is open
# Where a file may be opened in another way, and why.
ALLOWED = {
    "streams/files.py": "the one place",
    "streams/digests.py:digest_of": "a file that is open",
    "streams/output.py": "-o, which the user names: open_to_append() waits for no reader, what is written is watched",
    "processes/tree.py": "/proc",
    "processes/supervisor.py": "/proc",
    "processes/guardian.py": "/proc and /dev/null",
    "processes/scratch.py:_mount_below": "/proc",
    "processes/scratch.py:_locked": "creates a file, with O_EXCL",
    "agents/acp/client.py": "opens step by step below a directory, with O_NOFOLLOW and O_NONBLOCK",
    "agents/sandbox.py": "/proc, the program that the user names, and a pipe of its own",
    "agents/workspaces.py:copy_tree": "each file by copy_regular()",
    "adapters/sessions/logs.py:connect": "after open_regular()",
    "adapters/sessions/schema.py": "a file of the package",
    "adapters/foreign/inspect.py:read_archive": "a file that is open",
    "cluster/merge.py:lines": "a descriptor",
    "cluster/ray_cluster.py": "files that the user names for the nodes; /proc",
    "comparison/preference.py:__init__": "a descriptor",
    "grading/python_host.py": "its own descriptors",
    "grading/judge.py:put": "creates a file, with O_EXCL",
    "cli/executables.py": "files of the package",
    "cli/ae_commands.py": "files of the package",
    "cli/node.py:pack": "a descriptor",
    "cli/tool.py": "/dev/null",
    "cli/tools/adapters.py:schema_file": "a file of the package",
    "reports/forms.py": "files of the package",
    "reports/page/document.py": "files of the package",
    "models/tokens.py": "a file of a package",
    "wikipedia/agent.py": "a file of the package",
    "wikipedia/offline.py": "files of the package",
}


def opens(path: Path) -> Iterator[tuple[str, int]]:
    """Yields the function and the line of each call in a module that opens a file."""
    stack: list[tuple[ast.AST, str]] = [(ast.parse(path.read_bytes()), "")]
    while stack:
        node, function = stack.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            function = node.name
        if isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            module, _, last = name.rpartition(".")
            is_open = any(keyword.arg == "fileobj" for keyword in node.keywords)
            opening = module and last in {"open", *METHODS} and module not in OURS and not is_open
            if opening or name in OPENERS or (last in COPIES and module == "shutil"):
                yield function, node.lineno
        if (
            isinstance(node, ast.Name) and node.id == "open" and isinstance(node.ctx, ast.Load)
        ):  # called, or given to another function
            yield function, node.lineno
        if isinstance(node, ast.ImportFrom) and node.module in {*MODULES, "shutil"}:
            hidden = {alias.name for alias in node.names} & {"open", "connect", "truncate", *METHODS, *COPIES}
            assert not hidden, f"{path}: {hidden}: a call by this name is not found here"
        stack += [(child, function) for child in ast.iter_child_nodes(node)]


def test_every_way_to_open_a_file_is_found(tmp_path: Path) -> None:
    (tmp_path / "module.py").write_text(
        "open(p)\nmap(open, p)\np.open()\nPath(p).open('rb')\np.read_text()\nPath(p).read_bytes()\nos.open(p, 0)\n"
        "shutil.copyfile(p, q)\nshutil.copytree(p, q)\ntarfile.open(p)\nzipfile.ZipFile(p)\nsqlite3.connect(p)\n"
        "io.FileIO(p)\ngzip.open(p)\njson.load(p)\nself.open()\ntarfile.open(fileobj=p)\nopened(p)\n"
    )
    assert sorted({line for _, line in opens(tmp_path / "module.py")}) == list(range(1, 16))


def test_no_file_is_opened_elsewhere() -> None:
    used = set()
    for path in sorted((ROOT / "agenteval").rglob("*.py")):
        name = path.relative_to(ROOT / "agenteval").as_posix()
        for function, line in opens(path):
            found = {name, f"{name}:{function}"} & ALLOWED.keys()
            assert found, f"agenteval/{name}:{line} opens a file: use streams/files.py, or say in ALLOWED why not"
            used |= found
    assert used == set(ALLOWED), "an entry that nothing needs any more"


PLACED = {
    "fifo": "is a named pipe, not a regular file",
    "directory": "is a directory, not a regular file",
    "socket": "is a socket, not a regular file",
    "loop": "is a symbolic link, not a regular file",
    "zero": "is a symbolic link, not a regular file",
    "sparse": "is larger than 67,108,864 bytes",
}


def place(kind: str, path: Path) -> None:
    """Puts something there that no reader expects."""
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "directory":
        path.mkdir()
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as bound:
            bound.bind(str(path))
    elif kind in ("loop", "zero"):
        path.symlink_to(path.name if kind == "loop" else "/dev/zero")
    else:
        path.touch()
        os.truncate(path, 3 << 30)


@pytest.mark.parametrize("kind", PLACED)
def test_what_is_no_plain_file_is_an_error_that_names_it(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "x"
    place(kind, path)
    for read in (read_regular, lambda path: list(lines_of(path)), lambda path: os.close(open_regular(path))):
        if kind == "sparse" and read is not read_regular:
            continue
        with pytest.raises(OSError, match=PLACED[kind]) as caught:
            read(str(path))
        assert caught.value.filename == str(path)
    assert is_regular(str(path)) == (kind == "sparse")


def test_links_that_the_user_names_are_followed(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"text\n")
    (tmp_path / "link").symlink_to("file")
    link = str(tmp_path / "link")
    assert read_regular(link, follow=True) == read_given(link) == b"text\n"
    assert list(lines_of(link, follow=True)) == [(0, b"text\n")]
    assert digest_of(link, follow=True) == digest_of(str(tmp_path / "file"))
    (tmp_path / "zero").symlink_to("/dev/zero")
    with pytest.raises(OSError, match="is a device, not a regular file"):
        read_regular(str(tmp_path / "zero"), follow=True)
    with pytest.raises(OSError, match="is larger than 1,000 bytes"):
        read_given("/dev/zero", 1000)


def test_a_copy_keeps_holes_and_mode(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_bytes(b"begin")
    os.truncate(source, 1 << 26)
    with source.open("r+b") as file:
        file.seek((1 << 26) - 3)
        file.write(b"end")
    source.chmod(0o751)
    copy = Path(copy_regular(str(source), str(tmp_path / "copy")))
    assert digest_of(str(copy)) == digest_of(str(source))
    assert copy.stat().st_blocks < 1000 and copy.stat().st_mode == source.stat().st_mode


def test_a_pipe_that_nobody_uses_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "PIPE_PATIENCE", 0.2)
    monkeypatch.setattr(output, "PIPE_PATIENCE", 0.2)
    os.mkfifo(path := tmp_path / "pipe")
    with pytest.raises(OSError, match="is a named pipe that nothing writes to"):
        read_given(str(path))
    with pytest.raises(UserError, match="pipe: is a named pipe that nothing writes to"):
        list(Source(str(path)).lines())
    os.mkfifo(path := tmp_path / "another")
    with pytest.raises(UserError, match="another: is a named pipe that nothing reads from"):
        Output(str(path))


def test_a_pipe_whose_program_is_slow_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that has it open and has not written yet counts, and one that comes later."""
    monkeypatch.setattr(files, "PIPE_PATIENCE", 0.2)
    os.mkfifo(path := tmp_path / "pipe")
    opened, go_on = threading.Event(), threading.Event()

    def write() -> None:
        with path.open("wb") as pipe:
            opened.set()
            go_on.wait(10)
            pipe.write(b'{"id":"a"}\n')

    writer = threading.Thread(target=write)
    source = Source(str(path))
    writer.start()
    assert opened.wait(PATIENCE)
    threading.Timer(0.5, go_on.set).start()
    assert [line for batch in source.lines() for _, line in batch] == [b'{"id":"a"}']
    writer.join()
