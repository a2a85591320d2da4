"""Blocks as a user sees them: their lines without colours, and in names of styles."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from rich.style import Style
from textual.app import App, ComposeResult
from textual.pilot import Pilot

from joey.tui.blocks.block_layout import Block, BlockPart, DrawContext
from joey.tui.blocks.styled_text import Palette, to_plain_text
from joey.tui.widgets.conversation import MORE_BELOW_HINT, ConversationView

PALETTE = Palette(Style.null(), {})


def piece_lines(pieces: Iterable[BlockPart], width: int = 40) -> list[str]:
    return [to_plain_text(line).rstrip() for piece in pieces for line in piece.render_lines(width)]


def block_lines(block: Block, width: int = 40, *, whole: bool = False) -> list[str]:
    context = DrawContext(width + 1, PALETTE, whole)
    return [
        block.render_strip(y, context).text[1:].rstrip()
        for y in range(block.gap_lines, block.measure_height(context))
    ]


class ConversationApp(App[None]):
    """A conversation alone on a screen."""

    def __init__(self, conversation: ConversationView | None = None) -> None:
        super().__init__()
        self.conversation = conversation or ConversationView()

    def compose(self) -> ComposeResult:
        yield self.conversation


def screen_lines(conversation: ConversationView) -> list[str]:
    """What is in sight."""
    height = conversation.size.height
    return [conversation.render_line(y).text[1:].rstrip() for y in range(height)]


def all_lines(conversation: ConversationView) -> list[str]:
    """Everything, as a user sees it who goes from the top to the end."""
    conversation.action_scroll_home()
    lines: dict[int, str] = {}
    while True:
        top = conversation.scroll_offset.y
        for y in range(conversation.size.height):
            lines[top + y] = conversation.render_line(y).text[1:].rstrip()
        conversation.scroll_pages(1)
        if conversation.scroll_offset.y == top:
            break
    total = conversation.virtual_size.height
    drawn = [lines[y].removesuffix(MORE_BELOW_HINT.strip()).rstrip() for y in sorted(lines)]
    return drawn[:total]


async def wait_until_drawn(pilot: Pilot[Any]) -> None:
    """All that was told is drawn."""
    conversation = pilot.app.query_one(ConversationView)
    await pilot.pause()
    while conversation.has_undrawn_changes:
        await pilot.pause(0.01)
    await pilot.pause()


def save_screenshot(app: App[Any], name: str, tmp_path: Path) -> None:
    """The screen as an SVG file, in the folder that JOEY_SNAPSHOTS names."""
    directory = Path(os.environ.get("JOEY_SNAPSHOTS") or tmp_path)
    directory.mkdir(parents=True, exist_ok=True)
    (directory / f"{name}.svg").write_text(app.export_screenshot(), encoding="utf-8")


class SessionStub:
    """A task of which only its rows count."""

    is_running = False

    def __init__(self, rows: Sequence[Any] = (), id: str = "task") -> None:
        self.id = id
        self.rows = rows
