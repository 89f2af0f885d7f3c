"""What hatchling does before it packs a wheel: writes man pages and executables."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

# hatchling loads this file by its path
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from release.entry_scripts import fits_into_shebang, write_scripts
from release.man_pages import write_man_pages


class BuildHook(BuildHookInterface[Any]):
    """Adds share/man (shared-data in pyproject.toml) and the executables."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Writes the files; our scripts take the place of the entry points, which pip would prefer.

        In an environment whose path no #! line can hold, the entry points stay: pip knows what to do with them. pip
        builds with the Python for which it installs, and uv replaces #! lines of any length.
        """
        write_man_pages(Path(self.root), self.metadata.version)
        if fits_into_shebang(sys.executable):
            entries = self.metadata.core.scripts
            for path in write_scripts(Path(self.root) / "build" / "scripts", entries):
                build_data["shared_scripts"][str(path)] = path.name
            entries.clear()
