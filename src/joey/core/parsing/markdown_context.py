"""Whether a place in streamed Markdown is prose, or code, a quotation, a table or a comment."""

from __future__ import annotations

from joey.core.text import compile_regex

_FENCE_RE = compile_regex(r" {0,3}(`{3,}|~{3,})[ \t]*([^`\n]*)$")
_LONGEST_HEAD = 200
"""Characters of a line that are kept; a fence and the marks of a quotation stand at its start."""
_NEVER_PROSE_RE = compile_regex(
    r"(?:\s*+(?:[-*+]|\d{1,4}[.)])\s++)*+\s*+"
    r"(?:[>|#%;]|//|--|REM\s|'\s|\[\w++\(|\[\^[^\]\s]++\]:|[+-]\Z|(?:[^\s:]++:)?\d++[:\t]\s*+\Z"
    r"|[^\s:]++:\d++(?::\d++:|-)\s*+\Z|\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d\S*+(?:\s++\S++){0,3}\s*+\Z)"
    r"|.* \| "
)
"""A line of a quotation, table, comment, footnote, diff, found text, log or list of Python calls;
perhaps in a list."""
_QUOTES = ('"', "'", "“", "„", "‘", "«")
_CODE_ELEMENTS = (
    *("blockquote", "cite", "code", "example", "kbd", "pre", "q", "samp", "script", "textarea"),
    *("file_content", "output", "system-reminder", "tool_response", "tool_result", "user", "xmp"),
)
_CLOSING_MARKS = {
    **{f"<{name}": f"</{name}" for name in _CODE_ELEMENTS},
    "<!--": "-->",
    "<![CDATA[": "]]>",
    "/*": "*/",
}
_MARK_RE = compile_regex(
    rf"(<!--|-->|<!\[CDATA\[|\]\]>|/\*|\*/)|(</?(?:{'|'.join(_CODE_ELEMENTS)}))[\s>]"
)
_LONGEST_MARK = max(map(len, _CLOSING_MARKS.values())) + 1


class MarkdownContext:
    """Follows the text up to the current place. Each character is looked at once, and only when
    something is asked."""

    def __init__(self, *, is_after_blank_line: bool = True) -> None:
        self._unread_pieces: list[str] = []
        self._fence_marker = ""
        """What opened the fenced code block around the current place; empty outside of one."""
        self._line_head = ""
        self._is_head_whole = True
        """The whole line so far is in `_line_head`."""
        self._backticks = 0
        self._quotes = 0
        self._can_begin_indented_code = is_after_blank_line
        """The line before is blank or indented code itself."""
        self._open_mark = ""
        """The comment or the code of HTML that is open."""
        self._is_mark_in_line = False
        self._last_characters = ""

    def feed(self, text: str) -> None:
        self._unread_pieces.append(text)

    def _read(self) -> None:
        first, *others = "".join(self._unread_pieces).split("\n")
        self._unread_pieces.clear()
        self._extend_line(first)
        for line in others:
            self._end_line()
            self._extend_line(line)

    @property
    def is_fenced(self) -> bool:
        self._read()
        return bool(self._fence_marker)

    @property
    def is_inline_code(self) -> bool:
        """Whether a backtick is open in the current line."""
        self._read()
        return self._backticks % 2 == 1

    @property
    def is_line_blank(self) -> bool:
        """Whether the current line has had only white space so far."""
        self._read()
        return not self._line_head.strip()

    @property
    def is_after_mark(self) -> bool:
        """Whether the current place is at the start of a line, or behind a tag or a colon."""
        return self.is_line_blank or self._last_characters.endswith((">", ":", "]"))

    @property
    def is_prose(self) -> bool:
        """Whether something that stands here is meant, and not only shown."""
        return not self.is_fenced and self.is_prose_line

    @property
    def is_prose_line(self) -> bool:
        """The same, whether in a fence or not."""
        self._read()
        return not (
            self._open_mark
            or self.is_inline_code
            or self._quotes % 2 == 1
            or self._last_characters.endswith(_QUOTES)
            or _NEVER_PROSE_RE.match(self._line_head)
            or self._is_indented_code
        )

    @property
    def _is_indented_code(self) -> bool:
        return (
            self._can_begin_indented_code
            and self._line_head.startswith((" ", "\t"))
            and self._line_head.expandtabs(4).startswith("    ")
        )

    def _extend_line(self, piece: str) -> None:
        if not piece:
            return
        self._quotes += self._count_quotes(piece)
        self._follow_marks(piece)
        room = _LONGEST_HEAD - len(self._line_head)
        self._is_head_whole = self._is_head_whole and len(piece) <= room
        self._line_head += piece[: max(room, 0)]
        self._backticks += piece.count("`")

    def _count_quotes(self, piece: str) -> int:
        """Those with a backslash before them are inside a string already."""
        if '"' not in piece:
            return 0
        is_first_escaped = piece[0] == '"' and self._last_characters.endswith("\\")
        return piece.count('"') - piece.count('\\"') - is_first_escaped

    def _follow_marks(self, piece: str) -> None:
        """Comments, and code that HTML marks as such."""
        before = self._last_characters
        seen = before + piece
        for mark in _MARK_RE.finditer(seen):
            if mark.end() > len(before):
                start = len(self._line_head) + mark.start() - len(before)
                is_line_start = not (self._line_head + piece)[:start].strip()
                self._handle_mark(mark[1] or mark[2], is_line_start=is_line_start)
        self._last_characters = seen[-_LONGEST_MARK:]

    def _handle_mark(self, mark: str, *, is_line_start: bool) -> None:
        """A mark within a line is open until the end of the paragraph at most."""
        if mark == _CLOSING_MARKS.get(self._open_mark):
            self._open_mark = ""
        elif mark in _CLOSING_MARKS and not self._open_mark and (is_line_start or mark != "/*"):
            self._open_mark = mark
            self._is_mark_in_line = not is_line_start and mark != "<!--"

    def _end_line(self) -> None:
        fence = _FENCE_RE.match(self._line_head.rstrip("\r")) if self._is_head_whole else None
        if fence is not None:
            marker, info = fence[1], fence[2].strip()
            if not self._fence_marker:
                self._fence_marker = marker
            elif not info and marker.startswith(self._fence_marker):
                self._fence_marker = ""
        is_blank = not self._line_head.strip()
        if is_blank and self._is_mark_in_line:
            self._open_mark = ""
        self._can_begin_indented_code = is_blank or self._is_indented_code
        self._line_head, self._is_head_whole, self._backticks, self._quotes = "", True, 0, 0
        self._last_characters = ""
