"""Fixtures: a recorded session in its own file, to be played to a client or stored with tests.

The file is JSON. UTF-8 bodies are text, so that two fixtures can be compared by eye; secrets in
headers, parameters and fields are masked as in the book.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct, structs

from joey.errors import UserError
from joey.proxy.exchange import Exchange, ExchangeState, Header, Tick, Wire, find_header
from joey.proxy.recordings import RecordedTurn, Recordings
from joey.proxy.reply_decoder import decompress
from joey.system.files import read_regular_file

_OTHER_WINDOW_MS = 60_000


class FixtureBody(Struct, frozen=True, omit_defaults=True):
    text: str = ""
    data: bytes = b""
    """Used instead of `text` for a body that is not UTF-8; base64 in the file."""

    @property
    def content(self) -> bytes:
        return self.data or self.text.encode()


class FixtureExchange(Struct, frozen=True, rename="camel", kw_only=True):
    name: str
    """Name of the recorded request, such as `3.2`."""
    wire: Wire
    method: str
    path: str
    request: FixtureBody
    content_type: str = ""
    """Of the request."""
    status: int
    state: ExchangeState
    headers: tuple[Header, ...] = ()
    """Of the response."""
    response: FixtureBody
    ticks: tuple[Tick, ...] = ()


class Fixture(Struct, frozen=True, kw_only=True):
    format: Literal["joey proxy fixture"] = "joey proxy fixture"
    version: Literal[1] = 1
    client: str = ""
    title: str = ""
    redacted: bool = False
    """True if secrets were also removed from texts; client requests are then compared without
    theirs."""
    exchanges: tuple[FixtureExchange, ...] = ()


_decoder = msgspec.json.Decoder(Fixture)


def build_fixture(recordings: Recordings, session: int) -> Fixture:
    """Build a fixture of a session, with other requests of its client at that time, such as lists
    of models. Raises UserError if there is no such session, or its bodies were not recorded."""
    turns = recordings.list_turns(session)
    exchanges = [(turn, recordings.exchange(turn)) for turn in turns]
    if not all(exchange.has_bodies for _, exchange in exchanges):
        raise UserError(f"the bodies of session {session} were not recorded (--no-bodies)")
    agents = {exchange.user_agent for _, exchange in exchanges}
    first = exchanges[0][1].at - _OTHER_WINDOW_MS
    last = exchanges[-1][1].at + _OTHER_WINDOW_MS
    for turn in recordings.list_turns(0) if session else ():
        other = recordings.exchange(turn)
        if other.user_agent in agents and first <= other.at <= last and other.has_bodies:
            exchanges.append((turn, other))
    exchanges.sort(key=lambda each: (each[1].at, each[1].id))
    found = next((s for s in recordings.list_sessions() if s.id == session), None)
    return Fixture(
        client=found.client if found else "",
        title=found.title if found else "",
        exchanges=tuple(_build_exchange(recordings, *each) for each in exchanges),
    )


def load_fixture(path: Path) -> Fixture:
    """Load a fixture. Raises UserError if the file cannot be read or is not a fixture."""
    try:
        data = read_regular_file(path)
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}") from error
    if data is None:
        raise UserError(f"no such file: {path}. joey proxy list shows the recorded sessions")
    try:
        return _decoder.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise UserError(
            f"{path} is not a fixture ({error}); joey proxy export SESSION --as fixture writes one"
        ) from error


def encode_fixture(fixture: Fixture) -> bytes:
    return msgspec.json.format(msgspec.json.encode(fixture), indent=2) + b"\n"


def redact_fixture(fixture: Fixture, redact: Callable[[str], str]) -> Fixture:
    """Remove secrets from all texts. Raises UserError if a body is not text, so that it cannot be
    checked."""
    exchanges = (_redact_exchange(each, redact) for each in fixture.exchanges)
    return structs.replace(
        fixture, title=redact(fixture.title), exchanges=tuple(exchanges), redacted=True
    )


def _build_exchange(
    recordings: Recordings, turn: RecordedTurn, exchange: Exchange
) -> FixtureExchange:
    return FixtureExchange(
        name=turn.name,
        wire=exchange.wire,
        method=exchange.method,
        path=exchange.path,
        request=_build_body(recordings.book.request_body(exchange.id)),
        content_type=find_header(exchange.request_headers, "content-type"),
        status=exchange.status,
        state=exchange.state,
        headers=exchange.response_headers,
        response=_build_body(recordings.book.response_body(exchange.id)),
        ticks=exchange.ticks,
    )


def _build_body(content: bytes) -> FixtureBody:
    try:
        return FixtureBody(text=content.decode("utf-8"))
    except UnicodeDecodeError:
        return FixtureBody(data=content)


def _redact_exchange(exchange: FixtureExchange, redact: Callable[[str], str]) -> FixtureExchange:
    headers = exchange.headers
    encoding = find_header(headers, "content-encoding")
    response = exchange.response
    if encoding:
        response = _build_body(decompress(response.content, encoding))
        headers = tuple(each for each in headers if each[0].lower() != "content-encoding")
    if response.data or exchange.request.data:
        raise UserError(
            f"request {exchange.name} has a body that is not text, so secrets in it cannot be"
            " found; export it without --redact"
        )
    redacted = FixtureBody(text=redact(response.text))
    return structs.replace(
        exchange,
        path=redact(exchange.path),
        request=FixtureBody(text=redact(exchange.request.text)),
        headers=tuple((name, redact(value)) for name, value in headers),
        response=redacted,
        ticks=exchange.ticks if redacted == exchange.response else (),
    )
