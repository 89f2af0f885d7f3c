"""Long-lived processes that hold a grader written in Python or JavaScript."""
