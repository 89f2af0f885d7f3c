"""Programs that run a grader written in Python or JavaScript."""
