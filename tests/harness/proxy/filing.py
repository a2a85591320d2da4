"""Exchanges filed straight into a book, for tests of its analysis."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from joey.proxy.book import Book, open_book
from joey.proxy.exchange import Exchange, ExchangeState, Wire
from joey.proxy.recordings import Recordings

ANTHROPIC_PATH = "/v1/messages"
CHAT_PATH = "/v1/chat/completions"
RESPONSES_PATH = "/v1/responses"


def open_recordings(path: Path, exchanges: Sequence[dict[str, Any]]) -> Recordings:
    """File exchanges as `roo_traffic` describes them."""
    book = open_book(path)
    for each in exchanges:
        file_exchange(book, **each)
    return Recordings(book)


def file_exchange(
    book: Book,
    *,
    request: Any,
    response: str | bytes = b"",
    at: int = 1_000,
    user_agent: str = "OpenAI/JS 5.0",
    path: str = CHAT_PATH,
    status: int = 200,
    state: ExchangeState = ExchangeState.DONE,
    headers: Sequence[tuple[str, str]] = (),
    response_headers: Sequence[tuple[str, str]] = (),
    content_type: str = "text/event-stream",
    upstream: str = "https://service.example/v1",
    error: str = "",
) -> int:
    wire = Wire.ANTHROPIC if path == ANTHROPIC_PATH else Wire.OPENAI
    body = request if isinstance(request, bytes) else json.dumps(request).encode()
    answer = response.encode() if isinstance(response, str) else response
    number = book.add(
        Exchange(
            at=at,
            wire=wire,
            method="POST",
            path=path,
            upstream=upstream,
            status=status,
            state=state,
            request_headers=(("User-Agent", user_agent), *headers),
            response_headers=(("Content-Type", content_type), *response_headers),
            request_bytes=len(body),
            response_bytes=len(answer),
            first_byte_ms=20.0,
            seconds=1.0,
            error=error,
        ),
        body,
        answer,
    )
    assert number is not None
    return number
