"""What `python -m build` makes can be installed: sdist → wheel → an empty environment, with all that the tools need."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
from collections.abc import Iterator
from functools import cache
from operator import itemgetter
from pathlib import Path
from zipfile import ZipFile

import pytest

import agenteval
from tests.cli.test_init import STARTS, tracked, written
from tests.support.tool import ROOT, TOOLS, Done, run

EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
OFFLINE = ("--no-deps", "--no-index", "--no-compile", "--disable-pip-version-check")
ENTRIES: dict[str, str] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
MAN = shutil.which("man")
GROFF = shutil.which("groff")


def python(*args: object, cwd: Path = ROOT) -> None:
    done = subprocess.run([sys.executable, *map(str, args)], cwd=cwd, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


class Release:
    """An sdist of this checkout, the wheel made from it, and an environment in which that is installed."""

    def __init__(self, folder: Path) -> None:
        python("-m", "hatchling", "build", "-t", "sdist", "-d", folder)
        (self.sdist,) = folder.glob("*.tar.gz")
        with tarfile.open(self.sdist) as archive:
            archive.extraction_filter = getattr(tarfile, "data_filter", None)  # Python 3.11.3 has none
            archive.extractall(folder / "source")
        (self.source,) = (folder / "source").iterdir()
        python("-m", "hatchling", "build", "-t", "wheel", "-d", folder, cwd=self.source)
        (self.wheel,) = folder.glob("*.whl")
        self.root = folder / "empty"
        python("-m", "venv", "--without-pip", self.root)
        python("-m", "pip", "-q", "--python", self.root / "bin" / "python", "install", *OFFLINE, self.wheel)
        (site,) = self.root.glob("lib/python*/site-packages")
        self.scripts = {path.name for path in (self.root / "bin").iterdir() if path.name.startswith("ae")}
        # What the package needs is there already: with a .pth file the test needs no network.
        (site / "needed.pth").write_text(sysconfig.get_path("purelib") + "\n")
        self.package = site / "agenteval"

    def run(self, tool: str, *args: str, cwd: Path | None = None, path: str = "/usr/bin:/bin") -> Done:
        """Runs an executable of the environment, which comes first in PATH."""
        bin = self.root / "bin"
        return run(str(bin / tool) if "/" not in tool else tool, *args, cwd=cwd, env={"PATH": f"{bin}:{path}"})


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Release]:
    yield Release(tmp_path_factory.mktemp("release"))


def test_all_say_the_same_version(release: Release) -> None:
    version = agenteval.__version__
    heading = re.search(r"^## (\S+) ", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert heading is not None and heading[1] == version, "the newest heading of CHANGELOG.md"
    assert release.sdist.name == f"agenteval-{version}.tar.gz"
    assert release.wheel.name == f"agenteval-{version}-py3-none-any.whl"
    assert release.scripts == set(TOOLS)
    for tool in ("ae", "ae-run"):
        assert release.run(tool, "--version").expect(0, stderr="").stdout == f"{tool} {version}\n"


def test_every_script_runs_its_tool(release: Release) -> None:
    imports = {tool: "from {} import {}\n".format(*entry.split(":")) for tool, entry in ENTRIES.items()}
    for tool, line in imports.items():
        assert line in (release.root / "bin" / tool).read_text()
    release.run("python", "-c", "".join(imports.values())).expect(0, stderr="")


def test_the_installed_package_is_what_runs(release: Release, tmp_path: Path) -> None:
    """Not this checkout, and with every file: a missing schema or instruction would show only when it is used."""
    code = "import agenteval; print(agenteval.__file__)"
    where = release.run("python", "-c", code, cwd=tmp_path).expect(0).stdout.strip()
    assert where == str(release.package / "__init__.py")
    listed = subprocess.run(["git", "ls-files", "agenteval"], cwd=ROOT, capture_output=True, text=True, check=True)
    packed = set(ZipFile(release.wheel).namelist())
    assert [name for name in listed.stdout.splitlines() if (ROOT / name).exists() and name not in packed] == []
    assert all(name.startswith(("agenteval/", "agenteval-")) for name in packed), "nothing else gets into site-packages"
    assert all(
        (release.source / name).exists() for name in ("requirements.lock", "LICENSE", "README.md", "docs/tools.md")
    )


def test_a_pipeline_runs(release: Release, tmp_path: Path) -> None:
    (tmp_path / "prompts.jsonl").write_text('{"id": "a", "input": "blue", "hint": "blue"}\n')
    line = (
        "ae-run prompts.jsonl --simple 'echo {}' | ae-extract -s text | ae-grade -g ae-grader-hint | ae-format -f csv"
    )
    assert ",true," in release.run("/bin/sh", "-c", line, cwd=tmp_path).expect(0).stdout.lower()


def test_completion(release: Release) -> None:
    for shell in ("bash", "zsh", "fish"):
        there = release.run("ae", "completion", shell).expect(0, stderr="").stdout
        here = run("ae", "completion", shell).stdout.replace(str(Path(sys.executable).parent), f"{release.root}/bin")
        assert "_AE_COMPLETE" in there and there == here


def test_the_wheel_has_the_examples(release: Release, tmp_path: Path) -> None:
    for start in STARTS:
        assert written(release.package / "examples" / start) == tracked(start)
    done = release.run("ae", "init", "mine", "--from", "qa", cwd=tmp_path).expect(0)
    assert written(tmp_path / "mine") == tracked("qa")
    shown = release.run("/bin/sh", "-c", done.stdout.rpartition("now type: ")[2], cwd=tmp_path).expect(0)
    assert "4 passed" in shown.stdout, shown


# --- with its dependencies, from the package index: make release --------------------------------


@cache
def pythons() -> dict[str, str]:
    """Returns the Pythons of this machine that pyproject.toml allows, version → path: on PATH and pyenv's.

    Of 3.11.2 and 3.11.7, it is the older one: what that lacks breaks first.
    """
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")).glob("versions/3.*/bin/python3")
    folders = dict.fromkeys(Path(folder).resolve() for folder in os.get_exec_path())
    on_path = (folder / f"python3.{minor}" for folder in folders for minor in range(11, 20))
    found = []
    for path in [Path(sys.executable), *filter(Path.exists, on_path), *pyenv]:
        code = "import sys; print('%02d.%02d.%02d' % sys.version_info[:3])"
        told = subprocess.run([path, "-c", code], capture_output=True, text=True)
        if told.returncode == 0 and told.stdout >= "03.11":
            found.append((told.stdout, str(path)))
    found.sort(key=itemgetter(0), reverse=True)
    return {f"3.{int(version[3:5])}": path for version, path in found}


@pytest.fixture(scope="module")
def installers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns the folder of pip, pipx and uv, which install the wheel."""
    root = tmp_path_factory.mktemp("installers")
    python("-m", "venv", root)
    subprocess.run([root / "bin" / "python", "-m", "pip", "install", "-qq", "pipx", "uv"], check=True)
    return root / "bin"


