"""Providers that stream: post a body, read server-sent events until the answer is complete.

The decoder of a protocol turns events into chunks and knows when the answer has properly ended.
An answer that ends in any other way is an error, raised after the chunks that did arrive.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from typing import Any, TypeVar

import msgspec
from msgspec import structs

from joey.core.messages import Chunk, ReplySource, SourceChunk, merge_chunks
from joey.core.models import ModelInfo, ModelRequest
from joey.core.settings import ModelRoute, Profile
from joey.errors import ProviderError, ProviderFailureKind
from joey.ports.model import RefusalMemory
from joey.providers import errors
from joey.providers.catalog import build_endpoint_url, find_provider_spec
from joey.providers.conversation_encoder import RequestBuilder
from joey.providers.errors import ServiceInfo
from joey.providers.http_client import HttpClient, HttpResponse
from joey.providers.http_connection import parse_url
from joey.providers.services import (
    IMAGES,
    REFUSED_WITH_IMAGES,
    UNRECORDED,
    identify_service,
)
from joey.providers.sse import EventReader, ServerSentEvent, SseReader

_REFUSING_FAILURES = (
    ProviderFailureKind.INVALID_REQUEST,
    ProviderFailureKind.OVERLOAD,
    ProviderFailureKind.NOT_FOUND,
)
_MAX_DOCUMENT_BYTES = 16 * 1024 * 1024

T = TypeVar("T")


class StreamDecoder(ABC):
    """The state of one answer."""

    is_answer_complete = False
    """The service has said that the answer ends here."""
    is_stream_finished = False
    """Nothing more follows, not even usage."""
    reasoning_field: str | None = None
    """The field in which reasoning came, where the protocol has several."""
    extra_content: dict[str, Any] | None = None
    """The service's own data about the reply."""

    def __init__(self, service: ServiceInfo) -> None:
        self._service = service

    @abstractmethod
    def feed(self, event: ServerSentEvent) -> Iterable[Chunk]:
        """Decode an event. Raises ProviderError if it is an error, or not of this protocol."""

    def _decode(self, decode: Callable[[bytes], T], data: bytes, noun: str) -> T:
        """Decode an event as a struct; `noun` names it in errors."""
        try:
            return decode(data)
        except msgspec.ValidationError as error:
            raise self._build_malformed_error(f"an odd {noun} ({error})") from error
        except errors.JSON_DECODE_ERRORS as error:
            raise self._build_malformed_error(f"a {noun} that is not JSON") from error

    def _build_malformed_error(self, description: str) -> ProviderError:
        return errors.build_malformed_response_error(self._service, description)


