"""The process that has run the script of a tool but for its last line, and forks for tests/support/forks.py.

Its arguments are the script and a descriptor. It imports nothing that the tool would not find imported.
"""

import _socket
import io
import marshal
import os
import sys

LONGEST = 200_000  # bytes of a request
FILES = 3  # that come with a request to fork


def serve(script: str, descriptor: int) -> None:
    """Runs the script up to its last line, then forks for each request until the test process has ended."""
    sys.argv = [script]
    with open(script, encoding="utf-8") as file:
        beginning, _, last = file.read().rstrip().rpartition("\n")
    names: dict[str, object] = {"__name__": "__main__"}
    exec(compile(beginning, script, "exec"), names)
    link = _socket.socket(fileno=descriptor)
    while True:
        message, control, _flags, _address = link.recvmsg(LONGEST, _socket.CMSG_LEN(4 * FILES))
        if not message:
            sys.exit()
        request = marshal.loads(message)
        if "reap" in request:
            answer = os.waitstatus_to_exitcode(os.waitpid(request["reap"], 0)[1])
        else:
            received = control[0][2]
            files = [int.from_bytes(received[at : at + 4], sys.byteorder) for at in range(0, 4 * FILES, 4)]
            answer = os.fork()
            if answer == 0:
                link.close()
                become(request["args"], request["cwd"], request["env"], files)
                exec(last.strip(), names)
                sys.exit()
            for each in files:
                os.close(each)
        link.send(str(answer).encode())


def become(args: list[str], cwd: str, env: dict[str, str], files: list[int]) -> None:
    """Gives this process what it would have if it had been started so."""
    os.setsid()
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


if __name__ == "__main__":
    serve(sys.argv[1], int(sys.argv[2]))
