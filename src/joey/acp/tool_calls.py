"""Tool calls as editors show them: kind, title, locations, diffs, text.

Events carry unified diffs with a few lines around each change; an editor gets the text before and
after, one pair for each hunk. A pair holds the lines of one hunk; of a new file, all lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, cast

from msgspec import Struct

from acp import schema
from joey.core.events import AskOpened, ToolFinished, ToolStarted
from joey.core.text import reveal, sanitize
from joey.core.tool_calls import (
    COMMAND_TOOL_NAME,
    EDIT_KINDS,
    CallKind,
    ToolCallSummary,
    get_summary,
    summarize_arguments,
)
from joey.presentation.phrases import describe_command_exit, describe_error

HIDDEN_TOOLS = frozenset({"attempt_completion", "ask_followup_question", "update_todo_list"})
"""Their outcome is told otherwise: as the agent's words, and as its plan."""

ToolCallContent = schema.ContentToolCallContent | schema.FileEditToolCallContent


class ToolCallView(Struct, frozen=True):
    """A call as far as it is known after its tool has prepared it."""

    kind: schema.ToolKind
    title: str
    content: tuple[ToolCallContent, ...] = ()
    locations: tuple[schema.ToolCallLocation, ...] = ()
    raw_input: Any = None


def build_initial_view(tool: str) -> ToolCallView:
    """Build the view of a call that the model is still writing."""
    summary = summarize_arguments(tool, {})
    return ToolCallView(_get_kind(summary), summary.headline)


def build_prepared_view(
    event: ToolStarted | AskOpened, arguments: dict[str, Any], workspace: Path
) -> ToolCallView:
    """Build the view of a prepared call with everything the user needs to decide."""
    summary = get_summary(event)
    diff = event.diff or summary.diff
    strings = (value for value in arguments.values() if isinstance(value, str))
    hunks = fix_final_newlines(parse_hunks(event.path, diff), strings)
    edits = tuple(
        schema.FileEditToolCallContent(
            type="diff",
            path=str(workspace / hunk.path),
            old_text=hunk.old_text,
            new_text=hunk.new_text,
        )
        for hunk in hunks
    )
    places: list[tuple[str, int | None]] = [(each.path, each.line) for each in summary.files]
    if hunks:
        places = [(hunk.path, hunk.first_changed_line) for hunk in hunks]
    is_command = summary.kind is CallKind.EXECUTE
    ticks = "" if not is_command else "``" if "`" in summary.subject else "`"
    given = arguments or ({"command": event.text} if is_command else None)
    return ToolCallView(
        _get_kind(summary),
        f"{summary.title} {ticks}{summary.subject}{ticks}".rstrip(),
        edits or tuple(_iter_text_content(summary, event.text, diff)),
        tuple(
            schema.ToolCallLocation(path=str(workspace / path), line=line) for path, line in places
        ),
        None if summary.kind in EDIT_KINDS else given,
    )


def _get_kind(summary: ToolCallSummary) -> schema.ToolKind:
    kind = CallKind.EDIT if summary.kind is CallKind.CREATE else summary.kind
    return cast("schema.ToolKind", kind.value)


def _iter_text_content(
    summary: ToolCallSummary, text: str, diff: str
) -> Iterator[schema.ContentToolCallContent]:
    """Iterate over the text of a call that has no diff."""
    if summary.kind is CallKind.EXECUTE:
        yield build_text_content(format_code_block(text, "sh", unlimited=True))
    if diff:
        yield build_text_content(format_code_block(diff, "diff"))
    if summary.arguments:
        yield build_text_content(format_code_block(summary.arguments, "json", unlimited=True))
    if summary.message:
        yield build_text_content(format_code_block(summary.message))


def build_text_content(text: str) -> schema.ContentToolCallContent:
    block = schema.TextContentBlock(type="text", text=text)
    return schema.ContentToolCallContent(type="content", content=block)


def build_terminal_content(terminal_id: str) -> schema.TerminalToolCallContent:
    return schema.TerminalToolCallContent(type="terminal", terminal_id=terminal_id)


def build_image_block(data_uri: str) -> schema.ImageContentBlock:
    head, _, data = data_uri.partition(",")
    media = head.removeprefix("data:").partition(";")[0]
    return schema.ImageContentBlock(type="image", mime_type=media, data=data)


def build_image_contents(data_uris: Iterable[str]) -> Iterable[schema.ContentToolCallContent]:
    for uri in data_uris:
        yield schema.ContentToolCallContent(type="content", content=build_image_block(uri))


