"""Commands that read recordings of requests to models.

A separate module: each module of commands has one subject.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from joey.core.wire import recordings as wire
from joey.server.commands.call import CommandCall

if TYPE_CHECKING:
    from joey.server.hub import ServerHub


async def get_recordings(
    hub: ServerHub, call: CommandCall[wire.GetRecordings]
) -> wire.RecordedSessions:
    return await asyncio.to_thread(hub.services.recordings.list_sessions, call.arguments)


async def get_recording(
    hub: ServerHub, call: CommandCall[wire.GetRecording]
) -> wire.RecordedConversation:
    return await asyncio.to_thread(hub.services.recordings.read_session, call.arguments)


async def compare_recorded_requests(
    hub: ServerHub, call: CommandCall[wire.CompareRecordedRequests]
) -> wire.RecordedComparison:
    return await asyncio.to_thread(hub.services.recordings.compare, call.arguments)
