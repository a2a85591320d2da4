"""Ports of model services: replies, embeddings, images, recording of requests.

A separate module because `providers` implements all of it except for the recorder, which is passed
to it.
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
        """The API's name in the history, `anthropic` or `openai`."""

    @property
    def address(self) -> str:
        """The address of the model: `host:port`."""

    @property
    def window_advice(self) -> str:
        """How to get a larger window from a local server; empty for others."""

    async def prepare(self) -> None:
        """Query a local server about the model, once; `model` may change. Raises nothing."""

    def learn_window(self, tokens: int) -> None:
        """Learn the size of the window from a rejection by the service."""

    def shrink_window(self) -> bool:
        """Request a smaller window from now on, once, after a server ran out of memory; False if
        that cannot be requested."""

    def doubt_window(self) -> None:
        """Query the window again, because a reply shows that it is smaller than reported."""

    def stream(self, request: ModelRequest) -> AsyncIterator[Chunk]:
        """Stream a reply as an async generator; closing it closes the request's socket. Raises
        ProviderError if the service failed, before or during the stream."""

    async def close(self) -> None:
        """Close idle connections."""


class RequestGate(Protocol):
    """Admits requests to services that other processes use as well."""

    async def admit(self, address: str) -> None:
        """Return when a request may be sent to this address."""

    async def record_rate_limit(self, address: str, retry_after_s: float | None) -> None:
        """Record a rate limit: no request is admitted until the time is over."""


class ToolSupport(Protocol):
    """Remembers which models at which address do not support tools."""

    def is_refused(self, provider: Provider) -> bool: ...

    def record_refusal(self, provider: Provider) -> None: ...

    def forget_refusal(self, provider: Provider) -> None: ...


class ModelOverrides(Protocol):
    """Corrections and additions to the catalogue of models."""

    def find(self, provider: str, names: Sequence[str]) -> ModelOverride | None:
        """Find a model by the first known name. Raises ConfigError."""


class ServedModels(Protocol):
    """Remembers facts that local servers report about their models, by address and id."""

    def find(self, address: str, model: str) -> ServedModel | None: ...

    def record(self, address: str, model: str, served: ServedModel) -> None: ...


class RefusalMemory(Protocol):
    """Remembers parts of requests that a service has rejected for a model."""

    def load_refused(self, provider: Provider) -> frozenset[str]: ...

    def record_refused(self, provider: Provider, name: str) -> None: ...


class Embedder(Protocol):
    """A model that turns texts into vectors, similar for similar meanings."""

    @property
    def model_id(self) -> str:
        """The model and its address: vectors of different models cannot be compared."""

    async def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """Return a vector for each text. Raises ProviderError if the service failed, after retries
        where useful."""

    async def close(self) -> None: ...


class ImageGenerator(Protocol):
    async def generate(self, prompt: str, image: str | None = None) -> str:
        """Return an image as a data URI, generated from scratch or from another one. Raises
        ToolError if the provider refused or returned no image."""


class ResponseEnding(StrEnum):
    COMPLETE = "complete"
    ABANDONED = "abandoned"
    """joey stopped reading."""
    BROKEN = "broken"
    """The service broke the connection, or was silent for too long."""
    UNREACHABLE = "unreachable"


class OutgoingRequest(Struct, frozen=True, kw_only=True):
    """A request that is about to be sent; its URL and headers contain secrets."""

    method: str
    url: str
    headers: Mapping[str, str]
    body: Sequence[bytes]
    task_id: str


class RequestRecorder(Protocol):
    @property
    def failure(self) -> str:
        """Why recording has stopped; empty if it works."""

    async def record(self, request: OutgoingRequest) -> ResponseRecording | None:
        """Record a request before it is sent; None if that is not possible. Raises nothing."""


class ResponseRecording(Protocol):
    """Records a response as it arrives; raises nothing."""

    def add_head(self, status: int, headers: Mapping[str, str]) -> None: ...

    def add_content(self, data: bytes) -> None:
        """Record a piece of the body, without framing, before it is used."""

    def end(self, ending: ResponseEnding, error: str = "") -> None:
        """End the recording; only the first call counts."""
