"""What a file defines, and where: the `Outlines` port."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import msgspec

from joey.core.text import split_lines
from joey.knowledge.apart import run_apart
from joey.knowledge.encodings import text_of
from joey.knowledge.headings import sections
from joey.knowledge.languages import MARKDOWN, language_of
from joey.ports import Definition, Outlines

_LEAST_LINES = 4
"""What is shorter is seen as a whole wherever it is met."""
_LONGEST_LINE = 200
_AT_ONCE = 2
_SECONDS = 10

_Spans = list[tuple[int, int]]


class LocalOutlines:
    """Code is parsed in another process, since grammars crash over some texts."""

    def __init__(self) -> None:
        self._turns = asyncio.Semaphore(_AT_ONCE)

    def supports(self, name: str) -> bool:
        return language_of(name) is not None

    async def outline(self, name: str, data: bytes) -> Sequence[Definition]:
        language = language_of(name)
        if language is None:
            return ()
        text = text_of(data)
        lines = split_lines(text)
        if language == MARKDOWN:
            spans = await asyncio.to_thread(sections, lines)
        else:
            spans = await self._parse(language, text.encode(errors="replace"))
        return tuple(
            Definition(first, last, lines[first - 1].rstrip()[:_LONGEST_LINE])
            for first, last in spans
            if last - first + 1 >= _LEAST_LINES and first <= len(lines)
        )

    async def _parse(self, language: str, data: bytes) -> _Spans:
        async with self._turns:
            answer = await run_apart("joey.knowledge.definitions", language, data, _SECONDS)
        return msgspec.json.decode(answer, type=_Spans)


_fits: type[Outlines] = LocalOutlines
