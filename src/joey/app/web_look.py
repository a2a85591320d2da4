"""One small question to a web address: what answers there, and with what.

The client of the model services speaks to them for long; this one asks once, waits for little,
and says at which step it got stuck.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping

import msgspec
from msgspec import Struct

from joey.errors import ProviderError, Trouble
from joey.providers.connection import Address, Connection, connect, parse_url, proxy_for
from joey.providers.http_reader import End, Head, ProtocolError, ResponseReader

MOST = 4 * 1024 * 1024
"""Bytes of an answer that are read: lists of models are long, and some are no lists."""


class Answer(Struct, frozen=True):
    status: int
    body: bytes

    @property
    def json(self) -> object:
        """What it says; None when that is no JSON."""
        try:
            return msgspec.json.decode(self.body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None


async def look(
    url: str, env: Mapping[str, str], seconds: float, headers: Mapping[str, str] | None = None
) -> Answer:
    """The answer to GET.

    Raises:
        ProviderError: nobody there, no such name, no trust, too slow, or no HTTP.
        ConfigError: the address, or a proxy's in the environment, is not one.
    """
    address = parse_url(url)
    target = Address(address.host, address.port, address.secure)
    proxy = proxy_for(target, env)
    try:
        async with asyncio.timeout(seconds):
            connection = await connect(target, proxy, ssl.create_default_context, seconds)
            try:
                connection.send((_request(address, proxy, headers or {}),))
                return await _answer(connection)
            finally:
                connection.abort()
    except TimeoutError as error:
        text = f"{target.shown} did not answer within {seconds:g} seconds."
        raise ProviderError(text, trouble=Trouble.NETWORK) from error
    except (OSError, ProtocolError) as error:
        text = f"{target.shown} does not answer like a web server ({error})."
        raise ProviderError(text, trouble=Trouble.NETWORK) from error


async def _answer(connection: Connection) -> Answer:
    """Raises OSError, ProtocolError."""
    reader = ResponseReader()
    status, pieces, size = 0, list[bytes](), 0
    while size < MOST:
        data = await connection.receive()
        for event in reader.feed(data) if data else reader.close():
            match event:
                case Head():
                    status = event.status
                case End():
                    return Answer(status, b"".join(pieces))
                case bytes():
                    pieces.append(event)
                    size += len(event)
        if not data:
            break
    return Answer(status, b"".join(pieces))


def _request(address: Address, proxy: Address | None, headers: Mapping[str, str]) -> bytes:
    fields = {"Host": address.authority, "Accept": "application/json", **headers}
    path = address.path
    if proxy is not None and not address.secure:
        path = f"http://{address.authority}{path}"
        if proxy.proxy_authorization:
            fields["Proxy-Authorization"] = proxy.proxy_authorization
    fields |= {"Accept-Encoding": "identity", "Connection": "close"}
    # What cannot stand in a header is left out: the question is only whether somebody answers.
    told = (f"{k}: {v}" for k, v in fields.items() if v.isascii() and v.isprintable())
    return "\r\n".join([f"GET {path} HTTP/1.1", *told, "", ""]).encode("ascii")
