"""The options of one run of the bench: number of rounds and size of the data."""

from __future__ import annotations

import os
from typing import NamedTuple

from bench import data
from bench.programs import scratch


class Setting(NamedTuple):
    """How often each command is run, and whether a tenth of the data is enough."""

    repeat: int
    quick: bool

    def size(self, full: int) -> int:
        """Returns the number of records to use: `full`, or a tenth of it with --quick."""
        return max(1, full // 10) if self.quick else full

    def file(self, kind: str, count: int) -> str:
        """Returns the path of a file with `count` generated records."""
        return data.make(self.data_folder(), kind, count)

    def data_folder(self) -> str:
        """Returns the folder of generated data."""
        folder = scratch("data")
        os.makedirs(folder, exist_ok=True)
        return folder
