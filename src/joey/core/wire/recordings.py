"""Recordings of requests on the wire: arguments and data of the commands that read them."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct


class _Arguments(Struct, frozen=True, rename="camel", kw_only=True):
    """Arguments; unknown fields are ignored."""


class _Data(Struct, frozen=True, rename="camel", kw_only=True):
    """Data of a successful response."""


_NonNegativeInt = Annotated[int, Meta(ge=0, le=2**53)]
_RecordingNumber = Annotated[int, Meta(ge=1, le=2**53)]


class GetRecordings(_Arguments, frozen=True):
    limit: Annotated[int, Meta(ge=1, le=1000)] = 100
    offset: _NonNegativeInt = 0


class GetRecording(_Arguments, frozen=True):
    session: _RecordingNumber
    limit: Annotated[int, Meta(ge=1, le=200)] = 100
    offset: _NonNegativeInt = 0


class CompareRecordedRequests(_Arguments, frozen=True):
    session: _RecordingNumber
    turn: _RecordingNumber
    other: _RecordingNumber | None = None
    """Another turn of the session; without it, the one that the cache could have been filled by."""


class RecordedSessionInfo(_Data, frozen=True):
    """A conversation in the book of recordings, as `joey proxy list` shows it."""

    id: int
    client: str
    real: bool
    """Not the test traffic of a program for single requests."""
    model: str
    first: int
    last: int
    turns: int
    requests: int
    tokens_in: int
    tokens_out: int
    cache_reads: int
    cost: float | None
    title: str


class RecordedSessions(_Data, frozen=True):
    sessions: list[RecordedSessionInfo]
    """The newest first."""
    total: int


class RecordedUsage(_Data, frozen=True):
    input: int
    """Without the cached ones."""
    output: int
    cache_reads: int
    cache_writes: int


class RecordedCacheMiss(_Data, frozen=True):
    reason: str
    """`none` if there was no miss."""
    tokens: int
    cost: float
    block: int | None
    character: int | None


class RecordedRequest(_Data, frozen=True):
    turn: int
    at: int
    kind: str
    model: str
    status: int
    state: str
    task_id: str | None
    first_byte_ms: float | None
    seconds: float
    usage: RecordedUsage | None
    cost: float | None
    miss: RecordedCacheMiss
    role: str
    """Of the last message."""
    message: str
    """The last message, shortened."""
    reply: str
    """Text and calls, shortened."""
    error: str


class RecordedConversation(_Data, frozen=True):
    session: RecordedSessionInfo
    requests: list[RecordedRequest]
    total: int


class RecordedBlockPair(_Data, frozen=True):
    """The blocks at one position of two requests; texts are cut around the first difference."""

    block: int
    kind: str
    role: str
    state: Literal["same", "changed", "added", "removed"]
    before: str
    after: str
    shared: int
    """Characters at the beginning of both texts that are the same."""
    before_start: int
    """How many characters were left out before the text."""
    before_chars: int
    after_chars: int


class RecordedComparison(_Data, frozen=True):
    session: int
    turn: int
    other: int | None
    """The turn that this one was compared with; none: there is no earlier one."""
    miss: RecordedCacheMiss
    pairs: list[RecordedBlockPair]
    total: int
    """Of pairs; those beyond the first 400 are left out."""