def build_outcome_contents(
    event: ToolFinished, output: str, terminal_id: str | None
) -> Iterable[schema.ContentToolCallContent | schema.TerminalToolCallContent]:
    """Build the outcome of a call for the user; `output` is what a command printed, `terminal_id`
    the editor's terminal that showed it."""
    end = describe_command_exit(event) if event.tool == COMMAND_TOOL_NAME else ""
    has_run = bool(output or end) or event.exit_code is not None
    result_text = describe_error(event.content) if event.is_error else event.content
    shown = output if has_run else result_text
    if terminal_id is not None:
        yield build_terminal_content(terminal_id)
    elif shown.strip():
        yield build_text_content(format_code_block(shown))
    if end:
        yield build_text_content(end)


_HUNK_HEADER_RE = re.compile(r"@@ -\d+(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_NEW_FILE_HEADER = "--- /dev/null"


class DiffHunk(Struct, frozen=True):
    path: str
    old_text: str | None
    """None: the file is new."""
    new_text: str
    first_changed_line: int
    """Where the change begins, in the file as it will be."""


def parse_hunks(path: str | None, diff: str) -> list[DiffHunk]:
    """Parse the hunks of a diff. `path` is None for a diff of several files, which names each."""
    hunks: list[DiffHunk] = []
    hunk: _HunkBuilder | None = None
    name, is_new = path or "", False
    for line in diff.split("\n"):
        if hunk is not None:
            hunk.add_line(line)
        elif line.startswith("--- "):
            is_new = line == _NEW_FILE_HEADER
        elif line.startswith("+++ "):
            name = path or line[4:]
            if is_new:
                hunks.append(DiffHunk(name, None, "", 1))
        elif name and (found := _HUNK_HEADER_RE.match(line)):
            hunk = _HunkBuilder(*(int(number or 1) for number in found.groups()))
        if hunk is not None and hunk.is_complete:
            if is_new:
                hunks.pop()
            hunks.append(hunk.build(name, is_new=is_new))
            hunk = None
    return hunks


def fix_final_newlines(hunks: Iterable[DiffHunk], contents: Iterable[str]) -> list[DiffHunk]:
    """Restore whether a new file ends with a newline: the model's own `contents` show it, a diff
    does not."""
    exact = {content.replace("\r\n", "\n") for content in contents}
    return [
        DiffHunk(hunk.path, None, hunk.new_text[:-1], hunk.first_changed_line)
        if hunk.old_text is None and hunk.new_text not in exact and hunk.new_text[:-1] in exact
        else hunk
        for hunk in hunks
    ]


class _HunkBuilder:
    def __init__(self, old_count: int, start: int, new_count: int) -> None:
        self._old_lines: list[str] = []
        self._new_lines: list[str] = []
        self._old_count, self._new_count = old_count, new_count
        self._start_line = max(1, start)
        self._first_changed_line: int | None = None

    @property
    def is_complete(self) -> bool:
        return len(self._old_lines) >= self._old_count and len(self._new_lines) >= self._new_count

    def add_line(self, line: str) -> None:
        sign, text = line[:1], line[1:]
        if sign in ("-", "+") and self._first_changed_line is None:
            self._first_changed_line = self._start_line + len(self._new_lines)
        if sign in (" ", "-"):
            self._old_lines.append(text)
        if sign in (" ", "+"):
            self._new_lines.append(text)

    def build(self, path: str, *, is_new: bool) -> DiffHunk:
        old, new = (
            "".join(f"{line}\n" for line in lines) for lines in (self._old_lines, self._new_lines)
        )
        return DiffHunk(
            path, None if is_new else old, new, self._first_changed_line or self._start_line
        )


MAX_CODE_BLOCK_CHARS = 32 * 1024
_CODE_FENCE_RE = re.compile(r"^ {0,3}(`{3,})", re.MULTILINE)


def format_code_block(text: str, language: str = "", *, unlimited: bool = False) -> str:
    """Format a code block with a fence longer than any in the text; `unlimited` keeps all of it,
    for decisions."""
    text = reveal(text) if unlimited else sanitize(text)
    if len(text) > MAX_CODE_BLOCK_CHARS and not unlimited:
        half = MAX_CODE_BLOCK_CHARS // 2
        text = f"{text[:half]}\n[…{len(text) - 2 * half} characters left out…]\n{text[-half:]}"
    longest = max((len(match[1]) for match in _CODE_FENCE_RE.finditer(text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}{language}\n{text.rstrip()}\n{fence}"
