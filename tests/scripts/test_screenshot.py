"""The screenshot of README.md."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from scripts.screenshot import ROOT, SCREENSHOT

from joey.app.sandbox import detect_sandbox
from joey.ports.execution import SandboxLevel


def test_the_screenshot_shows_the_screen_as_it_is(tmp_path: Path) -> None:
    if detect_sandbox().level is SandboxLevel.NONE:
        pytest.skip("the screenshot shows a working sandbox, and none works on this machine")
    drawn = tmp_path / "screen.svg"
    command = [sys.executable, "-m", "scripts.screenshot", str(drawn)]
    subprocess.run(command, cwd=ROOT, check=True, timeout=100, capture_output=True)
    assert drawn.read_text() == SCREENSHOT.read_text(), "renew it with `make screenshot`"
