"""The terminal on stderr: the line that shows progress, which the tools of a pipeline share."""
