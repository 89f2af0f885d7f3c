"""The same tools are in the source, in bin/, in [project.scripts] and in the README; a new one needs nothing else."""

from __future__ import annotations

import keyword
import os
import re
import subprocess
import sys
import sysconfig
import tomllib
from collections import Counter
from pathlib import Path

import pytest

from tests.support.tool import BIN, ROOT, TOOLS, run
from tests.support.worked_examples import new_files, scripts

PACKAGE = ROOT / "agenteval" / "cli"


def names_in(folder: Path, prefix: str) -> dict[str, str]:
    """Returns executable → entry point for every file of a folder with one tool per file."""
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
    assert set(re.findall(r"(?<![\w./-])ae-[a-z]+(?:-[a-z]+)*(?![\w<*-])", readme)) <= set(TOOLS), "not an executable"


def test_readme_says_what_every_grader_does() -> None:
    readme = (ROOT / "README.md").read_text()
    assert [name for name in TOOLS if f"`{name}`" not in readme] == []


def test_each_tool_calls_itself_by_its_name() -> None:
    for name in TOOLS:
        folder, module = ("graders", name[10:]) if name.startswith("ae-grader-") else ("tools", name[3:])
        module = f"{module}_" if keyword.iskeyword(module) else module
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
    """The tool is the file linked to, whatever the name of the link."""
    (tmp_path / "x").symlink_to(BIN / "ae-extract")
    assert run(str(tmp_path / "x"), "--version", cwd=tmp_path).expect(0).stdout.startswith("ae-extract ")


def test_launcher_without_an_installation_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    copy = tmp_path / "bin" / "ae-extract"
    copy.write_bytes((BIN / "ae-extract").read_bytes())
    copy.chmod(0o755)
    run(str(copy), "--version", cwd=tmp_path).expect(2).says("make install")


# --- a new tool and a new grader ----------------------------------------------------------------

SOME = "help_is_a_page or redirection_and_pipe or bad_line"  # of the contract, for each
# docs/tools.md as `make docs` writes it, with the help of some tools.
NEW_HELP = """
import sys
from docs.build import help_of, tools
print("\\n".join(tools(lambda name: help_of(name) if name in sys.argv else "")))
"""


def test_a_tool_or_grader_is_a_file_a_line_in_pyproject_and_a_row_in_the_readme(tmp_path: Path) -> None:
    """With the worked examples of CONTRIBUTING.md added to a copy, launchers, lists, docs and contract include them."""
    copy = tmp_path / "checkout"
    kept = ("agenteval", "bin", "docs", "tests", "CONTRIBUTING.md", "README.md", "Makefile", "pyproject.toml")
    copy.mkdir()
    subprocess.run(["cp", "-RPp", *(ROOT / name for name in kept), copy], check=True)
    for path, text in new_files().items():
        (copy / path).write_text(text)
    for name, entry in scripts().items():
        following = next(tool for tool in TOOLS if tool > name)
        edit(copy / "pyproject.toml", f"{following} =", f'{name} = "{entry}"\n')
        edit(copy / "README.md", "| `ae` |", f"| `{name}` | | | |\n")
    install(copy)
    environment = {**os.environ, "PYTHONPATH": str(copy)}
    of_suite = "test_suite and not a_file_a_line and not test_launcher_"
    of_contract = f"test_contract and ({' or '.join(scripts())}) and ({SOME})"
    tests = ["tests/test_suite.py", "tests/test_contract.py", "-k", f"{of_suite} or {of_contract}"]
    for command in (
        ["make", "launchers"],
        [sys.executable, "-m", "pytest", "-vv", f"--basetemp={tmp_path}/tests", *tests],
    ):
        done = subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, f"{command}\n{done.stdout[-3000:]}{done.stderr[-3000:]}"
    passed = Counter(re.findall(r"^tests/(\w+)\.py::.* PASSED", done.stdout, re.MULTILINE))
    assert passed["test_contract"] == 6 and passed["test_suite"] > 5, done.stdout
    listed = run(str(copy / "bin/ae")).expect(0).stdout
    assert "\n  lengths         how many words each output has\n" in listed
    assert "\n  grader-short    is the output short enough?\n" in listed
    page = subprocess.run(
        [sys.executable, "-c", NEW_HELP, *scripts()],
        cwd=copy,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert "## ae-lengths\n\n```\nUsage: ae-lengths [OPTIONS] [RESULTS]\n" in page and "## ae-grader-short\n" in page


def edit(path: Path, before: str, line: str) -> None:
    """Inserts a line before the one that starts so."""
    text = path.read_text()
    assert text.count(f"\n{before}") == 1
    path.write_text(text.replace(f"\n{before}", f"\n{line}{before}"))


def install(checkout: Path) -> None:
    """Makes an environment for the checkout, as `make install` does; the packages it needs are those of this one."""
    root = checkout / ".venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", root], check=True)
    (site,) = root.glob("lib/python*/site-packages")
    (site / "needed.pth").write_text(f"{checkout}\n{sysconfig.get_path('purelib')}\n")
    pip = [sys.executable, "-m", "pip", "-q", "--disable-pip-version-check", "--python", str(root / "bin" / "python")]
    how = ["--no-index", "--no-deps", "--no-build-isolation", "--force-reinstall"]
    subprocess.run([*pip, "install", *how, "--editable", str(checkout)], check=True)
