"""Images of the screen in README.md: a task with a scripted model, as SVG.

`screen.svg` shows one moment of the task, `recording.svg` plays it in 20 seconds. `make screenshot`
renews both; a test compares them with the screen as it is.
"""

from __future__ import annotations

import asyncio
import html
import math
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

from textual.pilot import Pilot

from joey.app import open_engine
from joey.cli.command_line import parse_command_line
from joey.cli.screen.launcher import build_app
from joey.testing.script import Turn, call, say, usage
from joey.testing.server import ModelServer
from joey.tui.app import JoeyApp
from joey.tui.blocks import calls

ROOT = Path(__file__).resolve().parent.parent
SCREENSHOT = ROOT / "docs" / "screen.svg"
RECORDING = ROOT / "docs" / "recording.svg"
_SIZE = (100, 24)
_TIMEOUT_S = 60
PROMPT = "fix the failing test"
MODEL = "claude-sonnet-5-5"
_APPROVAL_DELAY_S = 1.0
"""A question that has just appeared takes no key for a moment."""
_WEB_FONTS_RE = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)
"""Text is drawn in the reader's own fonts: the file loads nothing."""
FILES = {
    "slugs.py": 'def make_slug(title):\n    return title.lower().replace(" ", "-")\n',
    "test_slugs.py": "from slugs import make_slug\n\n"
    'assert make_slug(" Hello world ") == "hello-world"\nprint("1 test passed")\n',
}
TURNS = (
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
    Turn(
        call("execute_command", {"command": "python3 test_slugs.py"}, id="toolu_4"),
        usage(input=4890, output=61),
    ),
    Turn(
        call(
            "attempt_completion",
            {"result": "The test passes: `make_slug` now strips the spaces around a title."},
            id="toolu_5",
        ),
        usage(input=5010, output=74),
    ),
)


class Frame(NamedTuple):
    svg: str
    seconds: float


def draw_images() -> tuple[str, str]:
    """The screenshot and the recording."""
    with tempfile.TemporaryDirectory(prefix="joey-screenshot-") as home:
        workspace = create_workspace(home)
        path = os.environ["PATH"]
        os.environ.clear()
        os.environ |= {"PATH": path, "HOME": home, "ANTHROPIC_API_KEY": "none", "LANG": "C.UTF-8"}
        # On a busy machine even this command takes long enough for its time to be shown.
        with patch.object(calls, "MIN_DISPLAYED_DURATION_S", math.inf):
            frames = asyncio.run(_play_task(workspace))
    return frames[-3].svg, render_recording(frames)


def create_workspace(home: str) -> Path:
    workspace = Path(home, "slugs")
    workspace.mkdir()
    for name, text in FILES.items():
        (workspace / name).write_text(text, encoding="utf-8")
    subprocess.run(["git", "init", "-q", "-b", "main", str(workspace)], check=True)
    return workspace


async def _play_task(workspace: Path) -> list[Frame]:
    """The screen at every moment of the task at which it waits for the user."""
    async with ModelServer(TURNS) as model, open_engine() as engine:
        flags = ("--provider", "anthropic", "--base-url", model.url, "-m", MODEL)
        host, app = build_app(engine, parse_command_line((*flags, "-w", str(workspace))), "", ())
        async with app.run_test(size=_SIZE) as pilot:
            frames = [Frame(await _capture(app, pilot, "sandbox"), 1.5)]
            for word in PROMPT.split(" "):
                await pilot.press(*word, "space")
                frames.append(Frame(await _capture(app, pilot, word), 0.4))
            await pilot.press("enter")
            edit = await _capture(app, pilot, "Always allow edits", ".strip()", "$0.02")
            frames.append(Frame(edit, 5))
            await pilot.pause(_APPROVAL_DELAY_S)
            await pilot.press("enter")
            frames.append(Frame(await _capture(app, pilot, "Run this command?", "$0.03"), 5))
            await pilot.pause(_APPROVAL_DELAY_S)
            await pilot.press("enter")
            frames.append(Frame(await _capture(app, pilot, "Task completed", "$0.04"), 6.9))
        await host.close()
        return frames


async def _capture(app: JoeyApp, pilot: Pilot[Any], *texts: str) -> str:
    """The screen as SVG, once it shows the texts and no longer changes."""
    previous = svg = ""
    async with asyncio.timeout(_TIMEOUT_S):
        while not (_shows(svg, texts) and svg == previous):
            await pilot.pause(0.3)
            previous, svg = svg, app.export_screenshot(title="joey")
    return _WEB_FONTS_RE.sub("", svg)


def _shows(svg: str, texts: tuple[str, ...]) -> bool:
    shown = html.unescape(svg).replace("\N{NO-BREAK SPACE}", " ")
    return all(each in shown for each in texts)


def render_recording(frames: list[Frame]) -> str:
    """The frames as one animated SVG, which begins anew after the last."""
    opening_tag = re.match(r"<svg.*?>", frames[0].svg)
    assert opening_tag is not None
    total = sum(frame.seconds for frame in frames)
    start = 0.0
    parts = [opening_tag[0]]
    for number, frame in enumerate(frames):
        begin, end = 100 * start / total, 100 * (start + frame.seconds) / total
        is_last = number == len(frames) - 1
        keyframes = f"{begin:.2f}% {{visibility: visible}}" + (
            "" if is_last else f" {end:.2f}% {{visibility: hidden}}"
        )
        if number:
            keyframes = f"0% {{visibility: hidden}} {keyframes}"
        parts.append(
            f"<style>@keyframes frame{number} {{{keyframes}}}"
            f" .frame{number} {{visibility: {'visible' if is_last else 'hidden'};"
            f" animation: frame{number} {total:.1f}s step-end infinite}}</style>"
            f'<g class="frame{number}">{_embed(frame.svg, number)}</g>'
        )
        start += frame.seconds
    return "\n".join((*parts, "</svg>\n"))


def _embed(svg: str, number: int) -> str:
    """The inside of a frame, with class names of its own and without clipping."""
    inside = svg[svg.index(">") + 1 : svg.rindex("</svg>")]
    inside = re.sub(r"<clipPath.*?</clipPath>|<!--.*?-->", "", inside, flags=re.DOTALL)
    inside = re.sub(r' clip-path="[^"]*"', "", inside)
    inside = re.sub(r"terminal-\d+", f"frame{number}", inside)
    return re.sub(r"\n\s*", "\n", inside)


if __name__ == "__main__":
    directory = Path(sys.argv[1]) if len(sys.argv) > 1 else SCREENSHOT.parent
    for destination, image in zip((SCREENSHOT, RECORDING), draw_images(), strict=True):
        (directory / destination.name).write_text(image, encoding="utf-8")
        print(directory / destination.name)
