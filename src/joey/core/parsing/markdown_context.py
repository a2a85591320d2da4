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
    r"\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d\S*+(?:\s++[^\s<]++){0,5}"
    r"|(?:[A-Z][a-z]{2} [ \d]\d )?\[?\d\d:\d\d:\d\d[\d.,]*+\]?(?:\s++[^\s<]++){0,3}"
    r"|[IWEF]\d{4} \d\d:\d\d:\d\d\S*+\s++\d++ [^\s\]]++\]"
    rf"|\d{{10}}(?:\.\d++)?+|\[?{_LOG_LEVEL}\b[^\s<]*+(?:\s++-)?+"
)
"""How a line of a log begins: with a time or a level."""
_LOG_MESSAGE = (
    rf"\[?{_LOG_LEVEL}(?:\]|:)|E {{2,}}|(?:FAILED|PASSED) \S+::|npm ERR!"
    r"|Caused by:|Uncaught |Unhandled |Exception in "
    r"|(?:[\w.]*(?:Error|Exception)|error(?: \w++)?|warning|fatal|panic):"
)
"""How the line of a failure begins. A message may follow, and quote a call."""
_DATA_LABEL = (
    r"(?:[Ss]td(?:out|err)|[Ee]xpected|[Aa]ctual|[Gg]ot|[Rr]eceived):|\[[a-z][\w.-]*+\]"
    r"|(?:[ \t]++|\s*+[-*+]\s++)[a-z_][\w-]*+:|(?:In|Out) ?\[\d++\]:"
)
"""What names a value: the part of a comparison, a service, the key of a mapping."""
_NEVER_PROSE_RE = compile_regex(
    rf"\s*+\+\s*+{_CALL_FOLLOWS}"
    r"|(?:\s*+(?:[-*+]|\d{1,4}[.)])\s++)*+\s*+"
    rf"(?:[>|#%;]|//|--|REM\s|\.\\\"|'\s|\[\w++\(|\[\^[^\]\s]++\]:|[+-]{_CALL_FOLLOWS}"
    rf"|(?:[^\s:]++:)?\d++(?:[:\t→]\s*+|\s++){_CALL_FOLLOWS}|(?:[<!]|::?)\s++{_CALL_FOLLOWS}"
    rf"|(?:[^\s:]++:\d++(?::\d++:|-)|[^\s:]*[^\s:-]-\d++-)\s*+{_CALL_FOLLOWS}"
    rf"|\^?[0-9a-f]{{7,40}} \([^()]++\)\s*+{_CALL_FOLLOWS}"
    rf"|(?:{_LOG_HEAD})\s*+{_CALL_FOLLOWS}|{_LOG_MESSAGE})"
    rf"|(?:{_DATA_LABEL})\s*+{_CALL_FOLLOWS}"
    r"|.* [|│] "
    rf"|(?:\d[\w.-]*+[,;\t]|(?:[\w.-]++[,;\t]){{2}})(?:[\w.-]*+[,;\t])*+{_CALL_FOLLOWS}"
)
"""A line of a quotation, table, comment, footnote, diff, found text, log, definition or list of
Python calls; perhaps in a list."""
_QUOTES = ('"', "'", "“", "„", "‘", "«", "\\")
"""What precedes something that is quoted or escaped."""
_LITERAL_HEAD_RE = compile_regex(
    r".*: [|>][+-]?\s*$|.*::\s*$|\s*\.\. [\w-]+::|(?:!!!|\?\?\?\+?) \w"
)
"""A line of YAML, reStructuredText or MkDocs: the indented text after it is a block of its own."""
_LITERAL_OPENING_RE = compile_regex(
    r".*<<[-~<]?\s*+(['\"]?)(?P<heredoc>[A-Z_][A-Z0-9_]*+)\1\)?$|.*[=(:,]\s*(?P<template>`)$"
    r"|(?P<delimiter>-{4,}|\.{4,})$"
)
"""A line after which literal text begins: a here document, a template string, AsciiDoc."""
_ATTRIBUTES_RE = compile_regex(r"\[[^\[\]]++\]$")
"""A line of AsciiDoc before the delimiter of a block; without it, dashes are a rule."""
_PROMPT_RE = compile_regex(
    r"(?:\$|>>>|(?:In|Out) ?\[\d++\]:|[\w.-]++@[\w.-]++:\S*[$#]|PS [A-Z]:\\[^>]*>) +\S"
)
"""A line of a session: the prompt of a shell or an interpreter, and the input. Output follows."""
_USER_TURN_RE = compile_regex(
    r"\W*(?:user|human|you|q)\b\W*:|#{1,6} \W*(?:user|human)\W*$", re.IGNORECASE
)
_ASSISTANT = r"(?:assistant|ai|model|bot|agent|roo|joey|claude|chatgpt|gpt|gemini|a)"
_ASSISTANT_TURN_RE = compile_regex(
    rf"(?:\W*{_ASSISTANT}\b\W*:|#{{1,6}} \W*{_ASSISTANT}(?=\W*$))[\W_]*(?P<text>.*)$",
    re.IGNORECASE,
)
_CODE_ELEMENTS = (
    *("blockquote", "cite", "code", "dd", "details", "document", "example", "examples", "file"),
    *("kbd", "li", "listing", "literallayout", "log", "logs", "nowiki", "pre", "programlisting"),
    *("q", "quotation", "quote", "samp", "sample", "screen", "script", "snippet", "stderr"),
    *("stdout", "syntaxhighlight", "table", "td", "template", "textarea", "th", "tt", "xmp"),
    *("conversation", "file_content", "instructions", "message", "output", "prompt", "system"),
    *("system-reminder", "tool_response", "tool_result", "transcript", "user"),
)
_BLOCK_COMMENTS = dict(
    marks.split()
    for marks in (
        *("(* *)", "{# #}", "{- -}", "<# #>", "<%-- --%>", "--[[ ]]", "%{ %}", "<%# %>"),
        *("{{!-- --}}", "=begin =end"),
    )
)
_CODE_BLOCKS = dict(
    marks.split(" … ")
    for marks in (
        *("[code] … [/code]", "[code= … [/code]", "[quote] … [/quote]", "[quote= … [/quote]"),
        *("{code} … {code}", "{code: … {code}", "{noformat} … {noformat}", "{quote} … {quote}"),
        *("{% raw %} … {% endraw %}", "{% highlight … {% endhighlight", "#+begin_ … #+end_"),
        *(rf"\begin{{{name} … \end{{{name}" for name in ("verbatim", "lstlisting", "minted")),
    )
)
"""Like comments they count at the start of a line only; elsewhere they are only mentioned."""
_STRINGS = ('"""', "'''")
_CLOSING_MARKS = {
    **{f"<{name}": f"</{name}" for name in _CODE_ELEMENTS},
    "<!--": "-->",
    "<![cdata[": "]]>",
    "/*": "*/",
    **_BLOCK_COMMENTS,
    **_CODE_BLOCKS,
    **{mark: mark for mark in _STRINGS},
}
_PARAGRAPH_MARKS = frozenset({"<dd", "<li", "<td", "<th"})
"""Often left open, so they reach to the end of the paragraph at most."""
_LINE_START_MARKS = frozenset({"/*", *_BLOCK_COMMENTS, *_CODE_BLOCKS})
_MARK_RE = compile_regex(
    "|".join(
        (
            *(r"(<!--|-->|<!\[CDATA\[|\]\]>|/\*|\*/", *map(re.escape, _STRINGS)),
            *map(re.escape, [*_CODE_BLOCKS, *_CODE_BLOCKS.values(), *_BLOCK_COMMENTS.values()]),
            *(rf"{re.escape(mark)}(?=[\s<]|$)" for mark in _BLOCK_COMMENTS),
        )
    )
    + rf")|(</?(?:{'|'.join(_CODE_ELEMENTS)}))[\s>]",
    re.IGNORECASE,
)
_MENTION_RE = compile_regex(r"[^<>\n]*> +[a-z]")
"""What follows the name of an element that is only mentioned: `<pre> tags are missing`."""
_LONGEST_MARK = max(map(len, {*_CLOSING_MARKS, *_CLOSING_MARKS.values()})) + 1


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
        self._is_in_turn = False
        """In the first paragraph of an assistant's turn in a transcript."""
        self._is_role_alone = False
        self._is_in_session = False
        """After a prompt of a shell, until a blank line."""
        self._literal_end = ""
        """The line that ends the literal text around the current place."""
        self._is_after_attributes = False
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
            or self._literal_end
            or self._is_in_session
            or self._is_in_turn
            or self._is_assistant_turn
            or self._is_indented_code
        )

    @property
    def _is_assistant_turn(self) -> bool:
        turn = _ASSISTANT_TURN_RE.match(self._line_head) if self._is_transcript else None
        return turn is not None and not turn["text"]

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
                at = mark.start() - len(before)
                head = (self._line_head + piece)[: len(self._line_head) + at]
                is_mention = mark[2] is not None and _MENTION_RE.match(seen, mark.end() - 1)
                self._handle_mark(
                    (mark[1] or mark[2]).lower(),
                    is_line_start=not head.strip() and not is_mention,
                    is_inline_code=(self._backticks + piece[: max(at, 0)].count("`")) % 2 == 1,
                )
        self._last_characters = seen[-_LONGEST_MARK:]

    def _handle_mark(self, mark: str, *, is_line_start: bool, is_inline_code: bool) -> None:
        """Open or close a block; within a line it ends with the paragraph at the latest."""
        if mark == _CLOSING_MARKS.get(self._open_mark):
            self._open_mark = ""
        elif (
            mark in _CLOSING_MARKS
            and not self._open_mark
            and not is_inline_code
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
        self._is_in_diff = not is_blank and (self._is_in_diff or self._line_head.startswith("@@ -"))
        self._is_in_session = not is_blank and (
            self._is_in_session or _PROMPT_RE.match(self._line_head) is not None
        )
        self._follow_turns(is_blank=is_blank)
        self._follow_literal_text(self._line_head.strip())
        self._line_head, self._is_head_whole, self._backticks, self._quotes = "", True, 0, 0
        self._last_characters = ""

    def _follow_turns(self, *, is_blank: bool) -> None:
        self._is_transcript = self._is_transcript or bool(_USER_TURN_RE.match(self._line_head))
        turn = _ASSISTANT_TURN_RE.match(self._line_head) if self._is_transcript else None
        if turn is not None:
            self._is_in_turn, self._is_role_alone = True, not turn["text"].strip()
        elif not is_blank:
            self._is_role_alone = False
        elif not self._is_role_alone:
            self._is_in_turn = False

    def _follow_literal_text(self, line: str) -> None:
        if self._literal_end:
            if line.rstrip(";,)") == self._literal_end:
                self._literal_end = ""
        elif self._is_head_whole and (opening := _LITERAL_OPENING_RE.match(line)):
            delimiter = opening["delimiter"] or ""
            if not delimiter.startswith("-") or self._is_after_attributes:
                self._literal_end = opening["heredoc"] or opening["template"] or delimiter
        self._is_after_attributes = _ATTRIBUTES_RE.match(line) is not None
