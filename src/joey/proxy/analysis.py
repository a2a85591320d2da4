"""Analysis of recorded exchanges: client, session, usage, money and format, stored in the book.

It runs when a command reads the book, over the exchanges recorded since then, in the order of
arrival. Several processes may do so at the same time: each group is one transaction.
"""

from __future__ import annotations

import re
import sqlite3
from functools import lru_cache, partial

from msgspec import Struct

from joey.core.messages import Usage
from joey.core.text import compile_regex, to_one_line
from joey.proxy.book import Book
from joey.proxy.call_formats import CallFormat, detect_format, list_known_tools
from joey.proxy.clients import OWN_CLIENT, Client, find_session_key, identify_client
from joey.proxy.conversations import (
    ConversationFinder,
    Placement,
    RequestKind,
    compute_prefix_hashes,
)
from joey.proxy.exchange import Exchange, find_header
from joey.proxy.pricing import compute_cost
from joey.proxy.reply_decoder import RecordedReply, decode_reply, decompress
from joey.proxy.request_blocks import ModelRequestBody, decode_request, list_texts

OTHER_SESSION = 0
"""Paths of requests outside conversations: model lists, token counts, unreadable requests."""
_GROUP_SIZE = 50
_MAX_TITLE_CHARS = 120
_TASK_RE = compile_regex(r"<(task|user_query|user_message)>\s*(.*?)\s*</\1>", re.DOTALL)
_ADDED_TEXT_RE = compile_regex(
    r"\s*<(?:system-reminder|environment_(?:details|context)|user_instructions|env|context)\b"
)


def analyze_new_exchanges(book: Book) -> None:
    """Analyze new exchanges. Raises StoreError if the book cannot be used."""
    while _analyze_group(book) == _GROUP_SIZE:
        pass


def load_request(book: Book, exchange: Exchange) -> ModelRequestBody | None:
    """Load the request of an exchange, if it was one to a model and its body was recorded."""
    if not exchange.has_bodies or exchange.method != "POST":
        return None
    encoding = find_header(exchange.request_headers, "content-encoding")
    body = decompress(book.request_body(exchange.id), encoding)
    return decode_request(exchange.path, body)


def load_request_by_number(book: Book, number: int) -> ModelRequestBody | None:
    return load_request(book, book.exchange(number))


def load_reply(book: Book, exchange: Exchange, request: ModelRequestBody) -> RecordedReply:
    return decode_reply(request.api, exchange, book.response_body(exchange.id))


def _analyze_group(book: Book) -> int:
    with book.transaction() as connection:
        rows = connection.execute(
            "SELECT id FROM exchange WHERE session IS NULL ORDER BY at, id LIMIT ?", (_GROUP_SIZE,)
        ).fetchall()
        analyzer = _Analyzer(book, connection)
        for (number,) in rows:
            analyzer.analyze(book.exchange(number))
    return len(rows)


class _Facts(Struct, frozen=True, kw_only=True):
    """The columns of one exchange."""

    client: Client | None = None
    model: str = ""
    session: int = OTHER_SESSION
    parent: int | None = None
    kind: RequestKind = RequestKind.OTHER
    is_streamed: bool = False
    usage: Usage | None = None
    cost: float | None = None
    cost_by: str | None = None
    stop: str | None = None
    call_format: CallFormat | None = None
    error: str = ""


