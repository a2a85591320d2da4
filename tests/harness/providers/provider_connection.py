"""A provider and a scripted server, joined by a real socket."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from msgspec import structs

from joey.core.messages import Chunk, Message, SourceChunk, merge_chunks
from joey.core.models import ModelRequest
from joey.core.settings import Profile
from joey.errors import ProviderError
from joey.ports.model import Provider
from joey.providers.factory import make_provider
from joey.providers.http_client import HttpClient
from joey.testing.script import Turn, disconnect, raw
from joey.testing.server import ModelServer

MODEL_REQUEST = ModelRequest("Be brief.", [Message("user", "Hello?")])
PROFILES = {
    "anthropic": Profile(provider="anthropic", model="claude-sonnet-4-5", api_key="k3y-secret"),
    "openai": Profile(provider="openai", model="gpt-4.1", api_key="k3y-secret"),
}


@asynccontextmanager
async def connect_provider(
    wire: str, *turns: Turn, silence: float = 20.0
) -> AsyncIterator[tuple[Provider, ModelServer]]:
    async with ModelServer(turns) as server:
        url = server.url + ("/v1" if wire == "openai" else "")
        http = HttpClient(environ={})
        profile = structs.replace(PROFILES[wire], base_url=url, request_timeout=silence)
        yield make_provider(profile, http), server
        await http.close()


async def stream_until_error(
    wire: str, turn: Turn, silence: float = 20.0
) -> tuple[list[Chunk], ProviderError | None]:
    """The chunks that came, but for the source, and the error that ended them. How many pieces a
    text comes in is chance, so they are put together."""
    chunks: list[Chunk] = []
    async with connect_provider(wire, turn, silence=silence) as (provider, _):
        try:
            async for chunk in provider.stream(MODEL_REQUEST):
                if not isinstance(chunk, SourceChunk):
                    chunks.append(chunk)
        except ProviderError as error:
            return list(merge_chunks(chunks)), error
    return list(merge_chunks(chunks)), None


async def stream_chunks(wire: str, turn: Turn) -> list[Chunk]:
    chunks, error = await stream_until_error(wire, turn)
    assert error is None, error
    return chunks


def make_event_turn(*bodies: str) -> Turn:
    """A turn of hand-written events, and nothing else in the stream."""
    return Turn(*(raw(f"data: {body}\n\n") for body in bodies), disconnect(clean=True))
