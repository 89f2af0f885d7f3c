"""The command line: Click, shared options, completion; tools/ and graders/ have one file per executable."""

import os
import signal
import sys


def _exit_at_once(signum: int, _frame: object) -> None:
    os._exit(128 + signum)  # nothing has been started yet that would have to be ended


if os.path.basename(sys.argv[0]).startswith("ae"):  # a tool, and not a program that imports this package
    for _signum in (signal.SIGINT, signal.SIGTERM):  # until the tool handles them: imports take most of its start
        if signal.getsignal(_signum) is not signal.SIG_IGN:
            signal.signal(_signum, _exit_at_once)

if os.path.basename(sys.argv[0]) != "ae":  # ae becomes another tool, which pays for its own imports
    from agenteval.cli.startup import import_json_packages

    import_json_packages()  # before another module imports them the slow way
