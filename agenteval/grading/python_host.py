"""Runs a Python grader: one grader input per line on stdin, one answer per line on stdout.

`python python_host.py FILE.py` or `… package.module:function`. The first line of output is {"ready":true}, or an error
if the grader cannot be loaded. What the grader prints goes to stderr, so that it does not mix with the answers; the
character 0x1e ends its output about a record.
"""

import importlib
import importlib.util
import os
import sys
from collections.abc import Callable
from typing import Any

import msgspec

IMPORT_MACHINERY = os.path.dirname(importlib.__file__)
encode = msgspec.json.Encoder(enc_hook=str).encode


class NoFunction(Exception):
    """The grader's file or module does not contain the function."""


def main() -> None:
    """Loads the grader that the first argument names, then answers until stdin ends."""
    host = os.getpid()
    stdin, stdout = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)  # the grader and its children read nothing,
    os.dup2(2, 1)  # and what they print goes to stderr
    # A grader that forks leaves two processes in this loop. The child must not take records or answer.
    os.register_at_fork(after_in_child=lambda: (os.dup2(null, stdin), os.dup2(null, stdout)))
    try:
        grade = load(sys.argv[1])
    except BaseException as error:
        os.write(stdout, encode({"error": describe(error)}) + b"\n")
        return
    exit_unless(host)
    os.write(stdout, b'{"ready":true}\n')
    decode = msgspec.json.Decoder().decode
    with open(stdin, "rb") as lines:
        for line in lines:
            verdict = answer(grade, decode(line))
            exit_unless(host)
            sys.stdout.flush()
            os.write(2, b"\x1e")  # the end of the grader's output about this record
            os.write(stdout, verdict + b"\n")


def exit_unless(host: int) -> None:
    """Ends a process that the grader forked and that did not exit."""
    if os.getpid() != host:
        sys.stdout.flush()
        os._exit(0)


def load(reference: str) -> Callable[[Any], Any]:
    """Returns the grade function of a file, or the function that package.module:function names."""
    if reference.endswith(".py"):
        path = os.path.abspath(reference)
        sys.path.insert(0, os.path.dirname(path))
        spec = importlib.util.spec_from_file_location("grader", path)
        if spec is None or spec.loader is None:
            raise ImportError(f"cannot load {path}")
        module = importlib.util.module_from_spec(spec)
        sys.modules["grader"] = module
        spec.loader.exec_module(module)
        name = "grade"
    else:
        sys.path.insert(0, os.getcwd())
        module_name, _, name = reference.partition(":")
        module = importlib.import_module(module_name)
    function = getattr(module, name, None)
    if not callable(function):
        raise NoFunction(f"it has no function {name!r}; define {name}(record)")
    return function  # type: ignore[no-any-return]


def answer(grade: Callable[[Any], Any], record: Any) -> bytes:
    """Returns the grader's result as JSON, or its error."""
    try:
        result = grade(record)
        if hasattr(result, "__await__"):
            import asyncio

            result = asyncio.run(_wait_for(result))
        return encode(result)
    except (Exception, SystemExit) as error:
        return encode({"error": describe(error)})


async def _wait_for(awaitable: Any) -> Any:
    return await awaitable


def describe(error: BaseException) -> str:
    """Returns the error in one line, with the place in the user's code where it was raised."""
    place = ""
    trace = error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        if code.co_filename != __file__ and not code.co_filename.startswith(("<", IMPORT_MACHINERY)):
            place = f" ({os.path.basename(code.co_filename)}:{trace.tb_lineno})"
        trace = trace.tb_next
    text = " ".join(str(error).split())
    if isinstance(error, NoFunction):
        return text
    return f"{type(error).__name__}{': ' + text if text else ''}{place}"


if __name__ == "__main__":
    main()
