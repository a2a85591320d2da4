"""Blocks of tool calls: commands with their output, all other tools, calls that still stream.

The beginning and the end of an output are visible, the rest is folded.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import TypeVar

from rich.text import Text

from joey.core.history.ui import Row, get_row_summary
from joey.core.parsing.json_stream import JsonStream
from joey.core.text import compile_regex, reveal, sanitize, split_lines
from joey.core.tool_calls import (
    COMMAND_TOOL_NAME,
    CallKind,
    ToolCallSummary,
    parse_plain_text,
    summarize_arguments,
    summarize_row_text,
)
from joey.presentation.phrases import describe_command_exit
from joey.presentation.tool_calls import (
    MAX_ASK_DIFF_LINES,
    MAX_DIFF_LINES,
    OUTPUT_HEAD_LINES,
    OUTPUT_TAIL_LINES,
    render_headline,
)
from joey.tui.blocks.block_layout import (
    CHUNK_LINES,
    Block,
    BlockPart,
    SingleLine,
    VerbatimLines,
    WrappedLine,
)
from joey.tui.blocks.diff import parse_diff, split_into_parts
from joey.tui.blocks.styled_text import TAB_SIZE, Span, Spans, clean_text, split_rich_text
from joey.tui.blocks.text import format_duration

MAX_SUBTASK_MESSAGE_LINES = 8
MAX_COMPACT_ROW_CHARS = 400
_INDENT: Spans = (("  ", ""),)
MIN_DISPLAYED_DURATION_S = 1.0


class CallBlock(Block):
    """A call, drawn from its row. Its output and results come later."""

    _output: OutputLines | None = None
    """What came from other rows than that of the call."""
    _duration_s = 0.0

    def __init__(self, row: Row) -> None:
        self.row = row

    def update_row(self, row: Row) -> None:
        """Update the row of the same call."""
        self.row = row
        self.invalidate()

    def append_output(self, output: str) -> None:
        self._output = self._output or OutputLines()
        self._output.feed(output)
        self.mark_grown()

    def set_output(self, output: str) -> None:
        """Set the complete output."""
        self._output = OutputLines(ensure_final_newline(output))
        self.invalidate()

    def set_duration(self, seconds: float) -> None:
        self._duration_s = seconds
        self.invalidate()

    def estimate_chars_and_line_breaks(self) -> tuple[int, int]:
        text = self.row.diff or self.row.text or ""
        return 0, min(MAX_DIFF_LINES, text.count("\n"))

    def build_stable_parts(self, *, expanded: bool) -> Sequence[BlockPart]:
        printed = self._choose_output(expanded=expanded)
        output = printed.build_stable_parts(expanded=expanded) if printed is not None else ()
        return [*self._build_header_parts(expanded=expanded), *output]

    def build_open_parts(self, *, expanded: bool) -> Sequence[BlockPart]:
        printed = self._choose_output(expanded=expanded)
        output = printed.build_open_parts(expanded=expanded) if printed is not None else ()
        return [*output, *self._build_footer_parts(expanded=expanded)]

    def _choose_output(self, *, expanded: bool) -> OutputLines | None:
        return self._output

    def _build_header_parts(self, *, expanded: bool) -> list[BlockPart]:
        return []

    def _build_footer_parts(self, *, expanded: bool) -> Iterator[BlockPart]:
        if self.row.approval_state == "rejected":
            outcome = "rejected" if self.row.is_answered else "not answered"
            yield WrappedLine([("  └ ", "muted"), (f"✗ {outcome}", "warning")], 4)

    def _is_rejected(self) -> bool:
        return self.row.approval_state == "rejected"


_OMISSION_RE = compile_regex(r"^\[\.\.\.\d+ bytes omitted\.\.\.\]$", re.MULTILINE)


class CommandBlock(CallBlock):
    output_loader: Callable[[], str | None] | None = None
    """Reads the output from where it is kept, when it was too long for its row."""
    _full_output: OutputLines | None = None
    _is_stopped = False

    def mark_stopped(self) -> bool:
        """Mark a command that the task's end has stopped; False if it had ended or never began."""
        if self.row.approval_state != "approved" or self.row.result is not None:
            return False
        self._is_stopped = True
        self.invalidate()
        return True

    def set_output(self, output: str) -> None:
        """Set the output. The row of a long output leaves out its middle; its lines were counted as
        they arrived."""
        seen = 0 if self._output is None else self._output.line_count
        line_count = seen if _OMISSION_RE.search(output) else None
        self._output = OutputLines(ensure_final_newline(output), line_count=line_count)
        self.invalidate()

    @property
    def _command(self) -> str:
        return parse_plain_text(COMMAND_TOOL_NAME, self.row.text or "")

    def _choose_output(self, *, expanded: bool) -> OutputLines | None:
        """Choose the output to draw. Stored output is only loaded while it is shown."""
        if not expanded:
            self._full_output = None
        elif self._full_output is None and self.row.result is not None and self.output_loader:
            text = self.output_loader()
            self._full_output = None if text is None else OutputLines(ensure_final_newline(text))
        return self._full_output or self._output

    def estimate_chars_and_line_breaks(self) -> tuple[int, int]:
        return 0, self._command.count("\n") + 4

    def _build_header_parts(self, *, expanded: bool) -> list[BlockPart]:
        first, *rest = reveal(self._command).expandtabs(TAB_SIZE).split("\n")
        directory = filter(None, [self.row.path])
        return [
            WrappedLine([("$ ", "mark bold"), (first, "bold")], 4),
            *(WrappedLine([("  ", ""), (line, "bold")], 4) for line in rest),
            *(WrappedLine([(f"  (in {sanitize(path)})", "muted")], 4) for path in directory),
        ]

    def _build_footer_parts(self, *, expanded: bool) -> Iterator[BlockPart]:
        if self._is_rejected():
            yield from super()._build_footer_parts(expanded=expanded)
            return
        is_stopped = self._is_stopped and self.row.result is None
        end = "stopped" if is_stopped else describe_command_exit(self.row)
        seconds = self._duration_s
        took = format_duration(seconds) if seconds >= MIN_DISPLAYED_DURATION_S else ""
        if outcome := " · ".join(filter(None, (end, took))):
            failed = self.row.exit_code or self.row.signal
            yield WrappedLine([("  └ ", "muted"), (outcome, "error" if failed else "muted")], 4)


