"""agenteval: small executables that evaluate command-line AI agents."""

import os
import signal
import sys
from types import ModuleType

__version__ = "0.1.0"

_program = os.path.basename(sys.argv[0])

if (_program == "ae" or _program.startswith("ae-")) and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # a Ctrl-C while the tool is still being imported: no traceback


def _import_msgspec_quickly() -> None:
    """Import msgspec without two modules that it, or uuid for it, pulls in and hardly uses: 12 ms of every start.

    typing_extensions is only preferred over what Python 3.11 has itself; platform is asked for one name.
    """
    platform = ModuleType("platform")
    platform.system = lambda: os.uname().sysname  # type: ignore[attr-defined]
    stand_ins = {"typing_extensions": None, "platform": platform}
    added = [name for name in stand_ins if name not in sys.modules]
    sys.modules.update({name: stand_ins[name] for name in added})  # type: ignore[misc]
    try:
        import msgspec  # noqa: F401
    finally:
        for name in added:
            del sys.modules[name]


if _program != "ae":  # it becomes another tool, and has no use for msgspec before
    _import_msgspec_quickly()
