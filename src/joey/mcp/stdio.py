"""Servers that are programs: one JSON message per line on their standard input and output.

Not the library's own transport, because that reads lines of any length and leaves the process
with everything in its environment that it finds harmless.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from mcp.types import JSONRPCMessage, jsonrpc_message_adapter

from joey.mcp.clip import Lines, message_of
from joey.mcp.config import Entry
from joey.mcp.gate import Streams
from joey.mcp.launch import LastWords, end, launch

_CHUNK = 64 * 1024
_FLUSH = 0.5


@asynccontextmanager
async def stdio_streams(
    entry: Entry, workspace: Path, environment: Mapping[str, str], words: LastWords
) -> AsyncIterator[Streams]:
    """A running server; it and whatever it started are gone when this is left.

    Raises:
        LaunchError
    """
    process = await launch(entry, workspace, environment)
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    incoming, read = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    write, outgoing = anyio.create_memory_object_stream[SessionMessage](0)
    jobs = [
        asyncio.create_task(_read(process.stdout, incoming)),
        asyncio.create_task(_write(process.stdin, outgoing, incoming)),
        asyncio.create_task(words.collect(process.stderr)),
    ]
    try:
        yield read, write
    finally:
        try:
            write.close()
            with suppress(TimeoutError):
                async with asyncio.timeout(_FLUSH):
                    await asyncio.wait([jobs[1]])
        finally:
            # Also for those who are impatient and cancel once more.
            try:
                await _part_from(process, jobs, words)
            finally:
                for stream in (incoming, read, write, outgoing):
                    stream.close()


async def _part_from(
    process: asyncio.subprocess.Process, jobs: list[asyncio.Task[None]], words: LastWords
) -> None:
    try:
        words.code = await end(process)
    finally:
        for job in jobs:
            job.cancel()
        await asyncio.gather(*jobs, return_exceptions=True)
        # Whoever left the group may hold the pipes open; they are no use any more.
        process._transport.close()  # type: ignore[attr-defined]


async def _read(
    output: asyncio.StreamReader, incoming: MemoryObjectSendStream[SessionMessage | Exception]
) -> None:
    lines = Lines()
    with incoming:
        while data := await output.read(_CHUNK):
            for line in lines.feed(data):
                text = await message_of(line)
                if not text.lstrip().startswith(b"{"):
                    continue  # Some print greetings or logs where only messages belong.
                message = _understood(text)
                if message is None:
                    continue
                try:
                    await incoming.send(SessionMessage(message))
                except (anyio.ClosedResourceError, anyio.BrokenResourceError):
                    return


def _understood(text: bytes) -> JSONRPCMessage | None:
    """A message; None for what is none.

    Texts that were cut in the middle of a letter, or are not UTF-8, get a sign in its place.
    """
    try:
        return jsonrpc_message_adapter.validate_json(text, by_name=False)
    except ValueError:
        pass
    try:
        value = json.loads(text.decode("utf-8", "replace"))
        mended = json.dumps(value, ensure_ascii=False).encode("utf-16", "surrogatepass")
        return jsonrpc_message_adapter.validate_json(
            mended.decode("utf-16", "replace"), by_name=False
        )
    except (ValueError, RecursionError):
        return None


async def _write(
    stdin: asyncio.StreamWriter,
    outgoing: MemoryObjectReceiveStream[SessionMessage],
    incoming: MemoryObjectSendStream[SessionMessage | Exception],
) -> None:
    with outgoing:
        async for item in outgoing:
            text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
            stdin.write(text.encode() + b"\n")
            try:
                await stdin.drain()
            except OSError:
                incoming.close()  # It listens no more, so that no answer can come.
                return
