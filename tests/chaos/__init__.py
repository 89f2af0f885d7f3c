"""Random faults against the tools that run agents and graders: `make chaos`, or `python -m tests.chaos --help`."""
