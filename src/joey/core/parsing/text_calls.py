"""Calls that a model writes into its text as JSON, though the task speaks XML (decision D9).

Two forms are met in the wild: a fenced block marked `tool_code`, with `tool` and `parameters`
(some put a family of tools in `tool` and the tool itself in `action`), and `<tool_call>` tags
around `name` and `arguments`. Such a block is a call when its JSON is whole and names a known
tool; anything else stays the text that it is.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from joey.core.parsing.json_stream import JsonStream

BLOCKS: Mapping[str, str] = {"```tool_code": "```", "<tool_call>": "</tool_call>"}
"""What ends each kind of block, by what opens it."""

_NAME_KEYS = ("action", "tool", "name")
_ARGUMENT_KEYS = ("parameters", "arguments")


class TextCall(Struct, frozen=True):
    name: str
    arguments: dict[str, Any]


def read_text_call(block: dict[str, Any], tools: Container[str]) -> TextCall | None:
    """The call that a JSON object plainly means, if it means one."""
    named = (block.get(key) for key in _NAME_KEYS)
    name = next((name for name in named if isinstance(name, str) and name in tools), None)
    if name is None:
        return None
    arguments: Any = next((block[key] for key in _ARGUMENT_KEYS if key in block), {})
    if isinstance(arguments, str):
        arguments = _decoded(arguments)
    return TextCall(name, arguments) if isinstance(arguments, dict) else None


def _decoded(text: str) -> Any:
    """Arguments that were encoded twice, as some models do."""
    try:
        return msgspec.json.decode(text)
    except (ValueError, RecursionError):
        return None


class TextCallBlock:
    """A block from its opening on, held until it is known to be a call or to be text."""

    def __init__(self, opening: str, tools: Container[str]) -> None:
        self.closing = BLOCKS[opening]
        self.call: TextCall | None = None
        self._opening = opening
        self._tools = tools
        self._json = JsonStream()
        self._length = 0

    def feed(self, text: str) -> int | None:
        """None while undecided; else how much of `text` belongs to the block."""
        self._json.feed(text)
        before = self._length
        self._length += len(text)
        stopped_at = self._json.stopped_at
        if stopped_at is None:
            return None
        if self._json.is_whole:
            self.call = read_text_call(self._json.partial(), self._tools)
        self._length = stopped_at
        return stopped_at - before

    @property
    def text(self) -> str:
        """The block as it was written, opening included."""
        return self._opening + self._json.text[: self._length]
