"""On Windows itself joey says what is needed, and nothing else."""

from __future__ import annotations

import subprocess
import sys

import pytest

WINDOWS = """\
import sys
for name in ("fcntl", "grp", "pwd", "resource", "termios", "tty"):
    sys.modules[name] = None
sys.platform = "win32"
from joey.cli.main import run
sys.exit(run())
"""


@pytest.mark.parametrize("arguments", [["-p", "hi"], ["serve"], ["--help"], []])
def test_on_windows_one_line_says_that_wsl_is_needed(arguments: list[str]) -> None:
    command = [sys.executable, "-c", WINDOWS, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (78, "")
    assert done.stderr.count("\n") == 1
    assert "WSL 2" in done.stderr
