"""Styled text: spans broken into lines, syntax highlighting, the palette of the conversation.

A span is a text with the name of its style. A name consists of words: `bold`, `italic`,
`underline`, `strike` and `dim` have their usual meaning; every other word is a colour that the
stylesheet of `ConversationView` defines. Breaking lines takes linear time for any text, even a line
of a megabyte without a blank.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import accumulate
from typing import Any

from rich.cells import cell_len, split_graphemes
from rich.console import Console
from rich.style import Style
from rich.syntax import Syntax
from rich.text import Text
from textual.widget import Widget

from joey.presentation.text import sanitize

Span = tuple[str, str | Style]
Spans = Sequence[Span]

TAB_SIZE = 4
_WIDE_CHARACTER_RANGES = (
    "\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60"
)
_WORD_RE = re.compile(rf"[{_WIDE_CHARACTER_RANGES}]|[^\s{_WIDE_CHARACTER_RANGES}]+")
"""What is not broken unless it is longer than a line."""
_RICH_CONSOLE = Console(file=io.StringIO())


def clean_text(text: str) -> str:
    """Remove control characters and tabs from a text."""
    return sanitize(text).expandtabs(TAB_SIZE)


def to_plain_text(spans: Spans) -> str:
    return "".join(text for text, _ in spans)


def split_rich_text(text: Text) -> Iterator[Spans]:
    for line in text.split("\n", allow_blank=True):
        rendered = line.render(_RICH_CONSOLE)
        yield [(piece, style or "") for piece, style, _ in rendered if piece]


def wrap_spans(spans: Spans, width: int, hang: int = 0) -> list[Spans]:
    """Break a line between words; continuation lines are indented by `hang`."""
    text = to_plain_text(spans)
    if _is_within_width(text, width):
        return [spans]
    hang = hang if hang <= width // 2 else 0
    return _slice_spans(spans, _break_at_spaces(text, width, width - hang), hang)


def chop_spans(spans: Spans, width: int, hang: int = 0) -> list[Spans]:
    """Break a line at the edge, as for code and output."""
    text = to_plain_text(spans)
    if _is_within_width(text, width):
        return [spans]
    hang = hang if hang <= width // 2 else 0
    return _slice_spans(spans, list(_break_at_edge(text, 0, len(text), width, width - hang)), hang)


def count_chopped_lines(text: str, width: int, hang: int = 0) -> int:
    """Count the lines that `chop_spans` makes of a text."""
    if _is_within_width(text, width):
        return 1
    hang = hang if hang <= width // 2 else 0
    if text.isascii():
        return 1 + -(-(len(text) - width) // (width - hang))
    return sum(1 for _ in _break_at_edge(text, 0, len(text), width, width - hang))


def _is_within_width(text: str, width: int) -> bool:
    # No character is wider than two cells, none that ASCII has wider than one.
    if len(text) <= width and text.isascii():
        return True
    return len(text) <= 4 * width and cell_len(text) <= width


def _break_at_spaces(text: str, first_width: int, next_width: int) -> list[tuple[int, int]]:
    pieces: list[tuple[int, int]] = []
    start = end = used = 0
    left = first_width
    for word in _WORD_RE.finditer(text):
        size = cell_len(word.group())
        gap = cell_len(text[end : word.start()])
        if end > start and used + gap + size > left:
            pieces.append((start, end))
            start, used, gap, left = word.start(), 0, 0, next_width
        if used + gap + size > left:
            *whole, (start, end) = _break_at_edge(text, start, word.end(), left, next_width)
            pieces += whole
            left = next_width if whole else left
            used = cell_len(text[start:end])
        else:
            used += gap + size
        end = word.end()
    return [*pieces, (start, end)]


def _break_at_edge(
    text: str, start: int, end: int, first_width: int, next_width: int
) -> Iterator[tuple[int, int]]:
    """Break into pieces of at most as many cells; a character wider than a line gets its own."""
    part = text[start:end]
    if part.isascii():
        yield (start, min(end, start + first_width))
        yield from (
            (at, min(end, at + next_width)) for at in range(start + first_width, end, next_width)
        )
        return
    graphemes, _ = split_graphemes(part)
    begun, used, left = 0, 0, first_width
    for at, _, size in graphemes:
        if used + size > left and at > begun:
            yield (start + begun, start + at)
            begun, used, left = at, 0, next_width
        used += size
    yield (start + begun, end)


def _slice_spans(spans: Spans, pieces: Sequence[tuple[int, int]], hang: int) -> list[Spans]:
    """Slice the pieces of a line with their styles; both are in order, so each span is visited
    once."""
    ends = list(accumulate(len(text) for text, _ in spans))
    lines: list[Spans] = []
    at = 0
    for number, (start, end) in enumerate(pieces):
        line: list[Span] = [(" " * hang, "")] if hang and number else []
        while at < len(spans) and ends[at] <= start:
            at += 1
        index = at
        while index < len(spans) and ends[index] - len(spans[index][0]) < end:
            text, style = spans[index]
            begins = ends[index] - len(text)
            line.append((text[max(0, start - begins) : end - begins], style))
            index += 1
        lines.append(line)
    return lines


MAX_HIGHLIGHTED_LINE_CHARS = 2_000
"""Longer ones were not written by people, and are shown plainly."""
_STYLES_BY_TOKEN_TYPE = {
    ("Keyword",): "keyword",
    ("Name", "Builtin"): "builtin",
    ("Name", "Function"): "function",
    ("Name", "Class"): "function",
    ("Name", "Decorator"): "builtin",
    ("Name", "Exception"): "builtin",
    ("Name", "Tag"): "keyword",
    ("Name", "Attribute"): "function",
    ("Literal", "String"): "string",
    ("Literal", "Number"): "number",
    ("Comment",): "comment",
    ("Operator", "Word"): "keyword",
    ("Generic", "Deleted"): "removed",
    ("Generic", "Inserted"): "added",
    ("Generic", "Heading"): "heading",
}


def highlight_lines(lines: Sequence[str], language: str) -> list[Spans]:
    """Highlight each line by the grammar of the language."""
    lexer = _load_lexer(language)
    if lexer is None or any(len(line) > MAX_HIGHLIGHTED_LINE_CHARS for line in lines):
        return [[(line, "")] for line in lines]
    tokens = lexer.get_tokens("\n".join(lines))
    found: list[Spans] = list(_split_tokens_into_lines(tokens))
    found += [[]] * (len(lines) - len(found))
    return found[: len(lines)]


@lru_cache(maxsize=50)
def _load_lexer(language: str) -> Any:
    """Load a lexer that keeps the text unchanged; None for an unknown language."""
    lexer = Syntax("", language).lexer if language else None
    if lexer is not None:
        lexer.stripnl = lexer.stripall = False
        lexer.ensurenl = False
    return lexer


def _split_tokens_into_lines(tokens: Iterable[tuple[Any, str]]) -> Iterator[list[Span]]:
    line: list[Span] = []
    for kind, text in tokens:
        hue = _find_token_style(tuple(kind))
        first, *rest = text.split("\n")
        if first and line and line[-1][1] == hue:
            line[-1] = (line[-1][0] + first, hue)
        elif first:
            line.append((first, hue))
        for piece in rest:
            yield line
            line = [(piece, hue)] if piece else []
    yield line


@lru_cache(maxsize=200)
def _find_token_style(kind: tuple[str, ...]) -> str:
    return next(
        (
            _STYLES_BY_TOKEN_TYPE[kind[:n]]
            for n in range(len(kind), 0, -1)
            if kind[:n] in _STYLES_BY_TOKEN_TYPE
        ),
        "",
    )


STYLE_NAMES = (
    *("person", "heading", "code", "link", "quote", "mark", "path", "muted"),
    *("added", "removed", "added-word", "removed-word", "hunk"),
    *("error", "warning", "success"),
    *("keyword", "string", "comment", "number", "function", "builtin"),
)
_TEXT_ATTRIBUTE_STYLES = {
    "bold": Style(bold=True),
    "italic": Style(italic=True),
    "underline": Style(underline=True),
    "strike": Style(strike=True),
    "dim": Style(dim=True),
}


class Palette:
    def __init__(self, ground: Style, hues: Mapping[str, Style]) -> None:
        """`ground` is the style of text without a style."""
        self._base_style = ground
        self._named_styles = {**hues, **_TEXT_ATTRIBUTE_STYLES}
        self._style_cache: dict[str, Style] = {}

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Palette):
            return NotImplemented
        return (self._base_style, self._named_styles) == (other._base_style, other._named_styles)

    __hash__ = object.__hash__

    def resolve_style(self, name: str | Style) -> Style:
        if isinstance(name, Style):
            return self._base_style + name
        style = self._style_cache.get(name)
        if style is None:
            known = [
                self._named_styles[word] for word in name.split() if word in self._named_styles
            ]
            style = self._style_cache[name] = Style.combine([self._base_style, *known])
        return style


COMPONENT_CLASSES = {f"conversation--{hue}" for hue in STYLE_NAMES} | {"conversation--more"}
_ANSI_STYLES = {
    **dict.fromkeys(("person", "code", "link", "mark", "path", "hunk", "builtin"), "cyan"),
    **dict.fromkeys(("number", "keyword"), "magenta"),
    **dict.fromkeys(("heading", "function"), "bold"),
    **dict.fromkeys(("muted", "quote", "comment"), "dim"),
}
"""In the terminal's own colours, whose blue and yellow few people can read everywhere."""
CONVERSATION_CSS = """\
ConversationView {
    background: $background;
    color: $foreground;
    overflow-x: hidden;
    overflow-y: scroll;
    scrollbar-size-vertical: 0;
    & .conversation--person { color: $text-primary; }
    & .conversation--heading { color: $text-primary; }
    & .conversation--code { color: $text-accent; }
    & .conversation--link { color: $text-primary; }
    & .conversation--quote { color: $foreground 60%; text-style: italic; }
    & .conversation--mark { color: $text-primary; }
    & .conversation--path { color: $text-primary; }
    & .conversation--muted { color: $foreground 60%; }
    & .conversation--added { color: $text-success; }
    & .conversation--removed { color: $text-error; }
    & .conversation--added-word { color: $text-success; text-style: bold underline; }
    & .conversation--removed-word { color: $text-error; text-style: bold underline; }
    & .conversation--hunk { color: $text-secondary; }
    & .conversation--error { color: $text-error; }
    & .conversation--warning { color: $text-warning; }
    & .conversation--success { color: $text-success; }
    & .conversation--keyword { color: $text-primary; text-style: bold; }
    & .conversation--string { color: $text-success; }
    & .conversation--comment { color: $foreground 60%; text-style: italic; }
    & .conversation--number { color: $text-warning; }
    & .conversation--function { color: $text-accent; }
    & .conversation--builtin { color: $text-secondary; }
    & .conversation--more { background: $primary; color: $background; }
}
"""


def build_palette(widget: Widget) -> Palette:
    return Palette(
        widget.rich_style, {hue: _resolve_component_style(widget, hue) for hue in STYLE_NAMES}
    )


def _resolve_component_style(widget: Widget, name: str) -> Style:
    """Resolve a colour on the background of the widget; a transparent one is blended with it."""
    styles = widget.get_component_styles(f"conversation--{name}")
    colour = styles.color
    if colour.ansi is not None:
        own = _ANSI_STYLES.get(name)
        return Style.parse(own) if own else Style(color=colour.rich_color) + styles.text_style
    return Style(color=(widget.background_colors[1] + colour).rich_color) + styles.text_style
