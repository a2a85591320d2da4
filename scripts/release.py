"""The files of a release: built, tried on each Python found here, with checksums.

    python -m scripts.release            build and check what is here (`make dist`)
    python -m scripts.release 0.2.0      make this version first (`make release VERSION=0.2.0`)

Nothing is committed, tagged or uploaded: docs/releasing.md says what comes after.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from datetime import UTC, datetime
from pathlib import Path

from scripts.bill_of_materials import write_bill_of_materials

ROOT = Path(__file__).parent.parent
DIST = ROOT / "dist"
VERSION_FILE = ROOT / "src" / "joey" / "__init__.py"
CHANGELOG = ROOT / "CHANGELOG.md"
SUPPORTED = ("3.11", "3.12", "3.13", "3.14")
PAGE = "joey/server/web/index.html"
MAX_WHEEL_BYTES = 15_000_000

_VERSION_RE = re.compile(r'^__version__ = "(.+)"$', re.MULTILINE)
_RELEASE_RE = re.compile(r"\d+\.\d+\.\d+(?:(?:a|b|rc)\d+)?")
_UNRELEASED_RE = re.compile(
    r"^## Unreleased\n+(?P<entries>.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL
)


class ReleaseError(Exception):
    """Says what is wrong, and what to do."""


def main(arguments: list[str]) -> int:
    try:
        match arguments:
            case []:
                version = read_version()
            case [version]:
                prepare_version(version)
            case _:
                raise ReleaseError("usage: python -m scripts.release [VERSION]")
        build_files(version)
    except ReleaseError as error:
        print(f"release: {error}", file=sys.stderr)
        return 1
    return 0


def read_version() -> str:
    found = _VERSION_RE.search(VERSION_FILE.read_text(encoding="utf-8"))
    if found is None:
        raise ReleaseError(f"{VERSION_FILE} has no __version__")
    return found[1]


def prepare_version(version: str) -> None:
    """Write the version into the code, and close the changelog's section of it."""
    if not _RELEASE_RE.fullmatch(version):
        raise ReleaseError(f"{version!r} is not a version such as 0.2.0 or 0.2.0rc1")
    changes = _run_git("status", "--porcelain")
    if changes:
        raise ReleaseError(f"commit or discard these changes first:\n{changes}")
    if f"v{version}" in _run_git("tag").split():
        raise ReleaseError(f"v{version} has been released. Choose a higher version.")
    text = CHANGELOG.read_text(encoding="utf-8")
    CHANGELOG.write_text(close_changelog_section(text, version, _today()), encoding="utf-8")
    code = VERSION_FILE.read_text(encoding="utf-8")
    VERSION_FILE.write_text(
        _VERSION_RE.sub(f'__version__ = "{version}"', code, count=1), encoding="utf-8"
    )
    print(f"This is version {version} now, in {VERSION_FILE.name} and {CHANGELOG.name}.")


def close_changelog_section(text: str, version: str, date: str) -> str:
    """Give the entries of *Unreleased* to a version, below an empty *Unreleased*."""
    found = _UNRELEASED_RE.search(text)
    if found is None or not found["entries"].strip():
        raise ReleaseError("CHANGELOG.md has no entries under `## Unreleased`. Add them first.")
    section = f"## Unreleased\n\n## {version} - {date}\n\n{found['entries'].strip()}\n\n"
    return text[: found.start()] + section + text[found.end() :]


def build_files(version: str) -> None:
    shutil.rmtree(DIST, ignore_errors=True)
    _run([sys.executable, "-m", "hatchling", "build"], "build the packages")
    wheel = DIST / f"joey-{version}-py3-none-any.whl"
    source = DIST / f"joey-{version}.tar.gz"
    check_contents(wheel, source)
    pythons = find_pythons()
    for python in pythons:
        check_installation(python, wheel)
    check_installation(next(iter(pythons)), source)
    write_bill_of_materials(ROOT, version, DIST / f"joey-{version}.cdx.json")
    write_checksums()
    print(f"\n{DIST}:")
    for path in sorted(DIST.iterdir()):
        print(f"  {path.name}  {path.stat().st_size:,} bytes")
    missing = [each for each in SUPPORTED if each not in pythons.values()]
    if missing:
        print(f"Not tried, because not found here: Python {', '.join(missing)}.")


