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
from collections.abc import Callable
from enum import Enum, auto
from functools import lru_cache
from typing import Literal

from joey.core.text import regex

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
"""What to look for in text; `ThinkTagKind.of` says what a match is."""
_THINK_CLOSING_RE = regex(r"</think(?:ing)?[ \n]?>", re.IGNORECASE)


class ThinkTagKind(Enum):
    OPENING = auto()
    CLOSING = auto()
    MENTION = auto()
    BACKTICK = auto()
    """The tag's backtick is text of its own; look again behind it."""
    UNDECIDED = auto()
    """The next character decides."""

    @classmethod
    def of(cls, tag: str, *, in_code: bool, at_end: bool) -> ThinkTagKind:
        """`in_code`: inline code is open before the match; `at_end`: nothing has come after it."""
        if not tag.startswith("`"):
            return cls.OPENING if tag in THINK_CLOSING_BY_OPENING else cls.CLOSING
        if tag.endswith("`"):
            return cls.BACKTICK if in_code else cls.MENTION
        return cls.UNDECIDED if at_end else cls.BACKTICK


class InlineCodeTracker:
    """Whether a backtick is open in the current line."""

    def __init__(self) -> None:
        self.is_open = False

    def read(self, text: str) -> None:
        _, newline, line = text.rpartition("\n")
        if newline:
            self.is_open = False
        self.is_open ^= line.count("`") % 2 == 1


def last_closing(text: str) -> tuple[int, int] | None:
    """Where the last closing tag in a text is."""
    ends = [match.span() for match in _THINK_CLOSING_RE.finditer(text)]
    return ends[-1] if ends else None


def closes_before(text: str, tag: str) -> bool:
    """Whether the text closes a section that it has not opened, and has `tag` after that."""
    closing = _THINK_CLOSING_RE.search(text)
    if closing is None or any(
        opening in text[: closing.start()] for opening in THINK_CLOSING_BY_OPENING
    ):
        return False
    return tag in text[closing.end() :]


class ThinkTagSplitter:
    """Splits streamed text. Once `settled`, whatever follows is text and need not come here."""

    def __init__(self) -> None:
        self.settled = False
        self._lead: list[str] = []
        """White space before the first word, kept in case that word is no tag."""
        self._held = ""
        """What may be the beginning of a tag."""
        self._closing = ""
        self._expect: Callable[[str], list[ProsePiece]] = self._opening

    def feed(self, text: str) -> list[ProsePiece]:
        if self.settled:
            return [("text", text)] if text else []
        return self._expect(text)

    def close(self) -> list[ProsePiece]:
        """What is still held, when no more text comes."""
        if self.settled:
            return []
        self.settled = True
        if self._expect == self._reasoning:
            return _pieces("reasoning", self._held)
        return _pieces("text", "".join(self._lead) + self._held)

    def _opening(self, text: str) -> list[ProsePiece]:
        begun = self._held + text
        word = begun.lstrip()
        self._lead.append(begun[: len(begun) - len(word)])
        self._held = word
        for opening, closing in THINK_CLOSING_BY_OPENING.items():
            if word.startswith(opening):
                self._lead.clear()
                self._held = ""
                self._closing = closing
                self._expect = self._reasoning
                return self._reasoning(word[len(opening) :])
        if any(opening.startswith(word) for opening in THINK_CLOSING_BY_OPENING):
            return []
        self.settled = True
        return [("text", "".join(self._lead) + word)]

    def _reasoning(self, text: str) -> list[ProsePiece]:
        text = self._held + text
        self._held = ""
        end = text.find(self._closing)
        if end >= 0:
            self._expect = self._gap
            rest = self._gap(text[end + len(self._closing) :])
            return _pieces("reasoning", text[:end]) + rest
        begun = text.rfind("<", max(0, len(text) - len(self._closing)))
        if begun >= 0 and self._closing.startswith(text[begun:]):
            self._held = text[begun:]
            text = text[:begun]
        return _pieces("reasoning", text)

    def _gap(self, text: str) -> list[ProsePiece]:
        word = text.lstrip()
        self.settled = bool(word)
        return _pieces("text", word)


class UnopenedClosingFinder:
    """Finds closing tags that nothing opened in text that is nothing but text."""

    def __init__(self) -> None:
        self._held = ""
        self._section = ""
        """The closing tag of the section that is open."""
        self._code = InlineCodeTracker()
        self._in_gap = False

    def feed(self, text: str) -> list[str | None]:
        """The text, in pieces; None where all text so far turns out to be reasoning."""
        text, self._held = self._held + text, ""
        found: list[str | None] = []
        pos = 0
        while pos < len(text):
            pos = self._read(text, pos, found)
        return found

    def close(self) -> list[str | None]:
        """What is still held, when no more text comes."""
        held, self._held = self._held, ""
        if held in THINK_TAGS:
            return [*self._said("`"), *self._take(held[1:])]
        return self._said(held)

    def _read(self, text: str, pos: int, found: list[str | None]) -> int:
        at, tag = tags_of(THINK_TAGS).find(text, pos)
        found += self._said(text[pos:at])
        if not tag:
            self._held = text[at:]
            return len(text)
        end = at + len(tag)
        match ThinkTagKind.of(tag, in_code=self._code.is_open, at_end=end == len(text)):
            case ThinkTagKind.UNDECIDED:
                self._held = tag
            case ThinkTagKind.BACKTICK:
                found += self._said("`")
                return at + 1
            case ThinkTagKind.MENTION:
                found += self._said(tag)
            case ThinkTagKind.OPENING | ThinkTagKind.CLOSING:
                found += self._take(tag)
        return end

    def _take(self, tag: str) -> list[str | None]:
        if tag in THINK_CLOSING_TAGS and tag != self._section:
            self._section = ""
            self._code = InlineCodeTracker()
            self._in_gap = True
            return [None]
        if tag == self._section:
            self._section = ""
        elif not self._section:
            self._section = THINK_CLOSING_BY_OPENING[tag]
        return self._said(tag)

    def _said(self, text: str) -> list[str | None]:
        if self._in_gap:
            text = text.lstrip()
        if not text:
            return []
        self._in_gap = False
        self._code.read(text)
        return [text]


def _pieces(kind: Literal["text", "reasoning"], text: str) -> list[ProsePiece]:
    return [(kind, text)] if text else []


_TAG_START_RE = regex("[<`]")


class TagMatcher:
    """A set of literal tags to look for, and how to see that one may have begun."""

    def __init__(self, tags: frozenset[str]) -> None:
        longest_first = sorted(tags, key=lambda tag: (-len(tag), tag))
        self._pattern = re.compile("|".join(map(re.escape, longest_first)))
        self._beginnings = frozenset(tag[:end] for tag in tags for end in range(1, len(tag)))
        self._longest = len(longest_first[0])

    def find(self, text: str, pos: int) -> tuple[int, str]:
        """Where the first tag is, and which; or where one may have begun, and nothing."""
        match = self._pattern.search(text, pos)
        if match is not None:
            return match.start(), match[0]
        near_end = max(pos, len(text) - self._longest + 1)
        for start in _TAG_START_RE.finditer(text, near_end):
            if text[start.start() :] in self._beginnings:
                return start.start(), ""
        return len(text), ""


@lru_cache(maxsize=1024)
def tags_of(tags: frozenset[str]) -> TagMatcher:
    """The same few sets are looked for in every reply; each is compiled once."""
    return TagMatcher(tags)
