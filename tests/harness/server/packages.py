"""Packages of npm that tests drive joey with: installed once, kept from one run to the next."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

NO_NETWORK = re.compile(
    "ENOTFOUND|ECONNREFUSED|ECONNRESET|ECONNABORTED|EAI_AGAIN|ETIMEDOUT|ERR_SOCKET_TIMEOUT"
    r"|EIDLETIMEOUT|ENOTCACHED|npm (?:ERR!|error) network|npm (?:ERR!|error) code E(?:429|5\d\d)"
)
INSTALL_TIMEOUT_S = 90
"""Seconds: the test that needs it has a limit too."""
INSTALL = ("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline")


def installed(source: Path) -> Path:
    """A folder with the packages that `package-lock.json` in `source` names.

    For fixtures of a wide scope: a test has a home of its own, where nothing is kept.
    """
    if not shutil.which("node") or not shutil.which("npm"):
        pytest.skip("node and npm are not installed")
    lock = (source / "package-lock.json").read_bytes()
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "joey-tests"
    directory = cache / f"{source.name}-{hashlib.sha256(lock).hexdigest()[:16]}"
    if not directory.exists():
        cache.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=cache) as made:
            _install(source, Path(made) / "packages", directory)
    return directory


def _install(source: Path, made: Path, directory: Path) -> None:
    made.mkdir()
    for name in ("package.json", "package-lock.json"):
        shutil.copy(source / name, made)
    try:
        run = subprocess.run(
            INSTALL,
            cwd=made,
            capture_output=True,
            text=True,
            timeout=INSTALL_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        pytest.skip("npm took too long to install what this needs")
    if run.returncode and NO_NETWORK.search(run.stderr):
        pytest.skip("npm cannot reach its registry")
    assert run.returncode == 0, run.stderr
    try:
        made.rename(directory)
    except OSError:
        if not directory.exists():  # somebody else was faster
            raise
