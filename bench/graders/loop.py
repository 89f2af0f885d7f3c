"""A trivial grader that loops over the lines of stdin; it also works with one process per record."""

import json
import sys

for line in sys.stdin:
    record = json.loads(line)
    passed = "the" in record["output"]
    print(json.dumps({"pass": passed, "score": 1.0 if passed else 0.0}), flush=True)
