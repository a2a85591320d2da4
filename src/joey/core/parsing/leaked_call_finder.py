"""The search for leaked calls at the end of a streamed reply.

The result depends only on the whole text, never on how it was cut into pieces. While text streams
in, it is held back from where calls may have begun, so that a call is not shown as text. Holding
back only affects the display, and errs on the side of showing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice

from msgspec import Struct

from joey.core.messages import UnusableCall
from joey.core.parsing.call_names import ToolNames
from joey.core.parsing.leaked_calls import (
    CALL_FENCES,
    FENCE_RE,
    OPENING,
    TAG_RE,
    LeakedCall,
    read_calls_to_end,
    read_fence,
    read_whole_reply,
    skip_marks,
)
from joey.core.parsing.markdown_context import MarkdownContext
from joey.core.parsing.tags import (
    THINK_OPENING_TAGS,
    THINK_TAG_PATTERN,
    fold_think_tag,
    get_think_closing_tag,
)
from joey.core.parsing.written_calls import NotACallError
from joey.core.text import compile_regex

_LINE_START = r"(?<![^\n])[ ]{0,3}"
_CANDIDATE_RE = compile_regex(
    rf"{_LINE_START}(?=(?P<fence>```|~~~))|(?P<think>{THINK_TAG_PATTERN})"
    rf"|(?={OPENING})|<(?P<tag>[A-Za-z][\w.:-]{{0,80}})(?=[\s/>])",
    re.IGNORECASE,
)
_CLOSING_TAG_RE = compile_regex(r"</([A-Za-z][\w.:-]{0,80})>")
_OPENING_RE = compile_regex(OPENING)
_SUSPECT_RE = compile_regex(r"[<\[{`~]|to=|functools|function call")
"""What a text has that opens a call, or may have begun to; most pieces of a reply have nothing."""
_FENCE_INFO = "|".join(sorted(CALL_FENCES, reverse=True))
_HELD_FENCE_RE = compile_regex(rf"{_LINE_START}(?:```|~~~)(?:{_FENCE_INFO})[ \t]*\r?\n\s*[<{{\[]")
_PARTIAL_RE = compile_regex(
    rf"(?:<[^<>\n]*|\[[A-Z_]*|{_LINE_START}(?:`{{1,3}}|~{{1,3}})[\w-]*\s*|\A\s+)\Z"
)
_LONGEST_PARTIAL = 100
_MAX_ATTEMPTS = 64
_MAX_READ_CHARS = 1_000_000
"""Characters that all attempts together may read: a text can open calls without end."""


class FoundCalls(Struct, frozen=True):
    text: str
    """The text before the calls; all of it if there are none."""
    calls: tuple[LeakedCall, ...] = ()
    unusable: UnusableCall | None = None
    is_fenced: bool = False


def find_leaked_calls(text: str, tools: ToolNames, *, is_whole_reply: bool) -> FoundCalls:
    """Find the calls at the end of a text."""
    if _SUSPECT_RE.search(text) is None:
        return FoundCalls(text)
    unusable: UnusableCall | None = None
    passed_over: UnusableCall | None = None
    if is_whole_reply:
        try:
            return FoundCalls("", read_whole_reply(text, tools))
        except NotACallError as error:
            unusable = error.unusable
            if error.is_unfinished:
                return FoundCalls(text)
    unread = _MAX_READ_CHARS
    for start in islice(_iter_candidates(text, tools), _MAX_ATTEMPTS):
        unread -= len(text) - start
        if unread < 0:
            break
        try:
            calls = read_calls_to_end(text, start, tools)
            is_fenced = FENCE_RE.match(text, start) is not None
            return FoundCalls(text[:start].rstrip(), calls, unusable or passed_over, is_fenced)
        except NotACallError as error:
            unusable = error.unusable or unusable
            passed_over = passed_over or error.passed_over
            if error.is_unfinished and FENCE_RE.match(text, start) is None:
                break
    return FoundCalls(text, unusable=unusable)


def _iter_candidates(text: str, tools: ToolNames) -> Iterator[int]:
    """Iterate over places in prose where calls may begin: fences, marks, tags of tools."""
    context = MarkdownContext()
    pos = 0
    closing_tag = ""
    quoted_end = -1
    last_closings = {match[1]: match.start() for match in _CLOSING_TAG_RE.finditer(text)}
    while match := _CANDIDATE_RE.search(text, pos):
        context.feed(text[pos : match.start()])
        pos = match.start()
        end = max(match.end(), pos + 1)
        if tag := match["think"]:
            if not context.is_prose:
                pass  # only mentioned
            elif tag in THINK_OPENING_TAGS:
                closing_tag = closing_tag or get_think_closing_tag(tag)
            elif fold_think_tag(tag) == closing_tag:
                closing_tag = ""
        elif match["fence"]:
            start = match.start("fence")
            if not closing_tag:
                yield start
            end = _find_fence_end(text, start, tools)
            context, pos = MarkdownContext(), end
            continue
        elif not context.is_prose or pos <= quoted_end:
            quoted_end = skip_marks(text, pos)
        elif not closing_tag:
            tag = match["tag"]
            if tag is None or tools.find(tag) is not None or last_closings.get(tag, 0) >= end:
                yield pos
        context.feed(text[pos:end])
        pos = end


def _find_fence_end(text: str, start: int, tools: ToolNames) -> int:
    """Find the end of a fenced block. If it contains calls, their texts may contain fences."""
    fence = FENCE_RE.match(text, start)
    if fence is None:
        return text.find("\n", start) + 1 or len(text)
    try:
        return read_fence(text, fence, tools)[1]
    except NotACallError:
        closing = re.compile(rf"^ {{0,3}}{re.escape(fence[1])}+[ \t]*(?:\n|\Z)", re.MULTILINE)
        found = closing.search(text, fence.end())
        return found.end() if found else len(text)


class LeakedCallFinder:
    """Reads the text after the last call of a reply, piece by piece."""

    def __init__(self, tools: ToolNames) -> None:
        self._tools = tools
        self._pieces: list[str] = []
        self._shown_length = 0
        self._pending = ""
        """Text that may be the beginning of a call."""
        self._is_holding = False
        self._is_whole_reply = True

    def feed(self, text: str) -> str:
        """Read text and return what can be shown now."""
        self._pieces.append(text)
        if self._is_holding:
            return ""
        if not self._pending and self._shown_length and _SUSPECT_RE.search(text) is None:
            self._shown_length += len(text)
            return text
        text = self._pending + text
        held = self._find_hold(text)
        self._is_holding = held is not None
        if held is None:
            partial = _PARTIAL_RE.search(text, max(0, len(text) - _LONGEST_PARTIAL))
            held = partial.start() if partial else len(text)
        self._pending = text[held:]
        self._shown_length += held
        return text[:held]

    def restart(self) -> str:
        """Discard everything so far as reasoning. Returns the part that was not shown."""
        rest = self.flush()
        self._is_whole_reply = True
        return rest

    def flush(self) -> str:
        """Treat everything so far as text, because a call follows. Returns the part that was not
        shown."""
        text = "".join(self._pieces)
        rest = text[self._shown_length :]
        self._is_whole_reply = self._is_whole_reply and not text.strip()
        self._pieces, self._shown_length, self._pending = [], 0, ""
        self._is_holding = False
        return rest

    def close(self, *, is_before_call: bool = False) -> FoundCalls:
        """Return the calls at the end of the text, at the end of a reply or before another call."""
        is_whole_reply = self._is_whole_reply and not is_before_call
        return find_leaked_calls("".join(self._pieces), self._tools, is_whole_reply=is_whole_reply)

    def _find_hold(self, text: str) -> int | None:
        if self._is_whole_reply and not self._shown_length and text.lstrip().startswith(("{", "[")):
            return 0
        found = [
            match for match in (_OPENING_RE.search(text), _HELD_FENCE_RE.search(text)) if match
        ]
        found += [match for match in TAG_RE.finditer(text) if self._tools.find(match[1])]
        return min((match.start() for match in found), default=None)