class StreamingProvider(ABC):
    """A model at the endpoint that a profile names."""

    api_protocol: str
    _document_key = ""
    """A key that every whole reply has, where one is understood."""

    def __init__(
        self,
        profile: Profile,
        model: ModelInfo,
        http: HttpClient,
        route: ModelRoute | None = None,
        refusal_memory: RefusalMemory | None = None,
    ) -> None:
        self.model = model
        self._profile = profile
        self._http = http
        self._url = self._build_url(profile)
        self._host = parse_url(self._url).host
        self._service = errors.build_service_info(profile, self._url, route)
        own = {"content-type": "application/json", "accept": "text/event-stream"}
        headers = own | {"user-agent": "joey"} | self._build_headers(profile) | profile.headers
        self._headers = {name.lower(): value for name, value in headers.items()}
        self._read_timeout = profile.request_timeout if profile.request_timeout > 0 else None
        self._refusal_memory = refusal_memory
        self._refused: frozenset[str] = frozenset()
        self._unrecorded_refusals: list[str] = []
        """Recorded when a request without them was taken: the cause may have been another one."""
        self._request_builder: RequestBuilder | None = None
        self._next_start = 0.0

    def set_key_source(self, variable: str) -> None:
        """Set the variable that the key came from, for messages; empty means the profile."""
        self._service = structs.replace(self._service, key_source=variable)

    @property
    def address(self) -> str:
        return self._service.address

    @property
    def window_advice(self) -> str:
        return ""

    @property
    def _service_id(self) -> str:
        return identify_service(self._service.provider_name, self._host)

    async def prepare(self) -> None:  # noqa: B027 (nothing to ask is the usual case)
        """Do nothing: hosted models are in the catalogue."""

    def learn_window(self, tokens: int) -> None:
        if tokens < self.model.context_window:
            self._set_model(self.model.limit_window(tokens))

    def shrink_window(self) -> bool:
        return False

    def doubt_window(self) -> None:  # noqa: B027 (only servers on the user's machine have one)
        """Do nothing: the catalogue does not change during a run."""

    def _set_model(self, model: ModelInfo) -> None:
        self.model = model
        if self._request_builder is not None:
            self._request_builder.model = model

    def _build_url(self, profile: Profile) -> str:
        return build_endpoint_url(find_provider_spec(profile.provider), profile.base_url)

    @abstractmethod
    def _build_headers(self, profile: Profile) -> dict[str, str]:
        """Build the headers of every request, with the key if there is one."""

    async def _authorize(self, body: Sequence[bytes]) -> Mapping[str, str]:
        """Return the headers of one request; overridden if it is signed, or needs a new token."""
        return self._headers

    @abstractmethod
    def _make_request_builder(self, refused: frozenset[str]) -> RequestBuilder:
        """Make the request builder; `refused` are parameters that the service rejects
        (`refusals`)."""

    @abstractmethod
    def _make_decoder(self) -> StreamDecoder: ...

    def _make_reader(self) -> EventReader:
        return SseReader()

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Chunk, None]:
        """Stream the reply. A request that is rejected for a dispensable parameter is sent again
        without it."""
        if self._request_builder is None:
            self._refused = (
                self._refusal_memory.load_refused(self) if self._refusal_memory else frozenset()
            )
            self._request_builder = self._rebuild_request_builder()
        while True:
            body, has_begun = self._request_builder.build_body(request), False
            try:
                stream = self._stream(body, self._make_decoder(), request.task_id)
                async with aclosing(stream) as chunks:
                    async for chunk in chunks:
                        if self._unrecorded_refusals:
                            self._record_refusals()
                        has_begun = has_begun or not isinstance(chunk, SourceChunk)
                        yield chunk
                return
            except ProviderError as error:
                name = None if has_begun else self._find_refused_name(error, b"".join(body))
                if name is None:
                    raise
                self._refused |= {name}
                self._unrecorded_refusals.append(name)
                self._request_builder = self._rebuild_request_builder()

    def _rebuild_request_builder(self) -> RequestBuilder:
        if self._refused & {IMAGES, REFUSED_WITH_IMAGES}:
            self.model = structs.replace(self.model, supports_images=False)
        return self._make_request_builder(self._refused)

    def _record_refusals(self) -> None:
        names, self._unrecorded_refusals = self._unrecorded_refusals, []
        if self._refusal_memory is not None:
            for name in names:
                if not name.startswith(UNRECORDED):
                    self._refusal_memory.record_refused(self, name)

    def _find_refused_name(self, error: ProviderError, sent: bytes) -> str | None:
        if error.failure not in _REFUSING_FAILURES:
            return None
        from joey.providers import refusals

        names = (*refusals.OPTIONAL_NAMES, *self._profile.extra_body)
        said = (error.status, error.response, sent)
        return refusals.find_refused_name(
            *said, names, self._refused
        ) or refusals.find_refused_images(*said, self._refused)

    async def _wait_for_rate_limit(self) -> None:
        if not self._profile.rate_limit_seconds:
            return
        now = asyncio.get_running_loop().time()
        if now < self._next_start:
            await asyncio.sleep(self._next_start - now)
        self._next_start = max(now, self._next_start) + self._profile.rate_limit_seconds

    async def _stream(
        self, body: Sequence[bytes], decoder: StreamDecoder, task_id: str | None
    ) -> AsyncGenerator[Chunk, None]:
        """Stream one attempt; closing the generator closes the socket."""
        await self._wait_for_rate_limit()
        headers = await self._authorize(body)
        with errors.redact_errors(self._service):
            response = await self._http.post(
                self._url, headers, body, read_timeout=self._read_timeout, task_id=task_id
            )
        async with response:
            with errors.redact_errors(self._service):
                document = await self._check_response(response)
            yield SourceChunk(self._build_source(decoder))
            if document is not None:
                for chunk in decoder.feed(ServerSentEvent("", document)):
                    yield chunk
                yield SourceChunk(self._build_source(decoder))
                return
            reader = self._make_reader()
            while data := await self._read_chunk(response, decoder):
                events = reader.feed(data)
                for chunk in merge_chunks(
                    chunk for event in events for chunk in decoder.feed(event)
                ):
                    yield chunk
                if decoder.is_stream_finished:
                    await response.drain()
                    break
            if not decoder.is_answer_complete:
                raise errors.build_truncated_stream_error(self._service)
            if decoder.reasoning_field or decoder.extra_content:
                yield SourceChunk(self._build_source(decoder))

    def _build_source(self, decoder: StreamDecoder) -> ReplySource:
        return ReplySource(
            service=self._service_id,
            model=self._profile.model or self.model.id,
            reasoning_field=decoder.reasoning_field,
            extra_content=decoder.extra_content,
        )

    async def close(self) -> None:
        await self._http.close()

    async def _read_chunk(self, response: HttpResponse, decoder: StreamDecoder) -> bytes:
        with errors.redact_errors(self._service):
            try:
                return await response.read()
            except ProviderError:
                if decoder.is_answer_complete:
                    return b""  # the answer is complete: only data after it is lost
                raise

    async def _check_response(self, response: HttpResponse) -> bytes | None:
        """Return a whole reply in JSON, from servers that do not stream; else None. Raises
        ProviderError."""
        kind = response.headers.get("content-type", "")
        if response.status != 200:
            raise await self._read_response_error(response)
        if response.headers.get("content-encoding", "identity") != "identity":
            problem = "a compressed stream, which was not asked for"
        elif "html" in kind:
            problem = "a web page instead of a stream"
        elif "json" in kind and "ndjson" not in kind:
            problem = "a JSON document instead of a stream"
            body = await response.read_all(_MAX_DOCUMENT_BYTES)
            # Some gateways report failures with a status that means success, or reply in one piece.
            document = errors.decode_object(body)
            error = document.get("error") or errors.find_minimax_error(document.get("base_resp"))
            if error:
                raise errors.build_stream_error(self._service, error)
            if self._document_key in document:
                return body
        else:
            return None
        raise errors.build_malformed_response_error(self._service, problem)

    async def _read_response_error(self, response: HttpResponse) -> ProviderError:
        try:
            body = await response.read_all(errors.MAX_ERROR_BODY_BYTES)
        except ProviderError:
            body = b""  # the status matters more than the lost explanation
        return errors.build_response_error(self._service, response.status, response.headers, body)
