"""Tags in streamed text, those of reasoning sections in particular.

Models write reasoning into their text as `<think>…</think>` or `<thinking>…</thinking>`. A section
at the start of the text is reasoning (white space before it aside), and so is everything before a
closing tag that nothing opened: chat templates often write the opening tag themselves, so that the
reply begins inside the section. Later sections that are opened and closed by tags of the same name
are text. White space around reasoning goes with it.

A tag directly between two backticks, the first of which opens inline code, is a mention. Any other
closing tag counts, in a code fence too: a call that was only considered must not run, and a model
that quotes the tag can be asked to call again.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from enum import Enum, auto
from functools import lru_cache
from typing import Literal

from joey.core.parsing.markdown_context import MarkdownContext
from joey.core.text import compile_regex

ProsePiece = tuple[Literal["text", "reasoning"], str]

THINK_CLOSING_BY_OPENING = {"<think>": "</think>", "<thinking>": "</thinking>"}
_LETTER_CASES = (str.lower, str.capitalize, str.upper)
THINK_CLOSING_TAGS = frozenset(
    f"</{case(name)}{gap}>"
    for name in ("think", "thinking")
    for case in _LETTER_CASES
    for gap in ("", " ", "\n")
)
_BARE_THINK_TAGS = THINK_CLOSING_TAGS | THINK_CLOSING_BY_OPENING.keys()
THINK_TAGS = frozenset(
    {
        *_BARE_THINK_TAGS,
        *(f"`{tag}" for tag in _BARE_THINK_TAGS),
        *(f"`{tag}`" for tag in _BARE_THINK_TAGS),
    },
)
"""What to look for in text; `ThinkTagKind.classify` says what a match is."""
_THINK_CLOSING_RE = compile_regex(r"</think(?:ing)?[ \n]?>", re.IGNORECASE)


class ThinkTagKind(Enum):
    OPENING = auto()
    CLOSING = auto()
    MENTION = auto()
    BACKTICK = auto()
    """The tag's backtick is text of its own; look again behind it."""
    UNDECIDED = auto()

    @classmethod
    def classify(cls, tag: str, *, in_code: bool, at_end: bool) -> ThinkTagKind:
        """`in_code`: inline code is open before it; `at_end`: nothing has come after it."""
        if not tag.startswith("`"):
            return cls.OPENING if tag in THINK_CLOSING_BY_OPENING else cls.CLOSING
        if tag.endswith("`"):
            return cls.BACKTICK if in_code else cls.MENTION
        return cls.UNDECIDED if at_end else cls.BACKTICK


def has_tag_after_reasoning_end(text: str, tag: str) -> bool:
    """Whether the text closes a section that it has not opened, and has `tag` after that."""
    closing = _THINK_CLOSING_RE.search(text)
    if closing is None or any(
        opening in text[: closing.start()] for opening in THINK_CLOSING_BY_OPENING
    ):
        return False
    return tag in text[closing.end() :]


class ThinkTagSplitter:
    """Splits streamed text. Once `is_past_reasoning`, whatever follows is text and need not come
    here."""

    def __init__(self) -> None:
        self.is_past_reasoning = False
        self._leading_space: list[str] = []
        """White space before the first word, kept in case that word is no tag."""
        self._pending = ""
        """What may be the beginning of a tag."""
        self._closing_tag = ""
        self._current_reader: Callable[[str], list[ProsePiece]] = self._read_opening

    def feed(self, text: str) -> list[ProsePiece]:
        if self.is_past_reasoning:
            return [("text", text)] if text else []
        return self._current_reader(text)

    def close(self) -> list[ProsePiece]:
        """What is still held, when no more text comes."""
        if self.is_past_reasoning:
            return []
        self.is_past_reasoning = True
        if self._current_reader == self._read_reasoning:
            return _build_pieces("reasoning", self._pending)
        return _build_pieces("text", "".join(self._leading_space) + self._pending)

    def _read_opening(self, text: str) -> list[ProsePiece]:
        begun = self._pending + text
        word = begun.lstrip()
        self._leading_space.append(begun[: len(begun) - len(word)])
        self._pending = word
        for opening, closing in THINK_CLOSING_BY_OPENING.items():
            if word.startswith(opening):
                self._leading_space.clear()
                self._pending = ""
                self._closing_tag = closing
                self._current_reader = self._read_reasoning
                return self._read_reasoning(word[len(opening) :])
        if any(opening.startswith(word) for opening in THINK_CLOSING_BY_OPENING):
            return []
        self.is_past_reasoning = True
        return [("text", "".join(self._leading_space) + word)]

    def _read_reasoning(self, text: str) -> list[ProsePiece]:
        text = self._pending + text
        self._pending = ""
        end = text.find(self._closing_tag)
        if end >= 0:
            self._current_reader = self._skip_gap_after_reasoning
            rest = self._skip_gap_after_reasoning(text[end + len(self._closing_tag) :])
            return _build_pieces("reasoning", text[:end]) + rest
        begun = text.rfind("<", max(0, len(text) - len(self._closing_tag)))
        if begun >= 0 and self._closing_tag.startswith(text[begun:]):
            self._pending = text[begun:]
            text = text[:begun]
        return _build_pieces("reasoning", text)

    def _skip_gap_after_reasoning(self, text: str) -> list[ProsePiece]:
        word = text.lstrip()
        self.is_past_reasoning = bool(word)
        return _build_pieces("text", word)


