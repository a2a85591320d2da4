"""What the names of styles look like in the colours of the screen.

A name is made of words: `bold`, `italic`, `underline`, `strike` and `dim` are what they say; every
other word is a colour that the stylesheet of `Conversation` gives it.
"""

from __future__ import annotations

from collections.abc import Mapping

from rich.style import Style

HUES = (
    *("person", "heading", "code", "link", "quote", "mark", "path", "muted"),
    *("added", "removed", "added-word", "removed-word", "hunk"),
    *("error", "warning", "success"),
    *("keyword", "string", "comment", "number", "function", "builtin"),
)
_LOOKS = {
    "bold": Style(bold=True),
    "italic": Style(italic=True),
    "underline": Style(underline=True),
    "strike": Style(strike=True),
    "dim": Style(dim=True),
}


class Palette:
    def __init__(self, ground: Style, hues: Mapping[str, Style]) -> None:
        """`ground` is how text looks that has no style of its own."""
        self._ground = ground
        self._words = {**hues, **_LOOKS}
        self._styles: dict[str, Style] = {}

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Palette):
            return NotImplemented
        return (self._ground, self._words) == (other._ground, other._words)

    __hash__ = object.__hash__

    def style(self, name: str | Style) -> Style:
        if isinstance(name, Style):
            return self._ground + name
        style = self._styles.get(name)
        if style is None:
            known = [self._words[word] for word in name.split() if word in self._words]
            style = self._styles[name] = Style.combine([self._ground, *known])
        return style
