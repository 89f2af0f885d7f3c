"""The command line: shared options, help and completion; tools/ and graders/ have one file per executable."""

import gc
import os
import sys

if os.path.basename(sys.argv[0]).startswith("ae"):  # an executable, and not a program that imports this package
    gc.disable()  # until the tool runs: imports leave no garbage, but the collector would search all they make