class ToolCallBlock(CallBlock):
    @property
    def is_compact(self) -> bool:
        return self.row.diff is None and len(self.row.text or "") <= MAX_COMPACT_ROW_CHARS

    @property
    def _summary(self) -> ToolCallSummary:
        return get_row_summary(self.row) or summarize_row_text(
            self.row.tool or "", self.row.text or "", self.row.path
        )

    def _build_header_parts(self, *, expanded: bool) -> list[BlockPart]:
        row, summary = self.row, self._summary
        change = parse_diff(row.diff or summary.diff)
        first, *more = split_rich_text(Text.assemble(*render_headline(summary, "", None)))
        counts = [
            (f" {sign}{count}", style)
            for sign, style in (("+", "added"), ("-", "removed"))
            if (count := sum(line.sign == sign for line in change))
        ]
        pieces: list[BlockPart] = [
            WrappedLine([*first, *counts], 2),
            *(WrappedLine(line, 4) for line in more),
        ]
        if change:
            limit = MAX_ASK_DIFF_LINES if row.approval_state == "pending" else MAX_DIFF_LINES
            shown, hint = _fold(change, limit, expanded=expanded)
            return [*pieces, *split_into_parts(shown), *hint]
        lines, hint = _fold(
            [line.expandtabs(TAB_SIZE) for line in split_lines(sanitize(summary.message))],
            MAX_SUBTASK_MESSAGE_LINES,
            expanded=expanded,
        )
        return [*pieces, *(WrappedLine([*_INDENT, (line, "")], 2) for line in lines), *hint]

    def _build_footer_parts(self, *, expanded: bool) -> Iterator[BlockPart]:
        """Build the footer; most results are for the model, and only shown with all details."""
        result = self.row.result or ""
        custom = self._summary.is_custom
        if result and self._output is None and not self._is_rejected() and (expanded or custom):
            output = OutputLines(ensure_final_newline(result))
            yield from output.build_stable_parts(expanded=expanded)
            yield from output.build_open_parts(expanded=expanded)
        yield from super()._build_footer_parts(expanded=expanded)


class StreamingCallBlock(Block):
    """A call while its arguments stream: its subject, and its size so far."""

    @property
    def is_compact(self) -> bool:
        return True

    def __init__(self, tool: str) -> None:
        self._tool_name = tool
        self._arguments = JsonStream()
        self._line_count = 0

    def feed(self, text: str) -> None:
        self._arguments.feed(text)
        self._line_count += text.count("\\n") + text.count("\n")
        self.mark_grown()

    def build_open_parts(self, *, expanded: bool) -> Sequence[BlockPart]:
        summary = summarize_arguments(self._tool_name, self._arguments.parse_partial())
        if summary.kind is CallKind.EXECUTE:
            return [SingleLine([("$ ", "mark bold"), (f"{summary.subject}…", "bold")])]
        spans: list[Span] = [("● ", "mark"), (summary.title, "bold")]
        spans += [(f" {summary.subject}", "path")] if summary.subject else []
        spans.append((f" … {self._line_count} lines" if self._line_count > 1 else " …", "muted"))
        return [SingleLine(spans)]


T = TypeVar("T")


