"""The command line: Click, shared options, completion; tools/ and graders/ have one file per executable."""

import _signal  # type: ignore[import-not-found]  # signal itself makes enums first, which takes 4 ms
import gc
import os
import sys

_name = os.path.basename(sys.argv[0])


def _exit_at_once(signum: int, _frame: object) -> None:
    os._exit(128 + signum)  # nothing has been started yet that would have to be ended


if _name.startswith("ae"):  # a tool, and not a program that imports this package
    for _signum in (_signal.SIGINT, _signal.SIGTERM):  # until the tool handles them: imports take most of its start
        if _signal.getsignal(_signum) is not _signal.SIG_IGN:
            _signal.signal(_signum, _exit_at_once)

if _name != "ae":  # ae becomes another tool, which pays for its own imports
    if _name.startswith("ae-"):
        gc.disable()  # until resume_collector()
    from agenteval.cli.startup import import_json_packages

    import_json_packages()  # before another module imports them the slow way
