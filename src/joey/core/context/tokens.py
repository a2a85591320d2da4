"""Tokens, counted without a tokenizer: by characters, and rather too many than too few.

Three characters of plain text are taken for a token; models see three to five. Letters beyond
ASCII cost more with every byte of UTF-8 they need, as they do for the models. What this gets
wrong is made up for by `Gauge`, which compares it with what the service counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from weakref import WeakKeyDictionary

import msgspec
from msgspec import UNSET

from joey.core.messages import (
    Block,
    ImageBlock,
    Message,
    ReasoningBlock,
    RedactedThinkingBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    blocks_of,
)
from joey.core.models import ToolSpec

CHARACTERS_PER_TOKEN = 3
_PER_MESSAGE = 8
_PER_BLOCK = 6
_PER_IMAGE = 1_600
_CHANGED = 3
"""Messages at the end of a conversation that may be others than the last time."""
_encode = msgspec.json.Encoder().encode


def text_tokens(text: str) -> int:
    size = len(text)
    if not text.isascii():
        size += (len(text.encode(errors="replace")) - size) * 3 // 2
    return -(-size // CHARACTERS_PER_TOKEN)


def block_tokens(block: Block) -> int:
    match block:
        case TextBlock(text=text):
            tokens = text_tokens(text)
        case ThinkingBlock(thinking=thinking, signature=signature):
            tokens = text_tokens(thinking) + text_tokens(signature)
        case RedactedThinkingBlock(data=data):
            tokens = text_tokens(data)
        case ReasoningBlock(text=text):
            tokens = text_tokens(text)
        case ToolUseBlock(name=name, input=arguments):
            tokens = text_tokens(name) + text_tokens(_encode(arguments).decode()) + _PER_BLOCK
        case ToolResultBlock(content=content):
            parts = (TextBlock(content),) if isinstance(content, str) else content
            tokens = blocks_tokens(parts)
        case ImageBlock():
            tokens = _PER_IMAGE
    return tokens + _PER_BLOCK


def blocks_tokens(blocks: Iterable[Block]) -> int:
    return sum(block_tokens(block) for block in blocks)


def tools_tokens(tools: Sequence[ToolSpec]) -> int:
    return text_tokens(_encode(tools).decode()) if tools else 0


class TokenCounts:
    """Counts of messages, each made once for as long as the message lives."""

    def __init__(self) -> None:
        self._known: WeakKeyDictionary[Message, int] = WeakKeyDictionary()
        self._last: Sequence[Message] = []
        self._sums: list[int] = [0]

    def of(self, message: Message) -> int:
        count = self._known.get(message)
        if count is None:
            count = self._known[message] = _message_tokens(message)
        return count

    def of_all(self, messages: Iterable[Message]) -> int:
        return sum(map(self.of, messages))

    def sums(self, messages: Sequence[Message]) -> Sequence[int]:
        """How much the first n of them are, for every n. A conversation grows at its end: what
        was summed the last time is not looked at again."""
        most = min(len(self._last), len(messages))
        ends = range(most, max(0, most - _CHANGED), -1)
        same = next((end for end in ends if self._last[:end] == messages[:end]), 0)
        sums = self._sums[: same + 1]
        for message in messages[same:]:
            sums.append(sums[-1] + self.of(message))
        self._last, self._sums = messages, sums
        return sums


def _message_tokens(message: Message) -> int:
    tokens = blocks_tokens(blocks_of(message)) + _PER_MESSAGE
    if message.reasoning_details is not UNSET:
        tokens += text_tokens(_encode(message.reasoning_details).decode())
    if isinstance(message.reasoning_content, str):
        tokens += text_tokens(message.reasoning_content)
    return tokens
