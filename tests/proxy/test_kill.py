"""Whatever a client received from a proxy that was killed is in the book after the next start."""

from __future__ import annotations

import asyncio
import random
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from joey.proxy.exchange import ExchangeState
from tests.harness.counts import daily
from tests.harness.proxy.proxies import (
    build_request,
    close,
    list_names,
    list_recorded,
    read_request,
    serve,
    start_proxy,
)

KILLS = daily(3, 200)
STREAMS = 20
MAX_BYTES_BEFORE_KILL = 2_000_000
SECONDS_PER_KILL = 10


class Traffic:
    """What clients received of each request until the proxy died."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.left_until_kill = self.chance.randrange(MAX_BYTES_BEFORE_KILL)
        self.enough = asyncio.Event()
        self.received: dict[int, bytearray] = {}
        self.whole: dict[int, bytes] = {}

    def make_response(self, number: int) -> bytes:
        events = self.chance.choice([1, 10, 1000, 100_000])
        size = self.chance.choice([10, 120, 5000])
        content = (b"data: %d %s\n\n" % (number, b"x" * size)) * min(events, 1_000_000 // size)
        self.whole[number] = content
        return content

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            _, body = await read_request(reader)
            content = self.make_response(int(body))
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(content))
            step = self.chance.choice([7, 130, 4096, 65536])
            for at in range(0, len(content), step):
                writer.write(content[at : at + step])
                await writer.drain()
                await asyncio.sleep(0)  # the clients read in turn with this

    async def converse(self, port: int, numbers: range) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            for number in numbers:
                request = build_request(body=b"%d" % number).replace(b"PORT", b"%d" % port)
                writer.write(request)
                head = await reader.readuntil(b"\r\n\r\n")
                received = self.received[number] = bytearray()
                left = int(head.rpartition(b": ")[2])
                while left and (data := await reader.read(min(left, 65536))):
                    received += data
                    left -= len(data)
                    self.left_until_kill -= len(data)
                    if self.left_until_kill <= 0:
                        self.enough.set()
                if left:
                    break
        await close(writer)


async def kill_once(directory: Path, seed: int) -> tuple[int, int]:
    """How many exchanges there were, and how many of them the kill cut off."""
    traffic = Traffic(seed)
    book = directory / "book.sqlite"
    async with serve(traffic.answer) as service, start_proxy(book, service) as proxy:
        clients = [
            asyncio.create_task(traffic.converse(proxy.port, range(n, 1_000_000, STREAMS)))
            for n in range(STREAMS)
        ]
        async with asyncio.timeout(SECONDS_PER_KILL * 5):
            await traffic.enough.wait()
            proxy.process.kill()
            await proxy.process.wait()
            await asyncio.gather(*clients)
    async with serve(traffic.answer) as service, start_proxy(book, service) as proxy:
        assert list_names(Path(f"{book}-spool")) == [proxy.spool_name]
        recorded = list_recorded(book)
    found = {int(each.request): each for each in recorded if each.request}
    assert traffic.received.keys() <= found.keys()
    for number, received in traffic.received.items():
        exchange, _, response = found[number]
        assert response.startswith(received), f"exchange {number}"
        assert traffic.whole[number].startswith(response)
        if len(received) == len(traffic.whole[number]):
            assert exchange.state in (ExchangeState.DONE, ExchangeState.CUT_KILLED)
    cut = sum(each.exchange.state is ExchangeState.CUT_KILLED for each in recorded)
    return len(recorded), cut


@pytest.mark.shortened
@pytest.mark.timeout(60 + KILLS * SECONDS_PER_KILL)
async def test_killed_proxies_lose_no_byte_that_was_received(tmp_path: Path) -> None:
    exchanges = cut = 0
    for number in range(KILLS):
        seed = random.SystemRandom().getrandbits(32)
        directory = tmp_path / str(number)
        directory.mkdir()
        try:
            counts = await kill_once(directory, seed)
        except BaseException as error:
            error.add_note(f"seed {seed}")
            raise
        exchanges, cut = exchanges + counts[0], cut + counts[1]
    assert cut > 0
    sys.stdout.write(f"{KILLS} kills, {exchanges} exchanges, {cut} cut off, 0 bytes missing\n")
