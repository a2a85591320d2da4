"""Blocks of tool calls: commands with their output, all other tools, calls that still stream.

Of an output the beginning and the end are visible, the rest is folded.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any

from joey.core.events import ToolFinished
from joey.core.history.ui import Row
from joey.core.parsing.json_stream import JsonStream
from joey.core.text import split_lines
from joey.presentation.phrases import COMMAND_TOOL, describe_command_exit
from joey.presentation.text import sanitize, to_one_line
from joey.presentation.tool_calls import (
    MAX_ASK_DIFF_LINES,
    MAX_DIFF_LINES,
    OUTPUT_HEAD_LINES,
    OUTPUT_TAIL_LINES,
    decode_row,
    extract_change,
    extract_subtask_message,
    is_custom_tool_call,
    render_headline,
)
from joey.tui.blocks.block import (
    CHUNK_LINES,
    Block,
    BlockPart,
    SingleLine,
    VerbatimLines,
    WrappedLine,
    in_chunks,
)
from joey.tui.blocks.diff import in_pieces, read_change
from joey.tui.blocks.styled_text import TAB_SIZE, Span, Spans, from_text
from joey.tui.blocks.text import duration

MAX_SUBTASK_MESSAGE_LINES = 8
MAX_COMPACT_ROW_CHARS = 400
"""Characters of a row that needs one line, or little more."""
_EXIT_CODE_RE = re.compile(r"Exit code: (\d+)")
_INDENT: Spans = (("  ", ""),)
_MIN_DISPLAYED_DURATION_S = 1.0


class CallBlock(Block):
    """A call by its row. What it printed and what it brought comes later."""

    _output: OutputLines | None = None
    """What came from other rows than that of the call."""
    _seconds = 0.0

    def __init__(self, row: Row) -> None:
        self._row = row

    @property
    def row(self) -> Row:
        return self._row

    def put(self, row: Row) -> None:
        """The same call: something about it has changed."""
        self._row = row
        self.change()

    def append_output(self, output: str) -> None:
        """More output."""
        self._output = self._output or OutputLines()
        self._output.feed(output)
        self.grow()

    def set_output(self, output: str) -> None:
        """The output, once it is over."""
        self._output = OutputLines(ended(output))
        self.change()

    def took(self, seconds: float) -> None:
        self._seconds = seconds
        self.change()

    def size(self) -> tuple[int, int]:
        text = self._row.diff or self._row.text or ""
        return 0, min(MAX_DIFF_LINES, text.count("\n"))

    def settled(self, *, whole: bool) -> Sequence[BlockPart]:
        printed = self._printed(whole=whole)
        output = printed.settled(whole=whole) if printed is not None else ()
        return [*self._above(whole=whole), *output]

    def open(self, *, whole: bool) -> Sequence[BlockPart]:
        printed = self._printed(whole=whole)
        output = printed.open(whole=whole) if printed is not None else ()
        return [*output, *self._below(whole=whole)]

    def _printed(self, *, whole: bool) -> OutputLines | None:
        return self._output

    def _above(self, *, whole: bool) -> list[BlockPart]:
        return []

    def _below(self, *, whole: bool) -> Iterator[BlockPart]:
        if self._row.approval_state == "rejected":
            said = "rejected" if self._row.is_answered else "not answered"
            yield WrappedLine([("  └ ", "muted"), (f"✗ {said}", "warning")], 4)

    def _is_rejected(self) -> bool:
        return self._row.approval_state == "rejected"


class CommandBlock(CallBlock):
    _kept: Callable[[], str | None] | None = None
    """Reads the output from where it is kept, when it was too long for its row."""
    _whole: OutputLines | None = None

    def keep(self, kept: Callable[[], str | None]) -> None:
        self._kept = kept

    def _printed(self, *, whole: bool) -> OutputLines | None:
        """What is kept is only at hand while it is shown."""
        if not whole:
            self._whole = None
        elif self._whole is None and self._row.result is not None and self._kept is not None:
            kept = self._kept()
            self._whole = None if kept is None else OutputLines(ended(kept))
        return self._whole or self._output

    def size(self) -> tuple[int, int]:
        return 0, (self._row.text or "").count("\n") + 4

    def _above(self, *, whole: bool) -> list[BlockPart]:
        first, *rest = sanitize(self._row.text or "").expandtabs(TAB_SIZE).split("\n")
        return [
            WrappedLine([("$ ", "mark bold"), (first, "bold")], 4),
            *(WrappedLine([("  ", ""), (line, "bold")], 4) for line in rest),
        ]

    def _below(self, *, whole: bool) -> Iterator[BlockPart]:
        if self._is_rejected():
            yield from super()._below(whole=whole)
            return
        content = self._row.result or ""
        found = _EXIT_CODE_RE.search(content[:400])
        end = describe_command_exit(
            ToolFinished(
                ts=self._row.ts,
                call_id="",
                tool=COMMAND_TOOL,
                content=content,
                exit_code=int(found[1]) if found else None,
            )
        )
        took = duration(self._seconds) if self._seconds >= _MIN_DISPLAYED_DURATION_S else ""
        if outcome := " · ".join(filter(None, (end, took))):
            failed = end.startswith(("exit", "ended"))
            yield WrappedLine([("  └ ", "muted"), (outcome, "error" if failed else "muted")], 4)


class ToolCallBlock(CallBlock):
    @property
    def is_brief(self) -> bool:
        return self._row.diff is None and len(self._row.text or "") <= MAX_COMPACT_ROW_CHARS

    def _above(self, *, whole: bool) -> list[BlockPart]:
        row = self._row
        tool, text = row.tool or "", row.text or ""
        if tool == "update_todo_list":
            return [SingleLine(_todos(text))]
        change = read_change(extract_change(tool, text, row.diff))
        first, *more = from_text(render_headline(tool or _named(text), text, row.path))
        counts = _counts(change.added, change.removed) if change.lines else ()
        pieces: list[BlockPart] = [
            WrappedLine([*first, *counts], 2),
            *(WrappedLine(line, 4) for line in more),
        ]
        if change.lines:
            limit = MAX_ASK_DIFF_LINES if row.approval_state == "pending" else MAX_DIFF_LINES
            limit = len(change.lines) if whole or len(change.lines) <= limit + 1 else limit
            pieces += in_pieces(change.lines[:limit])
            if hidden := len(change.lines) - limit:
                pieces.append(folded(hidden))
        elif message := extract_subtask_message(text):
            pieces += _build_message_parts(message, whole=whole)
        return pieces

    def _below(self, *, whole: bool) -> Iterator[BlockPart]:
        """Most results are for the model, and only shown when everything is."""
        result = self._row.result or ""
        custom = is_custom_tool_call(self._row.text or "")
        if result and self._output is None and not self._is_rejected() and (whole or custom):
            output = OutputLines(ended(result))
            yield from output.settled(whole=whole)
            yield from output.open(whole=whole)
        yield from super()._below(whole=whole)


class StreamingCallBlock(Block):
    """A call while its arguments come: what it is about, and how long it has become."""

    @property
    def is_brief(self) -> bool:
        return True

    def __init__(self, tool: str) -> None:
        self._tool = tool
        self._arguments = JsonStream()
        self._lines = 0

    def feed(self, text: str) -> None:
        self._arguments.feed(text)
        self._lines += text.count("\\n") + text.count("\n")
        self.grow()

    def open(self, *, whole: bool) -> Sequence[BlockPart]:
        arguments = self._arguments.parse_partial()
        if self._tool == COMMAND_TOOL:
            command = to_one_line(_argument(arguments, "command"), 400)
            return [SingleLine([("$ ", "mark bold"), (f"{command}…", "bold")])]
        about = to_one_line(
            next(filter(None, (_argument(arguments, key) for key in _SUMMARY_ARGUMENTS)), ""), 160
        )
        spans: list[Span] = [("● ", "mark"), (sanitize(self._tool), "bold")]
        spans += [(f" {about}", "path")] if about else []
        spans.append((f" … {self._lines} lines" if self._lines > 1 else " …", "muted"))
        return [SingleLine(spans)]


_SUMMARY_ARGUMENTS = (
    "path",
    "regex",
    "query",
    "mode_slug",
    "mode",
    "url",
    "question",
    "server_name",
)


def _argument(arguments: dict[str, Any], key: str) -> str:
    value = arguments.get(key)
    return value if isinstance(value, str) else ""


def _named(text: str) -> str:
    """Rows that others wrote name their tool in their text alone."""
    return str(decode_row(text).get("tool") or "tool")


def _counts(added: int, removed: int) -> Iterator[Span]:
    if added:
        yield f" +{added}", "added"
    if removed:
        yield f" -{removed}", "removed"


def _build_message_parts(text: str, *, whole: bool) -> list[BlockPart]:
    lines = [line.expandtabs(TAB_SIZE) for line in split_lines(sanitize(text))]
    limit = (
        len(lines)
        if whole or len(lines) <= MAX_SUBTASK_MESSAGE_LINES + 1
        else MAX_SUBTASK_MESSAGE_LINES
    )
    shown: list[BlockPart] = [WrappedLine([*_INDENT, (line, "")], 2) for line in lines[:limit]]
    return [*shown, folded(len(lines) - limit)] if limit < len(lines) else shown


def _todos(text: str) -> Spans:
    """One quiet line: how far the list is, and what is done now."""
    listed = decode_row(text).get("todos")
    todos = [todo for todo in listed if isinstance(todo, dict)] if isinstance(listed, list) else []
    done = sum(todo.get("status") == "completed" for todo in todos)
    now = next((todo for todo in todos if todo.get("status") == "in_progress"), None)
    spans: list[Span] = [("☑ ", "mark"), (f"todo list: {done} of {len(todos)} done", "muted")]
    if now is not None:
        spans.append((f" · now: {to_one_line(str(now.get('content') or ''), 160)}", "muted"))
    return spans


MAX_LINE_CHARS = 4_000
MAX_BUFFERED_LINES = 5_000
"""Lines of the beginning and of the end that are at hand."""
OUTPUT_MARGIN: Spans = (("  │ ", "muted"),)


def folded(lines: int, what: str = "more lines") -> BlockPart:
    noun = what.removesuffix("s") if lines == 1 else what
    return WrappedLine([(f"    … {lines} {noun} (Ctrl+O)", "muted")], 4)


def ended(text: str) -> str:
    """A text whose last line is whole."""
    return text if not text or text.endswith("\n") else f"{text}\n"


class OutputLines:
    """Lines as they come; the first ones stay, of the rest the last ones are kept."""

    def __init__(self, text: str = "") -> None:
        self._unfinished = ""
        self._first: list[str] = []
        self._last: deque[str] = deque(maxlen=MAX_BUFFERED_LINES)
        self._lost = 0
        self._chunks: list[BlockPart] = []
        if text:
            self.feed(text)

    @property
    def is_empty(self) -> bool:
        return not self._first and not self._unfinished

    def feed(self, text: str) -> None:
        rest, at = self._unfinished + text, 0
        while True:
            end = rest.find("\n", at, at + MAX_LINE_CHARS + 1)
            if end >= 0:
                self._put(rest[at:end])
                at = end + 1
            elif len(rest) - at > MAX_LINE_CHARS:
                self._put(rest[at : at + MAX_LINE_CHARS])
                at += MAX_LINE_CHARS
            else:
                self._unfinished = rest[at:]
                return

    def settled(self, *, whole: bool) -> Sequence[BlockPart]:
        if not whole:
            return [
                VerbatimLines([line], OUTPUT_MARGIN) for line in self._first[:OUTPUT_HEAD_LINES]
            ]
        full = len(self._first) // CHUNK_LINES
        while len(self._chunks) < full:
            start = len(self._chunks) * CHUNK_LINES
            self._chunks.append(
                VerbatimLines(self._first[start : start + CHUNK_LINES], OUTPUT_MARGIN)
            )
        return self._chunks

    def open(self, *, whole: bool) -> list[BlockPart]:
        last = [_clean(self._unfinished)] if self._unfinished else []
        if not whole:
            return self._folded(last)
        pieces = in_chunks(self._first[len(self._chunks) * CHUNK_LINES :], OUTPUT_MARGIN)
        if self._lost:
            pieces.append(WrappedLine([(f"  … {self._lost} lines are left out …", "muted")], 4))
        return [*pieces, *in_chunks([*self._last, *last], OUTPUT_MARGIN)]

    def _folded(self, last: list[str]) -> list[BlockPart]:
        rest = len(self._first) - OUTPUT_HEAD_LINES + self._lost + len(self._last) + len(last)
        if rest <= 0:
            return []
        tail = [*islice(reversed(self._last), OUTPUT_TAIL_LINES)][::-1]
        tail = [
            *self._first[max(OUTPUT_HEAD_LINES, len(self._first) - OUTPUT_TAIL_LINES) :],
            *tail,
            *last,
        ][-OUTPUT_TAIL_LINES:]
        if len(self._first) < OUTPUT_HEAD_LINES:
            tail = last
        hidden = rest - len(tail)
        return [*([folded(hidden)] if hidden > 0 else []), VerbatimLines(tail, OUTPUT_MARGIN)]

    def _put(self, line: str) -> None:
        line = _clean(line)
        if len(self._first) < MAX_BUFFERED_LINES:
            self._first.append(line)
            return
        self._lost += len(self._last) == MAX_BUFFERED_LINES
        self._last.append(line)


def _clean(line: str) -> str:
    return sanitize(line).expandtabs(TAB_SIZE)
