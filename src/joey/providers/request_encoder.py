"""Incremental encoder of a conversation, for requests that each repeat all of it.

A conversation grows at its end. Settled messages are encoded once and never looked at again; only
the last ones, which may carry cache marks, are encoded for each request. Settled bytes are kept
in a few blocks, each at least twice as long as the next, and sent as they are: a request costs
what is new in it, and the sending.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from joey.core.messages import Message


class MessageEncoder(Protocol):
    def __call__(self, message: Message, *, mark: bool) -> bytes:
        """The message on the wire; nothing when nothing of it may be sent."""
        ...


class ConversationEncoder:
    def __init__(
        self, encode: MessageEncoder, marks: int, takes_mark: Callable[[Message], bool]
    ) -> None:
        """`marks` is how many of the last messages that `takes_mark` names are marked."""
        self._encode = encode
        self._marks = marks
        self._takes_mark = takes_mark
        self._settled: tuple[Message, ...] = ()
        self._blocks: list[bytes] = []

    def pieces(self, messages: Sequence[Message]) -> list[bytes]:
        """The messages, separated by commas, in pieces to be joined with nothing between."""
        conversation = tuple(messages)
        first_marked = self._first_marked(conversation)
        self._settle(conversation[:first_marked])
        pieces = self._blocks[:]
        for message in conversation[first_marked:]:
            if data := self._encode(message, mark=self._takes_mark(message)):
                pieces.append(b"," + data if pieces else data)
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
            self._settled, self._blocks = (), []
        for message in messages[len(self._settled) :]:
            if data := self._encode(message, mark=False):
                self._add(b"," + data if self._blocks else data)
        self._settled = messages

    def _add(self, data: bytes) -> None:
        blocks = self._blocks
        blocks.append(data)
        while len(blocks) > 1 and len(blocks[-2]) < 2 * len(blocks[-1]):
            blocks[-2:] = [blocks[-2] + blocks[-1]]
