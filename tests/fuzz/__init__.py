"""Generated input for every parser and every tool: `make fuzz`; with few examples in `make test`."""
