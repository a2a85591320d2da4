"""Releases: what is in the packages, the changelog, the bill of materials."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from scripts.bill_of_materials import build_bill_of_materials
from scripts.release import PAGE, ReleaseError, close_changelog_section

from tests.harness.paths import ROOT

PACKAGE_FILES = ("pyproject.toml", "README.md", "LICENSE", "scripts/build_page.py")


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """What a package is built from, as small as can be, without a built page."""
    clone = tmp_path / "clone"
    for name in (*PACKAGE_FILES, "src/joey/__init__.py", "src/joey/server/http.py"):
        (clone / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, clone / name)
    (clone / "web").mkdir()
    return clone


def build(directory: Path, kind: str, target: Path) -> tuple[Path, str]:
    """Build a package where no program but git is found."""
    done = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", str(target)],
        cwd=directory,
        env={"PATH": "/nowhere", "HOME": str(target)},
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    [package] = target.iterdir()
    return package, done.stderr


def test_without_node_a_clone_still_installs_and_says_what_is_missing(
    clone: Path, tmp_path: Path
) -> None:
    wheel, said = build(clone, "wheel", tmp_path / "wheel")
    assert PAGE not in zipfile.ZipFile(wheel).namelist()
    assert "Install Node.js" in said


def test_a_source_distribution_carries_the_page_and_installs_without_node(
    clone: Path, tmp_path: Path
) -> None:
    page = clone / "src" / PAGE
    page.parent.mkdir()
    page.write_text("<html>the page</html>", encoding="utf-8")
    source, _ = build(clone, "sdist", tmp_path / "source")
    with tarfile.open(source) as packed:
        packed.extractall(tmp_path / "unpacked", filter="data")
    [unpacked] = (tmp_path / "unpacked").iterdir()
    # Newer than the page, as after an edit: a source distribution is installed as it is.
    (unpacked / "web").mkdir()
    (unpacked / "web" / "index.html").write_text("newer", encoding="utf-8")
    wheel, said = build(unpacked, "wheel", tmp_path / "wheel")
    assert zipfile.ZipFile(wheel).read(PAGE) == b"<html>the page</html>"
    assert said.count("page") == 0


def test_a_failing_page_build_is_reported_with_what_npm_printed(
    clone: Path, tmp_path: Path
) -> None:
    npm = tmp_path / "npm"
    npm.write_text("#!/bin/sh\necho no space left; exit 1\n", encoding="utf-8")
    npm.chmod(0o755)
    code = "from scripts.build_page import *; print(build_page(Path.cwd()))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=clone,
        env={"PATH": f"{tmp_path}:/bin", "PYTHONPATH": str(ROOT)},
        check=True,
        capture_output=True,
        text=True,
    )
    assert done.stdout == "`npm install --no-save --silent` failed. no space left\n"


def test_a_release_takes_the_unreleased_entries() -> None:
    text = "# Changelog\n\n## Unreleased\n\n- Added: a.\n\n## 0.1.0 - 2026-01-01\n\n- b\n"
    assert close_changelog_section(text, "0.2.0", "2026-02-03") == (
        "# Changelog\n\n## Unreleased\n\n## 0.2.0 - 2026-02-03\n\n- Added: a.\n\n"
        "## 0.1.0 - 2026-01-01\n\n- b\n"
    )


def test_a_release_without_entries_is_refused() -> None:
    with pytest.raises(ReleaseError, match="no entries"):
        close_changelog_section("# Changelog\n\n## Unreleased\n\n## 0.1.0\n\n- b\n", "0.2.0", "")


def test_the_bill_of_materials_lists_each_requirement_and_library_once() -> None:
    requirements = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    lock = (ROOT / "web" / "package-lock.json").read_text(encoding="utf-8")
    bill = build_bill_of_materials("1.2.3", requirements, lock)
    listed = [each["purl"] for each in bill["components"]]
    locked = re.findall(r"^([\w.-]+)(?:\[.+\])?==([^\s;\\]+)", requirements, re.MULTILINE)
    assert {f"pkg:pypi/{name}@{version}" for name, version in locked} <= set(listed)
    assert len(listed) == len(set(listed))
    properties = [each for part in bill["components"] for each in part.get("properties", [])]
    assert len(properties) == requirements.count("--hash=")
    direct = json.loads(lock)["packages"][""]["dependencies"]
    assert all(any(f"/{name}@" in each.replace("%40", "@") for each in listed) for name in direct)
    marked = next(each for each in bill["components"] if each["name"] == "marked")
    assert marked["hashes"][0]["alg"] == "SHA-512"
    assert len(marked["hashes"][0]["content"]) == 128


@pytest.mark.parametrize("name", ["requirements.lock", "requirements-dev.lock"])
def test_a_lock_names_each_requirement_with_all_extras_that_its_packages_ask_for(name: str) -> None:
    """Without its extras, pip takes a requirement anew from the index, in a newer version."""
    locked: dict[str, set[str]] = {}
    for line in (ROOT / name).read_text(encoding="utf-8").splitlines():
        if re.match(r"[\w.-]+(\[[\w,.-]+\])?==", line):
            requirement = Requirement(line.removesuffix("\\"))
            locked[canonicalize_name(requirement.name)] = requirement.extras
    assert locked
    missing = {
        f"{package} needs {requirement}"
        for package, extras in locked.items()
        for requirement in list_requirements(package, extras)
        if not requirement.extras <= locked.get(canonicalize_name(requirement.name), set())
    }
    assert not missing


def list_requirements(package: str, extras: set[str]) -> list[Requirement]:
    """What an installed package asks for here with some of its extras."""
    try:
        texts = requires(package) or []
    except PackageNotFoundError:  # locked for other systems and Pythons
        return []
    found = [Requirement(text) for text in texts]
    environments = [{"extra": extra} for extra in ("", *extras)]
    return [
        each
        for each in found
        if each.marker is None or any(each.marker.evaluate(wanted) for wanted in environments)
    ]


def test_the_workflow_runs_commands_that_exist() -> None:
    workflow = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text(encoding="utf-8"))
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z0-9]+):", makefile, re.MULTILINE))
    runs = [step.get("run", "") for job in workflow["jobs"].values() for step in job["steps"]]
    named = [name for line in runs if line.startswith("make ") for name in line.split()[1:]]
    assert named
    assert set(named) <= targets
    supported = workflow["jobs"]["linux"]["strategy"]["matrix"]["python"]
    classifiers = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert supported == re.findall(r"Python :: (3\.\d+)\"", classifiers)