@pytest.mark.network
@pytest.mark.parametrize("way", ["pip", "pipx", "uv tool"])
@pytest.mark.parametrize("version", list(pythons()))
def test_it_works_where_it_is_installed(
    release: Release, installers: Path, version: str, way: str, tmp_path: Path
) -> None:
    interpreter, bin = pythons()[version], tmp_path / "bin"
    env = {**os.environ, "PIPX_HOME": f"{tmp_path}/pipx", "PIPX_BIN_DIR": str(bin), "PIPX_MAN_DIR": f"{tmp_path}/man"}
    env |= {"UV_TOOL_DIR": f"{tmp_path}/uv", "UV_TOOL_BIN_DIR": str(bin), "UV_PYTHON_DOWNLOADS": "never"}
    if way == "pip":
        subprocess.run([interpreter, "-m", "venv", tmp_path], check=True)
        subprocess.run([bin / "python", "-m", "pip", "install", "-qq", release.wheel], check=True)
    else:
        command: list[str | Path] = [
            installers / way.split()[0],
            *way.split()[1:],
            "install",
            "--python",
            interpreter,
            release.wheel,
        ]
        subprocess.run(command, check=True, env=env)
    (tmp_path / "prompts.jsonl").write_text('{"id": "a", "input": "blue", "hint": "blue"}\n')
    line = "ae-run prompts.jsonl --simple 'echo {}' | ae-extract -s text | ae-grade -g ae-grader-hint -o graded.jsonl"
    line += " && ae-compare graded.jsonl graded.jsonl -f markdown && ae-format graded.jsonl -f html -o page.html"
    done = run("/bin/sh", "-c", line, cwd=tmp_path, env={"PATH": f"{bin}:/usr/bin:/bin"}).expect(0)
    assert "| 100.0% |" in done.stdout and (tmp_path / "page.html").stat().st_size > 10_000, done
    assert {path.name for path in bin.glob("ae*")} == set(TOOLS)


