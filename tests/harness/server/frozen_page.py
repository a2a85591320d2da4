"""A page whose clock stands still, to press buttons at exact moments after a question appeared."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any

from tests.harness.server.browsing import TIMEOUT_S, Page, expect, start_task

FRAME = 20
"""Milliseconds in which the page draws once."""
LONG_ENOUGH = 1000
"""Milliseconds after which any question accepts answers."""
NOON = 12 * 60 * 60 * 1000


class FrozenPage:
    """A page whose clock stands still, and the answers it has sent."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.responses: list[dict[str, Any]] = []
        page.on("websocket", lambda socket: socket.on("framesent", self._sent))

    def _sent(self, frame: str | bytes) -> None:
        command = json.loads(frame)
        if command.get("commandName") == "respond":
            self.responses.append(command["arguments"])

    async def start(self, task: str, button: str) -> None:
        """A task that has come to its first question, which accepts answers."""
        await self.page.clock.install(time=0)
        await self.page.reload()
        await start_task(self.page, task)
        await expect(self.button(button)).to_be_enabled()
        await self.page.clock.pause_at(NOON)

    def button(self, name: str) -> Any:
        return self.page.locator(".ask").get_by_role("button", name=re.compile(rf"^(\d )?{name}$"))

    async def draw(self, text: str) -> None:
        """Frame by frame, until a question shows this; no longer."""
        asked = self.page.locator(".ask", has_text=text)
        async with asyncio.timeout(TIMEOUT_S):
            while not await asked.count():
                await self.page.clock.run_for(FRAME)

    async def wait(self) -> None:
        await self.page.clock.run_for(LONG_ENOUGH)

    async def reject(self) -> None:
        """Stop the task, and wait until the page shows that."""
        await self.button("Reject and stop").click()
        async with asyncio.timeout(TIMEOUT_S):
            while await self.page.locator(".ask").count():
                await self.page.clock.run_for(FRAME)

    async def middle(self, name: str) -> tuple[float, float]:
        box = await self.button(name).bounding_box()
        return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
