"""Every command, event and error code, over real sockets, with two foreign clients."""

from __future__ import annotations

from pathlib import Path

import pytest

from joey.core.wire.commands import COMMANDS
from joey.core.wire.events import PAYLOAD_TYPES
from joey.core.wire.frames import ErrorCode
from joey.server.commands import HANDLERS
from tests.harness.counts import FULL
from tests.harness.server.exchange_steps import Exchange, ExchangePlayer, ExpectEvent, SendFrame
from tests.harness.server.exchanges import EXCHANGES
from tests.harness.server.server_fixture import open_server
from tests.harness.server.websocket_clients import Client

pytestmark = pytest.mark.contract("websocket:commands")

WITH_NODE = {
    "a task from its beginning to its end",
    "yes, no, and words",
    "mistakes of the client",
    "a defect of the server",
    "a server that stops",
    "a client that reads too slowly",
}
"""One of every kind: answers, events, errors, the end of a connection, and full buffers."""


@pytest.mark.shortened
@pytest.mark.parametrize(
    ("client", "exchange"),
    [
        pytest.param(client, exchange, id=f"{client}-{exchange.name}")
        for client in ("websockets", "ws")
        for exchange in EXCHANGES
        if FULL or client != "ws" or exchange.name in WITH_NODE
    ],
    indirect=["client"],
)
async def test_an_exchange_is_played_as_written(
    client: Client, exchange: Exchange, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(HANDLERS, "getModes", HANDLERS["getModes"])  # put back what a scene breaks
    async with (
        open_server(tmp_path, *exchange.turns, **exchange.settings) as here,
        client.connect(here) as connection,
    ):
        await ExchangePlayer(here, connection).play(exchange)


def test_every_command_event_and_error_code_is_in_an_exchange() -> None:
    steps = [step for exchange in EXCHANGES for step in exchange.steps]
    said = [step for step in steps if isinstance(step, SendFrame)]
    expected_events = {step.name for step in steps if isinstance(step, ExpectEvent)}
    obeyed = {
        step.frame["commandName"]
        for step in said
        if step.error is None and isinstance(step.frame, dict)
    }
    # These two need recordings: `test_page_recordings` has some.
    assert set(COMMANDS) - obeyed == {"getRecording", "compareRecordedRequests"}
    assert set(PAYLOAD_TYPES) - expected_events == set()
    assert {code.value for code in ErrorCode} - {step.error for step in said} == set()
