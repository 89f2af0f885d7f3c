"""Copies of this process that share its work."""
