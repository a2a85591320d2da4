"""Ports of model services: replies, embeddings, images, recording of what is sent to them.

A separate module because `providers` implements all of it, and nothing else; but the recorder,
which it is given.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from enum import StrEnum
from typing import Protocol

from msgspec import Struct

from joey.core.messages import Chunk
from joey.core.models import ModelInfo, ModelOverride, ModelRequest, ServedModel


class Provider(Protocol):
    @property
    def model(self) -> ModelInfo: ...

    @property
    def api_protocol(self) -> str:
        """`anthropic` or `openai`: how clients of the history name the wire."""

    @property
    def address(self) -> str:
        """Where the model is: `host:port`."""

    @property
    def window_advice(self) -> str:
        """How to get a larger window from a server on the user's own machine; empty elsewhere."""

    async def prepare(self) -> None:
        """Ask a local server about the model, once; `model` may change. Raises nothing."""

    def learn_window(self, tokens: int) -> None:
        """The service refused a request and named the size of its window."""

    def shrink_window(self) -> bool:
        """Request a smaller window from now on, once, after a server ran out of memory; False if
        that cannot be requested."""

    def doubt_window(self) -> None:
        """A reply shows that the window is smaller than the server said: let it be asked again."""

    def stream(self, request: ModelRequest) -> AsyncIterator[Chunk]:
        """An async generator; closing it closes the request's socket. Raises ProviderError: the
        service failed, before or in the middle of the stream."""

    async def close(self) -> None:
        """Let go of idle connections."""


class RequestGate(Protocol):
    """Admits requests to services that other processes use as well."""

    async def admit(self, address: str) -> None:
        """Return when a request may be sent to this address."""

    async def record_rate_limit(self, address: str, retry_after_s: float | None) -> None:
        """The service refused a request for now; nobody is admitted until the time is over."""


class ToolSupport(Protocol):
    """Remembers which models take no tools at which address."""

    def is_refused(self, provider: Provider) -> bool: ...

    def record_refusal(self, provider: Provider) -> None: ...

    def forget_refusal(self, provider: Provider) -> None: ...


class ModelOverrides(Protocol):
    """Corrects and extends the catalogue of models."""

    def find(self, provider: str, names: Sequence[str]) -> ModelOverride | None:
        """By the first of the names that is known. Raises ConfigError."""


class ServedModels(Protocol):
    """Remembers what local servers said about their models, by address and id."""

    def find(self, address: str, model: str) -> ServedModel | None: ...

    def record(self, address: str, model: str, served: ServedModel) -> None: ...


class RefusalMemory(Protocol):
    """Remembers what a service has refused in requests to a model."""

    def load_refused(self, provider: Provider) -> frozenset[str]: ...

    def record_refused(self, provider: Provider, name: str) -> None: ...


class Embedder(Protocol):
    """A model that turns texts into vectors, alike where the meaning is."""

    @property
    def model_id(self) -> str:
        """Which one, and where: vectors of different models cannot be compared."""

    async def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """A vector for each text. Raises ProviderError: the service failed, several times where
        trying again could help."""

    async def close(self) -> None: ...


class ImageGenerator(Protocol):
    async def generate(self, prompt: str, image: str | None = None) -> str:
        """An image as a data URI, made from scratch or from another one. Raises ToolError: the
        provider refused or gave no image."""


class ResponseEnding(StrEnum):
    COMPLETE = "complete"
    ABANDONED = "abandoned"
    """joey stopped reading."""
    BROKEN = "broken"
    """The service broke the connection, or was silent for too long."""
    UNREACHABLE = "unreachable"


class OutgoingRequest(Struct, frozen=True, kw_only=True):
    """A request that is about to be sent; its URL and headers have secrets in them."""

    method: str
    url: str
    headers: Mapping[str, str]
    body: Sequence[bytes]
    task_id: str


class RequestRecorder(Protocol):
    @property
    def failure(self) -> str:
        """Why nothing is recorded any more; empty while all is well."""

    async def record(self, request: OutgoingRequest) -> ResponseRecording | None:
        """Write a request down before it is sent; None if that is not possible. Raises nothing."""


class ResponseRecording(Protocol):
    """Writes a response down as it arrives; raises nothing."""

    def add_head(self, status: int, headers: Mapping[str, str]) -> None: ...

    def add_content(self, data: bytes) -> None:
        """A piece of the body, without framing, before it is used."""

    def end(self, ending: ResponseEnding, error: str = "") -> None:
        """Only the first call counts."""
