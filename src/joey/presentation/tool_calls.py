"""Tool calls as the user must see them to decide: a headline, the change, the output."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from rich.text import Text

from joey.core.events import AskOpened, ToolStarted
from joey.core.text import sanitize, split_lines
from joey.core.tool_calls import CallKind, ToolCallSummary, get_summary
from joey.presentation.text import find_line_breaks

MAX_DIFF_LINES = 40
"""Of a change that the rules allow."""
MAX_ASK_DIFF_LINES = 400
"""Of a change that a user is asked about."""
OUTPUT_HEAD_LINES = 20
OUTPUT_TAIL_LINES = 5


def render_call_card(event: ToolStarted | AskOpened, *, is_ask: bool) -> Text:
    """A headline, and below it the change if there is one. A command is always shown whole."""
    summary = get_summary(event)
    shown = render_headline(summary, event.text, event.path)
    limit = MAX_ASK_DIFF_LINES if is_ask else MAX_DIFF_LINES
    if change := event.diff or summary.diff:
        shown.append("\n").append_text(render_diff(change, limit))
    elif summary.message:
        shown.append("\n").append_text(_render_indented(summary.message, limit))
    return shown


def render_headline(summary: ToolCallSummary, command: str, directory: str | None) -> Text:
    """A command is shown whole, and so are arguments: a user decides about them."""
    if summary.kind is CallKind.EXECUTE:
        lines = sanitize(command).replace("\n", "\n  ")
        shown = Text.assemble(("$ ", "bold cyan"), (lines, "bold"))
        return shown.append(f"\n  (in {sanitize(directory)})", "dim") if directory else shown
    shown = Text.assemble(("● ", "cyan"), (sanitize(summary.title), "bold"))
    for detail in filter(None, (summary.subject, summary.arguments)):
        shown.append(f" {sanitize(detail)}", "cyan")
    return shown


def wrap_text(text: Text, width: int | None, extra_indent: int = 0) -> Text:
    """The text with its lines broken between words (see `find_line_breaks`); None leaves them as
    they are."""
    if width is None:
        return text
    lines: list[Text] = []
    for line in text.split("\n", allow_blank=True):
        hang, pieces = find_line_breaks(line.plain, width, extra_indent)
        for number, (start, end) in enumerate(pieces):
            piece = line[start:end]
            lines.append(piece if number == 0 else Text(" " * hang).append_text(piece))
    return Text("\n").join(lines)


def render_diff(diff: str, limit: int) -> Text:
    """At most `limit` lines of a diff, then how many more there are."""
    lines = split_lines(sanitize(diff))
    shown = Text("\n").join(Text(f"  {line}", _get_diff_style(line)) for line in lines[:limit])
    if len(lines) > limit:
        shown.append(f"\n  … {len(lines) - limit} more lines", "dim")
    return shown


def _render_indented(text: str, limit: int) -> Text:
    """What a subtask is told."""
    lines = split_lines(sanitize(text))
    shown = "\n".join(f"  {line}" for line in lines[:limit])
    more = f"\n  … {len(lines) - limit} more lines" if len(lines) > limit else ""
    return Text(shown + more)


def _get_diff_style(line: str) -> str:
    if line.startswith(("+++", "---", "diff ", "index ")):
        return "dim"
    match line[:1]:
        case "+":
            return "green"
        case "-":
            return "red"
        case "@":
            return "cyan"
        case _:
            return ""


class CommandOutputPreview:
    """Output as it comes, in whole lines: the first ones at once, of the rest the last ones."""

    def __init__(self) -> None:
        self._partial_line = ""
        self._head_count = 0
        self._tail_lines: deque[str] = deque(maxlen=OUTPUT_TAIL_LINES)
        self._omitted_count = 0

    def feed(self, output: str) -> Iterator[str]:
        """The lines to show now."""
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
        """The lines that were held back, once nothing more can come."""
        if self._partial_line:
            yield from self.feed("\n")
        if self._omitted_count:
            yield f"… {self._omitted_count} lines left out …"
        yield from self._tail_lines
