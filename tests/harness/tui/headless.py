"""The screen without a terminal: in this process, with what a terminal would send and show."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import pytest
from textual import events
from textual._xterm_parser import XTermParser
from textual.message import Message
from textual.pilot import Pilot

from joey.app import open_engine
from joey.cli.command_line import parse_command_line
from joey.cli.screen.launcher import build_app
from joey.tui.app import JoeyApp
from joey.tui.widgets import dialog_area
from joey.tui.widgets.question_panel import ANSWER_GUARD_S
from tests.harness.cli.binary import LIMIT, Joey
from tests.harness.tui.screens import Screen

_SEQUENCES = {
    "Enter": "\r",
    "Tab": "\t",
    "BSpace": "\x7f",
    "Up": "\x1b[A",
    "Down": "\x1b[B",
    "BTab": "\x1b[Z",
    "F2": "\x1bOQ",
    "Home": "\x1b[H",
    "End": "\x1b[F",
    "C-End": "\x1b[1;5F",
    "PageUp": "\x1b[5~",
    **{f"C-{letter}": chr(ord(letter) - ord("a") + 1) for letter in "bcdlot"},
}


class HeadlessScreen(Screen):
    poll_interval_s = 0.02

    def __init__(self, app: JoeyApp, pilot: Pilot[int]) -> None:
        self.app = app
        self._pilot = pilot
        self._parser = XTermParser()

    async def press(self, *keys: str) -> None:
        for key in keys:
            if key == "Escape":  # a parser has to wait for what may follow
                await self._wait_until_drawn()
                self._process(events.Key("escape", "\x1b"))
            else:
                await self.type(_SEQUENCES.get(key, key))

    async def type(self, text: str) -> None:
        await self._wait_until_drawn()
        self.type_at_once(text)

    def type_at_once(self, text: str) -> None:
        """Also between the parts of one change, as by a user whose terminal was held up."""
        for event in self._parser.feed(text):
            self._process(event)

    async def capture(self, *, colours: bool = False) -> str:
        if not self.app.is_running:
            return ""
        strips = self.app.screen._compositor.render_strips()
        if colours:
            return "\n".join(strip.render(self.app.console) for strip in strips)
        return "".join(f"{strip.text.rstrip()}\n" for strip in strips)

    async def wait_for_guard(self) -> None:
        await self._wait_until_drawn()
        await asyncio.sleep(ANSWER_GUARD_S * 1.1)

    async def resize(self, columns: int, rows: int) -> None:
        await self._pilot.resize_terminal(columns, rows)

    async def _wait_until_drawn(self) -> None:
        """No user is so fast as to type between the parts of one change."""
        await self._pilot.pause(0)
        drawn = asyncio.Event()
        self.app.call_after_refresh(drawn.set)
        async with asyncio.timeout(LIMIT):
            await drawn.wait()

    def _process(self, event: Message) -> None:
        assert self.app._driver is not None
        self.app._driver.process_message(event)


@asynccontextmanager
async def screen(
    joey: Joey,
    *arguments: str,
    size: tuple[int, int] = (100, 30),
    env: Mapping[str, str] | None = None,
) -> AsyncIterator[HeadlessScreen]:
    """joey's screen, with the command line, environment and directory of a process."""
    parsed = parse_command_line(arguments)
    with pytest.MonkeyPatch.context() as patch:
        for name in set(os.environ) - joey.env.keys():
            patch.delenv(name)
        for name, value in {**joey.env, **(env or {})}.items():
            patch.setenv(name, value)
        patch.chdir(joey.workspace)
        # Tests answer questions one after the other with the same key, faster than people.
        patch.setattr(dialog_area, "REPEAT_GUARD_S", 0)
        async with open_engine() as engine:
            host, app = build_app(engine, parsed, " ".join(parsed.prompt), ())
            async with app.run_test(size=size) as pilot:
                yield HeadlessScreen(app, pilot)
            await host.close()
            assert app.startup_error is None, app.startup_error
