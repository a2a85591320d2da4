"""Reader of spool files: one exchange with its bodies, as far as it was written."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Self

import msgspec
from msgspec import structs

from joey.providers.errors import JSON_DECODE_ERRORS
from joey.proxy.exchange import Exchange, ExchangeState, Tick
from joey.proxy.http_messages import (
    BodyFraming,
    MessageError,
    ResponseStart,
    find_response_framing,
)
from joey.proxy.spool import Frame, FrameKind, SpooledEnd, SpooledHead, iter_frames
from joey.system.files import open_regular_file

_REQUEST_FRAMES = frozenset({FrameKind.REQUEST})
_RESPONSE_FRAMES = frozenset({FrameKind.RESPONSE})
_exchange_decoder = msgspec.json.Decoder(Exchange)
_head_decoder = msgspec.json.Decoder(SpooledHead)
_end_decoder = msgspec.json.Decoder(SpooledEnd)


class UnreadableSpoolError(Exception):
    """Not even the head of the request was written."""


class SpoolReader:
    """Reads bodies from the file in pieces, never as a whole."""

    def __init__(self, path: Path) -> None:
        """Raises OSError or UnreadableSpoolError."""
        self._file = open_regular_file(path)
        self._head: SpooledHead | None = None
        self._end: SpooledEnd | None = None
        try:
            self.exchange = self._read_exchange()
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._file.close()

    @property
    def is_complete(self) -> bool:
        """Whether the exchange has ended."""
        return self._end is not None

    def iter_request(self) -> Iterator[bytes]:
        return (frame.data for frame in iter_frames(self._file, _REQUEST_FRAMES))

    def iter_response(self) -> Iterator[bytes]:
        """Iterate over the response without framing."""
        return (content for _, content in self._iter_content())

    def _read_exchange(self) -> Exchange:
        opened: Exchange | None = None
        request_bytes, first_byte_ms, last_ms = 0, None, 0.0
        with suppress(*JSON_DECODE_ERRORS):  # a power cut has damaged the file from there on
            for frame in iter_frames(self._file):
                last_ms = max(last_ms, frame.ms)
                match frame:
                    case Frame(FrameKind.OPEN):
                        opened = _exchange_decoder.decode(frame.data)
                    case Frame(FrameKind.REQUEST):
                        request_bytes += len(frame.data)
                    case Frame(FrameKind.RESPONSE_HEAD):
                        self._head = _head_decoder.decode(frame.data)
                        first_byte_ms = frame.ms
                    case Frame(FrameKind.END):
                        self._end = _end_decoder.decode(frame.data)
        if opened is None:
            raise UnreadableSpoolError
        end = self._end or SpooledEnd(ExchangeState.CUT_KILLED)
        ticks, response_bytes = self._read_ticks()
        return structs.replace(
            opened,
            state=end.state,
            error=end.error,
            status=self._head.status if self._head else 0,
            response_headers=self._head.headers if self._head else (),
            request_bytes=request_bytes if end.request_bytes is None else end.request_bytes,
            response_bytes=response_bytes if end.response_bytes is None else end.response_bytes,
            first_byte_ms=first_byte_ms,
            seconds=last_ms / 1000,
            ticks=ticks,
        )

    def _read_ticks(self) -> tuple[tuple[Tick, ...], int]:
        ticks = []
        offset = 0
        for ms, content in self._iter_content():
            if content:
                ticks.append(Tick(offset, round(ms, 3)))
            offset += len(content)
        return tuple(ticks), offset

    def _iter_content(self) -> Iterator[tuple[float, bytes]]:
        framing = self._find_framing()
        for frame in iter_frames(self._file, _RESPONSE_FRAMES):
            if framing is None:
                yield frame.ms, frame.data
                continue
            content: list[bytes] = []
            try:
                framing.feed(frame.data, content)
            except MessageError:
                framing = None  # what follows was passed on as it came, and is kept so
                content = [frame.data]
            yield frame.ms, b"".join(content)

    def _find_framing(self) -> BodyFraming | None:
        """Find the framing to remove; None if there is none."""
        if self._head is None or not self._head.is_framed:
            return None
        start = ResponseStart(self._head.status, headers=self._head.headers)
        try:
            return find_response_framing(start, "GET")
        except MessageError:
            return None
