"""The screenshot of README.md: joey's screen in a task with a scripted model, as SVG.

`make screenshot` renews it; a test compares it with the screen as it is.
"""

from __future__ import annotations

import asyncio
import html
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from joey.app import open_engine
from joey.cli.command_line import parse_command_line
from joey.cli.screen.launcher import build_app
from joey.testing.script import Turn, call, say, usage
from joey.testing.server import ModelServer

ROOT = Path(__file__).resolve().parent.parent
SCREENSHOT = ROOT / "docs" / "screen.svg"
_SIZE = (100, 24)
_TIMEOUT_S = 60
_PROMPT = "fix the failing test"
_MODEL = "claude-sonnet-5-5"
_LAST_DRAWN = ("Always allow edits", ".strip()", "sandbox", "$0.02")
_WEB_FONTS_RE = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)
"""Text is drawn in the reader's own fonts: the file loads nothing."""
_FILES = {
    "slugs.py": 'def make_slug(title):\n    return title.lower().replace(" ", "-")\n',
    "test_slugs.py": "from slugs import make_slug\n\n\n"
    'def test_spaces_around_a_title():\n    assert make_slug(" Hello world ") == "hello-world"\n',
}
_TURNS = (
    Turn(
        say("I'll read the test and the function it calls."),
        call("read_file", {"path": "test_slugs.py"}, id="toolu_1"),
        call("read_file", {"path": "slugs.py"}, id="toolu_2"),
        usage(input=4210, output=96),
    ),
    Turn(
        say("`make_slug` keeps the spaces around a title. I'll strip them first."),
        call(
            "apply_diff",
            {
                "path": "slugs.py",
                "diff": "<<<<<<< SEARCH\n"
                '    return title.lower().replace(" ", "-")\n'
                "=======\n"
                '    return title.strip().lower().replace(" ", "-")\n'
                ">>>>>>> REPLACE",
            },
            id="toolu_3",
        ),
        usage(input=4630, output=142),
    ),
)


def draw_screen() -> str:
    """The screen while it asks for approval of an edit."""
    with tempfile.TemporaryDirectory(prefix="joey-screenshot-") as home:
        workspace = Path(home, "slugs")
        workspace.mkdir()
        for name, text in _FILES.items():
            (workspace / name).write_text(text, encoding="utf-8")
        subprocess.run(["git", "init", "-q", "-b", "main", str(workspace)], check=True)
        path = os.environ["PATH"]
        os.environ.clear()
        os.environ |= {"PATH": path, "HOME": home, "ANTHROPIC_API_KEY": "none", "LANG": "C.UTF-8"}
        return asyncio.run(_draw_task(workspace))


async def _draw_task(workspace: Path) -> str:
    async with ModelServer(_TURNS) as model, open_engine() as engine:
        flags = ("--provider", "anthropic", "--base-url", model.url, "-m", _MODEL)
        arguments = parse_command_line((*flags, "-w", str(workspace), _PROMPT))
        host, app = build_app(engine, arguments, _PROMPT, ())
        async with app.run_test(size=_SIZE) as pilot:
            previous = svg = ""
            async with asyncio.timeout(_TIMEOUT_S):
                while not (_is_complete(svg) and svg == previous):
                    await pilot.pause(0.3)
                    previous, svg = svg, app.export_screenshot(title="joey")
        await host.close()
        return _WEB_FONTS_RE.sub("", svg)


def _is_complete(svg: str) -> bool:
    text = html.unescape(svg).replace("\N{NO-BREAK SPACE}", " ")
    return all(each in text for each in _LAST_DRAWN)


if __name__ == "__main__":
    destination = Path(sys.argv[1]) if len(sys.argv) > 1 else SCREENSHOT
    destination.write_text(draw_screen(), encoding="utf-8")
    print(destination)
