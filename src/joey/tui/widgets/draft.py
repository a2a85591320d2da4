"""Drafts: text in which short marks stand for long pastes and for images.

A mark is enclosed in two private-use characters, and an invisible character (one that changes the
reading order or has no width) is represented by a private-use character too. So typed text cannot
look like a mark, every position in the text is one cell or more, and the sent message is exactly
the typed and pasted text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import Struct

from joey.core.text import BIDI_AND_INVISIBLE_CODE_POINTS, sanitize

MARK_START, MARK_END = "\U0010fe00", "\U0010fe01"
_FIRST_STAND_IN_CODE_POINT = 0x10FE10
_LINE_SEPARATOR_CODE_POINTS = (0x2028, 0x2029)
_INVISIBLE_CODE_POINTS = (*BIDI_AND_INVISIBLE_CODE_POINTS, *_LINE_SEPARATOR_CODE_POINTS)
_RESERVED_CODE_POINTS = range(0x10FE00, _FIRST_STAND_IN_CODE_POINT + len(_INVISIBLE_CODE_POINTS))
_REPLACEMENT_CHARACTER = "\N{REPLACEMENT CHARACTER}"
_ENCODE_TABLE: dict[int, str] = {
    **{
        code: chr(_FIRST_STAND_IN_CODE_POINT + number)
        for number, code in enumerate(_INVISIBLE_CODE_POINTS)
    },
    **dict.fromkeys(_RESERVED_CODE_POINTS, _REPLACEMENT_CHARACTER),
}
_CONTROL_CODE_POINTS = (
    code for code in (*range(0x20), *range(0x7F, 0xA0)) if chr(code) not in "\n\t"
)
_CHARACTERS_TO_ENCODE = frozenset(
    map(chr, (*_CONTROL_CODE_POINTS, *_ENCODE_TABLE, *range(0xD800, 0xE000)))
)
"""What has to be replaced; looking for it is much quicker than replacing."""
_DECODE_TABLE = {
    _FIRST_STAND_IN_CODE_POINT + number: chr(code)
    for number, code in enumerate(_INVISIBLE_CODE_POINTS)
}
_DISPLAY_TABLE = {ord(MARK_START): "[", ord(MARK_END): "]", **dict.fromkeys(_DECODE_TABLE, "▯")}
_MARK_RE = re.compile(f"{MARK_START}(?:image|pasted text) #(\\d+)[^{MARK_END}]*{MARK_END}")
_STAND_IN_RE = re.compile(f"[{chr(_FIRST_STAND_IN_CODE_POINT)}-{chr(_RESERVED_CODE_POINTS[-1])}]")

_MAX_UNFOLDED_LINES = 8
_MAX_UNFOLDED_CHARS = 1_500
_MAX_EDITABLE_CHARS = 100_000
_MAX_EDITABLE_LINE_CHARS = 5_000
"""A line is wrapped anew with every letter that is typed into it."""


def encode_draft_text(text: str) -> str:
    """Encode text for a draft: uniform line endings, no terminal control characters."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return (
        text if _CHARACTERS_TO_ENCODE.isdisjoint(text) else sanitize(text.translate(_ENCODE_TABLE))
    )


def decode_draft_text(text: str) -> str:
    """Decode every character to the original."""
    return text if text.isprintable() else text.translate(_DECODE_TABLE)


def to_visible_text(line: str) -> str:
    """Return a text of the same length with a visible character for each."""
    return line if line.isprintable() else line.translate(_DISPLAY_TABLE)


def find_invisible_character_offsets(line: str) -> Iterator[int]:
    return (match.start() for match in _STAND_IN_RE.finditer(line))


def find_mark_spans(line: str) -> Iterator[tuple[int, int]]:
    """Find where marks begin and end."""
    if MARK_START in line:
        yield from (match.span() for match in _MARK_RE.finditer(line))


def should_fold_paste(text: str) -> bool:
    return len(text) > _MAX_UNFOLDED_CHARS or text.count("\n") >= _MAX_UNFOLDED_LINES


