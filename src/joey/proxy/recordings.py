"""Recordings: the analysed sessions of a book, and their requests by number.

A request is called `SESSION.TURN`: turns count all requests of a session in the order of arrival.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache, partial
from typing import Any

import msgspec
from msgspec import Struct

from joey.core.messages import Usage
from joey.core.text import compile_regex
from joey.errors import UserError
from joey.proxy.analysis import (
    OTHER_SESSION,
    analyze_new_exchanges,
    load_reply,
    load_request_by_number,
)
from joey.proxy.book import Book
from joey.proxy.call_formats import CallFormat
from joey.proxy.clients import ClientEvidence
from joey.proxy.conversations import RequestKind
from joey.proxy.exchange import Exchange
from joey.proxy.reply_decoder import RecordedReply
from joey.proxy.request_blocks import ModelRequestBody

_LOADED_REQUESTS = 8
_NAME_RE = compile_regex(r"(\d+)(?:\.(\d+))?")
_SESSION_SQL = """
    SELECT s.id, s.client, s.client_by, s.real,
        coalesce((SELECT model FROM exchange m WHERE m.session = s.id AND m.model != ''
            ORDER BY m.kind = 'side', m.at DESC, m.id DESC LIMIT 1), ''),
        s.first, s.last,
        sum(e.kind != 'side'), count(*),
        coalesce(sum(e.input + e.cache_reads + e.cache_writes), 0), coalesce(sum(e.output), 0),
        coalesce(sum(e.cache_reads), 0), sum(e.cost), s.title
    FROM session s JOIN exchange e ON e.session = s.id
"""
"""Columns in the order of the fields of `RecordedSession`."""
_TURN_SQL = """
    SELECT id, client, client_by, model, parent, kind, input, output, cache_reads, cache_writes,
        cost, stop, format, error
    FROM exchange WHERE session = ? ORDER BY at, id
"""


class RecordedSession(Struct, frozen=True, rename="camel"):
    id: int
    client: str
    client_by: ClientEvidence
    real: bool
    """Not the test traffic of a program for single requests."""
    model: str
    first: int
    """When its first request arrived, in milliseconds since 1970."""
    last: int
    turns: int
    """The session's requests, without side requests."""
    requests: int
    tokens_in: int
    tokens_out: int
    cache_reads: int
    cost: float | None
    """In dollars; None if no price is known."""
    title: str


class RecordedTurn(Struct, frozen=True):
    """One request, as its analysis found it."""

    session: int
    turn: int
    exchange_id: int
    client: str
    client_by: ClientEvidence | None
    model: str
    parent: int | None
    """The exchange that this one continues."""
    kind: RequestKind
    usage: Usage | None
    cost: float | None
    stop: str | None
    call_format: CallFormat | None
    error: str

    @property
    def name(self) -> str:
        return f"{self.session}.{self.turn}"


class Recordings:
    """An analysed book."""

    def __init__(self, book: Book) -> None:
        analyze_new_exchanges(book)
        self.book = book
        self._load = lru_cache(maxsize=_LOADED_REQUESTS)(partial(load_request_by_number, book))

    def list_sessions(self, *, client: str | None = None, since: int = 0) -> list[RecordedSession]:
        """List the sessions in the order in which they began."""
        sql = f"{_SESSION_SQL} WHERE s.last >= ? GROUP BY s.id ORDER BY s.first, s.id"
        rows = self.book.fetch_all(sql, (since,))
        sessions = [_build_session(row) for row in rows]
        return [each for each in sessions if client is None or each.client == client]

    def find_session(self, text: str) -> int:
        """Find a session. Raises UserError if there is none of this number."""
        session, turn = _parse_name(text)
        if turn is not None:
            raise UserError(f"{text} is one request; name its session: {session}")
        self.list_turns(session)
        return session

    def find_turn(self, text: str) -> RecordedTurn:
        """Find a turn. Raises UserError if there is no such request."""
        session, turn = _parse_name(text)
        if turn is None:
            raise UserError(f"{text} is a session; name one of its requests, such as {text}.1")
        turns = self.list_turns(session)
        if not 1 <= turn <= len(turns):
            raise UserError(
                f"session {session} has no request {turn}; joey proxy show {session} lists them"
            )
        return turns[turn - 1]

    def list_turns(self, session: int) -> list[RecordedTurn]:
        """List the turns of a session. Raises UserError if there is no such session."""
        rows = self.book.fetch_all(_TURN_SQL, (session,))
        if not rows and session != OTHER_SESSION:
            raise UserError(
                f"session {session} does not exist; joey proxy list --all lists all sessions"
            )
        return [_build_turn(session, number, row) for number, row in enumerate(rows, 1)]

    def iter_turns(self, sessions: list[int]) -> Iterator[RecordedTurn]:
        for session in sessions:
            yield from self.list_turns(session)

    def count_other_requests(self, since: int = 0) -> int:
        """Count requests that are not conversations: lists of models, token counts, unreadable
        ones."""
        sql = "SELECT count(*) FROM exchange WHERE session = ? AND at >= ?"
        return int(self.book.fetch_all(sql, (OTHER_SESSION, since))[0][0])

    def exchange(self, turn: RecordedTurn) -> Exchange:
        return self.book.exchange(turn.exchange_id)

    def request(self, turn: RecordedTurn) -> ModelRequestBody | None:
        return self._load(turn.exchange_id)

    def reply(self, turn: RecordedTurn, request: ModelRequestBody) -> RecordedReply:
        return load_reply(self.book, self.exchange(turn), request)


def _parse_name(text: str) -> tuple[int, int | None]:
    match = _NAME_RE.fullmatch(text)
    if match is None:
        raise UserError(f"{text!r} is not a session (such as 3) or a request (such as 3.2)")
    return int(match[1]), int(match[2]) if match[2] else None


def _build_session(row: tuple[Any, ...]) -> RecordedSession:
    values = dict(zip(RecordedSession.__struct_encode_fields__, row, strict=True))
    return msgspec.convert(values, RecordedSession, strict=False)  # flags are integers


def _build_turn(session: int, number: int, row: tuple[Any, ...]) -> RecordedTurn:
    exchange, client, by, model, parent, kind, fresh, output, reads, writes, cost, *rest = row
    stop, call_format, error = rest
    usage = None
    if fresh is not None:
        usage = Usage(fresh + reads + writes, output, cache_writes=writes, cache_reads=reads)
    return RecordedTurn(
        session=session,
        turn=number,
        exchange_id=exchange,
        client=client or "",
        client_by=ClientEvidence(by) if by else None,
        model=model or "",
        parent=parent,
        kind=RequestKind(kind),
        usage=usage,
        cost=cost,
        stop=stop,
        call_format=CallFormat(call_format) if call_format else None,
        error=error or "",
    )
