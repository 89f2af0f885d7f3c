"""The processes that have run the script of a tool but for its last line, and fork for tests/support/forks.py.

The first one imports what all tools import, and forks one per tool, which forks for each run. Its arguments are how
the names of the tools begin, a descriptor, and room for the command lines of the forks. They import nothing that the
tool would not find imported, but for what earlier forks have imported in main(): the next one finds that in
sys.modules, and its import statement costs nothing.
"""

import _socket
import io
import marshal
import mmap
import os
import sys
import warnings

LONGEST = 200_000  # bytes of a request
FILES = 3  # that come with a request to fork


class Imported:
    """A finder that finds nothing: it tells the server which modules a fork imports, in memory that they share."""

    SIZE = 100_000  # bytes

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, self.SIZE)

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        """Notes the name of a module that is about to be imported."""
        line = name.encode() + b"\n"
        if self._memory.tell() + len(line) < self.SIZE:
            self._memory.write(line)

    def import_all(self) -> None:
        """Imports, in the server, what forks have imported since the last call."""
        self._memory.seek(0)
        end = self._memory.find(b"\0")
        names = self._memory.read(end).decode().split()
        self._memory.seek(0)
        self._memory.write(bytes(end))
        self._memory.seek(0)
        for name in names:
            try:
                __import__(name)
            except Exception:  # a module of the test, or one that is not installed
                pass


def serve_all(tools: str, descriptor: int) -> None:
    """Forks a server for each script whose path comes, with the descriptor of its link, until the test has ended."""
    sys.argv = [tools]  # on which it depends what the command line imports
    __import__("agenteval.cli" if tools == "ae" else "agenteval.cli.tool")
    requests = _socket.socket(fileno=descriptor)
    while True:
        message, control, _flags, _address = requests.recvmsg(LONGEST, _socket.CMSG_LEN(4))
        if not message:
            break
        link = int.from_bytes(control[0][2][:4], sys.byteorder)
        if os.fork() == 0:
            requests.close()
            serve(message.decode(), link)
        os.close(link)
    try:
        while True:
            os.wait()
    except ChildProcessError:
        os._exit(0)


def serve(script: str, descriptor: int) -> None:
    """Runs the script up to its last line, then forks for each request until the test process has ended."""
    sys.argv = [script]
    with open(script, encoding="utf-8") as file:
        beginning, _, last = file.read().rstrip().rpartition("\n")
    names: dict[str, object] = {"__name__": "__main__"}
    exec(compile(beginning, script, "exec"), names)
    link = _socket.socket(fileno=descriptor)
    imported = Imported()
    while True:
        message, control, _flags, _address = link.recvmsg(LONGEST, _socket.CMSG_LEN(4 * FILES))
        if not message:
            os._exit(0)  # there is nothing to flush, and finalizing the interpreter takes time
        request = marshal.loads(message)
        if "reap" in request:
            answer = os.waitstatus_to_exitcode(os.waitpid(request["reap"], 0)[1])
        else:
            received = control[0][2]
            files = [int.from_bytes(received[at : at + 4], sys.byteorder) for at in range(0, 4 * FILES, 4)]
            imported.import_all()
            with warnings.catch_warnings():  # numpy has threads, which do not matter to a fork that only starts
                warnings.simplefilter("ignore")
                answer = os.fork()
            if answer == 0:
                os.setsid()  # first: whoever gets the answer may send signals to the group
                link.send(str(os.getpid()).encode())
                link.close()
                sys.meta_path.insert(0, imported)
                become(request["args"], request["cwd"], request["env"], files)
                exec(last.strip(), names)
                sys.exit()
            for each in files:
                os.close(each)
            continue
        link.send(str(answer).encode())


def become(args: list[str], cwd: str, env: dict[str, str], files: list[int]) -> None:
    """Gives this process what it would have if it had been started so."""
    show_command([*sys.orig_argv[: sys.orig_argv.index("-P")], *args])
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    sys.argv = args
    for number, each in enumerate(files):
        os.dup2(each, number)
        os.close(each)
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        old = getattr(sys, name)
        opened = open(number, "rb" if number == 0 else "wb", closefd=False)  # noqa: SIM115  # for as long as it runs
        stream = io.TextIOWrapper(opened, old.encoding, old.errors, line_buffering=old.line_buffering)
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


def show_command(command: list[str]) -> None:
    """Writes the command line that ps shows, and the name of the process, where the system keeps them."""
    if not os.path.exists("/proc/self/stat"):
        return
    with open("/proc/self/stat", "rb") as file:
        fields = file.read().rpartition(b")")[2].split()
    start, end = int(fields[45]), int(fields[46])  # arg_start and arg_end of proc(5), counted from the state
    with open("/proc/self/mem", "r+b", buffering=0) as memory:
        memory.seek(start)
        memory.write(b"".join(os.fsencode(word) + b"\0" for word in command).ljust(end - start, b"\0"))
    with open("/proc/self/comm", "wb") as file:
        file.write(os.fsencode(os.path.basename(sys.argv[0]))[:15])


if __name__ == "__main__":
    serve_all(sys.argv[1], int(sys.argv[2]))