def _fold(lines: Sequence[T], limit: int, *, expanded: bool) -> tuple[Sequence[T], list[BlockPart]]:
    """Return the lines to show, and the hint that replaces the others."""
    if expanded or len(lines) <= limit + 1:
        return lines, []
    return lines[:limit], [build_fold_hint(len(lines) - limit)]


MAX_LINE_CHARS = 4_000
MAX_BUFFERED_LINES = 5_000
"""Of the beginning, and of the end."""
OUTPUT_MARGIN: Spans = (("  │ ", "muted"),)


def build_fold_hint(line_count: int) -> BlockPart:
    noun = "more line" if line_count == 1 else "more lines"
    return WrappedLine([(f"    … {line_count} {noun} (Ctrl+O)", "muted")], 4)


def _split_into_chunks(lines: Sequence[str]) -> list[BlockPart]:
    """Split many lines of output into pieces small enough to be drawn quickly."""
    return [
        VerbatimLines(lines[start : start + CHUNK_LINES], OUTPUT_MARGIN)
        for start in range(0, len(lines), CHUNK_LINES)
    ]


def ensure_final_newline(text: str) -> str:
    """Return a text whose last line is complete."""
    return text if not text or text.endswith("\n") else f"{text}\n"


class OutputLines:
    """Lines of streaming output; the first ones stay, of the rest the last ones are kept."""

    def __init__(self, text: str = "", *, line_count: int | None = None) -> None:
        """`line_count` is the number of lines before the middle of the text was left out; None
        means that nothing was, 0 that it is not known."""
        self._original_line_count = line_count
        self._unfinished_line = ""
        self._head_lines: list[str] = []
        self._tail_lines: deque[str] = deque(maxlen=MAX_BUFFERED_LINES)
        self._dropped_line_count = 0
        self._full_chunks: list[BlockPart] = []
        if text:
            self.feed(text)

    @property
    def line_count(self) -> int:
        fed = len(self._head_lines) + self._dropped_line_count + len(self._tail_lines)
        return max(self._original_line_count or 0, fed)

    def feed(self, text: str) -> None:
        rest, at = self._unfinished_line + text, 0
        while True:
            end = rest.find("\n", at, at + MAX_LINE_CHARS + 1)
            if end >= 0:
                self._append_line(rest[at:end])
                at = end + 1
            elif len(rest) - at > MAX_LINE_CHARS:
                self._append_line(rest[at : at + MAX_LINE_CHARS])
                at += MAX_LINE_CHARS
            else:
                self._unfinished_line = rest[at:]
                return

    def build_stable_parts(self, *, expanded: bool) -> Sequence[BlockPart]:
        if not expanded:
            return [
                VerbatimLines([line], OUTPUT_MARGIN)
                for line in self._head_lines[:OUTPUT_HEAD_LINES]
            ]
        built = len(self._full_chunks) * CHUNK_LINES
        full = len(self._head_lines) // CHUNK_LINES * CHUNK_LINES
        self._full_chunks += _split_into_chunks(self._head_lines[built:full])
        return self._full_chunks

    def build_open_parts(self, *, expanded: bool) -> list[BlockPart]:
        last = [clean_text(self._unfinished_line)] if self._unfinished_line else []
        if not expanded:
            return self._build_folded_parts(last)
        pieces = _split_into_chunks(self._head_lines[len(self._full_chunks) * CHUNK_LINES :])
        if self._dropped_line_count:
            pieces.append(
                WrappedLine([(f"  … {self._dropped_line_count} lines are left out …", "muted")], 4)
            )
        return [*pieces, *_split_into_chunks([*self._tail_lines, *last])]

    def _build_hint(self, hidden_line_count: int) -> BlockPart:
        if self._original_line_count == 0:
            return WrappedLine([("    … more lines (Ctrl+O)", "muted")], 4)
        return build_fold_hint(hidden_line_count)

    def _build_folded_parts(self, last: list[str]) -> list[BlockPart]:
        rest = self.line_count + len(last) - OUTPUT_HEAD_LINES
        if rest <= 0:
            return []
        tail = [*islice(reversed(self._tail_lines), OUTPUT_TAIL_LINES)][::-1]
        tail = [
            *self._head_lines[max(OUTPUT_HEAD_LINES, len(self._head_lines) - OUTPUT_TAIL_LINES) :],
            *tail,
            *last,
        ][-OUTPUT_TAIL_LINES:]
        if len(self._head_lines) < OUTPUT_HEAD_LINES:
            tail = last
        hidden = rest - len(tail)
        return [
            *([self._build_hint(hidden)] if hidden > 0 else []),
            VerbatimLines(tail, OUTPUT_MARGIN),
        ]

    def _append_line(self, line: str) -> None:
        line = clean_text(line)
        if len(self._head_lines) < MAX_BUFFERED_LINES:
            self._head_lines.append(line)
            return
        self._dropped_line_count += len(self._tail_lines) == MAX_BUFFERED_LINES
        self._tail_lines.append(line)
