"""Whether a place in streamed Markdown is prose, or code, a quotation, a table or a comment."""

from __future__ import annotations

import re

from joey.core.text import compile_regex

_FENCE_RE = compile_regex(r" {0,3}(`{3,}|~{3,})[ \t]*([^`\n]*)$")
_CODE_INDENT = 4
_LONGEST_HEAD = 200
"""Characters of a line that are kept; a fence and the marks of a quotation stand at its start."""
_CALL_FOLLOWS = r"(?=[<\[{]|\Z)"
_LOG_LEVEL = r"(?:TRACE|DEBUG|INFO|NOTICE|WARN(?:ING)?|ERROR|CRITICAL|FATAL)"
_LOG_HEAD = (
    r"\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d\S*+(?:\s++[^\s<]++){0,3}"
    r"|(?:[A-Z][a-z]{2} [ \d]\d )?\[?\d\d:\d\d:\d\d[\d.,]*+\]?(?:\s++[^\s<]++){0,3}"
    rf"|\d{{10}}(?:\.\d++)?+|\[?{_LOG_LEVEL}(?:\]|:)[^\s<]*+"
)
"""How a line of a log begins: with a time or a level."""
_LOG_MESSAGE = (
    rf"\[?{_LOG_LEVEL}(?:\]|:)|E {{2,}}|(?:FAILED|PASSED) \S+::|npm ERR!"
    r"|(?:[\w.]*(?:Error|Exception)|error(?: \w++)?|warning|fatal|panic):"
)
"""How the line of a failure begins. A message may follow, and quote a call."""
_DATA_LABEL = (
    r"(?:[Ss]td(?:out|err)|[Ee]xpected|[Aa]ctual|[Gg]ot|[Rr]eceived):|\[[a-z][\w.-]*+\]"
    r"|(?:[ \t]++|\s*+[-*+]\s++)[a-z_][\w-]*+:"
)
"""What names a value: the part of a comparison, a service, the key of a mapping."""
_NEVER_PROSE_RE = compile_regex(
    rf"\s*+\+\s*+{_CALL_FOLLOWS}"
    r"|(?:\s*+(?:[-*+]|\d{1,4}[.)])\s++)*+\s*+"
    rf"(?:[>|#%;]|//|--|REM\s|'\s|\[\w++\(|\[\^[^\]\s]++\]:|[+-]{_CALL_FOLLOWS}"
    rf"|(?:[^\s:]++:)?\d++[:\t→]\s*+{_CALL_FOLLOWS}|[^\s:]++:\d++(?::\d++:|-)\s*+{_CALL_FOLLOWS}"
    rf"|(?:{_LOG_HEAD})\s*+{_CALL_FOLLOWS}|{_LOG_MESSAGE})"
    rf"|(?:{_DATA_LABEL})\s*+{_CALL_FOLLOWS}"
    r"|.* \| "
)
"""A line of a quotation, table, comment, footnote, diff, found text, log or list of Python calls;
perhaps in a list."""
_QUOTES = ('"', "'", "“", "„", "‘", "«", "\\")
"""What precedes something that is quoted or escaped."""
_LITERAL_HEAD_RE = compile_regex(r".*: [|>][+-]?\s*$|.*::\s*$|\s*\.\. [\w-]+::")
"""A line of YAML or reStructuredText that says that the indented text after it is literal."""
_USER_TURN_RE = compile_regex(r"\W*(?:user|human)\b\W*:", re.IGNORECASE)
_ASSISTANT_TURN_RE = compile_regex(
    rf"\W*(?:assistant|ai|model|bot|agent)\b\W*:\W*?{_CALL_FOLLOWS}", re.IGNORECASE
)
_CODE_ELEMENTS = (
    *("blockquote", "cite", "code", "dd", "details", "document", "example", "examples", "file"),
    *("kbd", "li", "pre", "q", "samp", "sample", "script", "table", "td", "textarea", "th", "xmp"),
    *("file_content", "output", "system-reminder", "tool_response", "tool_result", "user"),
)
_BLOCK_COMMENTS = {"(*": "*)", "{#": "#}", "{-": "-}", "<#": "#>", "<%--": "--%>", "--[[": "]]"}
"""They count at the start of a line only; elsewhere these characters are something else."""
_STRINGS = ('"""', "'''")
_CLOSING_MARKS = {
    **{f"<{name}": f"</{name}" for name in _CODE_ELEMENTS},
    "<!--": "-->",
    "<![cdata[": "]]>",
    "/*": "*/",
    **_BLOCK_COMMENTS,
    **{mark: mark for mark in _STRINGS},
}
_PARAGRAPH_MARKS = frozenset({"<dd", "<li", "<td", "<th"})
"""Often left open, so they reach to the end of the paragraph at most."""
_LINE_START_MARKS = frozenset({"/*", *_BLOCK_COMMENTS})
_MARK_RE = compile_regex(
    "|".join(
        (
            *(r"(<!--|-->|<!\[CDATA\[|\]\]>|/\*|\*/", *map(re.escape, _STRINGS)),
            *map(re.escape, _BLOCK_COMMENTS.values()),
            *(rf"{re.escape(mark)}(?=[\s<]|$)" for mark in _BLOCK_COMMENTS),
        )
    )
    + rf")|(</?(?:{'|'.join(_CODE_ELEMENTS)}))[\s>]",
    re.IGNORECASE,
)
_LONGEST_MARK = max(map(len, _CLOSING_MARKS.values())) + 1


