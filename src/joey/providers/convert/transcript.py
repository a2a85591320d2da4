"""A conversation as bytes, for requests that each repeat all of it.

A conversation grows at its end. What has settled is encoded and joined once and never looked at
again; only the last messages, which may carry cache marks, are encoded for each request. So a
request costs what is new in it, and one copy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from joey.core.messages import Message


class MessageEncoder(Protocol):
    def __call__(self, message: Message, *, mark: bool) -> bytes:
        """The message on the wire; nothing when nothing of it may be sent."""
        ...


class Transcript:
    def __init__(
        self, encode: MessageEncoder, marks: int, takes_mark: Callable[[Message], bool]
    ) -> None:
        """`marks` is how many of the last messages that `takes_mark` names are marked."""
        self._encode = encode
        self._marks = marks
        self._takes_mark = takes_mark
        self._settled: tuple[Message, ...] = ()
        self._bytes = bytearray()

    def pieces(self, messages: Sequence[Message]) -> list[bytes | bytearray]:
        """The messages, separated by commas, in pieces to be joined with nothing between."""
        conversation = tuple(messages)
        first_marked = self._first_marked(conversation)
        self._settle(conversation[:first_marked])
        pieces: list[bytes | bytearray] = [self._bytes] if self._bytes else []
        for message in conversation[first_marked:]:
            if data := self._encode(message, mark=self._takes_mark(message)):
                pieces += [b",", data] if pieces else [data]
        return pieces

    def _first_marked(self, messages: tuple[Message, ...]) -> int:
        left = self._marks
        place = len(messages)
        while left and place:
            place -= 1
            left -= self._takes_mark(messages[place])
        return place if self._marks else len(messages)

    def _settle(self, messages: tuple[Message, ...]) -> None:
        if messages[: len(self._settled)] != self._settled:
            # Another conversation, or this one was rewound.
            self._settled, self._bytes = (), bytearray()
        for message in messages[len(self._settled) :]:
            if data := self._encode(message, mark=False):
                if self._bytes:
                    self._bytes += b","
                self._bytes += data
        self._settled = messages