class _Analyzer:
    def __init__(self, book: Book, connection: sqlite3.Connection) -> None:
        self._book = book
        self._connection = connection
        self._load_request = lru_cache(maxsize=32)(partial(load_request_by_number, book))

    def analyze(self, exchange: Exchange) -> None:
        request = load_request(self._book, exchange)
        if request is None:
            self._store(exchange, _Facts(error=exchange.error))
            return
        reply = load_reply(self._book, exchange, request)
        tools = list_known_tools(request)
        names = [tool.name for tool in tools]
        client = OWN_CLIENT
        if exchange.task_id is None:
            client = identify_client(exchange.user_agent, request.system_texts, names)
        key = find_session_key(exchange, request)
        finder = ConversationFinder(
            self._connection, exchange, request, self._load_request, is_test=client.is_test
        )
        place = finder.find(key)
        session = self._enter_session(exchange, request, client, place, key)
        cost = compute_cost(exchange.wire, request.model, reply.usage)
        is_stated = reply.usage is not None and reply.usage.cost is not None
        facts = _Facts(
            client=client,
            model=request.model,
            session=session,
            parent=place.parent,
            kind=place.kind,
            is_streamed=request.is_streamed,
            usage=reply.usage,
            cost=cost,
            cost_by=None if cost is None else "service" if is_stated else "catalogue",
            stop=reply.stop,
            call_format=detect_format(reply, tools) if reply.has_content else None,
            error=reply.error or exchange.error,
        )
        self._store(exchange, facts)
        hashes = compute_prefix_hashes(request.messages)
        if hashes:
            prefix = (hashes[-1], exchange.id, len(hashes))
            self._connection.execute("INSERT OR IGNORE INTO prefix VALUES (?, ?, ?)", prefix)
        marks = [(mark, exchange.id) for mark in reply.marks]
        self._connection.executemany("INSERT OR IGNORE INTO reply VALUES (?, ?)", marks)

    def _enter_session(
        self,
        exchange: Exchange,
        request: ModelRequestBody,
        client: Client,
        place: Placement,
        key: str | None,
    ) -> int:
        """Create the session, or add the request to it; return its number."""
        title = find_title(request)
        if place.session is None:
            row = self._connection.execute(
                "INSERT INTO session (key, client, client_by, first, last, title, real)"
                " VALUES (?, ?, ?, ?, ?, ?, ?) RETURNING id",
                (key, client.name, client.by, exchange.at, exchange.at, title, not client.is_test),
            ).fetchone()
            return int(row[0])
        if place.side_of_this is not None:
            self._connection.execute(
                "UPDATE exchange SET kind = ? WHERE id = ?",
                (RequestKind.SIDE, place.side_of_this),
            )
        if place.kind is RequestKind.FIRST:
            self._connection.execute(
                "UPDATE session SET client = ?, client_by = ?, title = ? WHERE id = ?",
                (client.name, client.by, title, place.session),
            )
        self._connection.execute(
            "UPDATE session SET first = min(first, ?), last = max(last, ?),"
            " key = coalesce(key, ?) WHERE id = ?",
            (exchange.at, exchange.at, key, place.session),
        )
        return place.session

    def _store(self, exchange: Exchange, facts: _Facts) -> None:
        usage, client = facts.usage, facts.client
        uncached = usage and max(0, usage.input - usage.cache_reads - usage.cache_writes)
        self._connection.execute(
            "UPDATE exchange SET client = ?, client_by = ?, model = ?, session = ?, parent = ?,"
            " kind = ?, stream = ?, input = ?, output = ?, cache_reads = ?, cache_writes = ?,"
            " cost = ?, cost_by = ?, stop = ?, format = ?, error = ? WHERE id = ?",
            (
                *((client.name, client.by) if client else (None, None)),
                *(facts.model, facts.session, facts.parent, facts.kind, facts.is_streamed),
                uncached,
                *((usage.output, usage.cache_reads, usage.cache_writes) if usage else [None] * 3),
                *(facts.cost, facts.cost_by, facts.stop, facts.call_format, facts.error),
                exchange.id,
            ),
        )


def find_title(request: ModelRequestBody) -> str:
    """Return the first line of the user's first message."""
    for block in request.messages:
        if block.role != "user":
            continue
        for text in list_texts(block):
            if task := _TASK_RE.search(text):
                return to_one_line(task[2], _MAX_TITLE_CHARS)
            if text.strip() and not _ADDED_TEXT_RE.match(text):
                return to_one_line(text, _MAX_TITLE_CHARS)
    return ""
