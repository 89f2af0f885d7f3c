"""Start, read and terminate process trees; the worker pool; finding programs on PATH."""
