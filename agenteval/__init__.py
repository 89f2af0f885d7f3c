"""agenteval: small executables that evaluate command-line AI agents."""

import os
import signal
import sys

__version__ = "0.1.0"

# Here and not in cli/startup.py, as it must come before every other import: a Ctrl-C while a tool is still importing
# ends it without a traceback.
if (
    os.path.basename(sys.argv[0]).partition("-")[0] == "ae"
    and signal.getsignal(signal.SIGINT) is signal.default_int_handler
):
    signal.signal(signal.SIGINT, signal.SIG_DFL)
