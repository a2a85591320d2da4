"""Request bodies, encoded incrementally: each request repeats the whole conversation.

A conversation grows at its end. Settled messages are encoded once; only the last ones, which may
have cache marks, are encoded for each request. Settled bytes are kept in a few blocks, each at
least twice as long as the next, and sent unchanged: a request costs only its new part, and the
sending.

The environment details that follow the results of calls are sent as part of the last result. Some
services accept no user message there, and the templates of many models drop earlier reasoning at
one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import msgspec
from msgspec.structs import replace

from joey.core.messages import Message, TextBlock, ToolResultBlock
from joey.core.models import ModelInfo, ModelRequest, ToolSpec
from joey.core.prompts.environment import strip_environment_details

_MAX_CACHE_MARKS = 2

encode_json = msgspec.json.Encoder().encode


class MessageEncoder(Protocol):
    def __call__(self, message: Message, *, mark: bool) -> bytes:
        """Encode a message; empty if none of it may be sent."""


class IncrementalConversationEncoder:
    def __init__(
        self, encode: MessageEncoder, marks: int, takes_mark: Callable[[Message], bool]
    ) -> None:
        """`marks` is how many of the last messages that `takes_mark` names are marked."""
        self._encode_message = encode
        self._cache_mark_count = marks
        self._can_carry_cache_mark = takes_mark
        self._cached_messages: tuple[Message, ...] = ()
        self._cached_blocks: list[bytes] = []

    def encode_conversation(self, messages: Sequence[Message]) -> list[bytes]:
        """Encode the messages, separated by commas, in pieces to be concatenated."""
        conversation = tuple(messages)
        first_marked = self._find_first_marked(conversation)
        self._cache_messages(conversation[:first_marked])
        pieces = self._cached_blocks[:]
        for message in conversation[first_marked:]:
            is_marked = self._can_carry_cache_mark(message)
            if data := self._encode_message(merge_environment(message), mark=is_marked):
                pieces.append(b"," + data if pieces else data)
        return pieces

    def _find_first_marked(self, messages: tuple[Message, ...]) -> int:
        left = self._cache_mark_count
        index = len(messages)
        while left and index:
            index -= 1
            left -= self._can_carry_cache_mark(messages[index])
        return index if self._cache_mark_count else len(messages)

    def _cache_messages(self, messages: tuple[Message, ...]) -> None:
        if messages[: len(self._cached_messages)] != self._cached_messages:
            # Another conversation, or this one was rewound.
            self._cached_messages, self._cached_blocks = (), []
        for message in messages[len(self._cached_messages) :]:
            if data := self._encode_message(merge_environment(message), mark=False):
                blocks = self._cached_blocks
                blocks.append(b"," + data if blocks else data)
                while len(blocks) > 1 and len(blocks[-2]) < 2 * len(blocks[-1]):
                    blocks[-2:] = [blocks[-2] + blocks[-1]]
        self._cached_messages = messages


def merge_environment(message: Message) -> Message:
    """Move the environment details of a message to the end of its last result, if it has both."""
    content = message.content
    if message.role != "user" or isinstance(content, str):
        return message
    kept = list(strip_environment_details(content))
    results = [index for index, each in enumerate(kept) if isinstance(each, ToolResultBlock)]
    details = "\n\n".join(
        each.text for each in content if isinstance(each, TextBlock) and each not in kept
    )
    if not details or not results:
        return message
    last = kept[results[-1]]
    assert isinstance(last, ToolResultBlock)
    merged = (
        f"{last.content}\n\n{details}"
        if isinstance(last.content, str)
        else (*last.content, TextBlock(details))
    )
    kept[results[-1]] = replace(last, content=merged)
    return replace(message, content=tuple(kept))


class RequestBuilder(ABC):
    """Builds the bodies of requests to one model, and caches encoded messages."""

    def __init__(self, model: ModelInfo, takes_mark: Callable[[Message], bool]) -> None:
        self.model = model
        marks = _MAX_CACHE_MARKS if model.supports_prompt_cache else 0
        self._conversation_encoder = IncrementalConversationEncoder(
            self._encode_message, marks, takes_mark
        )
        self._cached_system: tuple[str, bytes] = ("", b"")
        self._cached_tools: tuple[tuple[ToolSpec, ...], bytes] = ((), b"")

    @abstractmethod
    def build_body(self, request: ModelRequest) -> list[bytes]:
        """Build the body in pieces, to be sent one after another."""

    @abstractmethod
    def _encode_message(self, message: Message, *, mark: bool) -> bytes: ...

    @abstractmethod
    def _encode_system(self, system: str) -> bytes: ...

    @abstractmethod
    def _build_tool(self, tool: ToolSpec) -> dict[str, Any]: ...

    def _encode_system_once(self, system: str) -> bytes:
        if system != self._cached_system[0]:
            self._cached_system = (system, self._encode_system(system) if system else b"")
        return self._cached_system[1]

    def _encode_tools_once(self, tools: tuple[ToolSpec, ...]) -> bytes:
        if tools is not self._cached_tools[0]:
            specs = [self._build_tool(tool) for tool in tools]
            self._cached_tools = (tools, b',"tools":' + encode_json(specs))
        return self._cached_tools[1]
