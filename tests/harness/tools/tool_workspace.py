"""The small world in which every tool is called: a workspace, and what some tools need beside it.

The adapters are the real ones, but for the model that paints.
"""

from __future__ import annotations

import base64
import json
import os
import sys
from pathlib import Path

from joey.config.customizations import CustomizationPaths, FileCustomizations
from joey.content.browser import Chromium, find_chromium
from joey.content.code_index import WorkspaceIndexPool
from joey.content.outlines import OutlineExtractor
from joey.core.settings import Settings
from joey.errors import ToolError
from joey.execution.custom_tools import LocalCustomTools
from joey.mcp.leases import HubConfig, HubPool
from joey.ports.extensions import Mcp
from joey.ports.model import ImageGenerator
from joey.ports.tool_context import Capabilities
from joey.workspace.files import LocalFiles
from joey.workspace.listing import list_indexable_files
from tests.harness.engine.engine_harness import EngineHarness

CHROMIUM = find_chromium(os.environ)
SERVER_SCRIPT = Path(__file__).with_name("weather_server.py")
SHOP_SOURCE = (
    "class Shop:\n    def total(self):\n        prices = [1, 2]\n        return sum(prices)\n"
)
SAMPLE_FILES = {
    "shop.py": SHOP_SOURCE.encode(),
    "twice.txt": b"same\nsame\n",
    "secret.txt": b"hidden\n",
    ".rooignore": b"secret.txt\n",
    "photo.png": b"\x89PNG\r\n\x1a\n\0\0",
    "fake.png": b"no picture",
    "page.html": b"<!doctype html><title>t</title><script>console.log('hello')</script>",
    "docs/plan.md": b"# Plan\n",
    ".roo/commands/release.md": b"---\ndescription: Make a release\n---\nTag it.\n",
    ".roo/skills/poems/SKILL.md": b"---\nname: poems\ndescription: Verse\n---\nRhyme.\n",
    ".roo/tools/shout.py": b'"""Says a word loudly."""\n\n'
    b"def run(word: str, times: int = 1) -> str:\n"
    b"    if not word.isalpha():\n"
    b'        raise ValueError(f"{word} is no word")\n'
    b"    return word.upper() * times\n",
}


def write_sample_files(root: Path) -> None:
    """Put the files there."""
    for name, data in SAMPLE_FILES.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


class FakeImageGenerator:
    """Paints the same image for everybody, but no dragons."""

    async def generate(self, prompt: str, image: str | None = None) -> str:
        if "dragon" in prompt:
            raise ToolError("The service refused: no dragons.")
        return f"data:image/png;base64,{base64.b64encode(SAMPLE_FILES['photo.png']).decode()}"


_protocol_check: type[ImageGenerator] = FakeImageGenerator


def build_capabilities(kind: str, harness: EngineHarness) -> Capabilities:
    """What tools of this kind need; nothing for most."""
    match kind:
        case "fetch_instructions" | "run_slash_command" | "skill":
            places = CustomizationPaths(
                harness.root, harness.home, harness.home.parent, lambda path: False
            )
            return Capabilities(customizations=FileCustomizations(places, Settings()))
        case "codebase_search":
            files = LocalFiles(harness.root)
            indexes = WorkspaceIndexPool(harness.home)
            return Capabilities(
                code_index=indexes.open(files, lambda stop: list_indexable_files(files, stop))
            )
        case "list_code_definition_names":
            return Capabilities(outlines=OutlineExtractor())
        case "generate_image":
            return Capabilities(image_generator=FakeImageGenerator())
        case "browser_action":
            files = LocalFiles(harness.root)
            return Capabilities(browser=Chromium(CHROMIUM or "", files=files))
        case "use_mcp_tool" | "access_mcp_resource" | "mcp":
            return Capabilities(mcp=_lease_weather_server(harness))
        case "custom":
            tools = LocalCustomTools(harness.home, harness.root, os.environ, lambda wanted: True)
            return Capabilities(custom_tools=tools)
    return Capabilities()


def _lease_weather_server(harness: EngineHarness) -> Mcp:
    weather = {"command": sys.executable, "args": [str(SERVER_SCRIPT)]}
    harness.home.mkdir(exist_ok=True)
    (harness.home / "mcp.json").write_text(json.dumps({"mcpServers": {"weather": weather}}))
    around = HubConfig(
        joey_home=harness.home,
        env={},
        server_environment={"PATH": os.environ["PATH"]},
        trust_file=harness.home / "trust.json",
        is_trusted=lambda workspace, wanted: True,
    )
    return HubPool(around).lease(harness.root)
