"""A peer that is gone without a word is noticed by its silence."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from websockets.client import ClientProtocol
from websockets.frames import Frame, Opcode
from websockets.uri import parse_uri

from joey.server.serve import ServeOptions
from joey.server.websocket import ConnectionLimits
from tests.harness.server.server_fixture import TIMEOUT_S, TOKEN, ServerFixture, open_server

SHORT = ServeOptions(port=0, limits=ConnectionLimits(heartbeat_interval_s=1))


async def silence(here: ServerFixture) -> ClientProtocol:
    """Connect and read until the server hangs up; never answer anything."""
    reader, writer = await asyncio.open_connection("127.0.0.1", here.listening.port)
    protocol = ClientProtocol(parse_uri(here.url))
    request = protocol.connect()
    request.headers["Authorization"] = f"Bearer {TOKEN}"
    protocol.send_request(request)
    writer.writelines(protocol.data_to_send())
    async with asyncio.timeout(TIMEOUT_S):
        while data := await reader.read(65_536):
            protocol.receive_data(data)
    protocol.receive_eof()
    writer.close()
    await writer.wait_closed()
    return protocol


@pytest.mark.contract("websocket:hostile")
async def test_a_peer_that_answers_no_ping_is_dropped_and_the_others_stay(tmp_path: Path) -> None:
    async with open_server(tmp_path, options=SHORT) as here, here.peer() as living:
        silent = await silence(here)
        opcodes = [frame.opcode for frame in silent.events_received() if isinstance(frame, Frame)]
        assert opcodes == [Opcode.TEXT, Opcode.PING, Opcode.CLOSE], "welcome, one ping, goodbye"
        assert silent.close_code == 1011
        assert await living.ask("ping")
        assert len(here.listening.connections) == 1
        assert here.hub.counters.accepted_count == 2
