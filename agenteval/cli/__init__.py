"""The command line: Click, shared options, completion, the tools."""