class MarkdownContext:
    """Follows the text up to the current position. Each character is read once, and only on a
    query."""

    def __init__(self, *, is_after_blank_line: bool = True) -> None:
        self._unread_pieces: list[str] = []
        self._fence_marker = ""
        """What opened the fenced code block around the current place; empty outside of one."""
        self._line_head = ""
        self._is_head_whole = True
        """The whole line so far is in `_line_head`."""
        self._backticks = 0
        self._quotes = 0
        self._code_indent = _CODE_INDENT if is_after_blank_line else None
        """From which column a line is indented code. None where such code cannot begin: the line
        before is neither blank nor indented code, nor says that literal text follows."""
        self._is_transcript = False
        """A line so far is a turn of a user."""
        self._is_in_diff = False
        """A line of the paragraph so far is the head of a hunk."""
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
        """Whether the current position is at the start of a line, or after a tag or a colon."""
        return self.is_line_blank or self._last_characters.endswith((">", ":", "]"))

    @property
    def is_prose(self) -> bool:
        """Whether text here is meant literally, not shown as an example."""
        return not self.is_fenced and self.is_prose_line

    @property
    def is_prose_line(self) -> bool:
        """Whether this line is prose, in a fence or not."""
        self._read()
        return not (
            self._open_mark
            or self._is_in_diff
            or self.is_inline_code
            or self._quotes % 2 == 1
            or self._last_characters.endswith(_QUOTES)
            or self._last_characters.rstrip().endswith("=")
            or _NEVER_PROSE_RE.match(self._line_head)
            or (self._is_transcript and _ASSISTANT_TURN_RE.match(self._line_head))
            or self._is_indented_code
        )

    @property
    def _is_indented_code(self) -> bool:
        head = self._line_head.expandtabs(4)
        return self._code_indent is not None and head.startswith(" " * self._code_indent)

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
        """Count quotation marks without a backslash before them, which are inside a string."""
        if '"' not in piece:
            return 0
        is_first_escaped = piece[0] == '"' and self._last_characters.endswith("\\")
        return piece.count('"') - piece.count('\\"') - is_first_escaped

    def _follow_marks(self, piece: str) -> None:
        """Track comments, and code marked as such by HTML."""
        before = self._last_characters
        seen = before + piece
        for mark in _MARK_RE.finditer(seen):
            if mark.end() > len(before):
                start = len(self._line_head) + mark.start() - len(before)
                is_line_start = not (self._line_head + piece)[:start].strip()
                self._handle_mark((mark[1] or mark[2]).lower(), is_line_start=is_line_start)
        self._last_characters = seen[-_LONGEST_MARK:]

    def _handle_mark(self, mark: str, *, is_line_start: bool) -> None:
        """Handle a mark within a line, which is open until the end of the paragraph at most."""
        if mark == _CLOSING_MARKS.get(self._open_mark):
            self._open_mark = ""
        elif (
            mark in _CLOSING_MARKS
            and not self._open_mark
            and (is_line_start or mark not in _LINE_START_MARKS)
        ):
            self._open_mark = mark
            is_paragraph = mark in _PARAGRAPH_MARKS
            self._is_mark_in_line = is_paragraph or (not is_line_start and mark != "<!--")

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
        if _LITERAL_HEAD_RE.match(self._line_head):
            self._code_indent = 1
        elif is_blank:
            self._code_indent = self._code_indent or _CODE_INDENT
        elif not self._is_indented_code:
            self._code_indent = None
        self._is_transcript = self._is_transcript or bool(_USER_TURN_RE.match(self._line_head))
        self._is_in_diff = not is_blank and (self._is_in_diff or self._line_head.startswith("@@ -"))
        self._line_head, self._is_head_whole, self._backticks, self._quotes = "", True, 0, 0
        self._last_characters = ""
