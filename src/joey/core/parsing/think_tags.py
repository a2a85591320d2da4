"""Reasoning that a model writes into its text: `<think>…</think>` or `<thinking>…</thinking>`.

Only a section that opens the text counts (white space before it aside); later on the same tags
are words like others. White space around the section goes with it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

Piece = tuple[Literal["text", "reasoning"], str]

_OPENINGS = {"<think>": "</think>", "<thinking>": "</thinking>"}


class ThinkTags:
    """Splits streamed text. Once `settled`, whatever follows is text and need not come here."""

    def __init__(self) -> None:
        self.settled = False
        self._lead: list[str] = []
        """White space before the first word, kept in case that word is no tag."""
        self._held = ""
        """What may be the beginning of a tag."""
        self._closing = ""
        self._expect: Callable[[str], list[Piece]] = self._opening

    def feed(self, text: str) -> list[Piece]:
        if self.settled:
            return [("text", text)] if text else []
        return self._expect(text)

    def close(self) -> list[Piece]:
        """What is still held, when no more text comes."""
        if self.settled:
            return []
        self.settled = True
        if self._expect == self._reasoning:
            return _pieces("reasoning", self._held)
        return _pieces("text", "".join(self._lead) + self._held)

    def _opening(self, text: str) -> list[Piece]:
        begun = self._held + text
        word = begun.lstrip()
        self._lead.append(begun[: len(begun) - len(word)])
        self._held = word
        for opening, closing in _OPENINGS.items():
            if word.startswith(opening):
                self._lead.clear()
                self._held = ""
                self._closing = closing
                self._expect = self._reasoning
                return self._reasoning(word[len(opening) :])
        if any(opening.startswith(word) for opening in _OPENINGS):
            return []
        self.settled = True
        return [("text", "".join(self._lead) + word)]

    def _reasoning(self, text: str) -> list[Piece]:
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

    def _gap(self, text: str) -> list[Piece]:
        word = text.lstrip()
        self.settled = bool(word)
        return _pieces("text", word)


def _pieces(kind: Literal["text", "reasoning"], text: str) -> list[Piece]:
    return [(kind, text)] if text else []
