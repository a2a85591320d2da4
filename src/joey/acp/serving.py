"""One editor, from its first message to its last."""

from __future__ import annotations

import asyncio

from acp.connection import Connection

from joey.acp.agent import Agent
from joey.acp.frames import Frames


async def serve(agent: Agent, frames: Frames) -> None:
    """Until no more messages come, or nobody takes ours; then all tasks are stopped."""
    connection = Connection(agent.handle, frames, listening=False)
    agent.connect(connection)
    listening = asyncio.ensure_future(connection.main_loop())
    gone = asyncio.ensure_future(frames.is_gone.wait())
    try:
        await asyncio.wait({listening, gone}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for job in (listening, gone):
            job.cancel()
        await asyncio.gather(listening, gone, return_exceptions=True)
        await agent.close()
        await connection.close()