def check_contents(wheel: Path, source: Path) -> None:
    with zipfile.ZipFile(wheel) as packed:
        has_page = PAGE in packed.namelist()
    with tarfile.open(source) as packed_source:
        has_page &= f"{source.name.removesuffix('.tar.gz')}/src/{PAGE}" in packed_source.getnames()
    if not has_page:
        raise ReleaseError(
            "the packages have no web page. Install Node.js 20 or newer, and try `make web`."
        )
    if wheel.stat().st_size > MAX_WHEEL_BYTES:
        raise ReleaseError(f"{wheel.name} is larger than {MAX_WHEEL_BYTES:,} bytes")


def find_pythons() -> dict[Path, str]:
    """One interpreter of each supported version: on the PATH, or of pyenv or uv."""
    found: dict[Path, str] = {}
    for version in SUPPORTED:
        candidates = [
            *(Path(path) for path in (shutil.which(f"python{version}"),) if path),
            *sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python")),
            *sorted(Path.home().glob(f".local/share/uv/python/cpython-{version}.*/bin/python")),
        ]
        for python in candidates:
            check = (
                f"import sys, ensurepip, venv; assert '%d.%d' % sys.version_info[:2] == '{version}'"
            )
            if (
                subprocess.run([python, "-c", check], capture_output=True, check=False).returncode
                == 0
            ):
                found[python] = version
                break
    if not found:
        raise ReleaseError(f"no Python of {', '.join(SUPPORTED)} was found")
    return found


def check_installation(python: Path, package: Path) -> None:
    """Install a package in an environment of its own, and let its demo task run.

    Node, compilers and the repository are out of its reach.
    """
    with tempfile.TemporaryDirectory(prefix="joey-release-") as scratch:
        directory = Path(scratch)
        environment = directory / "venv"
        bin_path = environment / "bin"
        env = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("PYTHON", "JOEY", "VIRTUAL_ENV"))
        }
        env |= {
            "PATH": f"{bin_path}:/usr/bin:/bin",
            "HOME": scratch,
            "JOEY_HOME": f"{scratch}/home",
        }
        version = ".".join(package.name.split("-")[1].removesuffix(".tar.gz").split(".")[:3])
        print(f"Trying {package.name} with {python}", flush=True)
        _run([str(python), "-m", "venv", str(environment)], "make an environment")
        install = [str(bin_path / "pip"), "install", "-q", "--disable-pip-version-check"]
        _run([*install, str(package)], f"install {package.name}")
        joey = str(bin_path / "joey")
        said = _run([joey, "--version"], "run joey --version", env, directory)
        if version not in said:
            raise ReleaseError(f"joey --version of {package.name} printed {said.strip()!r}")
        _run([joey, "demo"], "run joey demo", env, directory)
        page = "from joey.server.http import has_web_page; assert has_web_page()"
        _run([str(bin_path / "python"), "-c", page], "find the page", env, directory)


def write_checksums() -> None:
    """`SHA256SUMS`, as `sha256sum --check` reads it."""
    lines = [
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n"
        for path in sorted(DIST.iterdir())
    ]
    (DIST / "SHA256SUMS").write_text("".join(lines), encoding="utf-8")


def _run(
    command: list[str], purpose: str, env: dict[str, str] | None = None, cwd: Path = ROOT
) -> str:
    done = subprocess.run(
        command,
        env=env,
        cwd=cwd,
        check=False,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if done.returncode:
        raise ReleaseError(f"could not {purpose} (exit code {done.returncode}):\n{done.stdout}")
    return done.stdout


def _run_git(*arguments: str) -> str:
    return _run(["git", *arguments], f"run git {arguments[0]}").strip()


def _today() -> str:
    return datetime.now(UTC).date().isoformat()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
