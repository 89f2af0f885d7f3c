"""agenteval: small executables that evaluate command-line AI agents."""

import sys
from _signal import SIG_DFL, SIGINT, default_int_handler, getsignal, signal  # type: ignore[import-not-found]

# Ctrl-C while an executable still imports ends it, without a traceback from the middle of an import. This comes first,
# and by the module below `signal`, which takes a while to import itself.
if sys.argv[0].rpartition("/")[2].startswith("ae") and getsignal(SIGINT) is default_int_handler:
    signal(SIGINT, SIG_DFL)

__version__ = "0.2.0"