# --- man pages ----------------------------------------------------------------------------------


def test_every_executable_has_a_man_page(release: Release) -> None:
    pages = {path.stem: path.read_text(encoding="ascii") for path in release.root.glob("share/man/man1/*.1")}
    tools = (ROOT / "docs" / "tools.md").read_text()  # tests/test_docs.py compares it with every --help
    helps = dict(re.findall(r"^## (\S+)\n\n```\n(.*?)^```$", tools, re.DOTALL | re.MULTILINE))
    assert set(pages) == set(helps) == set(TOOLS)
    for name, page in pages.items():
        assert page.startswith(f'.TH {name.upper()} 1 "" "agenteval {agenteval.__version__}"'.replace("-", r"\-"))
        headings = re.findall(r"^\.SH (.+)$", page, re.MULTILINE)
        assert headings[:3] == ["NAME", "SYNOPSIS", "DESCRIPTION"]
        assert {"EXAMPLES", "OPTIONS", "EXIT STATUS", "SEE ALSO"} <= set(headings)
        shown = set(re.findall(r"^  (-.*?)(?:  |$)", helps[name], re.MULTILINE))
        plain = page.replace(r"\-", "-").replace(r"\(aq", "'").replace(r"\[u2026]", "…")
        assert shown and [option for option in shown if rf".TP{chr(10)}\fB{option}\fR" not in plain] == []


@pytest.mark.skipif(MAN is None, reason="man is not on PATH")
def test_man_finds_and_shows_it(release: Release) -> None:
    shown = release.run(str(MAN), "ae-run")
    if "This system has been minimized" in shown.stdout:
        pytest.skip("man is a stand-in on this system")
    text = re.sub(r".\x08", "", shown.expect(0).stdout)
    assert re.search(r"^NAME\n +ae-run - run each prompt", text, re.MULTILINE), text
    assert "ae-run prompts.jsonl -s claude -j 4 --workspace-dir ws -o raw.jsonl --resume\n" in text
    assert re.search(r"^ +-j, --concurrency N\n +Maximum number of agents at a time", text, re.MULTILINE)


@pytest.mark.skipif(GROFF is None, reason="groff is not on PATH")
def test_groff_has_nothing_to_complain_about(release: Release) -> None:
    pages = sorted(release.root.glob("share/man/man1/*.1"))
    done = run(str(GROFF), "-man", "-Tutf8", "-ww", "-z", *pages)
    assert (done.code, done.stderr) == (0, ""), done


# --- extras -------------------------------------------------------------------------------------

NO_PYARROW = """\
import sys; sys.modules['pyarrow'] = None
from agenteval.cli.tools.format import main
main(["-f", "parquet", "-o", "out.parquet"])
"""


def test_the_hint_of_a_missing_extra_can_be_typed(release: Release, tmp_path: Path) -> None:
    """The command names the Python of the environment, and pip knows the extra."""
    message = release.run("python", "-c", NO_PYARROW, cwd=tmp_path).expect(2).stderr.strip()
    command = message.rpartition(": ")[2]
    assert command == f"{release.root}/bin/python -m pip install 'agenteval[parquet]'", message
    done = release.run("/bin/sh", "-c", f"{command} --no-index --no-deps --dry-run", cwd=tmp_path).expect(0)
    assert "already satisfied: agenteval[parquet]" in done.stdout and "does not provide" not in done.stderr


def test_every_hint_names_an_extra() -> None:
    source = "".join(path.read_text() for path in ROOT.glob("agenteval/**/*.py"))
    calls = set(re.findall(r'MissingExtra\(.*?"(\w+)"\)', source))
    assert {"parquet", "ray", "schema"} <= calls <= set(EXTRAS)
    texts = [*ROOT.glob("agenteval/**/*.py"), *ROOT.glob("docs/*.md"), *ROOT.glob("*.md")]
    named = {name for path in texts for name in re.findall(r"(?:agenteval|\.)\[([a-z,]+)\]'", path.read_text())}
    assert {name for names in named for name in names.split(",")} <= set(EXTRAS)
