"""Recorded exchange: the facts of one request to a model's service and of its response."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct


class Wire(StrEnum):
    """Whose API a request speaks."""

    ANTHROPIC = "anthropic"
    OPENAI = "openai"
    """The OpenAI protocol: chat completions, Responses, and every other path."""


class ExchangeState(StrEnum):
    """How an exchange ended."""

    DONE = "done"
    CUT_CLIENT = "cut client"
    """The client closed its connection before the end of the response."""
    CUT_UPSTREAM = "cut upstream"
    """The service broke the connection before the end of the response."""
    CUT_KILLED = "cut killed"
    """The recording process died before the end of the response."""
    UNREACHABLE = "unreachable"
    """The connection to the service could not be established."""


Header = tuple[str, str]
"""Name and value as they were sent, decoded as Latin-1; values of secrets are masked."""


class Tick(Struct, frozen=True, array_like=True):
    """Arrival of one piece of the response's body."""

    offset: int
    """Offset of the piece's first byte in the body."""
    ms: float
    """Milliseconds since the request arrived."""


class Exchange(Struct, frozen=True, kw_only=True):
    """Everything recorded about one exchange except for its two bodies, which `Book.request_body`
    and `Book.response_body` read on demand."""

    id: int = 0
    """Assigned by the book, in the order of filing. 0: not filed yet."""
    at: int
    """When the request arrived, in milliseconds since 1970. Exchanges are ordered by (at, id)."""
    wire: Wire
    method: str
    path: str
    """The target as the client wrote it, query included; without the proxy's own prefixes, and
    with the values of secret parameters masked."""
    upstream: str = ""
    """The URL that the target was appended to, without credentials."""
    status: int = 0
    """0 when no response came."""
    state: ExchangeState = ExchangeState.DONE
    request_headers: tuple[Header, ...] = ()
    response_headers: tuple[Header, ...] = ()
    request_bytes: int = 0
    """Size of the request's body, whether or not the body itself was kept."""
    response_bytes: int = 0
    """Size of the response's body without chunk framing and trailers."""
    has_bodies: bool = True
    """Whether the bodies were kept (see `--no-bodies`)."""
    first_byte_ms: float | None = None
    """From the request's arrival to the first byte of the response."""
    seconds: float = 0.0
    """From the request's arrival to the end of the response."""
    ticks: tuple[Tick, ...] = ()
    """When the pieces of the response's body arrived."""
    task_id: str | None = None
    """The joey task that sent the request."""
    error: str = ""
    """Why the exchange failed, as reported to the client."""

    @property
    def user_agent(self) -> str:
        return find_header(self.request_headers, "user-agent")

    @property
    def content_encoding(self) -> str:
        """The content encoding of the response's body."""
        return find_header(self.response_headers, "content-encoding")


def find_header(headers: tuple[Header, ...], wanted: str) -> str:
    """Find a header; `wanted` is in lower case; empty if missing."""
    return next((value for name, value in headers if name.lower() == wanted), "")
