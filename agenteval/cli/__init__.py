"""The command line: Click, shared options, completion; tools/ and graders/ have one file per executable."""

import os
import sys

if os.path.basename(sys.argv[0]) != "ae":  # ae becomes another tool, which pays for its own imports
    from agenteval.cli.startup import import_json_packages

    import_json_packages()  # before another module imports them the slow way
