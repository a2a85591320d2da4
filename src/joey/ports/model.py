"""Ports of model services: replies, embeddings, images.

A module of its own because `providers` implements all of it, and nothing else.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Protocol

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

    def stream(self, request: ModelRequest) -> AsyncIterator[Chunk]:
        """An async generator; closing it closes the request's socket. Raises ProviderError: the
        service failed, before or in the middle of the stream."""

    async def close(self) -> None:
        """Let go of idle connections."""


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
