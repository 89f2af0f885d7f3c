"""ae init: writes an evaluation that runs, into an empty directory."""

from __future__ import annotations

import re
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.tool import ROOT, run, script

STARTS = ("quickstart", "coding", "qa", "checks", "skill", "playoffs")


def tracked(example: str) -> dict[str, int]:
    """Returns each file of an example that is in the repository, and whether it is executable."""
    command = ["git", "ls-files", "-s", f"examples/{example}"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    found = re.findall(rf"^100(\d+) \S+ \d\texamples/{example}/(.+)$", listed, re.MULTILINE)
    return {name: int(mode, 8) & stat.S_IXUSR for mode, name in found}


def written(folder: Path) -> dict[str, int]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.stat().st_mode & stat.S_IXUSR for path in files}


@pytest.mark.parametrize("start", STARTS)
def test_the_files_of_the_example_are_written(start: str, tmp_path: Path) -> None:
    done = run("ae", "init", "new/my eval", "--from", start, cwd=tmp_path).expect(0, stderr="")
    folder = tmp_path / "new" / "my eval"
    assert written(folder) == tracked(start)
    for name in written(folder):
        assert (folder / name).read_bytes() == (ROOT / "examples" / start / name).read_bytes()
    assert done.stdout.endswith("now type: cd 'new/my eval' && make show\n"), done


def test_quickstart_is_what_one_gets(tmp_path: Path) -> None:
    run("ae", "init", ".", cwd=tmp_path).expect(0, stderr="")
    assert written(tmp_path) == tracked("quickstart")


def test_the_next_command_can_be_typed(tmp_path: Path) -> None:
    """Also where the tools are not on PATH: they are found beside ae."""
    bin = ROOT / ".venv" / "bin"
    done = run(str(bin / "ae"), "init", "x y", "--from", "qa", cwd=tmp_path, env={"PATH": "/usr/bin:/bin"}).expect(0)
    command = done.stdout.rpartition("now type: ")[2]
    shown = run("/bin/sh", "-c", command, cwd=tmp_path, env={"PATH": "/usr/bin:/bin"}).expect(0)
    assert "4 passed" in shown.stdout, shown


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / ".hidden").write_text("mine")
    refused = run("ae", "init", "full", cwd=tmp_path).expect(2)
    assert refused.stderr == "ae init: full: is not empty; name a new or empty directory\n"
    (tmp_path / "file").write_text("mine")
    assert "is a file" in run("ae", "init", "file", cwd=tmp_path).expect(2).stderr
    assert written(tmp_path) == {"full/.hidden": 0, "file": 0}
    assert "quickstart" in run("ae", "init", "new", "--from", "nothing", cwd=tmp_path).expect(2).stderr
    assert "DIR" in run("ae", "init", cwd=tmp_path).expect(2).stderr
    assert not (tmp_path / "new").exists()


def test_what_runs_have_left_is_not_copied(tmp_path: Path) -> None:
    """A checkout in which the example was run: build/ and caches stay there."""
    package = tmp_path / "checkout"
    (package / "examples" / "qa" / "build").mkdir(parents=True)
    (package / "examples" / "qa" / "build" / "results.jsonl").write_text("{}")
    script(package / "examples" / "qa" / "agent", "echo hello").chmod(0o644)
    (package / "agenteval").symlink_to(ROOT / "agenteval")
    code = "import sys; sys.argv[0] = 'ae'; from agenteval.cli.ae_commands import init; init(['out', '--from', 'qa'])"
    run(sys.executable, "-c", code, cwd=tmp_path, env={"PYTHONPATH": str(package)}).expect(0)
    assert written(tmp_path / "out") == {"agent": stat.S_IXUSR}, "a script is executable, whatever its mode was"


def test_help(tmp_path: Path) -> None:
    page = run("ae", "init", "--help").expect(0, stderr="").stdout
    assert run("ae", "help", "init").expect(0).stdout == page
    assert all(re.search(rf"^  {start} ", page, re.MULTILINE) for start in STARTS)
    assert "\n  init  " in run("ae").expect(0).stdout
