"""The real servers of the protocol's own project, from npm, installed once."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from tests.harness.mcp.hub_harness import HubHarness
from tests.harness.memory_disk import get_disk

PACKAGES = ("server-everything", "server-filesystem")
VERSION = "2026.8.31"
INSTALL_TIMEOUT_S = 90


@pytest.fixture(scope="session")
def npm_servers() -> dict[str, list[str]]:
    """The command lines of the servers, by the names of their packages.

    What was installed is kept for the next run, and shared by all workers of this one.
    """
    if shutil.which("npm") is None or shutil.which("node") is None:
        pytest.skip("node and npm are not installed, so the reference servers cannot be run")
    directory = Path(
        get_disk() or tempfile.gettempdir(), f"joey-test-servers-{os.getuid()}-{VERSION}"
    )
    directory.mkdir(mode=0o700, exist_ok=True)
    with (directory / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (directory / "installed").exists():
            _install(directory)
            (directory / "installed").touch()
    modules = directory / "node_modules" / "@modelcontextprotocol"
    return {name: ["node", str(modules / name / "dist" / "index.js")] for name in PACKAGES}


def _install(directory: Path) -> None:
    wanted = [f"@modelcontextprotocol/{name}@{VERSION}" for name in PACKAGES]
    command = [
        "npm",
        "install",
        "--no-audit",
        "--no-fund",
        "--prefer-offline",
        "--prefix",
        str(directory),
        *wanted,
    ]
    try:
        subprocess.run(
            command, cwd=directory, capture_output=True, check=True, timeout=INSTALL_TIMEOUT_S
        )
    except subprocess.TimeoutExpired:
        pytest.skip("npm took too long to install the reference servers")
    except subprocess.CalledProcessError as error:
        reason = error.stderr.decode("utf-8", "replace")[-400:]
        pytest.skip(f"npm could not install the reference servers: {reason}")


@pytest.fixture
def harness(tmp_path: Path) -> HubHarness:
    return HubHarness(tmp_path)
