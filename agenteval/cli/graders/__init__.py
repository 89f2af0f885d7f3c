"""One file per executable ae-grader-<name>."""
