"""Tasks that steer a real Chromium."""

from __future__ import annotations

import asyncio
import os
from typing import Any

import pytest

from joey.content.browser import find_chromium
from joey.ports.content import BrowserStep
from joey.ports.tool_context import ToolContext
from joey.tools.base import Outcome
from joey.tools.browser_action import BrowserAction

EXECUTABLE = find_chromium(os.environ)


needs_chromium = pytest.mark.skipif(EXECUTABLE is None, reason="no Chromium was found here")


async def use(ctx: ToolContext, **arguments: Any) -> Outcome:
    tool = BrowserAction()
    prepared = await tool.prepare(tool.parse(arguments), ctx)
    async with asyncio.timeout(60):
        return await tool.run_prepared(prepared, ctx, None)


class Nothing:
    """A browser that was never needed."""

    is_open = False
    viewport = (900, 600)

    async def perform(self, step: BrowserStep) -> Any:
        raise AssertionError("nobody should have come here")

    async def close(self) -> None:
        """Nothing to close."""


class Opened(Nothing):
    is_open = True
