"""A trivial grader that loops over stdin; with a single line on stdin it is an ordinary one."""

import json
import sys

for line in sys.stdin:
    record = json.loads(line)
    passed = "the" in record["output"]
    print(json.dumps({"pass": passed, "score": 1.0 if passed else 0.0}), flush=True)
