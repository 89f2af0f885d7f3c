"""Shared by the tests: running tools, watching processes, a scripted model server."""
