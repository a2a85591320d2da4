"""Code that must not take for ever, in a process of its own: a loop cannot be interrupted."""

from __future__ import annotations

import subprocess
import sys

SECONDS = 20


def run_bounded(code: str, *arguments: str) -> None:
    subprocess.run([sys.executable, "-c", code, *arguments], timeout=SECONDS, check=True)
