"""The suite fits together: the tools in the source, in bin/, in [project.scripts] and in the README are the same."""

from __future__ import annotations

import os
import re
import tomllib
from pathlib import Path

import pytest

from tests.support.tool import BIN, ROOT, TOOLS, run

PACKAGE = ROOT / "agenteval" / "cli"


def names_in(folder: Path, prefix: str) -> dict[str, str]:
    """Executable → entry point, for every file of a folder with one tool per file."""
    modules = sorted(path.stem for path in folder.glob("*.py") if path.stem not in ("__init__", "ae"))
    return {
        f"{prefix}{module.strip('_').replace('_', '-')}": f"agenteval.cli.{folder.name}.{module}:main"
        for module in modules
    }


def test_one_file_per_tool() -> None:
    source = {**names_in(PACKAGE / "tools", "ae-"), **names_in(PACKAGE / "graders", "ae-grader-")}
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    assert scripts == {**source, "ae": "agenteval.cli.tools.ae:main"}
    assert sorted(scripts) == TOOLS, "bin/ has one launcher per [project.scripts]: make launchers"


def test_scripts_are_sorted() -> None:
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    assert list(scripts) == sorted(scripts)


def test_readme_table_has_every_tool_and_no_other() -> None:
    readme = (ROOT / "README.md").read_text()
    table = re.findall(r"^\| (`ae[a-z-]*`(?:, `ae[a-z-]*`)*) \|", readme, re.MULTILINE)
    named = [name.strip("` ") for row in table for name in row.split(",")]
    assert sorted(named) == TOOLS
    assert set(re.findall(r"(?<![\w./-])ae-[a-z]+(?:-[a-z]+)*(?![\w<*-])", readme)) <= set(TOOLS), (
        "a name nobody can run"
    )


def test_readme_says_what_every_grader_does() -> None:
    readme = (ROOT / "README.md").read_text()
    assert [name for name in TOOLS if f"`{name}`" not in readme] == []


def test_each_tool_calls_itself_by_its_name() -> None:
    for name in TOOLS:
        folder, module = ("graders", name[10:]) if name.startswith("ae-grader-") else ("tools", name[3:])
        path = PACKAGE / folder / f"{module.replace('-', '_') or 'ae'}.py"
        text = path.read_text()
        assert text.startswith(f'"""{name}: '), f"the first words of {path} are the tool's name and its job"


# --- the launchers ------------------------------------------------------------------------------


def test_launchers_are_one_file_and_links_to_it() -> None:
    assert os.access(BIN / "ae", os.X_OK) and not (BIN / "ae").is_symlink()
    assert {os.readlink(BIN / name) for name in TOOLS if name != "ae"} == {"ae"}
    assert [path.name for path in BIN.iterdir() if path.name not in TOOLS] == []


def test_launcher_from_another_directory_by_relative_path(tmp_path: Path) -> None:
    relative = os.path.relpath(BIN / "ae-extract", tmp_path)
    assert run(relative, "--version", cwd=tmp_path).expect(0).stdout.startswith("ae-extract ")


def test_launcher_through_path(tmp_path: Path) -> None:
    done = run("/bin/sh", "-c", "ae-extract --version", cwd=tmp_path)
    assert done.expect(0).stdout.startswith("ae-extract ")


@pytest.mark.parametrize("relative", [False, True])
def test_launcher_through_a_chain_of_links(relative: bool, tmp_path: Path) -> None:
    (tmp_path / "my bin").mkdir()
    target = os.path.relpath(BIN / "ae-extract", tmp_path) if relative else str(BIN / "ae-extract")
    (tmp_path / "ae-extract").symlink_to(target)
    (tmp_path / "my bin" / "ae-extract").symlink_to("../ae-extract")
    for link in (tmp_path / "ae-extract", tmp_path / "my bin" / "ae-extract"):
        assert run(str(link), "--version", cwd=tmp_path).expect(0).stdout.startswith("ae-extract ")


def test_launcher_through_a_link_of_another_name(tmp_path: Path) -> None:
    """The tool is the file linked to, not what somebody called the link."""
    (tmp_path / "x").symlink_to(BIN / "ae-extract")
    assert run(str(tmp_path / "x"), "--version", cwd=tmp_path).expect(0).stdout.startswith("ae-extract ")


def test_launcher_without_an_installation_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    copy = tmp_path / "bin" / "ae-extract"
    copy.write_bytes((BIN / "ae-extract").read_bytes())
    copy.chmod(0o755)
    run(str(copy), "--version", cwd=tmp_path).expect(2).says("make install")
