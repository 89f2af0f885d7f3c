"""agenteval: small executables that evaluate command-line AI agents."""

import sys
from _signal import SIGINT, default_int_handler, getsignal, signal  # type: ignore[import-not-found]
from posix import _exit

# Ctrl-C while an executable still imports ends it, without a traceback from the middle of an import. This comes first,
# and by the module below `signal`, which takes a while to import itself.
if sys.argv[0].rpartition("/")[2].startswith("ae") and getsignal(SIGINT) is default_int_handler:
    signal(SIGINT, lambda _signum, _frame: _exit(130))

__version__ = "0.2.0"
