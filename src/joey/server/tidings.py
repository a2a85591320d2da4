"""A frame on its way to many, made into bytes once."""

from __future__ import annotations

from functools import cached_property

from websockets.frames import Frame, Opcode

from joey.core.wire.frames import EventFrame, encode_frame


class Tidings:
    def __init__(self, frame: EventFrame, row: int | None = None) -> None:
        self.frame = frame
        self.row = row
        """The growing row that it shows; a later one of the same row may take its place."""

    @cached_property
    def data(self) -> bytes:
        """JSON."""
        return encode_frame(self.frame)

    @cached_property
    def packet(self) -> bytes:
        """As it travels: a server's frames are not masked, so they are the same for everybody."""
        return text_packet(self.data)


def text_packet(data: bytes) -> bytes:
    """A WebSocket text frame."""
    return Frame(Opcode.TEXT, data).serialize(mask=False)