def can_edit_inline(text: str) -> bool:
    """Whether it can be inserted completely without making typing slow."""
    return (
        len(text) <= _MAX_EDITABLE_CHARS
        and max(map(len, text.split("\n"))) <= _MAX_EDITABLE_LINE_CHARS
    )


class Draft(Struct, frozen=True):
    """The content of an unsent or earlier message."""

    text: str
    pastes: dict[int, str] = {}
    images: dict[int, str] = {}
    """Data URIs."""
    is_shell_command: bool = False


class Attachments:
    """The content of a draft's marks; nothing is removed, so that undo works."""

    def __init__(self) -> None:
        self._pastes: dict[int, str] = {}
        self._images: dict[int, str] = {}

    def fold_paste(self, text: str) -> str:
        """Return a mark for a pasted text."""
        number = _assign_number(self._pastes, text)
        lines = text.count("\n") + (not text.endswith("\n"))
        size = f"{lines} lines" if lines > 1 else f"{len(text)} characters"
        unseen = len(_STAND_IN_RE.findall(text))
        hidden = f", {unseen} hidden characters" if unseen else ""
        return f"{MARK_START}pasted text #{number}, {size}{hidden}{MARK_END}"

    def attach_image(self, image: str) -> str:
        return f"{MARK_START}image #{_assign_number(self._images, image)}{MARK_END}"

    def find_paste(self, mark: str) -> str | None:
        """Return the folded text; None for other marks."""
        match = _MARK_RE.fullmatch(mark)
        return self._pastes.get(int(match[1])) if match and _is_paste_mark(mark) else None

    def unfold_pastes(self, text: str) -> str:
        """Return the text with all pasted texts in place; remaining images are renumbered."""
        count = 0

        def put(match: re.Match[str]) -> str:
            nonlocal count
            if _is_paste_mark(match[0]):
                return self._pastes[int(match[1])]
            count += 1
            return f"[image #{count}]"

        return _MARK_RE.sub(put, text)

    def list_images(self, text: str) -> tuple[str, ...]:
        """List the images that are still in the text, in order."""
        found = (match for match in _MARK_RE.finditer(text) if not _is_paste_mark(match[0]))
        return tuple(self._images[int(match[1])] for match in found)

    def to_editor_text(self, text: str) -> str:
        """Convert to text for an editor, with readable marks that `from_editor_text` recognizes."""
        return decode_draft_text(
            _MARK_RE.sub(lambda mark: self.find_paste(mark[0]) or to_visible_text(mark[0]), text)
        )

    def from_editor_text(self, text: str) -> str:
        """Convert edited text back, with the earlier marks."""
        text = encode_draft_text(text)
        for pasted in sorted(self._pastes.values(), key=len, reverse=True):
            text = text.replace(pasted, self.fold_paste(pasted))
        for number in self._images:
            text = text.replace(f"[image #{number}]", f"{MARK_START}image #{number}{MARK_END}")
        return text

    def build_draft(self, text: str, *, shell: bool) -> Draft:
        """Build a draft with only the attachments it uses."""
        found = [(int(match[1]), _is_paste_mark(match[0])) for match in _MARK_RE.finditer(text)]
        return Draft(
            text,
            {number: self._pastes[number] for number, paste in found if paste},
            {number: self._images[number] for number, paste in found if not paste},
            shell,
        )

    def adopt_draft(self, draft: Draft) -> str:
        """Adopt a draft's text, with new numbers."""

        def renumber(match: re.Match[str]) -> str:
            number = int(match[1])
            if _is_paste_mark(match[0]):
                return self.fold_paste(draft.pastes[number]) if number in draft.pastes else ""
            return self.attach_image(draft.images[number]) if number in draft.images else ""

        return _MARK_RE.sub(renumber, draft.text)


def _assign_number(known: dict[int, str], content: str) -> int:
    """Assign a number; the same content has the same number."""
    for number, known_content in known.items():
        if known_content == content:
            return number
    number = len(known) + 1
    known[number] = content
    return number


def _is_paste_mark(mark: str) -> bool:
    return mark.startswith(f"{MARK_START}pasted")
