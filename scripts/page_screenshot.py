"""Image of the web page in README.md: the task of the other images, in Chromium, as PNG.

Fonts differ between machines, so the image holds the text that it shows, in a `tEXt` chunk, and a
test compares that with the page as it is. `make screenshot` renews the image.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import zlib
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

from playwright.async_api import async_playwright

from joey.testing.server import ModelServer
from scripts.screenshot import PROMPT, ROOT, TURNS, create_workspace

PAGE_SCREENSHOT = ROOT / "docs" / "page.png"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or ""
_KEYWORD = b"Description\0"
_TIMEOUT_MS = 45_000
_TIME_RE = re.compile(r"\d\d:\d\d(?: [AP]M)?")


async def draw_page() -> tuple[bytes, str]:
    """The page while it asks for approval of an edit, and the text it shows."""
    with tempfile.TemporaryDirectory(prefix="joey-screenshot-") as home:
        workspace = create_workspace(home)
        async with (
            ModelServer(TURNS) as model,
            _serve(workspace, model.url) as link,
            async_playwright() as playwright,
        ):
            browser = await playwright.chromium.launch(
                executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"]
            )
            page = await browser.new_page(
                viewport={"width": 1100, "height": 720}, reduced_motion="reduce"
            )
            page.set_default_timeout(_TIMEOUT_MS)
            await page.goto(link)
            field = page.get_by_label("The new task")
            await field.fill(PROMPT)
            await page.get_by_role("button", name="Start", disabled=False).wait_for()
            await field.press("Enter")
            await page.get_by_text("needs your approval").wait_for()
            text = await page.evaluate("document.body.innerText")
            image = await page.screenshot()
            await browser.close()
    lines = [line.strip() for line in _TIME_RE.sub("", text).splitlines()]
    return image, "\n".join(line for line in lines if line)


@asynccontextmanager
async def _serve(workspace: Path, model_url: str) -> AsyncIterator[str]:
    """`joey serve` on a free port; the link that logs a browser in."""
    env = {
        "PATH": os.environ["PATH"],
        "HOME": str(workspace.parent),
        "ANTHROPIC_API_KEY": "none",
        "ANTHROPIC_BASE_URL": model_url,
        "LANG": "C.UTF-8",
    }
    command = [sys.executable, "-m", "joey", "serve", "--port", "0"]
    process = await asyncio.create_subprocess_exec(
        *command, env=env, cwd=workspace, stderr=subprocess.STDOUT, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    output = b""
    while not (link := re.search(rb"http://\S+/#(?:code|token)=[\w-]+", output)):
        line = await process.stdout.readline()
        assert line, f"joey serve ended: {output.decode()}"
        output += line
    try:
        yield link[0].decode()
    finally:
        process.terminate()
        await process.communicate()


def read_text(image: bytes) -> str:
    """The text that an image of the page shows."""
    for kind, data in _read_chunks(image):
        if kind == b"tEXt" and data.startswith(_KEYWORD):
            return data.removeprefix(_KEYWORD).decode()
    return ""


def add_text(image: bytes, text: str) -> bytes:
    """The image with a chunk that holds the text, before the last one."""
    body = b"tEXt" + _KEYWORD + text.encode()
    chunk = struct.pack(">I", len(body) - 4) + body + struct.pack(">I", zlib.crc32(body))
    return image[:-12] + chunk + image[-12:]


def _read_chunks(image: bytes) -> Iterator[tuple[bytes, bytes]]:
    position = 8
    while position < len(image):
        (length,) = struct.unpack_from(">I", image, position)
        yield image[position + 4 : position + 8], image[position + 8 : position + 8 + length]
        position += length + 12


if __name__ == "__main__":
    destination = Path(sys.argv[1]) if len(sys.argv) > 1 else PAGE_SCREENSHOT
    destination.write_bytes(add_text(*asyncio.run(draw_page())))
    print(destination)
