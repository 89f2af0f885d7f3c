"""What `ae-grade --resume` finds in its output while other programs write to it."""

from __future__ import annotations

from pathlib import Path

import pytest

from agenteval.errors import CannotGoOn
from agenteval.grading.resume import GradedRecords
from agenteval.streams.output import open_output
from agenteval.streams.redaction import Redactor
from agenteval.streams.source import Source
from tests.support.tool import read, write


def test_what_is_appended_before_the_output_is_read_is_not_its_own(tmp_path: Path) -> None:
    """Found by make chaos: the old record stayed beside its new one in the recovered file."""
    record = {"id": "a", "output": "x", "metadata": {}}
    path = write(tmp_path / "out", {**record, "graderError": "no verdict"})
    output = open_output(str(path), Source(str(write(tmp_path / "in", record))), append=False, resume=True)
    with path.open("ab") as file:
        file.write(b'{"id": "forged", "score": {"pass": true, "score": 1.0}}\n')
    graded = GradedRecords(output, {}, Redactor({}), merges=False)
    assert list(graded.undone([[record]])) == [[record]]
    output.write({**record, "score": {"pass": True, "score": 1.0}})
    with pytest.raises(CannotGoOn, match="written to by another program"):
        output.close()
    assert graded.is_intact()
    graded.finish()
    assert [("score" in one, one["id"]) for one in read(tmp_path / "out.recovered")] == [(True, "a")]