class ThinkTagReader(ABC):
    """The tags of reasoning in text that is being read, and the section that is open."""

    def __init__(self) -> None:
        self._pending = ""
        """What may be the beginning of a tag."""
        self._base_offset = 0
        """The place of the text that is being read, in all text so far."""
        self._context = MarkdownContext()
        self._think_closing_tag = ""
        """The closing tag of the section that is open."""

    @abstractmethod
    def _emit_text(self, text: str) -> None: ...

    @abstractmethod
    def _emit_think_tag(self, tag: str) -> None:
        """A tag that opens or closes a section, or is inside of one."""

    @abstractmethod
    def _end_reasoning(self, at: int, end: int) -> None:
        """All text so far turns out to be reasoning."""

    def _read_think_tag(self, text: str, at: int, tag: str) -> int:
        end = at + len(tag)
        match ThinkTagKind.classify(
            tag, in_code=self._context.is_inline_code, at_end=end == len(text)
        ):
            case ThinkTagKind.UNDECIDED:
                self._pending = tag
            case ThinkTagKind.BACKTICK:
                self._emit_text("`")
                return at + 1
            case ThinkTagKind.MENTION:
                self._emit_text(tag)
            case ThinkTagKind.OPENING | ThinkTagKind.CLOSING:
                self._handle_think_tag(tag, self._base_offset + at)
        return end

    def _handle_think_tag(self, tag: str, at: int) -> None:
        if tag in THINK_CLOSING_TAGS and tag != self._think_closing_tag:
            self._think_closing_tag = ""
            self._context = MarkdownContext()
            self._end_reasoning(at, at + len(tag))
            return
        if tag == self._think_closing_tag:
            self._think_closing_tag = ""
        elif not self._think_closing_tag:
            self._think_closing_tag = THINK_CLOSING_BY_OPENING[tag]
        self._emit_think_tag(tag)

    def _flush_pending(self) -> None:
        """No more text comes."""
        pending, self._pending = self._pending, ""
        if pending in THINK_TAGS:
            self._emit_text("`")
            self._handle_think_tag(pending[1:], self._base_offset + 1)
        else:
            self._emit_text(pending)


class UnopenedClosingFinder(ThinkTagReader):
    """Finds closing tags that nothing opened in text that is nothing but text."""

    def __init__(self) -> None:
        super().__init__()
        self._is_after_reasoning = False
        self._found: list[str | None] = []

    def feed(self, text: str) -> list[str | None]:
        """The text, in pieces; None where all text so far turns out to be reasoning."""
        text, self._pending = self._pending + text, ""
        pos = 0
        while pos < len(text):
            at, tag = get_tag_matcher(THINK_TAGS).find(text, pos)
            self._emit_text(text[pos:at])
            if not tag:
                self._pending = text[at:]
                break
            pos = self._read_think_tag(text, at, tag)
        return self._drain()

    def close(self) -> list[str | None]:
        """What is still held, when no more text comes."""
        self._flush_pending()
        return self._drain()

    def _drain(self) -> list[str | None]:
        found, self._found = self._found, []
        return found

    def _emit_text(self, text: str) -> None:
        if self._is_after_reasoning:
            text = text.lstrip()
        if text:
            self._is_after_reasoning = False
            self._context.feed(text)
            self._found.append(text)

    def _emit_think_tag(self, tag: str) -> None:
        self._emit_text(tag)

    def _end_reasoning(self, at: int, end: int) -> None:
        self._is_after_reasoning = True
        self._found.append(None)


def _build_pieces(kind: Literal["text", "reasoning"], text: str) -> list[ProsePiece]:
    return [(kind, text)] if text else []


_TAG_START_RE = compile_regex("[<`]")


class TagMatcher:
    """A set of literal tags to look for, and how to see that one may have begun."""

    def __init__(self, tags: frozenset[str]) -> None:
        self._tags = tags
        longest_first = sorted(tags, key=lambda tag: (-len(tag), tag))
        self._pattern = re.compile("|".join(map(re.escape, longest_first)))
        self._tag_prefixes = frozenset(tag[:end] for tag in tags for end in range(1, len(tag)))
        self._max_tag_length = len(longest_first[0])

    def including(self, tags: frozenset[str]) -> TagMatcher:
        return get_tag_matcher(self._tags | tags)

    def find(self, text: str, pos: int) -> tuple[int, str]:
        """Where the first tag is, and which; or where one may have begun, and nothing."""
        if "<" not in text and "`" not in text:  # most pieces of a reply
            return len(text), ""
        match = self._pattern.search(text, pos)
        if match is not None:
            return match.start(), match[0]
        near_end = max(pos, len(text) - self._max_tag_length + 1)
        for start in _TAG_START_RE.finditer(text, near_end):
            if text[start.start() :] in self._tag_prefixes:
                return start.start(), ""
        return len(text), ""


@lru_cache(maxsize=1024)
def get_tag_matcher(tags: frozenset[str]) -> TagMatcher:
    """The same few sets are looked for in every reply; each is compiled once."""
    return TagMatcher(tags)
