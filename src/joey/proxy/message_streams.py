"""Streams of one exchange: a request's body and a response, recorded as they are passed on."""

from __future__ import annotations

from joey.proxy.http_messages import (
    MAX_HEAD_BYTES,
    BodyFraming,
    MessageError,
    ResponseStart,
    find_response_framing,
    parse_response_head,
)
from joey.proxy.recorder import Recording

_HEAD_END = b"\r\n\r\n"
_SWITCHING_PROTOCOLS = 101


class RequestStream:
    def __init__(self, framing: BodyFraming, recording: Recording) -> None:
        self._framing = framing
        self._recording = recording

    @property
    def is_complete(self) -> bool:
        return self._framing.is_complete

    def feed(self, data: bytes) -> int:
        """Record the bytes that belong to the body and return how many do. Raises MessageError."""
        content: list[bytes] = []
        used = self._framing.feed(data, content)
        for piece in content:
            self._recording.add_request(piece)
        return used


class ResponseStream:
    """The stream of a response. All bytes are passed on, even if it is not HTTP/1.1: it then ends
    with its connection."""

    def __init__(self, method: str, recording: Recording) -> None:
        self._method = method
        self._recording = recording
        self._head = bytearray()
        self._framing: BodyFraming | None = None
        self._is_raw = False
        self.is_tunnel = False
        """The response switched to another protocol, which both sides speak from now on."""

    @property
    def is_complete(self) -> bool:
        return self._framing is not None and self._framing.is_complete

    @property
    def ends_with_connection(self) -> bool:
        return self._is_raw or (self._framing is not None and self._framing.ends_with_connection)

    def feed(self, data: bytes) -> bytes:
        """Record bytes and return those that can be passed on now. A head is passed on when
        complete."""
        if self._framing is not None or self._is_raw:
            self._record_body(data)
            return data
        searched = max(len(self._head) - len(_HEAD_END), 0)
        self._head += data
        passed = 0
        while self._framing is None and (end := self._head.find(_HEAD_END, searched)) >= 0:
            end += len(_HEAD_END)
            self._apply_head(bytes(self._head[passed : end - len(_HEAD_END)]))
            passed = searched = end
            if self._is_raw:
                break
        if not self._is_raw and len(self._head) - passed > MAX_HEAD_BYTES and not self._framing:
            self._is_raw = True
        if self._is_raw or self._framing is not None:
            whole, body = bytes(self._head), bytes(self._head[passed:])
            self._head.clear()
            self._record_body(body)
            return whole
        whole = bytes(self._head[:passed])
        del self._head[:passed]
        return whole

    def take_unfinished_head(self) -> bytes:
        """Return the beginning of a head that was never completed."""
        head = bytes(self._head)
        self._head.clear()
        return head

    def _apply_head(self, head: bytes) -> None:
        try:
            start = parse_response_head(head)
            if start.status == _SWITCHING_PROTOCOLS:
                self.is_tunnel = self._is_raw = True
            elif start.status >= 200:
                self._framing = find_response_framing(start, self._method)
            else:
                return  # an interim response: another one follows
        except MessageError:
            start = ResponseStart(0, headers=())
            self._is_raw = True
        self._recording.add_response_head(start, is_framed=not self._is_raw)

    def _record_body(self, data: bytes) -> None:
        if not data:
            return
        if self._recording.keeps_response:
            self._recording.add_response(data[: self._find_end(data, None)])
            return
        content: list[bytes] = []
        self._find_end(data, content)
        self._recording.count_response(sum(map(len, content)))

    def _find_end(self, data: bytes, content: list[bytes] | None) -> int:
        """Return how many bytes belong to the body, whose content is added to `content`."""
        if self._framing is not None:
            try:
                return self._framing.feed(data, content)
            except MessageError:
                self._framing, self._is_raw = None, True
        if content is not None:
            content.append(data)
        return len(data)
