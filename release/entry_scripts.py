"""The executables that a wheel installs: scripts of our own, for every line of [project.scripts].

pip would write scripts that import `re` first and print a traceback on a Ctrl-C meanwhile. In these a Ctrl-C ends the
process from the first line on. `make install` adds -SP to the #! line, and the script calls site.main() itself: a
signal that comes while Python imports site prints "Fatal Python error".
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

# Every import before the handler is one of C code that is part of Python. pip replaces the word python.
SCRIPT = """\
#!python
from _signal import SIGINT, default_int_handler, getsignal, signal
from posix import _exit
if getsignal(SIGINT) is default_int_handler:
    signal(SIGINT, lambda *_: _exit(130))
import sys
if sys.flags.no_site:
    import site
    site.main()
try:
    from {module} import {function}
except (ImportError, MemoryError) as error:
    if isinstance(error, ImportError) and "failed to map segment" not in str(error):
        raise
    sys.exit("{name}: not enough memory: raise the limit on memory (ulimit -v)")
sys.exit({function}())
"""
LONGEST = 120  # bytes of the path of an interpreter in a #! line: some systems take no more


def entry_script(name: str, entry: str, python: str = "python") -> str:
    """Returns the script of an entry point, such as "agenteval.cli.tools.run:main"."""
    module, _, function = entry.partition(":")
    return SCRIPT.format(name=name, module=module, function=function).replace("#!python", f"#!{python}", 1)


def write_scripts(folder: Path, entries: Mapping[str, str], python: str = "python") -> list[Path]:
    """Writes a script for each entry point."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / name for name in entries]
    for path in paths:
        path.write_text(entry_script(path.name, entries[path.name], python), encoding="ascii")
        path.chmod(0o755)
    return paths


def fits_into_shebang(python: str) -> bool:
    """Whether a #! line can name the interpreter; pip does not look, as it does for the scripts that it writes."""
    path = os.fsencode(python)
    return len(path) <= LONGEST and not set(path) & set(b" \t\n")
