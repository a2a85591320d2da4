"""A conversation as plain text, for the model that is to sum it up.

Calls and results become text: no service has to accept tools, ids or signed thoughts for it, and
any model can do the work. A text that must be shorter first loses the middles of long results
and arguments, then turns in its middle. A summary from before is never cut.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import msgspec
from msgspec import Struct

from joey.core.history.effective import cut_text
from joey.core.messages import (
    Block,
    ImageBlock,
    Message,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
    blocks_of,
    plain_text,
)
from joey.core.prompts.environment import strip_environment
from joey.core.regex import regex

_LIMITS = (
    (16_000, 16_000),
    (4_000, 16_000),
    (1_000, 16_000),
    (500, 4_000),
    (250, 1_000),
    (250, 250),
)
"""Characters of a result and of anything else, from ample to scarce."""
_OWN_TAG = regex(r"<(?=\s*+(?:/\s*+)?conversation\b)", re.IGNORECASE)


class _Part(Struct, frozen=True):
    head: str
    text: str
    is_result: bool = False
    """Or the arguments of a call: what can be had again."""
    is_summary: bool = False

    def within(self, longest_result: int, longest: int) -> str:
        text = self.text
        if not self.is_summary:
            text = cut_text(text, longest_result if self.is_result else longest)
        return f"{self.head}\n{text}" if text else self.head


def transcript(messages: Sequence[Message], most: int) -> str:
    """At most about so many characters, in `<conversation>` tags. `messages` each stand for
    themselves: a summary is not joined with what follows it."""
    turns = [list(_parts(message)) for message in messages]
    texts: list[str] = []
    for limits in _LIMITS:
        texts = ["\n\n".join(part.within(*limits) for part in parts) for parts in turns]
        if sum(map(len, texts)) <= most:
            break
    shown = "\n\n".join(text for text in _without_middle(texts, most) if text)
    contained = _OWN_TAG.sub("&lt;", shown)  # what was said does not end the tag
    return f"<conversation>\n{contained}\n</conversation>"


def _without_middle(texts: Sequence[str], most: int) -> Sequence[str]:
    """The first text and as many of the last as there is room for, at least one."""
    if len(texts) < 2 or sum(map(len, texts)) <= most:
        return texts
    first, *others = texts
    left, kept = most - len(first), len(others) - 1
    last = cut_text(others[-1], max(_LIMITS[-1][0], left))
    left -= len(last)
    while kept and left >= len(others[kept - 1]):
        kept -= 1
        left -= len(others[kept])
    gap = [f"[{kept} messages are left out here.]"] if kept else []
    return [first, *gap, *others[kept:-1], last]


def _parts(message: Message) -> Iterator[_Part]:
    blocks = blocks_of(message)
    if message.is_summary:
        yield _Part("## What came before", plain_text(blocks), is_summary=True)
        return
    who = "## Assistant" if message.role == "assistant" else "## User"
    for block in strip_environment(blocks):
        if (part := _part(block, who)) is not None:
            yield part


def _part(block: Block, who: str) -> _Part | None:
    match block:
        case TextBlock(text=text) if text.strip():
            return _Part(who, text)
        case ToolUseBlock(name=name, input=arguments):
            call = msgspec.json.encode(arguments).decode()
            return _Part(f"{who} calls {name}", call, is_result=True)
        case ToolResultBlock(content=content, is_error=failed):
            text = content if isinstance(content, str) else plain_text(content)
            head = "## The call failed" if failed else "## Result of the call"
            return _Part(head, text, is_result=True)
        case ImageBlock():
            return _Part(who, "[an image]")
        case _:
            return None
