"""The lock covers what pyproject.toml asks for, has a hash for each version and names no registry."""

from __future__ import annotations

import os
import re
import subprocess
import tomllib

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.support.tool import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]
ENTRY = re.compile(
    r"^([\w.-]+)==([^\s;]+)(?: ;[^\n]*?)? \\\n((?:    --hash=sha256:[0-9a-f]{64}(?: \\)?\n)+)", re.MULTILINE
)
LOCKS = [f"requirements{part}.lock" for part in ("", "-ray", "-test", "-build")]


def locked(name: str) -> dict[str, list[str]]:
    """Returns the versions of each package."""
    found: dict[str, list[str]] = {}
    for package, version, _hashes in ENTRY.findall((ROOT / name).read_text()):
        found.setdefault(canonicalize_name(package), []).append(version)
    return found


@pytest.mark.parametrize("name", LOCKS)
def test_every_version_has_hashes_and_no_registry_is_named(name: str) -> None:
    text = (ROOT / name).read_text()
    pinned = re.findall(r"^[\w.-]+==", text, re.MULTILINE)
    assert len(pinned) == len(ENTRY.findall(text)) > 3
    assert "://" not in text and "--index" not in text and "--find-links" not in text


@pytest.mark.parametrize(
    ("name", "extras"),
    [
        ("requirements.lock", ["dev"]),
        ("requirements-ray.lock", ["ray"]),
        ("requirements-test.lock", ["dev", "references"]),
    ],
)
def test_the_lock_has_what_the_project_asks_for(name: str, extras: list[str]) -> None:
    versions = locked(name)
    asked = [*PROJECT["dependencies"], *(text for extra in extras for text in EXTRAS[extra])]
    for requirement in map(Requirement, asked):
        if requirement.name == PROJECT["name"]:
            continue
        found = versions.get(canonicalize_name(requirement.name), [])
        assert found and all(requirement.specifier.contains(one) for one in found), f"{requirement}: run make lock"


def test_a_major_version_that_would_break_us_is_not_taken() -> None:
    users = ("inspect", "parquet", "prices", "ray", "schema", "suites")
    asked = [
        Requirement(text) for text in [*PROJECT["dependencies"], *(text for name in users for text in EXTRAS[name])]
    ]
    unbounded = [one.name for one in asked if not any(part.operator == "<" for part in one.specifier)]
    assert unbounded == ["regex"], "its versions are dates"


def test_what_users_install_is_what_is_tested() -> None:
    installed, tested = locked("requirements.lock"), locked("requirements-test.lock")
    assert {name: tested.get(name) for name in installed} == installed
    beside_ray = locked("requirements-ray.lock")
    assert {name: versions for name, versions in beside_ray.items() if tested.get(name, versions) != versions} == {}


def test_scripts_are_written_by_a_pip_whose_scripts_import_nothing_first() -> None:
    """Those of an older one import re, in which Ctrl-C shows a traceback."""
    [version] = locked("requirements-build.lock")["pip"]
    assert int(version.split(".")[0]) >= 26


def test_make_install_fetches_nothing_without_a_hash() -> None:
    """`--editable .[dev]` resolved dependencies once more, of which no hash was checked."""
    command = ["make", "-nB", "install"]
    env = {"PATH": os.environ["PATH"]}  # without the variables of a make that runs the tests
    shown = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=True).stdout
    commands = [line for line in shown.replace("\\\n", "").splitlines() if "pip install" in line]
    assert commands
    for line in commands:
        assert "--no-build-isolation" in line and re.search("--require-hashes|--no-deps", line), line


def test_images_of_the_examples_have_a_digest() -> None:
    files = [path for name in ("Containerfile", "Makefile") for path in (ROOT / "examples").rglob(name)]
    images = [
        image for path in files for image in re.findall(r"^(?:ARG )?BASE *\??= *(\S+)", path.read_text(), re.MULTILINE)
    ]
    assert images and all(re.search("@sha256:[0-9a-f]{64}$", image) for image in images), images
