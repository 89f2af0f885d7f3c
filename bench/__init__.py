"""`make bench`: the suite beside the seed's harness, xargs and the orjson floor."""
