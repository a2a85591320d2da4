"""Embeddings by services that speak OpenAI's `/embeddings`."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence

import msgspec
from msgspec import Struct

from joey.core.models import ApiProtocol
from joey.core.settings import Profile
from joey.errors import (
    NOT_RUNNING_CODE,
    UNREACHABLE_CODE,
    ConfigError,
    ProviderError,
    ProviderFailureKind,
)
from joey.ports.model import Embedder
from joey.providers import errors
from joey.providers.catalog import build_endpoint_url, find_provider_spec
from joey.providers.errors import build_service_info
from joey.providers.http_client import HttpClient

MAX_BATCH_TEXTS = 64
MAX_BATCH_CHARS = 100_000
"""Services allow some 300,000 tokens in one request."""
MAX_ATTEMPTS = 4
FIRST_RETRY_DELAY_S = 0.5
MAX_RETRY_DELAY_S = 20.0
_MAX_RESPONSE_BYTES = 64 * 1024 * 1024
_RETRYABLE_FAILURES = (
    ProviderFailureKind.RATE_LIMIT,
    ProviderFailureKind.OVERLOAD,
    ProviderFailureKind.NETWORK,
)
_CHAT_PATH = "/chat/completions"


class _EmbeddingItem(Struct, frozen=True):
    embedding: list[float]
    index: int = 0


class _EmbeddingResponse(Struct, frozen=True):
    data: list[_EmbeddingItem]


_response_decoder = msgspec.json.Decoder(_EmbeddingResponse)


class EmbeddingClient:
    def __init__(
        self, profile: Profile, http: HttpClient, first_retry_delay: float = FIRST_RETRY_DELAY_S
    ) -> None:
        """Raises ConfigError if the profile cannot be used for embeddings."""
        kind = find_provider_spec(profile.provider)
        if kind.api_protocol is not ApiProtocol.OPENAI or kind.login:
            raise ConfigError(
                f"The profile {profile.name!r} cannot be used for embeddings: {kind.name} makes"
                " none. Name one whose provider speaks OpenAI's protocol, such as openai or ollama."
            )
        if not profile.model:
            raise ConfigError(
                f"The profile {profile.name!r} names no model. Give it one for embeddings."
            )
        self._url = (
            build_endpoint_url(kind, profile.base_url).removesuffix(_CHAT_PATH) + "/embeddings"
        )
        self._model = profile.model
        self._http = http
        self._first_retry_delay = first_retry_delay
        self._read_timeout = profile.request_timeout if profile.request_timeout > 0 else None
        self._service = build_service_info(profile, self._url)
        key = {"authorization": f"Bearer {profile.api_key}"} if profile.api_key else {}
        own = {"content-type": "application/json", "accept": "application/json"}
        self._headers = {**own, "user-agent": "joey", **key, **profile.headers}

    @property
    def model_id(self) -> str:
        return f"{self._model} at {self._service.address}"

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        vectors: list[list[float]] = []
        for batch in _iter_batches(texts):
            vectors += await self._embed_batch(batch)
        return vectors

    async def close(self) -> None:
        await self._http.close()

    async def _embed_batch(self, texts: Sequence[str]) -> list[list[float]]:
        """Embed one batch, with retries where useful."""
        wait = self._first_retry_delay
        for attempt in range(1, MAX_ATTEMPTS + 1):
            try:
                return await self._send_request(texts)
            except ProviderError as error:
                pause = wait if error.retry_after is None else error.retry_after
                is_unreachable = error.code in (UNREACHABLE_CODE, NOT_RUNNING_CODE)
                passing = error.failure in _RETRYABLE_FAILURES and not is_unreachable
                if not passing or attempt == MAX_ATTEMPTS or pause > MAX_RETRY_DELAY_S:
                    raise
            await asyncio.sleep(pause)
            wait *= 2
        raise AssertionError("the last attempt returns or raises")

    async def _send_request(self, texts: Sequence[str]) -> list[list[float]]:
        body = {"model": self._model, "input": list(texts), "encoding_format": "float"}
        pieces = [msgspec.json.encode(body)]
        with errors.redact_errors(self._service):
            response = await self._http.post(
                self._url, self._headers, pieces, read_timeout=self._read_timeout
            )
            async with response:
                if response.status != 200:
                    error_body = await response.read_all(errors.MAX_ERROR_BODY_BYTES)
                    raise errors.build_response_error(
                        self._service, response.status, response.headers, error_body
                    )
                answer = await response.read_all(_MAX_RESPONSE_BYTES)
        return await asyncio.to_thread(self._decode_vectors, answer, len(texts))

    def _decode_vectors(self, answer: bytes, count: int) -> list[list[float]]:
        try:
            items = sorted(_response_decoder.decode(answer).data, key=lambda item: item.index)
        except (msgspec.ValidationError, *errors.JSON_DECODE_ERRORS) as error:
            raise errors.build_malformed_response_error(
                self._service, "something other than vectors"
            ) from error
        if len(items) != count:
            what = f"{len(items)} vectors for {count} texts"
            raise errors.build_malformed_response_error(self._service, what)
        return [item.embedding for item in items]


def _iter_batches(texts: Sequence[str]) -> Iterator[Sequence[str]]:
    start = size = 0
    for number, text in enumerate(texts):
        full = number - start >= MAX_BATCH_TEXTS or size + len(text) > MAX_BATCH_CHARS
        if full and number > start:
            yield texts[start:number]
            start, size = number, 0
        size += len(text)
    if start < len(texts):
        yield texts[start:]


_protocol_check: type[Embedder] = EmbeddingClient
