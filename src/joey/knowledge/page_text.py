"""The words of an HTML page, with headings, lists, links and code kept as Markdown."""

from __future__ import annotations

import re
from html.parser import HTMLParser

_SKIPPED = frozenset({"script", "style", "noscript", "template", "svg", "title", "iframe"})
_BLOCKS = frozenset({"p", "div", "section", "article", "table", "tr", "ul", "ol", "main", "hr"})
_BLOCKS |= {
    "title",
    "body",
    "header",
    "footer",
    "nav",
    "blockquote",
    "form",
    "dl",
    "dt",
    "dd",
    "figure",
}
_HEADINGS = {f"h{level}": "#" * level for level in range(1, 7)}
_SPACES = re.compile(r"[ \t\r\n]+")
_FENCE = "```"


def markdown_of(html: str) -> str:
    """The words of a page, with headings, lists, links and code kept as Markdown."""
    reader = _Reader()
    reader.feed(html)
    reader.close()
    return reader.markdown


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self._parts: list[str] = []
        self._skipping = 0
        self._verbatim = 0
        self._links: list[str] = []

    @property
    def markdown(self) -> str:
        lines: list[str] = []
        in_code = False
        for line in "".join(self._parts).split("\n"):
            if line == _FENCE:
                in_code = not in_code
            kept = line if in_code else line.strip()
            if kept or in_code or (lines and lines[-1]):
                lines.append(kept)
        return "\n".join(lines).strip()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        match tag:
            case _ if tag in _SKIPPED:
                self._skipping += 1
            case _ if tag in _HEADINGS:
                self._parts.append(f"\n\n{_HEADINGS[tag]} ")
            case "li":
                self._parts.append("\n- ")
            case "br":
                self._parts.append("\n")
            case "pre":
                self._verbatim += 1
                self._parts.append(f"\n\n{_FENCE}\n")
            case "code" if not self._verbatim:
                self._parts.append("`")
            case "a":
                self._links.append(dict(attrs).get("href") or "")
                self._parts.append("[")
            case "td" | "th":
                self._parts.append(" | ")
            case _ if tag in _BLOCKS:
                self._parts.append("\n\n")

    def handle_endtag(self, tag: str) -> None:
        match tag:
            case _ if tag in _SKIPPED:
                self._skipping = max(0, self._skipping - 1)
            case "pre" if self._verbatim:
                self._verbatim -= 1
                self._parts.append(f"\n{_FENCE}\n\n")
            case "code" if not self._verbatim:
                self._parts.append("`")
            case "a" if self._links:
                target = self._links.pop()
                self._parts.append(f"]({target})" if target else "]")
            case _ if tag in _HEADINGS or tag in _BLOCKS:
                self._parts.append("\n\n")

    def handle_data(self, data: str) -> None:
        if not self._skipping:
            self._parts.append(data if self._verbatim else _SPACES.sub(" ", data))
