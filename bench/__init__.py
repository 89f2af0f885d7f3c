"""`make bench`: measures the suite against agent-eval-harness, xargs and bare orjson."""
