"""The MCP library, loaded when the first server is started: it takes a second to import.

`dialogue`, `gate`, `http`, `oauth` and `stdio` import it at their top; everything else here
reaches them through this module.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
from types import ModuleType

_LOGGERS = ("mcp", "client", "httpx2", "httpcore2")


async def load(module: str) -> ModuleType:
    """A module of this package, imported beside the event loop, so that nobody waits for it."""
    return await asyncio.to_thread(_load, module)


def _load(module: str) -> ModuleType:
    for name in _LOGGERS:
        # What it logs about misbehaving servers must not appear on the person's screen.
        logger = logging.getLogger(name)
        if not logger.handlers:
            logger.addHandler(logging.NullHandler())
    return importlib.import_module(f"joey.mcp.{module}")
