"""Workspaces: a directory per prompt, copied from a template or cloned, and what changed in it."""
