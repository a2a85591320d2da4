"""Code that must not take for ever, in a process of its own: a loop cannot be interrupted."""

from __future__ import annotations

import subprocess
import sys

SECONDS = 60


def run_bounded(code: str, *arguments: str, given: str = "") -> None:
    """`given` is its standard input."""
    command = [sys.executable, "-c", code, *arguments]
    subprocess.run(command, input=given.encode(), timeout=SECONDS, check=True)
