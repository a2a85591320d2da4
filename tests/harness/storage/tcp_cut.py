"""A TCP relay whose connections a test can cut, or leave without an answer."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit, urlunsplit


class CuttableRelay:
    """Passes bytes to a server on loopback, in a thread of its own."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._target = (parts.hostname, parts.port)
        self._loop = asyncio.new_event_loop()
        self._open = asyncio.Event()
        self._open.set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._is_refusing = False
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._server = server = asyncio.run_coroutine_threadsafe(
            asyncio.start_server(self._relay, "127.0.0.1", 0), self._loop
        ).result()
        port = server.sockets[0].getsockname()[1]
        self.url = urlunsplit(parts._replace(netloc=f"{parts.username}@127.0.0.1:{port}"))

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._is_refusing:
            writer.close()
            return
        await self._open.wait()
        up_reader, up_writer = await asyncio.open_connection(*self._target)
        self._writers |= {writer, up_writer}
        await asyncio.gather(
            self._pass(reader, up_writer), self._pass(up_reader, writer), return_exceptions=True
        )

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65536):
                await self._open.wait()
                writer.write(data)
                await writer.drain()
        finally:
            writer.close()

    def _call(self, function: Callable[[], None]) -> None:
        done = threading.Event()
        self._loop.call_soon_threadsafe(function)
        self._loop.call_soon_threadsafe(done.set)
        done.wait()

    def freeze(self) -> None:
        """No byte passes any more, and nobody is told."""
        self._call(self._open.clear)

    def thaw(self) -> None:
        self._call(self._open.set)

    def cut(self) -> None:
        """End all connections and refuse new ones."""

        def abort() -> None:
            self._is_refusing = True
            for writer in self._writers:
                writer.transport.abort()
            self._writers.clear()

        self._call(abort)

    def mend(self) -> None:
        self._is_refusing = False

    def stop(self) -> None:
        self.cut()
        self.thaw()
        asyncio.run_coroutine_threadsafe(self._finish(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _finish(self) -> None:
        self._server.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        for writer in self._writers:
            writer.transport.abort()
        await asyncio.sleep(0)


@contextmanager
def open_relay(url: str) -> Iterator[CuttableRelay]:
    relay = CuttableRelay(url)
    try:
        yield relay
    finally:
        relay.stop()
