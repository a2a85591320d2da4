"""Coding agents from npm in `.cache/npm-clients`, for tests of `joey proxy` with real clients.

    python -m scripts.npm_clients

installs the versions below (1.4 GB), unless that has been done.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parent.parent
DIRECTORY = ROOT / ".cache" / "npm-clients"
PROGRAMS = DIRECTORY / "node_modules" / ".bin"
PACKAGES: Mapping[str, str] = {
    "@anthropic-ai/claude-code": "2.1.197",
    "@mariozechner/pi-coding-agent": "0.73.1",
    "@openai/codex": "0.166.0",
    "@qwen-code/qwen-code": "0.24.4",
    "opencode-ai": "1.18.33",
}
_STAMP = "installed.json"


def is_installed(directory: Path = DIRECTORY) -> bool:
    stamp = directory / _STAMP
    return stamp.is_file() and json.loads(stamp.read_text()) == PACKAGES


def install(directory: Path = DIRECTORY) -> str:
    """An error message, or an empty string."""
    if is_installed(directory):
        return ""
    npm = shutil.which("npm")
    if npm is None:
        return "The clients for tests of the proxy need npm (Node 20 or newer)."
    print(f"Installing five coding agents in {directory} (1.4 GB)", flush=True)
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    names = [f"{name}@{version}" for name, version in PACKAGES.items()]
    flags = ("--no-audit", "--no-fund", "--no-package-lock", "--loglevel", "error")
    done = subprocess.run(
        [npm, "install", *flags, "--prefix", str(directory), *names], check=False, cwd=directory
    )
    if done.returncode:
        return "The clients for tests of the proxy could not be installed with npm."
    (directory / _STAMP).write_text(json.dumps(PACKAGES))
    return ""


if __name__ == "__main__":
    sys.exit(install() or None)
