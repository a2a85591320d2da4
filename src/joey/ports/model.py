"""The model, and time."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Protocol

from joey.core.chunks import Chunk
from joey.core.models import ModelInfo, ModelRequest


class Provider(Protocol):
    @property
    def model(self) -> ModelInfo: ...

    @property
    def api_protocol(self) -> str:
        """`anthropic` or `openai`: how clients of the history name the wire."""
        ...

    def stream(self, request: ModelRequest) -> AsyncIterator[Chunk]:
        """An async generator; closing it closes the request's socket.

        Raises:
            ProviderError: the service failed, before or in the middle of the stream.
        """
        ...

    async def close(self) -> None:
        """Let go of idle connections."""
        ...


class Clock(Protocol):
    def now(self) -> int:
        """Milliseconds since 1970."""
        ...

    async def sleep(self, seconds: float) -> None: ...
