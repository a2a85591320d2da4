"""Tool calls with everything that users need to decide: a headline, the change, the output."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from joey.core.events import AskOpened, ToolStarted
from joey.core.text import reveal, sanitize, split_lines
from joey.core.tool_calls import CallKind, ToolCallSummary, get_summary
from joey.presentation.text import Piece, to_one_line

MAX_DIFF_LINES = 40
"""Of a change that the rules allow."""
MAX_ASK_DIFF_LINES = 400
"""Of a change that a user is asked about."""
OUTPUT_HEAD_LINES = 20
OUTPUT_TAIL_LINES = 5
_MAX_LINE_CHARS = 400


def render_call_card(event: ToolStarted | AskOpened, *, is_ask: bool) -> list[Piece]:
    """Render a headline, followed by the change, if any. A command is always shown completely."""
    summary = get_summary(event)
    shown = render_headline(summary, event.text, event.path)
    change = event.diff or summary.diff
    lines = split_lines(reveal(change or summary.message or ""))
    limit = MAX_ASK_DIFF_LINES if is_ask else MAX_DIFF_LINES
    for line in lines[:limit]:
        shown += [("\n", ""), (f"  {line}", _get_diff_style(line) if change else "")]
    if len(lines) > limit:
        shown.append((f"\n  … {len(lines) - limit} more lines", "dim"))
    return shown


def render_headline(summary: ToolCallSummary, command: str, directory: str | None) -> list[Piece]:
    """Render the headline. A command and arguments are shown completely, because a user decides
    about them."""
    if summary.kind is CallKind.EXECUTE:
        shown = [("$ ", "bold cyan"), (reveal(command).replace("\n", "\n  "), "bold")]
        return [*shown, (f"\n  (in {sanitize(directory)})", "dim")] if directory else shown
    details = filter(None, (summary.subject, summary.arguments))
    return [
        ("● ", "cyan"),
        (sanitize(summary.title), "bold"),
        *((f" {sanitize(detail)}", "cyan") for detail in details),
    ]


def _get_diff_style(line: str) -> str:
    if line.startswith(("+++", "---", "diff ", "index ")):
        return "dim"
    return {"+": "green", "-": "red", "@": "cyan"}.get(line[:1], "")


class CommandOutputPreview:
    """Shows streaming output in whole lines: the first ones at once, of the rest the last ones."""

    def __init__(self) -> None:
        self._partial_line = ""
        self._head_count = 0
        self._tail_lines: deque[str] = deque(maxlen=OUTPUT_TAIL_LINES)
        self._omitted_count = 0

    def feed(self, output: str) -> Iterator[str]:
        """Add output and return the lines to show now."""
        *lines, self._partial_line = (self._partial_line + sanitize(output)).split("\n")
        self._partial_line = self._partial_line[-10_000:]
        for line in lines:
            if self._head_count < OUTPUT_HEAD_LINES:
                self._head_count += 1
                yield line
            else:
                self._omitted_count += len(self._tail_lines) == OUTPUT_TAIL_LINES
                self._tail_lines.append(line)

    def close(self) -> Iterator[str]:
        """Return the lines that were held back, at the end."""
        if self._partial_line:
            yield from self.feed("\n")
        if self._omitted_count:
            yield f"… {self._omitted_count} lines left out …"
        yield from self._tail_lines


def describe_call(event: ToolStarted | AskOpened) -> str:
    """Describe a call in one line."""
    summary = get_summary(event)
    if summary.kind is CallKind.EXECUTE:
        return f"$ {summary.subject}"
    return f"· {to_one_line(f'{summary.headline} {summary.arguments}', _MAX_LINE_CHARS)}"
