"""Docstrings of functions and classes, also where Python has removed them (PYTHONOPTIMIZE=2)."""

from __future__ import annotations

import sys
from typing import Any


def docstring_of(documented: Any) -> str:
    """Returns the docstring of a function or class, from the source if need be."""
    documented = getattr(documented, "__wrapped__", documented)
    return documented.__doc__ or _from_source(documented.__module__, documented.__name__)


def _from_source(module: str, name: str) -> str:
    import ast

    with open(sys.modules[module].__file__ or "", "rb") as file:
        tree = ast.parse(file.read())
    kinds = (ast.FunctionDef, ast.ClassDef)
    found = next((node for node in tree.body if isinstance(node, kinds) and node.name == name), None)
    return (found and ast.get_docstring(found, clean=False)) or ""
