"""The images of README.md."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from scripts.screenshot import RECORDING, ROOT, SCREENSHOT

import joey.server
from joey.app.sandbox import detect_sandbox
from joey.ports.execution import SandboxLevel


def test_the_images_show_the_screen_as_it_is(tmp_path: Path) -> None:
    if detect_sandbox().level is SandboxLevel.NONE:
        pytest.skip("the images show a working sandbox, and none works on this machine")
    command = [sys.executable, "-m", "scripts.screenshot", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, timeout=100, capture_output=True)
    for image in (SCREENSHOT, RECORDING):
        drawn = (tmp_path / image.name).read_text()
        assert drawn == image.read_text(), f"renew {image.name} with `make screenshot`"


def test_the_image_of_the_page_shows_the_page_as_it_is(tmp_path: Path) -> None:
    pytest.importorskip("playwright", reason="the page is drawn with playwright")
    from scripts.page_screenshot import CHROMIUM, PAGE_SCREENSHOT, read_text

    page = Path(joey.server.__file__).parent / "web" / "index.html"
    if not CHROMIUM or not page.exists():
        pytest.skip("no Chromium" if not CHROMIUM else "the page is not built: run `make web`")
    drawn = tmp_path / "page.png"
    command = [sys.executable, "-m", "scripts.page_screenshot", str(drawn)]
    subprocess.run(command, cwd=ROOT, check=True, timeout=100, capture_output=True)
    shown = read_text(drawn.read_bytes())
    assert "needs your approval" in shown
    assert shown == read_text(PAGE_SCREENSHOT.read_bytes()), "renew it with `make screenshot`"
